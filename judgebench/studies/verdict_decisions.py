"""Verdicts on a judge that says pass or fail."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.rules import (
    CARE,
    COIN,
    FEW,
    HARDLY,
    NO,
    UNMEASURED,
    YES,
    Verdict,
    articles_needed,
    half_of_way,
)
from judgebench.types import Row
from judgebench.words.formats import say

_LABELS = {"tpr": "pass", "tnr": "fail"}


def decides(row: Row, margins: Margins) -> Verdict:
    """The verdict on a judge that says pass or fail, by the share of the texts that people pass,
    and of those that they fail, which it decides alike: the one that is farther below its bar.

    Args:
        row: a record of worth/decisions.json.
    """
    shares = {name: Estimate.of(row, name) for name in _LABELS}
    clause = partial(say, "clause_decide", row=row, shares=shares, needed=None)
    # such a judge is right on all texts of one class, and its shares would mislead
    if row["passed"] in (0, 1):
        return Verdict(NO, clause(part="always"), shares["tpr"])
    known: dict[str, Estimate] = {}
    for name, share in shares.items():
        if share is None:
            none = clause(part="no label", label=_LABELS[name], fewest=margins.fewest)
            return Verdict(FEW, none, needed=margins.fewest)
        known[name] = share
    # 1. raters who agree by chance alone, or who tell pass from fail hardly better than a coin
    raters = {name: row[f"{name}_rater"] for name in known}
    if None not in raters.values():
        least = row.get("kappa_rater_low")
        apart = np.mean([*raters.values()]) - COIN
        if apart < HARDLY or (least is not None and least <= 0):
            return Verdict(UNMEASURED, clause(part="hardly agree"), known["tpr"])
    # 2. each share by its bar
    verdicts = {}
    for name, share in known.items():
        rater = raters[name]
        near = margins.right if rater is None else rater - margins.near_rater
        half = half_of_way(margins, near)
        low, high = ends_of(share)
        if low >= near:
            verdict = YES
        elif low <= COIN and (share.value >= half or high >= near):
            verdict = FEW
        else:
            verdict = CARE if share.value >= half else NO
        verdicts[name] = verdict
    # 3. the worse of both, of a judge whose mean of both is above a coin's
    worse = min(verdicts, key=lambda name: (NO, FEW, CARE, YES).index(verdicts[name]))
    verdict = verdicts[worse]
    share = known[worse]
    # errors of two classes are of different texts, hence independent: squares add up
    far = math.hypot(*(one.value - ends_of(one)[0] for one in known.values()))
    if verdict in (YES, CARE) and (sum(one.value for one in known.values()) - far) / 2 <= COIN:
        verdict = FEW
    if verdict != FEW:
        return Verdict(verdict, clause(part="right"), share)
    # so many texts of that class, in parts where raters differ, narrow its interval to the way from a coin to the share
    labels = round(row["labels_pass" if worse == "tpr" else "labels_fail"])
    needed = articles_needed(labels, share.value - ends_of(share)[0], share.value - COIN)
    few = clause(part="right", needed=needed, label=_LABELS[worse])
    return Verdict(FEW, few, share, needed=needed)
