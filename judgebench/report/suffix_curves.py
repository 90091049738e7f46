"""What learned phrases change, arranged as people read it: a block a phrase and range, a panel a kind of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judgebench.metrics.suffix import ALL, SEEN, UNSEEN
from judgebench.report.results import Estimate
from judgebench.report.robustness import AttackRow
from judgebench.report.worded import marked, with_stand_ins
from judgebench.results.series import Series, SeriesIndex, defenses_of, number, range_of, shown_split
from judgebench.types import ScoreRange

_CONTEXTS, _SYSTEMS = (UNSEEN, SEEN), (UNSEEN, SEEN, ALL)


@dataclass(frozen=True)
class Point(AttackRow):
    """The first `length` words of a phrase; 0 are the clean texts.

    Attributes:
        mean_low, mean_high: 95 % interval of the mean score.
    """

    length: int = 0
    phrase: str = ""
    mean_low: float | None = None
    mean_high: float | None = None


@dataclass(frozen=True)
class Curve:
    """One judge and decoding under one defense, lengths ascending.

    Attributes:
        series: with the defense, where the run has several.
        base: without; defense: as people read it, with a mark where the judge answers in words.
    """

    series: Series
    points: Sequence[Point]
    base: Series
    defense: str

    @property
    def clean(self) -> Point | None:
        """Without the phrase."""
        return next((point for point in self.points if point.length == 0), None)


@dataclass(frozen=True)
class Panel:
    """Texts that are alike in whether the phrase was learned on them.

    Attributes:
        contexts: seen or unseen; systems: these, or all where both are told apart elsewhere.
        texts, groups: how many, at most, over its points.
    """

    split: str
    contexts: str
    systems: str
    texts: int
    groups: int
    curves: Sequence[Curve]

    def title(self, groups_are: str = "articles") -> str:
        """What it is of, such as `unseen articles, unseen systems`."""
        return f"{self.contexts} {groups_are}, {self.systems} systems"


@dataclass(frozen=True)
class Learned:
    """One phrase in one dimension and range.

    Attributes:
        suffix: the name of its attacks without the number; objective: what was raised to learn it.
        phrases: those that were scored, the shortest first.
        panels: what the phrase never saw first.
        several: whether the run has it in several ranges.
        constant: the judges and decodings that are left out, for they give every text the same score, whatever is
            appended.
    """

    suffix: str
    objective: str
    dimension: str
    range: ScoreRange
    phrases: Sequence[str]
    panels: Sequence[Panel]
    several: bool
    constant: Sequence[str] = ()

    @property
    def title(self) -> str:
        """Name, objective, dimension and range."""
        told = f"{self.suffix} (learned for: {self.objective})" if self.objective else self.suffix
        return f"{self.dimension}, range {self.range}: {told}"

    @property
    def phrase(self) -> str:
        """The whole of it."""
        return self.phrases[-1]

    @property
    def words(self) -> int:
        """How many the longest phrase that was scored has."""
        return max(
            (point.length for panel in self.panels for curve in panel.curves for point in curve.points), default=0
        )

    @property
    def apart(self) -> list[Panel]:
        """The panels of texts that are all alike: those of all systems are left out."""
        return [panel for panel in self.panels if panel.systems != ALL]


def arrange_suffix(records: Sequence[Mapping[str, Any]]) -> list[Learned]:
    """The records of attack/suffix.json, in order of appearance; the shown split's panels first."""
    blocks: dict[tuple[str, str, ScoreRange], list[Mapping[str, Any]]] = {}
    records, worded = with_stand_ins(records)
    for record in records:
        blocks.setdefault((record["suffix"], record["dimension"], range_of(record)), []).append(record)
    shown, index = shown_split(record["split"] for record in records), SeriesIndex(records)
    defenses = [marked(defense, worded) for defense in defenses_of(records)]
    found = []
    for (suffix, dimension, score_range), held in blocks.items():
        curves: dict[tuple[Series, str], list[Mapping[str, Any]]] = {}
        for record in held:
            curves.setdefault((index.of(record), marked(record["defense"], worded)), []).append(record)
        names = {key: _named(*key, len(defenses) > 1) for key in curves}
        telling = {key: own for key, own in curves.items() if not all(map(_says_nothing, own))}
        order = sorted(telling, key=lambda key: (index.all.index(key[0]), defenses.index(key[1])))
        phrases = {record["length"]: record["phrase"] for record in held if record["length"]}
        found.append(
            Learned(
                suffix,
                str(held[0]["objective"]),
                dimension,
                score_range,
                [phrases[length] for length in sorted(phrases)],
                _panels([(names[key], key, telling[key]) for key in order], shown),
                several=len({key[2] for key in blocks if key[:2] == (suffix, dimension)}) > 1,
                constant=[str(name) for key, name in names.items() if key not in telling],
            )
        )
    return found


def suffix_note(learned: Sequence[Learned], groups_are: str = "articles") -> str:
    """What the numbers of the tables are."""
    bounded = any(p.mean_low is not None for one in learned for at in one.panels for c in at.curves for p in c.points)
    brackets = f" [95 % interval, {groups_are} resampled, clean and attacked together]" if bounded else ""
    return (
        f"Seen: the phrase was learned on these {groups_are}, or on texts of these systems; unseen: it never saw them, "
        f"and only they tell what it does elsewhere. Mean and change of the scores{brackets}; the other columns are "
        "those of the attacks above. 0 words: the clean texts."
    )


def constant_note(learned: Learned) -> str:
    """Which curves are left out, and why; empty where none is."""
    if not learned.constant:
        return ""
    return f"Left out, for they say the same of every text, whatever is appended: {'; '.join(learned.constant)}."


_Named = tuple[Series, tuple[Series, str]]
"""A curve's name, the series and the defense behind it."""


def _panels(
    curves: Sequence[tuple[Series, tuple[Series, str], Sequence[Mapping[str, Any]]]], shown: str
) -> list[Panel]:
    parts: dict[tuple[str, str, str], dict[_Named, list[Mapping[str, Any]]]] = {}
    for name, behind, records in curves:
        for record in records:
            part = parts.setdefault((record["split"], record["contexts"], record["systems"]), {})
            part.setdefault((name, behind), []).append(record)
    order = sorted(parts, key=lambda key: (_CONTEXTS.index(key[1]), key[0] != shown, _SYSTEMS.index(key[2])))
    # where only seen or only unseen systems have texts, all systems are these
    kept = [key for key in order if key[2] != ALL or all((*key[:2], systems) in parts for systems in (SEEN, UNSEEN))]
    return [_panel(key, parts[key]) for key in kept]


def _panel(key: tuple[str, str, str], curves: Mapping[_Named, Sequence[Mapping[str, Any]]]) -> Panel:
    split, contexts, systems = key
    texts, groups = (max(int(one[name]) for own in curves.values() for one in own) for name in ("n", "groups"))
    ordered = [
        Curve(name, sorted(map(_point, own), key=lambda point: point.length), *behind)
        for (name, behind), own in curves.items()
    ]
    return Panel(split, contexts, systems, texts, groups, ordered)


def _says_nothing(record: Mapping[str, Any]) -> bool:
    """Whether the clean texts of a part all have the same score, and the phrase changes none."""
    return record["standardized"] is None and (record["change"], record["raised_share"]) == (0, 0)


def _named(series: Series, defense: str, defended: bool) -> Series:
    """With the defense, where a run has several."""
    if not defended:
        return series
    told = "no defense" if defense == "none" else f"defense {defense}"
    return replace(series, setting=", ".join(filter(None, [series.setting, told])))


def _point(record: Mapping[str, Any]) -> Point:
    attacked = record["length"] > 0
    return Point(
        str(record["attack"]) if attacked else "clean",
        mean=number(record["mean_score"]),
        maximum_share=number(record["maximum_share"]),
        win_share=number(record["win_share"]),
        spearman=None,
        change=_estimate(record, "change") if attacked else None,
        rate_of_means=number(record["rate_of_means"]) if attacked else None,
        mean_of_rates=number(record["mean_of_rates"]) if attacked else None,
        raised_share=number(record["raised_share"]) if attacked else None,
        places_gained=number(record["places_gained"]) if attacked else None,
        length=int(record["length"]),
        phrase=str(record["phrase"]),
        mean_low=number(record["mean_score_low"]),
        mean_high=number(record["mean_score_high"]),
    )


def _estimate(record: Mapping[str, Any], name: str) -> Estimate:
    return Estimate(number(record[name]), number(record[f"{name}_low"]), number(record[f"{name}_high"]))
