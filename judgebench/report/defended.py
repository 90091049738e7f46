"""Several defenses side by side: a block a dimension, a section an attack, range and judge, a row a defense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.robustness import AttackRow, arrange_attacks
from judgebench.report.worded import NOTE as WORDED_NOTE
from judgebench.report.worded import marked, with_stand_ins
from judgebench.results.series import NO_DEFENSE, defenses_of

NOTE = (
    "Clean, Spearman: of the clean texts under the same defense; the change is taken against them. By how much a "
    "defense's Spearman lies below that of none is what it costs where nobody attacks."
)


@dataclass(frozen=True)
class DefenseRow:
    """One defense: what it makes of the clean texts, and of the attack.

    Attributes:
        name: as people read it, with a mark where the judge answers in words.
    """

    defense: str
    clean: AttackRow
    attacked: AttackRow
    name: str


@dataclass(frozen=True)
class DefenseSection:
    """One attack on one judge and decoding at one range; no defense first."""

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
    """The attacked records of metrics.json as `arrange_attacks` takes them, of dimensions with several defenses.

    A defense under which the judge answers in words stands in the sections of its judge's other decodings.
    """
    blocks = []
    for dimension in dict.fromkeys(record["dimension"] for record in records):
        own = [record for record in records if record["dimension"] == dimension]
        defenses = defenses_of(own)
        own, worded = with_stand_ins(own)
        found: dict[tuple[str, str, str], list[DefenseRow]] = {}
        for defense in defenses:
            for block in arrange_attacks([record for record in own if record["defense"] == defense]):
                for section in block.sections:
                    clean, *attacked = section.rows
                    for row in attacked:
                        place = (row.attack, section.place, section.series)
                        found.setdefault(place, []).append(DefenseRow(defense, clean, row, marked(defense, worded)))
        if len(defenses) > 1 and found:
            blocks.append(DefenseBlock(dimension, [DefenseSection(*place, rows) for place, rows in found.items()]))
    return blocks


def defense_sentences(blocks: Sequence[DefenseBlock]) -> list[str]:
    """One sentence a dimension and attack, of the judge and range in which the attack gains most without a defense:
    what it gains then, and under the defense that leaves the mean score nearest to the clean texts'."""
    sentences = []
    for block in blocks:
        for attack in dict.fromkeys(section.attack for section in block.sections):
            open_ = [
                section
                for section in block.sections
                if section.attack == attack and section.rows[0].defense == NO_DEFENSE and len(section.rows) > 1
            ]
            if open_:
                most = max(open_, key=lambda section: _gain(section.rows[0]))
                sentences.append(f"{block.condition}: {_sentence(most)}")
    return sentences


def _sentence(section: DefenseSection) -> str:
    bare, *defended = section.rows
    told = f"{section.attack} changes the mean score of {section.series} in range {section.place} by "
    told += f"{_ends(bare)} without a defense"
    change = bare.attacked.change
    if change is None or (change.low is not None and change.low <= 0):
        return f"{told}, which is no gain beyond chance, so there is nothing to defend against."
    least = min(defended, key=lambda row: abs(_gain(row)))
    if abs(_gain(least)) >= abs(_gain(bare)):
        several = f"none of {len(defended)} defenses" if len(defended) > 1 else f"{least.name} does not"
        return f"{told}; {several} {'keeps' if len(defended) > 1 else 'keep'} it nearer to what it gives clean texts."
    told += f"; {'under' if len(defended) == 1 else f'least of {len(defended)} defenses under'} {least.name}, by "
    told += _ends(least)
    before, after = bare.clean.spearman, least.clean.spearman
    if before is not None and after is not None:
        told += f". What that costs where nobody attacks: Spearman {after:.3f} instead of {before:.3f}"
    return f"{told}."


def _gain(row: DefenseRow) -> float:
    change = row.attacked.change
    return float("inf") if change is None or change.value is None else change.value


def _ends(row: DefenseRow) -> str:
    change = row.attacked.change
    if change is None or change.value is None:
        return "an unknown amount"
    return f"{change.value:+.2f}" + ("" if change.low is None else f" [{change.low:+.2f}, {change.high:+.2f}]")


def defended_note(blocks: Sequence[DefenseBlock]) -> str:
    """What the numbers are."""
    worded = any(row.name != row.defense for block in blocks for section in block.sections for row in section.rows)
    return f"{NOTE} {WORDED_NOTE}" if worded else NOTE
