"""Judges beside humans on the page: tables and sentences over records of real and of little data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judgebench.report.views.beside import (
    POINTS,
    STAND_IN,
    beside_runs_frame,
    calibration_sentences,
    points_frame,
    points_sentences,
    stand_in_frame,
    stand_in_sentences,
)
from judgebench.report.views.humans import RATERS
from judgebench.results.results import Results
from judgebench.stats.humans import Panel, beside_humans_records, human_records
from tests.stats.panels import panel, ragged
from tests.stats.test_beside_humans import judge_scores


def results_of(*sides, scale=(1.0, 5.0), **more):
    """Results of judges beside humans, and what these agree on."""
    first = sides[0]
    panels = {("coherence", "test"): Panel(first.ratings, first.groups, 100)} if first.raters else {}
    metrics = [
        one.head | {"level": "dataset", "n": 60, "groups": 12, "flags": []}
        | {f"{name}{end}": 0.5 for name in ("pearson", "spearman", "kendall") for end in ("", "_low", "_high")}
        for one in sides
    ]  # fmt: skip
    humans = human_records(panels, "mine", {"coherence": scale})
    about = {"scale": {"coherence": scale}, "titles": {"main": "gpt-4o"}}
    return Results(beside_humans=beside_humans_records(sides), humans=humans, metrics=metrics, about=about, **more)


def lines(table):
    return [[str(cell) for cell in row] for section in table.sections for row in section.rows]


@pytest.fixture(scope="module")
def real():
    ratings, groups, judges = panel("consistency")
    return results_of(judge_scores(judges["gpt-4o"], ratings, groups))


def test_points_of_a_judge_stand_above_those_of_one_rater(real):
    (table,) = POINTS.tables(real)
    assert [section.title for section in table.sections] == ["1-5", "humans"]
    raw, calibrated, human = lines(table)
    heads = ["bias", "off their mean", "off one rater", "same", "within 1", "kappa", "AC2"]
    assert table.heads == ["judge, decoding", *heads]
    assert [one[0] for one in (raw, calibrated, human)] == ["main, greedy", "calibrated", "one, with another"]
    record = real.beside_humans[0]
    assert raw[1] == f"{record['bias']:.2f} [{record['bias_low']:.2f},{record['bias_high']:.2f}]"
    assert human[1:3] == ["-", "-"]
    assert human[3].startswith(f"{real.humans[0]['single_mae']:.2f} [")


def test_a_judge_that_passes_by_its_favorite_is_told(real):
    (table,) = STAND_IN.tables(real)
    raw, calibrated, human = lines(table)
    assert raw[1] == "0 of 3"
    assert raw[-1] == "does not pass"
    assert calibrated[1] == "3 of 3"
    assert calibrated[-1] == "passes, as blind"
    assert list(table.sections[0].notes) == [
        "",
        "main, greedy, calibrated: it passes, as does a judge that always says 5; passing is no sign of judgment.",
    ]
    assert human[0] == "one, with the others"
    assert human[4].startswith(f"{real.humans[0]['ceiling']:.3f} [")
    (sentence,) = stand_in_sentences(real)
    assert sentence.startswith("coherence: gpt-4o does not pass the alternative annotator test (wins over 0 of 3 rat")
    assert sentence.endswith("but so would a judge that always says 5, so passing is no sign of judgment.")


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        ((0.1, 0.3), " points;"),
        ((-0.1, 0.2), " points, which is no closer by more than chance;"),
        ((-0.3, -0.1), " points, which is worse;"),
        ((None, None), " points;"),
    ],
)
def test_calibration_that_takes_off_nothing_is_told(real, saved, told):
    raw, calibrated = real.beside_humans
    made = calibrated | dict(zip(("mae_saved_low", "mae_saved_high"), saved, strict=True))
    (sentence,) = calibration_sentences(replace(real, beside_humans=[raw, made]))
    assert sentence.startswith(
        "coherence: calibrated by the humans' ratings of other articles, gpt-4o misses the humans'"
    )
    share = " its squared error is {:.0f} % [{:.0f}, {:.0f}] smaller than that".format(
        *(100 * made[f"r2{end}"] for end in ("", "_low", "_high"))
    )
    assert f"]{told}{share} of always saying the humans' mean score." in sentence


@pytest.mark.parametrize(
    ("ends", "words"),
    [((-0.1, 0.2), "; by squared error that is not clearly better than always saying the humans' mean "
      "score (R2 0.10 [-0.10, 0.20])."),
     ((-0.2, -0.1), "; by squared error that is worse than always saying the humans' mean score (R2 "
      "0.10 [-0.20, -0.10]).")],
)  # fmt: skip
def test_calibrated_scores_are_compared_with_the_mean_by_squared_distance(real, ends, words):
    raw, calibrated = real.beside_humans
    made = calibrated | {"r2": 0.1} | dict(zip(("r2_low", "r2_high"), ends, strict=True))
    (sentence,) = calibration_sentences(replace(real, beside_humans=[raw, made]))
    assert sentence.endswith(words)


def test_a_judge_beside_which_its_favorite_passes_too_is_told():
    ratings, groups, judges = panel("coherence")
    results = results_of(judge_scores(judges["gpt-4o"], ratings, groups))
    (sentence,) = stand_in_sentences(results)
    assert "passes the alternative annotator test (wins over 3 of 3 raters" in sentence
    assert sentence.endswith("; a judge that always says 3 would, too (68 %).")
    (table,) = STAND_IN.tables(results)
    assert lines(table)[0][-1] == "passes"
    assert table.sections[0].notes[0].endswith("it passes, and so, by less, does a judge that always says 3.")


def test_the_sentence_of_points_names_bias_and_one_rater(real):
    (sentence,) = points_sentences(real)
    record, human = real.beside_humans[0], real.humans[0]
    assert sentence == (
        f"coherence: on the humans' scale gpt-4o is {-record['bias']:.2f} points too strict "
        f"[{-record['bias_high']:.2f}, {-record['bias_low']:.2f}] and misses one rater by {record['single_mae']:.2f} "
        f"[{record['single_mae_low']:.2f}, {record['single_mae_high']:.2f}] points on average; one rater misses "
        f"another by {human['single_mae']:.2f} [{human['single_mae_low']:.2f}, {human['single_mae_high']:.2f}] points."
    )


def test_of_means_alone_figures_with_the_mean_are_shown():
    ratings, groups = ragged(0, raters=1, share=1.0)
    scores = np.clip(ratings[:, 0] + 1, 1, 5)
    results = results_of(judge_scores(scores, ratings, groups, raters=()))
    (table,) = POINTS.tables(results)
    assert table.heads == ["judge, decoding", "bias", "off their mean", "same", "kappa", "AC2"]
    assert len(lines(table)) == 2
    assert "only one, or their mean, is known" in table.note
    assert STAND_IN.tables(results) == []
    assert (
        "The test takes several ratings of a text, and only one, or their mean, is known"
        in stand_in_sentences(results)[0]
    )
    (sentence,) = points_sentences(results)
    assert "too lenient" in sentence
    assert "misses their mean by" in sentence


def test_what_cannot_be_tested_says_why():
    ratings, _ = ragged(0)
    one = results_of(judge_scores(np.arange(60) % 5 + 1.0, ratings, np.zeros(60)))
    (sentence,) = stand_in_sentences(one)
    assert sentence.startswith("coherence: no alternative annotator test. Nobody is tested: it takes 30 texts in 6 gro")
    assert "too lenient on average, over only 1 article, and" in points_sentences(one)[0]
    (table,) = POINTS.tables(one)
    assert list(table.sections[0].notes)[1].startswith("No calibrated scores")


def test_without_a_scale_the_sentence_says_so():
    ratings, groups = ragged(0)
    results = results_of(judge_scores(np.arange(60) % 5 + 1.0, ratings, groups, scale=None), scale=None)
    assert points_sentences(results) == [
        "coherence: no agreement in points for gpt-4o. The humans' scale is unknown, so that scores of a range cannot "
        "be mapped to it."
    ]


def test_the_judge_that_agrees_best_is_the_one_that_is_told():
    ratings, groups = ragged(0, share=1.0)
    sides = [judge_scores(np.round(ratings.mean(axis=1)), ratings, groups, judge=name) for name in ("main", "pair")]
    results = results_of(*sides)
    results.metrics[1]["spearman"] = 0.9
    assert points_sentences(results)[0].startswith("coherence: on the humans' scale the pair (pair, greedy) ")
    assert lines(STAND_IN.tables(results)[0])[0][-1] == "passes"
    assert "passes the alternative annotator test (wins over 4 of 4 raters" in stand_in_sentences(results)[0]


def test_runs_of_earlier_versions_have_no_table():
    empty = Results(metrics=[{"split": "test", "level": "dataset", "attack": "none"}])
    assert len(points_frame(empty)) == len(stand_in_frame(empty)) == 0
    assert POINTS(empty) == STAND_IN(empty) == stand_in_sentences(empty) == points_sentences(empty) == []


def test_runs_whose_raters_differ_have_a_human_each():
    def run(ceiling):
        figures = {f"{name}{end}": ceiling for name in ("ceiling", "single_mae") for end in ("", "_low", "_high")}
        made = results_of(judge_scores(np.arange(60) % 5 + 1.0, ragged(0)[0], np.arange(60)))
        return replace(made, humans=[{"dimension": "coherence", "split": "test", "reason": None, **figures}])

    shown = {ends: beside_runs_frame({"A": run(ends[0]), "B": run(ends[1])}) for ends in ((0.5, 0.5), (0.5, 0.6))}
    letters = {ends: rows["run"][rows["range"] == RATERS].tolist() for ends, rows in shown.items()}
    assert letters == {(0.5, 0.5): [""], (0.5, 0.6): ["A", "B"]}
