"""The CAP paper's table 1: mean scores under attack with references of random and of standard quality, the published
figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.report.paper.cap import compared_with, own_name
from judgebench.report.paper.cap_found import Attacked, CapFound, Record, attacked_notes, value_of
from judgebench.report.paper.cap_names import ATTACKS, CAP, JUDGES, NO_DEFENSE, RANDOM, Defended, Place, paper_data
from judgebench.report.paper.cells import CellLine, CellTable, Measure, signed_two, two
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.tables import Value

_HEADS = ("Data", "Judge", "Attack", "Condition")
_MEASURES = [
    Measure("score", "mean score", two),
    Measure("change", "change", signed_two),
    Measure("clean", "clean, same prompt", two, paper=False),
]
_CAPTION = "Mean scores of texts under attack, with references of random and of standard quality in the prompt."
_ABOUT = (
    "Change: against the original, the mean of the clean texts without defense. Clean, same prompt: what the same "
    "prompt with the same references makes of the clean texts, which the paper does not print: only against it is a "
    "change the attack's alone."
)
_UNNAMED = (
    "The paper names neither attack nor tutor of its table 1: the changes are those of AdvSuffix in its tables 2 and 3."
)
_CONDITIONS = {
    "original": "original",
    "attack": "attack",
    RANDOM: "random reference",
    "standard_reference": "standard reference",
}
_REFERENCES = {RANDOM: RANDOM, "standard_reference": CAP}
"""Condition -> the defense that it is."""

_Printed = dict[tuple[str, System], dict[str, dict[str, float | None]]]


def motivation_tables(found: CapFound) -> list[CellTable]:
    """Table 1, of runs with random references or with CAP; then a table for each other data set, dimension or range.

    A line has the attack of ours; the paper's figures stand beside AdvSuffix.
    """
    told = {place: cells for place in found.attacked if (cells := _referenced(place, found))}
    papers = {place: cells for place, cells in told.items() if paper_data(place) is not None}
    tables = []
    if papers:
        printed = _printed()
        lines = [line for place, cells in papers.items() for line in _lines(place, cells, printed, found)]
        shown = {
            (place[0], key.system) for place, cells in papers.items() for key in cells if key.attack == "advsuffix"
        }
        for (dataset, system), conditions in printed.items():
            if (dataset, system) not in shown:
                lines += [
                    CellLine((dataset, _judge(system, found), ATTACKS["advsuffix"], _CONDITIONS[condition]), {}, cell)
                    for condition, cell in conditions.items()
                ]
        notes = [_ABOUT, _UNNAMED, *_inferred()]
        for cells in papers.values():
            notes += [note for note in attacked_notes(cells, found) if note not in notes]
        tables.append(CellTable("cap_table_1", "CAP, Table 1", _CAPTION, _HEADS, _MEASURES, lines, notes))
    for place, cells in told.items():
        if place not in papers:
            name = f"{own_name(place, found.attacked)}_references"
            notes = [_ABOUT, *attacked_notes(cells, found), *compared_with(place[0])]
            lines = _lines(place, cells, {}, found)
            tables.append(
                CellTable(name, "Ours", f"Ours (not in the paper): {_CAPTION}", _HEADS, _MEASURES, lines, notes)
            )
    return tables


def _referenced(place: Place, found: CapFound) -> dict[Attacked, Record]:
    """The cells that the table tells of; empty where the place has no references, or no base without them."""
    kinds = (NO_DEFENSE, *_REFERENCES.values())
    cells = {key: record for key, record in found.attacked[place].items() if key.defense.defense in kinds}
    bases = {key[:2] for key in cells if key.defense.defense == NO_DEFENSE}
    cells = {key: record for key, record in cells.items() if key[:2] in bases}
    return cells if any(key.defense.defense != NO_DEFENSE for key in cells) else {}


def _lines(place: Place, cells: Mapping[Attacked, Record], printed: _Printed, found: CapFound) -> list[CellLine]:
    lines = []
    for system, attack in dict.fromkeys((key.system, key.attack) for key in cells):
        beside = printed.get((place[0], system), {}) if attack == "advsuffix" else {}
        for condition, tutor, ours in _conditions(system, attack, cells, found):
            name = _CONDITIONS[condition] + (f" by {tutor}" if tutor else "")
            labels = (place[0], _judge(system, found), ATTACKS[attack], name)
            lines.append(CellLine(labels, ours, beside.get(condition, {})))
    return lines


def _conditions(
    system: System, attack: str, cells: Mapping[Attacked, Record], found: CapFound
) -> list[tuple[str, str | None, dict[str, Value]]]:
    """Condition, the tutor behind it, and its numbers."""
    none = cells[Attacked(system, attack, Defended(NO_DEFENSE))]
    original = value_of(none, "clean_mean_score")
    if original is None:
        return []
    rows: list[tuple[str, str | None, dict[str, Value | None]]] = [("original", None, {"score": original})]
    rows.append(("attack", None, {"score": value_of(none, "attacked_mean_score"), "change": value_of(none, "change")}))
    for condition, defense in _REFERENCES.items():
        for key, record in cells.items():
            if (key.system, key.attack, key.defense.defense) == (system, attack, defense):
                score, clean = value_of(record, "attacked_mean_score"), value_of(record, "clean_mean_score")
                change = None if score is None else Value(score.value - original.value)
                tutor = next(iter(found.tutors.get(key.defense, [])), None)
                rows.append((condition, tutor, {"score": score, "change": change, "clean": clean}))
    return [
        (condition, tutor, {name: value for name, value in held.items() if value is not None})
        for condition, tutor, held in rows
    ]


def _printed() -> _Printed:
    found: _Printed = {}
    for row in published_rows("cap_motivation.csv"):
        held: dict[str, float | None] = {name: float(row[name]) for name in ("score", "change") if row[name]}
        found.setdefault((row["dataset"], (model_key(row["judge"]), None)), {})[row["condition"]] = held
    return found


def _inferred() -> list[str]:
    rows = [row for row in published_rows("cap_motivation.csv") if "inferred" in row["note"]]
    told = ", ".join(f"{row['dataset']} {_CONDITIONS[row['condition']]} ({row['score']})" for row in rows)
    return [f"Unreadable in the scan of the paper and inferred from its other figures: {told}."] if rows else []


def _judge(system: System, found: CapFound) -> str:
    papers: dict[System, str] = {(model_key(judge), None): name for judge, name in JUDGES.items()}
    return papers.get(system) or found.labels[system]
