"""Paired comparisons: the permutation test against scipy's, records of correlations and of attacks, what they say."""

import warnings

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.clusters import CONFIDENCE, group_weights, percentile_interval
from judgebench.stats.correlation import LEVELS
from judgebench.stats.permutation import (
    holm,
)
from judgebench.studies.paired import (
    DIFFERENCES,
    NOT_SIGNIFICANT,
    Baseline,
    attack_differences,
    compare,
    corrected_together,
    default_pairs,
)
from judgebench.studies.scores import ScoreSeries
from tests.studies.test_evaluate import joined, table
from tests.studies.test_levels import correlate

PAIR, GREEDY = ("pair", "contrastive"), ("main", "greedy")
PAIRS = [(PAIR, GREEDY)]


# --- correlations ---------------------------------------------------------------------------------------------------


def part(judge, decoding, noise, low=1, seed=0, groups=12, systems=4, hyperparameters=(np.nan, np.nan), **cell):
    """The rows of one series in one range."""
    n = groups * systems
    human = np.random.default_rng(99).integers(3, 16, n) / 3
    score = np.clip(np.round(human + noise * np.random.default_rng([seed, low]).normal(size=n)), 1, 5) - 1 + low
    cell |= {
        "range_min": float(low),
        "range_max": low + 4.0,
        "lambda": hyperparameters[0],
        "temperature": hyperparameters[1],
    }
    return table(lambda *_: score, lambda *_: human, groups, systems, judge=judge, decoding=decoding, **cell)


def two_ranges(**more):
    return joined(
        *(part(*GREEDY, 1.5, low, seed=1, **more) for low in (0, 1)),
        *(part(*PAIR, 0.5, low, seed=2, hyperparameters=(0.1 + low, 2.0), **more) for low in (0, 1)),
    )


def chosen(records, **what):
    return [record for record in records if all(record[key] == value for key, value in what.items())]


@pytest.mark.parametrize("level", LEVELS)
def test_differences_are_those_of_the_levels_and_their_mean_is_resampled_jointly(level):
    columns, gaps = two_ranges(), []
    records = compare(columns, PAIRS, "mini", [level], 80, 3)
    for low in (0, 1):
        sides = []
        for judge, decoding in (PAIR, GREEDY):
            rows = (columns["judge"] == judge) & (columns["decoding"] == decoding) & (columns["range_min"] == low)
            four = (columns[name][rows] for name in ("score", "human", "group_id", "system_id"))
            sides.append(correlate(level, *four, resamples=80, seed=3))
        gaps.append(sides[0].values - sides[1].values)
        for record, first, second in zip(chosen(records, range_min=low), *(s.values[:, 0] for s in sides), strict=True):
            assert (record["first"], record["second"]) == pytest.approx((first, second), abs=1e-14)
            assert (record["n"], record["groups"]) == (sides[0].n, 12)
    for low, gap in ((0, gaps[0]), (1, gaps[1]), (None, np.mean(gaps, axis=0))):
        for record, values in zip(chosen(records, range_min=low), gap, strict=True):
            expected = (values[0], *percentile_interval(values[1:]), values[1:].std(ddof=1))
            names = ("difference", "low", "high", "se")
            assert tuple(record[name] for name in names) == pytest.approx(expected, abs=1e-14)


def test_what_it_says():
    columns = joined(
        part(*GREEDY, 3.0, seed=1, groups=60),
        part(*PAIR, 0.3, seed=2, groups=60),
        part("main", "twin", 3.0, seed=1, groups=60),
        part("main", "like", 3.0, seed=3, groups=60),
    )
    pairs = [(PAIR, GREEDY), (GREEDY, PAIR), (("main", "twin"), GREEDY), (("main", "like"), GREEDY)]
    better, worse, twin, like = compare(columns, pairs, "mini", ["dataset"], resamples=500)[1::3]
    assert [r["says"] for r in (better, worse, twin, like)] == ["better", "worse", NOT_SIGNIFICANT, NOT_SIGNIFICANT]
    assert [r["comparisons"] for r in (better, worse, twin, like)] == [4] * 4
    assert better["groups_needed"] < 60 < like["groups_needed"]
    assert (twin["difference"], twin["low"], twin["high"], twin["p"], twin["groups_needed"]) == (0, 0, 0, 1, None)
    assert better["p"] == 1 / 20_001
    # of those that are read together, each says what it says of all
    clear = [better | {"p": p} for p in (0.03, 0.04)]
    assert [one["says"] for one in corrected_together(clear[:1])] == ["better"]
    twice = [one | {"first_judge": name} for one, name in zip(clear, "ab", strict=True)]
    assert [(one["p_holm"], one["says"]) for one in corrected_together(twice)] == [(0.06, NOT_SIGNIFICANT)] * 2
    assert like["groups_needed"] > 2 * 60  # as wherever an interval holds 0: (2.80 / 1.96)^2 times as many at least


def test_only_what_both_have_scored_and_somebody_rated_counts():
    one, other = part(*PAIR, 0.5, seed=2), part(*GREEDY, 1.0, seed=1)
    less = {name: column[5:] for name, column in one.items()}
    other["human"] = np.where(np.arange(48) == 40, np.nan, other["human"])
    less["human"] = np.where(np.arange(43) == 35, np.nan, less["human"])
    order = np.random.default_rng(0).permutation(43)
    mixed = {name: column[order] for name, column in less.items()}
    kept = np.r_[5:40, 41:48]
    whole = joined(*({name: column[kept] for name, column in side.items()} for side in (one, other)))
    found = compare(joined(mixed, other), PAIRS, "mini", resamples=40)
    for record, twin in zip(found, compare(whole, PAIRS, "mini", resamples=40), strict=True):
        assert record == {k: pytest.approx(v, abs=1e-9) if isinstance(v, float) else v for k, v in twin.items()}
    assert found[0]["n"] == 42


def test_what_is_compared_unless_said_and_what_lacks_a_side_is_not():
    names = [("main", "greedy"), ("main", "expectation"), ("assistant", "greedy"), PAIR, ("pair", "hopeful")]
    cells = [ScoreSeries("test", "coherence", 1, 5, 1, "none", "none", *name, None, None) for name in names]
    rules = {"greedy": "argmax", "expectation": "expectation", "contrastive": "argmax", "hopeful": "expectation"}
    assert default_pairs(cells, rules) == [(PAIR, GREEDY), (("pair", "hopeful"), ("main", "expectation"))]
    assert default_pairs(cells[:3], rules) == []
    columns = joined(part(*GREEDY, 1.0, 0), part(*PAIR, 0.5, 0), part(*GREEDY, 1.0, 1))
    assert {r["range_min"] for r in compare(columns, PAIRS, "mini", resamples=20)} == {0.0}
    # other articles, hence other resamples, have no mean
    some = {name: column[8:] for name, column in part(*PAIR, 0.5, 1).items()}
    assert {r["range_min"] for r in compare(joined(columns, some), PAIRS, "mini", resamples=20)} == {0.0, 1.0}
    unrated = columns | {"human": np.full(len(columns["human"]), np.nan)}
    for table_, pairs in ((unrated, PAIRS), (columns, [])):
        assert compare(table_, pairs, "mini", resamples=20) == []


@pytest.mark.parametrize(
    ("groups", "resamples", "chosen_on", "first"), [(12, 0, (), "low"), (1, 50, (), "low"), (12, 40, ["test"], "p")]
)
def test_without_resamples_there_are_differences_alone_and_without_a_test_no_p(groups, resamples, chosen_on, first):
    columns = joined(part(*GREEDY, 1.0, groups=groups), part(*PAIR, 0.5, seed=2, groups=groups))
    for record in compare(columns, PAIRS, "mini", resamples=resamples, chosen_on=chosen_on):
        assert record["difference"] == record["first"] - record["second"]
        names = list(record)
        after = names[names.index(first) :]
        assert {key: record[key] for key in after} == dict.fromkeys(after) | {"comparisons": 0}
        assert (record["low"] is None) == (first == "low")


def test_all_are_compared_with_one_plain_decoding():
    series = (("expectation", 1.5, 1), ("x", 0.5, 2))
    ranged = [part("main", name, noise, low, seed=seed) for name, noise, seed in series for low in (0, 1)]
    others = [part("main", "over", 0.8, 0, seed=3), part("assistant", "x", 3.0, 0, seed=4)]
    guarded = [part("main", "expectation", 1.5, low, seed=5, defense="cap") for low in (0, 1)]
    columns, how = joined(*ranged, *others, *guarded), {"levels": ["dataset"], "resamples": 60}
    records = chosen(compare(columns, Baseline("expectation", ["over"]), "mini", **how), statistic="spearman")
    # every judge, decoding and defense against the one plain series; what is over all ranges, against its mean alone
    assert [(r["first_decoding"], r["defense"], r.get("second_defense"), r["range_min"]) for r in records] == [
        *(("x", "none", None, low) for low in (0.0, 1.0, None)),
        ("over", "none", None, None),
        *(("expectation", "cap", "none", low) for low in (0.0, 1.0, None)),
    ]
    # corrected over what is shown first, whichever the defense, and over single ranges by themselves
    for whole in (True, False):
        family = [r for r in records if (r["range_min"] is None) == whole]
        assert {r["comparisons"] for r in family} == {3 if whole else 4}
        assert [r["p_holm"] for r in family] == holm(np.array([r["p"] for r in family])).tolist()
    # a pair is what it is by itself, and both sides have their intervals
    alone = chosen(compare(columns, [(("main", "x"), ("main", "expectation"))], "mini", **how), statistic="spearman")
    for record, pair in zip(records[:3], alone, strict=True):
        same = set(pair) - {"p_holm", "comparisons", "says"}
        assert {name: record[name] for name in same} == {name: pair[name] for name in same}
        assert record["first_low"] <= record["first"] <= record["first_high"]
    own = stats.spearmanr(others[0]["score"], others[0]["human"]).statistic
    plain = np.mean([record["second"] for record in records[:2]])
    assert (records[3]["first"], records[3]["second"]) == (pytest.approx(own), pytest.approx(plain))


# --- attacks --------------------------------------------------------------------------------------------------------


def attacked(values, groups=2, systems=2, **cell):
    """Columns with clean and attacked scores, `values[series][attack]`; no human rated them."""
    hyperparameters = {GREEDY: {}, PAIR: {"lambda": 0.5, "temperature": 1.0}}
    return joined(
        *(
            table(
                lambda rng, n, scores=scores: np.array(scores, float),
                lambda rng, n: np.full(n, np.nan),
                *(groups, systems),
                **{"judge": who[0], "decoding": who[1], "attack": attack, **hyperparameters[who], **cell},
            )
            for who, attacks in values.items()
            for attack, scores in attacks.items()
        )
    )


def drawn(rng, n, up):
    clean = rng.integers(1, 6, n).astype(float)
    return {"none": clean, "dsi": np.clip(clean + rng.integers(-1, up + 1, n), 1, 5)}


def test_differences_of_changes_by_hand():
    columns = attacked(
        {
            GREEDY: {"none": [1, 2, 4, 5], "dsi": [3, 5, 2, 5]},  # raised by 0.75 on average
            PAIR: {"none": [2, 2, 3, 3], "dsi": [3, 3, 4, 4]},  # by 1, and twice its spread
        }
    )
    records = attack_differences(columns, PAIRS, "mini", resamples=0)
    assert {record["statistic"]: record["difference"] for record in records} == pytest.approx(
        {
            "change": 1 - 0.75,
            "standardized": 2.0 - 0.75 / np.sqrt(2.5),
            "rate_of_means": 1 / 2.5 - 0.25,
            "mean_of_rates": (0.5 + 0.5 + 1 / 3 + 1 / 3) / 4 - 3 / 4,
            "raised_share": 0.5,
            # the pair's clean texts tie (rank 1.5), and each attacked one outscores the other: half a place gained
            "places_gained": 0.25,
            "win_share": 0.25,
        }
    )
    assert [record["statistic"] for record in records] == list(DIFFERENCES)
    names = ("first_judge", "second_judge", "attack", "first_lambda", "second_lambda", "n", "groups", "ranges", "low")
    assert {tuple(r[name] for name in names) for r in records} == {("pair", "main", "dsi", 0.5, None, 4, 2, 1, None)}


def test_intervals_are_those_of_an_explicit_paired_resampling():
    rng = np.random.default_rng(0)
    values = {GREEDY: drawn(rng, 36, 2), PAIR: drawn(rng, 36, 3)}
    (_, record, *_) = attack_differences(attacked(values, 9, 4), PAIRS, "mini", resamples=80, seed=5)
    gaps = []
    for counts in group_weights(9, 80, 5):
        rows = np.repeat(np.arange(36), np.repeat(counts, 4))
        one, other = ({attack: side[rows] for attack, side in values[who].items()} for who in (PAIR, GREEDY))
        sides = [(side["dsi"].mean() - side["none"].mean()) / side["none"].std() for side in (one, other)]
        gaps.append(sides[0] - sides[1])
    assert [record["low"], record["high"]] == pytest.approx(np.quantile(gaps, CONFIDENCE))
    assert record["se"] == pytest.approx(np.std(gaps, ddof=1))


def test_ranges_of_one_width_have_a_mean_and_others_none():
    rng = np.random.default_rng(3)
    values = {GREEDY: drawn(rng, 20, 1), PAIR: drawn(rng, 20, 3)}
    parts = [attacked(values, 5, 4, range_min=low, range_max=high) for low, high in ((0, 4), (1, 5), (1, 10))]
    one, two, mean = chosen(attack_differences(joined(*parts[:2]), PAIRS, "mini", resamples=20), statistic="change")
    assert mean["difference"] == pytest.approx((one["difference"] + two["difference"]) / 2)
    assert (mean["range_min"], mean["ranges"], mean["n"]) == (None, 2, 20)
    records = chosen(attack_differences(joined(*parts), PAIRS, "mini", resamples=20), statistic="change")
    assert [record["range_max"] for record in records] == [4, 5, 10]


def test_unknown_numbers_and_missing_sides():
    flat = {"none": [0, 0, 0], "dsi": [0, 1, 2]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        columns = attacked({GREEDY: flat, PAIR: flat}, 3, 1, range_min=0, range_max=4)
        records = chosen(attack_differences(columns, PAIRS, "mini", resamples=20), difference=None)
    unknown = {"standardized", "rate_of_means", "mean_of_rates", "places_gained", "win_share"}
    assert ({record["statistic"] for record in records}, {record["says"] for record in records}) == (unknown, {None})
    four = {"dsi": [1, 2, 3, 4]}, {"none": [1, 2, 3, 4]}
    for one, other in ((four[0], four[0] | four[1]), (four[1], four[1])):
        assert attack_differences(attacked({GREEDY: one, PAIR: other}), PAIRS, "mini") == []
    assert attack_differences(attacked({GREEDY: drawn(np.random.default_rng(0), 4, 1)}), PAIRS, "mini") == []
