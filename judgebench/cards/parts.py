"""Parts of a card. A card comes from anybody: its parts are plain data that make a judge, refer to nothing, and name no
file whose content the card does not state; texts and keys go to an address that it names only with the user's consent.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
import typing
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judgebench.config.keys import typed_overrides
from judgebench.judges.api.settings import is_loopback
from judgebench.runtime.errors import UserError, shown
from judgebench.runtime.parsing import check_shape
from judgebench.runtime.secrets import masked_argument

if TYPE_CHECKING:
    from judgebench.readings.recording import Recording

PARTS = ("judge", "assistant", "prompt", "decoding", "defenses", "defense", "tutor")
"""The parts of a configuration that make the judge."""

LOCAL = "judgebench.judges.reader.JudgeSpec"
REPLAYED = "judgebench.judges.replay.ReplaySpec"
RECORDED = "judgebench.judges.recorded.RecordedSpec"
NO_ASSISTANT = {"_target_": "judgebench.judges.assistants.assistant", "kind": "none"}
_SERVED = "judgebench.judges.assistants.served_assistant"
_CONTRASTIVE = "judgebench.decoding.Contrastive"
_MAKERS = {
    ("judge",): (LOCAL, "judgebench.judges.api.settings.ApiSpec", REPLAYED),
    ("assistant",): (NO_ASSISTANT["_target_"], _SERVED),
    ("decoding", "*"): ("judgebench.decoding.Greedy", "judgebench.decoding.Expectation", _CONTRASTIVE),
    ("defense",): ("judgebench.defenses.settings.DefenseSettings",),
    ("defense", "helper"): ("judgebench.defenses.settings.Helper",),
    ("tutor",): ("judgebench.tutor.spec.TutorSpec",),
}
"""Position in the parts -> the classes that may be made there: a card must not run what it likes."""

_ANSWERS_FOR = {_SERVED: "judgebench.judges.assistants.ServedAssistant"}
"""A maker that takes any keys -> the class that they are for."""

_MADE = {"_target_": str}
SHAPE = {
    **{"judge": _MADE, "assistant": _MADE, "decoding": {str: _MADE}, "defenses": [(str, dict)]},
    **{"prompt": dict, "defense": {**_MADE, "helper": _MADE}, "tutor": (None, _MADE)},
}
"""See `judgebench.runtime.parsing.check_shape`."""

_TEMPLATES = (("prompt", "rubrics"), ("prompt", "variants"))
"""Texts that a card states elsewhere, as templates: these are not used."""

_BESIDE = (("defense", "detectors"), ("tutor", "vectors"))
"""Parts and their keys that name what a run has learned."""

_SHIPPED_PROMPTS = ("summary", "dialogue")


def check_card_parts(parts: Mapping[str, Any], series: Mapping[str, str], dimension: str) -> None:
    """Checks parts of `SHAPE` that were read from a card; `UserError` where they name something else than a judge is
    made of, refer to other values, or do not belong together."""
    for where, key, value in _walk({"parts": {name: parts[name] for name in PARTS}, "dimension": dimension}):
        at = ".".join((*where, key))
        inside = where[1:]
        if key == "_target_":
            place = ("decoding", "*") if inside[:1] == ("decoding",) and len(inside) == 2 else inside
            if not isinstance(value, str) or value not in _MAKERS.get(place, ()):
                raise UserError(f"{at} is {shown(value)}, which is no part of a judge; do not use this card.")
        elif key.startswith("_"):
            raise UserError(f"{at} is no part of a judge; do not use this card.")
        if (*inside, key)[:2] in _TEMPLATES:
            continue
        for text in (key, value):
            if isinstance(text, str) and ("${" in text or text == "???"):
                raise UserError(
                    f"{at} refers to something else ({shown(text)}), and a card is plain data; do not use it."
                )
    decodings = list(parts["decoding"])
    if decodings != [series["decoding"]]:
        raise UserError(f"series.decoding is {series['decoding']!r}, and parts.decoding has {', '.join(decodings)}.")
    needed = "pair" if parts["decoding"][decodings[0]]["_target_"] == _CONTRASTIVE else "main"
    if series["judge"] != needed:
        raise UserError(f"series.judge is {shown(series['judge'])}, and {decodings[0]} gives scores of {needed} alone.")


def check_recorded(recording: Recording) -> None:
    """Checks that recorded readings are of a model that a card can name; else `UserError`."""
    if recording.setting("judge", "_target_") != LOCAL:
        raise UserError(
            f"judge.path: {recording.path.name} has readings of a judge that is no model here, and says nothing of its "
            "address, so nobody could use the card; calibrate with that judge itself."
        )


def recorded_parts(parts: Mapping[str, Any], recording: Recording) -> dict[str, Any]:
    """The parts with the models whose readings were recorded in the place of these: with them, and whoever has them,
    the card's judge scores other texts.

    Raises:
        UserError: see `check_recorded`; or the settings of the models cannot be.
    """
    check_recorded(recording)
    made: dict[str, Any] = {**parts, "judge": {**recording.setting("judge")}}
    if parts["assistant"] != NO_ASSISTANT:
        made["assistant"] = {**(recording.setting("assistant") or {}), "_target_": NO_ASSISTANT["_target_"]}
    for role in ("judge", "assistant"):
        if made[role].get("trust_remote_code"):
            made[role]["trust_remote_code"] = False
    built = ("max_tokens", "truncate", "template_options")  # what plain text has no need of
    made["prompt"] = {**parts["prompt"], **{key: recording.setting("prompt", key) for key in built}}
    check_arguments(made)
    return made


def check_arguments(parts: Mapping[str, Any]) -> None:
    """Checks that what is made takes the keys that it is given, and values of their kinds; else `UserError`."""
    places = [(name, parts[name]) for name in ("judge", "assistant", "defense", "tutor") if parts[name] is not None]
    places += [("defense.helper", parts["defense"]["helper"])]
    places += [(f"decoding.{name}", one) for name, one in parts["decoding"].items()]
    for where, part in places:
        taken = _taken(part["_target_"])
        for key in part:
            if key != "_target_" and key not in taken and f"{key}?" not in taken:
                raise UserError(f"card: parts.{where}.{key} is unknown to this version of judgebench; calibrate anew.")
        check_shape(part, taken, "card", at=f"parts.{where}")


def with_files(parts: dict[str, Any], files: Mapping[str, str], folder: str) -> dict[str, Any]:
    """The parts, with the paths of the card's files on this machine.

    Args:
        parts: changed in place.
        files: path below `folder` -> its digest, which is checked already.
        folder: of the card, absolute.

    Raises:
        UserError: they name a file that is not among `files`, which could be any file of this machine.
    """
    if parts["defenses"] in ([], ["none"]):  # nothing reads what these name
        parts["defense"]["detectors"] = parts["tutor"] = None
    for part, key in _BESIDE:
        value = (parts[part] or {}).get(key)
        if value is not None:
            parts[part][key] = _beside(f"{part}.{key}", value, files, folder)
    for i, entry in enumerate(parts["defenses"]):
        if isinstance(entry, dict):
            template = _beside(f"defenses[{i}].template", entry.get("template"), files, folder)
            parts["defenses"][i] = {**entry, "template": template}
        elif "/" in entry or "\\" in entry or entry.endswith(".txt"):
            _beside(f"defenses[{i}]", entry, {}, folder)
    if parts["tutor"] is not None and (prompts := parts["tutor"].get("prompts", "summary")) not in _SHIPPED_PROMPTS:
        _beside("tutor.prompts", prompts, {}, folder)
    return parts


def _beside(where: str, value: Any, files: Mapping[str, str], folder: str) -> str:
    known = isinstance(value, str) and any(name == value or name.startswith(f"{value}/") for name in files)
    if not known:
        raise UserError(
            f"card: parts.{where} names {shown(value)}, and the card does not state what is in it, so that it could be "
            "any file here; `python -m judgebench.calibrate` writes a card anew that has its files beside it."
        )
    return f"{folder}/{value}"


def _walk(node: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Position, key and value of everything inside a plain value."""
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield where, str(key), value
        yield from _walk(value, (*where, str(key)))


def _taken(target: str) -> dict[str, Any]:
    """The shape of the arguments that a class takes; each may be null, which the class checks itself."""
    module, _, name = _ANSWERS_FOR.get(target, target).rpartition(".")
    maker = getattr(import_module(module), name)
    hints = typing.get_type_hints(maker)
    own = {field.name for field in dataclasses.fields(maker)} if dataclasses.is_dataclass(maker) else set(hints)
    return {
        name if parameter.default is inspect.Parameter.empty else f"{name}?": (
            dict if dataclasses.is_dataclass(hints[name]) else hints[name],
            None,
        )
        for name, parameter in inspect.signature(maker).parameters.items()
        if name in own and name != "role"
    }


_HOST = re.compile(r"[0-9A-Za-z.:_-]+")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def check_consent(role: str, part: Mapping[str, Any], given: Mapping[str, Any], hosts: Sequence[str]) -> None:
    """Checks that the user agrees to what a card's judge or assistant would be sent, before anything is.

    This machine's own servers need no consent to texts; a key needs it everywhere.

    Args:
        part: the card's judge or assistant.
        given: the user's settings of it; whoever names an address or a key variable agrees to it.
        hosts: that the user has named for texts.

    Raises:
        UserError: the user has not agreed; names the host and the command that would.
    """
    url, variable = given.get("url", part.get("url")), part.get("key_variable")
    if url is None:
        return
    host = _host(url)
    texts = not ("url" in given or is_loopback(url) or host in (one.lower() for one in hosts))
    key = variable is not None and "key_variable" not in given
    if not texts and not key:
        return
    if key and not (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
        raise UserError(f"card: parts.{role}.key_variable is {shown(variable)}, which is no name of a variable.")
    sent = " and ".join(
        [
            *(["every text that is scored"] if texts else []),
            *([f"the key in the environment variable {variable}"] if key else []),
        ]
    )
    more = [*([f"send_to={host}"] if texts else []), *([f"+{role}.key_variable={variable}"] if key else [])]
    python = [
        *([f"send_to={host!r}"] if texts else []),
        *([f"{role}={{'key_variable': {variable!r}}}"] if key else []),
    ]
    raise UserError(
        f"card: its {role} is at {url} and would be sent {sent}. If you trust {host}, say so: "
        f"{_command(more)} (in Python {', '.join(python)})."
    )


def _host(url: Any) -> str:
    try:
        host = urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        host = None
    if host is None or not _HOST.fullmatch(host) or not url.isascii() or not url.isprintable():
        raise UserError(f"card: {shown(url)} is no address of a server, as http://127.0.0.1:8000/v1 is one.")
    return host


def _command(more: Sequence[str]) -> str:
    known = [masked_argument(one) for one in typed_overrides()]
    if not any(one.startswith("card=") for one in known):
        return " ".join(more)
    return shlex.join(["python", "-m", "judgebench.score", *known, *more])
