"""The CAP paper's tables 12 and 13: how strongly a tutor's texts were steered, the published figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.report.figures.style import shorten
from judgebench.report.paper.cap import own_name
from judgebench.report.paper.cap_found import CapFound, Steered
from judgebench.report.paper.cap_names import CAP, JUDGES, TUTORS, Place, defended_by, paper_data
from judgebench.report.paper.cells import CellLine, CellTable, Measure, two
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.tables import Value

_HEADS = ("Data", "Judge", "Tutor")
_TABLES = {12: "alpha_h", 13: "alpha_l"}
_WORDS = {"alpha_h": "to the high standard (alpha_h)", "alpha_l": "to the low standard (alpha_l)"}
_ABOUT = (
    "A strength acts in the unit of a tutor's hidden states, whose lengths differ from model to model and layer to "
    "layer: what compares is the strength over their mean length at the steered layer."
)


def strength_tables(found: CapFound) -> list[CellTable]:
    """Tables 12 and 13, of runs with CAP; then a table of both for each other data set or dimension."""
    papers = {place: held for place, held in found.steered.items() if paper_data(place) is not None}
    tables = []
    for table, parameter in _TABLES.items():
        if papers:
            lines = _printed_lines(table, parameter, papers, found)
            caption = f"Strength of steering {_WORDS[parameter]}."
            notes = [_ABOUT, *(note for held in papers.values() for one in held for note in _whence(one))]
            measures = _measures(parameter)
            tables.append(
                CellTable(f"cap_table_{table}", f"CAP, Table {table}", caption, _HEADS, measures, lines, notes)
            )
    for place, held in found.steered.items():
        if place not in papers:
            measures = [measure for parameter in _TABLES.values() for measure in _measures(parameter)]
            lines = [
                CellLine((place[0], found.labels[one.system], shorten(one.tutor, 30)), _values(one), {}) for one in held
            ]
            caption = f"Ours (not in the paper): strengths of steering on {place[0]}, {place[1]}."
            notes = [_ABOUT, *(note for one in held for note in _whence(one))]
            name = f"{own_name(place, found.steered)}_strengths"
            tables.append(CellTable(name, "Ours", caption, _HEADS, measures, lines, notes))
    return tables


def _measures(parameter: str) -> list[Measure]:
    return [
        Measure(parameter, parameter, two),
        Measure(f"{parameter}_share", f"{parameter} / length", two, paper=False),
    ]


def _printed_lines(
    table: int, parameter: str, papers: Mapping[Place, list[Steered]], found: CapFound
) -> list[CellLine]:
    ours: dict[tuple[str, System, str], Steered] = {}
    for place, held in papers.items():
        for one in held:
            ours.setdefault((place[0], one.system, defended_by(CAP, one.tutor).tutor or one.tutor), one)
    lines = []
    families = {title: family for family, title in TUTORS.items()}
    for row in published_rows("cap_alpha.csv"):
        if int(row["table"]) == table:
            key = (row["dataset"], (model_key(row["judge"]), None), families[row["tutor"]])
            steered = ours.pop(key, None)
            values = {} if steered is None else _values(steered, parameter)
            printed: dict[str, float | None] = {parameter: float(row["value"])}
            lines.append(CellLine((row["dataset"], JUDGES[row["judge"]], row["tutor"].split("/")[-1]), values, printed))
    return lines + [
        CellLine((dataset, found.labels[one.system], shorten(one.tutor, 30)), _values(one, parameter), {})
        for (dataset, _, _), one in ours.items()
    ]


def _values(steered: Steered, *parameters: str) -> dict[str, Value]:
    values = {}
    for name in parameters or _TABLES.values():
        values[name] = Value(steered.alphas[name])
        if steered.norm:
            values[f"{name}_share"] = Value(steered.alphas[name] / steered.norm)
    return values


def _whence(one: Steered) -> list[str]:
    told = f"{one.tutor} of ours: "
    told += "the strengths tried whose texts scored nearest to the thresholds" if one.tried else "as configured"
    return [f"{told}; steered at layer {one.layer[0]} of {one.layer[1]}." if one.layer else f"{told}."]
