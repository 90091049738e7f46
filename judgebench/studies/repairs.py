"""Comparisons that every run makes: what each repair of a judge changes, with one Holm correction
over a dimension.

The family is fixed before any score is seen: decodings compared as in `COMPARED`; calibrated scores
of each with its raw ones; each attack under each defense with the same attack without one. A run
makes those that it can; its other decodings, other runs and their order change nothing. Each is
about the mean over the run's ranges, of the texts that both sides have in all of them. Articles are
resampled jointly, and p is that of `paired`: the signs of what articles contribute to a difference
are flipped; calibration is not learned again. Of 1,000 simulated pairs of judges with equal
components, on 8 to 40 articles, it called 4 to 6 % of the differences in the range's share
significant at .05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from judgebench.stats.clusters import (
    RESAMPLES,
    Clusters,
    resampled_and_left_out,
    unknown,
    with_jackknife,
)
from judgebench.stats.correlation import LEVELS, SPEARMAN
from judgebench.stats.folds import cross_fitted
from judgebench.stats.maps import rescale
from judgebench.stats.permutation import paired_p_values
from judgebench.stats.variance import CrossedScores, share_of
from judgebench.studies.evaluate import correlate_cell
from judgebench.studies.paired import correct
from judgebench.studies.scores import (
    CLEAN,
    Scores,
    ScoreSeries,
    at_rows,
    common_rows,
    series_of,
)
from judgebench.types import Array, Columns, Record, Row, Rows, Scale, Scales, ScoreRange

# The family of comparisons is fixed here, before scores are seen: what is corrected together must
# not depend on what came out.
AGREEMENT = "agreement"
POINTS = "points"
RANGE_SHARE = "range_share"
ATTACK = "attack"
"""Kinds of figures: Spearman with the humans over all texts; mean absolute distance from the
humans' mean, in points of their scale; the share of the variance of scores that the range makes
(`both` of `variance.facet_share`); change of the mean score by an attack, as part of the range."""

DECODINGS = {
    "greedy": "main",
    "expectation": "main",
    "contrastive": "pair",
    "contrastive_expectation": "pair",
}
"""Decoding -> its judge, of those that are compared."""

COMPARED = (("expectation", "greedy"), *product(tuple(DECODINGS)[2:], tuple(DECODINGS)[:2]))
"""Each decoding, and what it is compared with."""


def repair_records(
    scores: Scores | Row,
    dataset: str,
    scale: Scales,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rows:
    """The records of repairs.json: of each dimension of the reported split a record a planned
    comparison.

    Args:
        scale: dimension -> ends of the humans' scale, without which there are no points.

    Returns:
        In a fixed order, JSON's own types, never NaN: dataset, split, dimension; kind: see
        `AGREEMENT` and the next; judge, decoding; attack, defense: `none` but for kind `attack`;
        reference: what it is compared with, another decoding, `raw`, or `none` (no defense); what
            `paired_figures` returns; p_holm: p, Holm-corrected over the
        dimension; comparisons: how many have a p.
    """
    table = Scores.of(scores).answered
    here = [cell.dimension for cell in table.cells if cell.split == table.split]
    records = Rows()
    for dimension in dict.fromkeys(here):
        series = _series(table, dimension)
        family = Rows()
        for head, sides in _plan(series, table.compares).items():
            kind, attack, defense, name, reference = head
            ranged = [series.get(side, {}) for side in sides]
            cells = []
            for at in ranged[0]:
                if all(at in cells_of for cells_of in ranged):
                    cells.append([cells_of[at] for cells_of in ranged])
            # a comparison that this run cannot make is no part of its family
            if not cells:
                continue
            record = {
                "dataset": dataset,
                "split": table.split,
                "dimension": dimension,
                "kind": kind,
                "judge": DECODINGS[name],
                "decoding": name,
                "attack": attack,
                "defense": defense,
                "reference": reference,
                "ranges": len(cells),
                "p_holm": None,
                **paired_figures(kind, table, cells, scale.get(dimension), resamples, seed),
            }
            family.append(record)
        comparisons = correct(family)
        records += [record | {"comparisons": comparisons} for record in family]
    return records


Condition = tuple[str, str, str]
"""Attack, defense and decoding."""


def _series(table: Scores, dimension: str) -> dict[Condition, dict[ScoreRange, ScoreSeries]]:
    """The cells of the decodings of the plan, by range; several settings side by side are no
    plan."""
    series = {}
    for key, ranges in series_of(table.cells).items():
        split, of, attack, defense, judge, decoding, *hyperparameters = key
        # the user's own decodings are compared elsewhere, or each of them would weaken every p here
        planned = DECODINGS.get(decoding) == judge and hyperparameters == [None, None]
        if planned and (split, of) == (table.split, dimension):
            series[attack, defense, decoding] = ranges
    return series


def _plan(
    series: Mapping[Condition, Any], pairs: bool
) -> dict[tuple[str, str, str, str, str], list[Condition]]:
    """Comparisons: kind, attack, defense, decoding and reference -> the sides; `pairs`: texts
    were judged in pairs, which have no points."""
    attacks = dict.fromkeys(attack for attack, _, _ in series)
    attacks.pop(CLEAN, None)
    defenses = dict.fromkeys(defense for _, defense, _ in series)
    base = next(iter(defenses)) if len(defenses) == 1 else CLEAN
    defenses.pop(CLEAN, None)
    plan: dict[tuple[str, str, str, str, str], list[Condition]] = {}
    for name, reference in COMPARED:
        ours = (CLEAN, base, name)
        theirs = (CLEAN, base, reference)
        plan[AGREEMENT, *ours, reference] = [ours, theirs]
    # a preference has no points, and no range
    kinds = () if pairs else (POINTS, RANGE_SHARE)
    for name, kind in product(DECODINGS, kinds):
        calibrated = (CLEAN, base, name)
        plan[kind, *calibrated, "raw"] = [calibrated]
    for attack, defense, name in product(attacks, defenses, DECODINGS):
        defended = (attack, defense, name)
        # attacked and clean under the defense, then without it: `paired_figures` takes them in turn
        plan[ATTACK, *defended, CLEAN] = [
            defended,
            (CLEAN, defense, name),
            (attack, CLEAN, name),
            (CLEAN, CLEAN, name),
        ]
    return plan


def paired_figures(
    kind: str,
    table: Scores,
    cells: Sequence[Sequence[ScoreSeries]],
    scale: Scale | None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Record:
    """The figures of one comparison, means over ranges.

    Args:
        cells: of each range: of `AGREEMENT` the two sides; of `POINTS` and `RANGE_SHARE` the one
            that is calibrated; of `ATTACK` attacked and clean under the defense, attacked and clean
            without it.

    Returns:
        n: texts; groups; before, of the reference, and after; difference: after - before, with
            `_low` and `_high` of
        its 95 % interval; p of the permutation test; reason: why some are None, else None.
    """
    # 1. scores [ranges, sides, N] of the texts that all cells have, as part of the range;
    # calibrated ones likewise
    listed = [cell for of_range in cells for cell in of_range]
    parts = common_rows([table.part(cell) for cell in listed])
    human = parts[0]["human"]
    groups = np.unique(parts[0]["group_id"], return_inverse=True)[1]
    scores = [part["score"] for part in parts]
    ends = [cell.range.ends for cell in listed]
    rescaled = [rescale(*pair) for pair in zip(scores, ends, strict=True)]
    shares = np.array(rescaled).reshape(len(cells), len(cells[0]), -1)
    used = np.isfinite(human) | (kind in (RANGE_SHARE, ATTACK))
    bottom, top = scale if scale and scale[0] < scale[1] else (0.0, 1.0)
    calibrates = kind in (POINTS, RANGE_SHARE)
    if calibrates:
        # one cell a range
        fitted = np.array([cross_fitted(raw, human, groups, seed=seed) for raw in scores])
        used &= np.isfinite(fitted).all(axis=0)
        calibrated = rescale(fitted, (bottom, top))
        shares = np.stack([calibrated, shares[:, 0]], axis=1)  # after, and before
    # 2. what cannot be compared
    clusters = Clusters.of(groups[used], resamples, seed)
    record = _unmeasured(int(used.sum()), clusters.count)
    missing = {
        "The humans' scale is unknown.": kind == POINTS and (bottom, top) != scale,
        "There is one range, and the range's share takes two.": kind == RANGE_SHARE
        and len(cells) < 2,
        "Calibration takes rated texts of two groups.": calibrates and not used.any(),
        "There are fewer than two texts.": used.sum() < 2,
    }
    for reason, is_so in missing.items():
        if is_so:
            return record | {"reason": reason}
    # 3. after and before, [1 + B + J] each: of the data, the resamples, and without each group
    shares = shares[:, :, used]
    human = human[used]
    if kind == POINTS:
        shares = bottom + shares * (top - bottom)
    elif kind == ATTACK:
        shares = shares[:, ::2] - shares[:, 1::2]  # attacked less clean
    drawn = with_jackknife(clusters)
    if kind == AGREEMENT:
        rated = [at_rows(part, used) for part in parts]
        spearman = _spearman(table, listed, rated, resamples, seed)
        after, before = (np.mean(spearman[side::2], axis=0) for side in (0, 1))
    else:
        after, before = (_figure(kind, shares[:, side], human, clusters, drawn) for side in (0, 1))
    difference, rest = resampled_and_left_out(after - before, drawn)
    if np.isnan(difference[0]):
        return record | {"reason": "All scores are the same."}
    record |= {"before": float(before[0]), "after": float(after[0])}
    record |= clusters.record({"difference": difference})
    # 4. the test
    if clusters.count < 2 or np.isnan(rest).any():
        return record | {
            "reason": "No p: there is one group, or a figure is unknown without one of them."
        }
    [p] = paired_p_values(difference[:1], rest[None, 1:], seed)
    return record | {"p": p}


def _unmeasured(texts: int, groups: int) -> Record:
    """The figures of a comparison before anything is measured."""
    return {
        "n": texts,
        "groups": groups,
        "before": None,
        "after": None,
        **unknown(["difference"]),
        "p": None,
        "reason": None,
    }


def _spearman(
    table: Scores, cells: Sequence[ScoreSeries], parts: Sequence[Columns], resamples: int, seed: int
) -> list[Array]:
    """[1 + B + J] of each cell with the humans, on the rows of a part of it."""
    spearman = []
    for cell, part in zip(cells, parts, strict=True):
        known = correlate_cell(table, LEVELS[0], cell, resamples, seed, part)
        spearman.append(np.append(known.values[SPEARMAN], known.jackknife[SPEARMAN]))
    return spearman


def _figure(kind: str, side: Array, human: Array, clusters: Clusters, drawn: Clusters) -> Array:
    """[1 + B + J] the figure of one side.

    Args:
        side: [ranges, n] what it is a mean of: scores, of `POINTS` on the humans' scale, or of
            `ATTACK` their changes.
        human: [n].
        drawn: `clusters`, and each group left out.
    """
    if kind == RANGE_SHARE:
        # `CrossedScores` takes the jackknife's weights itself
        components = CrossedScores(side.T, ("text", "range"), clusters).components
        return share_of(components, [effect for effect in components if "range" in effect])
    if kind == POINTS:
        side = np.abs(side - human)
    return drawn.mean(side.mean(axis=0))
