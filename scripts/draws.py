"""Which texts to label: groups drawn at random, beside groups drawn by what the judges say of their texts.

`python scripts/draws.py FOLDER` reads sets of recorded judges (see `external.py`). Of each judge of a task it draws
a quarter of the groups many times, estimates three figures of all texts by the labels of those, and prints how many
labels a draw needs for the error that a random draw has. A group's probability is half the same for all, and half in
proportion to its texts'

- disagreement: standard deviation over the task's judges of their standard scores;
- doubt: nearness of the judge's score to the middle of its scores;
- error: distance of the judge's calibrated score from the humans', which nobody knows before: no draw can be better.

Estimates weigh each label by one over its probability (Horvitz and Thompson 1952): the mean rating, by the judge's
mean and the labels' difference from it; Spearman, by weighted ranks; and the share of passing texts that the judge
passes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from recorded.sets import read, tasks_of
from scipy.stats import rankdata, t

SHARE = 0.25
"""Of the groups, that is labelled; 20 groups at least, of 60 at least."""
DRAWS = 150


def ranks_of(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mid-ranks [N], less their weighted mean."""
    order = np.argsort(values, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(weights[order])])
    below = np.searchsorted(values[order], values, side="left")
    upto = np.searchsorted(values[order], values, side="right")
    ranks = (reached[below] + reached[upto]) / 2
    return ranks - weights @ ranks / weights.sum()


def spearman(scores: np.ndarray, human: np.ndarray, weights: np.ndarray) -> float:
    first, second = ranks_of(scores, weights), ranks_of(human, weights)
    size = np.sqrt(weights @ first**2 * (weights @ second**2))
    return float(weights @ (first * second) / size) if size > 0 else np.nan


def probabilities(sizes: np.ndarray, count: int) -> np.ndarray:
    """Inclusion probabilities [G] of so many groups, half of each in proportion to its size, 1 at most."""
    mixed = 0.5 + 0.5 * sizes / max(sizes.mean(), 1e-12)
    chances = np.minimum(1.0, count * mixed / mixed.sum())
    while (rest := chances < 1).any() and chances.sum() < count - 1e-9:
        left = count - (~rest).sum()
        chances[rest] = np.minimum(1.0, left * mixed[rest] / mixed[rest].sum())
    return chances


def systematic(chances: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Groups, each drawn with its probability, in random order."""
    order = generator.permutation(len(chances))
    ends = np.floor(np.cumsum(chances[order]) - generator.random())
    return order[np.diff(ends, prepend=-1.0) > 0]


def errors_of(
    chances: np.ndarray, group: np.ndarray, scores: np.ndarray, human: np.ndarray, line: np.ndarray, said: np.ndarray
) -> tuple[dict[str, float], float]:
    """Figure -> mean squared error times the number of labels; and the share of 95 % intervals that hold the mean."""
    generator = np.random.default_rng(0)
    passes = human >= 0.5
    everywhere = np.ones(len(human))
    truth = {"mean": human.mean(), "Spearman": spearman(scores, human, everywhere)}
    if passes.any():
        truth["TPR"] = said[passes].mean()
    squares, labels, held = defaultdict(list), [], []
    for _ in range(DRAWS):
        drawn = systematic(chances, generator)
        rows = np.flatnonzero(np.isin(group, drawn))
        weights = 1 / chances[group[rows]]
        labels.append(len(rows))
        # 1. the mean, and its interval by the totals of groups
        gap = human[rows] - line[rows]
        offset = weights @ gap / weights.sum()
        parts = np.bincount(group[rows], weights * (gap - offset), minlength=len(chances))[drawn] / weights.sum()
        variance = (parts - parts.mean()) ** 2 @ (1 - chances[drawn]) * len(drawn) / (len(drawn) - 1)
        estimates = {"mean": line.mean() + offset}
        held.append(abs(estimates["mean"] - truth["mean"]) <= t.ppf(0.975, len(drawn) - 1) * np.sqrt(variance))
        # 2. the others
        estimates["Spearman"] = spearman(scores[rows], human[rows], weights)
        passing = weights * passes[rows]
        estimates["TPR"] = passing @ said[rows] / passing.sum() if passing.any() else np.nan
        for name, value in truth.items():
            squares[name].append((estimates[name] - value) ** 2)
    return {name: float(np.nanmean(values) * np.mean(labels)) for name, values in squares.items()}, float(np.mean(held))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    found, held, cells = defaultdict(list), defaultdict(list), 0
    tasks = [task for name, rows in read(parser.parse_args().folder).items() for task in tasks_of(name, rows, 3)]
    for task in tasks:
        for given in task.judges.values() if task.labels != "nominal" else ():
            # 1. what the judge and the humans say, as part of their scales
            known = np.isfinite(task.mean) & np.isfinite(given)
            scores, low, high = given[known], *task.scale
            human = (task.mean[known] - low) / (high - low)
            group = np.unique(task.groups[known], return_inverse=True)[1]
            count = group.max() + 1
            if count < 60 or scores.min() == scores.max():
                continue
            slope = np.cov(scores, human)[0, 1] / scores.var(ddof=1)
            line = human.mean() + slope * (scores - scores.mean())
            said = line >= np.quantile(line, (human < 0.5).mean())
            # 2. what a draw may go by
            others = np.array([judge[known] for judge in task.judges.values()])
            others = (others - np.nanmean(others, axis=1)[:, None]) / (np.nanstd(others, axis=1)[:, None] + 1e-9)
            doubts = {
                "disagreement": np.nan_to_num(np.nanstd(others, axis=0)),
                "doubt": 1 - np.abs(2 * rankdata(scores) / len(scores) - 1),
                "error": human - line,
            }
            # 3. the labels that each draw takes, beside a random one
            wanted = max(20, int(SHARE * count))
            at_random, held_here = errors_of(np.full(count, wanted / count), group, scores, human, line, said)
            held["random"].append(held_here)
            cells += 1
            for name, doubt in doubts.items():
                sizes = np.sqrt(np.bincount(group, doubt**2))
                errors, held_here = errors_of(probabilities(sizes, wanted), group, scores, human, line, said)
                held[name].append(held_here)
                for figure, value in errors.items():
                    found[name, figure].append(value / max(at_random[figure], 1e-12))
    print(f"{cells} judges of tasks. Labels for a random draw's error, which takes 1: median [a tenth below, above]")
    for (name, figure), values in found.items():
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        print(f"  {name:13} {figure:9} {middle:.2f} [{low:.2f}, {high:.2f}]")
    print("Intervals of the mean that hold it: " + ", ".join(f"{name} {np.mean(v):.3f}" for name, v in held.items()))


if __name__ == "__main__":
    main()
