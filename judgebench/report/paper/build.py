"""From the records of runs to the paper's tables, the published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.resampling import FEWEST
from judgebench.report.figures.style import file_name
from judgebench.report.paper.found import Found, Key, RunResults
from judgebench.report.paper.published import (
    PrintedRow,
    System,
    is_slip,
    printed_rows,
    printed_settings,
    recomputed_average,
    text_claims,
)
from judgebench.report.paper.tables import CorrelationTable, Line, SettingLine, SettingTable, Value
from judgebench.results.series import number
from judgebench.tuning.tune import EDGE
from judgebench.types import ScoreRange

FAMILIES = {"llama-3": "Llama-3", "qwen-2.5": "Qwen-2.5"}
PAPER_DATA = "SummEval, 1440 texts of 90 articles"


def build(runs: Iterable[RunResults]) -> list[CorrelationTable | SettingTable]:
    """The paper's nine tables (1, 2, 6-9; 3-5), filled with what the runs found; then, for what the paper does not
    have (another pair, range or dimension, scores by expectation), tables of the same layout.

    Of the records, those of the shown split without attack and defense at level dataset count, and of several
    decodings that contrast by argmax the one named "contrastive", else the first.
    """
    runs = list(runs)
    argmax, expectation = Found(), Found()
    for run in runs:
        argmax.add(run, "argmax")
        expectation.add(run, "expectation")
    printed = [_printed_table(table, argmax) for table in dict.fromkeys(row.table for row in printed_rows())]
    settings = [_printed_settings(table, argmax) for table in dict.fromkeys(row.table for row in printed_settings())]
    own: list[CorrelationTable | SettingTable] = []
    for dimension in argmax.dimensions:
        foreign = _foreign(argmax, dimension)
        if foreign:
            below = [table for table in printed if table.dimension == dimension]
            own.append(
                _own_table(
                    argmax, dimension, foreign, f"own_correlations_{file_name(dimension)}", "not in the paper", below
                )
            )
            if settings_of := _own_settings(argmax, dimension, foreign):
                own.append(settings_of)
    for dimension in expectation.dimensions:
        systems = _systems(expectation, dimension)
        own.append(
            _own_table(
                expectation,
                dimension,
                systems,
                f"own_expectation_{file_name(dimension)}",
                "scores by expectation, which the paper does not have",
            )
        )
    tables: list[CorrelationTable | SettingTable] = [*printed, *settings]
    return [*sorted(tables, key=lambda table: table.name), *own]


def _printed_table(table: int, found: Found) -> CorrelationTable:
    rows = [row for row in printed_rows() if row.table == table]
    ranges = list(dict.fromkeys(row.range for row in rows if row.range is not None))
    dimension, family = rows[0].dimension, FAMILIES[rows[0].family]
    lines, used = [], []
    for row in rows:
        keys: list[Key] = [(dimension, row.system, at) for at in ([row.range] if row.range else ranges)]
        used += [key for key in keys if key in found.cells]
        recomputed = recomputed_average(table, row.label) if row.range is None else {}
        wrong = tuple(name for name, value in recomputed.items() if is_slip(row.values[name], value))
        lines.append(Line(row.label, row.range, _ours(found, keys), row.values, recomputed, wrong))
    caption = f"{family} family: correlation with the humans on summary {dimension}."
    notes = _provenance(found, dimension, used, f"; the paper's: {PAPER_DATA}") if used else [_alone("models")]
    notes += _slip_notes(rows, lines)
    return CorrelationTable(f"table_{table}", f"Table {table}", caption, dimension, lines, notes)


def _own_table(
    found: Found,
    dimension: str,
    systems: Sequence[System],
    name: str,
    what: str,
    below: Sequence[CorrelationTable] = (),
) -> CorrelationTable:
    ranges = sorted({at for one, system, at in found.cells if one == dimension and system in systems}, key=_order)
    lines = []
    for at in ranges:
        for system in systems:
            key = (dimension, system, at)
            if key in found.cells:
                lines.append(Line(found.labels[system], at, _ours(found, [key]), {}, {}))
    if len(ranges) > 1:
        for system in systems:
            if ours := _ours(found, [(dimension, system, at) for at in ranges]):
                lines.append(Line(found.labels[system], None, ours, {}, {}))
    caption = f"Ours ({what}): correlation with the humans on {dimension}."
    keys = [key for key in found.cells if key[0] == dimension and key[1] in systems]
    notes = _provenance(found, dimension, keys)
    if below:
        told = " and ".join(table.title for table in below)
        notes.append(f"For comparison, the paper's judges, on {PAPER_DATA}: {told}.")
    return CorrelationTable(name, "Ours", caption, dimension, lines, notes, below)


def _printed_settings(table: int, found: Found) -> SettingTable:
    rows = [row for row in printed_settings() if row.table == table]
    dimension = rows[0].dimension
    lines, used = [], []
    for row in rows:
        cell = found.cells.get((dimension, row.system, row.range))
        used += [row.system] if cell else []
        main, assistant = (name.split("/")[-1] for name in (row.main, row.assistant))
        lines.append(
            SettingLine(main, assistant, row.range, _setting(cell), (row.lambda_, row.temperature), _edge(cell))
        )
    notes = _setting_notes(found, used) if used else [_alone("pairs")]
    caption = f"Hyper-parameters of contrastive decoding for summary {dimension}."
    return SettingTable(f"table_{table}", f"Table {table}", caption, dimension, lines, notes)


def _own_settings(found: Found, dimension: str, systems: Sequence[System]) -> SettingTable | None:
    lines = []
    pairs = [system for system in systems if system in found.names]
    for system in pairs:
        for _, _, at in sorted((k for k in found.cells if k[:2] == (dimension, system)), key=lambda k: _order(k[2])):
            cell = found.cells[dimension, system, at]
            lines.append(SettingLine(*found.names[system], at, _setting(cell), None, _edge(cell)))
    if not lines:
        return None
    caption = f"Ours (not in the paper): hyper-parameters of contrastive decoding for {dimension}."
    name = f"own_settings_{file_name(dimension)}"
    return SettingTable(name, "Ours", caption, dimension, lines, _setting_notes(found, pairs))


def _ours(found: Found, keys: Sequence[Key]) -> dict[str, Value]:
    """The values at one key, or their means over several; empty where any is missing."""
    cells = [found.cells[key] for key in keys if key in found.cells]
    if not cells or len(cells) < len(keys):
        return {}
    if len(cells) > 1:
        return {name: Value(fmean(cell[name] for cell in cells)) for name in CORRELATIONS}
    ends = {name: (number(cells[0].get(f"{name}_low")), number(cells[0].get(f"{name}_high"))) for name in CORRELATIONS}
    return {name: Value(cells[0][name], *ends[name]) for name in CORRELATIONS}


def _foreign(found: Found, dimension: str) -> list[System]:
    """Systems of the runs that hold a cell which the paper does not have: a pair with both of its models."""
    printed = {(row.dimension, row.system, row.range) for row in printed_rows()}
    strange = {system for one, system, at in found.cells if one == dimension and (one, system, at) not in printed}
    strange |= {(name, None) for pair in strange if pair[1] is not None for name in pair if name is not None}
    return [system for system in _systems(found, dimension) if system in strange]


def _systems(found: Found, dimension: str) -> list[System]:
    """Models before pairs, as the paper orders them."""
    systems = list(dict.fromkeys(system for one, system, _ in found.cells if one == dimension))
    ordered = [system for system in found.labels if system in systems]
    return sorted(ordered, key=lambda system: system[1] is not None)


def _alone(what: str) -> str:
    return f"No run of these {what} was given: the paper's figures alone."


def _provenance(found: Found, dimension: str, keys: Iterable[Key], beside: str = "") -> list[str]:
    cells = [found.cells[key] for key in keys]
    notes = []
    for dataset, split in dict.fromkeys((cell["dataset"], cell["split"]) for cell in cells):
        own = [cell for cell in cells if (cell["dataset"], cell["split"]) == (dataset, split)]
        texts, groups = (_span(int(cell[name]) for cell in own) for name in ("n", "groups"))
        notes.append(f"Ours: {dataset}, {split} split, {texts} texts of {groups} {found.groups[dataset]}{beside}.")
    if any(cell.get("spearman_low") is not None and cell["groups"] < FEWEST for cell in cells):
        word = " or ".join(dict.fromkeys(found.groups[cell["dataset"]] for cell in cells))
        notes.append(f"Fewer than {FEWEST} {word}: the intervals are too narrow, and nothing can be told from chance.")
    if any(cell.get("constant") for cell in cells):
        notes.append("A judge that gives every text the same score has no correlation; 0.000 stands for it.")
    return notes + found.notes.get(dimension, [])


def _slip_notes(rows: Sequence[PrintedRow], lines: Sequence[Line]) -> list[str]:
    notes = []
    for line in lines:
        if line.slips:
            names = ", ".join(name.capitalize() for name in line.slips)
            printed = " / ".join(f"{line.printed[name]:.3f}" for name in line.slips)
            own = " / ".join(f"{line.recomputed[name]:.4f}" for name in line.slips)
            notes.append(
                f"! The paper prints {printed} as the average {names} of {line.label}; its own rows give {own}."
            )
    averages = {row.label: row for row in rows if row.range is None}
    for claim in text_claims():
        if claim.table == rows[0].table:
            base, best = (averages[name].values[claim.correlation] for name in (claim.label, claim.improved))
            told = f"the improvement of {claim.improved}, {claim.improvement_percent:g} % by the text,"
            notes.append(
                f"! The paper's text gives {claim.value:.3f} as the average {claim.correlation.capitalize()} of "
                f"{claim.label}, the table {base:.3f}: {told} is {100 * (best / base - 1):.1f} % by the table."
            )
    return notes


def _setting_notes(found: Found, systems: Iterable[System]) -> list[str]:
    untuned = [found.labels[system] for system in dict.fromkeys(systems) if system not in found.tuned]
    notes = ["Only kappa = lambda / t matters to a score: equal kappas are one decoding."]
    if untuned:
        notes.append(f"Of ours, not tuned but as configured: {', '.join(untuned)}.")
    return notes


def _setting(cell: Mapping[str, Any] | None) -> tuple[float, float] | None:
    lambda_, temperature = (number(cell.get(name)) if cell else None for name in ("lambda", "temperature"))
    return None if lambda_ is None or temperature is None else (lambda_, temperature)


def _edge(cell: Mapping[str, Any] | None) -> bool:
    return cell is not None and EDGE in (cell.get("flags") or ())


def _order(score_range: ScoreRange) -> tuple[float, float, float]:
    return score_range.minimum, score_range.maximum, score_range.step


def _span(values: Iterable[int]) -> str:
    known = sorted(set(values))
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
