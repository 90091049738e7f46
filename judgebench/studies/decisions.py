"""Judges that decide: pass, fail, or ask a human.

Laws and their sources: labels of several raters in `judgebench.stats.classes`, shares with intervals
in `judgebench.stats.shares`, the pass mark and the texts that people see in
`judgebench.stats.thresholds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from judgebench.settings.costs import RATER, Asking, Costs
from judgebench.stats.classes import (
    agreement_of,
    kappa_of,
    label_shares,
    matrices,
    rater_matrices,
    share_of_pairs,
)
from judgebench.stats.clusters import (
    Clusters,
    Estimate,
    ends_of,
    keys_of,
    unknown,
    with_agreement_interval,
)
from judgebench.stats.folds import cross_fitted
from judgebench.stats.prediction_powered import FewLabels
from judgebench.stats.shares import clustered_share
from judgebench.stats.thresholds import (
    Band,
    ask_curve,
    band_of,
    decided,
    decision_chances,
    shares_decided,
    surest,
)
from judgebench.studies.prediction_powered import predicted_means
from judgebench.studies.scores import JudgeScores
from judgebench.types import Array, Classes, Record, Rows

SAID = "as said"
CHOSEN = "chosen mark"
"""The two marks of a record: the judge's own, and the one that mistakes cost least with."""

PASS_FAIL = ("fail", "pass")
"""Names of the classes of graded labels with a pass mark."""


# --- the pass mark ------------------------------------------------------------------------------


def own_mark(sample: JudgeScores, pass_from: float) -> float:
    """The lowest score that passes as the judge says it, in its range: between two labels the
    nearer one counts."""
    low, high = sample.scale or (sample.cell.range_min, sample.cell.range_max)
    # between two labels the nearer one counts: the border lies half a step below the one that
    # passes
    step = 0.0 if sample.categories is None else 1.0
    share = (pass_from - step / 2 - low) / (high - low)
    width = sample.cell.range_max - sample.cell.range_min
    return float(sample.cell.range_min + share * width)


# --- ask a human --------------------------------------------------------------------------------


def aim_record(ratings: Array, classes: Classes, groups: Array, asking: Asking) -> Record:
    """Aim of a band, and how far any judge can come: functions of the labels alone.

    Args:
        ratings: [N, R] see `label_shares`; groups: [N].

    Returns:
        ask_aim: the largest share of mistakes, None where a rater's is asked for and is unknown, or
            is none, or is a coin's; rater_error: of another rater's labels those that one misses,
            majority_error: of all labels those that the raters' majority misses, both None where no
            text has two; ask_least: the share of texts that people see at least, were the judge that
            majority: 1 where no band is possible; ask_lowest: the lowest aim with which one is, None
            with a single group.
    """
    passed = label_shares(ratings, classes)[:, 1]
    known = np.isfinite(passed)
    passed = passed[known]
    labels = np.isfinite(ratings).sum(axis=1)
    several = ratings.shape[1] > 1 and labels.max(initial=0) > 1
    matrix = rater_matrices(ratings, classes, Clusters.of(groups, 0))[0]
    rater = None
    if several:
        rater = 1 - float(agreement_of(matrix))
    # labels that the majority of the same raters misses: no judge can miss fewer
    missed = np.minimum(passed, 1 - passed)
    aim: Any = asking.error
    # a rater who misses half is a coin, and no aim
    if aim == RATER:
        aim = rater if rater is not None and 0 < rater < 0.5 else None
    # the majority is sure of a text as its labels are of one class
    columns = 1 - missed, missed, groups[known]
    best = None if aim is None else surest(*columns, float(aim))
    shown = [high for _, high in shares_decided(*columns)]
    return {
        "ask_aim": aim,
        "rater_error": rater,
        "majority_error": float(missed.mean()) if several else None,
        "ask_least": best.asked if best else 1.0,
        "ask_lowest": min(shown, default=None),
    }


# --- the study ----------------------------------------------------------------------------------


def decision_records(samples: Sequence[JudgeScores], costs: Costs, asking: Asking) -> Rows:
    """The records of worth/decisions.json, of labels that are classes: one a judge, decoding and
    range as the judge says it (`SAID`), and where texts pass a second with the chosen mark.

    Returns:
        mark, pass_mark (in the judge's range; None where nothing passes), cost (of mistakes, a
        text, by the mark of other groups where it is chosen), texts, groups (with labels), classes;

        - matrix: texts of each class by people (rows) and by the judge (columns);
        - agreement, kappa, and of one rater and of the commoner class agreement_rater, kappa_rater,
          agreement_constant; recalls: of each class the share that the judge finds, with intervals;
        - where texts pass: tpr and tnr with the ends for other groups, and in `_these` for these
          very texts; tpr_rater, tnr_rater: of one rater, by another; labels_pass, labels_fail: how
          many of each; balanced: mean of tpr and tnr; rarer: the class that fewer people name, with
          its precision and f1; passed, passed_people: shares;
        - auc; brier: of p(pass) by other groups, brier_word: of p(pass) by the decision alone,
          brier_constant: of always saying the share that passes; brier_saved: brier_word less
          brier, with interval;
        - rates: see `pass_rates`;
        - with the chosen mark fail_to, pass_from, asked, ask_error: see `Band`; ask_aim,
          rater_error, majority_error, ask_least, ask_lowest: see `aim_record`; and curve: see `ask_curve`.
    """
    records = []
    for sample in samples:
        classes = sample.classes
        if classes is None or sample.scale is None:
            continue
        shares = label_shares(sample.ratings, classes)
        if not np.isfinite(shares).any():
            continue
        if classes.pass_from is None:
            nearest = np.round(sample.on_scale).astype(int)
            said = np.clip(nearest, 0, shares.shape[1] - 1)
            records.append(_record(sample, classes, shares, said) | {"mark": SAID})
            continue
        records += _with_marks(sample, classes, shares[:, 1], costs, asking)
    return records


def _with_marks(
    sample: JudgeScores, classes: Classes, passed: Array, costs: Costs, asking: Asking
) -> Rows:
    """The records of both marks; passed: [N] shares of labels, NaN where there is none."""
    scores = sample.scores
    groups = sample.groups
    labelled = np.isfinite(passed)
    shares = np.stack([1 - passed, passed], axis=1)
    own = own_mark(sample, float(classes.pass_from or 0.0))
    if costs.threshold is None:
        by_others, mark = decided(scores, passed, groups, own, costs, sample.seed)
    else:
        mark = sample.cell.range.threshold(costs.threshold)
        by_others = scores >= mark
    chances = cross_fitted(scores, passed, groups, seed=sample.seed)
    records = []
    for kind, at, promised in ((SAID, own, scores >= own), (CHOSEN, mark, by_others)):
        said = scores >= at
        false_pass = costs.false_pass * (1 - passed)
        false_fail = costs.false_fail * passed
        cost = np.where(promised, false_pass, false_fail)[labelled]
        # p(pass) by the score, and by the bare word
        by_word = cross_fitted(1.0 * said, passed, groups, seed=sample.seed)
        known = labelled & np.isfinite(chances)
        h = passed[known]
        off, off_word = (
            h * (1 - p[known]) ** 2 + (1 - h) * p[known] ** 2 for p in (chances, by_word)
        )
        clusters = sample.clusters.at(known)
        saved = clusters.record({"brier_saved": clusters.mean(off_word - off)})
        base = float(passed[labelled].mean())
        auc = share_of_pairs(scores[labelled], passed[labelled], groups[labelled])
        records.append(
            {
                **_record(sample, classes, shares, said.astype(int)),
                "mark": kind,
                "pass_mark": at,
                "cost": float(cost.mean()),
                **_shares_record(sample, classes, passed, said),
                **(saved if known.any() else unknown(["brier_saved"])),
                "brier": float(off.mean()) if known.any() else None,
                "brier_word": float(off_word.mean()) if known.any() else None,
                "brier_constant": base * (1 - base),
                **keys_of("auc", auc),
                "rates": pass_rates(sample, passed, said, chances),
            }
        )
    # the band is of the chosen mark's record
    record = records[-1]
    record |= aim_record(sample.ratings, classes, groups, asking)
    band = Band()
    record["curve"] = []
    if known.any():
        columns = chances[known], passed[known]
        band = band_of(scores[known], mark, *columns, groups[known], record["ask_aim"])
        curve = ask_curve(*decision_chances(scores[known] >= mark, *columns))
        record["curve"] = [list(point[1:]) for point in curve]
    record |= {
        "fail_to": band.fail_to,
        "pass_from": band.pass_from,
        "asked": band.asked,
        **keys_of("ask_error", band.error),
    }
    return records


def _record(sample: JudgeScores, classes: Classes, shares: Array, said: Array) -> Record:
    """The figures of any classes; said: [N] the judge's class."""
    labelled = np.isfinite(shares).all(axis=1)
    clusters = sample.clusters.at(labelled)
    shares = shares[labelled]
    said = said[labelled]
    names = list(classes.names)
    if classes.pass_from is not None and len(names) != 2:
        names = list(PASS_FAIL)
    jackknifed = matrices(shares, said, clusters)
    matrix = jackknifed[0]
    right = shares[np.arange(len(said)), said]
    people = shares.mean(axis=0)
    agreement = clustered_share(right, np.ones(len(said)), clusters.number)
    record = {
        **sample.head,
        "texts": len(said),
        "groups": clusters.count,
        "classes": names,
        "matrix": matrix.tolist(),
        "agreement_constant": float(people.max()),
        "pass_mark": None,
        **keys_of("agreement", agreement),
        **with_agreement_interval("kappa", kappa_of(jackknifed)),
    }
    raters = rater_matrices(sample.ratings, classes, sample.clusters)
    several = len(sample.raters) > 1 and bool(raters[0].any())
    record["agreement_rater"] = float(agreement_of(raters[0])) if several else None
    kappas = kappa_of(raters) if several else np.array([np.nan])
    record |= with_agreement_interval("kappa_rater", kappas)
    recalls = []
    for number, name in enumerate(names):
        recall = clustered_share(1.0 * (said == number), shares[:, number], clusters.number)
        called = matrix[:, number].sum()
        recalls.append(
            {
                "class": name,
                **keys_of("recall", recall),
                "precision": float(matrix[number, number] / called) if called else None,
            }
        )
    record["recalls"] = recalls
    return record


def _shares_record(sample: JudgeScores, classes: Classes, passed: Array, said: Array) -> Record:
    """TPR, TNR and what follows from them; said: [N] True for a text that the judge passes."""
    labelled = np.isfinite(passed)
    groups = sample.groups
    of_texts = float(labelled.mean())
    of_groups = len(np.unique(groups[labelled])) / len(np.unique(groups))
    record: Record = {}
    raters = rater_matrices(sample.ratings, classes, sample.clusters)[0]
    shares = {}
    for name, right, mass, number in (
        ("tpr", said, passed, 1),
        ("tnr", ~said, 1 - passed, 0),
    ):
        columns = 1.0 * right[labelled], mass[labelled], groups[labelled]
        shares[name] = clustered_share(*columns)
        record |= keys_of(name, shares[name])
        these = clustered_share(*columns, labelled=(of_texts, of_groups))
        record |= {
            f"{name}_these_low": these and these.low,
            f"{name}_these_high": these and these.high,
        }
        rated = raters[number].sum()
        several = len(sample.raters) > 1 and rated > 0
        record[f"{name}_rater"] = float(raters[number, number] / rated) if several else None
    both = [share.value for share in shares.values() if share is not None]
    record["balanced"] = sum(both) / 2 if len(both) == 2 else None
    # the class that fewer people name
    people = passed[labelled].mean()
    rarer = int(people < 0.5)
    of_class = passed if rarer else 1 - passed
    # precision and F1 of the class that is looked for: of the common one both are high for any
    # judge
    called = said if rarer else ~said
    precision = clustered_share(of_class[labelled], 1.0 * called[labelled], groups[labelled])
    recall = shares["tpr" if rarer else "tnr"]
    f1 = None
    if precision is not None and recall is not None:
        above = 2 * precision.value * recall.value
        f1 = above / (precision.value + recall.value) if above else 0.0
    names = classes.names if len(classes.names) == 2 else PASS_FAIL
    record |= {
        "rarer": names[rarer],
        "f1": f1,
        "passed": float(said.mean()),
        "passed_people": float(people),
        "labels_pass": float(passed[labelled].sum()),
        "labels_fail": float((1 - passed[labelled]).sum()),
    }
    return record | keys_of("precision", precision)


def pass_rates(sample: JudgeScores, passed: Array, said: Array, chances: Array) -> Rows:
    """The share of texts that people pass, of all texts and of each system, from labels and judge:
    `rate` for texts like these, `rate_these` for these very ones, each with its interval.

    By labels alone, by prediction-powered inference with the judge's scores (`judgebench.stats.
    few_labels`, whose intervals hold at rates near 0 and 1), or with p(pass) in their place, the
    efficient estimator (Chen et al., arXiv 2601.05420): the narrowest. On simulated rates of .5 to
    .99 each holds the truth in 94 to 100 %. judge: the share that the judge passes; rogan_gladen:
    the judge's share corrected by TPR and TNR (Rogan and Gladen, 1978), as others do.
    """
    labelled = np.isfinite(passed)
    wholes = {"": np.zeros(len(passed)), "system": sample.systems}
    if len(np.unique(sample.systems)) < 2:
        wholes.pop("system")
    right = 1.0 * said
    tpr = np.average(right[labelled], weights=passed[labelled] + 1e-300)
    tnr = np.average(1 - right[labelled], weights=1 - passed[labelled] + 1e-300)
    rows = []
    for kind, systems in wholes.items():
        methods = {"judge's scores": sample.on_scale}
        if np.isfinite(chances).all():
            methods["p(pass)"] = chances
        means = {
            method: predicted_means(FewLabels(passed, values, sample.groups, systems, (0, 1)))
            for method, values in methods.items()
        }
        for place, name in enumerate(np.unique(systems)):
            first = means["judge's scores"][place]
            row = {
                "system": str(name) if kind else "",
                "method": "labels alone",
                **{key: first[key] for key in ("texts", "labelled_texts", "reason")},
            }
            for end in ("", "_these"):
                found = [
                    (method, Estimate.of(of_systems[place], f"predicted{end}"))
                    for method, of_systems in means.items()
                ]
                method, rate = min(found, key=lambda one: _width(one[1]))
                row |= keys_of(f"rate{end}", rate)
                if not end and first["lambda"]:
                    row["method"] = method
            here = systems == name
            judged = float(right[here].mean())
            row["judge"] = judged
            slope = tpr + tnr - 1
            # judged = rate * TPR + (1 - rate) * (1 - TNR), solved for the rate
            corrected = (judged + tnr - 1) / slope if slope > 0 else None
            row["rogan_gladen"] = None if corrected is None else min(max(corrected, 0.0), 1.0)
            rows.append(row)
    return rows


def _width(estimate: Estimate | None) -> float:
    low, high = ends_of(estimate)
    return high - low
