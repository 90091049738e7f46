"""Recorded readings: one parquet file that anybody can ship, with what models gave by example and condition.

It holds no text that was judged and no prompt, but a SHA-256 of the rubric's plain text about each example, so that
another rubric or other data is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from judgebench.data.rows import existing
from judgebench.readings.reading import is_possible
from judgebench.runtime.errors import UserError, escape_control
from judgebench.runtime.files import atomic, user_path
from judgebench.runtime.parquet import read_schema, read_table, write_table
from judgebench.runtime.parsing import Limits, parse_json
from judgebench.types import Prompt

FORMAT = "judgebench recorded readings 1"
FOLDER = Path(__file__).with_name("recorded")
"""The folder of the recordings that come with judgebench; a file's name without its ending stands for it."""

AXES = ("dimension", "range", "attack", "defense", "order")
"""The columns that say which condition a row is about, and attributes of `Condition`."""

SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("example_id", *AXES)],
        ("candidates", pa.list_(pa.string())),
        *[(name, pa.list_(pa.float32())) for name in ("main_logprobs", "assistant_logprobs")],
        *[(name, pa.string()) for name in ("text", "judge", "decoding")],
        *[(name, pa.float64()) for name in ("lambda", "temperature", "seconds")],
        ("prompt_sha256", pa.binary(32)),
    ]
)
"""Columns: one row an example, condition and, of free answers, way of answering. `range` is as tables print it;
`prompt_sha256` is of the rubric's plain text about the example, see `prompt_digest`."""

_NEEDED = ("example_id", *AXES, "candidates", "seconds", "prompt_sha256")
_KEY = b"judgebench"
_LIMITS = Limits(size=2**22, nodes=200_000)
_LARGEST = 2**31
_LONGEST = 2000
"""Bounds of what a file of anybody's may hold: bytes of metadata and of columns, characters of a text in metadata."""

_ABOUT = {
    **{"format": str, "date": str, "mode": str, "compares": bool, "command": (str, None)},
    "models": {role: {"title": str, "sha256?": (str, None)} for role in ("main", "assistant?")},
    "assistant": {"kind": str, "title": (str, None)},
    "made_with": {"judgebench": (str, None), "git_commit": (str, None), "git_changed": (bool, None), "device": str},
    "data": {"name": str, "examples": int},
    "conditions": [{"dimension": str, "range": str, "attack": str, "defense": str}],
    "left_out": [str],
    "config": {str: object},
}
"""The shape of the metadata, see `judgebench.runtime.parsing.check_shape`."""

MODES = ("score_tokens", "generate")


@dataclass(frozen=True)
class Recording:
    """A file of recorded readings, of which the metadata is read and checked.

    Attributes:
        about: the metadata: models (title, SHA-256, dtype), assistant, mode, command, commit, data, conditions.

    Raises:
        UserError: in `open` and `rows`: no such file, no recording, or one that is damaged.
    """

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def open(cls, given: str, key: str = "judge.path") -> Recording:
        """The recording that a config key names, by its path or, of one that comes with judgebench, by its name."""
        # 1. the file
        shipped = sorted(path.stem for path in FOLDER.glob("*.parquet"))
        try:
            path = FOLDER / f"{given}.parquet" if given in shipped else existing(user_path(given), key)
        except UserError as error:
            names = f"; with judgebench come {', '.join(shipped)}" if shipped else ""
            raise UserError(f"{str(error).rstrip('.')}{names}.") from error
        with _reading(path):
            schema = read_schema(path)
            metadata = pq.read_metadata(path)
            size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
            text = (schema.metadata or {}).get(_KEY)
        if text is None or not schema.remove_metadata().equals(SCHEMA):
            raise UserError(
                f"{path}: these are no recorded readings; give a file that `python -m judgebench.record RUN out=FILE` "
                "has written."
            )
        # 2. its metadata, first of all its format
        about = parse_json(text, f"{path}", limits=_LIMITS, remedy=_AGAIN)
        if isinstance(about, dict) and about.get("format") != FORMAT:
            raise UserError(
                f"{path}: its format is {str(about.get('format'))[:60]!r}, and this version of judgebench reads "
                f"{FORMAT!r}; take the version that recorded it, or record it again."
            )
        about = parse_json(text, f"{path}", shape=_ABOUT, limits=_LIMITS, remedy=_AGAIN)
        harmless = all(len(text) <= _LONGEST and escape_control(text) == text for text in _texts(about))
        if about["mode"] not in MODES or size > _LARGEST or not harmless:
            raise UserError(f"{path}: its metadata cannot be a recording's; do not use this file.")
        return cls(path, about)

    @property
    def models(self) -> dict[str, dict[str, str]]:
        """Role -> title, SHA-256 and dtype of each model, as environment.json of the recorded run has them."""
        models = self.about["models"]
        return {role: dict(models[role]) for role in ("main", "assistant") if role in models}

    @property
    def title(self) -> str:
        return str(self.about["models"]["main"]["title"])

    @property
    def sentence(self) -> str:
        """Sentence on which models were recorded, when and by which code; the file's metadata has the command."""
        made = self.about["made_with"]
        models = " with ".join(
            f"{model['title']} (SHA-256 {model['sha256'][:12]}...)" if model.get("sha256") else str(model.get("title"))
            for model in self.models.values()
        )
        if self.about["assistant"]["kind"] in ("null_context", "early_exit"):
            models += f" with {self.about['assistant']['title']}"
        changed = ", with local changes" if made["git_changed"] else ""
        commit = f" (commit {made['git_commit'][:12]}{changed})" if made["git_commit"] else ""
        version = made["judgebench"] or "of an unknown version"
        return (
            f"The readings are recorded: {models} read {self.about['data']['name']} on {self.about['date']} with "
            f"judgebench {version}{commit}."
        )

    def setting(self, *where: str) -> Any:
        """A setting of the recorded run; None where the file does not say."""
        return reduce(lambda node, key: node.get(key) if isinstance(node, dict) else None, where, self.about["config"])

    @cached_property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Every row of the file, `SCHEMA`, checked."""
        with _reading(self.path):
            rows: list[dict[str, Any]] = read_table(self.path).to_pylist()
        for number, row in enumerate(rows, start=1):
            if (fault := _fault(row)) is not None:
                raise UserError(f"{self.path} row {number}: {fault}; {_AGAIN}.")
        keys = ("example_id", *AXES, "judge", "lambda", "temperature", "decoding")
        counts = Counter(tuple(row[key] for key in keys) for row in rows)
        if twice := next((key for key, count in counts.items() if count > 1), None):
            raise UserError(f"{self.path}: example '{twice[0]}' ({', '.join(twice[1:3])}) is there twice; {_AGAIN}.")
        return rows


_AGAIN = "the file is damaged, so get it again, or record it again with `python -m judgebench.record`"


def prompt_digest(prompt: Prompt) -> bytes:
    """SHA-256 [32 bytes] of a prompt that was built without a model's tokenizer: the rubric's plain text."""
    return hashlib.sha256(prompt.text.encode()).digest()


def write_recording(path: Path, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Writes a recording, whole or not at all; the same rows (`SCHEMA`) and metadata give the same bytes."""
    text = json.dumps({"format": FORMAT, **about}, ensure_ascii=False, allow_nan=False)
    table = pa.Table.from_pylist(list(rows), SCHEMA.with_metadata({_KEY: text.encode()}))
    repeating = [name for name in SCHEMA.names if name not in ("main_logprobs", "assistant_logprobs", "prompt_sha256")]
    try:
        with atomic(path) as temporary:
            write_table(temporary, table, compression_level=19, use_dictionary=repeating)
    except OSError as error:
        raise UserError(f"out={path}: cannot be written ({error.strerror or error}); name another file.") from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what is said against a file's content into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise UserError(f"{path}: cannot be read as recorded readings ({reason}); {_AGAIN}.") from error


def _texts(node: Any) -> list[str]:
    """Every text of plain JSON, keys among them."""
    if isinstance(node, str):
        return [node]
    parts = [*node, *node.values()] if isinstance(node, dict) else node if isinstance(node, list) else []
    return [text for part in parts for text in _texts(part)]


def _fault(row: Mapping[str, Any]) -> str | None:
    """A clause on what a row cannot hold; None where it can be a reading."""
    if missing := [name for name in _NEEDED if row[name] is None]:
        return f"{missing[0]} is missing"
    if not math.isfinite(row["seconds"]):
        return "seconds is not a number"
    if row["main_logprobs"] is None:
        return "it holds neither log-probabilities nor an answer" if row["text"] is None or not row["judge"] else None
    count = len(row["candidates"])
    for name in ("main_logprobs", "assistant_logprobs"):
        values = row[name]
        if values is not None and (len(values) != count or None in values):
            return f"{name} has {len(values)} numbers for {count} candidates"
        if values is not None and not is_possible(values):
            return f"{name} are no log-probabilities of candidates"
    return None
