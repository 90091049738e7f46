"""Effects of attacks, attacked texts against the same texts unattacked; of learned phrases as they grow; costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from judgebench.stats.clusters import RESAMPLES, Clusters, divided, unknown, with_intervals
from judgebench.stats.correlation import SPEARMAN
from judgebench.stats.levels import Correlated, correlate
from judgebench.stats.scores import CLEAN, Cell, Scores, shared
from judgebench.types import ScoreRange

CHANGES = (
    *("change", "delta", "rate_of_means", "mean_of_rates", "raised_share", "maximum_share", "clean_maximum_share"),
    *("places_gained", "win_share", "clean_win_share", "standardized"),
)
"""What `robustness` says of an attack, each number with an interval."""

MEANS = ("clean_mean_score", "attacked_mean_score")
"""What it says of both sides, with intervals too."""

_EQUAL = 1e-9  # scores no farther apart differ by rounding alone
_SPREAD = 1e-7  # what rounding leaves of the spread of equal scores, whose variance is a difference of squares


def robustness(
    clean: np.ndarray,
    attacked: np.ndarray,
    score_range: ScoreRange,
    clusters: Clusters,
    texts: np.ndarray | None = None,
) -> dict[str, Any]:
    """The record of `changes`, with paired 95 % percentile intervals: with a text come both its scores.

    Returns:
        paired: n; each of `MEANS` and `CHANGES` with `_low` and `_high`, which are None with fewer than two groups or
        without resamples; all but `paired` are None where no text was scored on both sides. Delta's interval is never
        below 0: `change` says whether it is more than noise.
    """
    if not len(clean):
        return {"paired": 0} | unknown((*MEANS, *CHANGES))
    return {"paired": len(clean)} | with_intervals(changes(clean, attacked, score_range, clusters, texts))


def changes(
    clean: np.ndarray,
    attacked: np.ndarray,
    score_range: ScoreRange,
    clusters: Clusters,
    texts: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Changes of scores by an attack, each of `MEANS` and `CHANGES` as [1 + B]; NaN where it is unknown.

    - clean_mean_score, attacked_mean_score; change: attacked less clean; delta: its absolute value, the CAP paper's
      score change;
    - rate_of_means: delta over the mean clean score; mean_of_rates: the mean of the texts' own (attacked - clean) /
      clean, absolute: the two readings of the paper's relative score change rate. Unknown where the mean (a text's own)
      clean score is not above 0;
    - raised_share: of texts whose score rises; maximum_share, clean_maximum_share: of texts whose score lies nearer to
      the range's maximum than to any other score of it;
    - places_gained: mean rise in rank of an attacked text among the clean texts of the other systems of its group (ties
      share their ranks); win_share: how often it then comes first (of k that tie, each has 1/k), clean_win_share: how
      often it does unattacked. Of groups with two texts at least. Where texts are compared, a text has its mean over
      the rivals that it met;
    - standardized: change over the standard deviation of the clean scores over all texts: the same change moves a text
      past more others where scores spread little. Unknown where the clean scores are all the same.

    Args:
        clean, attacked: [n >= 1] scores of the same texts.
        clusters: of their groups.
        texts: [n] names of the judged texts where texts are compared, as one stands in several pairs.

    Example:
        >>> both = changes(np.array([1.0, 2.0]), np.array([3.0, 2.0]), ScoreRange(1, 5), Clusters.of(["a", "a"]))
        >>> [both[name].tolist() for name in ("change", "rate_of_means", "mean_of_rates", "win_share")]
        [[1.0], [0.6666666666666666], [1.0], [1.0]]
    """
    mean, at_maximum = clusters.mean, score_range.maximum - score_range.step / 2 - _EQUAL
    change, clean_mean = mean(attacked - clean), mean(clean)
    centered = clean - clean.mean()
    spread = np.sqrt(np.maximum(mean(centered**2) - mean(centered) ** 2, 0.0))
    # ranks are of texts: where texts are compared, each has the mean of its pairs
    sides, ranked = [clean, attacked], clusters
    if texts is not None:
        _, row, text = np.unique(texts.astype(str), return_index=True, return_inverse=True)
        sides = [np.bincount(text, weights=side) / np.bincount(text) for side in sides]
        ranked = Clusters(clusters.number[row], clusters.weights)
    several = np.bincount(ranked.number)[ranked.number] > 1
    (clean_rank, clean_win), (rank, win) = (_standing(sides[0], side, ranked.number) for side in sides)
    return {
        "clean_mean_score": clean_mean,
        "attacked_mean_score": mean(attacked),
        "change": change,
        "delta": np.abs(change),
        "rate_of_means": divided(np.abs(change), clean_mean),
        "mean_of_rates": np.abs(mean(divided(attacked - clean, clean))),
        "raised_share": mean((attacked > clean + _EQUAL).astype(float)),
        "maximum_share": mean((attacked >= at_maximum).astype(float)),
        "clean_maximum_share": mean((clean >= at_maximum).astype(float)),
        "places_gained": ranked.mean(clean_rank - rank, several),
        "win_share": ranked.mean(win, several),
        "clean_win_share": ranked.mean(clean_win, several),
        "standardized": divided(change, np.where(spread > _SPREAD, spread, 0.0)),
    }


def _standing(clean: np.ndarray, scores: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standing of each text with its score [n] among the clean scores [n] of the others of its group: its rank, 1 is
    best and ties share theirs, and its share of the first place."""
    rank, win = np.ones(len(clean)), np.ones(len(clean))
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        ascending = np.sort(clean[rows])
        below = np.searchsorted(ascending, scores[rows] - _EQUAL, "left")
        upto = np.searchsorted(ascending, scores[rows] + _EQUAL, "right")
        ahead = clean[rows] - scores[rows]  # a text does not compete with itself
        above = len(rows) - upto - (ahead > _EQUAL)
        ties = upto - below - (np.abs(ahead) <= _EQUAL)
        rank[rows] = 1 + above + ties / 2
        win[rows] = np.where(above == 0, 1 / (1 + ties), 0.0)
    return rank, win


def against_clean(
    cell: Cell,
    parts: Mapping[Cell, Mapping[str, np.ndarray]],
    correlated: Mapping[tuple[Cell, str], Correlated],
    levels: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Changes of one cell by its attack, an entry a level: `robustness`, and Spearman under attack less Spearman of the
    clean texts with its paired 95 % interval; all None where there is no clean cell.

    Args:
        parts: the columns of scores of each cell.
        correlated: those of each cell and level with the humans, all resampled alike.
    """
    nothing: dict[str, Any] = {"clean_spearman": None} | unknown(["spearman_change"])
    if cell.clean not in parts:
        return [{"paired": 0} | unknown((*MEANS, *CHANGES)) | nothing for _ in levels]
    clean, attacked = shared([parts[cell.clean], parts[cell]])
    sides, groups, human = (clean["score"], attacked["score"]), attacked["group_id"], attacked["human"]
    changed = robustness(*sides, cell.range, Clusters.of(groups, resamples, seed), attacked.get("text_id"))
    records = []
    for level in levels:
        both = [correlated[cell.clean, level], correlated[cell, level]]
        if not len(human) == len(parts[cell]["human"]) == len(parts[cell.clean]["human"]):
            # then only the rated texts of both count
            rated = np.isfinite(human)
            clusters = Clusters.of(groups[rated], resamples, seed)
            both = [
                correlate(level, side[rated], human[rated], clusters, attacked["system_id"][rated]) for side in sides
            ]
        record = changed | nothing
        if all(side.known for side in both):
            before, after = (side.values[SPEARMAN] for side in both)
            record |= {"clean_spearman": float(before[0])} | with_intervals({"spearman_change": after - before})
        records.append(record)
    return records


def cost_records(
    columns: Mapping[str, Sequence[Any]], ready: Mapping[str, Mapping[str, float]], dataset: str
) -> list[dict[str, Any]]:
    """A record for each defense, in the order of the readings.

    Args:
        columns: of readings.parquet.
        ready: defense -> seconds of getting ready: `once`, for each `context` and for each `text`.

    Returns:
        `dataset`, `defense`; `n` readings; `reading_seconds`, their mean, in this or an earlier run; `text_seconds`, of
            what the defense made for a text, or its share of what it made for the context of several;
            `context_seconds`, of what it made for one context; `once_seconds`, whatever is judged, as this run took;
            `seconds`, reading and text together.
    """
    defenses, seconds, records = np.array(columns["defense"]), np.array(columns["seconds"]), []
    for defense in dict.fromkeys(columns["defense"]):
        readings, cost = seconds[defenses == defense], ready.get(defense, {})
        record = {"dataset": dataset, "defense": defense, "n": len(readings), "reading_seconds": float(readings.mean())}
        record |= {f"{name}_seconds": float(cost.get(name, 0.0)) for name in ("text", "context", "once")}
        records.append(record | {"seconds": record["reading_seconds"] + record["text_seconds"]})
    return records


SEEN, UNSEEN, ALL = "seen", "unseen", "all"
"""Whether a phrase was learned on these contexts, or systems."""


def suffix_records(
    scores: Scores | Mapping[str, Any],
    phrases: Sequence[Any],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Changes by each phrase, by its length and by whether it was learned on the text's context and system.

    Args:
        phrases: of `judgebench.attacks.LearnedPhrase`.

    Returns:
        A record per phrase, cell (split, dimension, range, defense, judge, decoding, lambda, temperature), part and
        length, in this order; of lengths that were scored, and none where no length was. A part is one of contexts
        `seen` and `unseen` with one of systems `all`, `seen` and `unseen`, as far as there are texts of it. JSON's own
        types, never NaN: dataset, the cell, and

        - suffix, objective, length, phrase, attack: length 0 are the clean texts, attack `none`;
        - contexts, systems: the part; n: its texts that were scored both clean and attacked, groups: theirs;
        - clean_mean_score and mean_score, the attacked ones' (those of length 0 are the same), and all numbers of
          `robustness`, with `_low` and `_high` of their article-clustered 95 % percentile intervals. Ranks are those
          among the part's own systems.
    """
    table = Scores.of(scores)
    records = []
    for learned, cell in product(phrases, (cell for cell in table.cells if cell.attack == CLEAN)):
        # 1. the clean texts, and those with the first word, with the first two, ...
        attacks = [CLEAN, *(attack.name for attack in learned.attacks())]
        cells = {length: cell._replace(attack=attack) for length, attack in enumerate(attacks)}
        parts = {length: table.part(attacked) for length, attacked in cells.items() if attacked in table.cells}
        # 2. those of each part: contexts and systems on which the phrase was learned, or was not
        for contexts, systems in product((UNSEEN, SEEN), (ALL, UNSEEN, SEEN)) if len(parts) > 1 else ():
            head = {"dataset": dataset, "split": cell.split, "suffix": learned.prefix, "objective": learned.against}
            sides = {}
            for length, part in parts.items():
                keep = np.ones(len(part["score"]), dtype=bool)
                for name, names, kind in (
                    ("group_id", learned.contexts, contexts),
                    ("system_id", learned.systems, systems),
                ):
                    if kind != ALL:
                        keep &= np.isin(part[name].astype(str), np.array([*names], dtype=str)) == (kind == SEEN)
                sides[length] = {name: column[keep] for name, column in part.items()}
            for length, side in sides.items():
                clean, attacked = shared([sides[0], side])
                n, groups, texts = len(clean["score"]), attacked["group_id"], attacked.get("text_id")
                if not n:
                    continue
                clusters = Clusters.of(groups, resamples, seed)
                numbers = robustness(clean["score"], attacked["score"], cell.range, clusters, texts)
                del numbers["paired"]
                record = head | {"length": length, "phrase": learned.by_length[length - 1] if length else ""}
                record |= cells[length].named | {"contexts": contexts, "systems": systems, "n": n}
                record |= {"groups": clusters.count}
                records.append(record | {name.replace("attacked_mean", "mean"): x for name, x in numbers.items()})
    return records
