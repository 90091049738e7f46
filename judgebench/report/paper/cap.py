"""The CAP paper's tables, the published figures beside ours; here those of how far attacks move a judge's scores under
each defense (2, 3, 6, 7, 10 and 11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from judgebench.report.formats import percent, points, two, whole
from judgebench.report.paper.cap_cells import (
    ADAPTIVE,
    ATTACKS,
    CAP,
    JUDGE_NAMES,
    NO_DEFENSE,
    PAPER_DATA,
    W_CAP,
    CapCell,
    CapCells,
    PaperData,
    Place,
    Record,
    attacked_notes,
    compared_with,
    own_name,
    paper_data,
    place_text,
    printed_cells,
    published_table,
)
from judgebench.report.paper.cap_defenses import motivation_tables, seconds_tables, spearman_tables, strength_tables
from judgebench.report.paper.published import System
from judgebench.report.paper.table import LOWERED, CellLine, CellTable, Measure, Value, per_cent, value_of
from judgebench.results.results import Results


class _Kind(NamedTuple):
    """A sort of table: its attacks, and the defenses that the paper's judges have printed lines of."""

    attacks: tuple[str, ...]
    caption: str
    defenses: tuple[str, ...] = ()


_MAIN = _Kind(
    ("advsuffix", "dsi", "bed"), "Score change under attack on {}: delta = |mean attacked - mean clean|, and its rate."
)
_ABLATION = _Kind(
    ("advsuffix", "dsi", "bed"),
    "Ablation on {}: score change under attack with references that the tutor is asked for (W-CAP) and with those that "
    "it is steered to (CAP).",
    (NO_DEFENSE, W_CAP, CAP),
)
_ADAPTIVE = _Kind(
    (ADAPTIVE, "dsi", "bed"),
    "Adaptive attack on {}: score change under CAP when a text asks to ignore all references, beside DSI and BED.",
    (CAP,),
)
_MEASURES = (
    Measure("delta", "delta", two, latex=r"$\Delta$", lowered=True),
    Measure("rate_of_means", "rate of means", percent, points, paper=False),
    Measure("mean_of_rates", "mean of rates", percent, points, paper=False),
    Measure("rate_percent", "rate", per_cent, ours=False),
)
_RATES = (
    "Two readings of the rate: rate of means, delta over the mean clean score; mean of rates, the mean of the texts' "
    "own changes over their clean scores. The paper does not say which is its own."
)


def build_cap(runs: Iterable[Results]) -> list[CellTable]:
    """Tables 2 and 3 (score changes by attack and defense); as far as a run has what they need, 1 (random against
    standard references), 4 and 8 (Spearman where nobody attacks), 5 and 9 (seconds), 6 and 10 (ablation), 7 and 11
    (adaptive attack), 12 and 13 (strengths); then tables of the same for what the paper does not have: another data
    set, dimension or range.
    """
    found = CapCells.of(runs)
    tables = [*change_tables(found), *motivation_tables(found), *spearman_tables(found)]
    return [*tables, *seconds_tables(found), *strength_tables(found)]


def change_tables(found: CapCells) -> list[CellTable]:
    """The paper's tables 2 and 3, filled with what the runs found; 6 and 10, 7 and 11 where a run has W-CAP or CAP, and
    CAP under the adaptive attack; then a table for each other data set, dimension or range.

    Of each judge the scores by expectation count, as in the paper, else its first by argmax; of the records those of
    the shown split. AdvSuffix is the learned phrase of four words (`adv_suffix_4`). Judges of the paper stand as
    printed where no run has them, other judges of the runs behind them; of the defenses, none and those of the runs,
    and where these have references, the paper's whosever they are.
    """
    ours: dict[PaperData, dict[CapCell, Record]] = {data: {} for data in PAPER_DATA}
    for place, cells in found.attacked.items():
        if (data := paper_data(place)) is not None:
            ours[data] |= {cell: record for cell, record in cells.items() if cell not in ours[data]}
    tables = [_printed_table(data, data.changes, _MAIN, ours[data], found) for data in PAPER_DATA]
    for kind, number, needed in (
        (_ABLATION, "ablation", lambda cell: cell.defense.defense != NO_DEFENSE),
        (_ADAPTIVE, "adaptive", lambda cell: cell.attack == ADAPTIVE),
    ):
        for data in PAPER_DATA:
            cells = {cell: record for cell, record in ours[data].items() if cell.defense.defense in kind.defenses}
            if any(map(needed, cells)):
                tables.append(_printed_table(data, getattr(data, number), kind, cells, found))
    return tables + [_own_table(place, found) for place in found.attacked if paper_data(place) is None]


@cache
def printed_changes(table: int) -> Mapping[CapCell, Mapping[str, float | None]]:
    """Cell -> `delta` and `rate_percent` as a table of the paper prints them, in print order."""
    return printed_cells(published_table("cap_score_change.csv", table), ("delta", "rate_percent"))


def _printed_table(
    data: PaperData, table: int, kind: _Kind, cells: Mapping[CapCell, Record], found: CapCells
) -> CellTable:
    cells = {cell: record for cell, record in cells.items() if cell.attack in kind.attacks}
    wanted = kind.defenses or {NO_DEFENSE, *(cell.defense.defense for cell in cells)}
    printed = {cell: figures for cell, figures in printed_changes(table).items() if cell.defense.defense in wanted}
    labels = JUDGE_NAMES | {cell.system: found.labels[cell.system] for cell in cells if cell.system not in JUDGE_NAMES}
    alone = ["No attacked run on this data was given: the paper's figures alone."]
    notes = (_notes(cells, found) if cells else alone) + _slips(data, table)
    lines = _lines(data.dataset, cells, printed, labels, kind.attacks)
    return _table(f"cap_table_{table}", f"CAP, Table {table}", kind.caption.format(data.title), lines, notes)


def _own_table(place: Place, found: CapCells) -> CellTable:
    cells = found.attacked[place]
    caption = (
        f"Ours (not in the paper): score change under attack on {place_text(place)}: |mean attacked - mean clean|, and "
        "its rate."
    )
    notes = [*_notes(cells, found), *compared_with(place[0])]
    return _table(
        own_name(place, found.attacked), "Ours", caption, _lines(place[0], cells, {}, found.labels, ATTACKS), notes
    )


def _table(name: str, title: str, caption: str, lines: Sequence[CellLine], notes: Sequence[str]) -> CellTable:
    return CellTable(
        name, title, caption, ("Judge", "Attack", "Defense"), _MEASURES, lines, notes,
        keys=("dataset", "judge", "attack", "defense"), beside="", once=1,
        interval=", clean and attacked scores of a text resampled together",
    )  # fmt: skip


def _lines(
    dataset: str,
    cells: Mapping[CapCell, Record],
    printed: Mapping[CapCell, Mapping[str, float | None]],
    labels: Mapping[System, str],
    attacks: Iterable[str],
) -> list[CellLine]:
    columns = sorted({cell.defense: None for cell in (*printed, *cells)}, key=lambda column: column.order)
    return [
        CellLine(
            (labels[cell.system], ATTACKS[cell.attack], cell.defense.label),
            _ours(cells[cell]) if cell in cells else {},
            printed.get(cell, {}),
            (dataset, labels[cell.system], ATTACKS[cell.attack], cell.defense.key),
        )
        for system in labels
        for attack in attacks
        for column in columns
        if (cell := CapCell(system, column, attack)) in cells or cell in printed
    ]


def _ours(record: Record) -> dict[str, Value | None]:
    """Delta, and both readings of its rate, as shares."""
    values = {name: value_of(record, name) for name in ("delta", "rate_of_means", "mean_of_rates")}
    delta = values["delta"]
    assert delta is not None  # `CapCells` has seen to that
    return values | {"delta": replace(delta, lowered=record["change"] < 0)}


def _notes(cells: Mapping[CapCell, Record], found: CapCells) -> list[str]:
    lowered = any(record["change"] < 0 for record in cells.values())
    return [
        *attacked_notes(cells, found),
        _RATES,
        *([f"{LOWERED} the attack lowers the mean score."] if lowered else []),
    ]


def _slips(data: PaperData, table: int) -> list[str]:
    """Sentences on where a table of the print contradicts the main one, which has the same cell."""
    main, notes = printed_changes(data.changes), []
    for cell, figures in printed_changes(table).items():
        there = main.get(cell, figures)
        if figures != there and None not in (figures["delta"], there["delta"]):
            where = f"{JUDGE_NAMES[cell.system]}, {ATTACKS[cell.attack]}, {cell.defense.label}"
            notes.append(
                f"! The paper prints {_told(figures)} here for {where}, and {_told(there)} for the same in its table "
                f"{data.changes}."
            )
    return notes


def _told(figures: Mapping[str, float | None]) -> str:
    rate = figures["rate_percent"]
    return f"{two(figures['delta'])} ({'?' if rate is None else whole(rate)} %)"
