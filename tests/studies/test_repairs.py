"""The planned comparisons of a run: by hand, by the records that other studies make, and their family."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from judgebench.studies.paired import compare
from judgebench.studies.repairs import AGREEMENT, ATTACK, COMPARED, DECODINGS, POINTS, RANGE_SHARE, repair_records
from judgebench.studies.scores import Scores, samples_of
from judgebench.studies.variance import variance_records
from tests.studies.test_evaluate import CELL, joined

RAW, SCALE = "raw", {"coherence": (1.0, 5.0)}
NOISE = dict(zip(DECODINGS, (1.5, 0.8, 1.4, 1.0), strict=True))


def scored(decoding, low=1, attack="none", defense="none", score=None, groups=12, size=4, seed=0):
    """The rows of one decoding in one range; scores are the humans' and noise, unless they are given."""
    n = groups * size
    human = np.random.default_rng([99, seed]).uniform(1, 5, n)
    if score is None:
        key = [seed, low, list(DECODINGS).index(decoding), len(attack), len(defense)]
        score = np.clip(human + NOISE[decoding] * np.random.default_rng(key).normal(size=n), 1, 5) - 1 + low
        score = np.clip(score + (attack != "none") * (1.0 if defense == "none" else 0.4), low, low + 4)
    columns = {name: np.full(n, value) for name, value in CELL.items()} | {"human": human, "score": score}
    columns |= {"decoding": np.full(n, decoding), "judge": np.full(n, DECODINGS[decoding])}
    columns |= {"range_min": np.full(n, float(low)), "range_max": np.full(n, low + 4.0)}
    columns |= {"attack": np.full(n, attack), "defense": np.full(n, defense)}
    columns |= {"group_id": np.repeat([f"g{i}" for i in range(groups)], size)}
    columns |= {"example_id": np.array([f"e{i}" for i in range(n)]), "system_id": np.tile(range(size), groups)}
    return columns


def whole(decodings=tuple(DECODINGS), **more):
    conditions = [("none", "none"), ("dsi", "none"), ("none", "sandwich"), ("dsi", "sandwich")]
    cells = product(conditions, decodings, (0, 1))
    return joined(*(scored(name, low, *condition, **more) for condition, name, low in cells))


def key(record):
    return tuple(record[name] for name in ("kind", "decoding", "attack", "defense", "reference"))


def test_the_family_is_fixed_whatever_the_order_of_decodings_and_corrected_as_statsmodels_does():
    records = repair_records(whole(), "mini", SCALE, resamples=60)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    plan = [(AGREEMENT, name, "none", "none", other) for name, other in COMPARED]
    plan += [(kind, name, "none", "none", RAW) for name in DECODINGS for kind in (POINTS, RANGE_SHARE)]
    plan += [(ATTACK, name, "dsi", "sandwich", "none") for name in DECODINGS]
    assert [key(record) for record in records] == plan
    p = [record["p"] for record in records]
    assert [record["p_holm"] for record in records] == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)
    assert {record["comparisons"] for record in records} == {len(plan)}
    # other orders, and decodings that are no part of the plan
    other = scored("greedy")
    other["decoding"] = np.full(len(other["score"]), "median")
    mixed = joined(whole(tuple(DECODINGS)[::-1]), other)
    assert repair_records(mixed, "mini", SCALE, resamples=60) == records


def test_a_run_makes_those_that_it_can():
    alone = repair_records(whole(("greedy",)), "mini", SCALE, resamples=20)
    assert [record["kind"] for record in alone] == [POINTS, RANGE_SHARE, ATTACK]
    clean = joined(scored("greedy"), scored("expectation"))
    records = {key(record)[:2]: record for record in repair_records(clean, "mini", {}, resamples=20)}
    assert records[AGREEMENT, "expectation"]["reason"] is None
    assert records[POINTS, "greedy"]["reason"] == "The humans' scale is unknown."
    assert records[RANGE_SHARE, "greedy"]["reason"] == "There is one range, and the range's share takes two."
    assert records[POINTS, "greedy"]["difference"] is records[POINTS, "greedy"]["p_holm"] is None
    one = repair_records(joined(scored("greedy", groups=1), scored("expectation", groups=1)), "mini", SCALE)
    assert [record["reason"] for record in one][:2] == [
        "No p: there is one group, or a figure is unknown without one of them.",
        "Calibration takes rated texts of two groups.",
    ]
    unrated = clean | {"human": np.full(len(clean["human"]), np.nan)}
    assert repair_records(unrated, "mini", SCALE)[0]["reason"] == "There are fewer than two texts."
    constant = joined(*(scored("greedy", low, score=np.full(48, low + 2.0)) for low in (0, 1)))
    assert repair_records(constant, "mini", SCALE)[1]["reason"] == "All scores are the same."


def test_a_judge_compared_with_itself_changes_nothing():
    score = scored("greedy")["score"]
    twins = joined(*(scored(name, low, score=score - 1 + low) for name in ("greedy", "expectation") for low in (0, 1)))
    (same,) = (record for record in repair_records(twins, "mini", SCALE, resamples=50) if record["kind"] == AGREEMENT)
    assert (same["difference"], same["difference_low"], same["difference_high"], same["p"]) == (0, 0, 0, 1)
    shielded = joined(*(scored("greedy", 1, *at, score=score) for at in product(("none", "dsi"), ("none", "cot"))))
    attacked = repair_records(shielded, "mini", SCALE, resamples=50)[-1]
    assert (attacked["kind"], attacked["before"], attacked["difference"], attacked["p"]) == (ATTACK, 0, 0, 1)


def test_scores_and_changes_by_hand():
    """Two articles of two texts; the attack adds 2 of 4 points, under the defense 1; with two articles p is 1/2
    at best."""
    human, given = np.array([1.0, 2.0, 4.0, 5.0]), {"groups": 2, "size": 2}
    added = {("none", "none"): 0.0, ("dsi", "none"): 2.0, ("none", "cot"): 0.0, ("dsi", "cot"): 1.0}
    parts = [scored("greedy", 1, *at, score=human / 2 + more, **given) for at, more in added.items()]
    worse = scored("expectation", score=np.array([1.0, 3.0, 2.0, 4.0]), **given)
    columns = joined(*parts, worse)
    columns["human"] = np.tile(human, 5)
    records = {key(record)[:2]: record for record in repair_records(columns, "mini", SCALE, resamples=20)}
    attacked, agreement = records[ATTACK, "greedy"], records[AGREEMENT, "expectation"]
    assert (attacked["before"], attacked["after"], attacked["difference"], attacked["p"]) == (0.5, 0.25, -0.25, 0.5)
    # ranks 1 3 2 4 against 1 2 3 4: 1 - 6 * 2 / (4 * 15)
    assert (agreement["before"], agreement["after"]) == pytest.approx((1.0, 0.8))
    # raw: |human / 2 - human|; calibrated: what the other article's texts have, 4 and 1.5 to 2 in the mean
    assert records[POINTS, "greedy"]["before"] == np.mean(human / 2)
    assert records[POINTS, "greedy"]["after"] == np.mean([3, 2, 2, 3])


def test_figures_are_those_of_the_other_studies():
    columns = whole()
    table = Scores.of(columns)
    records = {key(record): record for record in repair_records(table, "mini", SCALE, resamples=80, seed=3)}
    pairs = [(("pair", "contrastive"), ("main", "greedy"))]
    means = compare(table, pairs, "mini", ["dataset"], 80, 3)
    (mean,) = (row for row in means if (row["ranges"], row["statistic"], row["attack"], row["defense"])
               == (2, "spearman", "none", "none"))  # fmt: skip
    ours = records[AGREEMENT, "contrastive", "none", "none", "greedy"]
    names = ("second", "first", "difference", "p", "n", "groups")
    assert [ours[name] for name in ("before", "after", "difference", "p", "n", "groups")] == pytest.approx(
        [mean[name] for name in names], abs=1e-12
    )
    readings = pd.DataFrame({name: [] for name in ("example_id", "dimension", "attack", "defense")})
    samples = samples_of(table, readings, pd.DataFrame(columns=["example_id", "dimension", "rater", "score"]), SCALE,
                         dataset="mini", resamples=20, seed=3)  # fmt: skip
    for record in variance_records(samples):
        if record["study"] == "ranges" and record["defense"] == "none":
            side = "after" if record["calibrated"] else "before"
            ours = records[RANGE_SHARE, record["decoding"], "none", "none", RAW]
            assert ours[side] == pytest.approx(record["range_both"], abs=1e-12)


@pytest.mark.exhaustive
def test_without_a_difference_any_is_found_in_at_most_5_per_cent_of_data_sets():
    """Four decodings with the same noise: the five comparisons of agreement, and attacks that do the same under a
    defense. The chance of more than 11 % where 5 % are true is below .02."""
    found, sets = 0, 100
    for seed in range(sets):
        rng = np.random.default_rng([7, seed])
        human = np.random.default_rng([99, seed]).uniform(1, 5, 24)
        conditions = product(("none", "dsi"), ("none", "cot"), ("greedy", "expectation", "contrastive"))
        parts = [
            scored(name, 1, attack, defense, human + rng.normal(size=24), groups=12, size=2, seed=seed)
            for attack, defense, name in conditions
        ]
        records = repair_records(joined(*parts), "mini", {}, resamples=0)
        tested = [record["p_holm"] for record in records if record["p"] is not None]
        assert len(tested) == 6
        found += min(tested) <= 0.05
    assert found / sets <= 0.11
