"""The cells of the CAP paper's tables: its names for judges, attacks and defenses, and the runs' records under them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from judgebench.metrics.robustness import CLEAN
from judgebench.report.figures.style import file_name, shorten
from judgebench.report.paper.published import System, model_key, published_rows
from judgebench.report.paper.systems import decoding_of, systems_of, tutor_name
from judgebench.report.paper.table import span
from judgebench.results.results import Results
from judgebench.results.series import number, range_of
from judgebench.types import ScoreRange

ATTACKS = {"advsuffix": "AdvSuffix", "dsi": "DSI", "bed": "BED", "adaptive": "Adaptive"}
"""The paper's attacks, and how it prints them."""

ADAPTIVE = "adaptive"
"""The attack that tells the judge to ignore references; the paper tries it on CAP alone."""

SUFFIX_LENGTH = 4
"""Words of the learned phrase in the paper's tables."""

JUDGES = {
    "google/flan-t5-xl": "FlanT5-XL",
    "meta-llama/Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "gpt-3.5-turbo": "ChatGPT-3.5",
    "gemini-2.0": "Gemini-2.0",
    "deepseek-v3": "DeepSeek-V3",
}
"""Id in `published/` -> the printed name."""

TUTORS = {"llama": "meta-llama/Llama-3.1-8B-Instruct", "mistral": "mistralai/Mistral-7B-Instruct"}
"""The paper's tutors: what a column is called by -> id in `published/`."""

NO_DEFENSE, CAP, W_CAP, RANDOM = "none", "cap", "w_cap", "random_reference"

Place = tuple[str, str, ScoreRange]
"""Data set, dimension, range."""

_SUFFIX = re.compile(rf"adv_suffix_(?:.+_)?{SUFFIX_LENGTH}")
_FAMILIES = {"llama": re.compile(r"(meta-)?llama"), "mistral": re.compile("mistral")}
_LABELS = {NO_DEFENSE: "w/o defense", "cot": "CoT", "perplexity": "Perplexity"}
_BY_TUTOR = {RANDOM: "random reference", W_CAP: "W-CAP", CAP: "CAP"}
_MARKS = {"llama": "L", "mistral": "M"}
_FIRST, _LAST = (NO_DEFENSE, "cot", "perplexity"), (RANDOM, W_CAP, CAP)
_RANGE = (1.0, 5.0)


class Defended(NamedTuple):
    """A defense as the paper's columns tell them apart: references are their tutor's.

    Attributes:
        tutor: `llama` or `mistral`, the paper's columns, or the title of another; None of a defense without a tutor.
    """

    defense: str
    tutor: str | None = None

    @property
    def key(self) -> str:
        """As in the CSV files, such as `cap_llama`."""
        return self.defense if self.tutor is None else f"{self.defense}_{self.tutor}"

    @property
    def order(self) -> tuple[int, bool]:
        """Rank among a table's columns: as the paper orders them, those that it does not have in between."""
        if self.defense in _LAST:
            return len(_FIRST) + 1 + _LAST.index(self.defense), self.tutor not in _FAMILIES
        return _FIRST.index(self.defense) if self.defense in _FIRST else len(_FIRST), False

    @property
    def label(self) -> str:
        """As a table prints it, such as `CAP_L`."""
        name = {**_LABELS, **_BY_TUTOR}.get(self.defense, self.defense)
        if self.tutor is None:
            return name
        mark = _MARKS.get(self.tutor)
        return f"{name}_{mark}" if mark and self.defense != RANDOM else f"{name} ({shorten(self.tutor, 30)})"


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper, and the tables that are of it.

    Attributes:
        dimension: of the rubric with all criteria in one prompt.
    """

    dataset: str
    title: str
    dimension: str
    changes: int
    ablation: int
    adaptive: int
    seconds: int


JUDGE_NAMES: dict[System, str] = {(model_key(judge), None): name for judge, name in JUDGES.items()}
"""The paper's judges, and how it prints them."""

PAPER_DATA = (
    PaperData("summeval", "SummEval", "joint", changes=2, ablation=10, adaptive=11, seconds=9),
    PaperData("topicalchat", "TopicalChat", "overall", changes=3, ablation=6, adaptive=7, seconds=5),
)


def defended_by(defense: str, tutor: str | None) -> Defended:
    """The column of a run's defense.

    Args:
        tutor: the title of the run's tutor, if it has one.

    Example:
        >>> defended_by("cap", "Llama-3.1-8B-Instruct").label, defended_by("cot", "Llama-3.1-8B-Instruct").label
        ('CAP_L', 'CoT')
        >>> defended_by("w_cap", "SmolLM2-135M-Instruct").label
        'W-CAP (SmolLM2-135M-Instruct)'
    """
    if defense not in _BY_TUTOR or tutor is None:
        return Defended(defense)
    name = model_key(tutor)
    family = next((family for family, pattern in _FAMILIES.items() if pattern.match(name)), None)
    return Defended(defense, family or tutor)


def printed_defense(name: str) -> Defended:
    """The column that a name in `published/` stands for."""
    head, _, tail = name.rpartition("_")
    return Defended(head, tail) if head and tail in TUTORS else Defended(name)


def attack_kind(attack: str) -> str | None:
    """The paper's name of an attack, `CLEAN` of none; None of one that it does not have."""
    return "advsuffix" if _SUFFIX.fullmatch(attack) else attack if attack in (CLEAN, *ATTACKS) else None


def paper_data(place: Place) -> PaperData | None:
    """The paper's data that a place is of: judged by all criteria in one prompt, from 1 to 5."""
    dataset, dimension, score_range = place
    if (score_range.minimum, score_range.maximum) != _RANGE:
        return None
    return next((one for one in PAPER_DATA if (one.dataset, one.dimension) == (dataset, dimension)), None)


_RULES = ("expectation", "argmax")  # the paper's open judges score by expectation
_WORDS = "greedy"  # how an answer in words is written, whatever else the run's decodings are

Record = Mapping[str, Any]


class CapCell(NamedTuple):
    """One judge under one defense and one of the paper's attacks, or none."""

    system: System
    defense: Defended
    attack: str = CLEAN

    @property
    def unattacked(self) -> CapCell:
        """The same where nobody attacks."""
        return self._replace(attack=CLEAN)


@dataclass(frozen=True)
class Steered:
    """The strengths of one run's CAP references in one dimension.

    Attributes:
        tutor: the title of whoever wrote them.
        alphas: `alpha_h` and `alpha_l` -> strength as it acts (equations 4, 5).
        norm: mean length of the states that it acts on; None where unknown.
        layer: of how many layers, where; None where unknown.
        tried: whether they are those of the strengths tried whose texts scored nearest to the thresholds.
    """

    system: System
    tutor: str
    alphas: Mapping[str, float]
    norm: float | None
    layer: tuple[int, int] | None
    tried: bool


@dataclass
class CapCells:
    """All cells of the given runs; where two runs have the same one, the first's.

    Attributes:
        attacked: place -> cell -> its record, one that has a clean base under the same defense.
        clean: place -> cell -> the record of the clean texts.
        costs: place -> cell -> its record of defense/costs.json; a run of several places has the same at each.
        steered: place -> the strengths of the runs.
        labels: what tables call a judge; decodings: how it scores under a defense.
        groups: data set -> what its groups are called.
        tutors: column -> the titles of the tutors that stand in it.
        mixed: places whose seconds are means over several dimensions or ranges.
    """

    attacked: dict[Place, dict[CapCell, Record]] = field(default_factory=dict)
    clean: dict[Place, dict[CapCell, Record]] = field(default_factory=dict)
    costs: dict[Place, dict[CapCell, Record]] = field(default_factory=dict)
    steered: dict[Place, list[Steered]] = field(default_factory=dict)
    labels: dict[System, str] = field(default_factory=dict)
    decodings: dict[CapCell, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    tutors: dict[Defended, list[str]] = field(default_factory=dict)
    mixed: set[Place] = field(default_factory=set)

    @classmethod
    def of(cls, runs: Iterable[Results]) -> CapCells:
        """The cells of some runs."""
        cells = cls()
        for run in runs:
            cells._add(run)
        return cells

    def _add(self, run: Results) -> None:
        records = [one for one in run.metrics if (one["split"], one["level"]) == (run.split, run.level)]
        systems, labels = systems_of(run)
        tutor = tutor_name(run)
        decodings: dict[tuple[str, str], str | None] = {}
        for record in records:
            role, defense = str(record["judge"]), str(record["defense"])
            if (role, defense) not in decodings:
                decodings[role, defense] = _decoding(records, role, defense)
            # a null context is never attacked: it says the same of everything
            says_nothing = role == "assistant" and record.get("constant")
            if role not in systems or record["decoding"] != decodings[role, defense] or says_nothing:
                continue
            attack, place, column = attack_kind(record["attack"]), _place(record), defended_by(defense, tutor)
            known = number(record.get("spearman" if attack == CLEAN else "delta")) is not None
            if attack is None or not (known or attack == CLEAN):
                continue
            cell = CapCell(systems[role], column, attack)
            if known:
                (self.clean if attack == CLEAN else self.attacked).setdefault(place, {}).setdefault(cell, record)
            self.labels.setdefault(systems[role], labels[role])
            self.decodings.setdefault(cell.unattacked, str(record["decoding"]))
            self.groups.setdefault(place[0], run.groups)
            if column.tutor is not None and tutor not in (titles := self.tutors.setdefault(column, [])):
                titles.append(str(tutor))
        self._add_defenses(run, systems["main"], labels["main"], list(dict.fromkeys(map(_place, records))))

    def _add_defenses(self, run: Results, system: System, label: str, places: Sequence[Place]) -> None:
        # what a run without a defense took is no cost of one
        costs = run.costs if any(cost["defense"] != NO_DEFENSE for cost in run.costs) else ()
        for place in places:
            self.groups.setdefault(place[0], run.groups)
            for cost in costs:
                cell = CapCell(system, defended_by(str(cost["defense"]), tutor_name(run)))
                self.labels.setdefault(system, label)
                self.costs.setdefault(place, {}).setdefault(cell, cost)
            if costs and len(places) > 1:
                self.mixed.add(place)
            if (steered := _steered(run, system, place)) is not None:
                self.labels.setdefault(system, label)
                there = self.steered.setdefault(place, [])
                if all((other.system, other.tutor) != (steered.system, steered.tutor) for other in there):
                    there.append(steered)


def printed_cells(rows: Sequence[Mapping[str, str]], keys: Sequence[str]) -> dict[CapCell, dict[str, float | None]]:
    """Cell -> the figures of some published rows under these keys, in print order; None where the print cannot be
    read."""
    return {
        CapCell((model_key(row["judge"]), None), printed_defense(row["defense"]), row.get("attack", CLEAN)): {
            key: float(row[key]) if row[key] else None for key in keys
        }
        for row in rows
    }


def published_table(name: str, number: int) -> list[dict[str, str]]:
    """The rows of one of the paper's tables in a file of `published/`."""
    return [row for row in published_rows(name) if int(row["table"]) == number]


def own_name(place: Place, places: Iterable[Place]) -> str:
    """The name of a table that the paper does not have, with the range where `places` has several."""
    several = sum(other[:2] == place[:2] for other in places) > 1
    return "_".join(["cap_own", *map(file_name, [*place[:2], *([str(place[2])] if several else [])])])


def place_text(place: Place) -> str:
    """A place in words."""
    dataset, dimension, score_range = place
    return f"{dataset}, {dimension}, range {score_range}"


def compared_with(dataset: str) -> list[str]:
    """Sentences on how the paper judges the same data set; none of others."""
    return [
        f"The paper judges {data.title} by all criteria in one prompt (dimension {data.dimension}) from 1 to 5: its "
        f"table {data.changes}."
        for data in PAPER_DATA
        if data.dataset == dataset
    ]


def attacked_notes(cells: Mapping[CapCell, Record], found: CapCells) -> list[str]:
    """The provenance of attacked scores of ours."""
    notes = []
    for dataset, split in dict.fromkeys((record["dataset"], record["split"]) for record in cells.values()):
        own = [record for record in cells.values() if (record["dataset"], record["split"]) == (dataset, split)]
        texts, groups = (span(record[name] for record in own) for name in ("paired", "groups"))
        notes.append(
            f"Ours: {dataset}, {split} split, {texts} texts of {groups} {found.groups[dataset]}, scored clean and "
            "attacked under the same defense."
        )
    notes += scored_notes([cell.unattacked for cell in cells], found)
    if phrases := dict.fromkeys(record["attack"] for cell, record in cells.items() if cell.attack == "advsuffix"):
        notes.append(f"AdvSuffix of ours: {', '.join(phrases)}, the learned phrase of {SUFFIX_LENGTH} words.")
    return notes


def scored_notes(cells: Sequence[CapCell], found: CapCells) -> list[str]:
    """The decodings of our judges, and which tutors stand in the paper's columns."""
    usual: dict[System, str] = {}
    for cell in cells:
        if usual.get(cell.system, _WORDS) == _WORDS:
            usual[cell.system] = found.decodings[cell]
    worded = dict.fromkeys(cell.defense for cell in cells if found.decodings[cell] == _WORDS != usual[cell.system])
    notes = [f"Scores of ours: {', '.join(f'{found.labels[one]} by {how}' for one, how in usual.items())}."]
    if worded:
        notes.append(
            f"Under {', '.join(one.label for one in worded)} the judge answers in words: the number that it ends with "
            "counts, and no expectation."
        )
    return notes + tutor_notes([cell.defense for cell in cells], found)


def tutor_notes(columns: Sequence[Defended], found: CapCells) -> list[str]:
    """The authors of the references in the paper's columns."""
    return [
        f"{column.label} of ours: references by {', '.join(found.tutors[column])}."
        for column in dict.fromkeys(columns)
        if column in found.tutors and column.key != f"{column.defense}_{found.tutors[column][0]}"
    ]


def _place(record: Record) -> Place:
    return str(record["dataset"]), str(record["dimension"]), range_of(record)


def _decoding(records: Sequence[Record], role: str, defense: str) -> str | None:
    own = [record for record in records if record["defense"] == defense]
    return next((name for rule in _RULES if (name := decoding_of(own, role, rule)) is not None), None)


def _steered(run: Results, system: System, place: Place) -> Steered | None:
    own = run.references[(run.references["defense"] == CAP) & (run.references["dimension"] == place[1])]
    if not len(own) or own[["alpha_high", "alpha_low"]].isna().any(axis=None):
        return None
    alphas = {side: float(own[f"alpha_{side}"].iloc[0]) for side in ("high", "low")}
    standard = next((one for one in run.standards if one["dimension"] == place[1]), None)
    norm, layer = None, None
    if standard is not None:
        layer = int(standard["layer"]), len(standard["norms"])
        norm = number(standard["norms"][layer[0] - 1])
    selected = {(one["side"], one["alpha"]) for one in run.strengths if one["chosen"] and one["dimension"] == place[1]}
    tutor = tutor_name(run) or (str(standard["tutor"]) if standard else "tutor")
    acting = {"alpha_h": alphas["high"], "alpha_l": alphas["low"]}
    return Steered(system, tutor, acting, norm, layer, tried=selected >= set(alphas.items()))
