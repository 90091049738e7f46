"""Variance components: ANOVA by hand and by statsmodels, plain loops over pairs, known components, coefficients by
hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.clusters import expanded, group_weights
from judgebench.stats.variance import (
    CrossedScores,
    component_records,
    decision_records,
    facet_share,
    number_needed,
    reliability,
)
from tests.stats.recorded import DIMENSIONS, judges, needs_recorded, recorded

NAN = np.nan


def drawn(shape=(8, 5, 4, 3), seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    for axes in ((0,), (2,), (0, 2)):
        values = values + rng.normal(size=[size if axis in axes else 1 for axis, size in enumerate(shape)])
    return values


def by_mean_squares(values: np.ndarray) -> dict[tuple[int, ...], float]:
    """ANOVA of a complete table: mean squares, and the components whose expected mean squares they are."""
    squares = {}
    for effect in product((0, 1), repeat=values.ndim):
        rest = values
        for axis, inside in enumerate(effect):
            mean = rest.mean(axis=axis, keepdims=True)
            rest = rest - mean if inside else mean
        cells = np.prod([size for size, inside in zip(values.shape, effect, strict=True) if not inside])
        degrees = np.prod([size - 1 for size, inside in zip(values.shape, effect, strict=True) if inside])
        squares[effect] = (rest**2).sum() * cells / degrees
    found = {}
    for effect in squares:
        more = [one for one in squares if all(a <= b for a, b in zip(effect, one, strict=True))]
        signed = sum((-1) ** (sum(one) - sum(effect)) * squares[one] for one in more)
        found[effect] = signed / np.prod(
            [size for size, inside in zip(values.shape, effect, strict=True) if not inside]
        )
    return found


def by_pairs(values: np.ndarray, copies: list[int] | None = None) -> dict[frozenset[int], float]:
    """Components from all pairs of scores, one by one; `copies` are the rows of a resample, never paired with a copy of
    themselves."""
    rows = list(range(len(values))) if copies is None else copies
    cells = [
        (copy, row, where, values[row][where])
        for copy, row in enumerate(rows)
        for where in np.ndindex(values.shape[1:])
        if not np.isnan(values[row][where])
    ]
    pairs: dict[frozenset[int], list[float]] = {}
    for copy, row, where, value in cells:
        for other_copy, other_row, other_where, other in cells:
            if copy != other_copy and row == other_row:
                continue
            agree = {axis + 1 for axis, (a, b) in enumerate(zip(where, other_where, strict=True)) if a == b}
            agree |= {0} if copy == other_copy else set()
            if len(agree) < values.ndim:
                pairs.setdefault(frozenset(agree), []).append((value - other) ** 2 / 2)
    means = {effect: np.mean(each) for effect, each in pairs.items()} | {frozenset(range(values.ndim)): 0.0}
    found = {}
    for effect in map(frozenset, (np.flatnonzero(each) for each in product((0, 1), repeat=values.ndim))):
        parts = [frozenset(p) for p in map(frozenset, _subsets(sorted(effect)))]
        found[effect] = sum(
            (-1) ** (len(effect) - len(part)) * (means[frozenset()] - means.get(part, NAN)) for part in parts if part
        )
    return found


def _subsets(items: list[int]) -> list[list[int]]:
    return [
        [item for item, keep in zip(items, kept, strict=True) if keep] for kept in product((0, 1), repeat=len(items))
    ]


def test_complete_tables_give_the_anova_estimates() -> None:
    scores = CrossedScores(drawn(), ("text", "system", "range", "judge"), resamples=0)
    expected = by_mean_squares(scores.values)
    for effect in scores.effects:
        key = tuple(int(facet in effect) for facet in scores.facets)
        assert scores.components[effect][0] == pytest.approx(expected[key], abs=1e-12)


def test_statsmodels_anova_table_gives_the_same_mean_squares() -> None:
    pandas = pytest.importorskip("pandas")
    smf = pytest.importorskip("statsmodels.formula.api", reason="statsmodels is not installed")
    anova = pytest.importorskip("statsmodels.stats.anova")
    values = drawn((9, 4, 3))
    index = np.indices(values.shape).reshape(3, -1)
    frame = pandas.DataFrame({"score": values.ravel(), "text": index[0], "range": index[1], "judge": index[2]})
    fit = smf.ols("score ~ (C(text) + C(range) + C(judge)) ** 2", frame).fit()
    table = anova.anova_lm(fit)
    mean_squares = table["sum_sq"] / table["df"]
    residual = mean_squares["Residual"]
    components = CrossedScores(values, ("text", "range", "judge"), resamples=0).components
    assert components[frozenset({"text", "range"})][0] == pytest.approx(
        (mean_squares["C(text):C(range)"] - residual) / 3
    )
    assert components[frozenset({"text", "range", "judge"})][0] == pytest.approx(residual)
    main = mean_squares["C(range)"] - mean_squares["C(text):C(range)"] - mean_squares["C(range):C(judge)"] + residual
    assert components[frozenset({"range"})][0] == pytest.approx(main / (9 * 3))


def test_statsmodels_mixed_model_finds_the_same_where_none_is_negative() -> None:
    """REML of a balanced design is ANOVA where no estimate is negative."""
    smf = pytest.importorskip("statsmodels.formula.api", reason="statsmodels is not installed")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20, 1)) * 1.5 + rng.normal(size=(1, 6)) + rng.normal(size=(20, 6)) * 0.7
    text, rater = np.indices(values.shape).reshape(2, -1)
    frame = pandas.DataFrame({"score": values.ravel(), "text": text, "rater": rater, "all": 1})
    parts = {"text": "0 + C(text)", "rater": "0 + C(rater)"}
    fit = smf.mixedlm("score ~ 1", frame, groups="all", vc_formula=parts, re_formula="0").fit(reml=True)
    components = CrossedScores(values, ("text", "rater"), resamples=0).components
    found = dict(zip(sorted(parts), fit.vcomp, strict=True))
    for name in parts:
        assert components[frozenset({name})][0] == pytest.approx(found[name], rel=1e-3)
    assert components[frozenset(parts)][0] == pytest.approx(fit.scale, rel=1e-3)


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_incomplete_tables_take_all_pairs_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = drawn((5, 3, 3), seed)
    values[rng.random(values.shape) < 0.25] = NAN
    if np.isnan(values).all(axis=(1, 2)).any():
        return
    scores = CrossedScores(values, ("text", "range", "judge"), resamples=0)
    expected = by_pairs(values)
    for effect in scores.effects:
        key = frozenset(scores.facets.index(facet) for facet in effect)
        np.testing.assert_allclose(scores.components[effect][0], expected[key], atol=1e-9)


def test_resamples_are_those_of_drawn_groups_without_pairs_of_copies() -> None:
    values = drawn((4, 3, 2), 3)
    values[1, 2, 0] = NAN
    scores = CrossedScores(values, ("text", "range", "judge"), resamples=6, seed=2)
    for b, weights in enumerate(group_weights(4, 6, 2), start=1):
        copies = np.repeat(np.arange(4), weights).tolist()
        expected = by_pairs(values, copies)
        for effect in scores.effects:
            key = frozenset(scores.facets.index(facet) for facet in effect)
            if not np.isnan(expected[key]):
                np.testing.assert_allclose(scores.components[effect][b], expected[key], atol=1e-9)


def test_texts_of_a_group_are_drawn_together_and_told_apart() -> None:
    """With groups of one text it is the same as without; a group of two gives pairs of its texts."""
    values, names = drawn((6, 4), 5), ("text", "range")
    alone = CrossedScores(values, names, np.arange(6), resamples=20)
    for effect, variance in CrossedScores(values, names, resamples=20).components.items():
        np.testing.assert_allclose(alone.components[effect], variance)
    grouped = CrossedScores(values, names, np.array([0, 0, 1, 1, 2, 2]), resamples=300, seed=1)
    twice = np.flatnonzero((group_weights(3, 300, 1) == [3, 0, 0]).all(axis=1))
    assert len(twice)  # three copies of the first group: pairs of its own two texts alone
    own = CrossedScores(values[:2], names, resamples=0)
    for effect in own.effects:
        assert grouped.components[effect][1 + twice[0]] == pytest.approx(own.components[effect][0])


def test_missing_scores_do_not_bias() -> None:
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(50, 1)) + rng.normal(size=(1, 12)) * 0.6 + rng.normal(size=(50, 12)) * 0.5
        values[rng.random(values.shape) < 0.7] = NAN
        components = CrossedScores(values, ("text", "rater"), resamples=0).components
        found.append([components[frozenset(each)][0] for each in (("text",), ("rater",), ("text", "rater"))])
    assert np.mean(found, axis=0) == pytest.approx([1.0, 0.36, 0.25], abs=0.08)


def test_shares_and_the_range_in_one_number_by_hand() -> None:
    # Texts 0 and 2 apart, ranges 1 apart, no interaction: mean squares 2 * 2, 2 * .5 and 0.
    scores = CrossedScores(np.array([[0.0, 1.0], [2.0, 3.0]]), ("text", "range"), resamples=0)
    by_name = {record["effect"]: record for record in component_records(scores)}
    assert by_name["text"]["variance"] == pytest.approx(2.0)
    assert by_name["range"]["variance"] == pytest.approx(0.5)
    assert by_name["text x range"]["variance"] == pytest.approx(0.0)
    assert [by_name[name]["share"] for name in ("text", "range")] == pytest.approx([0.8, 0.2])
    share = facet_share(scores, "range")
    assert (share["own"], share["interactions"], share["both"]) == pytest.approx((0.2, 0.0, 0.2))


def test_a_negative_estimate_is_told_and_counts_as_none() -> None:
    scores = CrossedScores(np.array([[0.0, 1.0], [1.0, 0.0]]), ("text", "range"), resamples=0)
    records = component_records(scores)
    assert [record["variance"] for record in records] == pytest.approx([-0.5, -0.5, 1.0])
    assert [record["share"] for record in records] == [0.0, 0.0, 1.0]
    assert [bool(record["note"]) for record in records] == [True, True, False]


def test_what_cannot_be_told_apart_is_null_with_a_reason() -> None:
    one_range = CrossedScores(np.array([[1.0], [2.0], [4.0]]), ("text", "range"))
    records = component_records(one_range)
    assert all(record["variance"] is None and record["note"].startswith("No component") for record in records)
    (record,) = decision_records(one_range, ("text",), [{}])
    assert record["relative"] is None
    assert record["needed_range"] is None
    assert record["reason"]


def test_coefficients_by_hand() -> None:
    components = {
        frozenset({"text"}): np.array([0.6]),
        frozenset({"rater"}): np.array([0.1]),
        frozenset({"text", "rater"}): np.array([0.3]),
    }
    assert [float(each[0]) for each in reliability(components, ("text",), {})] == pytest.approx([0.6 / 0.9, 0.6])
    relative, absolute = reliability(components, ("text",), {"rater": 3})
    assert (relative[0], absolute[0]) == pytest.approx((0.6 / 0.7, 0.6 / (0.6 + 0.4 / 3)))
    # .6 / (.6 + .3 / n) >= .9 where n >= 4.5; .6 / (.6 + .4 / n) where n >= 6
    assert number_needed(components, ("text",), "rater", 0.9, {}) == [5, 6]


def test_a_number_that_no_number_reaches_is_none() -> None:
    components = {
        frozenset({"text"}): np.array([0.5]),
        frozenset({"range"}): np.array([0.0]),
        frozenset({"text", "range"}): np.array([0.1]),
        frozenset({"judge"}): np.array([0.0]),
        frozenset({"text", "judge"}): np.array([0.4]),
        frozenset({"range", "judge"}): np.array([0.0]),
        frozenset({"text", "range", "judge"}): np.array([0.0]),
    }
    assert number_needed(components, ("text",), "range", 0.8, {}) == [None, None]  # .4 of the judges stay
    assert number_needed(components, ("text",), "range", 0.8, {"judge": 4}) == [4, 4]  # .5 / (.5 + .1 / 4 + .1) = .8


@given(st.floats(0.05, 0.95), st.lists(st.floats(0.01, 2), min_size=3, max_size=3))
def test_the_number_needed_is_the_first_that_reaches(wanted: float, sizes: list[float]) -> None:
    effects = (("text",), ("rater",), ("text", "rater"))
    components = {frozenset(each): np.array([size]) for each, size in zip(effects, sizes, strict=True)}
    for kind, number in enumerate(number_needed(components, ("text",), "rater", wanted, {})):
        assert number is not None
        assert reliability(components, ("text",), {"rater": number})[kind][0] >= wanted - 1e-6
        if number > 1:
            assert reliability(components, ("text",), {"rater": number - 1})[kind][0] < wanted + 1e-6


def test_intervals_reach_as_far_as_students_t_with_few_groups() -> None:
    scores = CrossedScores(drawn((6, 4), 5), ("text", "range"))
    values = scores.components[frozenset({"range"})]
    record = component_records(scores)[1]
    assert (record["variance_low"], record["variance_high"]) == pytest.approx(
        tuple(np.quantile(values[1:], expanded(6)))
    )


def test_intervals_of_shares_are_the_jackknifes_and_their_rests() -> None:
    """Each group left out by hand, Student's t of log(1 - share) of the smaller side (scipy)."""
    scores = CrossedScores(drawn((12, 4), 5) + np.arange(12)[:, None] / 3, ("text", "range"), resamples=50)
    rests = [CrossedScores(np.delete(scores.values, i, axis=0), scores.facets, resamples=0) for i in range(12)]
    shares = np.array([facet_share(one, "range")["both"] for one in (scores, *rests)])
    texts, both = component_records(scores)[0], facet_share(scores, "range")
    assert both["both"] < 0.5
    logs = np.log1p(-shares)
    error = np.sqrt(11 / 12 * ((logs[1:] - logs[1:].mean()) ** 2).sum())
    low, high = (1 - np.exp(logs[0] + side * error * stats.t.ppf(0.975, 11)) for side in (1, -1))
    assert (both["both_low"], both["both_high"]) == pytest.approx((max(low, 0.0), high))
    assert (texts["share_low"], texts["share_high"]) == pytest.approx((1 - high, 1 - max(low, 0.0)))


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_relative_reliability_of_the_recorded_experts_is_cronbachs_alpha(dimension: str) -> None:
    """Of texts x raters, the relative coefficient of the mean of three is alpha, which is known by another formula."""
    raters = recorded(dimension, "gpt-4o").raters
    components = CrossedScores(raters, ("text", "rater"), resamples=0).components
    alpha = 3 / 2 * (1 - raters.var(axis=0, ddof=1).sum() / raters.sum(axis=1).var(ddof=1))
    assert reliability(components, ("text",), {"rater": 3})[0][0] == pytest.approx(alpha)


@needs_recorded
def test_recorded_judges_are_their_anova() -> None:
    columns = [recorded("relevance", name) for name in judges()]
    values = np.stack([one.judge.reshape(60, 16) for one in columns], axis=2)
    scores = CrossedScores(values, ("article", "system", "judge"), resamples=200)
    expected = by_mean_squares(values)
    for effect in scores.effects:
        key = tuple(int(facet in effect) for facet in scores.facets)
        assert scores.components[effect][0] == pytest.approx(expected[key], abs=1e-12)
    # The six give most of their variance to who is asked: .57 of it, by its own.
    assert facet_share(scores, "judge")["own"] == pytest.approx(0.572, abs=0.001)
