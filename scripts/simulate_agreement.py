"""Which share of the 95 % intervals of agreement holds the truth, on simulated ratings: a table of each figure.

    python scripts/simulate_agreement.py --data-sets 1000

A data set has 10, 20 or 40 articles of 8 texts, three raters and a judge with probabilities. Ratings are `normal` (all
five numbers are used) or `near-constant` (nine in ten are the highest). The truth is the figure of 4,000 articles with
the same raters. Besides, the share of texts whose conformal interval, wanted to hold 90 %, holds the humans' mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from judgebench.stats.agreement import FIGURES, agreement_record, disattenuated_record
from judgebench.stats.alternative import alternative_record
from judgebench.stats.forecasts import FIGURES as FORECAST_FIGURES
from judgebench.stats.forecasts import coverage_record, forecast_record, risk_record
from judgebench.stats.points import POINTS_FIGURES, points_record

TEXTS, SCALE = 8, np.arange(1.0, 6.0)
SEVERITY = np.array([-0.3, 0.0, 0.3])
LAWS = {"normal": np.array([-1.5, -0.5, 0.5, 1.5]), "near-constant": np.array([-3.6, -3.0, -2.4, -1.6])}
_LARGE = 4000


class Drawn(NamedTuple):
    """probabilities [N, 5] of a judge, ratings [N, 3] and groups [N]."""

    probabilities: np.ndarray
    ratings: np.ndarray
    groups: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        return self.probabilities @ SCALE


def drawn(articles: int, borders: np.ndarray, seed: int) -> Drawn:
    """Texts of articles: quality has a part of the article's, and so have the judge's errors."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(articles), TEXTS)
    n = len(groups)
    truth = rng.normal(0, 0.5, articles)[groups] + rng.normal(0, 0.8, n)
    ratings = 1.0 + np.digitize(truth[:, None] + SEVERITY + rng.normal(0, 0.6, (n, 3)), borders)
    believed = truth + rng.normal(0, 0.3, articles)[groups] + rng.normal(0, 0.7, n)
    centers = np.array([2 * borders[0] - borders[1], *borders]) + np.diff(borders).mean() / 2
    logits = -((believed[:, None] - centers) ** 2) / 0.8
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Drawn(probabilities / probabilities.sum(axis=1, keepdims=True), ratings, groups)


def measured(sample: Drawn, resamples: int) -> dict[str, Any]:
    """All records of a sample in one."""
    scores, ratings, groups = sample.scores, sample.ratings, sample.groups
    human = ratings.mean(axis=1)
    found = points_record(scores, ratings, groups, SCALE, resamples)
    found |= {f"judge_{name}": value for name, value in found.items() if name.startswith(("ac2", "icc"))}
    found |= disattenuated_record(scores, ratings, groups, resamples)
    found |= agreement_record(ratings, groups if resamples else np.zeros(len(groups)), SCALE)
    rounded = SCALE[sample.probabilities.argmax(axis=1)]
    found |= alternative_record(rounded, ratings, groups, resamples=resamples)
    found |= forecast_record(sample.probabilities, SCALE, ratings, groups, SCALE, resamples)
    unsure = 1 - sample.probabilities.max(axis=1)
    return found | risk_record(unsure, np.abs(scores - human), groups, resamples)


SHOWN = (
    *FIGURES,
    *("pearson", "spearman", "disattenuated_pearson", "disattenuated_spearman"),
    *("bias", "mae", "exact", "adjacent", "kappa", "judge_ac2", "judge_icc"),
    *(f"single_{name}" for name in POINTS_FIGURES),
    *("advantage", "favorite_difference"),
    *FORECAST_FIGURES,
    *("risk", "area", "gain"),
)


def holds(found: Mapping[str, Any], name: str, truth: float) -> float:
    """1.0 where the interval holds the truth, else 0.0; NaN without an interval."""
    low, high = found[f"{name}_low"], found[f"{name}_high"]
    return float("nan") if low is None else float(low - 1e-12 <= truth <= high + 1e-12)


def table(count: int, resamples: int) -> Iterator[str]:
    """The lines of the table."""
    cells = [(law, articles) for law in LAWS for articles in (10, 20, 40)]
    shares, conformal, truths = {}, {}, {}
    for law, articles in cells:
        if law not in truths:
            whole = measured(drawn(_LARGE, LAWS[law], 10**6), 0)
            truths[law] = {name: whole[name] for name in SHOWN}
        held, inside = [], []
        for seed in range(count):
            sample = drawn(articles, LAWS[law], seed)
            found = measured(sample, resamples)
            held.append([holds(found, name, truths[law][name]) for name in SHOWN])
            human = sample.ratings.mean(axis=1)
            inside.append(coverage_record(sample.scores, human, sample.groups, (1, 5), 0, seed)["coverage"])
        shares[law, articles] = np.nanmean(held, axis=0)
        conformal[law, articles] = float(np.mean(inside))
    yield "| figure | " + " | ".join(f"{law}: truth | 10 | 20 | 40" for law in LAWS) + " |"
    yield "|---|" + "---|" * 8
    for k, name in enumerate(SHOWN):
        parts = [
            f"{truths[law][name]:.3f} | " + " | ".join(f"{100 * shares[law, n][k]:.1f}" for n in (10, 20, 40))
            for law in LAWS
        ]
        yield f"| {name} | {' | '.join(parts)} |"
    parts = [" | ".join(["", *(f"{100 * conformal[law, n]:.1f}" for n in (10, 20, 40))]) for law in LAWS]
    yield f"| texts in 90 % intervals | {' | '.join(parts)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    given = parser.parse_args()
    for line in table(given.data_sets, given.resamples):
        print(line, flush=True)


if __name__ == "__main__":
    main()
