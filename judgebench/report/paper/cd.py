"""The contrastive-decoding paper's tables, the published figures beside ours, before anyone decides how they are
printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.resampling import FEWEST
from judgebench.report.figures.style import file_name, shorten
from judgebench.report.paper.published import (
    PrintedRow,
    System,
    is_slip,
    printed_rows,
    printed_settings,
    published_rows,
    recomputed_average,
)
from judgebench.report.paper.systems import decoding_of, names_of, systems_of
from judgebench.report.paper.table import Value, span, value_of
from judgebench.results.results import Results
from judgebench.results.series import number, range_of, setting
from judgebench.tuning.tune import EDGE
from judgebench.types import ScoreRange

Column = Literal["ours", "printed"]

RANGE, OVERALL, AVERAGE = "_", "/", "*"
"""Marks: best of its range (the paper underlines it), best of all ranges (italics), best average (bold)."""


@dataclass(frozen=True)
class Line:
    """One system at one range.

    Attributes:
        range: None: the average over the table's ranges.
        ours, printed: correlation -> figure; empty where no run, or the paper, has this line.
        recomputed: of the paper's averages: correlation -> the mean of its own printed rows.
        slips: the correlations whose printed average contradicts that mean.
    """

    label: str
    range: ScoreRange | None
    ours: Mapping[str, Value]
    printed: Mapping[str, float]
    recomputed: Mapping[str, float]
    slips: tuple[str, ...] = ()

    def number(self, column: Column, correlation: str) -> float | None:
        """The number of a column; None where there is none."""
        if column == "printed":
            return self.printed.get(correlation)
        own = self.ours.get(correlation)
        return None if own is None else own.value


@dataclass(frozen=True)
class CorrelationTable:
    """Systems by score range, averages below.

    Attributes:
        name: of its files, without an ending.
        notes: sentences below it.
        below: tables that follow for comparison.
    """

    name: str
    title: str
    caption: str
    dimension: str
    lines: Sequence[Line]
    notes: Sequence[str]
    below: Sequence[CorrelationTable] = ()

    @property
    def columns(self) -> list[Column]:
        """The columns that hold anything."""
        return _columns(self.lines)

    @property
    def sections(self) -> list[tuple[ScoreRange | None, list[int]]]:
        """Each range, and the averages (None) last, with the positions of its lines."""
        found: dict[ScoreRange | None, list[int]] = {}
        for position, line in enumerate(self.lines):
            found.setdefault(line.range, []).append(position)
        return sorted(found.items(), key=lambda item: item[0] is None)


@dataclass(frozen=True)
class SettingLine:
    """The contrast chosen for one pair at one range: (lambda, t) of ours and the printed one; None where there is none.

    Attributes:
        edge: whether ours lies at the end of what was tried.
    """

    main: str
    assistant: str
    range: ScoreRange
    ours: tuple[float, float] | None
    printed: tuple[float, float] | None
    edge: bool = False


@dataclass(frozen=True)
class SettingTable:
    """The selected lambda and t; see `CorrelationTable`."""

    name: str
    title: str
    caption: str
    dimension: str
    lines: Sequence[SettingLine]
    notes: Sequence[str]

    @property
    def columns(self) -> list[Column]:
        """The columns that hold anything."""
        return _columns(self.lines)


def figure(value: float) -> str:
    """Three decimals as the paper prints them: it keeps the sign of a rounded zero.

    Example:
        >>> figure(0.1236), figure(-0.0001)
        ('0.124', '-0.000')
    """
    return f"{value:.3f}"


def best_marks(table: CorrelationTable, column: Column) -> dict[tuple[int, str], str]:
    """(position of a line, correlation) -> its marks, by the rules of the paper's captions.

    Figures compete as printed, so that a reader never sees one of two equal ones marked; ours and the paper's apart.
    None wins alone, and none that is not above 0: a judge that always says the same has 0.000.
    """
    found: dict[tuple[int, str], str] = {}
    averages = [i for i, line in enumerate(table.lines) if line.range is None]
    ranges = [i for i, line in enumerate(table.lines) if line.range is not None]
    contests = [(RANGE, places) for at, places in table.sections if at is not None]
    contests += [(OVERALL, ranges), (AVERAGE, averages)]
    for mark, places in contests:
        for name in CORRELATIONS:
            values = {i: float(figure(v)) for i in places if (v := table.lines[i].number(column, name)) is not None}
            best = max(values.values(), default=0.0)
            for i, value in values.items():
                if len(values) > 1 and value == best > 0:
                    found[i, name] = found.get((i, name), "") + mark
    return found


Key = tuple[str, System, ScoreRange]


@dataclass
class CdCells:
    """All cells of the given runs under one rule; where two runs have the same one, the first's.

    Of the records, those of the shown split without attack and defense at level dataset.

    Attributes:
        cells: the records, of each system with one decoding.
        labels: what tables call a system; names: the two models of a pair; tuned: the pairs that were.
        groups: data set -> what its groups are called.
        notes: dimension -> what a reader must be told of its cells.
    """

    cells: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    labels: dict[System, str] = field(default_factory=dict)
    names: dict[System, tuple[str, str]] = field(default_factory=dict)
    tuned: set[System] = field(default_factory=set)
    groups: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Iterable[Results], rule: str) -> CdCells:
        """The cells of some runs."""
        cells = cls()
        for run in runs:
            cells._add(run, rule)
        return cells

    def _add(self, run: Results, rule: str) -> None:
        main, assistant = names_of(run)
        systems, labels = systems_of(run)
        if assistant is not None:
            self.names[systems["pair"]] = (main, assistant)
            if any(label == labels["pair"] for system, label in self.labels.items() if system != systems["pair"]):
                labels["pair"] = f"Contrastive ({shorten(main, 30)}-{shorten(assistant, 30)})"
        for role in ("assistant", "main", "pair"):  # small before large, as printed
            if role in systems:
                self.labels.setdefault(systems[role], labels[role])
        plain = {"split": run.split, "level": "dataset", "attack": "none", "defense": "none"}
        records = [record for record in run.metrics if all(record[name] == value for name, value in plain.items())]
        self.groups |= {record["dataset"]: run.groups for record in records}
        decodings = {judge: decoding_of(records, judge, rule) for judge in systems}
        if any(record["decoding"] == decodings.get("pair") for record in run.tuning or ()):
            self.tuned.add(systems["pair"])
        for record in records:
            judge = record["judge"]
            fits = judge in systems and record["decoding"] == decodings[judge]
            if fits and record[CORRELATIONS[0]] is not None:
                self._put((record["dimension"], systems[judge], range_of(record)), record)

    def _put(self, key: Key, record: Mapping[str, Any]) -> None:
        first = self.cells.setdefault(key, record)
        if any(abs(first[name] - record[name]) > 5e-4 for name in CORRELATIONS) or setting(first) != setting(record):
            dimension, system, score_range = key
            notes = self.notes.setdefault(dimension, [])
            where = f"{self.labels[system]}, range {score_range}"
            if (note := f"{where}: found several times and differently; the first is shown.") not in notes:
                notes.append(note)

    @property
    def dimensions(self) -> list[str]:
        """The dimensions that any cell has."""
        return list(dict.fromkeys(dimension for dimension, _, _ in self.cells))


_FAMILIES = {"llama-3": "Llama-3", "qwen-2.5": "Qwen-2.5"}
_DATA = "SummEval, 1440 texts of 90 articles"


def build(runs: Iterable[Results]) -> list[CorrelationTable | SettingTable]:
    """The paper's nine tables (1, 2, 6-9; 3-5), filled with what the runs found; then, for what the paper does not
    have (another pair, range or dimension, scores by expectation), tables of the same layout.

    Of several decodings that contrast by argmax the one named "contrastive" counts, else the first.
    """
    runs = list(runs)
    argmax, expectation = CdCells.of(runs, "argmax"), CdCells.of(runs, "expectation")
    printed = [_printed_table(table, argmax) for table in dict.fromkeys(row.table for row in printed_rows())]
    settings = [_printed_settings(table, argmax) for table in dict.fromkeys(row.table for row in printed_settings())]
    own: list[CorrelationTable | SettingTable] = []
    for dimension in argmax.dimensions:
        if foreign := _foreign(argmax, dimension):
            below = [table for table in printed if table.dimension == dimension]
            own.append(_own_table(argmax, dimension, foreign, "correlations", "not in the paper", below))
            if (settings_of := _own_settings(argmax, dimension, foreign)).lines:
                own.append(settings_of)
    told = "scores by expectation, which the paper does not have"
    for dimension in expectation.dimensions:
        own.append(_own_table(expectation, dimension, _systems(expectation, dimension), "expectation", told))
    tables: list[CorrelationTable | SettingTable] = [*printed, *settings]
    return [*sorted(tables, key=lambda table: table.name), *own]


def _printed_table(table: int, found: CdCells) -> CorrelationTable:
    rows = [row for row in printed_rows() if row.table == table]
    ranges = list(dict.fromkeys(row.range for row in rows if row.range is not None))
    dimension, family = rows[0].dimension, _FAMILIES[rows[0].family]
    lines, used = [], []
    for row in rows:
        keys: list[Key] = [(dimension, row.system, at) for at in ([row.range] if row.range else ranges)]
        used += [key for key in keys if key in found.cells]
        recomputed = recomputed_average(table, row.label) if row.range is None else {}
        wrong = tuple(name for name, value in recomputed.items() if is_slip(row.values[name], value))
        lines.append(Line(row.label, row.range, _ours(found, keys), row.values, recomputed, wrong))
    caption = f"{family} family: correlation with the humans on summary {dimension}."
    notes = _provenance(found, dimension, used, f"; the paper's: {_DATA}") if used else [_alone("models")]
    notes += _slip_notes(rows, lines)
    return CorrelationTable(f"table_{table}", f"Table {table}", caption, dimension, lines, notes)


def _own_table(
    found: CdCells,
    dimension: str,
    systems: Sequence[System],
    kind: str,
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
        notes.append(f"For comparison, the paper's judges, on {_DATA}: {told}.")
    name = f"own_{kind}_{file_name(dimension)}"
    return CorrelationTable(name, "Ours", caption, dimension, lines, notes, below)


def _printed_settings(table: int, found: CdCells) -> SettingTable:
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


def _own_settings(found: CdCells, dimension: str, systems: Sequence[System]) -> SettingTable:
    pairs = [system for system in systems if system in found.names]
    lines = [
        SettingLine(*found.names[system], at, _setting(cell), None, _edge(cell))
        for system in pairs
        for at in sorted((at for *key, at in found.cells if key == [dimension, system]), key=_order)
        if (cell := found.cells[dimension, system, at])
    ]
    caption = f"Ours (not in the paper): hyper-parameters of contrastive decoding for {dimension}."
    name = f"own_settings_{file_name(dimension)}"
    return SettingTable(name, "Ours", caption, dimension, lines, _setting_notes(found, pairs))


def _ours(found: CdCells, keys: Sequence[Key]) -> dict[str, Value]:
    """The values at one key, or their means over several; empty where any is missing."""
    cells = [found.cells[key] for key in keys if key in found.cells]
    if not cells or len(cells) < len(keys):
        return {}
    if len(cells) > 1:
        return {name: Value(fmean(cell[name] for cell in cells)) for name in CORRELATIONS}
    return {name: value for name in CORRELATIONS if (value := value_of(cells[0], name)) is not None}


def _foreign(found: CdCells, dimension: str) -> list[System]:
    """Systems of the runs that hold a cell which the paper does not have: a pair with both of its models."""
    printed = {(row.dimension, row.system, row.range) for row in printed_rows()}
    strange = {system for one, system, at in found.cells if one == dimension and (one, system, at) not in printed}
    strange |= {(name, None) for pair in strange if pair[1] is not None for name in pair if name is not None}
    return [system for system in _systems(found, dimension) if system in strange]


def _systems(found: CdCells, dimension: str) -> list[System]:
    """Models before pairs, as the paper orders them."""
    systems = list(dict.fromkeys(system for one, system, _ in found.cells if one == dimension))
    ordered = [system for system in found.labels if system in systems]
    return sorted(ordered, key=lambda system: system[1] is not None)


def _alone(what: str) -> str:
    return f"No run of these {what} was given: the paper's figures alone."


def _provenance(found: CdCells, dimension: str, keys: Iterable[Key], beside: str = "") -> list[str]:
    cells = [found.cells[key] for key in keys]
    notes = []
    for dataset, split in dict.fromkeys((cell["dataset"], cell["split"]) for cell in cells):
        own = [cell for cell in cells if (cell["dataset"], cell["split"]) == (dataset, split)]
        texts, groups = (span(cell[name] for cell in own) for name in ("n", "groups"))
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
    # section 4.2 repeats averages of Tables 1 and 2, and claims improvements over them
    for claim in published_rows("cd_text_baselines.csv"):
        if int(claim["table"]) == rows[0].table:
            name, percent = claim["correlation"], float(claim["improvement_percent"])
            base, best = (averages[claim[system]].values[name] for system in ("system", "improved"))
            told = f"the improvement of {claim['improved']}, {percent:g} % by the text,"
            notes.append(
                f"! The paper's text gives {float(claim['value']):.3f} as the average {name.capitalize()} of "
                f"{claim['system']}, the table {base:.3f}: {told} is {100 * (best / base - 1):.1f} % by the table."
            )
    return notes


def _setting_notes(found: CdCells, systems: Iterable[System]) -> list[str]:
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


def _columns(lines: Sequence[Line | SettingLine]) -> list[Column]:
    names: tuple[Column, ...] = ("ours", "printed")
    return [column for column in names if any(getattr(line, column) for line in lines)]
