"""What runs found of each system at each range: the cells from which the paper's tables are made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.report.figures.style import shorten
from judgebench.report.paper.published import System, model_key
from judgebench.results.results import Results
from judgebench.results.series import range_of, setting, shown_split
from judgebench.types import ScoreRange

CONTRASTIVE = "contrastive"
"""The decoding that stands in the paper's rows, where a run has several that contrast."""

_PREFERRED = {"argmax": "greedy", "expectation": "expectation"}
"""Rule -> the decoding of a model by itself that stands in the rows, where a run has several."""
_SIZE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?[bBmM](?!\w)")
_EXIT = re.compile(r"early exit after (layer \d+)")
_LEVEL = "dataset"


@dataclass(frozen=True)
class RunResults:
    """What one run found.

    Attributes:
        records: metrics.json.
        tuning: tuning.json; empty where lambda and t were not tuned.
        titles: `main` and `assistant`, the models' names; `tutor`, that of whoever writes references; `groups`, what a
            group is.
        defense: what its defenses found.
    """

    records: Sequence[Mapping[str, Any]]
    titles: Mapping[str, str | None]
    tuning: Any = None
    defense: Results = field(default_factory=Results)


Key = tuple[str, System, ScoreRange]


@dataclass
class Found:
    """All cells of the given runs under one rule.

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

    def add(self, run: RunResults, rule: str) -> None:
        """Takes the cells of a run; where another run has the same one, the first stays."""
        main, assistant = _names(run.titles)
        systems, labels = systems_of(run.titles)
        if assistant is not None:
            self.names[systems["pair"]] = (main, assistant)
            if any(label == labels["pair"] for one, label in self.labels.items() if one != systems["pair"]):
                labels["pair"] = f"Contrastive ({shorten(main, 30)}-{shorten(assistant, 30)})"
        for role in ("assistant", "main", "pair"):  # small before large, as printed
            if role in systems:
                self.labels.setdefault(systems[role], labels[role])
        records = _shown(run.records)
        self.groups |= {record["dataset"]: run.titles.get("groups") or "articles" for record in records}
        decodings = {judge: decoding_of(records, judge, rule) for judge in systems}
        if any(one["decoding"] == decodings.get("pair") for one in run.tuning or ()):
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
            self._note(
                dimension,
                f"{self.labels[system]}, range {score_range}: found several times and differently; the first is shown.",
            )

    def _note(self, dimension: str, sentence: str) -> None:
        notes = self.notes.setdefault(dimension, [])
        if sentence not in notes:
            notes.append(sentence)

    @property
    def dimensions(self) -> list[str]:
        """Those that any cell has."""
        return list(dict.fromkeys(dimension for dimension, _, _ in self.cells))


def systems_of(titles: Mapping[str, str | None]) -> tuple[dict[str, System], dict[str, str]]:
    """Role (`main`; `assistant` and `pair` where there is one) -> who judges, and what tables call it."""
    main, assistant = _names(titles)
    systems: dict[str, System] = {"main": (model_key(main), None)}
    labels = {"main": shorten(main, 30)}
    if assistant is not None:
        systems |= {"assistant": (model_key(assistant), None), "pair": (model_key(main), model_key(assistant))}
        labels |= {"assistant": shorten(assistant, 30), "pair": f"Contrastive ({_size(main)}-{_size(assistant)})"}
    return systems, labels


def _shown(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    split = shown_split(record["split"] for record in records)
    plain = {"split": split, "level": _LEVEL, "attack": "none", "defense": "none"}
    return [record for record in records if all(record[name] == value for name, value in plain.items())]


def decoding_of(records: Iterable[Mapping[str, Any]], judge: str, rule: str) -> str | None:
    """Which of a judge's decodings by the rule stands in its rows; None where it has none."""
    names = list(
        dict.fromkeys(
            record["decoding"]
            for record in records
            # where nobody has said it, as in runs of earlier versions, the paper's own
            if record["judge"] == judge and (record.get("rule") or "argmax") == rule
        )
    )
    preferred = CONTRASTIVE if judge == "pair" else _PREFERRED[rule]
    return preferred if preferred in names else next(iter(names), None)


def _names(titles: Mapping[str, str | None]) -> tuple[str, str | None]:
    """The models' names, told apart where files are called alike."""
    main, assistant = titles["main"] or "main", titles.get("assistant")
    if assistant is not None and model_key(assistant) == model_key(main):
        return f"{main} (main)", f"{assistant} (assistant)"
    return main, assistant


def _size(name: str) -> str:
    """A model's size where its name tells it, as the paper names pairs; the layer of an early exit; else the name."""
    if exit_at := _EXIT.fullmatch(name):
        return exit_at[1]
    found = _SIZE.findall(name)
    return found[-1] if found else shorten(name, 14)
