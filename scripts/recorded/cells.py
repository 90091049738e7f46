"""Promises of judgebench on recorded judges, each made by half of the groups and tested by the other half: verdicts,
the choice among judges, intervals, and drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr
from simulate import ROUNDING, verdicts

from judgebench.cards.requirements import changes_of
from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.stats.classes import kappa_of, label_shares, matrices, rater_matrices, share_of_pairs
from judgebench.stats.clusters import Clusters, Estimate, with_agreement_interval, with_intervals
from judgebench.stats.correlation import correlate
from judgebench.stats.maps import isotonic
from judgebench.stats.permutation import flipped_means, flips
from judgebench.stats.shares import clustered_share, wilson
from judgebench.studies.decisions import decision_records
from judgebench.studies.humans import CALIBRATED, odd_raters, points_record, rater_points_record
from judgebench.studies.replaced import kappa_of_raters, kappa_with_raters
from judgebench.studies.rules import CARE, COIN, YES
from judgebench.studies.scores import JudgeScores
from judgebench.studies.systems import system_records
from judgebench.studies.text_pairs import text_pair_record
from judgebench.tuning.choose import FLIPS, Candidates, worth_of
from judgebench.tuning.tuners import CrossFit
from recorded.sets import Task, sample_of

LABELS = (50, 100)
"""Labelled texts behind an interval."""
ALL = 10**6
SIZES = (50, 100, 200, ALL)
"""Labelled texts behind a verdict; `ALL`: of the half."""
BETWEEN = 0.1
"""The part of a figure's variance that lies between groups, for what an interval is asked to hold."""
SHUFFLED, LEVEL = 0.3, 0.5
"""The share of texts whose labels are shuffled, as a drift to be found; the level of a freer rule of choice."""
USES = ("order_texts", "compare_systems", "report_scores", "replace_rater", "decide")
CHANGES = ("spearman", "error", "bias")
MARGINS = Margins()
Row = dict[str, Any]


def shares_of(sample: JudgeScores) -> np.ndarray:
    """[N, K] the share of each text's labels that name each class."""
    assert sample.classes is not None
    return label_shares(sample.ratings, sample.classes)


def decision_of(sample: JudgeScores) -> Row:
    """The last record of a judge that decides: the chosen mark, or its words; empty where nothing is decided."""
    records = decision_records([sample], Costs(), Asking())
    return records[-1] if records else {}


def truth(sample: JudgeScores, labelled: JudgeScores, decision: Row) -> dict[str, float | None]:
    """Figure -> its value over all texts of a half, of a judge that was calibrated on the labelled ones."""
    values: dict[str, float | None] = {}
    if sample.ordered:
        clusters = Clusters.of(sample.groups, 0)
        of_judge = correlate("dataset", sample.scores, sample.human, clusters, sample.systems)
        values["spearman"] = float(of_judge.figures["spearman"][0])
        values["pairs"] = text_pair_record(sample)["pairs"]
        values["error"] = float(np.abs(isotonic(labelled.scores, labelled.human)(sample.scores) - sample.human).mean())
    if not decision:
        return values
    shares = shares_of(sample)
    said = np.round(sample.on_scale).astype(int)
    if decision["pass_mark"] is not None:
        right = sample.scores >= decision["pass_mark"]
        said = right.astype(int)
        auc = share_of_pairs(sample.scores, shares[:, 1], sample.groups)
        values |= {"auc": auc and auc.value, "pass rate": float(shares[:, 1].mean())}
        for name, side, mass in (("tpr", right, shares[:, 1]), ("tnr", ~right, shares[:, 0])):
            values[name] = float(np.average(side, weights=mass)) if mass.sum() else None
    else:
        values["agreement"] = float(shares[np.arange(len(said)), said].mean())
    values["kappa"] = float(kappa_of(matrices(shares, said, Clusters.of(sample.groups, 0)))[0])
    return values


# --- coverage ---------------------------------------------------------------------------------------------------------


def intervals_of(labelled: JudgeScores, decision: Row) -> Iterator[tuple[str, str, Estimate | None]]:
    """Figures, methods and intervals: those that judgebench prints, and plain ones, of texts without groups."""
    alone = Clusters.of(np.arange(len(labelled.scores)), labelled.resamples)
    texts = len(labelled.scores)
    if labelled.ordered:
        # 1. of scores
        for method, clusters in (("judgebench", labelled.clusters), ("plain", alone)):
            correlated = correlate("dataset", labelled.scores, labelled.human, clusters, labelled.systems)
            yield "spearman", method, Estimate.of(with_intervals(correlated.figures), "spearman")
            points = points_record(labelled.calibrated, labelled.ratings, clusters)
            yield "error", method, Estimate.of(points, "mae")
        pairs = Estimate.of(text_pair_record(labelled), "pairs")
        yield "pairs", "judgebench", pairs
        yield "pairs", "plain", pairs and Estimate(pairs.value, *wilson(pairs.value, texts, 1.96))
    if not decision:
        return
    # 2. of classes
    masses = {"agreement": texts}
    if decision["pass_mark"] is not None:
        masses = {"tpr": decision["labels_pass"], "tnr": decision["labels_fail"], "pass rate": texts}
        yield "pass rate", "judgebench", Estimate.of(decision["rates"][0], "rate")
        yield "pass rate", "judgebench, these texts", Estimate.of(decision["rates"][0], "rate_these")
        yield "auc", "judgebench", Estimate.of(decision, "auc")
        yield "auc", "plain", share_of_pairs(labelled.scores, shares_of(labelled)[:, 1], np.arange(texts))
    for name, mass in masses.items():
        share = decision["passed_people"] if name == "pass rate" else decision[name]
        if share is None or mass < 5:
            continue
        if name != "pass rate":
            yield name, "judgebench", Estimate.of(decision, name)
        if f"{name}_these_low" in decision:
            ends = (decision[f"{name}_these{end}"] for end in ("_low", "_high"))
            yield name, "judgebench, these texts", Estimate(share, *ends)
        yield name, "plain", Estimate(share, *wilson(share, mass, 1.96))
    yield "kappa", "judgebench", Estimate.of(decision, "kappa")
    said = np.round(labelled.on_scale).astype(int)
    if decision["pass_mark"] is not None:
        said = (labelled.scores >= decision["pass_mark"]).astype(int)
    by_text = kappa_of(matrices(shares_of(labelled), said, alone))
    yield "kappa", "plain", Estimate.of(with_agreement_interval("kappa", by_text), "kappa")


# --- verdicts ---------------------------------------------------------------------------------------------------------


class Short(NamedTuple):
    """What is below its promise on other groups: a sentence, and whether it is so at its interval's upper end, too."""

    reason: str
    surely: bool


def asked(labelled: JudgeScores, there: JudgeScores) -> float:
    """The share of cells in which a right 95 % interval from labelled texts holds the value of another half, which is
    a sample, too: of so many groups and texts, where `BETWEEN` of the variance lies between groups."""
    sides = [BETWEEN / len(set(side.groups)) + (1 - BETWEEN) / len(side.scores) for side in (labelled, there)]
    return float(2 * ndtr(1.96 / np.sqrt(1 + sides[1] / sides[0])) - 1)


def below(share: Estimate | None, need: float, what: str) -> list[Short]:
    """A share that is below what was promised; none where it is not."""
    if share is None or share.high is None or share.value >= need - ROUNDING:
        return []
    return [Short(f"{what} {share:.2f} there, promised {need:.2f}", share.high < need - ROUNDING)]


def replaces(found: Row, labelled: JudgeScores, there: JudgeScores) -> list[Short]:
    """Why a judge does not agree with single raters as much as they do with each other."""
    several = np.isfinite(there.ratings).sum(axis=1) > 1
    scores = there.on_scale
    if found["scores"] == CALIBRATED:
        scores = isotonic(labelled.scores, labelled.human)(there.scores)
    clusters, ratings = there.clusters.at(several), there.ratings[several]
    part = 0.8 if found["verdict"] == YES else MARGINS.half_way
    raters = kappa_of_raters(ratings, clusters)
    apart = kappa_with_raters(scores[several], ratings, clusters) - part * raters
    return below(Estimate.of(clusters.record({"apart": apart}), "apart"), 0.0, f"kappa less {part:g} of raters'")


def near_rater(found: Row, scores: np.ndarray, there: JudgeScores) -> list[Short]:
    """Why scores are farther off than a rater is, by more than the margin; empty where no rater is known."""
    assert there.scale is not None
    allowed = MARGINS.near_rater * (there.scale[1] - there.scale[0])
    if "system error" in found["clause"]:
        rater = system_records([there])[0]["rater_error_largest"]
        names = np.unique(there.systems)[:, None] == there.systems
        error = np.max([abs(there.clusters.mean(scores - there.human, where)) for where in names], axis=0)
    else:
        rater = rater_points_record(there.ratings, there.clusters)["single_mae"]
        given = np.isfinite(there.ratings)
        off = np.where(given, np.abs(scores[:, None] - there.ratings), 0.0).sum(axis=1)
        error = there.clusters.sums(off) / there.clusters.sums(1.0 * given.sum(axis=1))
    if rater is None:
        return []
    saved = Estimate.of(there.clusters.record({"saved": rater + allowed - error}), "saved")
    return below(saved, 0.0, f"less than a rater's error {rater:.2f} it is")


def short(use: str, found: Row, labelled: JudgeScores, there: JudgeScores, decision: Row) -> list[Short]:
    """Why a verdict of yes, or with care, does not hold on other groups; empty where it does."""
    yes = found["verdict"] == YES

    def bar(near: float) -> float:
        return near if yes else COIN + MARGINS.half_way * (max(near, COIN) - COIN)

    if use == "order_texts":
        record = text_pair_record(there)
        reasons = list[Short]()
        for share, rater in (("pairs", "rater"), ("within", "within_rater")):
            person = MARGINS.assumed_rater if record[rater] is None else record[rater]
            need = person - MARGINS.near_rater if yes else bar(person)
            if share == "within":
                need = COIN + MARGINS.half_way * (person - COIN) if yes else COIN
            reasons += below(Estimate.of(record, share), need, share)
        return reasons
    if use == "decide":
        assert there.classes is not None
        shares, raters = shares_of(there), rater_matrices(there.ratings, there.classes, there.clusters)[0]
        passes, reasons = there.scores >= decision["pass_mark"], list[Short]()
        for name, right, number in (("tpr", passes, 1), ("tnr", ~passes, 0)):
            of_side = clustered_share(1.0 * right, shares[:, number], there.groups)
            person = None if decision[f"{name}_rater"] is None else raters[number, number] / raters[number].sum()
            near = MARGINS.right if person is None else person - MARGINS.near_rater
            reasons += below(of_side, bar(near), name)
        return reasons
    if use == "compare_systems":
        record = system_records([there])[0]
        share, person = record["pairwise_others"], record["pairwise_ceiling"]
        if share is None:
            reasons = below(Estimate.of(record, "pairwise_accuracy"), bar(MARGINS.assumed_rater), "systems")
        elif yes:
            reasons = below(Estimate.of(record, "pairwise_difference"), -MARGINS.near_rater, "systems less a rater")
        else:
            reasons = below(Estimate.of(record, "pairwise_others"), bar(person), "systems")
        return reasons
    if use == "replace_rater":
        return replaces(found, labelled, there)
    # scores: of systems where the verdict is of these; a Brier score is of calibrated ones; with care holds by distance
    # from a median or by squares from a mean
    scores = there.on_scale
    if found["scores"] == CALIBRATED or "Brier" in found["clause"]:
        scores = isotonic(labelled.scores, labelled.human)(there.scores)
    clusters, off = there.clusters, scores - there.human
    middles = [np.median(labelled.human), *([] if yes else [labelled.human.mean()])]
    missed = []
    for power, middle in enumerate(middles, start=1):
        sides = off, middle - there.human
        errors = [clusters.mean(np.abs(side) ** power) for side in sides]
        if yes and "system error" in found["clause"]:
            names = np.unique(there.systems)[:, None] == there.systems
            errors = [np.max([abs(clusters.mean(side, where)) for where in names], axis=0) for side in sides]
        saved = Estimate.of(clusters.record({"saved": errors[1] - errors[0]}), "saved")
        missed.append(below(saved, 0.0, f"of a constant's error {errors[1][0]:.2f} it saves"))
    if not all(missed):
        return near_rater(found, scores, there) if yes else []
    surely = all(part.surely for (part,) in missed)
    return [Short("; ".join(part.reason for (part,) in missed), surely)]


# --- choice -----------------------------------------------------------------------------------------------------------


def freer(shares: np.ndarray, level: float = LEVEL) -> int:
    """The best of the settings whose gain over the first is more than chance by the largest of all, at a level."""
    apart = shares - shares[:, [0]]
    scale = np.sqrt((apart**2).mean(axis=0))
    units = np.where(scale > ROUNDING, scale, np.inf)
    largest = flipped_means((apart / units).T, flips(len(shares), FLIPS)[0]).max(axis=0)
    gain = apart.mean(axis=0)
    rare = (largest >= (gain / units)[:, None] - ROUNDING).mean(axis=1) <= level
    return int(np.where(rare, gain, 0.0).argmax())


def choices(task: Task, draws: int) -> Iterator[Row]:
    """Regret of rules among the judges of a task, each in turn the plain one, and what the rule promises too much."""
    scores = np.stack(list(task.judges.values()), axis=1)
    known = np.isfinite(scores).all(axis=1) & np.isfinite(task.mean)
    scores, human, groups = scores[known], task.mean[known], task.groups[known]
    count = scores.shape[1]
    if count < 2 or len(set(groups)) < 4:
        return
    values = len(np.unique(task.human[np.isfinite(task.human)]))
    metric = CrossFit().metric_of(values, task.labels != "nominal")
    for draw in range(draws):
        half = task.half(groups, draw)
        outcome = worth_of(metric, scores[~half], human[~half], groups[~half]).mean(axis=0)
        for plain in range(count):
            order = np.roll(np.arange(count), -plain)
            among = Candidates(scores[half][:, order], {}, human[half], groups[half], metric, [0, *[1] * (count - 1)])
            shares = worth_of(metric, among.scores, among.human, among.groups)
            taken = among.choose(np.ones(half.sum(), dtype=bool), among.scores).taken
            rules = {"judgebench": taken, "always plain": 0, "maximum": int(shares.mean(axis=0).argmax())}
            rules[f"max-T at {LEVEL:g}, then best"] = freer(shares)
            gains = shares[:, rules["maximum"]] - shares[:, 0]
            clear = gains.mean() > gains.std() / np.sqrt(len(gains))
            rules["one standard error"] = rules["maximum"] if clear else 0
            row: Row = {"set": task.name, "metric": metric, "differ": float(np.ptp(outcome)), "over": None}
            row |= {rule: float(outcome.max() - outcome[order][setting]) for rule, setting in rules.items()}
            if plain == draw % count:
                row["over"] = among.promise(5, 1, 0, draw)[metric] - outcome[order][taken]
            yield row


# --- cells ------------------------------------------------------------------------------------------------------------


def drift(here: JudgeScores, there: JudgeScores, draw: int) -> Iterator[tuple[str, dict[str, bool]]]:
    """Figure -> whether a change for the worse is claimed of another half: as it is, and with some labels shuffled."""

    def figures(sample: JudgeScores, estimates: np.ndarray, human: np.ndarray) -> Row:
        correlated = correlate("dataset", sample.scores, human, sample.clusters, sample.systems)
        off = estimates - human
        errors = {"error": sample.clusters.mean(np.abs(off)), "bias": sample.clusters.mean(off)}
        return with_intervals(correlated.figures) | sample.clusters.record(errors)

    card = figures(here, here.calibrated, here.human)
    estimates = isotonic(here.scores, here.human)(there.scores)
    rng = np.random.default_rng(draw)
    some = rng.permutation(len(there.human))[: round(SHUFFLED * len(there.human))]
    shuffled = there.human.copy()
    shuffled[some] = there.human[rng.permutation(some)]
    for kind, human in (("invented", there.human), ("found", shuffled)):
        changes = changes_of(card, figures(there, estimates, human))
        yield kind, dict.fromkeys(CHANGES, False) | {change.name: change.worse for change in changes}


def given_verdicts(task: Task, judge: str, draw: int, half: np.ndarray, there: JudgeScores) -> Iterator[Row]:
    """The verdicts on each use by `SIZES` labelled texts of a half, and why they do not hold on the other."""
    texts = np.random.default_rng(draw).permutation(np.flatnonzero(half))
    # a rater who agrees with nobody on all texts of the set is no truth
    if odd := odd_raters(task.human).odd if there.raters else []:
        there = there.without(odd)
    for size in SIZES if there.ordered else ():
        if size < ALL and size >= len(texts):
            continue
        drawn = np.isin(np.arange(len(half)), texts[:size])
        labelled, decision = sample_of(task, judge, drawn), decision_of(sample_of(task, judge, half, drawn))
        for use, record in verdicts(labelled, decisions=[decision] if decision else []).items():
            if use not in USES:
                continue
            parts = []
            if record["verdict"] in (YES, CARE):
                parts = short(use, record, labelled, there, decision)
            broken = "; ".join(part.reason for part in parts if part.surely)
            row: Row = {"labels": size, "use": use, "verdict": record["verdict"], "clause": record["clause"]}
            # whether a yes would hold, whatever was said
            row["holds"] = None
            if use == "order_texts" and there.raters:
                row["holds"] = not short(use, record | {"verdict": YES}, labelled, there, decision)
            yield row | {"broken": broken, "short": "; ".join(part.reason for part in parts)}


def cell(task: Task, judge: str, draw: int, found: dict[str, list[Row]], verdicts_alone: bool = False) -> None:
    """Verdicts, intervals and drift of one judge on one dealing of the groups."""
    known = np.isfinite(task.judges[judge]) & np.isfinite(task.mean)
    half = known & task.half(task.groups, draw)
    here, there = sample_of(task, judge, half), sample_of(task, judge, known & ~half)
    head: Row = {"set": task.name, "judge": judge, "draw": draw}
    rng = np.random.default_rng(draw)
    if min(len(set(here.groups)), len(set(there.groups))) < 2:
        return
    found["verdicts"] += [head | row for row in given_verdicts(task, judge, draw, half, there)]
    if verdicts_alone:
        return
    for labels in LABELS:
        # 1. the labelled texts, and the half with the others without a label
        drawn = np.isin(np.arange(len(task.groups)), rng.permutation(np.flatnonzero(half))[:labels])
        labelled, decision = sample_of(task, judge, drawn), decision_of(sample_of(task, judge, half, drawn))
        values = [truth(side, labelled, decision) for side in (here, there)]
        for figure, method, interval in intervals_of(labelled, decision) if labels < half.sum() else ():
            of_halves = [side[figure] for side in values]
            if interval is None or interval.low is None or interval.high is None or None in of_halves:
                continue
            low, high = interval.low - ROUNDING, interval.high + ROUNDING
            held = [bool(low <= value <= high) for value in of_halves if value is not None]
            row = {"figure": figure, "labels": labels, "method": method, "these": held[0], "others": held[1]}
            row["asked"] = asked(labelled, there)
            found["coverage"].append(head | row | {"width": high - low})
    if not here.ordered:
        return
    # 2. drift since a card of all labels of one half
    for kind, changes in drift(here, there, draw):
        found["drift"].append(head | {"kind": kind, "any": any(changes.values())} | changes)
