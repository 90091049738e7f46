"""Settings in files that an earlier commit wrote, as they are now.

Judge cards, run folders and recorded readings hold configurations. Since commit 26d5f633 some of
their classes have moved, and some of their keys have gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LOCAL = "judgebench.judges.spec.JudgeSpec"
_SERVED = "judgebench.judges.served.settings.ApiSpec"
_PANEL = "judgebench.judges.precomputed.panel.PanelSpec"
_RECORDED = "judgebench.judges.precomputed.recorded.RecordedSpec"
_REPLAYED = "judgebench.judges.precomputed.replay.ReplaySpec"

MOVED = {
    "judgebench.judges.reader.JudgeSpec": _LOCAL,
    "judgebench.judges.api.settings.ApiSpec": _SERVED,
    "judgebench.judges.panel.PanelSpec": _PANEL,
    "judgebench.judges.recorded.RecordedSpec": _RECORDED,
    "judgebench.judges.replay.ReplaySpec": _REPLAYED,
}
"""A class as files name it -> where it is now."""

_OF_A_MODEL = frozenset({"gguf_file", "revision", "dtype", "trust_remote_code", "engine"})

GONE = {
    _LOCAL: frozenset({"draft_tokens"}),
    _SERVED: frozenset({"path", "dtype", "engine"}),
    _PANEL: _OF_A_MODEL | {"path"},
    _RECORDED: _OF_A_MODEL,
    _REPLAYED: _OF_A_MODEL | {"mode"},
}
"""A class -> keys that it had, at which no other value than their default could stand."""


RENAMED = {"worth": "human_agreement", "compare_with": "baseline", "costs.mark": "costs.threshold"}
"""A key of a configuration as files have it -> its name now."""

_BUDGET = ("token_budget", "max_batch_tokens")
"""A key of every class that has it, as files have it, and its name now."""


def translate_settings(config: Any) -> Any:
    """A configuration of such a file, or a part of one, with its classes where they are and with
    the keys that they take.

    Example:
        >>> translate_settings({"_target_": "judgebench.judges.replay.ReplaySpec", "dtype": "auto"})
        {'_target_': 'judgebench.judges.precomputed.replay.ReplaySpec'}
    """
    settings = _with_classes(config)
    for old, new in RENAMED.items():
        *above, key = old.split(".")
        holder = settings
        for name in above:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and key in holder:
            holder[new.rpartition(".")[2]] = holder.pop(key)
    return settings


def _with_classes(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_classes(each) for each in node]
    if not isinstance(node, Mapping):
        return node
    settings = {key: _with_classes(value) for key, value in node.items()}
    target = settings.get("_target_")
    if isinstance(target, str):
        settings["_target_"] = target = MOVED.get(target, target)
        for key in GONE.get(target, ()):
            settings.pop(key, None)
        old, new = _BUDGET
        if old in settings:
            settings[new] = settings.pop(old)
    return settings
