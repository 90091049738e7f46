"""A judge as the reward of training: its order within a prompt, its mistakes, and what fools it.

Training by groups (GRPO) compares the completions of one prompt alone. So the order within prompts
counts, and a prompt whose completions all have one score teaches nothing. Where the reward is pass
or fail, it is a channel with two rates of noise (arXiv 2510.00915): of the texts that people fail
the share that passes (false_pass), and of those that they pass the share that fails (false_fail).
Of the difference between good and bad texts, 1 - false_pass - false_fail is left (signal). Training
looks for what passes, so the rates under attack matter more than those of texts that nobody bent.

    order        share of pairs of texts of one prompt ordered as people order them; a tie counts
                 half, a coin .5
    equal        share of prompts whose texts all have one score
    precision    of the texts that pass, the share that people pass
    attacked     a record an attack and defense, with the false passes of attacked texts

Groups of the data are the prompts, and the clusters of all intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judgebench.stats.classes import label_shares
from judgebench.stats.clusters import Estimate, keys_of, unknown
from judgebench.stats.shares import clustered_share
from judgebench.studies.attacked import NO_MARK, false_passes, passes_of
from judgebench.studies.scores import CLEAN, JudgeScores, Scores, ScoreSeries
from judgebench.studies.text_pairs import pair_shares
from judgebench.types import Array, Record, Rows

OF_PROMPTS = ("order", "equal")
OF_PASSES = ("false_pass", "false_fail", "precision")
"""Figures of a record, each with its interval, see above; `signal` has none."""


def reward_records(samples: Sequence[JudgeScores], scores: Scores, decisions: Rows) -> Rows:
    """The records of worth/rewards.json, one a judge, decoding and range.

    Args:
        scores: of all cells, among them those of attacked texts.
        decisions: see `judgebench.studies.decisions.decision_records`; the last mark of a cell counts,
            which is the chosen one.
    """
    return [_record(sample, scores, decisions) for sample in samples]


def _record(sample: JudgeScores, scores: Scores, decisions: Rows) -> Record:
    # 1. prompts with two rated texts
    rated = np.isfinite(sample.human)
    clusters = sample.clusters.at(rated)
    judge = sample.scores[rated]
    sizes = np.bincount(clusters.number, minlength=clusters.count)
    # a prompt with one completion has no order
    several = np.flatnonzero(sizes >= 2)
    record: Record = {
        **sample.head,
        "texts": int(rated.sum()),
        "groups": len(several),
        **unknown((*OF_PROMPTS, *OF_PASSES)),
        "signal": None,
        "pass_mark": None,
        "attacked": [],
        "reason": None,
    }
    if len(several):
        order = pair_shares(judge, sample.human[rated], clusters.number, clusters.weights)
        record |= clusters.record({"order": order})
        # distinct pairs of prompt and score: a prompt with one of them has equal scores
        levels = np.unique(np.stack([clusters.number, judge], axis=1), axis=0)
        equal = 1.0 * (np.bincount(levels[:, 0].astype(int)) == 1)[several]
        # a prompt is the unit: each counts once, and is a group of its own
        record |= keys_of("equal", clustered_share(equal, np.ones(len(several)), several))
    # 2. the two rates of noise
    of_cell = [row for row in decisions if ScoreSeries.of(row) == sample.cell]
    # as the reward would pass: by the chosen mark, where there is one
    mark = of_cell[-1].get("pass_mark") if of_cell else None
    if mark is None or sample.classes is None:
        record["reason"] = NO_MARK
        return record
    passed = label_shares(sample.ratings, sample.classes)[:, 1]
    record["pass_mark"] = mark
    record |= _passes_record(of_cell[-1], sample, passed, sample.scores >= mark)
    # 3. false passes under attack
    clean = 1 - passed, passes_of(scores, sample.cell, sample, mark)
    record["attacked"] = []
    for cell in scores.cells:
        if cell.attack != CLEAN and cell.clean == sample.cell:
            attacked = clean[0], passes_of(scores, cell, sample, mark)
            named = {"attack": cell.attack, "defense": cell.defense}
            record["attacked"].append(named | false_passes(sample, clean, attacked))
    return record


def _passes_record(decision: Record, sample: JudgeScores, passed: Array, said: Array) -> Record:
    """`OF_PASSES` and signal; passed: [N] shares of labels, said: [N] True for a text that
    passes."""
    record: Record = {}
    for name, right in (("false_pass", "tnr"), ("false_fail", "tpr")):
        share = Estimate.of(decision, right)
        record |= keys_of(name, share and share.rest)
    labelled = np.isfinite(passed)
    columns = passed[labelled], 1.0 * said[labelled], sample.groups[labelled]
    record |= keys_of("precision", clustered_share(*columns))
    if record["false_pass"] is not None and record["false_fail"] is not None:
        record["signal"] = 1 - record["false_pass"] - record["false_fail"]
    return record
