"""Sentences of the page's first section: the best judge, spreads over ranges, and the scores that judges favor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from judgebench.report.views.answers import answers, best_sentences, spread_sentences
from judgebench.report.views.bias import favorite_sentences, favorite_tables, favorites
from judgebench.report.views.correlations import correlation_frame
from judgebench.results.results import Results
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.types import ScoreRange
from tests.report.conftest import comparisons_of, results_of
from tests.report.test_correlations import of, record


def scored(values, human, scale=(1, 5), **more):
    """The results of one judge's scores of texts."""
    rows = {
        **{"example_id": [f"e{i}" for i in range(len(values))], "group_id": [f"g{i // 2}" for i in range(len(values))]},
        **{"system_id": "s", "split": "test", "dimension": "coherence", "attack": "none", "defense": "none"},
        **{"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "judge": "main", "decoding": "greedy"},
        **{"lambda": np.nan, "temperature": np.nan, "status": "parsed"},
        **{"score": np.asarray(values, dtype=float), "human": np.asarray(human, dtype=float)},
    }
    return Results(scores=pd.DataFrame(rows | more), about={"scale": {"coherence": scale}})


HUMAN = [1, 2, 3, 3, 3, 5]


def test_favorite_by_hand():
    results = scored([3, 3, 3, 4, 3, 3], HUMAN)
    rows = favorites(results)[["range", "who", "score", "share"]].to_numpy().tolist()
    assert rows == [["1-5", "main, greedy", "3", pytest.approx(5 / 6)], ["1-5", "humans", "3", 0.5]]
    assert favorite_sentences(results) == [
        "coherence: main, greedy says 3 for 83 % of the texts in range 1-5; "
        "the humans' most frequent score there is 3 (50 %)."
    ]
    _, table = favorite_tables(results)
    assert table.heads == ["range", "main, greedy", "humans"]


def test_ties_are_all_named():
    results = scored([1, 1, 1, 1], [2, 2, 5, 5])
    assert favorites(results)[["score", "share"]].to_numpy().tolist() == [["1", 1.0], ["2 or 5", 0.5]]


def test_a_tie_is_told_of_each_and_failed_answers_are_no_sayings():
    assert (
        "says 3 or 5 for 50 % of the texts each in range 1-5"
        in favorite_sentences(scored([3, 3, 5, 5], [1, 2, 3, 3]))[0]
    )
    failed = scored([1, 1, 1, 5], [1, 2, 3, 3], status=["failed", "failed", "parsed", "parsed"])
    (sentence,) = favorite_sentences(failed)
    assert sentence.startswith("coherence: main, greedy has 1 for 75 % of the texts in range 1-5")
    assert sentence.endswith("the lowest score stands in for the 50 % of answers that failed.")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"spearman": -0.5}, "has Spearman -0.500 [-0.600, -0.400] in range 1-5, against the humans ("),
        (
            {"spearman": 0.0, "flags": [CONSTANT]},
            "gives every text the same score in range 1-5, so that no correlation",
        ),
        ({"spearman": 0.0, "flags": [CONSTANT, CONSTANT_HUMANS]}, "the humans gave every text the same score, so nob"),
    ],
)
def test_no_agreement_is_called_what_it_is(more, told):
    (sentence,) = best_sentences(of(record(**more)))
    assert told in sentence
    assert "significant" not in sentence


def test_one_is_singular():
    assert "(1 example of 1 group)" in best_sentences(of(record(n=1, groups=1), groups="groups"))[0]


@pytest.mark.parametrize("scale", [None, (3.0, 3.0)])
def test_humans_who_have_no_scale_are_left_out_and_that_is_told(scale):
    results = scored([1, 1, 1, 2], [3, 3, 3, 3], scale)
    assert favorites(results)["who"].tolist() == ["main, greedy"]
    assert "humans" not in favorite_sentences(results)[0]
    assert "coherence: Humans are left out" in favorite_tables(results)[-1].note


def test_the_range_that_is_told_is_the_most_lopsided():
    low, high = scored([2, 2, 2, 1, 3, 3], HUMAN), scored([3, 3, 3, 4, 3, 3], HUMAN)
    scores = pd.concat([low.scores.assign(range_min=0.0, range_max=4.0), high.scores])
    (sentence,) = favorite_sentences(Results(scores=scores, about=low.about))
    assert sentence.startswith("coherence: main, greedy says 3 for 83 % of the texts in range 1-5, where it is most")


@pytest.mark.parametrize(("groups", "told"), [(6, False), (5, True)])
def test_the_interval_of_too_few_groups_is_too_narrow(groups, told):
    (sentence,) = best_sentences(of(record(groups=groups)))
    assert "in range 1-5 (" in sentence
    assert ("Fewer than 6 articles: the interval is too narrow." in sentence) == told
    assert "[0.400, 0.600]" in sentence


def test_the_best_judge_is_named_with_its_interval_and_with_what_picking_it_does(run):
    (told,) = best_sentences(results_of(run))
    rows = [one for one in run.records if one["split"] == "test"]
    best = max(rows, key=lambda one: one["spearman"])
    value = best["spearman"]
    assert told.startswith(f"coherence: {best['judge']}, {best['decoding']}")
    at = f"range {best['range_min']:g}-{best['range_max']:g}"
    assert f"Spearman {value:.3f} [{value - 0.06:.3f}, {value + 0.05:.3f}] in {at}" in told
    count = sum(one["judge"] != "assistant" for one in rows)
    assert told.endswith(
        f"(144 examples of 18 articles). It is the best of {count} combinations of judge, decoding and range, so this "
        "figure is optimistic."
    )


def test_one_judge_alone_is_not_called_the_best(run):
    greedy = [one for one in run.records if (one["judge"], one["decoding"]) == ("main", "greedy")]
    (ranges,) = best_sentences(of(*greedy))
    assert ranges.startswith("coherence: main, greedy agrees best of its ranges, Spearman ")
    (single,) = best_sentences(of(*(one for one in greedy if one["range_min"] == 1)))
    assert single.startswith("coherence: main, greedy has Spearman ")
    assert "optimistic" not in single


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ({"spearman_low": -0.1}, "in range 1-5, which may be chance (144 examples"),
        ({"spearman_low": -0.4, "spearman_high": -0.2}, "range 1-5, against the humans (144 examples"),
        ({"spearman_low": None, "spearman_high": None}, "without an interval"),
    ],
)
def test_a_best_judge_without_a_clear_interval_is_told_so(run, ends, told):
    assert told in best_sentences(of(*(one | ends for one in run.records)))[0]


def test_of_several_defenses_none_is_told_and_the_first_where_all_are_defended():
    defended = record(defense="cot", spearman=0.9)
    assert "0.500" in best_sentences(of(defended, record()))[0]
    assert best_sentences(of(defended))[0].startswith("coherence, defense cot: ")
    assert best_sentences(of(record() | {"spearman": None})) == best_sentences(of()) == []


def test_spread_over_ranges(run):
    (sentence,) = spread_sentences(results_of(run))
    values = [
        [r["spearman"] for r in run.records if (r["split"], r["judge"], r["decoding"]) == ("test", *who)]
        for who in (("main", "greedy"), ("pair", "contrastive"))
    ]
    assert f"main, greedy lies between {min(values[0]):.3f} and {max(values[0]):.3f}" in sentence
    assert f"pair, contrastive between {min(values[1]):.3f} and {max(values[1]):.3f}" in sentence
    assert all(f"a spread of {np.ptp(one):.3f}" in sentence for one in values)
    assert sentence.endswith("These spreads have no interval: that one is smaller may be chance.")


def test_what_has_no_correlation_is_told_in_its_spread(run):
    alike = [one | {"spearman": 0.0, "flags": ["constant"]} if one["range_min"] == 0 else one for one in run.records]
    assert spread_sentences(of(*alike))[0].count("(undefined in 1, for which 0 stands)") == 2
    assert "undefined" not in spread_sentences(of(*(one | {"flags": []} for one in run.records)))[0]


def test_one_range_has_no_spread(builder):
    assert spread_sentences(results_of(builder(ranges=[ScoreRange(1, 5)], articles=4))) == []


def test_each_question_has_its_sentences_and_no_scores_no_answer(run):
    (facts,) = answers(results_of(run, comparisons=comparisons_of(run)))
    assert [question for question, _ in facts.rows] == [
        *("How close to a human is it?", "Where is it biased?", "What would make it better?"),
    ]
    assert len(correlation_frame(results_of(run))) == 25
    (facts,) = answers(Results())
    assert facts.rows == [("No answer", ["This run has no scores to tell of."])]
