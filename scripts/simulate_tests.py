"""Which paired test of two judges keeps its level and finds what is there, and which interval over systems holds the
truth: simulated scores like SummEval's, a table of each.

    python scripts/simulate_tests.py --data-sets 1000

Compared are three tests of a difference in Spearman. `z-scores`: swap the judges' standardized scores in whole articles
and rank anew. `midranks`: swap their mid-ranks and take them as they are. `influence`: flip the sign of each article's
share in the difference, as `judgebench.stats.paired.compare` does. Size is the share of data sets with p <= 0.05
where both judges correlate alike with the humans; power, where they do not.

A second table has how often the two 95 % intervals of Spearman at system level hold its value over all systems of a
kind, of which a data set has a few.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from judgebench.stats.clusters import Clusters, percentile_interval
from judgebench.stats.correlation import SPEARMAN, spearman
from judgebench.stats.levels import Correlated, correlate, correlations_at
from judgebench.stats.significance import flipped_differences, flips, permutation_p_value

SYSTEMS, LEVEL = 12, 0.05
_LARGE = 4000  # articles behind a population's value


class Law(NamedTuple):
    """How a judge errs and rounds: the standard deviation of its error, of the part of it that a whole article shares,
    and the borders between its scores."""

    error: float
    shared: float
    borders: tuple[float, ...]


FINE = tuple(np.arange(-2.0, 2.01, 0.5))
FIVE = (-1.5, -0.5, 0.5, 1.5)
TWO = (0.2,)  # one score for over half of all texts, as judges in the field give


class Sample(NamedTuple):
    """[N] scores of humans and of two judges, with the article and the system of each."""

    human: np.ndarray
    first: np.ndarray
    second: np.ndarray
    group: np.ndarray
    system: np.ndarray


def drawn(
    articles: int, first: Law, second: Law, together: float, seed: int, systems: int = SYSTEMS, kind: int = 1
) -> Sample:
    """Articles with `systems` texts each; `together` is the correlation of the judges' errors, and `kind` the seed of
    the systems' abilities."""
    rng = np.random.default_rng(seed)
    group, system = np.repeat(np.arange(articles), systems), np.tile(np.arange(systems), articles)
    n = len(group)
    ability = np.random.default_rng(kind).normal(0, 0.5, systems)[system]
    truth = rng.normal(0, 0.5, articles)[group] + ability + rng.normal(0, 0.75, n)
    human = np.round(3 * np.clip(3 + truth + rng.normal(0, 0.4, n), 1, 5)) / 3
    own = [(rng.normal(size=articles)[group], rng.normal(size=n)) for _ in range(3)]
    scores = []
    for law, (article, text) in zip((first, second), own[1:], strict=True):
        mixed = [
            np.sqrt(together) * a + np.sqrt(1 - together) * b for a, b in zip(own[0], (article, text), strict=True)
        ]
        said = truth + law.shared * mixed[0] + law.error * mixed[1]
        scores.append(np.digitize(said, law.borders).astype(float))
    return Sample(human, scores[0], scores[1], group, system)


def gap(first: Law, second: Law) -> float:
    """The difference of the two judges' Spearman in the population."""
    sample = drawn(_LARGE, first, second, 0.0, seed=7)
    return spearman(sample.first, sample.human) - spearman(sample.second, sample.human)


def matched(first: Law, second: Law, wanted: float) -> Law:
    """The second judge with the error at which the population's difference is the wanted one."""
    return second._replace(
        error=brentq(lambda error: gap(first, second._replace(error=error)) - wanted, 0, 6, xtol=0.01)
    )


def by_scores(sample: Sample, swapped: np.ndarray, exact: bool) -> float:
    """p where standardized scores are swapped, and ranked anew."""
    return _swapped_p(sample, [stats.zscore(side).round(12) for side in (sample.first, sample.second)], swapped, exact)


def _swapped_p(sample: Sample, sides: list[np.ndarray], swapped: np.ndarray, exact: bool) -> float:
    count = swapped.shape[1]
    twice = np.tile(sample.human, 2), np.concatenate([sample.group, sample.group + count]), np.tile(sample.system, 2)
    weights = np.block([[1 - swapped, swapped], [swapped, 1 - swapped]])
    found = correlations_at("dataset", np.concatenate(sides), *twice, weights)[SPEARMAN]
    apart = spearman(sample.first, sample.human) - spearman(sample.second, sample.human)
    return permutation_p_value(apart, found[: len(swapped)] - found[len(swapped) :], exact)


def by_midranks(sample: Sample, swapped: np.ndarray, exact: bool) -> float:
    """p where mid-ranks are swapped, and taken as they are."""
    u, v = (_unit(stats.rankdata(side)) for side in (sample.first, sample.second))
    h = _unit(stats.rankdata(sample.human))
    count = swapped.shape[1]

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(sample.group, weights=values, minlength=count)

    permuted = []
    for one, other in ((u, v), (v, u)):
        mean = (sums(one).sum() + swapped @ (sums(other) - sums(one))) / len(h)
        square = sums(one**2).sum() + swapped @ (sums(other**2) - sums(one**2)) - len(h) * mean**2
        cross = sums(one * h).sum() + swapped @ (sums(other * h) - sums(one * h))
        permuted.append(cross / np.sqrt(square))
    return permutation_p_value(float(u @ h - v @ h), permuted[0] - permuted[1], exact)


def _unit(values: np.ndarray) -> np.ndarray:
    apart = values - values.mean()
    return apart / np.sqrt(apart @ apart)


def by_influence(sample: Sample, swapped: np.ndarray, exact: bool) -> float:
    """p where the signs of the articles' shares in the difference are flipped."""
    clusters = Clusters.of(sample.group, resamples=2)
    first, second = (
        correlate("dataset", side, sample.human, clusters, sample.system, jackknife=True)
        for side in (sample.first, sample.second)
    )
    apart = first.values[:, 0] - second.values[:, 0]
    permuted = flipped_differences(apart, first.jackknife - second.jackknife, swapped)
    return permutation_p_value(apart[SPEARMAN], permuted[SPEARMAN], exact)


TESTS: dict[str, Callable[[Sample, np.ndarray, bool], float]] = {
    "z-scores": by_scores,
    "midranks": by_midranks,
    "influence": by_influence,
}


def rejections(first: Law, second: Law, together: float, articles: int, count: int) -> list[float]:
    """The share of `count` data sets in which each test finds a difference."""
    found = np.zeros(len(TESTS))
    for seed in range(count):
        sample = drawn(articles, first, second, together, seed)
        swapped, exact = flips(articles, 499, seed)
        found += [test(sample, swapped, exact) <= LEVEL for test in TESTS.values()]
    return (found / count).tolist()


def table(count: int) -> Iterator[str]:
    """The lines of the table of tests."""
    yield f"| true difference | scores of the two | errors | articles | {' | '.join(TESTS)} |"
    yield "|---|---|---|---|" + "---|" * len(TESTS)
    pairs = {"5 and 5": (FIVE, FIVE), "10 and 5": (FINE, FIVE), "10 and 2": (FINE, TWO)}
    for wanted, (name, (one, other)), together in product((0.0, 0.08), pairs.items(), (0.0, 0.8)):
        first = Law(1.0, 0.3, one)
        second = matched(first, Law(1.0, 0.3, other), wanted)
        for articles in (10, 20, 60):
            shares = rejections(first, second, together, articles, count)
            errors = "alike" if together else "their own"
            yield f"| {wanted:g} | {name} | {errors} | {articles} | {' | '.join(f'{one:.3f}' for one in shares)} |"


def over_systems(sample: Sample, resamples: int) -> Correlated:
    """The first judge's correlations with the humans over systems."""
    return correlate("system", sample.first, sample.human, Clusters.of(sample.group, resamples), sample.system)


def coverage(count: int) -> Iterator[str]:
    """The lines of the table of intervals."""
    yield "| systems | articles | Spearman over all systems | articles resampled | systems and articles resampled |"
    yield "|---|---|---|---|---|"
    law = Law(1.0, 0.3, FIVE)
    for systems, articles in ((6, 30), (12, 60), (30, 60)):
        many = [
            over_systems(one, resamples=0).values[SPEARMAN, 0]
            for one in (drawn(articles, law, law, 0.0, seed, 300, 10**6 + seed) for seed in range(30))
        ]
        truth = float(np.mean(many))
        held = np.zeros(2)
        for seed in range(count):
            one = drawn(articles, law, law, 0.0, seed, systems, 2 * 10**6 + seed)
            correlated = over_systems(one, resamples=400)
            drawn_systems = correlated.over_systems[SPEARMAN]
            resampled = correlated.values[SPEARMAN, 1:], drawn_systems[~np.isnan(drawn_systems)]
            held += [low <= truth <= high for low, high in filter(None, map(percentile_interval, resampled))]
        yield f"| {systems} | {articles} | {truth:.2f} | {held[0] / count:.2f} | {held[1] / count:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=1000)
    given = parser.parse_args()
    for lines in (table(given.data_sets), coverage(given.data_sets)):
        for line in lines:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
