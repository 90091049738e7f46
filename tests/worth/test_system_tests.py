"""Two judges over systems: plain loops over all swaps, mt-metrics-eval, and the resamples of `levels`."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.levels import correlate
from judgebench.worth.system_level import mean_table
from judgebench.worth.system_tests import boot_both, permuted_both
from tests.worth.test_system_level import columns


def test_all_swaps_give_the_exact_p_of_loops() -> None:
    rng = np.random.default_rng(5)
    first, second, human = rng.normal(size=(3, 3, 3))
    swapped = np.array(list(product((0, 1), repeat=9)))
    ours, theirs = (stats.zscore(side, axis=None) for side in (first, second))
    truth = human.mean(axis=1)
    by_name = {
        "pearson": lambda x: stats.pearsonr(x, truth).statistic,
        "spearman": lambda x: stats.spearmanr(x, truth).statistic,
        "kendall": lambda x: stats.kendalltau(x, truth).statistic,
    }
    for record in permuted_both(first, second, human, swapped=swapped):
        of = by_name[record["statistic"]]
        observed = of(ours.mean(axis=1)) - of(theirs.mean(axis=1))
        assert record["difference"] == pytest.approx(observed)
        null = []
        for mask in swapped.reshape(-1, 3, 3).astype(bool):
            null.append(of(np.where(mask, theirs, ours).mean(axis=1)) - of(np.where(mask, ours, theirs).mean(axis=1)))
        assert record["p"] == pytest.approx(np.mean(np.abs(null) >= abs(observed) - 1e-9))


def test_mt_metrics_eval_gives_about_the_same_perm_both_p() -> None:
    theirs = pytest.importorskip("mt_metrics_eval.stats", reason="mt-metrics-eval is not installed")
    rng = np.random.default_rng(6)
    human = rng.normal(size=(8, 15)) + 0.5 * np.arange(8)[:, None]
    first, second = human + 2 * rng.normal(size=human.shape), human + 4 * rng.normal(size=human.shape)

    def of_means(gold, scores):
        return stats.pearsonr(np.reshape(gold, (8, 15)).mean(axis=1), np.reshape(scores, (8, 15)).mean(axis=1))

    sides = [theirs.Correlation(8, list(human.ravel()), list(side.ravel())) for side in (second, first)]
    np.random.seed(0)  # it draws from here
    params = theirs.PermutationSigDiffParams(block_size=4000)
    one_sided, delta, *_ = theirs.PermutationSigDiff(*sides, of_means, k=4000, params=params)
    record = permuted_both(first, second, human, permutations=4000)[0]
    assert record["difference"] == pytest.approx(delta)
    assert record["p"] == pytest.approx(2 * min(one_sided, 1 - one_sided), abs=0.04)


def test_boot_both_is_the_difference_of_the_levels_own() -> None:
    judge, human, group, system = columns(7)
    other = columns(8)[0]
    tables = [mean_table(side, system, group) for side in (judge, other, human)]
    one, two = (
        correlate("system", side, human, group, system, resamples=300, seed=3).over_systems for side in (judge, other)
    )
    for k, record in enumerate(boot_both(*tables, resamples=300, seed=3)):
        gap = (one[k] - two[k])[~np.isnan(one[k])]
        assert record["statistic"] == CORRELATIONS[k]
        low, high = np.quantile(gap, [0.025, 0.975])
        assert (record["difference_low"], record["difference_high"]) == pytest.approx((low, high), abs=1e-9)


def test_tables_must_be_complete() -> None:
    whole, gap = np.ones((2, 2)), np.array([[1.0, np.nan], [1.0, 1.0]])
    with pytest.raises(ValueError, match="complete tables"):
        permuted_both(whole, gap, whole)
    with pytest.raises(ValueError, match="complete tables"):
        boot_both(whole, gap, whole)
