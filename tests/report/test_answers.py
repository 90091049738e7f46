from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from judgebench.report.answers import (
    Favorite,
    best_sentences,
    change_sentences,
    favorite_sentences,
    favorites,
    spread_sentences,
)

from judgebench.metrics.paired import BETTER, NOT_TOLD_APART
from judgebench.report.differences import Comparison, Difference, arrange_comparisons
from judgebench.report.results import arrange
from judgebench.types import ScoreRange
from tests.report.conftest import comparisons_of


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


def test_the_best_of_too_few_groups_is_not_told_apart_from_none():
    one = {"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"}
    one |= {"defense": "none", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "judge": "main", "n": 60}
    one |= {"decoding": "greedy", "lambda": None, "temperature": None, "flags": []}
    for name in ("pearson", "spearman", "kendall"):
        one |= {name: 0.4, f"{name}_low": 0.3, f"{name}_high": 0.5}
    (enough,), (few,) = (best_sentences(arrange([{**one, "groups": groups}])) for groups in (6, 5))
    assert "not told apart" not in enough
    assert "[0.300, 0.500] in range 1-5, which is not told apart from no agreement (60 examples of 5 articles)" in few


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


def compared(*rows, mean=None, first="pair, contrastive"):
    """A comparison of differences (difference, low, high, says), one a range, against main, greedy."""
    ranges = [str(score_range) for score_range in (ScoreRange(0, 4), ScoreRange(1, 5), ScoreRange(2, 6))]
    found = [difference(place, *row) for place, row in zip(ranges, rows, strict=False)]
    found += [difference("mean of 2 ranges", *mean, mean=True)] if mean else []
    return Comparison("coherence", "coherence", "dataset", first, "main, greedy", found, len(found))


def difference(place, value, low=None, high=None, says=NOT_TOLD_APART, mean=False):
    ends = (low, high, low, high)
    return Difference(place, 0.3 + value, 0.3, value, *ends, 0.01, 0.02, 60, 1234, 200, says, mean)


UNCLEAR, CLEAR = (0.01, -0.02, 0.04), (0.03, 0.01, 0.05, BETTER)


def test_change_sentences_tell_what_is_more_than_chance():
    assert change_sentences([compared(UNCLEAR, CLEAR)]) == [
        "coherence: pair, contrastive, against main, greedy, changes Spearman by more than chance in 1 of 2 ranges: "
        "+0.030 [+0.010, +0.050] in range 1-5."
    ]
    assert change_sentences([compared(UNCLEAR, UNCLEAR, mean=(0.02, -0.01, 0.05))]) == [
        "coherence: pair, contrastive, against main, greedy, changes Spearman by more than chance in none of 2 ranges: "
        "the changes are +0.010 to +0.010. The mean over the ranges changes by +0.020 [-0.010, +0.050]: not told "
        "apart, needs about 1,300 articles for 80 % power before Holm; here 60."
    ]
    assert change_sentences([compared(CLEAR)])[0].endswith("in range 0-4: better, and by more than chance.")
    assert (
        "not told apart from chance (needs about 1,300 dialogues"
        in change_sentences([compared(UNCLEAR)], "dialogues")[0]
    )


def test_an_interval_without_0_is_not_enough_where_holm_does_not_allow_it():
    holm = (0.03, 0.01, 0.05, NOT_TOLD_APART)
    assert "in none of 2 ranges" in change_sentences([compared(holm, holm)])[0]
    assert change_sentences([compared(holm)])[0].endswith(
        "not told apart from chance (its interval leaves out 0, but p after Holm is above 0.05)."
    )


def test_changes_against_others_than_the_main_model_are_no_answer():
    one = compared(CLEAR)
    assert change_sentences([replace(one, second="pair, contrastive_per_range")]) == []
    assert change_sentences([]) == []


def test_spread_over_ranges(run):
    (sentence,) = spread_sentences(arrange(run.records))
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
    (sentence,) = spread_sentences(arrange(alike))
    assert sentence.count("(undefined in 1, for which 0 stands)") == 2
    assert "undefined" not in spread_sentences(arrange([one | {"flags": []} for one in run.records]))[0]


def test_one_range_has_no_spread(builder):
    run = builder(ranges=[ScoreRange(1, 5)], articles=4)
    assert spread_sentences(arrange(run.records)) == []


def test_without_resamples_a_change_has_no_interval_and_is_never_clear():
    (sentence,) = change_sentences([compared((0.03,))])
    assert "changes Spearman by +0.030 in range 0-4; without an interval" in sentence
    (sentence,) = change_sentences([compared((0.03,), (0.05,))])
    assert "+0.030 to +0.050 over 2 ranges; without an interval" in sentence
    assert "more than" not in sentence


def test_sentences_of_records_say_what_the_records_say(run):
    records = comparisons_of(run)
    sentences = change_sentences(arrange_comparisons(records))
    of_pair = [r for r in records if r["first_decoding"] == "contrastive" and r["statistic"] == "spearman"]
    told = [r for r in of_pair if r["split"] == "test" and r["level"] == "dataset" and r["range_min"] is not None]
    clear = [r for r in told if r["says"] != NOT_TOLD_APART]
    assert f"in {len(clear) or 'none'} of 4 ranges" in sentences[0]
    assert all(f"{r['difference']:+.3f}" in sentences[0] for r in clear)


def test_the_best_judge_is_named_with_its_interval_and_with_what_picking_it_does(run):
    blocks = arrange(run.records)
    (told,) = best_sentences(blocks)
    rows = [
        (row.estimates["spearman"].value, row, section.range) for section in blocks[0].sections for row in section.rows
    ]
    value, row, score_range = max(rows, key=lambda one: one[0])
    assert told.startswith(f"coherence: {row.series}")
    assert f"Spearman {value:.3f} [{value - 0.06:.3f}, {value + 0.05:.3f}] in range {score_range}" in told
    assert told.endswith(f"({blocks[0].size()}). The best of {len(rows)} is flattered by having been picked.")


def test_one_judge_alone_is_not_called_the_best(run):
    greedy = [record for record in run.records if (record["judge"], record["decoding"]) == ("main", "greedy")]
    (ranges,) = best_sentences(arrange(greedy))
    assert ranges.startswith("coherence: main, greedy agrees best of its ranges, Spearman ")
    (one,) = best_sentences(arrange([record for record in greedy if record["range_min"] == 1]))
    assert one.startswith("coherence: main, greedy has Spearman ")
    assert "flattered" not in one


def test_a_best_judge_whose_interval_holds_0_is_told_so(run):
    low = [record | {"spearman_low": -0.1} for record in run.records]
    assert "which is not told apart from no agreement" in best_sentences(arrange(low))[0]
    none = [record | {"spearman_low": None, "spearman_high": None} for record in run.records]
    assert "without an interval" in best_sentences(arrange(none))[0]
