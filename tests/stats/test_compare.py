"""Paired comparisons: their records, what they rest on, and what they say."""

import json

import numpy as np
import pytest

from judgebench.stats.clusters import percentile_interval
from judgebench.stats.paired import compare, corrected_together, default_pairs
from judgebench.stats.scores import Cell
from judgebench.stats.significance import holm
from tests.stats.test_levels import correlate

PAIR, GREEDY = ("pair", "contrastive"), ("main", "greedy")
KEYS = [
    *("dataset", "split", "level", "dimension", "range_min", "range_max", "range_step", "ranges", "attack", "defense"),
    *("first_judge", "first_decoding", "first_lambda", "first_temperature"),
    *("second_judge", "second_decoding", "second_lambda", "second_temperature"),
    *("statistic", "n", "groups", "first", "second", "difference", "low", "high", "se"),
    *("p", "p_holm", "comparisons", "groups_needed", "groups_needed_for_0.05", "says"),
]


def human(groups=12, systems=4):
    return np.random.default_rng(99).integers(3, 16, groups * systems) / 3


def part(judge, decoding, noise, low=1, seed=0, groups=12, systems=4, knobs=(np.nan, np.nan), **cell):
    """The rows of one series in one range."""
    n = groups * systems
    rated = human(groups, systems)
    score = np.clip(np.round(rated + noise * np.random.default_rng([seed, low]).normal(size=n)), 1, 5) - 1 + low
    whole = {"split": "test", "dimension": "coherence", "range_min": float(low), "range_max": low + 4.0}
    whole |= {"range_step": 1.0, "attack": "none", "defense": "none", "judge": judge, "decoding": decoding}
    whole |= {"lambda": knobs[0], "temperature": knobs[1], "status": "parsed"} | cell
    columns = {name: np.full(n, value) for name, value in whole.items()}
    columns["group_id"] = np.repeat([f"g{i:02}" for i in range(groups)], systems)
    columns["system_id"] = np.tile([f"s{i}" for i in range(systems)], groups)
    pairs = zip(columns["group_id"], columns["system_id"], strict=True)
    columns["example_id"] = np.array([f"{g}/{s}" for g, s in pairs])
    return columns | {"human": rated, "score": score}


def joined(*parts):
    return {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}


def two_ranges(**more):
    return joined(
        *(part(*GREEDY, 1.5, low, seed=1, **more) for low in (0, 1)),
        *(part(*PAIR, 0.5, low, seed=2, knobs=(0.1 + low, 2.0), **more) for low in (0, 1)),
    )


def chosen(records, **what):
    return [record for record in records if all(record[key] == value for key, value in what.items())]


def test_records_have_these_keys_and_this_order_and_json_takes_them():
    records = compare(two_ranges(), [(PAIR, GREEDY)], "mini", resamples=60)
    assert all(list(record) == KEYS for record in records)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert [(r["level"], r["range_min"], r["statistic"]) for r in records] == [
        (level, low, statistic)
        for level in ("dataset", "document", "system")
        for low in (0.0, 1.0, None)
        for statistic in ("pearson", "spearman", "kendall")
    ]
    assert {(r["ranges"], r["range_min"]) for r in records} == {(1, 0.0), (1, 1.0), (2, None)}
    assert {(r["range_min"], r["first_lambda"], r["first_temperature"]) for r in records} == {
        (0.0, 0.1, 2.0),
        (1.0, 1.1, 2.0),
        (None, None, 2.0),  # tuned to two values, hence to none in the mean
    }


@pytest.mark.parametrize("level", ["dataset", "document", "system"])
def test_a_difference_is_that_of_the_levels(level):
    columns = two_ranges()
    records = chosen(compare(columns, [(PAIR, GREEDY)], "mini", [level], 80, 3), range_min=1.0)
    sides = []
    for judge, decoding in (PAIR, GREEDY):
        rows = (columns["judge"] == judge) & (columns["decoding"] == decoding) & (columns["range_min"] == 1)
        four = (columns[name][rows] for name in ("score", "human", "group_id", "system_id"))
        sides.append(correlate(level, *four, resamples=80, seed=3))
    for k, (record, gap) in enumerate(zip(records, sides[0].values - sides[1].values, strict=True)):
        assert (record["first"], record["second"]) == tuple(side.values[k, 0] for side in sides)
        ends = percentile_interval(gap[1:])
        assert (record["difference"], record["low"], record["high"]) == pytest.approx((gap[0], *ends), abs=1e-15)
        assert (record["n"], record["groups"]) == (sides[0].n, 12)


def test_the_mean_over_ranges_is_resampled_jointly():
    columns = two_ranges()
    records = chosen(compare(columns, [(PAIR, GREEDY)], "mini", ["dataset"], 80, 3), statistic="spearman")
    gaps = np.zeros(80)
    for low in (0, 1):
        for sign, (judge, decoding) in ((1, PAIR), (-1, GREEDY)):
            rows = (columns["judge"] == judge) & (columns["decoding"] == decoding) & (columns["range_min"] == low)
            four = (columns[name][rows] for name in ("score", "human", "group_id", "system_id"))
            gaps += sign * correlate("dataset", *four, resamples=80, seed=3).values[1, 1:] / 2
    mean = records[-1]
    assert mean["difference"] == pytest.approx((records[0]["difference"] + records[1]["difference"]) / 2)
    assert (mean["low"], mean["high"]) == pytest.approx(percentile_interval(gaps))
    assert mean["se"] == pytest.approx(gaps.std(ddof=1))


def test_holm_is_over_one_table_of_one_statistic():
    columns = joined(two_ranges(), two_ranges(dimension="relevance"), part("main", "expectation", 1.0))
    pairs = [(PAIR, GREEDY), (("main", "expectation"), GREEDY)]
    records = compare(columns, pairs, "mini", ["dataset", "system"], resamples=60)
    for dimension, rows in (("coherence", 4), ("relevance", 3)):
        for level in ("dataset", "system"):
            for statistic in ("pearson", "spearman", "kendall"):
                family = chosen(records, dimension=dimension, level=level, statistic=statistic)
                assert [r["comparisons"] for r in family] == [rows] * rows
                assert [r["p_holm"] for r in family] == holm(np.array([r["p"] for r in family])).tolist()


def test_what_it_says():
    columns = joined(
        part(*GREEDY, 3.0, seed=1, groups=60),
        part(*PAIR, 0.3, seed=2, groups=60),
        part("main", "twin", 3.0, seed=1, groups=60),
        part("main", "like", 3.0, seed=3, groups=60),
    )
    pairs = [(PAIR, GREEDY), (GREEDY, PAIR), (("main", "twin"), GREEDY), (("main", "like"), GREEDY)]
    better, worse, twin, like = compare(columns, pairs, "mini", ["dataset"], resamples=500)[1::3]
    assert [r["says"] for r in (better, worse, twin, like)] == ["better", "worse", "not significant", "not significant"]
    assert better["groups_needed"] < 60 < like["groups_needed"]
    assert (twin["difference"], twin["low"], twin["high"], twin["p"], twin["groups_needed"]) == (0, 0, 0, 1, None)
    assert better["p"] == 1 / 20_001
    assert like["groups_needed"] > 2 * 60  # as wherever an interval holds 0: (2.80 / 1.96)^2 times as many at least


def test_what_is_read_together_is_corrected_together():
    columns = joined(
        *(part(*GREEDY, 1.5, seed=1, dimension=name) for name in ("coherence", "relevance")),
        part(*PAIR, 0.9, seed=3, dimension="coherence"),
        part(*PAIR, 1.2, seed=2, dimension="relevance"),
    )
    alone = compare(columns, [(PAIR, GREEDY)], "mini", ["dataset", "system"], resamples=400)
    together = corrected_together(alone)
    assert [list(record) for record in together] == [list(record) for record in alone]
    for level in ("dataset", "system"):
        for statistic in ("pearson", "spearman", "kendall"):
            family = chosen(together, level=level, statistic=statistic)
            assert [record["comparisons"] for record in family] == [2, 2]
            assert [r["p_holm"] for r in family] == holm(np.array([r["p"] for r in family])).tolist()
    clear = [one | {"p": p, "low": 0.01, "high": 0.3} for one, p in zip(alone[1::6], (0.03, 0.04), strict=True)]
    assert [one["statistic"] for one in clear] == ["spearman"] * 2
    assert [one["says"] for one in corrected_together(clear[:1])] == ["better"]
    assert [(one["p_holm"], one["says"]) for one in corrected_together(clear)] == [(0.06, "not significant")] * 2
    untested = compare(columns, [(PAIR, GREEDY)], "mini", ["dataset"], resamples=0)
    assert corrected_together(untested) == untested


def test_all_flips_of_few_articles_are_tried():
    columns = joined(part(*GREEDY, 3.0, groups=4), part(*PAIR, 0.1, seed=2, groups=4))
    for record in compare(columns, [(PAIR, GREEDY)], "mini", resamples=50):
        assert (record["p"] * 16) == int(record["p"] * 16)
        assert record["p"] >= 2 / 16  # the data itself and its mirror image
        assert record["says"] == "not significant"


def test_only_what_both_have_scored_and_somebody_rated_counts():
    one, other = part(*PAIR, 0.5, seed=2), part(*GREEDY, 1.0, seed=1)
    less = {name: column[5:] for name, column in one.items()}
    other["human"] = np.where(np.arange(48) == 40, np.nan, other["human"])
    less["human"] = np.where(np.arange(43) == 35, np.nan, less["human"])
    order = np.random.default_rng(0).permutation(43)
    mixed = {name: column[order] for name, column in less.items()}
    kept = np.r_[5:40, 41:48]
    whole = joined(*({name: column[kept] for name, column in side.items()} for side in (one, other)))
    found = compare(joined(mixed, other), [(PAIR, GREEDY)], "mini", resamples=40)
    for record, twin in zip(found, compare(whole, [(PAIR, GREEDY)], "mini", resamples=40), strict=True):
        assert record == {k: pytest.approx(v, abs=1e-9) if isinstance(v, float) else v for k, v in twin.items()}
    assert found[0]["n"] == 42


def test_a_cell_without_both_gives_no_record_and_other_groups_no_mean():
    columns = joined(part(*GREEDY, 1.0, 0), part(*PAIR, 0.5, 0), part(*GREEDY, 1.0, 1))
    assert {r["range_min"] for r in compare(columns, [(PAIR, GREEDY)], "mini", resamples=20)} == {0.0}
    some = {name: column[8:] for name, column in part(*PAIR, 0.5, 1).items()}
    uneven = compare(joined(columns, some), [(PAIR, GREEDY)], "mini", resamples=20)
    assert {r["range_min"] for r in uneven} == {0.0, 1.0}
    unrated = columns | {"human": np.full(len(columns["human"]), np.nan)}
    assert compare(unrated, [(PAIR, GREEDY)], "mini", resamples=20) == []
    assert compare(columns, [], "mini", resamples=20) == []
    assert compare({name: column[:0] for name, column in columns.items()}, [(PAIR, GREEDY)], "mini") == []


@pytest.mark.parametrize(("groups", "resamples"), [(12, 0), (1, 50)])
def test_without_resamples_there_are_differences_alone(groups, resamples):
    columns = joined(part(*GREEDY, 1.0, groups=groups), part(*PAIR, 0.5, seed=2, groups=groups))
    for record in compare(columns, [(PAIR, GREEDY)], "mini", resamples=resamples):
        assert record["difference"] == record["first"] - record["second"]
        after = KEYS[KEYS.index("low") :]
        assert {key: record[key] for key in after} == dict.fromkeys(after) | {"comparisons": 0}


def test_several_settings_of_one_decoding_are_each_compared():
    columns = joined(
        *(part(*GREEDY, 1.0, low) for low in (0, 1)),
        *(part(*PAIR, 0.5, low, knobs=(weight, 1.0)) for low in (0, 1) for weight in (0.1, 0.5)),
    )
    records = compare(columns, [(PAIR, GREEDY)], "mini", ["dataset"], resamples=20)
    assert [(r["first_lambda"], r["range_min"]) for r in chosen(records, statistic="kendall")] == [
        *[(0.1, 0.0), (0.1, 1.0), (0.1, None), (0.5, 0.0), (0.5, 1.0), (0.5, None)]
    ]


def test_what_is_compared_unless_said():
    names = [
        *[("main", "greedy"), ("main", "expectation"), ("assistant", "greedy"), ("assistant", "expectation")],
        *[("pair", "contrastive"), ("pair", "contrastive_expectation"), ("pair", "contrastive_per_range")],
    ]
    cells = [Cell("test", "coherence", 1, 5, 1, "none", "none", *name, None, None) for name in names]
    rules = {name: "expectation" if "expectation" in name else "argmax" for _, name in names}
    assert default_pairs(cells, rules) == [
        (PAIR, GREEDY),
        (("pair", "contrastive_expectation"), ("main", "expectation")),
        (("pair", "contrastive_per_range"), GREEDY),
        (PAIR, ("pair", "contrastive_per_range")),
    ]
    assert default_pairs(cells[:4], rules) == []


def test_nothing_is_tested_where_settings_were_chosen():
    columns = joined(two_ranges(), two_ranges(split="dev"))
    whole = compare(columns, [(PAIR, GREEDY)], "mini", resamples=40)
    found = compare(columns, [(PAIR, GREEDY)], "mini", resamples=40, chosen_on=["dev"])
    after = KEYS[KEYS.index("p") :]
    for record, twin in zip(found, whole, strict=True):
        told = dict.fromkeys(after) | {"comparisons": 0} if record["split"] == "dev" else {}
        assert record == twin | told
        assert twin["p"] is not None
