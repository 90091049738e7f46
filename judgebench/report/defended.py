"""Several defenses side by side: a block a dimension, a section an attack, range and judge, a row a defense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.robustness import AttackRow, arrange_attacks

NOTE = (
    "Clean, Spearman: of the clean texts under the same defense; the change is taken against them. By how much a "
    "defense's Spearman lies below that of none is what it costs where nobody attacks."
)


@dataclass(frozen=True)
class DefenseRow:
    """One defense: what it makes of the clean texts, and of the attack."""

    defense: str
    clean: AttackRow
    attacked: AttackRow


@dataclass(frozen=True)
class DefenseSection:
    """One attack on one judge and decoding at one range; defenses in the configured order."""

    attack: str
    place: str
    series: str
    rows: Sequence[DefenseRow]


@dataclass(frozen=True)
class DefenseBlock:
    """One dimension."""

    condition: str
    sections: Sequence[DefenseSection]


def arrange_defenses(records: Sequence[Mapping[str, Any]]) -> list[DefenseBlock]:
    """The attacked records of metrics.json as `arrange_attacks` takes them, of dimensions with several defenses."""
    blocks = []
    for dimension in dict.fromkeys(record["dimension"] for record in records):
        own = [record for record in records if record["dimension"] == dimension]
        defenses = list(dict.fromkeys(record["defense"] for record in own))
        found: dict[tuple[str, str, str], list[DefenseRow]] = {}
        for defense in defenses:
            for block in arrange_attacks([record for record in own if record["defense"] == defense]):
                for section in block.sections:
                    clean, *attacked = section.rows
                    for row in attacked:
                        place = (row.attack, section.place, section.series)
                        found.setdefault(place, []).append(DefenseRow(defense, clean, row))
        if len(defenses) > 1 and found:
            blocks.append(DefenseBlock(dimension, [DefenseSection(*place, rows) for place, rows in found.items()]))
    return blocks
