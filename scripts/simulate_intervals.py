"""How often the intervals from few labels, of variance components and of system-level accuracies hold the truth.

    python scripts/simulate_intervals.py --data-sets 1000

Ratings are of 8 systems and of articles that share their difficulty: `normal`, without ends to the scale, or
`constant`, the best of 1 to 5 in nine of ten texts. Beside them stand the recorded experts and judges of SummEval, if
the checkout has ../shared: their 60 articles are drawn with replacement, and their own values are the truth.

Coverage is the share of true values within the 95 % interval, over systems (or pairs) and data sets; `worst`, that of
the system (or pair) with the least. `plain` is Student's interval of the labels, and PPI++ with its own formula.
`narrower` is the share of the labels' interval that the judge saves, and `wider`, how often it is wider by 2 % or more.

The last table hides ratings: of the 60 recorded articles 10 or 20 keep theirs, and the truth is the mean over all 60,
for each recorded judge; `these` are intervals for these very articles, `like` for articles like these, and `narrower`
is by how many % the former are narrower.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from judgebench.stats.correlation import spearman
from judgebench.stats.few_labels import FewLabels, predicted_differences, predicted_means, predicted_spearman
from judgebench.stats.system_pairs import system_record
from judgebench.stats.variance import CrossedScores, component_records, facet_share

SYSTEMS, OTHERS = 8, 60
LABELLED = (10, 20, 40)
RECORDED = Path(__file__).parents[2] / "shared" / "data" / "tasks" / "recorded_judges_summeval.json"
_ROUNDING = 1e-9


class Population(NamedTuple):
    """[A, S] ratings, a judge's scores and a second judge's, of articles that stand for all there are."""

    human: np.ndarray
    judge: np.ndarray
    second: np.ndarray
    scale: tuple[float, float] | None

    def drawn(self, articles: int, rng: np.random.Generator) -> Population:
        rows = rng.integers(0, len(self.human), articles)
        return Population(self.human[rows], self.judge[rows], self.second[rows], self.scale)


def simulated(kind: str, articles: int = 20_000) -> Population:
    rng = np.random.default_rng(11)
    shape = (articles, SYSTEMS)
    quality = rng.normal(size=(articles, 1)) * 0.5 + np.linspace(-0.5, 0.5, SYSTEMS) + rng.normal(size=shape) * 0.8
    first, second = (quality + rng.normal(size=(articles, 1)) * 0.3 + rng.normal(size=shape) for _ in range(2))
    if kind == "normal":
        return Population(quality + 0.4 * rng.normal(size=shape), first, second, None)
    # Three raters, who see a fault in the worst tenth.
    fault = np.maximum(-1.2 - quality, 0.0)[..., None] * 2 + rng.normal(size=(*shape, 3)) * 0.3
    human = np.clip(5 - np.round(np.maximum(fault, 0.0)), 1, 5).mean(axis=2)
    first, second = (np.clip(np.round(3 + one), 1, 5) for one in (first, second))
    return Population(human, first, second, (1.0, 5.0))


def recorded(dimension: str) -> Population:
    data = json.loads(RECORDED.read_text("utf-8"))
    keys = sorted(key for key in data["experts"]["e0"] if key.endswith(f"__{dimension}"))
    human, judge, second = (
        np.mean([[one[key] for key in keys] for one in some], axis=0).reshape(60, -1)
        for some in (data["experts"].values(), [data["judges"]["gpt-4o"]], [data["judges"]["gemini_pro"]])
    )
    return Population(human, judge, second, (1.0, 5.0))


def populations() -> dict[str, Population]:
    found = {kind: simulated(kind) for kind in ("normal", "constant")}
    if RECORDED.is_file():
        found |= {name: recorded(name) for name in ("coherence", "consistency", "fluency", "relevance")}
    return found


class Held:
    """Counts of true values inside their intervals."""

    def __init__(self) -> None:
        self.inside: list[np.ndarray] = []
        self.saved: list[float] = []

    def add(self, records: list[dict], name: str, truth: np.ndarray) -> None:
        ends = [[record[f"{name}{end}"] for record in records] for end in ("_low", "_high")]
        if any(end is None for side in ends for end in side):
            return
        low, high = (np.array(side, dtype=float) for side in ends)
        self.inside.append((low - _ROUNDING <= truth) & (truth <= high + _ROUNDING))
        self.saved += [record["narrower"] for record in records if record.get("narrower") is not None]

    def told(self, worst: bool = True) -> str:
        if not self.inside:
            return "-"
        each = np.mean(self.inside, axis=0)
        return f"{100 * each.mean():.1f}" + (f" (worst {100 * each.min():.0f})" if worst else "")

    def gain(self) -> str:
        saved = np.array(self.saved)
        return f"{100 * saved.mean():.1f} | {100 * (saved < -0.02).mean():.1f}" if len(saved) else "- | -"


def plain(sample: Population, labelled: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Held or not [S], by Student's interval of the labels, and by PPI++ with the normal law and its own lambda."""
    y, f, rest = sample.human[:labelled], sample.judge[:labelled], sample.judge[labelled:]
    half = stats.t.ppf(0.975, labelled - 1) * y.std(axis=0, ddof=1) / labelled**0.5
    labels = np.abs(y.mean(axis=0) - truth) <= half + _ROUNDING
    moved = (y - y.mean(axis=0)) * (f - f.mean(axis=0))
    spread = np.concatenate([f, rest]).var(axis=0)
    ratio = np.divide(moved.mean(axis=0), spread, out=np.zeros_like(spread), where=spread > 0)
    lambda_ = np.clip(ratio / (1 + labelled / len(rest)), 0, 1)
    value = y.mean(axis=0) + lambda_ * (rest.mean(axis=0) - f.mean(axis=0))
    error = np.sqrt((y - lambda_ * f).var(axis=0) / labelled + lambda_**2 * rest.var(axis=0) / len(rest))
    return labels, np.abs(value - truth) <= stats.norm.ppf(0.975) * error + _ROUNDING


def few_labels(count: int) -> Iterator[str]:
    """The lines of the tables of means, differences and Spearman."""
    yield "| ratings | labelled | labels, plain | PPI++, plain | labels | with judge | narrower, % | wider, % |"
    yield "|---|---|---|---|---|---|---|---|"
    later: list[str] = []
    for name, population in populations().items():
        truth = population.human.mean(axis=0)
        first, second = np.triu_indices(len(truth), 1)
        rho = spearman(population.second.ravel(), population.human.ravel())
        for labelled in LABELLED:
            rng = np.random.default_rng(labelled)
            means, gaps, rhos = ((Held(), Held()) for _ in range(3))
            plains: list[tuple[np.ndarray, np.ndarray]] = []
            for _ in range(count):
                sample = population.drawn(labelled + OTHERS, rng)
                plains.append(plain(sample, labelled, truth))
                articles, systems = sample.human.shape
                group = np.repeat(np.arange(articles), systems)
                human = np.where(group < labelled, sample.human.ravel(), np.nan)
                data = FewLabels(human, sample.judge.ravel(), group, np.tile(_named(systems), articles), sample.scale)
                found = predicted_means(data), predicted_differences(data)
                correlated = [predicted_spearman(sample.second.ravel(), human, sample.judge.ravel(), group)]
                for side, name_of in enumerate(("labels", "predicted")):
                    means[side].add(found[0], name_of, truth)
                    gaps[side].add(found[1], name_of, truth[first] - truth[second])
                    rhos[side].add(correlated, name_of, np.array([rho]))
            naive = [f"{100 * np.mean([one[side] for one in plains]):.1f}" for side in (0, 1)]
            row = f"| {name} | {labelled} |"
            yield f"{row} {' | '.join(naive)} | {means[0].told()} | {means[1].told()} | {means[1].gain()} |"
            for what, held in (("differences", gaps), ("Spearman", rhos)):
                numbers = [one.told(what == "differences") for one in held]
                later.append(f"| {what} | {name} | {labelled} | {' | '.join(numbers)} | {held[1].gain()} |")
    yield ""
    yield "| of | ratings | labelled | labels | with judge | narrower, % | wider, % |"
    yield "|---|---|---|---|---|---|---|"
    yield from sorted(later, key=lambda line: not line.startswith("| diff"))


def _named(systems: int) -> np.ndarray:
    return np.array([f"s{one:02}" for one in range(systems)])


def hidden(count: int) -> Iterator[str]:
    """The lines of the table of intervals of these very articles, ratings hidden."""
    heads = ("judge", "dimension", "labelled", "labels, like", "both, like", "labels, these", "both, these", "narrower")
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|---|---|"
    data = json.loads(RECORDED.read_text("utf-8")) if RECORDED.is_file() else {"judges": {}}
    columns = [f"{name}{end}" for end in ("", "_these") for name in ("labels", "predicted")]
    whole: dict[int, list[np.ndarray]] = {}
    for judge, scores in sorted(data["judges"].items()):
        for dimension in ("coherence", "consistency", "fluency", "relevance"):
            keys = sorted(key for key in scores if key.endswith(f"__{dimension}"))
            human = np.mean([[rater[key] for key in keys] for rater in data["experts"].values()], axis=0)
            articles, systems, _ = (np.array(part) for part in zip(*(key.split("__") for key in keys), strict=True))
            given = np.array([scores[key] for key in keys], dtype=float)
            truth = np.array([human[systems == name].mean() for name in np.unique(systems)])
            for labelled in (10, 20):
                rng = np.random.default_rng(labelled)
                inside: dict[str, list[np.ndarray]] = {name: [] for name in columns}
                widths = []
                for _ in range(count):
                    chosen = rng.permutation(np.unique(articles))[:labelled]
                    few = FewLabels(
                        np.where(np.isin(articles, chosen), human, np.nan), given, articles, systems, (1, 5)
                    )
                    found = predicted_means(few)
                    for name in columns:
                        low, high = (np.array([one[f"{name}{end}"] for one in found]) for end in ("_low", "_high"))
                        inside[name].append((low - _ROUNDING <= truth) & (truth <= high + _ROUNDING))
                        widths.append((high - low).mean())
                shares = [100 * np.mean(inside[name]) for name in columns]
                both = np.array(widths).reshape(-1, 4).mean(axis=0)
                row = np.array([*shares, 100 - 100 * both[3] / both[1]])
                whole.setdefault(labelled, []).append(row)
                yield f"| {judge} | {dimension} | {labelled} | {' | '.join(f'{share:.1f}' for share in row)} |"
    for labelled, rows in whole.items():
        yield f"| all | all | {labelled} | {' | '.join(f'{share:.1f}' for share in np.mean(rows, axis=0))} |"


def components(count: int) -> Iterator[str]:
    """The lines of the table of variance components: a judge whose ranges are known to move its scores."""
    true = {"text": 1.0, "text x system": 0.5, "text x range": 0.1, "text x system x range": 0.25}
    yield "| articles | " + " | ".join(true) + " | share of the range's interactions |"
    yield "|---|---|---|---|---|---|"
    for articles in LABELLED:
        rng = np.random.default_rng(articles)
        held: dict[str, list[bool]] = {name: [] for name in (*true, "interactions")}
        for seed in range(count):
            ranges, normal = np.array([-0.6, -0.2, 0.2, 0.6]), rng.normal
            values = normal(size=(articles, 1, 1)) + 0.5**0.5 * normal(size=(articles, SYSTEMS, 1)) + ranges
            values = values + 0.1**0.5 * normal(size=(articles, 1, 4)) + 0.5 * normal(size=(articles, SYSTEMS, 4))
            scores = CrossedScores(values, ("text", "system", "range"), seed=seed)
            for record in component_records(scores):
                if record["effect"] in true:
                    value = true[record["effect"]]
                    held[record["effect"]].append(record["variance_low"] <= value <= record["variance_high"])
            share = facet_share(scores, "range")
            whole = sum(true.values()) + float(ranges.var(ddof=1))
            held["interactions"].append(share["interactions_low"] <= 0.35 / whole <= share["interactions_high"])  # type: ignore[operator]
        yield f"| {articles} | " + " | ".join(f"{100 * np.mean(each):.1f}" for each in held.values()) + " |"


def system_level(count: int) -> Iterator[str]:
    """The lines of the table of system-level accuracies: the truth is their mean over data sets of as many articles."""
    names = ("soft_pairwise_accuracy", "pairwise_accuracy", "ties_accuracy")
    yield "| ratings | articles | " + " | ".join(f"{name}, mean | held, %" for name in names) + " |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, population in populations().items():
        for articles in (20, 60):
            rng = np.random.default_rng(articles)
            found = []
            for seed in range(count):
                sample = population.drawn(articles, rng)
                group, system = (side.ravel() for side in np.indices(sample.human.shape))
                found.append(
                    system_record(sample.judge.ravel(), sample.human.ravel(), group, system, resamples=400, seed=seed)
                )
            cells = []
            for one in names:
                truth = float(np.mean([record[one] for record in found]))
                inside = [record[f"{one}_low"] <= truth <= record[f"{one}_high"] for record in found]
                cells.append(f"{truth:.3f} | {100 * np.mean(inside):.1f}")
            yield f"| {name} | {articles} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=200, help="of hidden ratings")
    parser.add_argument("--only", choices=("few_labels", "components", "system_level", "hidden"))
    given = parser.parse_args()
    for lines in (few_labels, components, system_level, hidden):
        if given.only not in (None, lines.__name__):
            continue
        for line in lines(given.draws if lines is hidden else given.data_sets):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
