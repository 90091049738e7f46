"""Range bias as variance in tables and sentences: real records of judges whose components are known."""

from __future__ import annotations

import numpy as np
import pytest

from judgebench.report.views.variance import (
    BY_AUTHOR,
    HUMAN_VARIANCE,
    JUDGE_VARIANCE,
    RANGE_VARIANCE,
    variance_frame,
    variance_sentences,
)
from judgebench.results.results import Results
from judgebench.stats.variance import variance_records
from tests.stats.test_variance import FOUR, known_judge, side


def results(sides, **titles):
    return Results(variance=variance_records(sides), about={"titles": titles})


def judges(*names, ratings=None, **more):
    values, groups = known_judge(0, 40)
    return [
        side(values[:, i], *FOUR[i], groups=groups, ratings=ratings, judge=judge, decoding=decoding, **more)
        for judge, decoding in names
        for i in range(4)
    ]


THREE = ("main", "greedy"), ("main", "expectation"), ("pair", "contrastive")


def rows_of(table):
    return [[str(cell) for cell in row] for section in table.sections for row in section.rows]


def test_a_row_a_series_as_given_and_calibrated():
    rated = np.random.default_rng(0).integers(1, 6, (40, 2)) + 0.0
    made = results(judges(("pair", "contrastive"), ("main", "greedy"), ratings=rated), groups="questions")
    (table,) = RANGE_VARIANCE.tables(made)
    assert (table.title, table.size) == ("quality, 4 ranges", "40 examples of 20 questions")
    assert [row[0] for row in rows_of(table)] == [
        *("main, greedy", "main, greedy, calibrated"),
        *("pair, contrastive", "pair, contrastive, calibrated"),
    ]
    assert table.heads[-2:] == ["one range", "ranges for .80"]
    assert "Calibrated: each range's scores are mapped to the humans' scale by what other questions teach" in table.note
    first = variance_frame(made).iloc[0]
    assert rows_of(table)[0][2].startswith(f"{100 * first['texts_share']:.0f} % [")
    assert rows_of(table)[0][-1] == f"{first['decisions'][0]['needed_range']} / " + str(
        first["decisions"][0]["needed_absolute_range"]
    )


def test_the_sentence_tells_each_decoding_with_its_interval_and_what_calibration_leaves():
    rated = np.random.default_rng(0).integers(1, 6, (40, 2)) + 0.0
    (sentence,) = variance_sentences(results(judges(*THREE, ("assistant", "greedy"), ratings=rated)))
    start, after = sentence.split("; calibrated by the humans in each range, ")
    assert start.startswith("quality: over 4 ranges, the score range makes ")
    assert "assistant" not in sentence
    share = start.split("makes ")[1].split(" of the variance")[0]
    known = variance_records(judges(("main", "greedy")))[0]
    low, high = (f"{100 * known[f'range_both_{end}']:.0f}" for end in ("low", "high"))
    assert share == f"{100 * known['range_both']:.0f} % [{low}, {high}]"
    own, order = (f"{100 * known[f'range_{name}']:.0f} %" for name in ("own", "interactions"))
    assert f"by main, greedy ({own} moves all texts alike, {order} changes their order), {share} by main, exp" in start
    assert start.endswith(f"expectation ({own} and {order}) and {share} by pair, contrastive ({own} and {order})")
    assert after.count("%") == 3
    (bare,) = variance_sentences(results(judges(("main", "greedy"))))
    assert "calibrated" not in bare


@pytest.mark.parametrize(
    ("sides", "sentence"),
    [
        (
            [side([0.5] * 4, *ends) for ends in FOUR],
            "quality: the range's share of the variance is unknown. No components: all scores are the same.",
        ),
        (
            [side([0.0, 0.5], 0, 4, groups=["g", "g"]), side([0.25, 0.75], 1, 9, groups=["g", "g"])],
            "quality: over 2 ranges, the score range makes 20 % of the variance of scores by main, greedy (20 % moves "
            "all texts alike, 0 % changes their order).",
        ),
    ],
)
def test_sentences_are_true_without_numbers_and_without_intervals(sides, sentence):
    made = results(sides)
    assert variance_sentences(made) == [sentence]
    (table,) = RANGE_VARIANCE.tables(made)
    assert any(table.sections[0].notes)


def test_nothing_stands_there_without_several_ranges_or_records():
    made = results([side([0.1, 0.2])])
    assert variance_sentences(made) == RANGE_VARIANCE(made) == JUDGE_VARIANCE(made) == []
    (table,) = HUMAN_VARIANCE.tables(made)
    assert table.sections[0].notes == ["No components: only one rating of each text, or their mean, is known."]
    for view in (RANGE_VARIANCE, JUDGE_VARIANCE, HUMAN_VARIANCE, BY_AUTHOR):
        assert view(Results()) == []
    assert variance_sentences(Results()) == []


def test_a_defense_is_a_table_of_its_own_and_not_in_the_sentences():
    bare = judges(("main", "greedy"))
    defended = [side(one.scores / 10, one.cell.range_min, one.cell.range_max) for one in bare]
    defended = [one.__class__(**{**vars(one), "cell": one.cell._replace(defense="cap")}) for one in defended]
    made = results([*bare, *defended])
    assert [table.title for table in RANGE_VARIANCE.tables(made)] == [
        "quality, 4 ranges",
        "quality, defense cap, 4 ranges",
    ]
    assert len(variance_sentences(made)) == 1


def test_numbers_out_of_reach_are_words():
    values, _ = known_judge(0, 60, sizes=(1e-6, 0.05, 0.01))
    made = results([side(values[:, i], *FOUR[i]) for i in range(4)])
    needed = rows_of(RANGE_VARIANCE.tables(made)[0])[0][-1]
    assert needed.split(" / ")[1] == "> 100"


def test_settings_that_one_run_tries_are_told_apart():
    values, groups = known_judge(1, 20)
    made = results([side(values[:, i], *FOUR[i], groups=groups, lambda_=one) for i in range(2) for one in (0.1, 0.5)])
    names = [row[0] for row in rows_of(RANGE_VARIANCE.tables(made)[0])]
    assert names[::2] == ["main, greedy, λ 0.1", "main, greedy, λ 0.5"]


def test_two_judges_and_articles_by_systems_are_folded():
    values, _ = known_judge(2, 40)
    group, system = np.repeat(np.arange(10), 4), np.tile(np.arange(4), 10)
    sides = [side(values[:, i] + move, *FOUR[i], judge=judge, groups=group, systems=system)
             for judge, move in (("main", 0), ("assistant", 0.1)) for i in range(4)]  # fmt: skip
    made = results(sides)
    (table,) = JUDGE_VARIANCE.tables(made)
    assert table.folded
    assert rows_of(table)[0][0] == "greedy"
    (table,) = BY_AUTHOR.tables(made)
    assert [section.title for section in table.sections] == ["quality: main, greedy", "quality: assistant, greedy"]
    assert [row[0] for row in rows_of(table)][:3] == ["article", "system", "range"]


def test_humans_are_a_row_a_dimension():
    rng = np.random.default_rng(0)
    ratings = np.clip(np.round(rng.normal(3, 1, (30, 1)) + rng.normal(0, 0.5, (30, 3))), 1, 5)
    made = results([side(np.zeros(30), ratings=ratings, dimension=name) for name in ("quality", "style")])
    (table,) = HUMAN_VARIANCE.tables(made)
    rows = rows_of(table)
    assert [row[:2] for row in rows] == [["quality", "3"], ["style", "3"]]
    assert rows[0][-1] == rows[1][-1]
