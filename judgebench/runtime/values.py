"""Values that a file or a user names, on their way into a configuration and into commands.

What a file says is never text of a configuration: it travels as one argument in an alphabet that
means nothing to Hydra, and is set, as it is, in the configuration that was composed. In commands
that people copy it stands in quotation marks, for the shell and for Hydra.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from judgebench.words.errors import UserError

CARRIER = "taken"
"""The key under which values travel; no configuration keeps it."""

_PLAIN = re.compile(r"(?!(null|true|false|none)$)[\w./+-]+", re.ASCII | re.IGNORECASE)
_KEY = re.compile(r"(?!(null|true|false)$)[A-Za-z_][\w-]*", re.ASCII | re.IGNORECASE)


# --- what refers to nothing ---------------------------------------------------------------------


def literal(node: Any) -> Any:
    """A value in which `${...}` refers to nothing: it stays as it is; `UserError` of the one text
    that no configuration can hold."""
    if node == "???":
        raise UserError(
            "A column, a name or a path is called '???', which says in a configuration that a value "
            "is missing; give it another name."
        )
    if isinstance(node, Mapping):
        return {key: literal(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [literal(value) for value in node]
    if isinstance(node, str):
        return re.sub(r"(\\*)\$\{", r"\1\1\\${", node)
    return node


def carry(
    arguments: Sequence[str], values: Mapping[str, Any], short: Sequence[str] = ()
) -> list[str]:
    """Arguments of a command line with values in the place of those of the same keys.

    Args:
        values: key of the configuration, behind a + where it has none so far -> its plain value.
        short: the arguments that stand for all of them, where a value cannot be written for Hydra.
    """
    known = _carried(arguments)
    content: dict[str, Any] = {"values": {**known.get("values", {}), **values}}
    content["short"] = list(short) or known.get("short", [])
    text = json.dumps(content).encode()
    taken = {*(key.lstrip("+") for key in values), CARRIER}
    others = [argument for argument in arguments if _key(argument) not in taken]
    # flags come first, as Hydra has them
    return [*others, f"+{CARRIER}={urlsafe_b64encode(text).decode().rstrip('=')}"]


def settle(config: DictConfig) -> DictConfig:
    """A composed configuration with the values that it carries in their places; they refer to
    nothing."""
    settled = copy.deepcopy(config)
    with open_dict(settled):
        text = settled.pop(CARRIER, None)
    for key, value in _decoded(text).get("values", {}).items():
        OmegaConf.update(settled, key.lstrip("+"), literal(value), merge=True, force_add=True)
    return settled


def with_value(config: DictConfig, key: str, value: Any) -> DictConfig:
    """A configuration with another value at a key, which refers to nothing."""
    other = copy.deepcopy(config)
    OmegaConf.update(other, key, literal(value), merge=False)
    return other


def _carried(arguments: Iterable[str]) -> dict[str, Any]:
    for argument in arguments:
        if _key(argument) == CARRIER:
            return _decoded(argument.partition("=")[2])
    return {}


def _decoded(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    content: dict[str, Any] = json.loads(urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"))
    return content


def _key(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+")


# --- commands that people read ------------------------------------------------------------------


def typed(arguments: Sequence[str]) -> list[str]:
    """Arguments as a user types them: each value that they carry is written for Hydra, or, where
    one cannot be, the short arguments stand for all."""
    content = _carried(arguments)
    values = content.get("values", {})
    if content.get("short") and not is_written([*values.values()]):
        return [*content["short"]]
    words = [argument for argument in arguments if _key(argument) != CARRIER]
    shown = [f"{key}={written(value)}" for key, value in values.items() if is_written(value)]
    return [*words, *shown]


def is_written(value: Any) -> bool:
    """True of what Hydra's grammar has a form for: it takes few characters in keys."""
    if isinstance(value, Mapping):
        return all(_KEY.fullmatch(key) and is_written(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(is_written, value))


def written(value: Any) -> str:
    """A plain value as Hydra reads it.

    Example:
        >>> written([["no", "Yes"]]), written({"quality": "a, b"}), written("5"), written(None)
        ('[[no,Yes]]', "{quality: 'a, b'}", "'5'", 'null')
    """
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        pairs = [f"{key}: {written(item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    return json.dumps(value)


def quoted(text: str) -> str:
    """A text as Hydra reads it: in quotation marks, unless it is a plain name or path."""
    if _PLAIN.fullmatch(text) and not _is_number(text):
        return text
    # backslashes count before a quotation mark alone
    escaped = re.sub(
        r"(\\*)('|\Z)", lambda found: 2 * found[1] + (r"\'" if found[2] else ""), literal(text)
    )
    return f"'{escaped}'"


def unquoted(word: str) -> str:
    """The text that a word of the command line names: what stands in quotation marks as Hydra reads
    it, and any other as it is.

    Example:
        >>> unquoted("judge_${model}") == unquoted(quoted("judge_${model}")) == "judge_${model}"
        True
    """
    word = word.strip()
    if not _is_quoted(word):
        return word
    mark = word[0]
    inner = re.sub(
        rf"(\\+)({mark}|\Z)",
        lambda found: "\\" * (len(found[1]) // 2) + found[2],
        word[1:-1],
    )
    return re.sub(
        r"(\\+)\$\{",
        lambda found: "\\" * (len(found[1]) // 2) + "${" if len(found[1]) % 2 else found[0],
        inner,
    )


def names_in(word: str) -> list[str]:
    """The names in a word of the command line, one or a list; empty for `none`."""
    word = word.strip()
    parts = [word]
    if word.startswith("[") and word.endswith("]"):
        parts = re.findall(rf"\s*(?:{_QUOTED}|[^,])+", word[1:-1], re.DOTALL)
    return [unquoted(part) for part in parts if part.strip() not in ("none", "null")]


_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""


def _is_quoted(word: str) -> bool:
    return bool(re.fullmatch(_QUOTED, word, re.DOTALL))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_word(text: str) -> str:
    """A text as a shell reads it; in Bash's own quotation marks where it has signs that no terminal
    shows."""
    if text.isprintable():
        plain = "'" in text and not set(text) & set('"$`\\!')
        return f'"{text}"' if plain else shlex.quote(text)
    escaped = re.sub(r"(['\\])", r"\\\1", text)
    return f"$'{''.join(map(_escaped, escaped))}'"


def _escaped(sign: str) -> str:
    if sign.isprintable():
        return sign
    return "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))


def command_of(words: Iterable[str]) -> str:
    """A command as a shell reads it."""
    return " ".join(map(as_word, words))
