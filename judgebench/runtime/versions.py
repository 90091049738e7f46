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


def translate_settings(node: Any) -> Any:
    """A plain value of such a file, with its classes where they are and with the keys that they
    take.

    Example:
        >>> translate_settings({"_target_": "judgebench.judges.replay.ReplaySpec", "dtype": "auto"})
        {'_target_': 'judgebench.judges.precomputed.replay.ReplaySpec'}
    """
    if isinstance(node, list):
        return [translate_settings(each) for each in node]
    if not isinstance(node, Mapping):
        return node
    settings = {key: translate_settings(value) for key, value in node.items()}
    target = settings.get("_target_")
    if isinstance(target, str):
        settings["_target_"] = target = MOVED.get(target, target)
        for key in GONE.get(target, ()):
            settings.pop(key, None)
    return settings
