"""Effects of attacks, attacked texts against the same texts unattacked; of learned phrases as they grow; costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from judgebench.stats.clusters import RESAMPLES, Clusters, divided, unknown, with_interval
from judgebench.stats.correlation import SPEARMAN
from judgebench.stats.levels import Correlated, correlate
from judgebench.stats.scores import CLEAN, Cell, Scores
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


@dataclass(frozen=True)
class Paired:
    """Clean and attacked scores of the same n texts, in one order.

    Attributes:
        clean, attacked, human: [n]; human is NaN where nobody rated.
        groups, systems: [n] labels.
        whole: True where these are all texts of both sides.
        texts: [n] names of the judged texts where texts are compared, as one stands in several pairs; else None.
    """

    clean: np.ndarray
    attacked: np.ndarray
    human: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    whole: bool
    texts: np.ndarray | None = None

    @classmethod
    def of(cls, clean: Mapping[str, np.ndarray], attacked: Mapping[str, np.ndarray]) -> Paired:
        """The texts that both sides have scored; the columns are those of scores, of one cell each."""
        ids = [np.asarray(side["example_id"]).astype(str) for side in (clean, attacked)]
        common, first, second = np.intersect1d(ids[0], ids[1], assume_unique=True, return_indices=True)
        return cls(
            clean["score"][first],
            attacked["score"][second],
            attacked["human"][second],
            attacked["group_id"][second],
            attacked["system_id"][second],
            whole=len(common) == len(ids[0]) == len(ids[1]),
            texts=attacked["text_id"][second] if "text_id" in attacked else None,
        )


def robustness(paired: Paired, score_range: ScoreRange, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Changes of the scores by an attack, with paired 95 % percentile intervals: groups are resampled, and with a
    text come both its clean and its attacked score.

    Returns:
        - paired: n, the texts that were scored both clean and attacked; clean_mean_score, attacked_mean_score: theirs;
        - change: mean attacked - mean clean; delta: its absolute value, the CAP paper's score change;
        - rate_of_means: delta over the mean clean score; mean_of_rates: the mean of the texts' own (attacked - clean)
          / clean, absolute: the two readings of the paper's relative score change rate. None where the mean (a text's
          own) clean score is not above 0;
        - raised_share: of texts whose score rises; maximum_share, clean_maximum_share: of texts whose score lies nearer
          to the range's maximum than to any other score of it;
        - places_gained: mean rise in rank of an attacked text among the clean texts of the other systems of its group
          (ties share their ranks); win_share: how often it then comes first (of k that tie, each has 1/k),
          clean_win_share: how often it does unattacked. Of groups with two texts at least; else None. Where texts are
          compared, a text has its mean over the rivals that it met;
        - standardized: change over the standard deviation of the clean scores over all texts: the same change moves a
          text past more others where scores spread little. None where the clean scores are all the same.

        Each of `MEANS` and `CHANGES` with `_low` and `_high`, which are None with fewer than two groups or without
        resamples; all but `paired` are None where no text was scored on both sides. Delta's interval is never below 0:
        `change` says whether it is more than noise.
    """
    if not len(paired.clean):
        return {"paired": 0} | unknown((*MEANS, *CHANGES))
    record: dict[str, Any] = {"paired": len(paired.clean)}
    for name, values in resampled_changes(paired, score_range, Clusters.of(paired.groups, resamples, seed)).items():
        record |= with_interval(name, values)
    return record


def resampled_changes(paired: Paired, score_range: ScoreRange, clusters: Clusters) -> dict[str, np.ndarray]:
    """The numbers of `robustness` before intervals are taken: whoever subtracts them keeps the pairing.

    Args:
        paired: at least one text.
        clusters: of its groups.

    Returns:
        Each of `MEANS` and `CHANGES`: [1 + B]; NaN where it is unknown.
    """
    clean, attacked, mean = paired.clean, paired.attacked, clusters.mean
    at_maximum = score_range.maximum - score_range.step / 2 - _EQUAL
    change, clean_mean = mean(attacked - clean), mean(clean)
    centered = clean - clean.mean()
    spread = np.sqrt(np.maximum(mean(centered**2) - mean(centered) ** 2, 0.0))
    # ranks are of texts: where texts are compared, each has the mean of its pairs
    own, texts = [clean, attacked], clusters
    if paired.texts is not None:
        _, row, text = np.unique(np.asarray(paired.texts).astype(str), return_index=True, return_inverse=True)
        own = [np.bincount(text, weights=side) / np.bincount(text) for side in own]
        texts = Clusters(clusters.number[row], clusters.weights)
    several = np.bincount(texts.number)[texts.number] > 1
    clean_rank, clean_win = _standing(own[0], own[0], texts.number)
    rank, win = _standing(own[0], own[1], texts.number)
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
        "places_gained": texts.mean(clean_rank - rank, several),
        "win_share": texts.mean(win, several),
        "clean_win_share": texts.mean(clean_win, several),
        "standardized": divided(change, np.where(spread > _SPREAD, spread, 0.0)),
    }


def _standing(clean: np.ndarray, own: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standing of a text with its `own` score among the clean scores of the others of its group.

    Returns:
        [n] rank, 1 is best and ties share theirs; [n] its share of the first place.
    """
    rank, win = np.ones(len(clean)), np.ones(len(clean))
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        ascending = np.sort(clean[rows])
        below = np.searchsorted(ascending, own[rows] - _EQUAL, "left")
        upto = np.searchsorted(ascending, own[rows] + _EQUAL, "right")
        ahead = clean[rows] - own[rows]  # a text does not compete with itself
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
        cell: of an attack.
        parts: the columns of scores of each cell.
        correlated: those of each cell and level with the humans, all resampled alike.
        levels, resamples, seed: see `evaluate`.
    """
    clean = cell.clean
    nothing: dict[str, Any] = {"clean_spearman": None, **unknown(["spearman_change"])}
    if clean not in parts:
        return [{"paired": 0, **unknown((*MEANS, *CHANGES)), **nothing} for _ in levels]
    paired = Paired.of(parts[clean], parts[cell])
    changes, rated = robustness(paired, cell.range, resamples, seed), np.isfinite(paired.human)
    clusters = Clusters.of(paired.groups[rated], resamples, seed)
    records = []
    for level in levels:
        both = [correlated[clean, level], correlated[cell, level]]
        if not paired.whole:  # then only the rated texts of both count
            human, systems = paired.human[rated], paired.systems[rated]
            sides = (side[rated] for side in (paired.clean, paired.attacked))
            both = [correlate(level, side, human, clusters, systems) for side in sides]
        record = changes | nothing
        if all(side.known for side in both):
            before, after = (side.values[SPEARMAN] for side in both)
            record |= {"clean_spearman": float(before[0]), **with_interval("spearman_change", after - before)}
        records.append(record)
    return records


def cost_records(
    columns: Mapping[str, Sequence[Any]], ready: Mapping[str, Mapping[str, float]], dataset: str
) -> list[dict[str, Any]]:
    """A record for each defense, in the order of the readings, from columns of readings.parquet and, defense by
    defense, its seconds of getting ready: `once`, for each `context` and for each `text`.

    Returns:
        `dataset`, `defense`; `n` readings; `reading_seconds`, their mean, in this or an earlier run; `text_seconds`, of
            what the defense made for a text, or its share of what it made for the context of several;
            `context_seconds`, of what it made for one context; `once_seconds`, whatever is judged, as this run took;
            `seconds`, reading and text together.
    """
    seconds: dict[str, list[float]] = {}
    for defense, taken in zip(columns["defense"], columns["seconds"], strict=True):
        seconds.setdefault(defense, []).append(taken)
    records = []
    for defense, readings in seconds.items():
        mean, cost = float(np.mean(readings)), ready.get(defense, {})
        once, context, text = (float(cost.get(name, 0.0)) for name in ("once", "context", "text"))
        record = {"dataset": dataset, "defense": defense, "n": len(readings), "reading_seconds": mean}
        record |= {"text_seconds": text, "context_seconds": context, "once_seconds": once, "seconds": mean + text}
        records.append(record)
    return records


SEEN, UNSEEN, ALL = "seen", "unseen", "all"
"""Whether a phrase was learned on these contexts, or systems."""


@dataclass(frozen=True)
class Suffix:
    """A phrase that was learned word by word, and on what.

    Attributes:
        name: of the attacks: `<name>_1` puts the first word behind the judged text, `<name>_2` two, and so on.
        phrases: those that are appended, the shortest first: of one word, of two, ...
        contexts: the group_ids, systems: the system_ids of the texts on which it was learned.
        objective: what the search raised.

    Raises:
        ValueError: no phrase, or an empty one.

    Example:
        >>> suffix = Suffix("adv_suffix", ("outstandingly", "outstandingly summable"), frozenset({"a"}), frozenset())
        >>> suffix.attack(0), suffix.attack(2), suffix.phrase(2)
        ('none', 'adv_suffix_2', 'outstandingly summable')
    """

    name: str
    phrases: Sequence[str]
    contexts: frozenset[str]
    systems: frozenset[str]
    objective: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.phrases, str) or not self.phrases or not all(self.phrases):
            raise ValueError(f"{self.name}: phrases must be those of 1, 2, ... words, got {self.phrases!r}")

    def attack(self, length: int) -> str:
        """The name in column `attack` of its first `length` words; 0 are the clean texts."""
        return f"{self.name}_{length}" if length else CLEAN

    def phrase(self, length: int) -> str:
        """Its first `length` words; empty for 0."""
        return self.phrases[length - 1] if length else ""


def suffix_records(
    scores: Scores | Mapping[str, Any],
    suffixes: Sequence[Suffix],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Changes by each phrase, by its length and by whether it was learned on the text's context and system.

    Args:
        scores: or its columns; attacks as `Suffix.attack` calls them.
        dataset: its name, put into each record.
        resamples, seed: of the groups, behind each interval; lengths over the same groups are resampled alike.

    Returns:
        A record per suffix, cell (split, dimension, range, defense, judge, decoding, lambda, temperature), part and
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
    clean = [cell for cell in table.cells if cell.attack == CLEAN]
    for suffix, cell in product(suffixes, clean):
        cells = {length: cell._replace(attack=suffix.attack(length)) for length in range(len(suffix.phrases) + 1)}
        rows = {length: table.cells[attacked] for length, attacked in cells.items() if attacked in table.cells}
        if list(rows) == [0]:
            continue
        for contexts, systems in product((UNSEEN, SEEN), (ALL, UNSEEN, SEEN)):
            sides = {}
            for length, of_length in rows.items():
                keep = np.ones(len(of_length), dtype=bool)
                learned = (("group_id", suffix.contexts, contexts), ("system_id", suffix.systems, systems))
                for name, names, part in learned:
                    if part != ALL:
                        labels = table.columns[name][of_length].astype(str)
                        keep &= np.isin(labels, np.array(sorted(names), dtype=str)) == (part == SEEN)
                sides[length] = table.part(cell, of_length[keep])
            for length, side in sides.items():
                paired = Paired.of(sides[0], side)
                changes = robustness(paired, cell.range, resamples, seed)
                n = changes.pop("paired")
                if not n:
                    continue
                record: dict[str, Any] = {"dataset": dataset, "split": cell.split, "suffix": suffix.name}
                record |= {"objective": suffix.objective, "length": length, "phrase": suffix.phrase(length)}
                record |= cells[length].named | {"contexts": contexts, "systems": systems, "n": n}
                record |= {"groups": len(np.unique(paired.groups))}
                records.append(record | {name.replace("attacked_mean", "mean"): x for name, x in changes.items()})
    return records
