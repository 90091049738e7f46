"""The CAP paper's tables 4, 5, 8 and 9: what a defense costs where nobody attacks, in Spearman and in seconds, the
published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from judgebench.report.paper.cap import compared_with, own_name
from judgebench.report.paper.cap_found import CapFound, Unattacked, scored_notes, span, tutor_notes, value_of
from judgebench.report.paper.cap_names import (
    JUDGES,
    NO_DEFENSE,
    Defended,
    Place,
    paper_data,
    printed_defense,
)
from judgebench.report.paper.cells import CellLine, CellTable, Measure, one, percent, signed_one
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.tables import Value
from judgebench.results.series import number

_HEADS = ("Data", "Judge", "Defense")
_NONE = Defended(NO_DEFENSE)
_SPEARMAN = [Measure("spearman_x100", "Spearman x 100", one)]
_CHANGE = [Measure("change_x100", "change x 100", signed_one), Measure("rate_percent", "rate", percent)]
_SECONDS = [
    Measure("seconds_x10", "seconds x 10", one),
    Measure("alone_x10", "alone x 10", one, paper=False),
    Measure("reading_x10", "reading x 10", one, paper=False),
]
_CHANGE_NOTE = "Change against no defense, and as a share of it; without an interval."
_SECONDS_NOTES = (
    "Seconds of ours: reading the prompt, with its share of what the defense made for the context of several texts; "
    "alone: as if no other text shared the context; reading: the prompt alone. What a defense "
    "needs once, whatever is judged, is not among them.",
    "Seconds depend on device, batch and engine: the paper's hardware is not known, and only ratios compare.",
)

Figures = Mapping[Unattacked, Mapping[str, float | None]]


def spearman_tables(found: CapFound) -> list[CellTable]:
    """Tables 4 and 8, of runs with a defense: Spearman with the humans where nobody attacks, and its change against
    none; then a table of both for each other data set, dimension or range. The paper names no data set for these."""
    defended = {
        place: cells
        for place, cells in found.clean.items()
        if any(key.defense != _NONE for key in cells) and paper_data(place) is not None
    }
    own = [
        place
        for place, cells in found.clean.items()
        if any(key.defense != _NONE for key in cells) and paper_data(place) is None
    ]
    tables = []
    for table, measures, caption, notes in (
        (4, _SPEARMAN, "Spearman correlation (x 100) with the humans, of clean texts under each defense.", []),
        (8, _CHANGE, "What each defense changes of that correlation (x 100).", [_CHANGE_NOTE, *ratio_slips()]),
    ):
        lines = [
            line
            for place in defended
            for line in _lines(place, _spearman(place, found, measures), _printed_spearman(table), found)
        ]
        if lines:
            about = ["The paper names no data set for its tables 4 and 8.", *notes]
            about += _of_clean(defended, found)
            tables.append(
                CellTable(f"cap_table_{table}", f"CAP, Table {table}", caption, _HEADS, measures, lines, about)
            )
    for place in own:
        measures = [*_SPEARMAN, *_CHANGE]
        caption = (
            f"Ours (not in the paper): Spearman correlation (x 100) with the humans on {_told(place)}, clean texts."
        )
        lines = _lines(place, _spearman(place, found, measures), {}, found)
        about = [_CHANGE_NOTE, *_of_clean([place], found)]
        name = f"{own_name(place, found.clean)}_spearman"
        tables.append(CellTable(name, "Ours", caption, _HEADS, measures, lines, about))
    return tables


def seconds_tables(found: CapFound) -> list[CellTable]:
    """Tables 5 and 9, of runs with a defense: seconds (x 10) a sample; then a table for each other data set, dimension
    or range."""
    tables = []
    for place, costs in found.costs.items():
        data = paper_data(place)
        ours = {key: _seconds(cost) for key, cost in costs.items()}
        readings = sorted({int(cost["n"]) for cost in costs.values()})
        about = [
            *_SECONDS_NOTES,
            f"Ours: means over {span(readings)} readings, attacked and clean, under each defense.",
            *tutor_notes([key.defense for key in costs], found),
        ]
        if place in found.mixed:
            about.append("Ours are means over all dimensions and ranges of the run.")
        told = data.title if data else _told(place)
        caption = f"Seconds (x 10) that a sample takes under each defense, {told}."
        if data is None:
            about += compared_with(place[0])
            name, title, caption = (
                f"{own_name(place, found.costs)}_seconds",
                "Ours",
                f"Ours (not in the paper): {caption}",
            )
            printed: Figures = {}
        else:
            name, title = f"cap_table_{data.seconds}", f"CAP, Table {data.seconds}"
            printed = _printed_seconds(data.seconds)
        tables.append(CellTable(name, title, caption, _HEADS, _SECONDS, _lines(place, ours, printed, found), about))
    return tables


def ratio_slips() -> list[str]:
    """Of table 8's rates, those that are cut and not rounded."""
    base = {row["judge"]: float(row["spearman_x100"]) for row in _rows(4) if row["defense"] == NO_DEFENSE}
    notes = []
    for row in _rows(8):
        if row["change_x100"] and row["rate_percent"]:
            ratio = 100 * abs(float(row["change_x100"])) / base[row["judge"]]
            if abs(ratio - float(row["rate_percent"])) > 0.55:  # both are rounded
                where = f"{JUDGES[row['judge']]}, {printed_defense(row['defense']).label}"
                notes.append(
                    f"! The paper prints {row['rate_percent']} % for {where}: its own figures give {ratio:.1f} %."
                )
    return notes


def _lines(
    place: Place, ours: Mapping[Unattacked, Mapping[str, Value]], printed: Figures, found: CapFound
) -> list[CellLine]:
    """A line a judge and defense: the paper's judges first, each with no defense first."""
    known = {key: cells for key, cells in ours.items() if cells}
    papers: dict[System, str] = {(model_key(judge), None): name for judge, name in JUDGES.items()} if printed else {}
    names = papers | {key.system: found.labels[key.system] for key in known if key.system not in papers}
    columns = sorted({key.defense: None for key in (*printed, *known)}, key=lambda column: column.order)
    return [
        CellLine((place[0], name, column.label), known.get(key, {}), printed.get(key, {}))
        for system, name in names.items()
        for column in columns
        if (key := Unattacked(system, column)) in known or printed.get(key)
    ]


def _spearman(place: Place, found: CapFound, measures: Sequence[Measure]) -> dict[Unattacked, dict[str, Value]]:
    wanted = {measure.key for measure in measures}
    cells: dict[Unattacked, dict[str, Value]] = {}
    for key, record in found.clean[place].items():
        value = value_of(record, "spearman", 100)
        base = found.clean[place].get(Unattacked(key.system, _NONE))
        none = value_of(base, "spearman", 100) if base is not None and key.defense != _NONE else None
        held = {} if value is None else {"spearman_x100": value}
        if value is not None and none is not None:
            held["change_x100"] = Value(value.value - none.value)
            if none.value > 0:
                held["rate_percent"] = Value(100 * abs(value.value - none.value) / none.value)
        cells[key] = {name: given for name, given in held.items() if name in wanted}
    return cells


def _seconds(cost: Mapping[str, object]) -> dict[str, Value]:
    seconds, reading, context = (number(cost[f"{name}seconds"]) or 0.0 for name in ("", "reading_", "context_"))
    alone = reading + (context or seconds - reading)
    return {
        name: Value(10 * value)
        for name, value in (("seconds_x10", seconds), ("alone_x10", alone), ("reading_x10", reading))
    }


def _printed_spearman(table: int) -> Figures:
    names = [measure.key for measure in (_SPEARMAN if table == 4 else _CHANGE)]
    found: dict[Unattacked, Mapping[str, float | None]] = {}
    for row in _rows(table):
        held = {name: float(row[name]) for name in names if row[name]}
        found[Unattacked((model_key(row["judge"]), None), printed_defense(row["defense"]))] = held
    return found


def _printed_seconds(table: int) -> Figures:
    return {
        Unattacked((model_key(row["judge"]), None), printed_defense(row["defense"])): {
            "seconds_x10": float(row["seconds_x10"])
        }
        for row in published_rows("cap_seconds.csv")
        if int(row["table"]) == table
    }


def _rows(table: int) -> list[dict[str, str]]:
    return [row for row in published_rows("cap_spearman.csv") if int(row["table"]) == table]


def _of_clean(places: Iterable[Place], found: CapFound) -> list[str]:
    notes, keys = [], []
    for place in places:
        cells = found.clean[place]
        keys += list(cells)
        split = next(iter(cells.values()))["split"]
        texts, groups = (sorted({int(record[name]) for record in cells.values()}) for name in ("n", "groups"))
        notes.append(
            f"Ours: {place[0]}, {split} split, {span(texts)} texts of {span(groups)} {found.groups[place[0]]}."
        )
    return notes + scored_notes(keys, found)


def _told(place: Place) -> str:
    dataset, dimension, score_range = place
    return f"{dataset}, {dimension}, range {score_range}"
