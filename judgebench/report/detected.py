"""What detectors find, arranged as people read it: a warning that every text gets protects nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.robustness import share

DETECTORS_NOTE = (
    "F1: on the development texts, on which the threshold was chosen as the best. All else on test texts. Precision: "
    "clean and attacked texts weigh the same, so that chance is 50 %. Recall: share of the attacked texts that are "
    "warned of, then by attack; clean: share of the clean ones."
)


@dataclass(frozen=True)
class DetectorRow:
    """One detector; shares of the test split's texts, None where there are none of a kind.

    Attributes:
        name: as a defense.
        f1: on the texts that its threshold was chosen on.
        precision, recall: of its warnings.
        clean: share of the clean texts that are warned of.
        attacks: attack -> recall.
    """

    name: str
    f1: float | None
    precision: float | None
    recall: float | None
    clean: float | None
    attacks: Mapping[str, float]

    @property
    def by_attack(self) -> str:
        """The attacks' recalls, as tables show them."""
        return ", ".join(f"{attack} {share(found)}" for attack, found in self.attacks.items())


def arrange_detectors(records: Sequence[Mapping[str, Any]]) -> list[DetectorRow]:
    """Of the records of detectors.json."""
    return [
        DetectorRow(
            name=str(one["defense"]),
            f1=one["training"]["f1"],
            precision=one["test"]["precision"],
            recall=one["test"]["recall"],
            clean=one["test"]["false_positive_rate"],
            attacks=dict(one["test"].get("recall_by_attack") or {}),
        )
        for one in records
    ]


def detector_sentences(rows: Sequence[DetectorRow]) -> list[str]:
    """Whether each warns of attacked texts more than of clean ones."""
    said = []
    for row in rows:
        if row.recall is None or row.clean is None:
            continue
        found = f"{row.name} warns of {share(row.recall)} of the attacked test texts and of {share(row.clean)} of the "
        if row.recall > row.clean:
            said.append(f"{found}clean ones.")
        else:
            not_apart = "it does not tell them apart, and what changes under it is no work of detection."
            said.append(f"{found}clean ones: {not_apart}")
    return said
