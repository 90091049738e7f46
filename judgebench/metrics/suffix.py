"""Effects of a learned phrase as it grows, on what it was learned on and on what it never saw.

The curves of Raina et al. 2024 ("Is LLM-as-a-Judge Robust?"), and of figures 6 and 7 of the CAP paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from judgebench.metrics.cells import Cell, cells, checked
from judgebench.metrics.resampling import RESAMPLES
from judgebench.metrics.robustness import CHANGES, CLEAN, pair, robustness
from judgebench.types import ScoreRange

SEEN, UNSEEN, ALL = "seen", "unseen", "all"
"""Whether a phrase was learned on these contexts, or systems."""

_USED = ("example_id", "group_id", "system_id", "score", "human")


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

    @property
    def most(self) -> int:
        """Words of the longest phrase."""
        return len(self.phrases)

    def attack(self, length: int) -> str:
        """The name in column `attack` of its first `length` words; 0 are the clean texts."""
        return f"{self.name}_{length}" if length else CLEAN

    def phrase(self, length: int) -> str:
        """Its first `length` words; empty for 0."""
        return self.phrases[length - 1] if length else ""


def suffix_records(
    scores: Mapping[str, np.ndarray],
    suffixes: Sequence[Suffix],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Changes by each phrase, by its length and by whether it was learned on the text's context and system.

    Args:
        scores: columns of scores, as `evaluate` takes them; attacks as `Suffix.attack` calls them.
        suffixes: what is told of; attacks that no suffix has are left alone.
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

    Raises:
        ValueError: columns that `evaluate` refuses too.
    """
    columns = checked(scores)
    rows_of = cells(columns)
    records = []
    for suffix in suffixes:
        for cell in (cell for cell in rows_of if cell.attack == CLEAN):
            attacks = {length: cell._replace(attack=suffix.attack(length)) for length in range(suffix.most + 1)}
            rows = {length: rows_of[attacked] for length, attacked in attacks.items() if attacked in rows_of}
            if list(rows) == [0]:
                continue
            for contexts, systems in product((UNSEEN, SEEN), (ALL, UNSEEN, SEEN)):
                sides = {length: _part(columns, own, suffix, contexts, systems) for length, own in rows.items()}
                for length, side in sides.items():
                    named = {"contexts": contexts, "systems": systems}
                    measured = _measured(sides[0], side, cell, resamples, seed)
                    if measured["n"]:
                        records.append({"dataset": dataset} | _head(suffix, length, cell) | named | measured)
    return records


def _part(
    columns: Mapping[str, np.ndarray], rows: np.ndarray, suffix: Suffix, contexts: str, systems: str
) -> dict[str, np.ndarray]:
    """The columns of those texts that belong to a part."""
    keep = _among(columns["group_id"][rows], suffix.contexts, contexts)
    keep &= _among(columns["system_id"][rows], suffix.systems, systems)
    return {name: columns[name][rows[keep]] for name in _USED}


def _among(labels: np.ndarray, known: frozenset[str], part: str) -> np.ndarray:
    if part == ALL:
        return np.ones(len(labels), dtype=bool)
    return np.isin(labels.astype(str), np.array(sorted(known), dtype=str)) == (part == SEEN)


def _head(suffix: Suffix, length: int, cell: Cell) -> dict[str, Any]:
    named = cell.named | {"attack": suffix.attack(length)}
    told = {"suffix": suffix.name, "objective": suffix.objective, "length": length, "phrase": suffix.phrase(length)}
    return {"split": named.pop("split")} | told | named


def _measured(
    clean: Mapping[str, np.ndarray], attacked: Mapping[str, np.ndarray], cell: Cell, resamples: int, seed: int
) -> dict[str, Any]:
    paired = pair(clean, attacked)
    found = robustness(paired, ScoreRange(*cell.range), resamples, seed)
    record: dict[str, Any] = {"n": found["paired"], "groups": len(np.unique(paired.groups))}
    for name, given in (("clean_mean_score", "clean_mean_score"), ("mean_score", "attacked_mean_score")):
        record |= {f"{name}{end}": found[f"{given}{end}"] for end in ("", "_low", "_high")}
    return record | {f"{name}{end}": found[f"{name}{end}"] for name in CHANGES for end in ("", "_low", "_high")}
