from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from judgebench.report.answers import (
    Change,
    Favorite,
    change_sentences,
    changes,
    favorite_sentences,
    favorites,
    spread_sentences,
)
from judgebench.report.results import arrange
from judgebench.types import ScoreRange


def scored(judge, decoding, values, human, **more):
    rows = {
        "example_id": [f"e{i}" for i in range(len(values))],
        "group_id": [f"g{i // 2}" for i in range(len(values))],
        "system_id": "s",
        "split": "test",
        "dimension": "coherence",
        "range_min": 1.0,
        "range_max": 5.0,
        "range_step": 1.0,
        "attack": "none",
        "defense": "none",
        "judge": judge,
        "decoding": decoding,
        "lambda": np.nan,
        "temperature": np.nan,
        "score": np.asarray(values, dtype=float),
        "status": "parsed",
        "human": np.asarray(human, dtype=float),
    }
    return pd.DataFrame(rows | more)


def test_favorite_by_hand():
    human = [1, 2, 3, 3, 3, 5]
    scores = pd.concat([scored("main", "greedy", [3, 3, 3, 4, 3, 3], human)])
    main, humans = favorites(scores, {"coherence": (1, 5)})
    assert (main.who, main.score, main.share) == ("main, greedy", "3", pytest.approx(5 / 6))
    assert (humans.who, humans.score, humans.share) == ("humans", "3", pytest.approx(3 / 6))
    assert favorite_sentences([main, humans]) == [
        "coherence: main, greedy says 3 for 83 % of the texts in range 1-5; "
        "the humans' most frequent score there is 3 (50 %)."
    ]


def test_ties_are_all_named():
    _, humans = favorites(scored("main", "greedy", [1, 1, 1, 1], [2, 2, 5, 5]), {"coherence": (1, 5)})
    assert (humans.score, humans.share) == ("2 or 5", 0.5)


def test_the_range_that_is_told_is_the_most_lopsided():
    found = [
        Favorite("coherence", ScoreRange(0, 4), "main, greedy", "2", 0.5),
        Favorite("coherence", ScoreRange(1, 5), "main, greedy", "3", 0.87),
    ]
    (sentence,) = favorite_sentences(found)
    assert sentence.startswith("coherence: main, greedy says 3 for 87 % of the texts in range 1-5, where")


def test_change_is_the_difference_of_the_spearmans():
    human = [1, 2, 3, 4, 5, 6, 7, 8]
    main, pair = [1, 2, 2, 1, 4, 3, 5, 5], [1, 2, 3, 3, 4, 4, 5, 5]
    scores = pd.concat([scored("main", "greedy", main, human), scored("pair", "contrastive", pair, human)])
    (change,) = changes(scores)
    by_pandas = [pd.Series(judge).corr(pd.Series(human), method="spearman") for judge in (pair, main)]
    assert change.difference == pytest.approx(by_pandas[0] - by_pandas[1])
    assert change.low <= change.difference <= change.high


def test_equal_scores_change_nothing_with_certainty():
    human, values = [1, 2, 3, 4, 5, 6], [1, 2, 2, 4, 3, 5]
    scores = pd.concat([scored("main", "greedy", values, human), scored("pair", "contrastive", values, human)])
    (change,) = changes(scores)
    assert (change.difference, change.low, change.high) == (0, 0, 0)
    assert "no clear change" in change_sentences([change])[0]


def test_no_pair_no_change():
    assert changes(scored("main", "greedy", [1, 2], [1, 2])) == []
    assert change_sentences([]) == []


def test_change_sentences_tell_clear_from_unclear():
    def change(low, high, score_range):
        return Change("coherence", score_range, "pair, contrastive", "main, greedy", (low + high) / 2, low, high)

    unclear, clear = change(-0.02, 0.04, ScoreRange(0, 4)), change(0.01, 0.05, ScoreRange(1, 5))
    assert change_sentences([unclear, clear]) == [
        "coherence: pair, contrastive, against main, greedy, clearly changes Spearman in 1 of 2 ranges: "
        "+0.030 [+0.010, +0.050] in range 1-5; in the others the interval holds 0."
    ]
    assert change_sentences([unclear, unclear]) == [
        "coherence: pair, contrastive, against main, greedy, clearly changes Spearman in none of 2 ranges: "
        "the changes are +0.010 to +0.010, and every 95 % interval holds 0."
    ]
    assert change_sentences([clear])[0].endswith("by +0.030 [+0.010, +0.050] in range 1-5: a clear change.")


def test_spread_over_ranges(run):
    (sentence,) = spread_sentences(arrange(run.records))
    values = [
        [r["spearman"] for r in run.records if (r["split"], r["judge"], r["decoding"]) == ("test", *who)]
        for who in (("main", "greedy"), ("pair", "contrastive"))
    ]
    assert f"main, greedy lies between {min(values[0]):.3f} and {max(values[0]):.3f}" in sentence
    assert f"pair, contrastive between {min(values[1]):.3f} and {max(values[1]):.3f}" in sentence
    assert ("a smaller spread" in sentence) == (np.ptp(values[1]) < np.ptp(values[0]))


def test_one_range_has_no_spread(builder):
    run = builder(ranges=[ScoreRange(1, 5)], articles=4)
    assert spread_sentences(arrange(run.records)) == []


def test_without_resamples_a_change_has_no_interval_and_is_never_clear():
    human, main, pair = [1, 2, 3, 4, 5, 6], [1, 2, 2, 1, 4, 3], [1, 2, 3, 4, 5, 6]
    scores = pd.concat([scored("main", "greedy", main, human), scored("pair", "contrastive", pair, human)])
    (change,) = changes(scores, resamples=0)
    assert (change.low, change.high, change.clear) == (None, None, False)
    assert change.difference == pytest.approx(changes(scores)[0].difference)
    (sentence,) = change_sentences([change])
    assert f"changes Spearman by {change.difference:+.3f} in range 1-5; without an interval" in sentence
    (sentence,) = change_sentences([change, replace(change, range=ScoreRange(0, 4))])
    assert "over 2 ranges; without an interval" in sentence
    assert "clear" not in sentence


def test_changes_use_the_level_the_resamples_and_the_seed_that_they_are_given(run):
    told = {
        (level, resamples, seed): changes(run.scores, level, resamples, seed)[0]
        for level, resamples, seed in (("dataset", 100, 0), ("dataset", 100, 1), ("dataset", 50, 0), ("system", 100, 0))
    }
    assert len({(one.low, one.high) for one in told.values()}) == 4
    assert "coherence, system level: pair" in change_sentences([told["system", 100, 0]])[0]


def test_where_nobody_rated_nothing_changes():
    scores = pd.concat([scored(*who, [1, 2], [np.nan] * 2) for who in (("main", "greedy"), ("pair", "contrastive"))])
    assert changes(scores) == []
