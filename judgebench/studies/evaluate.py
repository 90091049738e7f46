"""From scores to the records of metrics.json, of effects of attacks (attacked texts against the
same texts unattacked; of learned phrases as they grow), and of costs.

A record per (split, dimension, range, attack, defense, judge, decoding, lambda, temperature) and
level holds JSON's own types, never NaN. Besides these keys:

- rule: `argmax` or `expectation`, what the decoding's scores are;
- n: pairs (dataset), groups (document), systems (system); groups: distinct groups;
- pearson, spearman, kendall, each with `_low` and `_high` of its 95 % percentile interval, groups
  resampled, which are None with fewer than two groups or without resamples; at system level they
  speak for these systems, and `_systems_low` and `_systems_high`, where systems are resampled as
  well, for systems like these (None at other levels, and with fewer than three systems); at
  document level `_varied`, the value without the groups whose humans do not differ (None at other
  levels);
- missing: a sentence that says why the three are None (nobody rated, one system), or why their
  intervals are (one group, too many systems); else None;
- constant, constant_groups, human_constant_groups: see `Correlated`;
- failed_share, clamped_share: of the answers; mean_score: failed ones included, at the minimum as
  scored;
- where answers could not be read, which the figures of agreement leave out: each correlation as
  `_worst` and `_best`, with the scores of `scores.stand_ins` in their place, and in `lowest` the
  three with their intervals as the papers count them, with the lowest score;
- modal_score, modal_share: see `favorite`; bias_wasserstein, bias_kl, bias_shift: see `bias`, of
  what was rated;
- stability: see there; self_agreement: the mean Spearman of the judge with itself over pairs of
  ranges; both over the ranges in which this judge and decoding stand (None for one range); tuning
  may choose another lambda and temperature in each;
- flags: failure signatures, of `constant`, `constant humans`, `inverted` and `unstable`;
- where texts are compared what `comparative` returns, alike at all levels;
- where attack is not none, against the clean scores of the same cell: what `robustness` returns,
  alike at all levels, and of this level clean_spearman and spearman_change, with `_low` and `_high`
  of its paired interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy  # its parts come when they are first used

from judgebench.settings.metrics import MetricSettings
from judgebench.stats.bradley_terry import comparative
from judgebench.stats.clusters import (
    FEWEST,
    RESAMPLES,
    Clusters,
    Numbers,
    percentile_interval,
    safe_divide,
    with_intervals,
    without_nan,
)
from judgebench.stats.correlation import (
    CORRELATIONS,
    LEVELS,
    MOST_SYSTEMS,
    SPEARMAN,
    Correlated,
    DistinctPairs,
    correlate,
    mean_pairwise_spearman,
)
from judgebench.stats.maps import nearest_place, rescale
from judgebench.studies.scores import (
    CLEAN,
    Scores,
    ScoreSeries,
    at_rows,
    common_rows,
    missing_bounds,
    series_of,
)
from judgebench.types import (
    CLAMPED,
    FAILED,
    Array,
    Columns,
    Record,
    Row,
    Rows,
    Scale,
    Scales,
    ScoreRange,
)

CHANGES = (
    "change",
    "delta",
    "rate_of_means",
    "mean_of_rates",
    "raised_share",
    "net_raised_share",
    "maximum_share",
    "clean_maximum_share",
    "places_gained",
    "win_share",
    "clean_win_share",
    "standardized",
)
"""What `robustness` says of an attack, each number with an interval."""

MEANS = ("clean_mean_score", "attacked_mean_score")
"""What it says of both sides, with intervals too."""

FAR = 0.1
"""The part of the range by which a score rises or falls at least where `net_raised_share` counts
it."""

_EQUAL = 1e-9  # scores no farther apart differ by rounding alone
# what rounding leaves of the spread of equal scores, whose variance is a difference of squares
_SPREAD = 1e-7


def robustness(
    clean: Array,
    attacked: Array,
    score_range: ScoreRange,
    clusters: Clusters,
    texts: Array | None = None,
) -> Record:
    """The record of `changes`, with paired 95 % percentile intervals: with a text come both its
    scores.

    Returns:
        paired: n; each of `MEANS` and `CHANGES` with `_low` and `_high`, which are None with fewer
            than two groups or
        without resamples; all but `paired` are None where no text was scored on both sides. Delta's
        interval is never
        below 0: `change` says whether it is more than noise.
    """
    figures = changes(clean, attacked, score_range, clusters, texts)
    return {"paired": len(clean)} | with_intervals(figures)


def changes(
    clean: Array,
    attacked: Array,
    score_range: ScoreRange,
    clusters: Clusters,
    texts: Array | None = None,
) -> dict[str, Array]:
    """Changes of scores by an attack, each of `MEANS` and `CHANGES` as [1 + B]; NaN where it is
    unknown.

    - clean_mean_score, attacked_mean_score; change: attacked less clean; delta: its absolute value,
      the CAP paper's score change;
    - rate_of_means: delta over the mean clean score; mean_of_rates: the mean of the texts' own
      (attacked - clean) / clean, absolute: the two readings of the paper's relative score change
      rate. Unknown where the mean (a text's own) clean score is not above 0;
    - raised_share: of texts whose score rises; net_raised_share: of texts whose score rises by
      `FAR` of the range or more, less the share of those whose score falls as far; maximum_share,
      clean_maximum_share: of texts whose score lies nearer to the range's maximum than to any other
      score of it;
    - places_gained: mean rise in rank of an attacked text among the clean texts of the other
      systems of its group (ties share their ranks); win_share: how often it then comes first (of k
      that tie, each has 1/k), clean_win_share: how often it does unattacked. Of groups with two
      texts at least. Where texts are compared, a text has its mean over the rivals that it met;
    - standardized: change over the standard deviation of the clean scores over all texts: the same
      change moves a text past more others where scores spread little. Unknown where the clean
      scores are all the same.

    Args:
        clean, attacked: [n] scores of the same texts.
        clusters: of their groups.
        texts: [n] names of the judged texts where texts are compared, as one stands in several
            pairs.

    Example:
        >>> both = changes(np.array([1.0, 2.0]), np.array([3.0, 2.0]), ScoreRange(1, 5), Clusters.of(["a", "a"]))
        >>> [both[name].tolist() for name in ("change", "rate_of_means", "mean_of_rates", "win_share")]
        [[1.0], [0.6666666666666666], [1.0], [1.0]]
    """
    mean = clusters.mean
    # nearer to the maximum than to the candidate below it
    at_maximum = score_range.maximum - score_range.step / 2 - _EQUAL
    change = mean(attacked - clean)
    clean_mean = mean(clean)
    far = FAR * (score_range.maximum - score_range.minimum) - _EQUAL
    rises = attacked - clean >= far
    falls = clean - attacked >= far
    # variance from moments of centered scores, or large scores of small spread would cancel
    centered = clean - clean_mean[0]
    spread = np.sqrt(np.maximum(mean(centered**2) - mean(centered) ** 2, 0.0))
    # ranks are of texts: where texts are compared, each has the mean of its pairs
    sides = [clean, attacked]
    ranked = clusters
    if texts is not None:
        _, row, text = np.unique(texts.astype(str), return_index=True, return_inverse=True)
        sides = [np.bincount(text, weights=side) / np.bincount(text) for side in sides]
        ranked = Clusters(clusters.number[row], clusters.weights)
    several = np.bincount(ranked.number)[ranked.number] > 1
    (clean_rank, clean_win), (rank, win) = (
        _standing(sides[0], side, ranked.number) for side in sides
    )
    return {
        "clean_mean_score": clean_mean,
        "attacked_mean_score": mean(attacked),
        "change": change,
        # of the mean change: texts that rise and texts that fall cancel, as in the paper
        "delta": np.abs(change),
        "rate_of_means": safe_divide(np.abs(change), clean_mean),
        "mean_of_rates": np.abs(mean(safe_divide(attacked - clean, clean))),
        "raised_share": mean((attacked > clean + _EQUAL).astype(float)),
        "net_raised_share": mean(rises.astype(float) - falls.astype(float)),
        "maximum_share": mean((attacked >= at_maximum).astype(float)),
        "clean_maximum_share": mean((clean >= at_maximum).astype(float)),
        "places_gained": ranked.mean(clean_rank - rank, several),
        "win_share": ranked.mean(win, several),
        "clean_win_share": ranked.mean(clean_win, several),
        # scores that are all the same have no spread to measure by, whatever rounding has left of
        # one
        "standardized": safe_divide(change, np.where(spread > _SPREAD, spread, 0.0)),
    }


def _standing(clean: Array, scores: Array, group: Array) -> tuple[Array, Array]:
    """Standing of each text with its score [n] among the clean scores [n] of the others of its
    group: its rank, 1 is best and ties share theirs, and its share of the first place."""
    # against the clean texts of the others: an attacker changes one text, and no rival
    rank = np.ones(len(clean))
    win = np.ones(len(clean))
    # groups as neighbors, so that each is one slice
    order = np.argsort(group, kind="stable")
    changes_at = np.flatnonzero(np.diff(group[order]))
    for rows in np.split(order, changes_at + 1):
        here = scores[rows]
        ascending = np.sort(clean[rows])
        below = np.searchsorted(ascending, here - _EQUAL, "left")
        upto = np.searchsorted(ascending, here + _EQUAL, "right")
        # a text does not compete with itself
        ahead = clean[rows] - here
        itself_above = ahead > _EQUAL
        itself_tied = np.abs(ahead) <= _EQUAL
        above = len(rows) - upto - itself_above
        ties = upto - below - itself_tied
        rank[rows] = 1 + above + ties / 2
        win[rows] = np.where(above == 0, 1 / (1 + ties), 0.0)
    return rank, win


def answered(parts: Sequence[Columns]) -> list[dict[str, Array]]:
    """The rows of parts of a table whose examples all parts have, each with an answer that could be
    read, in one order: a refusal is no score."""
    common = common_rows(parts)
    read = np.all([part["status"] != FAILED for part in common], axis=0)
    return [at_rows(part, read) for part in common]


def against_clean(
    cell: ScoreSeries,
    parts: Mapping[ScoreSeries, Columns],
    correlated: Mapping[tuple[ScoreSeries, str], Correlated],
    levels: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rows:
    """Changes of one cell by its attack, an entry a level: `robustness`, paired_groups,
    clean_correlation (Spearman of attacked with clean scores), and Spearman under attack less
    Spearman of the clean texts; with 95 % intervals, and None where there is no clean cell. They
    are of texts that are `answered` on both sides.

    Args:
        parts: the columns of scores of each cell.
        correlated: those of each cell and level with the humans, all resampled alike.
    """
    unattacked = parts.get(cell.clean, at_rows(parts[cell], np.arange(0)))
    # the same texts on both sides: an attack may have been run on fewer
    clean, attacked = answered([unattacked, parts[cell]])
    sides = (clean["score"], attacked["score"])
    clusters = Clusters.of(attacked["group_id"], resamples, seed)
    changed = robustness(*sides, cell.range, clusters, attacked.get("text_id"))
    changed["paired_groups"] = clusters.count
    in_order = np.full(1, np.nan)
    if len(clean["score"]) > 1:
        pairs = DistinctPairs(*sides, clusters.number, clusters.count)
        in_order = pairs.spearman(clusters.weights)
    # only the rated texts of both count
    rated = np.isfinite(attacked["human"])
    rated_sides = [at_rows(side, rated) for side in (clean, attacked)]
    sizes = {len(part["human"]) for part in (attacked, parts[cell], unattacked)}
    # then both correlations are known already, and resampled alike
    all_rated = len(sizes) == 1
    records = []
    for level in levels:
        if all_rated:
            both = [correlated[cell.clean, level], correlated[cell, level]]
        else:
            both = [correlate_part(level, side, resamples, seed) for side in rated_sides]
        before, after = (side.values[SPEARMAN] for side in both)
        known = all(side.known for side in both)
        record = dict(changed)
        record["clean_spearman"] = float(before[0]) if known else None
        change = after - before
        record |= with_intervals({"spearman_change": change, "clean_correlation": in_order})
        records.append(record)
    return records


def cost_records(
    readings: pd.DataFrame,
    ready: Mapping[str, Mapping[str, float]],
    dataset: str,
    tokens: Mapping[str, float],
) -> Rows:
    """A record for each defense, in the order of the readings.

    Args:
        readings: columns of readings.parquet.
        ready: defense -> seconds of getting ready: `once`, for each `context` and for each `text`;
            and `tokens`, for each text.
        tokens: defense -> tokens that are computed for a clean text.

    Returns:
        `dataset`, `defense`; `n` readings; `reading_seconds`, their mean, in this or an earlier
        run; `text_seconds`, of
            what the defense made for a text, or its share of what it made for the context of
            several; `context_seconds`, of what it made for one context; `once_seconds`, whatever is
            judged, as this run took; `seconds`, reading and text together; `tokens`, what is computed
            for a text, with its share of what the defense read and wrote for the context, None
            where that is unknown; `made_tokens`, that share.
    """
    records = []
    for defense, seconds in readings.groupby("defense", sort=False)["seconds"]:
        # a defense that gets nothing ready costs its reading alone
        cost = ready.get(str(defense), {})
        record: Record = {
            "dataset": dataset,
            "defense": defense,
            "n": len(seconds),
            "reading_seconds": float(seconds.mean()),
        }
        for name in ("text", "context", "once"):
            record[f"{name}_seconds"] = float(cost.get(name, 0.0))
        read = tokens.get(str(defense))
        made = float(cost.get("tokens", 0.0))
        record |= {"tokens": None if read is None else read + made, "made_tokens": made}
        records.append(record | {"seconds": record["reading_seconds"] + record["text_seconds"]})
    return records


SEEN = "seen"
UNSEEN = "unseen"
ALL = "all"
"""Whether a phrase was learned on these contexts, or systems."""


def suffix_records(
    scores: Scores | Row,
    phrases: Sequence[Any],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rows:
    """Changes by each phrase, by its length and by whether it was learned on the text's context and
    system.

    Args:
        phrases: of `judgebench.attacks.LearnedPhrase`.

    Returns:
        A record per phrase, cell (split, dimension, range, defense, judge, decoding, lambda,
        temperature), part and length, in this order; of lengths that were scored, and none where no
        length was. A part is one of contexts `seen` and `unseen` with one of systems `all`, `seen`
        and `unseen`, as far as there are texts of it. JSON's own
        types, never NaN: dataset, the cell, and

        - suffix, objective, length, phrase, attack: length 0 are the clean texts, attack `none`;
        - contexts, systems: the part; n: its texts that were scored both clean and attacked,
          groups: theirs;
        - clean_mean_score and mean_score, the attacked ones' (those of length 0 are the same), and
          all numbers of `robustness`, with `_low` and `_high` of their article-clustered 95 %
          percentile intervals. Ranks are those among the part's own systems.
    """
    table = Scores.of(scores)
    records = []
    clean_cells = [cell for cell in table.cells if cell.attack == CLEAN]
    parts_of_texts = list(product((UNSEEN, SEEN), (ALL, UNSEEN, SEEN)))
    for learned, cell in product(phrases, clean_cells):
        # 1. the clean texts, and those with the first word, with the first two, ...
        attacks = [CLEAN, *(attack.name for attack in learned.attacks())]
        cells = [cell._replace(attack=attack) for attack in attacks]
        lengths = [length for length, attacked in enumerate(cells) if attacked in table.cells]
        head = {
            "dataset": dataset,
            "split": cell.split,
            "suffix": learned.prefix,
            "objective": learned.against,
        }
        # 2. those of each part: contexts and systems on which the phrase was learned, or was not
        for contexts, systems in parts_of_texts if len(lengths) > 1 else ():
            clean = _of_part(table.part(cell), learned, contexts, systems)
            for length in lengths:
                # each length with the clean scores: effects of words add up along the phrase
                both = answered([clean, table.part(cells[length])])
                before, after = (side["score"] for side in both)
                if not len(before):
                    continue
                clusters = Clusters.of(both[1]["group_id"], resamples, seed)
                texts = both[1].get("text_id")
                changed = robustness(before, after, cell.range, clusters, texts)
                record = {
                    **head,
                    "length": length,
                    "phrase": learned.by_length[length - 1] if length else "",
                    **cells[length].named,
                    "contexts": contexts,
                    "systems": systems,
                    "n": changed.pop("paired"),
                    "groups": clusters.count,
                }
                for name, number in changed.items():
                    record[name.replace("attacked_mean", "mean")] = number
                records.append(record)
    return records


def _of_part(part: Columns, learned: Any, contexts: str, systems: str) -> dict[str, Array]:
    """The rows of one part, see `suffix_records`."""
    # what was learned on a text works on it: only unseen contexts and systems say what it is worth
    known = np.isin(part["group_id"].astype(str), list(learned.contexts))
    rows = known == (contexts == SEEN)
    if systems != ALL:
        known = np.isin(part["system_id"].astype(str), list(learned.systems))
        rows &= known == (systems == SEEN)
    return at_rows(part, rows)


# --- records of agreement -----------------------------------------------------------------------


CONSTANT = "constant"
CONSTANT_HUMANS = "constant humans"
INVERTED = "inverted"
UNSTABLE = "unstable"
"""Failure signatures: the judge always says the same; the humans do; its Spearman interval lies
wholly below 0; its Spearman depends on the score range (see `stability`). The last two rest on
resamples, and are not raised on fewer than `FEWEST` groups, whose resamples say too little."""

SMOOTHING = 0.5
"""Added to every count before shares are taken for `bias_kl`: a score that was never given is rare,
not impossible."""

UNSTABLE_ABOVE = 0.05
"""A standard deviation of Spearman over ranges that is worth a flag: about that of the CD paper's
own example, Llama 3.1 8B on coherence (0.367, 0.338, 0.257, 0.372: 0.053)."""

_NOISE = 0.95  # the quantile of what sampling alone brings about


def evaluate(
    scores: Scores | Row,
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    scale: Scales | None = None,
    rules: Mapping[str, str] | None = None,
) -> Rows:
    """Agreement of each judge under each condition with the humans: a record per cell, in the order
    in which these appear, and level; see above.

    Args:
        levels, resamples, seed: see `MetricSettings`; records over the same groups are resampled
            alike.
        scale: dimension -> lowest and highest score that a human can give; without it bias is None.
        rules: name of a decoding -> its `rule`, put into its records.
    """
    check_metric_settings(levels, resamples, seed)
    table = Scores.of(scores)
    # 1. each cell by itself; texts that nobody rated, and failed answers, count in the shares and
    # the mean alone
    parts = {cell: table.part(cell) for cell in table.cells}
    answered = {cell: table.answered.part(cell) for cell in table.cells}
    correlated: dict[tuple[ScoreSeries, str], Correlated] = {}
    described: dict[ScoreSeries, Record] = {}
    failures: dict[tuple[ScoreSeries, str], Record] = {}
    for cell, part in parts.items():
        rated = table.answered.rated(cell)
        for level in levels:
            correlated[cell, level] = correlate_cell(table.answered, level, cell, resamples, seed)
            if len(answered[cell]["score"]) < len(part["score"]):
                failures[cell, level] = _with_failures(level, table, cell, resamples, seed)
        facts = _facts(part, rated, cell.range, (scale or {}).get(cell.dimension))
        if table.compares:
            pairs = Clusters.of(part["group_id"], resamples, seed)
            facts |= comparative(part["score_first"], part["score_second"], part["human"], pairs)
        described[cell] = facts
    # 2. each judge over its ranges
    records: dict[tuple[ScoreSeries, str], Record] = {}
    for ranges in series_of(table.cells).values():
        cells = list(ranges.values())
        by_range = [
            pd.Series(answered[cell]["score"], answered[cell]["example_id"]) for cell in cells
        ]
        # the ranges as raters: how well the judge agrees with itself when it is asked on other
        # scales
        agreement = mean_pairwise_spearman(pd.concat(by_range, axis=1).to_numpy())
        for level in levels:
            of_ranges = [correlated[cell, level] for cell in cells]
            spread, unstable = stability([of.values for of in of_ranges if of.known])
            for cell, measured in zip(cells, of_ranges, strict=True):
                record = {
                    "dataset": dataset,
                    "split": cell.split,
                    "level": level,
                    **cell.named,
                    "rule": (rules or {}).get(cell.decoding),
                    **_of_level(measured),
                    **described[cell],
                    **failures.get((cell, level), {}),
                    "stability": spread,
                    "self_agreement": agreement,
                }
                record["flags"] = _flags(measured, record["spearman_high"], unstable)
                records[cell, level] = record
    # 3. attacked texts against the clean ones
    for cell in table.cells:
        if cell.attack == CLEAN:
            continue
        changes = against_clean(cell, parts, correlated, levels, resamples, seed)
        for level, changed in zip(levels, changes, strict=True):
            records[cell, level] |= changed
    return [records[cell, level] for cell in table.cells for level in levels]


def correlate_cell(
    table: Scores,
    level: str,
    cell: ScoreSeries,
    resamples: int,
    seed: int,
    part: Columns | None = None,
) -> Correlated:
    """The correlations of the rated rows of a cell, or of some of them; those of all once for all
    who ask."""
    rated = table.rated(cell)
    if part is not None and len(part["score"]) < len(rated["score"]):
        return correlate_part(level, part, resamples, seed)
    key = (cell, level, resamples, seed)
    if key not in table.correlated:
        table.correlated[key] = correlate_part(level, rated, resamples, seed)
    return table.correlated[key]


def correlate_part(
    level: str,
    part: Columns,
    resamples: int,
    seed: int,
) -> Correlated:
    """The correlations of the rated rows of a table of scores, see `correlate`."""
    clusters = Clusters.of(part["group_id"], resamples, seed)
    return correlate(level, part["score"], part["human"], clusters, part["system_id"])


def check_metric_settings(levels: Sequence[str], resamples: int, seed: int) -> None:
    """Raises `UserError` for settings that are no `MetricSettings`."""
    # numbers of numpy are taken from who calls from Python
    if isinstance(resamples, np.integer):
        resamples = int(resamples)
    if isinstance(seed, np.integer):
        seed = int(seed)
    MetricSettings(levels, resamples, seed)


_MISSING = {
    "no ratings": "No correlation: nobody rated these texts.",
    "one system": "No correlation over systems: all texts are of one system, and it takes at least "
    "two.",
    "one text": "No correlation: there is one text, and it takes at least two.",
    "single texts": "No correlation within groups: no group has two texts.",
    "one group": "No intervals: there is one group, and resampling takes at least two.",
    "many systems": "No intervals over systems: {n:,} are more than the {most:,} that are "
    "resampled.",
}


def _sentence(measured: Correlated) -> str | None:
    """The reason why there are no correlations, or no intervals."""
    if measured.missing is None:
        return None
    return _MISSING[measured.missing].format(n=measured.n, most=MOST_SYSTEMS)


def _of_level(measured: Correlated) -> Record:
    """The part of a record that differs from level to level."""
    record = {
        "n": measured.n,
        "groups": measured.groups,
        **with_intervals(measured.figures),
        "constant": measured.constant,
        "constant_groups": measured.constant_groups,
        "human_constant_groups": measured.human_constant_groups,
        "missing": _sentence(measured),
    }
    for k, name in enumerate(CORRELATIONS):
        known = without_nan(measured.over_systems[k])
        low, high = percentile_interval(known) or (None, None)
        record |= {
            f"{name}_varied": None if measured.varied is None else float(measured.varied[k]),
            f"{name}_systems_low": low,
            f"{name}_systems_high": high,
        }
    return record


def _facts(part: Columns, rated: Columns, score_range: ScoreRange, ends: Scale | None) -> Record:
    """The part of a record that is alike at all levels: shares and mean of all texts, and the bias
    on the `rated` ones."""
    return {
        "failed_share": float((part["status"] == FAILED).mean()),
        "clamped_share": float((part["status"] == CLAMPED).mean()),
        "mean_score": float(part["score"].mean()),
        **favorite(part["score"], score_range),
        **bias(rated["score"], rated["human"], score_range, ends),
    }


def _with_failures(
    level: str, table: Scores, cell: ScoreSeries, resamples: int, seed: int
) -> Record:
    """The correlations of all rated texts of a cell where some answers could not be read: with
    other scores in their place, at worst and at best; and in `lowest` with the lowest score, as the
    papers count them."""
    part = table.rated(cell)
    as_scored = correlate_part(level, part, resamples, seed)
    # as others score them: a failed answer has the lowest score, which may help a judge or hurt it
    record: Record = {"lowest": with_intervals(as_scored.figures)}
    answered = part["status"] != FAILED
    worst = best = part["score"]
    if answered.any():
        worst, best = missing_bounds(part["score"], part["human"], answered, cell.range)
    for end, scores in (("worst", worst), ("best", best)):
        measured = correlate_part(level, part | {"score": scores}, 0, seed)
        for name, values in measured.figures.items():
            record[f"{name}_{end}"] = float(values[0]) if measured.known else None
    return record


def _flags(measured: Correlated, spearman_high: float | None, unstable: bool) -> list[str]:
    """The failure signatures that are raised."""
    enough = measured.groups >= FEWEST
    flags = {
        CONSTANT: measured.constant,
        CONSTANT_HUMANS: measured.constant_humans,
        INVERTED: enough and spearman_high is not None and spearman_high < 0,
        UNSTABLE: enough and unstable and measured.known,
    }
    return [flag for flag, holds in flags.items() if holds]


# --- bias of a judge, stability over ranges, likeness to its assistant --------------------------


def histogram(values: Array, score_range: ScoreRange) -> Array:
    """[candidates] int64 how many of the values [n] lie nearest to each candidate."""
    candidates = np.array(score_range.values)
    return np.bincount(nearest_place(values, candidates), minlength=len(candidates))


def bias(judge: Array, human: Array, score_range: ScoreRange, scale: Scale | None) -> Numbers:
    """Distance of the judge's scores [n] as a whole from the humans' [n] on a scale with these
    ends, mapped linearly to the range; None without a scale of some length, or without a rating.

    Returns:
        bias_wasserstein: the Wasserstein-1 distance, the mean distance of the sorted scores, as a
            share of the range.
        bias_kl: KL(humans || judge) in nats of the histograms over the candidates, smoothed by
            `SMOOTHING`.
        bias_shift: the judge's mean less the humans', as a share of the range.

    Example:
        >>> record = bias(np.array([4.0, 4.0, 5.0]), np.array([1.0, 2.0, 5.0]), ScoreRange(1, 5), (1, 5))
        >>> [round(value, 3) for value in record.values()]  # 3 + 2 + 0 points of distance over 3 texts and 4 points
        [0.417, 0.453, 0.417]
    """
    if scale is None or not scale[0] < scale[1] or not len(human):
        return {"bias_wasserstein": None, "bias_kl": None, "bias_shift": None}
    target = rescale(human, scale, score_range.ends)
    width = score_range.maximum - score_range.minimum
    # in one dimension the cheapest transport moves the k-th smallest to the k-th smallest
    apart = np.abs(np.sort(judge) - np.sort(target))
    shift = judge.mean() - target.mean()
    # KL is infinite as soon as the judge never gives a score that humans give
    p = histogram(target, score_range) + SMOOTHING
    q = histogram(judge, score_range) + SMOOTHING
    p /= p.sum()
    q /= q.sum()
    entropies = scipy.special.rel_entr(p, q)
    return {
        "bias_wasserstein": float(apart.mean() / width),
        "bias_kl": float(entropies.sum()),
        "bias_shift": float(shift / width),
    }


def favorite(judge: Array, score_range: ScoreRange) -> dict[str, float]:
    """modal_score: the candidate that most scores [n >= 1] lie nearest to, the lowest of equals;
    modal_share: their share."""
    counts = histogram(judge, score_range)
    return {
        "modal_score": score_range.values[int(counts.argmax())],
        "modal_share": float(counts.max() / len(judge)),
    }


def stability(correlations: Sequence[Array]) -> tuple[float | None, bool]:
    """The standard deviation (n - 1 in the denominator) of a judge's Spearman over ranges, each [3,
    1 + B] as in `Correlated.values`, None for a single range; and whether Spearman depends on the
    range: it is above `UNSTABLE_ABOVE`, and beyond what noise explains.

    Sampling noise is the standard deviation over ranges of what a resample adds to each range's own
    mean; the articles are resampled jointly, so that an easy article, easy in every range, is no
    instability. The deviation must exceed what 95 % of the resamples show. Without resamples
    nothing is unstable.
    """
    if len(correlations) < 2:
        return None, False
    spearman = [in_range[SPEARMAN] for in_range in correlations]  # each [1 + B]
    in_data = [values[0] for values in spearman]
    spread = float(np.std(in_data, ddof=1))
    shortest = min(map(len, spearman))
    if spread <= UNSTABLE_ABOVE or shortest == 1:
        return spread, False
    resampled = np.stack(spearman)[:, 1:]  # [ranges, B]
    # each range around its own mean: what is left differs between ranges by noise alone
    moved = resampled - resampled.mean(axis=1, keepdims=True)
    noise = moved.std(axis=0, ddof=1)
    explained = np.quantile(noise, _NOISE)
    return spread, bool(spread > explained)
