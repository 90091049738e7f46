"""The CAP paper's tables 2, 3, 6, 7, 10 and 11: how far attacks move a judge's scores under each defense, the published
figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from judgebench.report.figures.style import file_name
from judgebench.report.paper.cap_found import Attacked, CapFound, Record, attacked_notes, value_of
from judgebench.report.paper.cap_names import (
    ADAPTIVE,
    ATTACKS,
    CAP,
    JUDGES,
    NO_DEFENSE,
    PAPER_DATA,
    W_CAP,
    PaperData,
    Place,
    paper_data,
    printed_defense,
)
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.tables import Value


@dataclass(frozen=True)
class Printed:
    """A cell of the print: the score change, and its rate in per cent; None where it cannot be read."""

    delta: float | None
    rate_percent: float | None


@dataclass(frozen=True)
class Ours:
    """What a run found: delta, and both readings of its rate, as shares.

    Attributes:
        lowered: whether the attack lowers the mean score, which delta does not tell.
        attack: the name of the run's attack.
    """

    delta: Value
    rate_of_means: Value | None
    mean_of_rates: Value | None
    lowered: bool
    attack: str


@dataclass(frozen=True)
class ChangeLine:
    """One judge under one attack and one defense.

    Attributes:
        defense: as in the CSV, such as `cap_llama`; label: as people read it, such as `CAP_L`.
    """

    judge: str
    attack: str
    defense: str
    label: str
    ours: Ours | None
    printed: Printed | None


@dataclass(frozen=True)
class ChangeTable:
    """Score changes on one data set; see `judgebench.report.paper.tables.CorrelationTable`."""

    name: str
    title: str
    caption: str
    dataset: str
    lines: Sequence[ChangeLine]
    notes: Sequence[str]


class _Kind(NamedTuple):
    """What a table is about: its attacks, and the defenses that the paper's judges have printed lines of."""

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

LOWERED = "\N{DOWNWARDS ARROW}"
"""Beside a delta of an attack that lowers scores."""


def change_tables(found: CapFound) -> list[ChangeTable]:
    """The paper's tables 2 and 3, filled with what the runs found; 6 and 10, 7 and 11 where a run has W-CAP or CAP, and
    CAP under the adaptive attack; then a table for each other data set, dimension or range.

    Of each judge the scores by expectation count, as in the paper, else its first by argmax; of the records those of
    the shown split. AdvSuffix is the learned phrase of four words (`adv_suffix_4`). Judges of the paper stand as
    printed where no run has them, other judges of the runs behind them; of the defenses, none and those of the runs,
    and where these have references, the paper's whosever they are.
    """
    tables = [_printed_table(data, data.changes, _MAIN, _cells_of(data, found), found) for data in PAPER_DATA]
    for kind, name in ((_ABLATION, "ablation"), (_ADAPTIVE, "adaptive")):
        for data in PAPER_DATA:
            cells = {key: one for key, one in _cells_of(data, found).items() if key.defense.defense in kind.defenses}
            if any(_asked(key, kind) for key in cells):
                tables.append(_printed_table(data, getattr(data, name), kind, cells, found))
    tables += [_own_table(place, found) for place in found.attacked if paper_data(place) is None]
    return tables


@cache
def printed_changes() -> dict[tuple[int, str, str, str], Printed]:
    """(table, judge, attack, defense) -> what the paper prints, in print order."""
    return {
        (int(row["table"]), row["judge"], row["attack"], row["defense"]): Printed(
            _number(row["delta"]), _number(row["rate_percent"])
        )
        for row in published_rows("cap_score_change.csv")
    }


def _asked(key: Attacked, kind: _Kind) -> bool:
    """Whether a cell is what a table is made for: W-CAP or CAP, CAP under the adaptive attack."""
    return key.attack == ADAPTIVE if kind is _ADAPTIVE else key.defense.defense != NO_DEFENSE


def _cells_of(data: PaperData, found: CapFound) -> dict[Attacked, Record]:
    cells: dict[Attacked, Record] = {}
    for place, held in found.attacked.items():
        if paper_data(place) is data:
            for key, record in held.items():
                cells.setdefault(key, record)
    return cells


def _printed_table(
    data: PaperData, table: int, kind: _Kind, cells: Mapping[Attacked, Record], found: CapFound
) -> ChangeTable:
    cells = {key: record for key, record in cells.items() if key.attack in kind.attacks}
    printed = {
        Attacked((model_key(judge), None), attack, printed_defense(defense)): cell
        for (number, judge, attack, defense), cell in printed_changes().items()
        if number == table
    }
    names: dict[System, str] = {(model_key(judge), None): name for judge, name in JUDGES.items()}
    labels = names | {key.system: found.labels[key.system] for key in cells if key.system not in names}
    notes = (
        _notes(cells, found) if cells else ["No attacked run on this data was given: the paper's figures alone."]
    ) + _slips(data, table)
    wanted = kind.defenses or tuple(dict.fromkeys([NO_DEFENSE, *(key.defense.defense for key in cells)]))
    both = {key: cell for key, cell in printed.items() if key.defense.defense in wanted}
    lines = _lines(cells, both, labels, kind.attacks)
    caption = kind.caption.format(data.title)
    return ChangeTable(f"cap_table_{table}", f"CAP, Table {table}", caption, data.dataset, lines, notes)


def _own_table(place: Place, found: CapFound) -> ChangeTable:
    dataset, dimension, score_range = place
    cells = found.attacked[place]
    told = f"{dataset}, {dimension}, range {score_range}"
    caption = (
        f"Ours (not in the paper): score change under attack on {told}: |mean attacked - mean clean|, and its rate."
    )
    notes = [*_notes(cells, found), *compared_with(dataset)]
    return ChangeTable(
        own_name(place, found.attacked), "Ours", caption, dataset, _lines(cells, {}, found.labels, ATTACKS), notes
    )


def own_name(place: Place, places: Mapping[Place, object]) -> str:
    """The name of a table that the paper does not have, with the range where `places` has several."""
    dataset, dimension, score_range = place
    several = sum(other[:2] == place[:2] for other in places) > 1
    return "_".join(["cap_own", *map(file_name, [dataset, dimension, *([str(score_range)] if several else [])])])


def compared_with(dataset: str) -> list[str]:
    """How the paper judges the same data set; empty of others."""
    return [
        f"The paper judges {data.title} by all criteria in one prompt (dimension {data.dimension}) from 1 to 5: its "
        f"table {data.changes}."
        for data in PAPER_DATA
        if data.dataset == dataset
    ]


def _lines(
    cells: Mapping[Attacked, Record],
    printed: Mapping[Attacked, Printed],
    labels: Mapping[System, str],
    attacks: Sequence[str] | Mapping[str, str],
) -> list[ChangeLine]:
    columns = sorted({key.defense: None for key in (*printed, *cells)}, key=lambda column: column.order)
    lines = []
    for system, label in labels.items():
        for attack in attacks:
            for column in columns:
                key = Attacked(system, attack, column)
                if key in cells or key in printed:
                    ours = _ours(cells[key]) if key in cells else None
                    named = (label, ATTACKS[attack], column.key, column.label)
                    lines.append(ChangeLine(*named, ours, printed.get(key)))
    return lines


def _ours(record: Record) -> Ours:
    delta = value_of(record, "delta")
    assert delta is not None  # `CapFound.add` has seen to that
    rates = [value_of(record, name) for name in ("rate_of_means", "mean_of_rates")]
    return Ours(delta, rates[0], rates[1], record["change"] < 0, str(record["attack"]))


def _notes(cells: Mapping[Attacked, Record], found: CapFound) -> list[str]:
    notes = attacked_notes(cells, found)
    notes.append(
        "Two readings of the rate: rate of means, delta over the mean clean score; mean of rates, the mean of the "
        "texts' own changes over their clean scores. The paper does not say which is its own."
    )
    if any(record["change"] < 0 for record in cells.values()):
        notes.append(f"{LOWERED} the attack lowers the mean score.")
    return notes


def _slips(data: PaperData, table: int) -> list[str]:
    """Where a table of the print contradicts the main one, which has the same cell."""
    printed, notes = printed_changes(), []
    for (number, *key), cell in printed.items():
        main = printed.get((data.changes, key[0], key[1], key[2]))
        if number == table and main is not None and None not in (cell.delta, main.delta) and cell != main:
            where = f"{JUDGES[key[0]]}, {ATTACKS[key[1]]}, {printed_defense(key[2]).label}"
            notes.append(
                f"! The paper prints {_told(cell)} here for {where}, and {_told(main)} for the same in its table "
                f"{data.changes}."
            )
    return notes


def _told(cell: Printed) -> str:
    return f"{cell.delta:.2f} ({'?' if cell.rate_percent is None else f'{cell.rate_percent:.0f}'} %)"


def _number(text: str) -> float | None:
    return float(text) if text else None
