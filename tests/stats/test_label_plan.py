"""Plans of labels: by hand, against the intervals they plan, and as a random draw."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.few_labels import FewLabels, predicted_differences, predicted_means
from judgebench.stats.label_plan import DIFFERENCE, MEAN, articles_to_label, label_plan, labels_needed
from tests.stats.recorded import DIMENSIONS, needs_recorded, recorded


def test_labels_needed_by_hand() -> None:
    """The first number of labels whose t times spread / sqrt(n) is at most .2."""
    first = next(n for n in range(5, 500) if stats.t.ppf(0.975, n - 1) * 0.8 / np.sqrt(n) <= 0.2)
    with_judge = next(
        n for n in range(5, 500) if stats.t.ppf(0.975, n - 1) * 0.8 * np.sqrt(0.64 / n + 0.36 / 1000) <= 0.2
    )
    assert labels_needed(0.2, 0.8, 0.6, 1000) == (first, with_judge)


def test_ppi_python_plans_the_same_pair() -> None:
    """Its cheapest pair of n labels and N others that is worth 500 labels alone."""
    power = pytest.importorskip("ppi_py.ppi_power_analysis", reason="ppi-python is not installed")
    pair = power.ppi_power(ppi_corr=0.6, cost_X=0.0, cost_Y=1.0, cost_Yhat=0.05, effective_n=500)
    assert pair["N"] > 0
    within = stats.norm.ppf(0.975) / np.sqrt(500)
    assert labels_needed(within, 1.0, 0.6, pair["n"] + pair["N"])[1] == pytest.approx(pair["n"], rel=0.01)


@given(st.floats(0.05, 1), st.floats(0, 2), st.floats(-1, 1), st.integers(5, 3000))
def test_a_judge_never_asks_for_more_labels(within, spread, correlation, articles) -> None:
    alone, judged = labels_needed(within, spread, correlation, articles)
    if alone is not None:
        assert judged is not None
        assert judged <= alone


@pytest.mark.parametrize("values", [(0.0, 1, 0, 10), (0.1, -1, 0, 10), (0.1, 1, 2, 10), (0.1, 1, 0, 0)])
def test_numbers_out_of_range_are_refused(values) -> None:
    with pytest.raises(ValueError, match="must be"):
        labels_needed(*values)


def pilot(columns, count, seed=0):
    chosen = np.random.default_rng(seed).permutation(np.unique(columns.groups))[:count]
    few = np.where(np.isin(columns.groups, chosen), columns.human, np.nan)
    return FewLabels(few, columns.judge, columns.groups, columns.systems, (1.0, 5.0))


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_planned_width_is_the_one_that_is_found(dimension: str) -> None:
    """A pilot of all 60 articles plans for 20 of them: intervals of 20 are as wide as planned, on average."""
    columns = recorded(dimension, "gpt-4o")
    found = {MEAN: [], DIFFERENCE: []}
    for seed in range(10):
        data = pilot(columns, 20, seed)
        for of, records in ((MEAN, predicted_means(data)), (DIFFERENCE, predicted_differences(data))):
            found[of].append(np.mean([(r["predicted_high"] - r["predicted_low"]) / 2 for r in records]))
    for of, halves in found.items():
        plan = label_plan(pilot(columns, 60), [float(np.mean(halves))], articles=60)
        (record,) = [one for one in plan if one["of"] == of]
        assert record["predicted"] == pytest.approx(20, abs=5)
        assert record["labels"] >= record["predicted"]
        assert record["saved"] == record["labels"] - record["predicted"]


@needs_recorded
def test_what_cannot_be_reached_is_null_with_a_reason() -> None:
    data = pilot(recorded("coherence", "gpt-4o"), 12)
    (mean, difference) = label_plan(data, [0.05])
    assert mean["predicted"] is None
    assert "All 60 articles are too few" in mean["reason"]
    assert mean["labels"] > 60
    (mean, difference) = label_plan(pilot(recorded("coherence", "gpt-4o"), 3), [0.2])
    assert mean["labels"] is difference["labels"] is None
    assert "No plan" in mean["reason"]


def test_articles_are_spread_over_the_scores_and_each_as_likely() -> None:
    scores, groups = np.repeat(np.arange(12.0), 3), np.repeat([f"a{k:02}" for k in range(12)], 3)
    counts: Counter[str] = Counter()
    for seed in range(1500):
        found = articles_to_label(scores, groups, 4, seed)
        assert [int(name[1:]) // 3 for name in found] == [0, 1, 2, 3]
        counts.update(found)
    assert len(counts) == 12
    assert stats.chisquare(list(counts.values())).pvalue > 0.001
    assert sorted(articles_to_label(scores, groups, 12)) == sorted(set(groups))
    with pytest.raises(ValueError, match="between 1 and 12"):
        articles_to_label(scores, groups, 13)


def test_spread_articles_have_the_mean_score_of_all() -> None:
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=200), np.arange(200).astype(str)
    spread = [np.mean(scores[[int(g) for g in articles_to_label(scores, groups, 20, seed)]]) for seed in range(200)]
    plain = [np.mean(scores[rng.permutation(200)[:20]]) for _ in range(200)]
    assert np.std(spread) < 0.5 * np.std(plain)
    assert np.mean(spread) == pytest.approx(scores.mean(), abs=0.02)
