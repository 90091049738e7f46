"""Systems ranked by comparisons: records by hand, identities, and resamples one by one."""

import json
from itertools import permutations

import numpy as np
import pytest

from judgebench.settings.metrics import Ranking
from judgebench.stats.clusters import group_weights
from judgebench.studies.rankings import pairwise_records
from judgebench.words.errors import UserError
from tests.studies.test_evaluate import CELL, joined


def columns_of(rows, **cell):
    """Rows are (group, system, rival, score_first, score_second, human, tie_first, tie_second); the last two default
    to 0."""
    table = CELL | {"dimension": "joint", "range_min": 0.0, "range_max": 1.0, "range_step": 0.5}
    found = []
    for group, one, other, first, second, human, *ties in rows:
        tied = ties or (0.0, 0.0)
        found.append(
            table
            | {"group_id": group, "system_id": one, "rival_system_id": other, "score": (first + second) / 2}
            | {"text_id": f"{group}/{one}", "rival_id": f"{group}/{other}", "score_first": first}
            | {"example_id": f"{group}/{one}~{group}/{other}", "score_second": second, "human": human}
            | {"tie_first": tied[0], "tie_second": tied[1]}
            | cell
        )
    return {name: np.array([row[name] for row in found]) for name in found[0]}


def ranked(rows, resamples=0, prior=1.0):
    return pairwise_records(columns_of(rows), "mini", prior, resamples)[0]


def placed(record, system):
    return next(row for row in record["ranking"] if row["system"] == system)


def drawn(seed, groups=5, systems=4, every=True):
    rng = np.random.default_rng(seed)
    rows = []
    for g in range(groups):
        human = np.round(rng.normal(size=systems) + 0.5 * np.arange(systems), 1)
        judge = human + rng.normal(size=systems)
        for i, k in permutations(range(systems), 2):
            if every or i < k:
                first, second = (1 / (1 + np.exp(-(judge[i] - judge[k] + shift))) for shift in (0.5, -0.5))
                rows.append((f"g{g}", f"s{i}", f"s{k}", first, second, round(human[i] - human[k], 1)))
    return rows


def test_two_systems_by_hand():
    #              a beats b clearly | by place, undecided | loses
    rows = [("g1", "a", "b", 1, 1, 2), ("g2", "a", "b", 1, 0, 0), ("g3", "a", "b", 0, 0, 1)]
    record = ranked(rows, prior=0.001)
    best = placed(record, "a")
    assert (best["wins"], best["ties"], best["losses"]) == (1.5, 0, 1.5)
    assert (best["strength"], best["elo"], best["rank"]) == (pytest.approx(0), pytest.approx(1000), 1)
    # the humans: two wins and a tie, so never a loss by themselves, but half of one
    assert (best["human_wins"], best["human_ties"], best["human_losses"]) == (2, 1, 0)
    assert best["human_strength"] - placed(record, "b")["human_strength"] == pytest.approx(np.log(2.5 / 0.5), abs=1e-3)
    assert best["human_elo"] - 1000 == pytest.approx(400 * np.log10(5) / 2, abs=0.2)
    assert (record["pairs"], record["groups"], record["systems"]) == (3, 3, 2)
    assert record["system_pairs"] == [
        {"first": "a", "second": "b", "pairs": 3, "win_share": 0.5, "human_win_share": pytest.approx(2.5 / 3)}
        | {"preferred": 2, "agreement": 0.5, "agreement_low": None, "agreement_high": None}
    ]


def test_each_of_two_orders_counts_half():
    record = ranked([("g1", "a", "b", 0.9, 0.7, 1), ("g2", "a", "b", 0.9, 0.3, 1)])
    best = placed(record, "a")
    assert (best["wins"], best["ties"], best["losses"]) == pytest.approx((1.4, 0.0, 0.6))
    assert record["place_effect"] is not None


def test_ties_that_the_judge_finds_are_ties():
    rows = [("g1", "a", "b", 0.5, 0.5, 1, 1.0, 1.0), ("g2", "a", "b", 0.6, 0.8, 1, 0.4, 0.2)]
    best = placed(ranked(rows), "a")
    # order by order: a win is its share less half a tie
    assert (best["wins"], best["ties"], best["losses"]) == pytest.approx((0.4 / 2 + 0.7 / 2, 1.3, 0.15))


def test_two_texts_that_met_twice_are_one_comparison():
    rows = drawn(0)
    once = [row for row in rows if row[1] < row[2]]
    twice, alone = (ranked(one, resamples=20) for one in (rows, once))
    assert twice.keys() == alone.keys()
    for name in ("pairs", "rated", "tau", "auc", "auc_low", "accuracy", "place_effect", "strength_spearman_high"):
        assert twice[name] == pytest.approx(alone[name]), name
    for one in alone["ranking"]:
        other = placed(twice, one["system"])
        assert {k: other[k] for k in one if k != "system"} == pytest.approx({k: one[k] for k in one if k != "system"})


def test_a_judge_of_places_alone_ranks_nobody():
    rows = [(g, i, k, 0.9, 0.1, h) for g, i, k, _, _, h in drawn(2)]
    record = ranked(rows)
    assert record["resting"] is None
    always = ranked([(*row[:3], 1, 0, row[5]) for row in rows])
    assert always["resting"].startswith(
        "the place decides every comparison: what it is worth is finite by pairwise.prior (1)"
    )
    assert [row["strength"] for row in record["ranking"]] == pytest.approx([0] * 4, abs=1e-8)
    assert {row["rank"] for row in record["ranking"]} == {1}
    assert (record["strength_spearman"], record["tau"], record["auc"]) == (0, 0, 0.5)
    # the prior's one comparison of equals holds it a little below the odds of the place
    assert np.log(9) - 0.5 < record["place_effect"] < np.log(9)


def test_intervals_are_those_of_explicitly_resampled_groups():
    rows, keys = drawn(3, every=False), ("strength_spearman", "strength_pearson", "strength_kendall", "place_effect")
    found, drawn_each = ranked(rows, resamples=30), []
    for counts in group_weights(5, 30, 0):
        copied = [(f"{g}-{copy}", *row[1:]) for g, k in enumerate(counts) for copy in range(k)
                  for row in rows if row[0] == f"g{g}"]  # fmt: skip
        again = ranked(copied)
        strengths = {f"s{i}": placed(again, f"s{i}")["strength"] for i in range(4)}
        drawn_each.append(strengths | {key: again[key] for key in keys})
    for name in drawn_each[0]:
        record, key = (found, name) if name in keys else (placed(found, name), "strength")
        ends = np.quantile([one[name] for one in drawn_each], (0.025, 0.975))
        assert (record[f"{key}_low"], record[f"{key}_high"]) == pytest.approx(tuple(ends), abs=1e-7)


def test_what_makes_no_ranking_is_said_in_a_sentence():
    undefeated = [("g1", "a", "b", 1, 1, 1), ("g2", "b", "c", 1, 0, 1), ("g3", "c", "b", 1, 0, 1)]
    held = ranked(undefeated, resamples=10)
    assert held["unranked"] is None
    assert (
        held["resting"] == "a never lost to or tied with b, c: without pairwise.prior (1) strengths would be infinite"
    )
    assert held["ranking"][0]["system"] == "a"
    beaten = ranked([("g1", "b", "a", 1, 1, 1), ("g2", "b", "c", 1, 0, 1), ("g3", "c", "b", 1, 0, 1)])
    assert beaten["resting"].startswith("a never won against or tied with any of the others: without")
    apart = ranked([("g1", "a", "b", 1, 0, 1), ("g2", "c", "d", 1, 0, 1)])
    assert "2 parts that never met, directly or through others: a, b; c, d" in apart["unranked"]
    assert apart["strength_spearman"] is None
    best = placed(apart, "a")
    assert (best["strength"], best["rank"], best["elo_low"], best["wins"]) == (None, None, None, 0.5)
    alone = ranked([("g1", "a", "a", 1, 0, 1)])
    assert alone["unranked"] == "all texts are by one system, a"
    unrated = ranked([("g1", "a", "b", 1, 0, np.nan)])
    assert unrated["human_unranked"] == "nobody compared these texts"
    assert (unrated["tau"], unrated["rated"]) == (None, 0)
    placing = [("g1", "a", "b", 1, 0, 1), ("g1", "b", "c", 1, 0, 1)]
    assert "the place decides every comparison" in ranked(placing)["resting"]


def test_the_threshold_for_ties_comes_from_the_dev_split():
    dev = columns_of([("g8", "a", "b", 0.55, 0.55, 0), ("g9", "a", "b", 0.9, 0.9, 2)], split="dev")
    test = columns_of([("g1", "a", "b", 0.54, 0.54, 0), ("g2", "b", "a", 0.8, 0.8, 1)])
    records = {one["split"]: one for one in pairwise_records(joined(dev, test), "mini", resamples=0)}
    assert [one["tie_threshold"] for one in records.values()] == pytest.approx([0.05, 0.05])
    assert (records["test"]["accuracy"], records["test"]["accuracy_calibrated"]) == (0.5, 1.0)
    assert pairwise_records(test, "mini", resamples=0)[0]["accuracy_calibrated"] is None


def test_records_are_json_and_texts_judged_alone_have_none():
    records = pairwise_records(columns_of(drawn(6)), "mini", resamples=10, rules={"greedy": "argmax"})
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert (records[0]["rule"], records[0]["dataset"], records[0]["resamples"]) == ("argmax", "mini", 10)
    alone = {k: v for k, v in columns_of(drawn(6)).items() if not k.startswith(("score_", "tie_", "text", "rival"))}
    assert pairwise_records(alone, "mini") == []


@pytest.mark.parametrize("given", [{"outcome": "both"}, {"prior": -1}, {"prior": 0}, {"prior": [1]}])
def test_settings_are_checked_at_the_door(given):
    with pytest.raises(UserError, match=rf"pairwise\.{next(iter(given))}"):
        Ranking.parse(given)
    assert Ranking.parse({"prior": 1}) == Ranking()
