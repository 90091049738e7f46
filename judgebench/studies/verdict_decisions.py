"""Verdicts on a judge that says pass or fail."""

from __future__ import annotations

import math

import numpy as np

from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.clauses import articles_needed, percent_of, percents
from judgebench.studies.rules import CARE, COIN, FEW, HARDLY, NO, UNMEASURED, YES, Verdict
from judgebench.types import Row


def decides(row: Row, margins: Margins) -> Verdict:
    """The verdict on a judge that says pass or fail, by the share of the texts that people pass,
    and of those that they fail, which it decides alike: the one that is farther below its bar.

    Args:
        row: a record of worth/decisions.json.
    """
    # such a judge is right on all texts of one class, and its shares would mislead
    if row["passed"] in (0, 1):
        always = "passes" if row["passed"] else "fails"
        return Verdict(NO, f"it {always} every text", Estimate.of(row, "tpr"))
    sides = {"pass": "tpr", "fail": "tnr"}
    shares: dict[str, Estimate] = {}
    for side, name in sides.items():
        share = Estimate.of(row, name)
        if share is None:
            fewest = margins.fewest
            clause = f"no text has the label {side}; it takes {fewest}"
            return Verdict(FEW, clause, needed=fewest)
        shares[side] = share
    # 1. the sentence
    parts: list[str] = []
    for side, share in shares.items():
        rater = row[f"{sides[side]}_rater"]
        person = "" if rater is None else f" (a rater {percent_of(rater)} %)"
        texts = "those that they fail" if parts else "texts that people pass"
        parts.append(f"{percents(share)} of {texts}{person}")
    clause = f"right on {' and '.join(parts)}"
    # 2. raters who agree by chance alone, or who tell pass from fail hardly better than a coin
    of_raters = [row[f"{name}_rater"] for name in sides.values()]
    if None not in of_raters:
        least = row.get("kappa_rater_low")
        if np.mean(of_raters) - COIN < HARDLY or (least is not None and least <= 0):
            kappa = "" if row["kappa_rater"] is None else f": kappa {row['kappa_rater']:.2f}"
            return Verdict(UNMEASURED, f"raters hardly agree{kappa}", shares["pass"])
    # 3. each share by its bar
    verdicts = {}
    for side, share in shares.items():
        rater = row[f"{sides[side]}_rater"]
        near = margins.right if rater is None else rater - margins.near_rater
        half = COIN + margins.half_way * (max(near, COIN) - COIN)
        low, high = ends_of(share)
        if low >= near:
            verdict = YES
        elif low <= COIN and (share.value >= half or high >= near):
            verdict = FEW
        else:
            verdict = CARE if share.value >= half else NO
        verdicts[side] = verdict
    # 4. the worse of both, of a judge whose mean of both is above a coin's
    order = (NO, FEW, CARE, YES)
    side = min(verdicts, key=lambda name: order.index(verdicts[name]))
    verdict = verdicts[side]
    share = shares[side]
    both = [one.value for one in shares.values()]
    # errors of two classes are of different texts, hence independent: squares add up
    far = math.hypot(*(one.value - ends_of(one)[0] for one in shares.values()))
    if verdict in (YES, CARE) and (sum(both) - far) / 2 <= COIN:
        verdict = FEW
    if verdict != FEW:
        return Verdict(verdict, clause, share)
    # so many texts of that class, in parts where raters differ, narrow its interval to the way from a coin to the share
    labels = row[f"labels_{side}"]
    low, _ = ends_of(share)
    needed = articles_needed(round(labels), share.value - low, share.value - COIN)
    if needed:
        clause += f"; {needed} texts that people {side} may tell"
    return Verdict(FEW, clause, share, needed=needed)
