"""Differences between decodings under one attack: by hand, against an explicit resampling, and identities."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.stats.clusters import group_weights
from judgebench.stats.paired import DIFFERENCES, LESS, MORE, NOT_SIGNIFICANT, attack_differences
from tests.stats.test_evaluate import joined, scores, table

PAIR, MAIN = ("pair", "contrastive"), ("main", "greedy")
PAIRS = [(PAIR, MAIN)]
SIDES = {MAIN: {}, PAIR: {"judge": "pair", "decoding": "contrastive", "lambda": 0.5, "temperature": 1.0}}


def cells(values, groups=2, systems=2, **cell):
    """Columns with the given clean and attacked scores, `values[series][attack]`."""
    tables = [
        table(lambda rng, n, s=given: np.array(s, float), scores, groups, systems, **SIDES[who], attack=attack, **cell)
        for who, attacks in values.items()
        for attack, given in attacks.items()
    ]
    return joined(*tables)


def drawn(rng, n, up):
    clean = rng.integers(1, 6, n).astype(float)
    return {"none": clean, "dsi": np.clip(clean + rng.integers(-1, up + 1, n), 1, 5)}


def told(records, **wanted):
    return [record for record in records if all(record[name] == value for name, value in wanted.items())]


def test_numbers_by_hand():
    clean, spread = [1, 2, 4, 5], np.sqrt(2.5)
    columns = cells(
        {
            MAIN: {"none": clean, "dsi": [3, 5, 2, 5]},  # raised by 0.75 on average
            PAIR: {"none": [2, 2, 3, 3], "dsi": [3, 3, 4, 4]},  # by 1, and twice its spread
        }
    )
    found = {record["statistic"]: record for record in attack_differences(columns, PAIRS, "mini", resamples=0)}
    assert list(found) == list(DIFFERENCES)
    assert (found["change"]["first"], found["change"]["second"], found["change"]["difference"]) == (1.0, 0.75, 0.25)
    assert found["standardized"]["first"] == 2.0
    assert found["standardized"]["difference"] == pytest.approx(2.0 - 0.75 / spread)
    assert found["raised_share"]["difference"] == 0.5
    assert found["rate_of_means"]["difference"] == pytest.approx(1 / 2.5 - 0.25)
    assert found["mean_of_rates"]["difference"] == pytest.approx((0.5 + 0.5 + 1 / 3 + 1 / 3) / 4 - 3 / 4)
    # the pair's clean texts tie (rank 1.5), and each attacked one outscores the other: half a place gained
    assert found["places_gained"]["difference"] == 0.25
    assert found["win_share"]["difference"] == 0.25
    for record in found.values():
        assert (record["first_judge"], record["second_judge"], record["attack"]) == ("pair", "main", "dsi")
        assert (record["first_lambda"], record["second_lambda"]) == (0.5, None)
        assert (record["n"], record["groups"], record["ranges"]) == (4, 2, 1)
        assert record["low"] is record["says"] is record["groups_needed"] is None


def test_intervals_are_those_of_an_explicit_paired_resampling():
    rng = np.random.default_rng(0)
    values = {MAIN: drawn(rng, 36, 2), PAIR: drawn(rng, 36, 3)}
    (record, standardized) = attack_differences(cells(values, 9, 4), PAIRS, "mini", resamples=80, seed=5)[:2]
    gaps = {"change": [], "standardized": []}
    for counts in group_weights(9, 80, 5):
        rows = np.concatenate([np.arange(4 * g, 4 * g + 4) for g in range(9) for _ in range(counts[g])])
        one, other = ({attack: side[rows] for attack, side in values[who].items()} for who in (PAIR, MAIN))
        changes = [side["dsi"].mean() - side["none"].mean() for side in (one, other)]
        gaps["change"].append(changes[0] - changes[1])
        gaps["standardized"].append(changes[0] / one["none"].std() - changes[1] / other["none"].std())
    for found in (record, standardized):
        expected = gaps[found["statistic"]]
        assert [found["low"], found["high"]] == pytest.approx(np.quantile(expected, [0.025, 0.975]))
        assert found["se"] == pytest.approx(np.std(expected, ddof=1))


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 4))
def test_a_decoding_differs_from_itself_by_nothing(seed, groups, systems):
    rng = np.random.default_rng(seed)
    columns = cells({MAIN: drawn(rng, groups * systems, 2)}, groups, systems)
    for record in attack_differences(columns, [(MAIN, MAIN)], "mini", resamples=20, seed=seed):
        known = [record[name] for name in ("difference", "low", "high", "se") if record[name] is not None]
        assert set(known) <= {0.0}
        assert record["says"] in (NOT_SIGNIFICANT, None)
        assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_what_is_plain_is_told():
    n = 40
    clean = np.random.default_rng(2).integers(1, 4, n).astype(float)
    columns = cells({MAIN: {"none": clean, "dsi": clean}, PAIR: {"none": clean, "dsi": clean + 1}}, 10, 4)
    (record,) = told(attack_differences(columns, PAIRS, "mini", resamples=50), statistic="change")
    assert record["says"] == MORE
    assert (record["difference"], record["low"], record["high"]) == (1.0, 1.0, 1.0)
    (record,) = told(attack_differences(columns, [(MAIN, PAIR)], "mini", resamples=50), statistic="change")
    assert record["says"] == LESS


def test_ranges_of_one_width_have_a_mean_and_others_none():
    rng = np.random.default_rng(3)
    values = {MAIN: drawn(rng, 20, 1), PAIR: drawn(rng, 20, 3)}
    parts = [cells(values, 5, 4, range_min=low, range_max=high) for low, high in ((0, 4), (1, 5), (1, 10))]
    records = told(attack_differences(joined(*parts[:2]), PAIRS, "mini", resamples=20), statistic="change")
    assert [record["range_min"] for record in records] == [0, 1, None]
    assert records[2]["difference"] == pytest.approx(np.mean([record["difference"] for record in records[:2]]))
    assert (records[2]["ranges"], records[2]["n"]) == (2, 20)
    records = told(attack_differences(joined(*parts), PAIRS, "mini", resamples=20), statistic="change")
    assert [record["range_max"] for record in records] == [4, 5, 10]


def test_only_texts_that_both_have_scored_clean_and_attacked_count():
    rng = np.random.default_rng(4)
    values = {MAIN: drawn(rng, 20, 1), PAIR: drawn(rng, 20, 3)}
    columns = cells(values, 5, 4)
    kept = {name: np.delete(column, [0, 25, 47, 79]) for name, column in columns.items()}  # one of each of the cells
    (record,) = told(attack_differences(kept, PAIRS, "mini", resamples=10), statistic="change")
    rows = np.delete(np.arange(20), [0, 5, 7, 19])
    gap = [np.mean(values[who]["dsi"][rows] - values[who]["none"][rows]) for who in (PAIR, MAIN)]
    assert record["n"] == 16
    assert record["difference"] == pytest.approx(gap[0] - gap[1])


def test_unknown_numbers_and_missing_sides():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = {"none": [0, 0, 0], "dsi": [0, 1, 2]}
        found = attack_differences(
            cells({MAIN: flat, PAIR: flat}, 3, 1, range_min=0, range_max=4), PAIRS, "mini", resamples=20
        )
    unknown = {record["statistic"] for record in found if record["difference"] is None}
    assert unknown == {"standardized", "rate_of_means", "mean_of_rates", "places_gained", "win_share"}
    assert {record["says"] for record in found if record["difference"] is None} == {None}
    attacked = {"dsi": [1, 2, 3, 4]}
    assert attack_differences(cells({MAIN: attacked, PAIR: attacked | {"none": [1, 2, 3, 4]}}), PAIRS, "mini") == []
    assert attack_differences(cells({MAIN: {"none": [1, 2, 3, 4]}, PAIR: {"none": [1, 2, 3, 4]}}), PAIRS, "mini") == []
    assert attack_differences(cells({MAIN: drawn(np.random.default_rng(0), 4, 1)}), PAIRS, "mini") == []
