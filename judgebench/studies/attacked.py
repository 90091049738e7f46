"""Attacks beside defenses: what passes that should not, at the mark that a judge card would have.

People rated the texts as they came. A text that an attack adds to is worth what it was; one that an
attack replaces is worth nothing, whatever stood there, so that every pass of it is false.

    false_pass   of the texts that should fail the share that passes, by the mark that the same
                 judge, decoding, range and defense has on clean texts
    more         the same less that of clean texts, with the interval of the difference

Changes of scores, the order that is kept and tokens are in metrics.json (change,
clean_correlation) and costs.json. Groups of the data are the clusters of all intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from judgebench.stats.classes import label_shares
from judgebench.stats.clusters import keys_of, safe_divide, unknown
from judgebench.stats.shares import clustered_share
from judgebench.studies.scores import CLEAN, JudgeScores, Scores, ScoreSeries
from judgebench.types import FAILED, Array, Record, Rows

NO_MARK = "No false passes: nothing says which labels pass; give data.pass_from=LABEL."
"""The reason where no text passes or fails."""

NO_ANSWER = "No false passes: no answer to a text under that attack could be read."
"""The reason where a judge refuses all texts."""

NO_ORDER = "No order: the attack leaves nothing of a text, and so no order of texts to keep."
"""The reason of an attack that puts one text in the place of all."""


FIGURES = ("false_pass", "more")


def attacked_records(
    samples: Sequence[JudgeScores], scores: Scores, decisions: Rows, replacing: Collection[str]
) -> Rows:
    """The records of attack/false_passes.json, one a judge, decoding, range, attack and defense, the
    clean texts of each first; none where nothing was attacked.

    Args:
        samples: the clean cells; scores: all cells.
        decisions: see `judgebench.studies.decisions.decision_records`; the last mark of a cell counts,
            which is the chosen one.
        replacing: names of the attacks that leave nothing of a text.

    Returns:
        mark: the score from which a text passes, None with a `reason`; texts: those with labels;
            false_pass and more, each with its interval; replaces: whether the attack leaves
            nothing.
    """
    records = []
    for sample in samples:
        cells = [cell for cell in scores.cells if cell.clean == sample.cell]
        if len(cells) == 1:
            continue
        of_cell = [row for row in decisions if ScoreSeries.of(row) == sample.cell]
        mark = of_cell[-1].get("pass_mark") if of_cell else None
        for cell in sorted(cells, key=lambda cell: cell.attack != CLEAN):
            replaces = cell.attack in replacing
            figures: Record = {"texts": None, **unknown(FIGURES), "reason": NO_MARK}
            if sample.classes is not None and mark is not None:
                fails = label_shares(sample.ratings, sample.classes)[:, 0]
                clean = fails, passes_of(scores, sample.cell, sample, mark)
                if replaces:
                    fails = np.ones(len(fails))
                attacked = fails, passes_of(scores, cell, sample, mark)
                figures = false_passes(sample, clean, attacked)
                if cell == sample.cell:
                    figures |= unknown(["more"])
            named = {**sample.head, **cell.named, "mark": mark, "replaces": replaces}
            records.append(named | figures)
    return records


def passes_of(scores: Scores, cell: ScoreSeries, sample: JudgeScores, mark: float) -> Array:
    """[N] 1 for a text of the sample that passes in a cell, else 0; NaN where the cell lacks it, or
    has no answer that could be read. One answer of others that could not be read does not pass."""
    part = scores.part(cell)
    _, rows, of_text = np.intersect1d(part["example_id"], sample.names, return_indices=True)
    passes = np.full(len(sample.names), np.nan)
    if (part["status"][rows] != FAILED).any():
        passes[of_text] = part["score"][rows] >= mark
    return passes


def false_passes(
    sample: JudgeScores, clean: tuple[Array, Array], attacked: tuple[Array, Array]
) -> Record:
    """texts, false_pass, more and reason, of texts that are known on both sides.

    Args:
        clean, attacked: [N] the part of the people who fail each text, NaN where nobody says, and
            `passes_of`.
    """
    known = np.isfinite(np.sum([*clean, *attacked], axis=0))
    clusters = sample.clusters.at(known)
    fails, passes = attacked
    groups = sample.groups[known]
    share = clustered_share(passes[known], fails[known], groups)
    shares = []
    for fails, passes in (clean, attacked):
        false = clusters.mean((fails * passes)[known])
        shares.append(safe_divide(false, clusters.mean(fails[known])))
    return {
        "texts": int(known.sum()),
        **keys_of("false_pass", share),
        **clusters.record({"more": shares[1] - shares[0]}),
        "reason": None if known.any() else NO_ANSWER,
    }
