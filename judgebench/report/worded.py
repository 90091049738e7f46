"""Defenses under which a judge answers in words, beside others whose scores are decoded from probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOTE = "(its number): the judge answers in words there, and the number that it ends with stands for every decoding."

_WORDS = "greedy"
"""How an answer in words is written, whatever the run's decodings are."""

_SETTING = ("decoding", "lambda", "temperature")
_CELL = ("split", "level", "dimension", "range_min", "range_max", "range_step", "judge")


def with_stand_ins(records: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], set[str]]:
    """The records, those of defenses in words once for each decoding that their judge has under the others.

    Args:
        records: metrics.json, or attack/suffix.json.

    Returns:
        the records, and the names of the defenses whose number stands in.
    """
    settings: dict[tuple[Any, ...], dict[str, dict[tuple[Any, ...], None]]] = {}
    for record in records:
        held = settings.setdefault(_cell(record), {}).setdefault(str(record["defense"]), {})
        held[tuple(record[name] for name in _SETTING)] = None
    shown: list[Mapping[str, Any]] = []
    worded = set()
    for record in records:
        by_defense, defense = settings[_cell(record)], str(record["defense"])
        others = {one: None for name, held in by_defense.items() if name != defense for one in held if one[0] != _WORDS}
        if {one[0] for one in by_defense[defense]} == {_WORDS} and others:
            worded.add(defense)
            # where others have greedy scores too, its own stand beside them
            kept = any(one[0] == _WORDS for name, held in by_defense.items() if name != defense for one in held)
            shown += [record] if kept else []
            shown += [{**record, **dict(zip(_SETTING, one, strict=True))} for one in others]
        else:
            shown.append(record)
    return shown, worded


def marked(defense: str, worded: set[str]) -> str:
    """A defense's name, with a mark where its number stands in."""
    return f"{defense} (its number)" if defense in worded else defense


def _cell(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in _CELL)
