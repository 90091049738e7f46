"""Forecasts as tables, sentences and figures: numbers of the records, true in every case."""

from __future__ import annotations

import numpy as np
import pytest

from judgebench.report.figures.forecasts import forecast_figures
from judgebench.report.views.answers import flags
from judgebench.report.views.forecasts import (
    ABSTENTION,
    FORECASTS,
    forecast_frame,
    forecast_sentences,
    leading,
    mass_sentences,
)
from judgebench.results.results import Results
from judgebench.results.schema import is_ours
from judgebench.stats.forecasts import forecast_records, with_silent
from tests.stats.sides import cell, side


def results(*sides, **more):
    """Results of some sides, each with its row of metrics."""
    metrics = [
        {**one.head, "level": "dataset", "spearman": 0.5 - place / 10, "flags": [], "groups": 12}
        | {f"spearman{end}": 0.1 for end in ("_low", "_high")}
        for place, one in enumerate(sides)
    ]
    found = forecast_records(sides)
    about = {"scale": {"coherence": (1.0, 5.0)}, "titles": {"main": "Small-1B"}}
    return Results(**({"forecasts": found, "metrics": with_silent(metrics, found), "about": about} | more))


def knowing(share=0.9, noise=0.0, groups=24):
    """A judge that gives the raters' one score a share, and is wrong as often as it says, but for some noise."""
    said = side().ratings[:, 0]
    rng = np.random.default_rng(5)
    right = rng.random(60) < share - noise
    favorite = np.where(right, said, said % 5 + 1).astype(int)
    p = np.full((60, 5), (1 - share) / 4)
    p[np.arange(60), favorite - 1] = share
    return side({"main": np.log(p)}, favorite.astype(float), ratings=said[:, None], groups=groups)


def test_tables_show_the_numbers_of_the_records():
    made = results(side(), side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60)))
    (record, _) = made.forecasts
    table = FORECASTS.tables(made)[0]
    assert table.heads == ["range", "judge", "RPS", "other raters", "skill", "ECE", "confidence", "confirmed", "mass"]
    assert [row[0].text for row in table.sections[0].rows] == ["0-4", "1-5"]
    shown = dict(zip(table.heads, (cell.text for cell in table.sections[0].rows[1]), strict=True))
    assert shown["RPS"] == f"{record['rps']:.3f}"
    assert shown["mass"] == f"{100 * record['mass']:.0f} %"
    kept = ABSTENTION.tables(made)[0]
    shown = dict(zip(kept.heads, (cell.text for cell in kept.sections[0].rows[1]), strict=True))
    assert shown["80 % kept"] == f"{record['curve'][7]['risk']:.2f}"
    assert shown["error"] == f"{record['risk']:.2f}"
    assert "The intervals are the whole scale: shorter ones take 18 groups" in kept.note


def test_overconfidence_is_told_with_its_interval_and_an_example():
    made = results(knowing(0.9, noise=0.4))
    (record,) = made.forecasts
    first, _ = forecast_sentences(made)
    assert first.startswith(
        "coherence, main in range 1-5: its probabilities are overconfident: it gives its likeliest score 90 % on "
        f"average, and the humans give that score in {100 * record['confirmed']:.0f} % of ratings (difference "
    )
    assert "where it says 90 %, the humans agree in " in first
    (modest,) = [one for one in forecast_sentences(results(knowing(0.5, noise=-0.4))) if "modest" in one]
    assert "it gives its likeliest score 50 % on average" in modest
    (right,) = [one for one in forecast_sentences(results(knowing(0.9))) if "confidence is not clearly wrong" in one]
    assert "better than the shares that the humans give over all texts" in right


def test_a_person_is_sent_the_unsure_texts_only_where_that_helps():
    rng = np.random.default_rng(2)
    said, sure = side().ratings[:, 0], rng.random(60)
    p = np.exp(-(0.2 + 8 * sure[:, None] ** 2) * np.abs(np.arange(1, 6) - said[:, None]))
    helped = results(side({"main": np.log(p / p.sum(axis=1, keepdims=True))}, ratings=said[:, None], groups=20))
    (record,) = helped.forecasts
    _, told = forecast_sentences(helped)
    assert "send the 20 % of texts on which it is least sure to a person, and its error falls from " in told
    assert f"from {record['risk']:.2f} to {record['curve'][7]['risk']:.2f} points on the humans' scale 1-5." in told
    assert "(90 % were asked for)" in told
    even = results(side({"main": np.log(np.full((60, 5), 0.2))}))
    assert any("it does not clearly err more where it is less sure" in s for s in forecast_sentences(even))


def test_few_groups_claim_nothing():
    (first, *rest) = forecast_sentences(results(side(groups=3)))
    assert first.endswith("with so few groups it is unknown whether its probabilities are right.")
    assert all("does not clearly err more" in one for one in rest)


@pytest.mark.parametrize(
    "more",
    [
        {"logprobs": {}, "scores": np.full(60, 3.0)},
        {"ratings": side().human[:, None], "raters": ()},
        {"scale": None},
        {"groups": 1},
        {"ratings": np.full((60, 1), np.nan), "raters": ()},
    ],
)
def test_what_is_not_known_is_not_shown(more):
    made = results(side(**more))
    for view in (FORECASTS, ABSTENTION):
        assert all("nan" not in str(cell) for one in view.tables(made) for row in one.sections[0].rows for cell in row)
    for sentence in (*forecast_sentences(made), *mass_sentences(made)):
        assert "None" not in sentence
        assert "- %" not in sentence
    forecast_figures(made)


def test_nothing_is_shown_of_nothing():
    empty = Results()
    assert FORECASTS(empty) == ABSTENTION(empty) == []
    assert forecast_sentences(empty) == mass_sentences(empty) == []
    assert forecast_figures(empty) == {}
    assert not len(forecast_frame(empty))


def test_a_judge_that_does_not_answer_is_told_and_flagged():
    quiet = side({"main": np.log(np.full((60, 5), 0.006))})
    loud = side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60))
    made = results(quiet, loud)
    assert mass_sentences(made) == [
        "coherence: main (Small-1B) does not answer with a score in range 1-5: 3 % of its probability lies on scores, "
        "and all that is said of its scores is said of that share."
    ]
    (block,) = [one for one in flags(made) if getattr(one, "warning", "") == "not answering"]
    assert block.text.startswith("most of the judge's probability lies on other texts than scores")
    assert block.text.endswith("coherence, range 1-5: main, expectation.")
    (told,) = mass_sentences(results(loud))
    assert told == "coherence: 90 % of the probability of main (Small-1B) lies on scores."
    (fine,) = flags(results(loud))
    assert "answers with other texts than scores" in fine.text


def test_the_leading_cell_is_the_main_models_best():
    first, second = side(), side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60))
    pair = side(cell=cell("assistant"))
    assert [one["range"] for one in leading(results(second, first))] == ["0-4"]
    (lead,) = leading(results(pair, first))
    assert lead["judge"] == "main"
    (lead,) = leading(results(pair))
    assert lead["judge"] == "assistant"


def test_figures_are_drawn_and_named_as_the_run_folder_knows_them():
    made = results(side(), side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60)))
    found = forecast_figures(made)
    assert list(found) == ["reliability_coherence", "abstention_coherence"]
    assert all(is_ours("figures", f"{name}.svg") for name in found)
    reliability, abstention = found.values()
    assert [axis.get_title(loc="left") for axis in reliability.axes] == ["range 0-4", "range 1-5"]
    (record, _) = made.forecasts
    drawn = abstention.axes[1].lines[0].get_xydata()
    assert drawn[:, 1].tolist() == [one["risk"] for one in record["curve"]]
    points = reliability.axes[1].collections[-1].get_offsets()
    assert points[:, 1].tolist() == pytest.approx([one["observed"] for one in record["diagram"]])
