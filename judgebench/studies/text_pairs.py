"""Pairs of texts that a judge orders as humans do: the texts of an article, and those of a system.

Pairs of one article show whether a judge orders its texts. A judge that knows nothing but the names
of the systems orders them well, too, where systems differ. Pairs of texts of one system show
whether it knows more: each score counts less the effect of its article, so that a judge that sees
the article alone ties these pairs as well.

A simpler rule asks whether the judge beats scores that are the humans' means of each system on
other articles. Of 24 judges of three sets of translations and one of summaries (`docs/verdict_tests.md`)
it accepts 12, and 4 that know the system alone; these pairs accept 23 and none.
"""

from __future__ import annotations

import numpy as np

from judgebench.stats.clusters import safe_divide, unknown
from judgebench.studies.scores import JudgeScores
from judgebench.types import Array, Record

PAIRS = ("pairs", "rater", "within", "within_rater")
"""Shares of pairs of texts that the judge, and one rater, order as the other raters do: pairs of
one article, and of one system."""

_ALONE = 0.5  # share of articles with one rated text above which pairs of all texts are compared
_MOST_TEXTS = 2000  # of which all pairs are compared
# of taking off effects of systems and articles in turn: one is enough where none is missing
_MOST_ROUNDS = 100
# of the scores' spread, to which what is left is rounded: what is equal in truth must tie
_DIGITS = 9


def pair_shares(
    judge: Array,
    others: Array,
    number: Array,
    weights: Array,
    blocks: Array | None = None,
) -> Array:
    """[1 + B] the share of pairs of texts that judge [N] and others [N] order alike, of those that
    the others order; a pair that the judge ties counts half, as a coin would.

    Args:
        number: [N] the article of each text, from 0.
        weights: [1 + B, G] how often each article counts.
        blocks: [N] a pair is of two texts with the same number here; None: of one article.

    Example:
        >>> judge, others = np.array([1.0, 2.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 3.0])
        >>> pair_shares(judge, others, np.array([0, 0, 0, 1]), np.ones((1, 2))).tolist()  # right, right, tied
        [0.8333333333333334]
    """
    # articles without a text here take no room, for there may be thousands
    present, number = np.unique(number, return_inverse=True)
    weights = weights[:, present]
    groups = len(present)
    across = blocks is not None
    blocks = number if blocks is None else blocks
    # 1. pairs that are right, and all, of each article or of each two articles
    right, all_pairs = np.zeros((2, groups * groups if across else groups))
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        # all pairs of a block, each once
        first, second = rows[np.stack(np.triu_indices(len(rows), 1))]  # [pairs]
        theirs = np.sign(others[first] - others[second])
        ordered = theirs != 0
        first = first[ordered]
        second = second[ordered]
        theirs = theirs[ordered]
        ours = np.sign(judge[first] - judge[second])
        place = number[first]
        if across:
            # one number for two articles, so that a pair counts as often as both are drawn
            place = place * groups + number[second]
        right += np.bincount(place, (1 + ours * theirs) / 2, len(right))
        all_pairs += np.bincount(place, minlength=len(right))

    # 2. sums over the articles that are drawn; a pair of two counts as often as both are
    def drawn(pairs: Array) -> Array:
        if not across:
            return weights @ pairs
        table = pairs.reshape(groups, groups)
        return ((weights @ table) * weights).sum(axis=1)

    return safe_divide(drawn(right), drawn(all_pairs))


def beyond_articles(values: Array, article: Array, system: Array) -> Array:
    """Residuals of values [N] after the additive effects of their articles and systems [N], numbers
    from 0, as part of the values' spread.

    Example:
        >>> values = np.array([1.0, 3.0, 2.0, 6.0])  # of systems 0 and 1 in articles 0 and 1
        >>> beyond_articles(values, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])).tolist()
        [0.1, -0.1, -0.1, 0.1]
    """
    left = np.asarray(values, dtype=np.float64)
    spread = float(np.ptp(left)) or 1.0
    rounding = spread * 10.0 ** -(_DIGITS + 1)
    # least squares of two additive effects, by projections in turn: no table of systems and
    # articles
    for _ in range(_MOST_ROUNDS):
        before = left
        for place in (system, article):
            texts = np.bincount(place).astype(np.float64)
            means = safe_divide(np.bincount(place, left), texts)
            left = left - means[place]
        change = np.abs(left - before)
        if change.max() < rounding:
            break
    return np.round(left / spread, _DIGITS) + 0.0


def text_pair_record(sample: JudgeScores) -> Record:
    """`PAIRS`, each with `_low` and `_high`, articles resampled; beside: by which the judge's share of pairs
    exceeds each rater's, both by the others. Where most articles have one rated
    text, pairs are of all texts. The raters' are None where no text has two ratings; those of one
    system with fewer than two systems, or where no system has two texts."""
    panel = sample.panel
    rated = np.isfinite(sample.human)
    raters = bool(sample.raters) and panel.missing is None
    system = np.unique(sample.systems, return_inverse=True)[1]
    beside: list[float] = []
    # 1. the clusters of the texts that count; other texts have number 0, and are never compared
    clusters = panel.clusters if raters else sample.clusters.among(rated)
    number = clusters.number
    # articles with one text each have no pairs of their own: all texts are compared then
    alone = (np.bincount(number[rated], minlength=clusters.count) > 1).mean() < _ALONE
    # pairs of all texts grow with their square: of many texts a part is compared
    few = rated & _some_articles(sample.clusters.number, sample.seed)

    # 2. shares of judge and rater, of pairs of one article or of one system
    def shares(side: Array, others: Array, rows: Array, within: bool) -> Array:
        rows = rows & (few if within or alone else rated)
        place = number[rows]
        side = side[rows]
        others = others[rows]
        blocks = np.zeros_like(place) if alone else None
        if within:
            blocks = system[rows]
            # within a system: what the article adds to all of its texts is taken off first
            if not alone:
                side = beyond_articles(side, place, blocks)
                others = beyond_articles(others, place, blocks)
        return pair_shares(side, others, place, clusters.weights, blocks)

    # 3. their figures, by each rater and the others where there are raters
    record: Record = {**unknown(PAIRS), "beside": beside}
    for within, names in ((False, PAIRS[:2]), (True, PAIRS[2:])):
        if within and not system.any():
            continue
        if not raters:
            share = shares(sample.scores, sample.human, rated, within)
            record |= clusters.record({names[0]: share})
            continue

        def figure(column: int, rows: Array, within: bool = within) -> Array:
            # the same means of the others for judge and rater, see `Panel`
            others = panel.others[:, column]
            judge = shares(sample.scores, others, rows, within)
            rater = shares(panel.ratings[:, column], others, rows, within)
            if not within:
                beside.append(float(judge[0] - rater[0]))
            return np.stack([judge, rater])  # [2, 1 + B]

        record |= clusters.record(dict(zip(names, panel.over_raters(figure), strict=True)))
    return record


def _some_articles(number: Array, seed: int) -> Array:
    """[N] True for the texts of some whole articles, drawn at random: as many as have `_MOST_TEXTS`
    texts, one at least."""
    sizes = np.bincount(number)
    order = np.random.default_rng(seed).permutation(len(sizes))
    # whole articles, which stay the units of the resamples
    enough = np.maximum(sizes[order].cumsum() <= _MOST_TEXTS, np.arange(len(order)) == 0)
    return np.isin(number, order[enough])
