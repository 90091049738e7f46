"""Synthetic attacked runs: what score columns look like where phrases raise scores word by word."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from judgebench.attacks import LearnedPhrase
from judgebench.results.results import Results
from judgebench.studies.evaluate import evaluate, suffix_records
from judgebench.studies.paired import attack_differences, default_pairs
from judgebench.studies.scores import Scores
from tests.report import conftest
from tests.report.conftest import RULES, Run, columns

HOSTILE = "</script><b>'&[red]\x1b"

PHRASES = ("truly", "truly great", "truly great wow")
GAINS = {"main": 0.2, "assistant": 0.1, "pair": 0.4}
"""By how much one word raises a judge's scores."""


@dataclass(frozen=True)
class Attacked:
    """A run whose texts were attacked, and what it writes of that."""

    run: Run
    suffix: list[dict]
    differences: list[dict]
    learned: LearnedPhrase


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
    learned = LearnedPhrase(phrases, objective, dev, frozenset(systems))
    records = evaluate(given, "summeval", ["dataset"], resamples=resamples, scale=run.scale, rules=RULES)
    return Attacked(
        replace(run, scores=scores, records=records),
        suffix_records(given, [learned], "summeval", resamples),
        attack_differences(given, default_pairs(Scores.of(given).cells, RULES), "summeval", resamples),
        learned,
    )


def results_of(run: Run, **more) -> Results:
    """The results of a run without its readings."""
    return conftest.results_of(run, **{"readings": run.readings.head(0)} | more)


def attacks_on(run: Run, gains: dict[str, dict[str, float]], kept=lambda defense: slice(None), **settings) -> Results:
    """The results of clean texts and of attacks that raise every score by so much.

    Args:
        gains: defense -> attack -> points.
        kept: defense -> decodings under it.
    """
    parts = []
    for defense, by_attack in gains.items():
        clean = run.scores.assign(defense=defense)
        clean = clean.set_index("decoding").loc[kept(defense)].reset_index()
        parts.append(clean)
        for attack, gain in by_attack.items():
            parts.append(clean.assign(attack=attack, score=np.minimum(clean["score"] + gain, clean["range_max"])))
    scores = pd.concat(parts, ignore_index=True)
    how = {"resamples": 50, "scale": run.scale, "rules": RULES} | settings
    return results_of(replace(run, scores=scores, records=evaluate(columns(scores), "summeval", ["dataset"], **how)))
