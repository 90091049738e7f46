"""What runs found of the CAP paper's questions: the cells from which its tables are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report.paper.cap_names import CAP, NO_DEFENSE, SUFFIX_LENGTH, Defended, Place, attack_kind, defended_by
from judgebench.report.paper.found import RunResults, decoding_of, systems_of
from judgebench.report.paper.published import System
from judgebench.report.paper.tables import Value
from judgebench.results.series import number, range_of, shown_split

_RULES = ("expectation", "argmax")  # the paper's open judges score by expectation
_WORDS = "greedy"  # how an answer in words is written, whatever else the run's decodings are

Record = Mapping[str, Any]


class Attacked(NamedTuple):
    """One judge under one of the paper's attacks and one defense."""

    system: System
    attack: str
    defense: Defended


class Unattacked(NamedTuple):
    """One judge under one defense."""

    system: System
    defense: Defended


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
class CapFound:
    """All cells of the given runs.

    Attributes:
        attacked: place -> cell -> its record, one that has a clean base under the same defense.
        clean: place -> cell -> the record of the clean texts.
        costs: place -> cell -> its record of defense/costs.json, of runs that judge in one place alone; a run of
            several has them at each of its places.
        steered: place -> the strengths of the runs.
        labels: what tables call a judge; decodings: how it scores under a defense.
        groups: data set -> what its groups are called.
        tutors: column -> the titles of the tutors that stand in it.
        mixed: places whose seconds are means over several dimensions or ranges.
    """

    attacked: dict[Place, dict[Attacked, Record]] = field(default_factory=dict)
    clean: dict[Place, dict[Unattacked, Record]] = field(default_factory=dict)
    costs: dict[Place, dict[Unattacked, Record]] = field(default_factory=dict)
    steered: dict[Place, list[Steered]] = field(default_factory=dict)
    labels: dict[System, str] = field(default_factory=dict)
    decodings: dict[Unattacked, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    tutors: dict[Defended, list[str]] = field(default_factory=dict)
    mixed: set[Place] = field(default_factory=set)

    def add(self, run: RunResults) -> None:
        """Takes the cells of a run; where another run has the same one, the first stays."""
        split = shown_split(record["split"] for record in run.records)
        level = shown_level(record["level"] for record in run.records)
        records = [record for record in run.records if (record["split"], record["level"]) == (split, level)]
        systems, labels = systems_of(run.titles)
        tutor = run.titles.get("tutor")
        decodings: dict[tuple[str, str], str | None] = {}
        for record in records:
            role, defense = str(record["judge"]), str(record["defense"])
            if (role, defense) not in decodings:
                decodings[role, defense] = _decoding(records, role, defense)
            # a null context is never attacked: it says the same of everything
            says_nothing = role == "assistant" and record.get("constant")
            if role not in systems or record["decoding"] != decodings[role, defense] or says_nothing:
                continue
            system, column, place = systems[role], defended_by(defense, tutor), _place(record)
            cell = Unattacked(system, column)
            if record["attack"] == CLEAN:
                if number(record.get("spearman")) is not None:
                    self.clean.setdefault(place, {}).setdefault(cell, record)
            else:
                kind = attack_kind(record["attack"])
                if kind is None or record.get("delta") is None:
                    continue
                self.attacked.setdefault(place, {}).setdefault(Attacked(system, kind, column), record)
            self.labels.setdefault(system, labels[role])
            self.decodings.setdefault(cell, str(record["decoding"]))
            self.groups.setdefault(place[0], run.titles.get("groups") or "articles")
            if column.tutor is not None and tutor not in (titles := self.tutors.setdefault(column, [])):
                titles.append(str(tutor))
        if "main" in systems:
            self._add_defenses(run, systems["main"], labels["main"], list(dict.fromkeys(map(_place, records))))

    def _add_defenses(self, run: RunResults, system: System, label: str, places: Sequence[Place]) -> None:
        tutor = run.titles.get("tutor")
        # what a run without a defense took is no cost of one
        costs = run.defense.costs if any(cost["defense"] != NO_DEFENSE for cost in run.defense.costs) else ()
        for place in places:
            self.groups.setdefault(place[0], run.titles.get("groups") or "articles")
            for cost in costs:
                cell = Unattacked(system, defended_by(str(cost["defense"]), tutor))
                self.labels.setdefault(system, label)
                self.costs.setdefault(place, {}).setdefault(cell, cost)
            if costs and len(places) > 1:
                self.mixed.add(place)
            if (found := _steered(run, system, place)) is not None:
                self.labels.setdefault(system, label)
                held = self.steered.setdefault(place, [])
                if all((one.system, one.tutor) != (found.system, found.tutor) for one in held):
                    held.append(found)


def value_of(record: Record, name: str, factor: float = 1.0) -> Value | None:
    """A number of a record with its interval, times `factor`; None where it is unknown."""
    value = number(record.get(name))
    if value is None:
        return None
    ends = (number(record.get(f"{name}_low")), number(record.get(f"{name}_high")))
    return Value(factor * value, *(None if end is None else factor * end for end in ends))


def attacked_notes(cells: Mapping[Attacked, Record], found: CapFound) -> list[str]:
    """What the numbers of ours are of."""
    notes = []
    for dataset, split in dict.fromkeys((record["dataset"], record["split"]) for record in cells.values()):
        own = [record for record in cells.values() if (record["dataset"], record["split"]) == (dataset, split)]
        texts, groups = (sorted({int(record[name]) for record in own}) for name in ("paired", "groups"))
        notes.append(
            f"Ours: {dataset}, {split} split, {span(texts)} texts of {span(groups)} {found.groups[dataset]}, scored "
            "clean and attacked under the same defense."
        )
    notes += scored_notes([Unattacked(key.system, key.defense) for key in cells], found)
    if phrases := dict.fromkeys(record["attack"] for key, record in cells.items() if key.attack == "advsuffix"):
        notes.append(f"AdvSuffix of ours: {', '.join(phrases)}, the learned phrase of {SUFFIX_LENGTH} words.")
    return notes


def scored_notes(cells: Sequence[Unattacked], found: CapFound) -> list[str]:
    """How the judges of ours score, and which tutors stand in the paper's columns."""
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


def tutor_notes(columns: Sequence[Defended], found: CapFound) -> list[str]:
    """Whose references stand in the paper's columns."""
    return [
        f"{column.label} of ours: references by {', '.join(found.tutors[column])}."
        for column in dict.fromkeys(columns)
        if column in found.tutors and column.key != f"{column.defense}_{found.tutors[column][0]}"
    ]


def span(known: Sequence[int]) -> str:
    """The lowest and the highest of some numbers, ascending."""
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _place(record: Record) -> Place:
    return str(record["dataset"]), str(record["dimension"]), range_of(record)


def _decoding(records: Sequence[Record], role: str, defense: str) -> str | None:
    own = [record for record in records if record["defense"] == defense]
    return next((name for rule in _RULES if (name := decoding_of(own, role, rule)) is not None), None)


def _steered(run: RunResults, system: System, place: Place) -> Steered | None:
    references = run.defense.references
    own = references[(references["defense"] == CAP) & (references["dimension"] == place[1])]
    if not len(own) or own[["alpha_high", "alpha_low"]].isna().any(axis=None):
        return None
    alphas = float(own["alpha_high"].iloc[0]), float(own["alpha_low"].iloc[0])
    standard = next((one for one in run.defense.standards if one["dimension"] == place[1]), None)
    norm, layer = None, None
    if standard is not None:
        layer = int(standard["layer"]), len(standard["norms"])
        norm = number(standard["norms"][layer[0] - 1])
    return Steered(
        system,
        run.titles.get("tutor") or (str(standard["tutor"]) if standard else "tutor"),
        {"alpha_h": alphas[0], "alpha_l": alphas[1]},
        norm,
        layer,
        all(
            any(
                one["chosen"] and (one["dimension"], one["side"], one["alpha"]) == (place[1], side, alpha)
                for one in run.defense.strengths
            )
            for side, alpha in (("high", alphas[0]), ("low", alphas[1]))
        ),
    )
