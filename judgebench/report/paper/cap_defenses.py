"""The CAP paper's tables on its defenses, the published figures beside ours: references (1), Spearman where nobody
attacks (4, 8), seconds (5, 9) and strengths of steering (12, 13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgebench.report.figures.style import shorten
from judgebench.report.formats import decimals, one, signed_two, two
from judgebench.report.paper.cap_cells import (
    ATTACKS,
    CAP,
    JUDGE_NAMES,
    JUDGES,
    NO_DEFENSE,
    RANDOM,
    TUTORS,
    CapCell,
    CapCells,
    Defended,
    Place,
    Record,
    Steered,
    attacked_notes,
    compared_with,
    defended_by,
    own_name,
    paper_data,
    place_text,
    printed_cells,
    printed_defense,
    published_table,
    scored_notes,
    tutor_notes,
)
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.table import CellLine, CellTable, Measure, Value, per_cent, span, value_of
from judgebench.results.series import number

Figures = Mapping[CapCell, Mapping[str, float | None]]

_NONE = Defended(NO_DEFENSE)
_HEADS = ("Data", "Judge", "Defense")
_OURS = "Ours (not in the paper): "


def _numbered(
    table: int, caption: str, measures: Sequence[Measure], lines: Sequence[CellLine], notes: Sequence[str]
) -> CellTable:
    """A table of the paper, by judge and defense."""
    return CellTable(f"cap_table_{table}", f"CAP, Table {table}", caption, _HEADS, measures, lines, notes)


def _lines(
    place: Place, ours: Mapping[CapCell, Mapping[str, Value]], printed: Figures, found: CapCells
) -> list[CellLine]:
    """A line a judge and defense: the paper's judges first, each with no defense first."""
    known = {cell: values for cell, values in ours.items() if values}
    names = JUDGE_NAMES if printed else {}
    names = names | {cell.system: found.labels[cell.system] for cell in known if cell.system not in names}
    columns = sorted({cell.defense: None for cell in (*printed, *known)}, key=lambda column: column.order)
    return [
        CellLine((place[0], name, column.label), known.get(cell, {}), printed.get(cell, {}))
        for system, name in names.items()
        for column in columns
        if (cell := CapCell(system, column)) in known or printed.get(cell)
    ]


# --- Spearman where nobody attacks, and what a defense changes of it --------------------------------------------------

_SPEARMAN = Measure("spearman_x100", "Spearman x 100", one)
_CHANGE = (
    Measure("change_x100", "change x 100", decimals(1, signed=True)),
    Measure("rate_percent", "rate", per_cent),
)
_CHANGE_NOTE = "Change against no defense, and as a share of it; without an interval."


def spearman_tables(found: CapCells) -> list[CellTable]:
    """Tables 4 and 8, of runs with a defense: Spearman with the humans where nobody attacks, and its change against
    none; then a table of both for each other data set, dimension or range. The paper names no data set for these."""
    places = [place for place, cells in found.clean.items() if any(cell.defense != _NONE for cell in cells)]
    papers = [place for place in places if paper_data(place) is not None]
    tables = []
    for table, measures, caption, notes in (
        (4, [_SPEARMAN], "Spearman correlation (x 100) with the humans, of clean texts under each defense.", []),
        (8, _CHANGE, "What each defense changes of that correlation (x 100).", [_CHANGE_NOTE, *ratio_slips()]),
    ):
        printed = _given(printed_cells(published_table("cap_spearman.csv", table), [one.key for one in measures]))
        lines = [
            line for place in papers for line in _lines(place, _spearman(found.clean[place], measures), printed, found)
        ]
        if lines:
            about = ["The paper names no data set for its tables 4 and 8.", *notes, *_clean_notes(papers, found)]
            tables.append(_numbered(table, caption, measures, lines, about))
    for place in places:
        if place not in papers:
            both = [_SPEARMAN, *_CHANGE]
            caption = f"{_OURS}Spearman correlation (x 100) with the humans on {place_text(place)}, clean texts."
            lines = _lines(place, _spearman(found.clean[place], both), {}, found)
            notes = [_CHANGE_NOTE, *_clean_notes([place], found)]
            name = f"{own_name(place, found.clean)}_spearman"
            tables.append(CellTable(name, "Ours", caption, _HEADS, both, lines, notes))
    return tables


def ratio_slips() -> list[str]:
    """Sentences on those of table 8's rates that are cut and not rounded."""
    spearman = published_table("cap_spearman.csv", 4)
    base = {row["judge"]: float(row["spearman_x100"]) for row in spearman if row["defense"] == NO_DEFENSE}
    notes = []
    for row in published_table("cap_spearman.csv", 8):
        if row["change_x100"] and row["rate_percent"]:
            ratio = 100 * abs(float(row["change_x100"])) / base[row["judge"]]
            if abs(ratio - float(row["rate_percent"])) > 0.55:  # both are rounded
                where = f"{JUDGES[row['judge']]}, {printed_defense(row['defense']).label}"
                notes.append(
                    f"! The paper prints {row['rate_percent']} % for {where}: its own figures give {ratio:.1f} %."
                )
    return notes


def _given(printed: Figures) -> Figures:
    """Printed figures without those that the paper leaves out."""
    return {cell: {key: it for key, it in figures.items() if it is not None} for cell, figures in printed.items()}


def _spearman(clean: Mapping[CapCell, Record], measures: Sequence[Measure]) -> dict[CapCell, dict[str, Value]]:
    wanted = {measure.key for measure in measures}
    cells = {}
    for cell, record in clean.items():
        value, base = value_of(record, "spearman", 100), clean.get(CapCell(cell.system, _NONE))
        none = value_of(base, "spearman", 100) if base is not None and cell.defense != _NONE else None
        values = {} if value is None else {"spearman_x100": value}
        if value is not None and none is not None:
            values["change_x100"] = Value(value.value - none.value)
            if none.value > 0:
                values["rate_percent"] = Value(100 * abs(value.value - none.value) / none.value)
        cells[cell] = {name: given for name, given in values.items() if name in wanted}
    return cells


def _clean_notes(places: Iterable[Place], found: CapCells) -> list[str]:
    notes, cells = [], []
    for place in places:
        records = list(found.clean[place].values())
        cells += list(found.clean[place])
        texts, groups = (span(record[name] for record in records) for name in ("n", "groups"))
        where = f"{place[0]}, {records[0]['split']} split"
        notes.append(f"Ours: {where}, {texts} texts of {groups} {found.groups[place[0]]}.")
    return notes + scored_notes(cells, found)


# --- seconds ----------------------------------------------------------------------------------------------------------

_SECONDS = (
    Measure("seconds_x10", "seconds x 10", one),
    Measure("alone_x10", "alone x 10", one, paper=False),
    Measure("reading_x10", "reading x 10", one, paper=False),
)
_SECONDS_NOTES = (
    "Seconds of ours: reading the prompt, with its share of what the defense made for the context of several texts; "
    "alone: as if no other text shared the context; reading: the prompt alone. What a defense "
    "needs once, whatever is judged, is not among them.",
    "Seconds depend on device, batch and engine: the paper's hardware is not known, and only ratios compare.",
)


def seconds_tables(found: CapCells) -> list[CellTable]:
    """Tables 5 and 9, of runs with a defense: seconds (x 10) a sample; then a table for each other data set, dimension
    or range."""
    tables = []
    for place, costs in found.costs.items():
        data, ours = paper_data(place), {cell: _seconds(cost) for cell, cost in costs.items()}
        caption = f"Seconds (x 10) that a sample takes under each defense, {data.title if data else place_text(place)}."
        notes = [
            *_SECONDS_NOTES,
            f"Ours: means over {span(cost['n'] for cost in costs.values())} readings, attacked and clean, under each "
            "defense.",
            *tutor_notes([cell.defense for cell in costs], found),
            *(["Ours are means over all dimensions and ranges of the run."] if place in found.mixed else []),
        ]
        if data is not None:
            printed = printed_cells(published_table("cap_seconds.csv", data.seconds), ["seconds_x10"])
            tables.append(_numbered(data.seconds, caption, _SECONDS, _lines(place, ours, printed, found), notes))
        else:
            name, lines = f"{own_name(place, found.costs)}_seconds", _lines(place, ours, {}, found)
            notes += compared_with(place[0])
            tables.append(CellTable(name, "Ours", f"{_OURS}{caption}", _HEADS, _SECONDS, lines, notes))
    return tables


def _seconds(cost: Mapping[str, object]) -> dict[str, Value]:
    seconds, reading, context = (number(cost[f"{name}seconds"]) or 0.0 for name in ("", "reading_", "context_"))
    alone = reading + (context or seconds - reading)
    figures = (("seconds_x10", seconds), ("alone_x10", alone), ("reading_x10", reading))
    return {name: Value(10 * value) for name, value in figures}


# --- references of random and of standard quality ---------------------------------------------------------------------

_SCORES = (
    Measure("score", "mean score", two),
    Measure("change", "change", signed_two),
    Measure("clean", "clean, same prompt", two, paper=False),
)
_SCORES_CAPTION = "Mean scores of texts under attack, with references of random and of standard quality in the prompt."
_SCORES_NOTE = (
    "Change: against the original, the mean of the clean texts without defense. Clean, same prompt: what the same "
    "prompt with the same references makes of the clean texts, which the paper does not print: only against it is a "
    "change the attack's alone."
)
_UNNAMED = (
    "The paper names neither attack nor tutor of its table 1: the changes are those of AdvSuffix in its tables 2 and 3."
)
_REFERENCES = {"random_reference": RANDOM, "standard_reference": CAP}
"""Condition -> the defense that it is."""

_Conditions = dict[str, dict[str, float | None]]
"""Condition -> its printed figures."""


def motivation_tables(found: CapCells) -> list[CellTable]:
    """Table 1, of runs with random references or with CAP; then a table for each other data set, dimension or range.

    A line has the attack of ours; the paper's figures stand beside AdvSuffix.
    """
    heads = ("Data", "Judge", "Attack", "Condition")
    referenced = {place: cells for place in found.attacked if (cells := _referenced(found.attacked[place]))}
    papers = {place: cells for place, cells in referenced.items() if paper_data(place) is not None}
    tables = []
    if papers:
        printed, inferred = _printed_conditions()
        lines, notes = [], [_SCORES_NOTE, _UNNAMED, *inferred]
        shown = {(place[0], cell.system) for place in papers for cell in papers[place] if cell.attack == "advsuffix"}
        for place, cells in papers.items():
            lines += _condition_lines(place, cells, printed, found)
            notes += [note for note in attacked_notes(cells, found) if note not in notes]
        for (dataset, system), conditions in printed.items():
            if (dataset, system) not in shown:
                labels = (dataset, _judge(system, found), ATTACKS["advsuffix"])
                lines += [CellLine((*labels, _words(name)), {}, figures) for name, figures in conditions.items()]
        tables.append(CellTable("cap_table_1", "CAP, Table 1", _SCORES_CAPTION, heads, _SCORES, lines, notes))
    for place, cells in referenced.items():
        if place not in papers:
            notes = [_SCORES_NOTE, *attacked_notes(cells, found), *compared_with(place[0])]
            name, lines = f"{own_name(place, found.attacked)}_references", _condition_lines(place, cells, {}, found)
            tables.append(CellTable(name, "Ours", f"{_OURS}{_SCORES_CAPTION}", heads, _SCORES, lines, notes))
    return tables


def _referenced(attacked: Mapping[CapCell, Record]) -> dict[CapCell, Record]:
    """The cells that the table tells of; empty where the place has no references, or no base without them."""
    cells = {
        cell: record
        for cell, record in attacked.items()
        if cell.defense.defense in (NO_DEFENSE, *_REFERENCES.values()) and cell._replace(defense=_NONE) in attacked
    }
    return cells if any(cell.defense != _NONE for cell in cells) else {}


def _condition_lines(
    place: Place,
    cells: Mapping[CapCell, Record],
    printed: Mapping[tuple[str, System], _Conditions],
    found: CapCells,
) -> list[CellLine]:
    lines = []
    for base in dict.fromkeys(cell._replace(defense=_NONE) for cell in cells):
        beside = printed.get((place[0], base.system), {}) if base.attack == "advsuffix" else {}
        for condition, tutor, values in _conditions(base, cells, found):
            name = _words(condition) + (f" by {tutor}" if tutor else "")
            labels = (place[0], _judge(base.system, found), ATTACKS[base.attack], name)
            known = {key: value for key, value in values.items() if value is not None}
            lines.append(CellLine(labels, known, beside.get(condition, {})))
    return lines


def _conditions(
    base: CapCell, cells: Mapping[CapCell, Record], found: CapCells
) -> list[tuple[str, str | None, dict[str, Value | None]]]:
    """Condition, the tutor behind it, and its numbers."""
    none = cells[base]
    original = value_of(none, "clean_mean_score")
    if original is None:
        return []
    attacked = {"score": value_of(none, "attacked_mean_score"), "change": value_of(none, "change")}
    rows: list[tuple[str, str | None, dict[str, Value | None]]]
    rows = [("original", None, {"score": original}), ("attack", None, attacked)]
    for condition, defense in _REFERENCES.items():
        for cell, record in cells.items():
            if (cell.system, cell.attack, cell.defense.defense) == (base.system, base.attack, defense):
                score, clean = value_of(record, "attacked_mean_score"), value_of(record, "clean_mean_score")
                change = None if score is None else Value(score.value - original.value)
                tutor = next(iter(found.tutors.get(cell.defense, [])), None)
                rows.append((condition, tutor, {"score": score, "change": change, "clean": clean}))
    return rows


def _printed_conditions() -> tuple[dict[tuple[str, System], _Conditions], list[str]]:
    """Data set and judge -> the printed conditions; and a note on those that were inferred."""
    rows = published_rows("cap_motivation.csv")
    found: dict[tuple[str, System], Any] = {}
    for row in rows:
        figures = {name: float(row[name]) for name in ("score", "change") if row[name]}
        found.setdefault((row["dataset"], (model_key(row["judge"]), None)), {})[row["condition"]] = figures
    inferred = [row for row in rows if "inferred" in row["note"]]
    told = ", ".join(f"{row['dataset']} {_words(row['condition'])} ({row['score']})" for row in inferred)
    note = f"Unreadable in the scan of the paper and inferred from its other figures: {told}."
    return found, [note] if inferred else []


def _words(condition: str) -> str:
    return condition.replace("_", " ")


def _judge(system: System, found: CapCells) -> str:
    return JUDGE_NAMES.get(system) or found.labels[system]


# --- strengths of steering --------------------------------------------------------------------------------------------

_STRENGTHS = {12: "alpha_h", 13: "alpha_l"}
_STANDARDS = {"alpha_h": "to the high standard (alpha_h)", "alpha_l": "to the low standard (alpha_l)"}
_STRENGTH_NOTE = (
    "A strength acts in the unit of a tutor's hidden states, whose lengths differ from model to model and layer to "
    "layer: what compares is the strength over their mean length at the steered layer."
)


def strength_tables(found: CapCells) -> list[CellTable]:
    """Tables 12 and 13, of runs with CAP; then a table of both for each other data set or dimension."""
    heads = ("Data", "Judge", "Tutor")
    papers = {place: runs for place, runs in found.steered.items() if paper_data(place) is not None}
    tables = []
    for table, parameter in _STRENGTHS.items() if papers else ():
        lines = _strength_lines(table, parameter, papers, found)
        caption = f"Strength of steering {_STANDARDS[parameter]}."
        notes = [_STRENGTH_NOTE, *(_steering(steered) for runs in papers.values() for steered in runs)]
        tables.append(_numbered(table, caption, _strength_measures(parameter), lines, notes))
    for place, runs in found.steered.items():
        if place not in papers:
            measures = [measure for parameter in _STANDARDS for measure in _strength_measures(parameter)]
            lines = [_strength_line(place[0], steered, found, *_STANDARDS) for steered in runs]
            caption = f"{_OURS}strengths of steering on {place[0]}, {place[1]}."
            notes = [_STRENGTH_NOTE, *map(_steering, runs)]
            name = f"{own_name(place, found.steered)}_strengths"
            tables.append(CellTable(name, "Ours", caption, heads, measures, lines, notes))
    return [replace(table, heads=heads) for table in tables]


def _strength_measures(parameter: str) -> list[Measure]:
    share = Measure(f"{parameter}_share", f"{parameter} / length", two, paper=False)
    return [Measure(parameter, parameter, two), share]


def _strength_lines(
    table: int, parameter: str, papers: Mapping[Place, list[Steered]], found: CapCells
) -> list[CellLine]:
    ours: dict[tuple[str, System, str], Steered] = {}
    for place, runs in papers.items():
        for steered in runs:
            tutor = defended_by(CAP, steered.tutor).tutor or steered.tutor
            ours.setdefault((place[0], steered.system, tutor), steered)
    lines = []
    families = {title: family for family, title in TUTORS.items()}
    for row in published_table("cap_alpha.csv", table):
        known = ours.pop((row["dataset"], (model_key(row["judge"]), None), families[row["tutor"]]), None)
        values = {} if known is None else _strengths(known, parameter)
        labels = (row["dataset"], JUDGES[row["judge"]], row["tutor"].split("/")[-1])
        lines.append(CellLine(labels, values, {parameter: float(row["value"])}))
    return lines + [_strength_line(dataset, steered, found, parameter) for (dataset, _, _), steered in ours.items()]


def _strength_line(dataset: str, steered: Steered, found: CapCells, *parameters: str) -> CellLine:
    labels = (dataset, found.labels[steered.system], shorten(steered.tutor, 30))
    return CellLine(labels, _strengths(steered, *parameters), {})


def _strengths(steered: Steered, *parameters: str) -> dict[str, Value]:
    values = {}
    for name in parameters:
        values[name] = Value(steered.alphas[name])
        if steered.norm:
            values[f"{name}_share"] = Value(steered.alphas[name] / steered.norm)
    return values


def _steering(steered: Steered) -> str:
    how = "the strengths tried whose texts scored nearest to the thresholds" if steered.tried else "as configured"
    layer = f"; steered at layer {steered.layer[0]} of {steered.layer[1]}" if steered.layer else ""
    return f"{steered.tutor} of ours: {how}{layer}."
