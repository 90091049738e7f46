from __future__ import annotations

import io
from dataclasses import replace

import pytest
from judgebench.report.choices import arrange_tuning, chosen, interval_of, search_note, shared_note
from judgebench.report.diagnosis import arrange_diagnostics, span
from judgebench.report.flags import FLAGS, none_note, raised
from rich.console import Console

from judgebench.report.layout import run_tables
from judgebench.report.results import arrange
from judgebench.tuning.tuners import Exact, Shared
from judgebench.types import ScoreRange
from tests.report.conftest import comparisons_of, similarity_of, tuning_of


def printed(run, width=100, **more):
    file = io.StringIO()
    Console(file=file, width=width).print(run_tables(run.records, run.titles, **more))
    return file.getvalue()


def told(text):
    return " ".join(text.split())


KNOWN = {"bias_wasserstein": 0.12, "bias_kl": 0.34, "modal_score": 3.0, "modal_share": 0.625, "stability": 0.0789}
KNOWN |= {"self_agreement": 0.654}


@pytest.fixture(scope="module")
def known(builder):
    run = builder()
    for record in run.records:
        record |= {name: value + 0.01 * record["range_min"] for name, value in KNOWN.items()}
    return run


def test_a_run_prints_all_its_parts_within_its_width(known):
    text = printed(known, comparisons=comparisons_of(known), tuning=tuning_of(known), similarity=similarity_of(known))
    assert max(len(line) for line in text.splitlines()) <= 100
    for part in ("against main, greedy", "tuned: the best point", "diagnostics", "main and assistant alike", "Holm"):
        assert part in told(text)
    assert "mean of 4" in text
    assert "exactly best" in text


def test_without_more_a_run_prints_its_correlations_alone(builder):
    run = builder(assistant=False, articles=4)
    text = printed(run)
    for part in ("First - second", "tuned", "diagnostics", "alike"):
        assert part not in text


def test_names_are_not_taken_for_markup(known):
    tuning = [record | {"decoding": "[bold]x[/bold]"} for record in tuning_of(known)]
    assert "[bold]x[/bold]" in printed(known, tuning=tuning)


def test_diagnostics_are_those_of_the_records(known):
    (found,) = arrange_diagnostics(known.records, similarity_of(known))
    assert str(found.series[0].series) == "main, greedy"
    for one in found.series:
        assert [bias.wasserstein for bias in one.biases] == pytest.approx([0.12, 0.13, 0.14, 0.15])
        assert [str(bias.range) for bias in one.biases] == ["0-4", "1-5", "2-6", "3-7"]
    assert len(found.similarities) == 4
    assert all(-1 <= one.correlation <= 1 and 0 <= one.agreement <= 1 for one in found.similarities)


def test_of_several_defenses_the_first_is_diagnosed_and_the_others_are_named(known):
    words = [record | {"defense": "cot", "bias_wasserstein": 0.9} for record in known.records]
    (found,) = arrange_diagnostics([*words, *known.records], similarity_of(known))
    assert found.condition == "coherence"
    assert found.series[0].biases[0].wasserstein == pytest.approx(0.12)
    text = told(printed(replace(known, records=[*words, *known.records])))
    assert text.count("diagnostics") == 1
    assert "All without defense; metrics.json has the same of cot." in text
    (alone,) = arrange_diagnostics(words)
    assert alone.condition == "coherence, defense cot"
    assert "metrics.json" not in told(printed(known))


def test_records_that_know_nothing_of_bias_have_no_diagnostics(run):
    assert arrange_diagnostics([r for r in run.records if "modal_share" not in r]) == []


def test_flags_are_explained_and_say_where(run):
    blocks = arrange([record | {"flags": ["edge"]} for record in run.records if record["judge"] == "pair"])
    (flag,) = raised(blocks)
    assert flag.meaning == FLAGS["edge"]
    assert flag.where == ["coherence, ranges 0-4, 1-5, 2-6, 3-7: pair, contrastive"]
    for name in ("constant", "constant humans", "inverted", "unstable", "edge"):
        assert FLAGS[name]


def test_where_no_flag_is_raised_only_what_was_looked_for_is_named(run):
    several = arrange(run.records)
    one = arrange([record for record in run.records if record["range_min"] == 1])
    few = arrange([record | {"groups": 5} for record in run.records])
    assert none_note(several).endswith("against the humans or depends on the score range by more than noise.")
    assert "depends" not in none_note(one).split(".")[0]
    assert none_note(one).endswith("takes several ranges; here is one.")
    assert none_note(few).endswith("says the same of every text. More takes intervals over at least 6 groups.")


def test_the_grids_worth_is_told(run):
    (choices,) = arrange_tuning(tuning_of(run))
    note = search_note(choices)
    assert "24 points are 18 kappas" in note
    below = [row["grid_below_exact"] for row in choices.rows]
    assert f"{max(below):.3f} below the exact optimum" in note
    assert [row["range_min"] for row in choices.rows] == [0, 1, 2, 3]
    widths = [row["exact"]["width"] for row in choices.rows]
    assert f"{max(width for width in widths if width is not None):.2g} wide" in note
    assert note.endswith("or never ends.") == (None in widths)


def test_one_setting_for_all_ranges_stands_beside_that_of_each(run):
    both = arrange_tuning(tuning_of(run, Shared()))
    assert [one.decoding for one in both] == ["contrastive", "contrastive_per_range"]
    assert len({chosen(row) for row in both[0].rows}) == 1
    assert shared_note(both[0]).startswith("Mean Spearman over the ranges: ")
    assert shared_note(both[1]) == ""


def test_expectations_have_a_grid_and_no_exact_path(run):
    (choices,) = arrange_tuning(tuning_of(run, rule="expectation"))
    assert "below the exact optimum" not in search_note(choices)
    assert "exactly best" not in printed(run, tuning=tuning_of(run, rule="expectation"))


def test_exact_tuning_says_how(run):
    assert "best of all kappas" in told(printed(run, tuning=tuning_of(run, Exact())))


def test_a_choice_that_tells_nothing_apart_is_marked(run):
    tuning = [record | {"edge": False, "lambda": 0.125, "temperature": 1.0} for record in tuning_of(run)]
    assert "λ 0.125, t 1 !" not in told(printed(run, tuning=tuning))
    assert "λ 0.125, t 1 ! constant" in told(printed(run, tuning=[tuning[0] | {"constant": True}, *tuning[1:]]))


def test_nothing_tuned():
    assert arrange_tuning(None) == []
    assert arrange_tuning([]) == []


def test_intervals_and_spans_by_hand():
    assert interval_of(0.0, 0.5) == "0 to 0.5"
    assert interval_of(1.25, None) == "above 1.25"
    assert span([0.5, 0.1]) == "0.10 to 0.50"
    assert span([]) == "-"


def test_wide_ranges_fit(builder):
    run = builder(ranges=[ScoreRange(1, 5, 0.1), ScoreRange(0, 100)], articles=4, systems=4)
    text = printed(run, comparisons=comparisons_of(run), tuning=tuning_of(run))
    assert max(len(line) for line in text.splitlines()) <= 100
