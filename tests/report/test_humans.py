"""The humans beside the judges: rows, sentences, the figure, and the run folder that they come from."""

from __future__ import annotations

import json

import numpy as np
import pytest

from judgebench.report.figures.scores import correlation_figure
from judgebench.report.formats import three
from judgebench.report.views.answers import best_sentences
from judgebench.report.views.correlations import CORRELATION
from judgebench.report.views.humans import HUMANS_NOTE, ceilings, experts
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results, ratings_frame
from judgebench.stats.humans import Panel, human_records
from judgebench.types import Example
from tests.report.test_correlations import of, record
from tests.stats.panels import ragged

CEILING = {
    **{"dataset": "d", "dimension": "coherence", "split": "test", "texts": 1440, "groups": 90, "raters": 4},
    **{"ratings_per_text": 2.5, "ceiling": 0.62, "ceiling_low": 0.57, "ceiling_high": 0.66, "raters_counted": 3},
    **{"alpha": 0.55, "reason": None},
}
BESIDE = {
    **{"spearman_others": 0.45, "spearman_others_low": 0.4, "spearman_others_high": 0.5},
    **{"humans_difference": -0.17, "humans_difference_low": -0.22, "humans_difference_high": -0.12},
    **{"modal_score": 3.0, "modal_share": 0.614},
}


def beside(*records, humans=(CEILING,)):
    return Results(metrics=of(*records).metrics, about=of().about, humans=humans)


def test_the_table_ends_with_the_humans_and_sets_the_judge_beside_them():
    (table,) = CORRELATION.tables(beside(record(**BESIDE), record(low=0, high=4, **BESIDE)))
    heads = ["range", "judge, decoding", "Pearson", "Spearman", "Kendall", "beside humans", "favorite score", "failed"]
    assert table.heads == heads
    rows = [[str(cell) for cell in row] for section in table.sections for row in section.rows]
    assert rows[0][5:7] == ["0.450 [.40,.50]", "3 (61 %)"]
    assert [row[0] for row in rows] == ["0-4", "1-5", "average", "humans"]
    assert rows[-1][1:6] == ["one, with the others", "-", "0.620 [.57,.66]", "-", "0.620 [.57,.66]"]
    assert HUMANS_NOTE in table.note


@pytest.mark.parametrize(
    ("records", "humans"),
    [
        ([record()], ()),  # a run folder that was written before
        ([record(level="system")], (CEILING,)),
        ([record(attack="dsi")], (CEILING,)),
        ([record(split="dev")], (CEILING,)),
        ([record()], (CEILING | {"ceiling": None, "reason": "No human ceiling."},)),
    ],
)
def test_no_humans_stand_where_their_ceiling_is_unknown_or_of_something_else(records, humans):
    results = beside(*records, humans=humans)
    (table,) = CORRELATION.tables(results)
    assert all(row[0].text != "humans" for section in table.sections for row in section.rows)
    assert HUMANS_NOTE not in table.note
    assert "human rater" not in " ".join(best_sentences(results))


@pytest.mark.parametrize(
    ("ends", "groups", "end"),
    [
        ((-0.22, -0.12), 90, "0.450 [0.400, 0.500], which is less by more than chance."),
        ((0.02, 0.12), 90, "0.450 [0.400, 0.500], which is more by more than chance."),
        ((-0.02, 0.12), 90, "0.450 [0.400, 0.500], and the difference may be chance."),
        ((-0.22, -0.12), 5, "0.450 [0.400, 0.500]."),
        ((None, None), 90, "0.450 [0.400, 0.500]."),
    ],
)
def test_the_first_answer_tells_how_the_judge_does_beside_one_human(ends, groups, end):
    known = BESIDE | dict(zip(("humans_difference_low", "humans_difference_high"), ends, strict=True))
    (sentence,) = best_sentences(beside(record(**known), humans=[CEILING | {"groups": groups}]))
    start = "One human rater agrees with the mean of the others at Spearman 0.620 [0.570, 0.660]; against the same "
    assert sentence.endswith(f"{start}means this judge reaches {end}")


def test_humans_among_themselves_in_a_run_of_an_earlier_version():
    missing = CEILING | {"dimension": "fluency", "ceiling": None, "reason": "No human ceiling: nobody rated."}
    dev = CEILING | {"split": "dev"}
    heading, table = experts(beside(record(), humans=[CEILING, dev, missing]))
    assert heading.text == "Humans among themselves"
    assert table.heads == ["dimension", "Spearman", "alpha"]
    rows = [[str(cell) for cell in row] for section in table.sections for row in section.rows]
    assert rows[0] == ["coherence 4 raters, 1440 examples", "0.620 [.57,.66]", "0.550"]
    assert list(table.sections[0].notes) == ["", "No human ceiling: nobody rated."]


def test_humans_among_themselves_with_every_figure():
    ratings, groups = ragged(1)
    ratings = np.vstack([ratings, np.full((1, 4), np.nan)])
    humans = human_records({("coherence", "test"): Panel(ratings, np.append(groups, 0))}, "d", {"coherence": (1, 5)})
    _, table = experts(beside(record(), humans=humans))
    heads = ["Spearman", "alpha", "ordinal alpha", "AC2", "ICC(2,1)", "ICC(2,k)", "reliability"]
    assert table.heads == ["dimension", *heads]
    (row,) = table.sections[0].rows
    keys = ("ceiling", "alpha_interval", "alpha_ordinal", "ac2", "icc_single", "icc_mean", "reliability")
    assert [cell.text for cell in row[1:]] == [three(humans[0][key]) for key in keys]
    assert all(cell.interval for cell in row[1:])
    assert "(2,k) of the mean of 2" in table.note


def test_experts_of_earlier_runs_among_themselves():
    known = {"coherence": {"alpha": 0.4512, "spearman": 0.55}, "fluency": {"alpha": None, "spearman": -0.0001}}
    _, first, second = experts(Results(about={"agreement": known}))
    assert first.text == "coherence: Krippendorff's alpha 0.451, Spearman 0.550 between two experts."
    assert second.text == "fluency: Krippendorff's alpha -, Spearman 0.000 between two experts."
    assert experts(Results()) == []


def test_the_figure_has_a_dashed_line_and_its_band_where_the_humans_stand():
    results = beside(record(), record(low=0, high=4), record(dimension="fluency"))
    figure = correlation_figure(results.metrics, {}, ceilings(results))
    coherence, fluency = figure.axes
    (line,) = [line for line in coherence.lines if line.get_linestyle() == "--"]
    assert set(line.get_ydata()) == {0.62}
    (band,) = coherence.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((0.57, 0.66))
    assert not fluency.patches
    assert "one human rater with the mean of the others" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert "easier to agree with" in figure.get_label()
    kendall = correlation_figure(results.metrics, {}, ceilings(results), "kendall")
    assert "easier to agree with" not in kendall.get_label()


def test_ratings_of_a_run_are_read_back_as_they_were_written(tmp_path):
    texts = [Example(f"e{i}", f"g{i // 2}", "s", "source", "text", {"quality": 1.0}) for i in range(3)]
    given = np.array([[1.0, np.nan], [2.0, 4.5], [np.nan, 3.0]])
    split = {"g0": "test", "g1": "dev"}
    frame = ratings_frame(texts, {"quality": given}, ["ann", "bob"], split)
    assert frame[["example_id", "rater", "score", "split"]].to_numpy().tolist() == [
        ["e0", "ann", 1.0, "test"],
        ["e1", "ann", 2.0, "test"],
        ["e1", "bob", 4.5, "test"],
        ["e2", "bob", 3.0, "dev"],
    ]
    assert set(ratings_frame(texts, {"quality": given}, (), split)["rater"]) == {"1", "2"}
    folder = RunFolder(tmp_path)
    folder.write("ratings", frame)
    folder.write("humans", [CEILING])
    assert folder.read("ratings").equals(frame)
    assert json.loads((tmp_path / "humans.json").read_text("utf-8")) == [CEILING]
    assert len(ratings_frame(texts, {}, (), split)) == 0
