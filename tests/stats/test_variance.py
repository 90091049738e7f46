"""Range bias as variance: judges whose components are known, ANOVA and intraclass correlations by hand, and runs of
recorded judges."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from judgebench.stats.scores import Cell, Sample
from judgebench.stats.variance import HUMANS, JUDGES, RANGES, variance_records
from judgebench.types import ScoreRange
from tests.stats.recorded import DIMENSIONS, needs_recorded, recorded

FOUR = ((0.0, 4.0), (1.0, 5.0), (2.0, 6.0), (3.0, 7.0))


def side(parts, low=1.0, high=5.0, ratings=None, names=None, groups=None, systems=None, **more):
    """One judge in one range; `parts` [N] of the way from its lowest to its highest score."""
    parts = np.asarray(parts, dtype=float)
    count = len(parts)
    names = np.array([f"e{i:04d}" for i in range(count)]) if names is None else np.asarray(names)
    own = {"dimension": "quality", "judge": "main", "decoding": "greedy", "lambda_": None, "range_labels": ""} | {
        name: more.pop(name) for name in ("dimension", "judge", "decoding", "lambda_", "range_labels") if name in more
    }
    cell = Cell("test", own["dimension"], low, high, 1.0, "none", "none", own["judge"], own["decoding"], own["lambda_"],
                None, own["range_labels"])  # fmt: skip
    ratings = np.full((count, 1), np.nan) if ratings is None else np.asarray(ratings, dtype=float)
    raters = [f"r{i}" for i in range(ratings.shape[1])] if ratings.shape[1] > 1 else []
    more = {"scale": (1.0, 5.0), "raters": raters, "resamples": 100} | more
    groups = names if groups is None else np.asarray(groups)
    systems = np.full(count, "s") if systems is None else np.asarray(systems)
    return Sample("d", cell, names, groups, systems, low + (high - low) * parts, ratings, **more)


def of(records, study=RANGES, calibrated=False):
    return [one for one in records if (one["study"], one["calibrated"]) == (study, calibrated)]


def known_judge(seed, texts=80, sizes=(0.02, 0.01, 0.005), moved=None, groups=20):
    """Scores [texts, 4] of a judge with variances of text, range (of the four offsets `moved`) and text x range."""
    rng = np.random.default_rng(seed)
    moved = np.array([-1.0, -1 / 3, 1 / 3, 1.0]) if moved is None else np.asarray(moved)
    moved = moved * np.sqrt(sizes[1] / moved.var(ddof=1)) if moved.any() else moved
    values = rng.normal(0.5, np.sqrt(sizes[0]), (texts, 1)) + moved
    return values + rng.normal(0, np.sqrt(sizes[2]), (texts, 4)), np.arange(texts) % groups


def test_a_simulated_judge_whose_range_effect_is_known():
    """Text .02, range .01, text x range .005: the range makes 15 of 35 parts. Over 60 data sets the mean is that, and
    the 95 % intervals hold it."""
    truth = {"texts_share": 20 / 35, "range_own": 10 / 35, "range_interactions": 5 / 35, "range_both": 15 / 35}
    found, held = [], []
    for seed in range(60):
        values, groups = known_judge(seed)
        sides = [side(values[:, i], *FOUR[i], groups=groups, resamples=300) for i in range(4)]
        (record,) = of(variance_records(sides))
        found.append([record[name] for name in truth])
        held.append([record[f"{name}_low"] <= one <= record[f"{name}_high"] for name, one in truth.items()])
    assert np.mean(found, axis=0) == pytest.approx(list(truth.values()), abs=0.01)
    assert (np.mean(held, axis=0) >= 0.88).all()  # a true 95 % falls below in 2 of 100 such simulations
    assert (np.mean(held, axis=0) < 1).any()


def test_a_judge_that_only_moves_its_scale_is_repaired_by_calibration():
    """Whole scores of five quality levels, moved by range but never tied: isotonic calibration finds the level."""
    rng = np.random.default_rng(0)
    level = rng.permutation(np.arange(100) % 5)
    human = 1.0 + level[:, None] + rng.normal(0, 0.01, (100, 2))
    sides = [side((level + move) / 10, *ends, ratings=human, groups=np.arange(100) % 25)
             for move, ends in zip((0, 1, 3, 5), FOUR, strict=True)]  # fmt: skip
    records = variance_records(sides)
    (given,), (calibrated,) = of(records), of(records, calibrated=True)
    assert given["range_own"] > 0.5
    assert given["range_interactions"] == pytest.approx(0, abs=1e-9)
    assert calibrated["range_both"] == pytest.approx(0, abs=1e-9)
    assert calibrated["spread"] == pytest.approx(np.sqrt(level.var() * 100 / 99) / 4, rel=0.02)
    assert calibrated["decisions"][0]["needed_range"] == 1


def test_components_are_those_of_calibrated_scores_by_sklearn():
    rng = np.random.default_rng(1)
    values, groups = known_judge(1, 40, groups=4)
    human = rng.integers(1, 6, (40, 1)) + 0.0
    sides = [side(values[:, i], *FOUR[i], ratings=human, groups=groups) for i in range(4)]
    (record,) = of(variance_records(sides), calibrated=True)
    table = np.empty((40, 4))
    for i, group in product(range(4), range(4)):  # four groups are four folds
        out = groups == group
        model = IsotonicRegression(out_of_bounds="clip").fit(sides[i].scores[~out], human[~out, 0])
        table[out, i] = (model.predict(sides[i].scores[out]) - 1) / 4
    squares = 4 * table.mean(axis=1).var(ddof=1)
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    error = (rest**2).sum() / (39 * 3)
    by_name = {one["effect"]: one["variance"] for one in record["components"]}
    assert by_name["text"] == pytest.approx((squares - error) / 4)
    assert by_name["text x range"] == pytest.approx(error)


def test_shares_by_hand():
    """Texts .5 and ranges .25 apart, no interaction: .125 and .03125."""
    (record,) = of(variance_records([side([0.0, 0.5], 0, 4), side([0.25, 0.75], 1, 9)]))
    assert (record["texts_share"], record["range_own"]) == pytest.approx((0.8, 0.2))
    assert record["spread"] == pytest.approx(np.sqrt(0.125 + 0.03125))
    first, both = record["decisions"]
    assert (first["relative"], first["absolute"], both["absolute"]) == pytest.approx((1.0, 0.8, 0.8 / 0.9))
    assert (first["number_range"], both["number_range"], first["needed_absolute_range"]) == (1, 2, 1)
    assert (record["ranges"], record["judges"], record["raters"]) == (2, None, None)
    assert [record[name] for name in ("range_min", "range_max", "range_step")] == [None] * 3


def test_texts_that_lack_a_range_stay_out_and_order_does_not_matter():
    values, _ = known_judge(2, 20)
    names = np.array([f"t{i}" for i in range(20)])
    whole = of(variance_records([side(values[:15, i], *FOUR[i], names=names[:15]) for i in range(2)]))
    more = [
        side(values[:, 0], *FOUR[0], names=names),
        side(values[:15, 1][::-1], *FOUR[1], names=names[:15][::-1]),
    ]
    (record,) = of(variance_records(more))
    assert record["texts"] == 15
    assert record["texts_share"] == pytest.approx(whole[0]["texts_share"])


def test_a_lambda_tuned_by_range_is_one_series_and_several_in_a_range_are_each_their_own():
    values, _ = known_judge(3, 12)
    tuned = [side(values[:, i], *FOUR[i], lambda_=0.1 * i, judge="pair", decoding="contrastive") for i in range(4)]
    (record,) = of(variance_records(tuned))
    assert (record["ranges"], record["lambda"], record["judge"]) == (4, None, "pair")
    tried = [side(values[:, i], *FOUR[i], lambda_=one) for i in range(2) for one in (0.1, 0.5)]
    assert [one["lambda"] for one in of(variance_records(tried))] == [0.1, 0.5]


def test_letters_and_numbers_are_two_ranges():
    values, _ = known_judge(4, 12)
    sides = [side(values[:, 0]), side(values[:, 1], range_labels="E, D, C, B, A")]
    (record,) = of(variance_records(sides))
    assert record["ranges"] == 2
    assert "range_labels" not in record
    assert sides[1].cell.range == ScoreRange(1, 5, 1, ("E", "D", "C", "B", "A"))


def test_articles_and_systems_are_split_where_texts_are_their_crossing():
    """A range that moves one system alone is an interaction of system and range."""
    rng = np.random.default_rng(5)
    group, system = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30)
    base = 0.3 + 0.1 * rng.random(90)
    sides = [side(base + 0.3 * move * (system == 2), *ends, groups=group, systems=system)
             for move, ends in zip((0, 1), FOUR, strict=False)]  # fmt: skip
    (record,) = of(variance_records(sides))
    shares = {one["effect"]: one["share"] for one in record["crossed"]}
    assert max(shares, key=shares.get) == "system x range"
    assert shares["article x range"] == pytest.approx(0, abs=1e-9)
    (own,) = of(variance_records([side(base, *ends, groups=group) for ends in FOUR]))
    assert own["crossed"] == []
    single = np.arange(90)  # a system of each text's own
    (own,) = of(variance_records([side(base, *ends, groups=group, systems=single) for ends in FOUR]))
    assert own["crossed"] == []


def test_two_judges_are_crossed_with_ranges():
    """Both judges alike but for a constant: the judge's own component, and nothing of its interactions."""
    values, _ = known_judge(6, 30)
    sides = [side(values[:, i] + move, *FOUR[i], judge=judge) for i in range(4)
             for judge, move in (("main", 0.0), ("assistant", 0.2))]  # fmt: skip
    (record,) = of(variance_records(sides), JUDGES)
    assert (record["judge"], record["decoding"], record["ranges"], record["judges"]) == (None, "greedy", 4, 2)
    by_name = {one["effect"]: one["variance"] for one in record["components"]}
    assert by_name["judge"] == pytest.approx(0.02)
    assert record["judge_interactions"] == pytest.approx(0, abs=1e-9)
    one_range = variance_records([one for one in sides if one.cell.range_min == 1])
    (record,) = of(one_range, JUDGES)
    assert [one["effect"] for one in record["components"]] == ["text", "judge", "text x judge"]
    assert of(one_range) == []
    assert of(variance_records(sides[::2]), JUDGES) == []
    elsewhere = [side(values[:, 0], *FOUR[0]), side(values[:, 1], *FOUR[1], judge="assistant")]
    assert of(variance_records(elsewhere), JUDGES) == []


@pytest.mark.parametrize(
    ("sides", "reason"),
    [
        ([side([0.5], *ends) for ends in FOUR], "fewer than two texts"),
        ([side([0.5] * 4, *ends) for ends in FOUR], "all scores are the same"),
        (
            [side([0.1, 0.2], *FOUR[0], names=["a", "b"]), side([0.1, 0.2], *FOUR[1], names=["c", "d"])],
            "fewer than two",
        ),
    ],
)
def test_what_cannot_be_known_is_null_with_a_reason(sides, reason):
    records = variance_records(sides)
    (record,) = of(records)
    assert reason in record["reason"]
    assert record["texts_share"] is record["range_both"] is record["spread"] is None
    assert record["decisions"] == []
    (calibrated,) = of(records, calibrated=True)
    assert calibrated["reason"] == "Not calibrated: that takes two groups of rated texts at least."
    (human,) = of(records, HUMANS)
    assert human["reason"] == "No components: only one rating of each text, or their mean, is known."
    json.dumps(records, allow_nan=False)


def test_raters_of_ragged_ratings_who_never_meet_are_told():
    ratings = np.full((6, 3), np.nan)
    ratings[np.arange(6), np.arange(6) % 3] = np.arange(6) % 5 + 1
    (human,) = of(variance_records([side(np.arange(6) / 6, ratings=ratings)]), HUMANS)
    assert "too few scores" in human["reason"]
    ratings[0] = 3
    ratings[1] = 5
    (human,) = of(variance_records([side(np.arange(6) / 6, ratings=ratings, scale=None)]), HUMANS)
    assert human["reason"] is None
    assert human["spread"] is None  # nobody knows the scale
    assert human["texts"] == 6
    assert human["decisions"][1]["number_rater"] == 2  # ten ratings of six texts


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_experts_have_the_intraclass_correlations_of_shrout_and_fleiss(dimension):
    """Absolute reliability is ICC(2,1) and ICC(2,3), relative ICC(3,1) and ICC(3,3): by their mean squares (1979)."""
    raters = recorded(dimension, "gpt-4o").raters
    (record,) = of(variance_records([side(np.zeros(960), ratings=raters, dimension=dimension)]), HUMANS)
    rows, columns = raters.shape
    between = columns * raters.mean(axis=1).var(ddof=1)
    severity = rows * raters.mean(axis=0).var(ddof=1)
    rest = raters - raters.mean(axis=1, keepdims=True) - raters.mean(axis=0) + raters.mean()
    error = (rest**2).sum() / ((rows - 1) * (columns - 1))
    one, three = record["decisions"]
    assert one["absolute"] == pytest.approx((between - error) / (between + 2 * error + 3 * (severity - error) / rows))
    assert three["absolute"] == pytest.approx((between - error) / (between + (severity - error) / rows))
    assert one["relative"] == pytest.approx((between - error) / (between + 2 * error))
    assert three["relative"] == pytest.approx((between - error) / between)
    assert record["raters"] == 3
