"""Measures the resampling of correlations against scipy.stats.bootstrap over scipy.stats, on the same resamples.

Usage: python scripts/bench_bootstrap.py [--json FILE] [--scipy-resamples 500]

1440 examples (90 articles x 16 systems), scores 1 to 5, humans the mean of three experts; 10 000 resamples of the
articles and all three correlations. scipy is timed on fewer resamples and scaled, its time being proportional to them.
judgebench's time includes drawing the resamples, once for the three; scipy draws them once for each. Both run once with
a single thread in the matrix products and once with all processors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from judgebench.metrics.resampling import group_weights
from judgebench.metrics.weighted import resampled_correlations

ARTICLES, SYSTEMS, RESAMPLES, SEED = 90, 16, 10_000, 0
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Judge, humans and groups, [1440] each."""
    rng = np.random.default_rng(SEED)
    count = ARTICLES * SYSTEMS
    human = rng.integers(1, 6, (count, 3)).mean(axis=1)
    judge = np.clip(np.round(human + rng.normal(size=count)), 1, 5)
    return judge, human, np.repeat(np.arange(ARTICLES), SYSTEMS)


def seconds(work: Callable[[], Any], times: int = 9) -> float:
    """The median wall time of `work`."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def measure(scipy_resamples: int) -> dict[str, Any]:
    """One process's figures, with the threads that it was started with."""
    judge, human, groups = data()

    def draw() -> np.ndarray:
        group_weights.cache_clear()
        return group_weights(ARTICLES, RESAMPLES, SEED)

    def ours() -> np.ndarray:
        return resampled_correlations(judge, human, groups, draw())

    rows = np.arange(len(judge)).reshape(ARTICLES, SYSTEMS)
    each: dict[str, float] = {}
    theirs = []
    for name, correlation in (
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
        ("kendall", stats.kendalltau),
    ):

        def statistic(drawn: np.ndarray, correlation: Any = correlation) -> float:
            index = rows[drawn].ravel()
            return float(correlation(judge[index], human[index]).statistic)

        start = time.perf_counter()
        found = stats.bootstrap(
            (np.arange(ARTICLES),),
            statistic,
            n_resamples=scipy_resamples,
            vectorized=False,
            method="percentile",
            rng=np.random.default_rng(SEED),
        )
        each[name] = (time.perf_counter() - start) * RESAMPLES / scipy_resamples
        theirs.append(found.bootstrap_distribution)
    took = seconds(ours)
    return {
        "examples": len(judge),
        "articles": ARTICLES,
        "resamples": RESAMPLES,
        "seconds": took,
        "seconds_of_drawing": seconds(draw),
        "scipy_seconds": sum(each.values()),
        "scipy_seconds_each": each,
        "scipy_resamples_timed": scipy_resamples,
        "ratio": sum(each.values()) / took,
        "largest_difference": float(np.abs(ours()[:, :scipy_resamples] - np.array(theirs)).max()),
    }


def bootstrap_section(scipy_resamples: int = 500) -> dict[str, Any]:
    """The figures with one thread, and with one for each processor, each measured in a process of its own."""
    found = {}
    for threads in dict.fromkeys((1, os.cpu_count() or 1)):
        command = [sys.executable, __file__, "--worker", "--scipy-resamples", str(scipy_resamples)]
        environment = os.environ | dict.fromkeys(THREADS, str(threads))
        answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        found[f"threads_{threads}"] = json.loads(answer)
    return found


def main() -> None:
    """Prints the section, and writes it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scipy-resamples", type=int, default=500)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(measure(given.scipy_resamples)))
        return
    section = bootstrap_section(given.scipy_resamples)
    for threads, one in section.items():
        took, drawing = 1000 * one["seconds"], 1000 * one["seconds_of_drawing"]
        print(
            f"{threads}: {one['resamples']} resamples of {one['examples']} examples in {took:.1f} ms ({drawing:.1f} of "
            f"them drawing); scipy {one['scipy_seconds']:.2f} s (scaled from {one['scipy_resamples_timed']}): "
            f"{one['ratio']:.0f} times; differences up to {one['largest_difference']:.1e}"
        )
    if given.json:
        given.json.write_text(json.dumps(section, indent=2) + "\n")


if __name__ == "__main__":
    main()
