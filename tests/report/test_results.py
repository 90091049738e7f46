from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from judgebench.metrics.evaluation import evaluate
from judgebench.report.results import arrange, few_note
from judgebench.report.tables import agreement_lines, interval, metrics_table
from judgebench.results.series import SeriesIndex
from judgebench.types import ScoreRange
from tests.report.conftest import MIXED, columns


def record(judge="main", decoding="greedy", low=1, high=5, spearman=0.5, **more):
    values = {}
    for name in ("pearson", "spearman", "kendall"):
        values |= {name: spearman, f"{name}_low": spearman - 0.1, f"{name}_high": spearman + 0.1}
    base = {"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"}
    base |= {"defense": "none", "range_min": low, "range_max": high, "range_step": 1, "judge": judge}
    base |= {"decoding": decoding, "lambda": None, "temperature": None, "n": 1440, "groups": 90, "failed_share": 0.0}
    return base | values | {"clamped_share": 0.0, "flags": []} | more


def printed(records, width=100, **titles):
    titles = {"main": "SmolLM2", "assistant": "early exit", **titles}
    file = io.StringIO()
    Console(file=file, width=width).print(metrics_table(records, titles))
    return file.getvalue()


def test_best_of_each_range_and_of_the_averages_by_hand():
    records = [
        record("main", low=0, high=4, spearman=0.4),
        record("assistant", low=0, high=4, spearman=0.1),
        record("main", low=1, high=5, spearman=0.2),
        record("assistant", low=1, high=5, spearman=0.3),
    ]
    (block,) = arrange(records)
    best = [[row.estimates["spearman"].best for row in section.rows] for section in block.sections]
    assert best == [[True, False], [False, True]]
    averages = {row.series.judge: row.estimates["spearman"].value for row in block.averages}
    assert averages == {"main": pytest.approx(0.3), "assistant": pytest.approx(0.2)}
    assert [row.estimates["spearman"].best for row in block.averages] == [True, False]


def test_ties_are_all_best_and_a_lone_row_is_not():
    (block,) = arrange([record("main"), record("assistant")])
    assert [row.estimates["kendall"].best for row in block.sections[0].rows] == [True, True]
    (block,) = arrange([record("main")])
    assert not block.sections[0].rows[0].estimates["kendall"].best
    assert not block.averages


def test_constant_judges_do_not_win_against_inverted_ones():
    (block,) = arrange([record("main", spearman=-0.1), record("assistant", spearman=0.0, flags=["constant"])])
    assert not any(row.estimates["spearman"].best for row in block.sections[0].rows)


def test_intervals_of_too_few_groups_are_told_to_be_too_narrow():
    told = "Fewer than 6 dialogues: the intervals are too narrow, and nothing can be told apart from chance."
    few = [record(groups=5)]
    assert few_note(arrange(few), "dialogues") == told
    assert told in " ".join(printed(few, groups="dialogues").split())
    bare = {f"{name}_{end}": None for name in ("pearson", "spearman", "kendall") for end in ("low", "high")}
    assert few_note(arrange([record(groups=6)])) == few_note(arrange([record(groups=5, **bare)])) == few_note([]) == ""


def test_average_needs_every_range():
    (block,) = arrange([record(low=0, high=4), record(), record("assistant")])
    assert [row.series.judge for row in block.averages] == ["main"]


def test_ranges_and_judges_are_sorted_whatever_their_order():
    (block,) = arrange([record("pair", "contrastive", low=3, high=7), record(low=1, high=10), record(low=3, high=7)])
    assert [section.range for section in block.sections] == [ScoreRange(1, 10), ScoreRange(3, 7)]
    assert [row.series.judge for row in block.sections[1].rows] == ["main", "pair"]


def test_tuned_settings_are_one_series_and_a_grid_is_several():
    tuned = [
        record("pair", "contrastive", low=0, high=4, **{"lambda": 0.1, "temperature": 1.0}),
        record("pair", "contrastive", low=1, high=5, **{"lambda": 0.5, "temperature": 2.0}),
    ]
    assert len(SeriesIndex(tuned).all) == 1
    (block,) = arrange(tuned)
    assert block.averages[0].setting == "λ, t by range"
    grid = [record("pair", "contrastive", **{"lambda": x, "temperature": 1.0}) for x in (1.0, 0.1)]
    assert [str(series) for series in SeriesIndex(grid).all] == [
        "pair, contrastive, λ 0.1, t 1",
        "pair, contrastive, λ 1, t 1",
    ]


def test_attacks_and_dimensions_get_blocks_of_their_own():
    blocks = arrange([record(), record(attack="dsi"), record(dimension="relevance"), record(level="system")])
    assert [block.condition for block in blocks] == ["coherence", "coherence, attack dsi", "relevance"]


def test_table_shows_the_numbers_of_the_records(run):
    text = printed(run.records)
    for one in run.records:
        if one["split"] == "test":
            assert f"{round(one['spearman'], 3) + 0:.3f}" in text
    assert "coherence: 144 examples of 18 articles" in text
    assert "main: SmolLM2 · assistant: early exit" in text


def test_row_by_row():
    text = printed(
        [record(spearman=0.4126, failed_share=0.021, flags=["inverted"]), record("assistant", spearman=-0.2)]
    )
    row = next(line for line in text.splitlines() if "main, greedy" in line)
    assert row.split() == ["1-5", "main,", "greedy"] + ["0.413*", "[.31,.51]"] * 3 + ["2.1", "%"]
    assert "! inverted" in text
    assert "-0.200  [-.30,-.10]" in text


@pytest.mark.parametrize("width", [100, 140])
def test_a_file_gets_plain_text_that_fits(run, width):
    text = printed(run.records, width)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text


def test_nothing_is_cut_where_there_is_little_room(run):
    text = printed(run.records, 70)
    assert "…" not in text
    assert text.count("]") >= 3 * sum(one["split"] == "test" for one in run.records)


def test_unequal_numbers_of_examples_are_told():
    assert "1400 to 1440 examples of 90 articles" in printed([record(), record("assistant", n=1400)])


def test_groups_are_called_what_they_are():
    assert "90 dialogues" in printed([record()], groups="dialogues")


def test_clamped_answers_show_where_there_are_any():
    assert "clamped" not in printed([record()])
    assert "12.0 %" in printed([record(clamped_share=0.12)])


def test_null_correlations_and_other_splits():
    nothing = dict.fromkeys(("pearson", "pearson_low", "pearson_high"))
    assert "-" in printed([record(**nothing)])
    told = " ".join(printed([record(split="dev")]).split())
    assert "0.500" in told
    assert "There is no test split: this is the dev split." in told
    assert "No records of the test split." in printed([])


def test_intervals_are_short():
    (block,) = arrange([record(spearman=0.95), record("assistant", spearman=0.0)])
    high, zero = (row.estimates["spearman"] for row in block.sections[0].rows)
    assert interval(high) == "[.85,1.05]"
    assert interval(zero) == "[-.10,.10]"


def test_agreement_lines():
    file = io.StringIO()
    known = {"coherence": {"alpha": 0.4512, "spearman": 0.55}, "fluency": {"alpha": None, "spearman": -0.0001}}
    Console(file=file, width=100).print(agreement_lines(known))
    assert file.getvalue().splitlines() == [
        "experts on coherence  Krippendorff's alpha 0.451, Spearman 0.550",
        "experts on fluency    Krippendorff's alpha -, Spearman 0.000",
    ]


@pytest.mark.parametrize("ranges", MIXED)
def test_ranges_with_different_numbers_of_candidates(builder, ranges):
    run = builder(ranges=ranges, articles=4)
    (block,) = arrange(run.records)
    assert {section.range for section in block.sections} == set(ranges)
    assert all(len(section.rows) == 5 for section in block.sections)
    unfolded = "".join(line[:9].strip() for line in printed(run.records).splitlines())
    for score_range in ranges:
        assert str(score_range).replace(" ", "") in unfolded.replace(" ", "")


@pytest.mark.parametrize(
    ("levels", "shown", "size"),
    [
        (["system"], "coherence, system level", "8 systems over 18 articles"),
        (["document", "system"], "coherence, document level", "18 articles"),
        (["system", "dataset"], "coherence", "144 examples of 18 articles"),
    ],
)
def test_without_the_dataset_level_the_first_is_shown_and_named(run, levels, shown, size):
    records = evaluate(columns(run.scores), "mini", levels=levels, resamples=20)
    (block,) = arrange(records)
    assert block.condition == shown
    assert f"{shown}: {size}\n" in re.sub(r" +\n", "\n", printed(records))
    of_level = [record for record in records if (record["split"], record["level"]) == ("test", block.level)]
    assert sum(len(section.rows) for section in block.sections) == len(of_level)


def test_no_interval_is_told_where_there_is_none(run):
    records = evaluate(columns(run.scores), "mini", levels=["dataset"], resamples=0)
    assert "95 %" not in printed(records)
    assert "95 %" in printed(run.records)


def test_constant_humans_are_flagged(run):
    records = evaluate(columns(run.scores.assign(human=3.0)), "mini", levels=["dataset"], resamples=20)
    assert "! constant humans" in printed(records)
