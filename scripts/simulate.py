"""Simulations: which share of the 95 % intervals holds the truth, and what a paired test finds; a table each.

    agreement   figures of agreement, points, forecasts and risks, on simulated ratings of 10, 20 and 40 articles
    tests       size and power of the paired test of two judges; intervals of Spearman over systems
    labels      intervals from few labels, on simulated ratings and by hiding those of recorded judges (../shared)
    choice      how often a setting is taken without an effect and with one; with --recorded [RUN ...], what rules lose
                on articles that did not choose, and by how much they promise too much
    repairs     what rules lose that choose among repairs, many of which learn; with --recorded on three tasks
    verdict     how often each verdict is given to judges whose worth is known; with --recorded, to recorded judges
    decisions   judges that say pass or fail: false verdicts, mistakes of the band and coverage of rates on new groups;
                with --recorded, coverage of intervals of TPR and TNR on recorded judges of other groups

`python scripts/simulate.py tests --data-sets 1000`. Tables in docs/ name the commit that made them; at 3e7ab7f stand
the simulations of other tests, of PPI++, of variance components and of system-level accuracies.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax

import judgebench
from judgebench.decoding.rules import Contrastive, Ranged
from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Clusters, Estimate, percentile_interval
from judgebench.stats.correlation import SPEARMAN, Correlated, correlate, spearman
from judgebench.stats.permutation import flipped_differences, flips, permutation_p_value
from judgebench.stats.prediction_powered import FewLabels
from judgebench.stats.shares import clustered_share, wilson
from judgebench.studies.decisions import decision_records
from judgebench.studies.evaluate import evaluate
from judgebench.studies.humans import beside_humans_records, human_records
from judgebench.studies.panel import Panel
from judgebench.studies.prediction_powered import predicted_means
from judgebench.studies.rules import CARE, FEW, NO, RULES, YES
from judgebench.studies.scores import JudgeScores
from judgebench.studies.scores import ScoreSeries as StudyCell
from judgebench.studies.systems import system_records
from judgebench.studies.verdict import verdict_records
from judgebench.studies.verdict_decisions import decides
from judgebench.tuning.choose import Candidates, _candidates, choose, worth_of
from judgebench.tuning.learned import Learner
from judgebench.tuning.tuners import Dev
from judgebench.types import FAILED, PARSED, Classes

LARGE = 4000
"""Articles behind a population's value."""
RECORDED = Path(__file__).parents[2] / "shared" / "data" / "tasks" / "recorded_judges_summeval.json"
ROUNDING = 1e-9


def line(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(f'{cell:.1f}' if isinstance(cell, float) else str(cell) for cell in cells)} |"


# --- agreement --------------------------------------------------------------------------------------------------------

SCALE = np.arange(1.0, 6.0)
BORDERS = {"normal": np.array([-1.5, -0.5, 0.5, 1.5]), "near-constant": np.array([-3.6, -3.0, -2.4, -1.6])}
"""Of ratings: all five numbers are used, or nine in ten are the highest."""


class Ratings(NamedTuple):
    """probabilities [N, 5] of a judge, ratings [N, 3] and groups [N]."""

    probabilities: np.ndarray
    ratings: np.ndarray
    groups: np.ndarray


def rated(articles: int, borders: np.ndarray, seed: int) -> Ratings:
    """Eight texts an article, three raters: quality has a part of the article's, and so have the judge's errors."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(articles), 8)
    n = len(groups)
    truth = rng.normal(0, 0.5, articles)[groups] + rng.normal(0, 0.8, n)
    severity = np.array([-0.3, 0.0, 0.3])
    ratings = 1.0 + np.digitize(truth[:, None] + severity + rng.normal(0, 0.6, (n, 3)), borders)
    believed = truth + rng.normal(0, 0.3, articles)[groups] + rng.normal(0, 0.7, n)
    centers = np.array([2 * borders[0] - borders[1], *borders]) + np.diff(borders).mean() / 2
    logits = -((believed[:, None] - centers) ** 2) / 0.8
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Ratings(probabilities / probabilities.sum(axis=1, keepdims=True), ratings, groups)


def agreement(options: argparse.Namespace) -> Iterator[str]:
    from judgebench.stats.agreement import FIGURES, alternative_record
    from judgebench.studies.agreement import agreement_record
    from judgebench.studies.humans import POINTS_FIGURES, points_record
    from judgebench.studies.probability_scores import FIGURES as FORECASTS
    from judgebench.studies.probability_scores import coverage_record, forecast_record

    names = (
        *FIGURES,
        *("bias", "mae", "exact", "adjacent", "kappa", "judge_icc"),
        *(f"single_{name}" for name in POINTS_FIGURES),
        *("advantage", "favorite_difference", *FORECASTS),
    )

    def measured(sample: Ratings, resamples: int) -> dict[str, Any]:
        probabilities, ratings, groups = sample
        scores = probabilities @ SCALE
        clusters = Clusters.of(groups, resamples)
        record = points_record(scores, ratings, clusters, SCALE)
        record |= {f"judge_{name}": value for name, value in record.items() if name.startswith("icc")}
        record |= agreement_record(ratings, clusters if resamples else Clusters.of(np.zeros(len(groups)), 0))
        record |= alternative_record(SCALE[probabilities.argmax(axis=1)], ratings, clusters)
        return record | forecast_record(probabilities, ratings, clusters, SCALE, SCALE)

    yield line("ratings", "figure", "truth", *(f"{n} articles" for n in (10, 20, 40)))
    yield "|---" * 6 + "|"
    for law, borders in BORDERS.items():
        truth = measured(rated(LARGE, borders, 10**6), 0)
        shares: dict[str, list[float]] = {name: [] for name in names}
        conformal = []
        for articles in (10, 20, 40):
            inside: dict[str, list[float]] = {name: [] for name in names}
            covered = []
            for seed in range(options.data_sets):
                sample = rated(articles, borders, seed)
                record, human = measured(sample, options.resamples), sample.ratings.mean(axis=1)
                for name in names:
                    low, high = record[f"{name}_low"], record[f"{name}_high"]
                    inside[name] += [] if low is None else [low - 1e-12 <= truth[name] <= high + 1e-12]
                scores = sample.probabilities @ SCALE
                clusters = Clusters.of(sample.groups, 0, seed)
                covered.append(coverage_record(scores, human, clusters, (1, 5))["coverage"])
            for name in names:
                shares[name].append(100 * float(np.mean(inside[name])) if inside[name] else float("nan"))
            conformal.append(100 * float(np.mean(covered)))
        for name in names:
            yield line(law, name, f"{truth[name]:.3f}", *shares[name])
        yield line(law, "texts in 90 % intervals", "", *conformal)


# --- tests ------------------------------------------------------------------------------------------------------------

FINE, FIVE = tuple(np.arange(-2.0, 2.01, 0.5)), (-1.5, -0.5, 0.5, 1.5)
TWO = (0.2,)  # one score for over half of all texts, as judges in the field give


class Law(NamedTuple):
    """How a judge errs and rounds: the standard deviation of its error, of the part of it that a whole article shares,
    and the borders between its scores."""

    error: float
    shared: float
    borders: tuple[float, ...]


class Sample(NamedTuple):
    """[N] scores of humans and of two judges, with the article and the system of each."""

    human: np.ndarray
    first: np.ndarray
    second: np.ndarray
    group: np.ndarray
    system: np.ndarray


def drawn(articles: int, laws: tuple[Law, Law], together: float, seed: int, systems: int = 12, kind: int = 1) -> Sample:
    """Articles with `systems` texts each; `together` is the correlation of the judges' errors, and `kind` the seed of
    the systems' abilities."""
    rng = np.random.default_rng(seed)
    group, system = np.repeat(np.arange(articles), systems), np.tile(np.arange(systems), articles)
    n = len(group)
    ability = np.random.default_rng(kind).normal(0, 0.5, systems)[system]
    truth = rng.normal(0, 0.5, articles)[group] + ability + rng.normal(0, 0.75, n)
    human = np.round(3 * np.clip(3 + truth + rng.normal(0, 0.4, n), 1, 5)) / 3
    errors = [(rng.normal(size=articles)[group], rng.normal(size=n)) for _ in range(3)]
    scores = []
    for law, own in zip(laws, errors[1:], strict=True):
        pairs = zip(errors[0], own, strict=True)
        article, text = (np.sqrt(together) * a + np.sqrt(1 - together) * b for a, b in pairs)
        scores.append(np.digitize(truth + law.shared * article + law.error * text, law.borders).astype(float))
    return Sample(human, scores[0], scores[1], group, system)


def tests(options: argparse.Namespace) -> Iterator[str]:
    def gap(error: float) -> float:
        sample = drawn(LARGE, (first, second._replace(error=error)), 0.0, seed=7)
        return spearman(sample.first, sample.human) - spearman(sample.second, sample.human) - wanted

    # 1. the share of data sets with p <= .05 where signs of the articles' shares in the difference are flipped
    yield line("true difference", "scores of the two", "errors", "articles", "found, %")
    yield "|---" * 5 + "|"
    pairs = {"5 and 5": (FIVE, FIVE), "10 and 5": (FINE, FIVE), "10 and 2": (FINE, TWO)}
    for wanted, (name, borders), together in product((0.0, 0.08), pairs.items(), (0.0, 0.8)):
        first, second = (Law(1.0, 0.3, border) for border in borders)
        second = second._replace(error=brentq(gap, 0, 6, xtol=0.01))
        for articles in (10, 20, 60):
            found = 0
            for seed in range(options.data_sets):
                sample = drawn(articles, (first, second), together, seed)
                swapped, exact = flips(articles, 499, seed)
                clusters = Clusters.of(sample.group, resamples=2)
                sides = [
                    correlate("dataset", side, sample.human, clusters, sample.system)
                    for side in (sample.first, sample.second)
                ]
                apart = sides[0].values[:, 0] - sides[1].values[:, 0]
                permuted = flipped_differences(apart, sides[0].jackknife - sides[1].jackknife, swapped)
                found += permutation_p_value(apart[SPEARMAN], permuted[SPEARMAN], exact) <= 0.05
            errors = "alike" if together else "their own"
            yield line(f"{wanted:g}", name, errors, articles, 100 * found / options.data_sets)

    # 2. how often the intervals at system level hold the value over all systems of a kind
    def over_systems(sample: Sample, resamples: int) -> Correlated:
        return correlate("system", sample.first, sample.human, Clusters.of(sample.group, resamples), sample.system)

    yield "\n" + line("systems", "articles", "Spearman", "articles resampled", "systems and articles resampled")
    yield "|---" * 5 + "|"
    laws = (Law(1.0, 0.3, FIVE), Law(1.0, 0.3, FIVE))
    for systems, articles in ((6, 30), (12, 60), (30, 60)):
        populations = (drawn(articles, laws, 0.0, seed, 300, 10**6 + seed) for seed in range(30))
        truth = float(np.mean([over_systems(sample, 0).values[SPEARMAN, 0] for sample in populations]))
        inside = np.zeros(2)
        for seed in range(options.data_sets):
            sample = drawn(articles, laws, 0.0, seed, systems, 2 * 10**6 + seed)
            correlated = over_systems(sample, resamples=400)
            both = correlated.over_systems[SPEARMAN]
            resampled = correlated.values[SPEARMAN, 1:], both[~np.isnan(both)]
            inside += [low <= truth <= high for low, high in filter(None, map(percentile_interval, resampled))]
        yield line(systems, articles, f"{truth:.2f}", *(100 * inside / options.data_sets).tolist())


# --- few labels -------------------------------------------------------------------------------------------------------

COLUMNS = ("labels", "predicted", "labels_these", "predicted_these")
"""Intervals for articles like these, from labels alone and with the judge; the same for these very articles, whose mean
over all 60 is the truth."""


def label_share(human: np.ndarray, judge: np.ndarray, truth: np.ndarray, scale: Any) -> tuple[np.ndarray, np.ndarray]:
    """[4] shares of systems whose mean lies inside the interval of `COLUMNS`, and [4] mean widths; human and judge are
    [articles, systems], human NaN where an article has no label."""
    articles, systems = human.shape
    names = np.tile([f"s{number:02}" for number in range(systems)], articles)
    groups = np.repeat(np.arange(articles), systems)
    records = predicted_means(FewLabels(human.ravel(), judge.ravel(), groups, names, scale))
    shares, widths = [], []
    for name in COLUMNS:
        low, high = (np.array([record[f"{name}{end}"] for record in records], float) for end in ("_low", "_high"))
        shares.append(np.mean((low - ROUNDING <= truth) & (truth <= high + ROUNDING)))
        widths.append(np.mean(high - low))
    return np.array(shares), np.array(widths)


def labels(options: argparse.Namespace) -> Iterator[str]:
    yield line("ratings", "judge", "labelled", *(f"{name}, %" for name in COLUMNS), "narrower, %")
    yield "|---" * 8 + "|"
    # 1. made-up articles of 8 systems that share their difficulty; all have a rating, which most hide
    rng = np.random.default_rng(11)
    shape = (20_000, 8)
    quality = rng.normal(size=(shape[0], 1)) * 0.5 + np.linspace(-0.5, 0.5, 8) + rng.normal(size=shape) * 0.8
    judge = quality + rng.normal(size=(shape[0], 1)) * 0.3 + rng.normal(size=shape)
    fault = np.maximum(-1.2 - quality, 0.0)[..., None] * 2 + rng.normal(size=(*shape, 3)) * 0.3
    constant = np.clip(5 - np.round(np.maximum(fault, 0.0)), 1, 5).mean(axis=2)  # three raters see a fault in the worst
    rounded = np.clip(np.round(3 + judge), 1, 5)
    cases: list[tuple[str, str, np.ndarray, np.ndarray, tuple[float, float] | None]] = [
        ("normal", "made up", quality + 0.4 * rng.normal(size=shape), judge, None)
    ]
    cases.append(("constant", "made up", constant, rounded, (1.0, 5.0)))
    # 2. recorded judges of SummEval, whose 60 articles are all there are
    data = json.loads(RECORDED.read_text("utf-8")) if RECORDED.is_file() else {"judges": {}}
    for name, scores in sorted(data["judges"].items()):
        for dimension in ("coherence", "consistency", "fluency", "relevance"):
            keys = sorted(key for key in scores if key.endswith(f"__{dimension}"))
            human = np.mean([[rater[key] for key in keys] for rater in data["experts"].values()], axis=0)
            said = np.array([scores[key] for key in keys], float)
            cases.append((dimension, name, human.reshape(60, -1), said.reshape(60, -1), (1.0, 5.0)))
    for ratings, name, human, said, scale in cases[: options.cases]:
        for labelled in (10, 20):
            rng, shares, widths = np.random.default_rng(labelled), [], []
            for _ in range(options.data_sets):
                rows = rng.integers(0, len(human), 60) if len(human) > 60 else np.arange(60)
                shown = np.isin(np.arange(60), rng.permutation(60)[:labelled])[:, None]
                share, width = label_share(
                    np.where(shown, human[rows], np.nan), said[rows], human[rows].mean(axis=0), scale
                )
                shares.append(100 * share)
                widths.append(width)
            labels_like, _, labels_these, _ = np.mean(widths, axis=0)
            narrower = 100 - 100 * float(labels_these / labels_like)
            yield line(ratings, name, labelled, *np.mean(shares, axis=0).tolist(), narrower)


# --- choice -----------------------------------------------------------------------------------------------------------

KAPPAS = sorted({setting.same for setting in Dev().grid})
NEAR = KAPPAS[KAPPAS.index(0.5) - 1 : KAPPAS.index(0.5) + 2]


def leaning(articles: int, kappa: float, seed: int) -> tuple[Ranged, np.ndarray, np.ndarray]:
    """Six texts an article, of which an assistant has a favorite score each; the main model sees quality too, and leans
    to it by `kappa`. Readings, ratings and articles."""
    rng, values, group = np.random.default_rng(seed), np.arange(1.0, 6.0), np.repeat(np.arange(articles), 6)
    far = [rng.normal(0, 0.6, articles)[group] + rng.normal(0, 0.8, len(group)) for _ in range(2)]
    seen, favorite = 3 + far[0] + rng.normal(0, 0.8, len(group)), 3 + far[1] / 2
    assistant = log_softmax(-((values - favorite[:, None]) ** 2), axis=1)
    main = log_softmax(-((values - seen[:, None]) ** 2) / 2 + kappa * assistant, axis=1)
    return Ranged(main, assistant, values), 3 + far[0] + rng.normal(0, 0.4, len(group)), group


def choice(options: argparse.Namespace) -> Iterator[str]:
    if options.recorded is not None:
        yield from choice_recorded(options)
        return
    # 1. the share of data sets in which one of twenty settings is taken, of which none is better
    yield line("twenty settings", *(f"{articles} articles, %" for articles in (6, 10, 20, 48)))
    yield "|---" * 5 + "|"
    laws = {"one judge, noise of their own": (1.0, 0.5), "the plain one, hardly changed": (1.0, 0.01)}
    for name, (judge, noise) in (laws | {"noise alone": (0.0, 1.0)}).items():
        taken = np.zeros((options.data_sets, 4))
        for seed, (place, articles) in product(range(options.data_sets), enumerate((6, 10, 20, 48))):
            sample = drawn(articles, (Law(1.0, 0.3, FINE), Law(1.0, 0.3, FINE)), 0.0, seed, systems=6)
            own = np.random.default_rng([seed, 1]).normal(0, noise, (len(sample.human), 20))
            shares = worth_of("spearman", judge * sample.first[:, None] + own, sample.human, sample.group)
            taken[seed, place] = choose(shares).taken > 0
        yield line(name, *(100 * taken.mean(axis=0)).tolist())
    # 2. expectation, argmax, and both contrasted, of a main model that leans to the assistant's favorites, or does not
    names = ("gain claimed, %", "kappa near .5, %", "by tune=dev, %")
    yield "\n" + line("leans by", "articles", *names, "Spearman of others: plain", "the choice", "tune=dev")
    yield "|---" * 8 + "|"
    for lean, articles in product((0.0, 0.5), (10, 20, 40, 80)):
        (others, truth, _), rows = leaning(300, lean, 10**6), []
        for seed in range(max(1, options.data_sets // 5)):
            readings, human, group = leaning(articles, lean, seed)
            everything, dev = np.ones(len(group), dtype=bool), group < round(0.3 * articles)
            rules = [Contrastive(0.0, rule=rule) for rule in ("expectation", "argmax")]
            learners = {2 + n: Learner(rule, [readings], human, group, Dev().grid) for n, rule in enumerate(rules)}
            scores = np.stack([rule.scores(*readings) for rule in rules * 2], axis=1)
            among = Candidates(scores, learners, human, group)
            taken_one = among.choose(everything, among.taught(everything, 5, seed)).taken
            learned: list[Any] = [learners[max(taken_one, 2)].learn(everything), learners[2].learn(dev)]
            found = [taken_one > 0, *(np.isclose(side.kappa, NEAR).any() for side in learned)]
            decoded = rules[0], [*rules, learned[0], learned[0]][taken_one], learned[1]
            rows.append([*(100 * share for share in found), *(spearman(d.scores(*others), truth) for d in decoded)])
        claimed, *near, plain, ours, by_dev = np.mean(rows, axis=0).tolist()
        yield line(lean, articles, claimed, *(near if lean else "  "), *(f"{rho:.3f}" for rho in (plain, ours, by_dev)))


def recorded_tasks(folders: list[str]) -> Iterator[tuple[str, list[Any]]]:
    """Names and tasks: scores [N, S] of settings, the plain one first; how simple each is [S]; human and groups [N]."""
    # 1. runs of one dimension: each range, the humans' own first, by expectation and argmax, plain and at twelve kappas
    coder = ["judge=recorded", "judge.path=qwen2.5-coder", "assistant=recorded", "data=conala_sample", "logger=none"]
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        run = judgebench.run([*coder, "ranges=[[0,4],[1,5],[2,6],[3,7]]", "report=false", f"run_dir={place}/conala"])
    runs = {"conala": run} | {Path(path).name: judgebench.Results.load(path) for path in folders}
    for name, results in runs.items():
        table = results.frame("scores").dropna(subset="human").drop_duplicates("example_id").set_index("example_id")
        clean, settings = results.frame("readings").query("attack == 'none' and defense == 'none'"), []
        for other, (_, part) in enumerate(clean.groupby(["range_min", "range_max"], sort=False)):
            part = part.set_index("example_id").loc[table.index]
            main, assistant = (np.array(part[f"{side}_logprobs"].tolist()) for side in ("main", "assistant"))
            values = np.array(part["candidates"].iloc[0], dtype=float)
            for rule, kappa in product(("expectation", "argmax"), (0, *KAPPAS[-12:])):
                simple = 4 * (kappa > 0) + 2 * (rule == "argmax") + (other > 0)
                settings.append((simple, Contrastive(kappa, rule=rule).scores(main, assistant, values)))
        kinds, columns = zip(*sorted(settings, key=lambda setting: setting[0]), strict=True)
        scores, rated = np.stack(columns, axis=1), (table[key].to_numpy() for key in ("human", "group_id"))
        yield name, [(scores, list(kinds), *rated)]
    # 2. six judges of summaries, as simple as each other or each in turn the simplest; the mean and the median of all
    data = json.loads(RECORDED.read_text("utf-8")) if RECORDED.is_file() else {}
    for name, kind in {"six judges": [0] * 6 + [1, 1], "five instead of one": [0, 1, 1, 1, 1, 1, 2, 2]}.items():
        tasks = []
        for dimension, plain in product(("coherence", "consistency", "fluency", "relevance") if data else (), range(6)):
            keys = sorted(key for key in data["experts"]["e0"] if key.endswith(f"__{dimension}"))
            human = np.mean([[rater[key] for key in keys] for rater in data["experts"].values()], axis=0)
            said = np.array([[said[key] for key in keys] for _, said in sorted(data["judges"].items())], float).T
            scores = np.column_stack([np.roll(said, -plain, axis=1), said.mean(axis=1), np.median(said, axis=1)])
            tasks.append((scores, kind, human, np.array([key.split("__")[0] for key in keys])))
        yield name, tasks


def choice_recorded(options: argparse.Namespace) -> Iterator[str]:
    names = ("regret", "regret, 90 %", "promise less outcome", "0.02 worse than plain, %", "better, %")
    yield line("task", "articles that choose", "rule", *names)
    yield "|---" * 8 + "|"
    for (name, tasks), share in product(recorded_tasks(options.recorded), ("half", "30 %", "10")):
        found: dict[str, list[list[float]]] = {}
        draws = range(max(1, options.data_sets // 20 // max(1, len(tasks))))
        for (place, (scores, kind, human, groups)), draw in product(enumerate(tasks), draws):
            order = np.random.default_rng([draw, place]).permutation(np.unique(groups))
            number = {"half": len(order) // 2, "30 %": round(0.3 * len(order)), "10": 10}[share]
            for part in range(min(3, len(order) // number)):  # in turn, so that easy articles choose and test alike
                dev = np.isin(groups, order[part * number : (part + 1) * number])
                among = Candidates(scores[dev], {}, human[dev], groups[dev], kind=kind)
                shares = worth_of("spearman", scores[dev], human[dev], groups[dev])
                worth, best = shares.mean(axis=0), int(shares.mean(axis=0).argmax())
                behind = shares[:, [best]] - shares
                near = int(np.argmax(behind.mean(axis=0) <= behind.std(axis=0, ddof=1) / np.sqrt(len(shares))))
                ours = among.choose(np.ones(dev.sum(), dtype=bool), among.scores).taken
                rules = {rule: (n, worth[n]) for rule, n in (("plain", 0), ("maximum", best), ("one SE", near))}
                rules["ours"] = ours, among.promise(5, 1, 0, draw)["spearman"]
                outcome = worth_of("spearman", scores[~dev], human[~dev], groups[~dev]).mean(axis=0)
                for rule, (setting, promised) in rules.items():
                    gain, got = outcome[setting] - outcome[0], outcome[setting]
                    row = [outcome.max() - got, promised - got, 100 * (gain < -0.02), 100 * (gain > 0.02)]
                    found.setdefault(rule, []).append(row)
        for rule, rows in found.items():
            regret, over, *shares_of = np.mean(rows, axis=0).tolist()
            far = np.quantile([row[0] for row in rows], 0.9)
            yield line(name, share, rule, f"{regret:.3f}", f"{far:.3f}", f"{over:+.3f}", *shares_of)


REPAIRED = {
    "code": ["data=conala_sample", "judge.path=qwen2.5-coder"],
    "students' answers": ["data=mohler", "grading_mohler.jsonl", "judge.path=qwen2.5-coder-grading"],
    "translations": [
        *("data=mlqe", "translation_mlqe.jsonl", "judge.path=qwen2.5-coder-translation"),
        "ranges=[[0,4],[1,5],[2,6],[3,7]]",
    ],
}
"""Tasks with recorded readings: their settings, and the data's file in ../shared."""


def repairs(options: argparse.Namespace) -> Iterator[str]:
    """What rules lose among the settings of `+exp=repairs`, of which many learn, on the half of the articles that did
    not choose. What learns does so by the half that chooses."""
    names = ("loss to the best", "loss, 90 %", "0.02 worse than plain, %", "better, %")
    yield line("task", "rule", *names)
    yield "|---" * 6 + "|"
    for name, settings in REPAIRED.items():
        at = [f"data.path={RECORDED.parent / file}" for file in settings if file.endswith(".jsonl")]
        if at and (options.recorded is None or not RECORDED.is_file()):
            continue
        kept: list[Candidates] = []

        def candidates(*given: Any, kept: list[Candidates] = kept) -> Any:
            settings, among = _candidates(*given)
            kept.append(among)
            return settings, among

        # 1. the settings of a run
        named = [setting for setting in settings if "=" in setting]
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch("judgebench.tuning.choose._candidates", candidates),
        ):
            judgebench.run(["+exp=repairs", *named, *at, "report=false", f"run_dir={folder}/run"])
        (among,) = kept
        # 2. half of the articles choose, the others test
        found: dict[str, list[list[float]]] = {}
        for draw in range(options.data_sets):
            order = np.random.default_rng([draw, 7]).permutation(np.unique(among.groups))
            dev = np.isin(among.groups, order[: len(order) // 2])
            scores = among.taught(dev, 5, draw)
            chosen = among.choose(dev, scores)
            plain = int(np.flatnonzero(chosen.gain == 0)[0])
            outcome = worth_of("spearman", scores[~dev], among.human[~dev], among.groups[~dev]).mean(axis=0)
            for rule, setting in {"plain": plain, "maximum": chosen.best, "ours": chosen.taken}.items():
                gain = outcome[setting] - outcome[plain]
                row = [outcome.max() - outcome[setting], 100 * (gain < -0.02), 100 * (gain > 0.02)]
                found.setdefault(rule, []).append(row)
        for rule, rows in found.items():
            regret, *shares_of = np.mean(rows, axis=0).tolist()
            far = np.quantile([row[0] for row in rows], 0.9)
            yield line(name, rule, f"{regret:.3f}", f"{far:.3f}", *shares_of)


# --- verdict ----------------------------------------------------------------------------------------------------------

JUDGES = ("perfect", "as a rater", "noisy", "weak", "lenient", "length", "blind", "constant", "inverted")
"""Simulated judges: the truth itself; as noisy as one rater; with twice and six times a rater's noise; the truth half a
scale higher; the text's length, which says nothing; another text's score; always 3; the truth reversed."""

CHEATS = (
    *("failing", "system", "system, noisy", "article", "half shuffled", "two values", "three values", "rare low"),
    *("likings", "worst tenth"),
)
"""Judges that seem better than they are: as a rater, but without an answer for the worst 31 % of texts; the mean truth
of the text's system, and with noise; of its article; as a rater, but half of the texts with another one's score; as a
rater, but with two or three values, or 1 for one text in twenty and 5 for all others; a liking for each system; the
truth, with the best score for the worst tenth of the texts."""

FAILING = 0.31
PANELS = (
    "honest",
    "and one at random",
    "and one who always says 3",
    "and one reversed",
    "coins",
    "two",
    "two, one 70 % at random",
)
"""Raters of simulated texts: three; with a bad one more; three who do not agree; the first two."""


def simulated_judge(name: str, articles: int, seed: int, systems: int = 6) -> JudgeScores:
    """A judge of texts of six systems and one article each, whose three raters have as much noise as texts differ."""
    rng = np.random.default_rng([seed, articles])
    system, group = np.tile(np.arange(systems), articles), np.repeat(np.arange(articles), systems)
    of_system, of_article = 0.35 * (system - (systems - 1) / 2), 0.5 * rng.normal(size=articles)[group]
    truth = 3 + of_system + of_article
    truth += 0.6 * rng.normal(size=len(group))
    ratings = np.clip(np.round(truth[:, None] + 0.7 * rng.normal(size=(len(group), 3))), 1, 5)
    noise = rng.normal(size=len(group))
    rater = truth + 0.7 * noise
    half = rng.permutation(len(group))[: len(group) // 2]
    shuffled = rater.copy()
    shuffled[half] = rater[rng.permutation(half)]
    scores = {
        "perfect": truth, "as a rater": rater, "noisy": truth + 1.4 * noise, "weak": truth + 4.2 * noise,
        "lenient": (truth + 5) / 2, "length": rng.gamma(4, size=len(group)), "blind": rng.permutation(truth),
        "constant": np.full(len(group), 3.0), "inverted": 6 - truth,
        "failing": rater, "system": 3 + of_system, "system, noisy": 3 + of_system + 0.3 * noise,
        "article": 3 + of_article, "half shuffled": shuffled, "two values": np.where(rater > 3, 5.0, 1.0),
        "three values": 3 + 2 * np.clip(np.round((rater - 3) / 1.5), -1, 1),
        "likings": 3 + rng.normal(size=systems)[system],
        "worst tenth": np.where(truth <= np.quantile(truth, 0.1), 5.0, truth),
        "rare low": np.where(rater > np.quantile(rater, 0.05), 5.0, 1.0),
    }[name]  # fmt: skip
    unread = truth <= np.quantile(truth, FAILING) if name == "failing" else None
    return study_sample(name, np.clip(scores, 1, 5), ratings, group.astype(str), system.astype(str), seed, unread)


def rated_by(sample: JudgeScores, panel: str, seed: int) -> JudgeScores:
    """The same texts, rated by others of `PANELS`."""
    rng, ratings = np.random.default_rng(seed), sample.ratings
    texts = len(ratings)
    random = rng.integers(1, 6, (texts, 3)).astype(float)
    clicks = rng.random(texts) < 0.7
    table = {
        "honest": ratings,
        "and one at random": np.column_stack([ratings, random[:, 0]]),
        "and one who always says 3": np.column_stack([ratings, np.full(texts, 3.0)]),
        "and one reversed": np.column_stack([ratings, 6 - ratings[:, 0]]),
        "coins": random,
        "two": ratings[:, :2],
        "two, one 70 % at random": np.column_stack([ratings[:, 0], np.where(clicks, random[:, 0], ratings[:, 1])]),
    }[panel]
    return replace(sample, ratings=table, raters=[f"r{number}" for number in range(table.shape[1])])


def study_sample(
    name: str,
    scores: np.ndarray,
    ratings: np.ndarray,
    groups: np.ndarray,
    systems: np.ndarray,
    seed: int = 0,
    unread: np.ndarray | None = None,
) -> JudgeScores:
    """Scores [N] and ratings [N, R] of 1 to 5 as studies take them; unread: [N] True where the answer failed."""
    if unread is not None:
        scores = np.where(unread, 1.0, scores)
    cell = StudyCell("test", "quality", 1.0, 5.0, 1.0, "none", "none", "main", "expectation", None, None)
    names, raters = np.array([f"t{i}" for i in range(len(scores))]), [f"r{i}" for i in range(ratings.shape[1])]
    sample = JudgeScores(
        name, cell, names, groups, systems, scores, ratings, raters, (1.0, 5.0), resamples=200, seed=seed
    )
    return sample if unread is None else replace(sample, unread=unread).answered


def studies_of(sample: JudgeScores) -> dict[str, Any]:
    """The studies that a verdict rests on, of one setting."""
    whole = sample.whole or sample
    columns = {name: np.full(len(whole.scores), value) for name, value in sample.cell.named.items()}
    columns |= {"example_id": whole.names, "group_id": whole.groups, "system_id": whole.systems}
    columns |= {"score": whole.scores, "human": whole.human, "status": np.full(len(whole.scores), PARSED)}
    if whole.unread is not None:
        columns["status"] = np.where(whole.unread, FAILED, PARSED)
    scale, drawn = {sample.cell.dimension: sample.scale}, (sample.resamples, sample.seed)
    metrics = evaluate(columns, sample.dataset, ["dataset"], *drawn, scale)
    panels = {(sample.cell.dimension, "test"): Panel(whole.ratings, whole.clusters, whole.names.tolist())}
    return {
        "metrics": metrics, "humans": human_records(panels, sample.dataset, scale), "forecasts": [],
        "beside_humans": beside_humans_records([sample]), "systems": system_records([sample]),
    }  # fmt: skip


def verdicts(sample: JudgeScores, margins: Margins | None = None, **studies: Any) -> dict[str, Any]:
    """Use -> its record, of one setting that was not chosen among others; with these studies beside."""
    studies = studies_of(sample) | studies
    records = verdict_records([sample], [sample.head | {"taken": True}], studies, margins or Margins())
    return {record["use"]: record for record in records}


def verdict(options: argparse.Namespace) -> Iterator[str]:
    """How often each judge gets each verdict; the uses of attacks are none of it."""
    uses, words = list(RULES)[1:5], (YES, CARE, NO, FEW)
    if options.recorded is not None:
        data = json.loads(RECORDED.read_text("utf-8"))
        yield line("dimension", "judge", *(RULES[use].title for use in uses))
        yield line(*["---"] * (2 + len(uses)))
        for dimension, judge in product(("coherence", "consistency", "fluency", "relevance"), sorted(data["judges"])):
            keys = sorted(key for key in data["experts"]["e0"] if key.endswith(f"__{dimension}"))
            groups, systems, _ = (np.array(part) for part in zip(*(key.split("__") for key in keys), strict=True))
            ratings = np.array([[expert[key] for expert in data["experts"].values()] for key in keys], dtype=float)
            scores = np.array([data["judges"][judge][key] for key in keys], dtype=float)
            found = verdicts(study_sample(judge, np.clip(scores, 1, 5), ratings, groups, systems))
            yield line(dimension, judge, *(f"{found[use]['verdict']}: {found[use]['clause']}" for use in uses))
        return
    yield line("judge", "articles", "systems", "raters", *(f"{RULES[use].title}: {' / '.join(words)}" for use in uses))
    yield line(*["---"] * (4 + len(uses)))
    rows = [
        *product((*JUDGES, *CHEATS), (8, 20, 40, 200), (6,), PANELS[:1]),
        *product(("perfect", "as a rater", "likings"), (40,), (2, 3, 4, 16), PANELS[:1]),
        *product(("as a rater", "noisy", "weak"), (40,), (6,), PANELS[1:]),
    ]
    for judge, articles, systems, panel in rows:
        drawn = []
        for seed in range(options.data_sets):
            sample = simulated_judge(judge, articles, seed, systems)
            drawn.append(verdicts(sample if sample.whole else rated_by(sample, panel, seed)))
        cells = []
        for use in uses:
            counts = [sum(records[use]["verdict"] == word for records in drawn) for word in words]
            cells.append(" / ".join(f"{100 * count / len(drawn):.0f}" for count in counts))
        yield line(judge, articles, systems, panel, *cells)


# --- decisions --------------------------------------------------------------------------------------------------------

DECIDING = {"good": (2.5, 0.0), "lenient": (1.8, 1.0), "strict": (1.8, -1.0), "noisy": (0.8, 0.0), "always": (0.0, 9.0)}
"""Judge -> how far its score follows the label, and its leaning, in logits."""
EXTERNAL = Path(__file__).parents[2] / "shared" / "data" / "external"
PASS_FROM = {
    "llmjudge": 2,
    "summhay": 2,
    "alttest_framing": 1,
    "faithbench": 1,
    "llm_rubric_real": 3,
    "llm_rubric_synth": 3,
}
"""Set of recorded judges -> the label from which a text passes."""
BINARY = Classes(("fail", "pass"), 1.0)
NEW = 1000
"""New groups on which promises are measured."""


def deciding(kind: str, base: float, texts: int, groups: int, seed: int) -> tuple[np.ndarray, ...]:
    """Scores from 0 to 1, labels 0 or 1 and groups [N] of a simulated judge: groups differ in how many of their texts
    pass, and in how the judge leans."""
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, groups, texts))
    label = 1.0 * (rng.random(texts) < rng.beta(base * 9, (1 - base) * 9, groups)[group])
    follows, leans = DECIDING[kind]
    logit = follows * (2 * label - 1) + leans + 0.5 * rng.normal(size=groups)[group] + rng.normal(size=texts)
    score = np.ones(texts) if kind == "always" else 1 / (1 + np.exp(-logit))
    return score, label, group


def decision_sample(scores: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> JudgeScores:
    """A judge's scores from 0 to 1 and labels, NaN for none, as the study takes them."""
    names = np.arange(len(scores)).astype(str)
    cell = StudyCell("test", "quality", 0.0, 1.0, 1.0, "none", "none", "main", "expectation", None, None)
    systems = np.full(len(scores), "system")
    return JudgeScores(
        "simulated",
        cell,
        names,
        groups,
        systems,
        scores,
        labels[:, None],
        scale=(0.0, 1.0),
        classes=BINARY,
        resamples=0,
    )


def decisions(options: argparse.Namespace) -> Iterator[str]:
    """A row a judge, base rate and size: shares in per cent of the data sets."""
    if options.recorded is not None:
        yield from recorded_decisions(options)
        return
    yield line(
        "judge",
        "passing",
        "labels",
        "groups",
        "yes",
        "false yes",
        "decided",
        "band broken",
        "rate covered",
        "TPR",
        "TNR",
    )
    yield line(*["---"] * 11)
    sizes = ((50, 10), (100, 10), (100, 50), (300, 30), (1000, 10), (1000, 200))
    for kind, base, (labels, groups) in product(DECIDING, (0.5, 0.9, 0.95, 0.99), sizes):
        score, label, _ = deciding(kind, base, 100 * NEW, NEW, 10**6)
        counts = []
        for seed in range(options.data_sets):
            # as many texts again without a label, of other groups
            columns = deciding(kind, base, 2 * labels, 2 * groups, seed)
            labelled = columns[2] < groups
            given = np.where(labelled, columns[1], np.nan)
            record = decision_records([decision_sample(columns[0], given, columns[2])], Costs(), Asking())[-1]
            verdict = decides(record, Margins())
            passes = score >= record["pass_mark"]
            right = passes[label == 1].mean(), (~passes)[label == 0].mean()
            yes = verdict.verdict == YES
            fails = np.zeros(len(score), bool) if record["fail_to"] is None else score <= record["fail_to"]
            sure = np.zeros(len(score), bool) if record["pass_from"] is None else score >= record["pass_from"]
            decided = fails | sure
            wrong = np.where(sure, label == 0, label == 1)[decided]
            rate = record["rates"][0]
            held = rate["rate_low"] is not None and rate["rate_low"] <= base <= rate["rate_high"]
            row = [yes, yes and min(right) < 0.8, decided.mean(), bool(len(wrong)) and wrong.mean() > 0.05, held]
            for name, share in zip(("tpr", "tnr"), right, strict=True):
                low, high = record[f"{name}_low"], record[f"{name}_high"]
                row.append(np.nan if low is None else low <= share <= high)
            counts.append(row)
        with np.errstate(all="ignore"):
            yield line(kind, str(base), labels, groups, *(100 * np.nanmean(np.array(counts, float), axis=0)).tolist())


def recorded_decisions(options: argparse.Namespace) -> Iterator[str]:
    """Coverage of intervals of TPR and TNR: of all texts of the half of the groups that was labelled in part, and of
    the other half, in which a right interval holds some 83 % where groups are all that varies."""
    yield line("set", "labels", "share", "method", "these groups", "other groups", "width")
    yield line(*["---"] * 7)
    for name, pass_from in PASS_FROM.items():
        path = next(EXTERNAL.glob(f"{name}.jsonl*"))
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
        every = map(json.loads, lines)
        rows = [row for row in every if row.get("question") in (None, "Q0") or name == "alttest_framing"]
        judges = sorted({judge for row in rows for judge in row["judges"]})
        for labels in (50, 100):
            held: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
            for judge in judges:
                known = [row for row in rows if row["judges"].get(judge) is not None and row["human"]]
                passed = np.array([np.mean([rating >= pass_from for rating in row["human"].values()]) for row in known])
                said = np.array([row["judges"][judge] >= pass_from for row in known])
                groups = np.unique([row["group"] for row in known], return_inverse=True)[1]
                rng = np.random.default_rng(0)
                for _ in range(options.data_sets):
                    half = np.isin(groups, rng.permutation(groups.max() + 1)[: (groups.max() + 1) // 2])
                    drawn = rng.choice(np.flatnonzero(half), min(labels, half.sum()), replace=False)
                    for share, right, mass in (("TPR", 1.0 * said, passed), ("TNR", 1.0 - said, 1 - passed)):
                        if mass[drawn].sum() < 5:
                            continue
                        here, other = (np.average(right[part], weights=mass[part]) for part in (half, ~half))
                        part = right[drawn], mass[drawn], groups[drawn]
                        covered = len(drawn) / half.sum(), len(set(groups[drawn])) / len(set(groups[half]))
                        intervals: dict[str, Any] = {
                            "other groups": clustered_share(*part),
                            "these groups": clustered_share(*part, labelled=covered),
                            "Wilson": Estimate(0.0, *wilson(np.average(part[0], weights=part[1]), part[1].sum(), 1.96)),
                        }
                        for method, (_, low, high) in intervals.items():
                            if low is not None:
                                row = low - ROUNDING <= here <= high + ROUNDING, low <= other <= high, high - low
                                held.setdefault((share, method), []).append(row)
            for (share, method), found in held.items():
                these, others, width = np.mean(found, axis=0).tolist()
                yield line(name, labels, share, method, 100 * these, 100 * others, f"{width:.3f}")


def main(arguments: list[str] | None = None) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/simulate.py", description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for work, default in (
        (agreement, 1000),
        (tests, 1000),
        (labels, 200),
        (choice, 1000),
        (repairs, 40),
        (verdict, 50),
        (decisions, 100),
    ):
        child = commands.add_parser(work.__name__)
        child.add_argument("--data-sets", type=int, default=default)
        child.set_defaults(work=work)
        if work is agreement:
            child.add_argument("--resamples", type=int, default=1000)
        if work is choice:
            child.add_argument(
                "--recorded", nargs="*", metavar="FOLDER", help="recorded readings, and those of these runs"
            )
        if work in (repairs, verdict, decisions):
            child.add_argument("--recorded", action="store_const", const=[], help="the recorded judges of ../shared")
        if work is labels:
            child.add_argument("--cases", type=int, help="of the first so many ratings and judges alone")
    options = parser.parse_args(arguments)
    for row in options.work(options):
        print(row, flush=True)


if __name__ == "__main__":
    main()
