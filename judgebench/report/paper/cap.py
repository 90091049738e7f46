"""The CAP paper's tables 2 and 3: how far attacks move a judge's scores, the published figures beside ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report.figures import file_name
from judgebench.report.paper.found import RunResults, decoding_of, systems_of
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.tables import Value
from judgebench.report.series import number, range_of, shown_split
from judgebench.types import ScoreRange

ATTACKS = {"advsuffix": "AdvSuffix", "dsi": "DSI", "bed": "BED"}
"""The paper's attacks, and how it prints them."""

SUFFIX_LENGTH = 4
"""Words of the learned phrase in the paper's tables."""

NO_DEFENSE = "none"

_SUFFIX = re.compile(rf"adv_suffix_(?:.+_)?{SUFFIX_LENGTH}")
_JUDGES = {
    "google/flan-t5-xl": "FlanT5-XL",
    "meta-llama/Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "gpt-3.5-turbo": "ChatGPT-3.5",
    "gemini-2.0": "Gemini-2.0",
    "deepseek-v3": "DeepSeek-V3",
}
_RULES = ("expectation", "argmax")  # the paper's open judges score by expectation
_PAPER_RANGE = (1.0, 5.0)


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
    """One judge under one attack and one defense."""

    judge: str
    attack: str
    defense: str
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


@dataclass(frozen=True)
class _Paper:
    """One of the paper's tables.

    Attributes:
        dimension: of the rubric with all criteria in one prompt.
    """

    table: int
    dataset: str
    title: str
    dimension: str


_TABLES = (_Paper(2, "summeval", "SummEval", "joint"), _Paper(3, "topicalchat", "TopicalChat", "overall"))

_Place = tuple[str, str, ScoreRange]
_Cell = tuple[System, str, str]


@dataclass
class _Found:
    """The attacked records of the given runs.

    Attributes:
        cells: (data set, dimension, range) -> (judge, attack, defense) -> its record.
        labels: what tables call a judge; decodings: how it scores.
        groups: data set -> what its groups are called.
    """

    cells: dict[_Place, dict[_Cell, Mapping[str, Any]]] = field(default_factory=dict)
    labels: dict[System, str] = field(default_factory=dict)
    decodings: dict[System, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)

    def add(self, run: RunResults) -> None:
        """Takes the cells of a run; where another run has the same one, the first stays."""
        split = shown_split(record["split"] for record in run.records)
        level = shown_level(record["level"] for record in run.records)
        records = [record for record in run.records if (record["split"], record["level"]) == (split, level)]
        systems, labels = systems_of(run.titles)
        decodings = {role: _decoding(records, role) for role in systems}
        for record in records:
            kind, role = _kind(record["attack"]), record["judge"]
            told = role in systems and record["decoding"] == decodings[role] and record.get("delta") is not None
            # a null context is never attacked: it says the same of everything
            if kind is None or not told or (role == "assistant" and record.get("constant")):
                continue
            system = systems[role]
            place = (str(record["dataset"]), str(record["dimension"]), range_of(record))
            self.labels.setdefault(system, labels[role])
            self.decodings.setdefault(system, str(record["decoding"]))
            self.groups.setdefault(place[0], run.titles.get("groups") or "articles")
            self.cells.setdefault(place, {}).setdefault((system, kind, str(record["defense"])), record)


def build_changes(runs: Iterable[RunResults]) -> list[ChangeTable]:
    """The paper's tables 2 and 3, filled with what the runs found; then a table for each other data set, dimension or
    range.

    Of each judge the scores by expectation count, as in the paper, else its first by argmax; of the records those of
    the shown split. AdvSuffix is the learned phrase of four words (`adv_suffix_4`). Judges of the paper stand as
    printed where no run has them, other judges of the runs behind them; of the defenses, none and those of the runs.
    """
    found = _Found()
    for run in runs:
        found.add(run)
    tables = [_printed_table(paper, found) for paper in _TABLES]
    return tables + [_own_table(place, found) for place in found.cells if _paper_of(place) is None]


@cache
def printed_changes() -> dict[tuple[int, str, str, str], Printed]:
    """(table, judge, attack, defense) -> what the paper prints, in print order."""
    return {
        (int(row["table"]), row["judge"], row["attack"], row["defense"]): Printed(
            _number(row["delta"]), _number(row["rate_percent"])
        )
        for row in published_rows("cap_score_change.csv")
    }


def _printed_table(paper: _Paper, found: _Found) -> ChangeTable:
    printed = {key[1:]: cell for key, cell in printed_changes().items() if key[0] == paper.table}
    cells: dict[_Cell, Mapping[str, Any]] = {}
    for place, held in found.cells.items():
        if _paper_of(place) is paper:
            for key, record in held.items():
                cells.setdefault(key, record)
    names: dict[System, str] = {(model_key(judge), None): _JUDGES[judge] for judge, _, _ in printed}
    labels = names | {system: found.labels[system] for system, _, _ in cells if system not in names}
    both: dict[_Cell, Printed] = {
        ((model_key(judge), None), attack, defense): cell for (judge, attack, defense), cell in printed.items()
    }
    caption = f"Score change under attack on {paper.title}: delta = |mean attacked - mean clean|, and its rate."
    notes = _notes(cells, found) if cells else ["No attacked run on this data was given: the paper's figures alone."]
    lines = _lines(cells, both, labels)
    return ChangeTable(f"cap_table_{paper.table}", f"CAP, Table {paper.table}", caption, paper.dataset, lines, notes)


def _own_table(place: _Place, found: _Found) -> ChangeTable:
    dataset, dimension, score_range = place
    cells = found.cells[place]
    several = sum(other[:2] == place[:2] for other in found.cells) > 1
    name = [dataset, dimension, *([str(score_range)] if several else [])]
    told = f"{dataset}, {dimension}, range {score_range}"
    caption = (
        f"Ours (not in the paper): score change under attack on {told}: |mean attacked - mean clean|, and its rate."
    )
    notes = [*_notes(cells, found), *_compared_with(dataset)]
    return ChangeTable(
        "_".join(["cap_own", *map(file_name, name)]), "Ours", caption, dataset, _lines(cells, {}, found.labels), notes
    )


def _compared_with(dataset: str) -> list[str]:
    return [
        f"The paper judges {paper.title} by all criteria in one prompt (dimension {paper.dimension}) from 1 to 5: its "
        f"table {paper.table}."
        for paper in _TABLES
        if paper.dataset == dataset
    ]


def _lines(
    cells: Mapping[_Cell, Mapping[str, Any]], printed: Mapping[_Cell, Printed], labels: Mapping[System, str]
) -> list[ChangeLine]:
    defenses = list(dict.fromkeys([NO_DEFENSE, *(defense for _, _, defense in cells)]))
    lines = []
    for system, label in labels.items():
        for attack, name in ATTACKS.items():
            for defense in defenses:
                key = (system, attack, defense)
                if key in cells or key in printed:
                    ours = _ours(cells[key]) if key in cells else None
                    lines.append(ChangeLine(label, name, defense, ours, printed.get(key)))
    return lines


def _ours(record: Mapping[str, Any]) -> Ours:
    delta = _value(record, "delta")
    assert delta is not None  # `add` has seen to that
    rates = [_value(record, name) for name in ("rate_of_means", "mean_of_rates")]
    return Ours(delta, rates[0], rates[1], record["change"] < 0, str(record["attack"]))


def _notes(cells: Mapping[_Cell, Mapping[str, Any]], found: _Found) -> list[str]:
    notes = []
    for dataset, split in dict.fromkeys((record["dataset"], record["split"]) for record in cells.values()):
        own = [record for record in cells.values() if (record["dataset"], record["split"]) == (dataset, split)]
        texts, groups = (sorted({int(record[name]) for record in own}) for name in ("paired", "groups"))
        notes.append(
            f"Ours: {dataset}, {split} split, {_span(texts)} texts of {_span(groups)} {found.groups[dataset]}, scored "
            "clean and attacked under the same defense."
        )
    scored = dict.fromkeys(f"{found.labels[system]} by {found.decodings[system]}" for system, _, _ in cells)
    notes.append(f"Scores of ours: {', '.join(scored)}.")
    notes.append(
        "Two readings of the rate: rate of means, delta over the mean clean score; mean of rates, the mean of the "
        "texts' own changes over their clean scores. The paper does not say which is its own."
    )
    if phrases := dict.fromkeys(record["attack"] for (_, kind, _), record in cells.items() if kind == "advsuffix"):
        notes.append(f"AdvSuffix of ours: {', '.join(phrases)}, the learned phrase of {SUFFIX_LENGTH} words.")
    if any(record["change"] < 0 for record in cells.values()):
        notes.append(f"{LOWERED} the attack lowers the mean score.")
    return notes


LOWERED = "\N{DOWNWARDS ARROW}"
"""Beside a delta of an attack that lowers scores."""


def _kind(attack: str) -> str | None:
    """Which of the paper's attacks it is; None of another, and of clean texts."""
    if attack == CLEAN:
        return None
    return "advsuffix" if _SUFFIX.fullmatch(attack) else attack if attack in ATTACKS else None


def _decoding(records: Sequence[Mapping[str, Any]], role: str) -> str | None:
    return next((name for rule in _RULES if (name := decoding_of(records, role, rule)) is not None), None)


def _paper_of(place: _Place) -> _Paper | None:
    dataset, dimension, score_range = place
    if (score_range.minimum, score_range.maximum) != _PAPER_RANGE:
        return None
    return next((paper for paper in _TABLES if (paper.dataset, paper.dimension) == (dataset, dimension)), None)


def _value(record: Mapping[str, Any], name: str) -> Value | None:
    value = number(record[name])
    return None if value is None else Value(value, number(record[f"{name}_low"]), number(record[f"{name}_high"]))


def _number(text: str) -> float | None:
    return float(text) if text else None


def _span(known: Sequence[int]) -> str:
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
