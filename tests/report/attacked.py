"""Synthetic attacked runs: what score columns look like where phrases raise scores word by word."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from judgebench.metrics.evaluation import evaluate
from judgebench.metrics.paired import attack_differences, default_pairs
from judgebench.metrics.suffix import Suffix, suffix_records
from tests.report.conftest import RULES, Run, columns

PHRASES = ("truly", "truly great", "truly great wow")
GAINS = {"main": 0.2, "assistant": 0.1, "pair": 0.4}
"""By how much one word raises a judge's scores."""


@dataclass(frozen=True)
class Attacked:
    """A run whose texts were attacked, and what it writes of that."""

    run: Run
    suffix: list[dict]
    differences: list[dict]
    learned: Suffix


def attacked_run(run: Run, phrases=PHRASES, resamples=60, systems=("system-0", "system-1"), objective="") -> Attacked:
    """Clean texts, and phrases learned on the dev articles and some systems."""
    parts = [run.scores]
    for length in range(1, len(phrases) + 1):
        gain = length * run.scores["judge"].map(GAINS)
        score = np.minimum(run.scores["score"] + gain, run.scores["range_max"])
        parts.append(run.scores.assign(attack=f"adv_suffix_{length}", score=score))
    scores = pd.concat(parts, ignore_index=True)
    given = columns(scores)
    dev = frozenset(scores.loc[scores["split"] == "dev", "group_id"])
    learned = Suffix("adv_suffix", phrases, dev, frozenset(systems), objective)
    records = evaluate(given, "summeval", ["dataset"], resamples=resamples, scale=run.scale, rules=RULES)
    return Attacked(
        replace(run, scores=scores, records=records),
        suffix_records(given, [learned], "summeval", resamples),
        attack_differences(given, default_pairs(given, RULES), "summeval", resamples),
        learned,
    )
