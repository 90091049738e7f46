"""Configurations and cards in which settings of attacks and defenses stand beside their lists, under
`attack` and `defense`."""

from __future__ import annotations

import inspect
from typing import Any

from judgebench.attacks.attack import ADV_SUFFIX
from judgebench.defenses import shipped_defenses
from judgebench.settings.components import TARGET, entry_name
from judgebench.types import Record, Row

_SETTINGS = {
    "seed": "seed",
    "cot_tokens": "answer_tokens",
    "thought_tokens": "thought_tokens",
    "anchors": "count",
    "anchors_sources": "sources",
    "swap_references": "swapped",
    "detectors": "detectors",
    "helper": "helper",
}
"""A key of `defense` -> the setting of an entry of `defenses`."""


def in_entries(content: Row) -> Record:
    """Plain values of a configuration, or parts of a card, with the settings of attacks and
    defenses in the entries that they are for."""
    current = dict(content)
    # 1. a phrase that was learned, or taken from another run
    if attack := current.pop("attack", None):
        learned = {key: attack[key] for key in attack if key not in (TARGET, "search")}
        current["attacks"] = [*current["attacks"], {"name": ADV_SUFFIX, **learned}]
    # 2. defenses; the judge's own model helps where no other is named
    if given := current.pop("defense", None):
        helper = {key: value for key, value in given["helper"].items() if key != TARGET}
        own = helper.get("path") == current["judge"].get("path")
        given = {**given, "helper": None if own else helper}
        current["defenses"] = [_with_settings(entry, given) for entry in current["defenses"]]
    return current


def _with_settings(entry: Any, given: Row) -> Any:
    """An entry of `defenses` with those of the given settings that it takes."""
    makers = shipped_defenses()
    # a template of one's own takes what those do that come with judgebench
    own = makers["none" if TARGET in entry else "delimiters"]
    takes = inspect.signature(makers.get(str(entry_name(entry)), own)).parameters
    settings = {
        name: given[key]
        for key, name in _SETTINGS.items()
        if name in takes and given.get(key) is not None
    }
    if not settings:
        return entry
    named = {"name" if entry in makers else "template": entry} if isinstance(entry, str) else entry
    return {**named, **settings}
