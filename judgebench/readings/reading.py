"""Readings one by one: their keys, their checksums, numbers that no model gives, their columns in
readings.parquet.

Recorded readings are one parquet file that anybody can ship, with what models gave by example and
condition. It holds no text that was judged and no prompt, but a SHA-256 of the rubric's plain text
about each example, so that another rubric or other data is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from judgebench.data.rows import existing
from judgebench.decoding.scores import key_columns
from judgebench.runtime.files import atomic, check_run_file, user_path, writing
from judgebench.runtime.parquet import read_schema, read_table, write_table
from judgebench.runtime.parsing import Limits, parse_json
from judgebench.types import Array, Prompt, Reading, Record, Row, ScoreRange
from judgebench.words.errors import UserError, escape_control, reason

if TYPE_CHECKING:
    import pandas as pd

_KEY_FORMAT = 1
"""Part of every key: readings of stores without checksums keep theirs."""
_PIECE = 4096
"""Readings whose prompts become one piece of a column."""
_SLACK = 1e-3
"""Rounding of a log-probability that is 0."""
_MORE = 0.01
"""Rounding of shares that sum to 1: servers give log-probabilities in a few digits."""


@dataclass(frozen=True)
class ModelReading:
    """One model's answer to one prompt.

    Attributes:
        key: of `reading_key`.
        logprobs: [candidates] float32, or None where the answer was generated.
        seconds: wall time of its forward passes.
        tokens: [tokens] int32 of the generated answer, where they are needed: a text does not
            always give them again.
    """

    key: str
    logprobs: Array | None
    text: str | None
    seconds: float
    tokens: Array | None = None

    def to(self, device: Any) -> ModelReading:
        """Itself: Lightning moves what is predicted to the CPU, and refuses frozen dataclasses."""
        return self


def reading_key(identity: Record, token_ids: Array) -> str:
    """The address of a model reading, 64 hexadecimal digits.

    Args:
        identity: everything that the reading depends on but the prompt's [tokens];
            JSON-serialisable.
    """
    digest = hashlib.sha256(
        json.dumps({"format": _KEY_FORMAT, **identity}, sort_keys=True).encode()
    )
    digest.update(np.ascontiguousarray(token_ids, dtype=np.int32).tobytes())
    return digest.hexdigest()


class FoundReadings(dict[str, ModelReading]):
    """Readings by key; a key that has none is a `UserError`, since it was there, or was just
    read."""

    def __init__(self, store: Path, readings: Iterable[ModelReading] = ()):
        super().__init__((reading.key, reading) for reading in readings)
        self.store = store

    def __reduce__(self) -> Any:
        return FoundReadings, (self.store, list(self.values()))

    def __missing__(self, key: str) -> ModelReading:
        raise UserError(
            f"store={self.store}: a reading is not there, or does not match its checksum; run the same "
            "command again, and it is read again (trainer.limit_predict_batches leaves readings out)."
        )


def checksum(key: Any, logprobs: Any, text: Any, seconds: Any, ids: Any) -> int | None:
    """CRC-32 over a row's key and content, each bytes or None; None where a part is of another
    kind, as in a damaged row. It shows every change of up to 32 neighboring bits, and of one bit in
    any place."""
    try:
        lengths = (-1 if part is None else len(part) for part in (logprobs, text, ids))
        head = struct.pack("<iiid", *lengths, seconds or 0.0)
        return crc32(b"".join((key, head, logprobs or b"", text or b"", ids or b"")))
    except (TypeError, struct.error):
        return None


_KINDS = {"logprobs": np.float32, "tokens": np.int32}
"""Arrays of a reading, as they are stored."""


def pack_readings(readings: Sequence[ModelReading]) -> bytes:
    """JSON for another process, exact to the last bit. Not pickled: unpickling runs what was sent,
    and the mailbox is open to the network."""
    rows = []
    for reading in readings:
        row: Record = vars(reading).copy()
        for name, kind in _KINDS.items():
            row[name] = None if row[name] is None else np.asarray(row[name], kind).tolist()
        rows.append(row)
    return json.dumps(rows).encode()


def unpack_readings(message: bytes) -> list[ModelReading]:
    """The readings that `pack_readings` has packed."""
    rows = json.loads(message)
    for row in rows:
        for name, kind in _KINDS.items():
            row[name] = None if row[name] is None else np.array(row[name], kind)
    return [ModelReading(**row) for row in rows]


def first_impossible(logprobs: bytes | None) -> float | None:
    """The first of [candidates] float32 that is not a log-probability: not a number, or above 0 by
    more than rounding; None if all are. Minus infinity, of what cannot be, is one."""
    values = np.frombuffer(logprobs or b"", np.float32)
    possible = values <= _SLACK
    return None if possible.all() else float(values[~possible][0])


def is_possible(logprobs: Sequence[float]) -> bool:
    """True of log-probabilities [candidates] that a model can give: numbers of at most 0, of at
    most 1 together, since no candidate is part of another."""
    return (
        all(logprob <= _SLACK for logprob in logprobs)
        and math.fsum(map(math.exp, logprobs)) <= 1 + _MORE
    )


def check_shares(logprobs: Sequence[float], prompt: Prompt, store: Path) -> None:
    """Raises UserError for log-probabilities [candidates] that no model gives."""
    if not is_possible(logprobs):
        raise UserError(
            f"store={store}: the candidates' probabilities of example {prompt.example.example_id} "
            f"({prompt.condition}) sum to {math.fsum(map(math.exp, logprobs)):.4g}, and to no more "
            "than 1 they can. Whoever gave them, model or server, cannot be used as a judge; with "
            "another one, or another store=, they are read again."
        )


def reading_frame(readings: Sequence[Reading]) -> pd.DataFrame:
    """The columns of readings.parquet, one row a reading."""
    import pandas as pd

    prompts = [reading.prompt for reading in readings]
    columns = {
        **key_columns(readings),
        "candidates": [list(prompt.condition.range.candidates) for prompt in prompts],
    }
    for name in ("main_logprobs", "assistant_logprobs", "text"):
        columns[name] = [getattr(reading, name) for reading in readings]
    for name in ("judge", "decoding", "lambda_", "temperature"):  # None where nothing was written
        way = [getattr(reading.generation, name, None) for reading in readings]
        columns[name.removesuffix("_")] = way
    # in pieces, for these texts are most of a run's memory, and Arrow takes twice what it fills
    parts = [prompts[at : at + _PIECE] for at in range(0, len(prompts), _PIECE)]
    texts = [pa.array([prompt.text for prompt in part], pa.large_string()) for part in parts]
    prompt_type: Any = pd.StringDtype("pyarrow", np.nan)
    columns["prompt"] = pd.array(pa.chunked_array(texts, pa.large_string()), dtype=prompt_type)
    columns["prompt_tokens"] = [len(prompt.token_ids) for prompt in prompts]
    for name in ("source_tokens_cut", "control_tokens"):
        columns[name] = [getattr(prompt, name) for prompt in prompts]
    columns["seconds"] = [reading.seconds for reading in readings]
    return pd.DataFrame(columns)


# --- recorded readings --------------------------------------------------------------------------


FORMAT = "judgebench recorded readings 1"
FOLDER = Path(__file__).with_name("recorded")
"""The folder of the recordings that come with judgebench; a file's name without its ending stands
for it."""

AXES = ("dimension", "range", "attack", "defense", "order")
"""The columns that say which condition a row is about, and attributes of `Condition`."""


def _columns(logprob: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            *[(name, pa.string()) for name in ("example_id", *AXES)],
            ("candidates", pa.list_(pa.string())),
            *[(name, pa.list_(logprob)) for name in _LOGPROBS],
            *[(name, pa.string()) for name in ("text", "judge", "decoding")],
            *[(name, pa.float64()) for name in ("lambda", "temperature", "seconds")],
            ("prompt_sha256", pa.binary(32)),
        ]
    )


_LOGPROBS = ("main_logprobs", "assistant_logprobs")
SCHEMA = _columns(pa.float32())
"""Columns: one row an example, condition and, of free answers, way of answering. `range` is as
tables print it; `prompt_sha256` is of the rubric's plain text about the example, see
`prompt_digest`."""

_EXACT = _columns(pa.float64())
"""The same of a panel, whose pooled probabilities 32 bits would round: equal means would differ."""

_NEEDED = ("example_id", *AXES, "candidates", "seconds", "prompt_sha256")
_KEY = b"judgebench"
_LIMITS = Limits(size=2**22, nodes=200_000)
_LARGEST = 2**31
_LONGEST = 2000
"""Bounds of what a file of anybody's may hold: bytes of metadata and of columns, characters of a
text in metadata."""

_ABOUT = {
    **{"format": str, "date": str, "mode": str, "compares": bool, "command": (str, None)},
    "models": {role: {"title": str, "sha256?": (str, None)} for role in ("main", "assistant?")},
    "assistant": {"kind": str, "title": (str, None)},
    "made_with": {
        "judgebench": (str, None),
        "git_commit": (str, None),
        "git_changed": (bool, None),
        "device": str,
    },
    "data": {"name": str, "examples": int},
    "conditions": [{"dimension": str, "range": str, "attack": str, "defense": str}],
    "left_out": [str],
    "config": {str: object},
}
"""The shape of the metadata, see `judgebench.runtime.shapes.check_shape`."""

MODES = ("score_tokens", "generate")


@dataclass(frozen=True)
class Recording:
    """A file of recorded readings, of which the metadata is read and checked.

    Attributes:
        about: the metadata: models (title, SHA-256, dtype), assistant, mode, command, commit, data,
            conditions.

    Raises:
        UserError: in `open` and `rows`: no such file, no recording, or one that is damaged.
    """

    path: Path
    about: Row

    @classmethod
    def open(cls, given: str, key: str = "judge.path") -> Recording:
        """The recording that a config key names, by its path or, of one that comes with judgebench,
        by its name."""
        # 1. the file
        shipped = sorted(path.stem for path in FOLDER.glob("*.parquet"))
        try:
            path = (
                FOLDER / f"{given}.parquet" if given in shipped else existing(user_path(given), key)
            )
        except UserError as error:
            names = f"; with judgebench come {', '.join(shipped)}" if shipped else ""
            raise UserError(f"{str(error).rstrip('.')}{names}.") from error
        with _reading(path):
            schema = read_schema(path)
            metadata = pq.read_metadata(path)
            size = sum(
                metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)
            )
            text = (schema.metadata or {}).get(_KEY)
        if text is None or schema.remove_metadata() not in (SCHEMA, _EXACT):
            raise UserError(
                f"{path}: these are no recorded readings; give a file that `python -m "
                "judgebench record RUN out=FILE` has written."
            )
        # 2. its metadata, first of all its format
        about = parse_json(text, f"{path}", limits=_LIMITS, remedy=_AGAIN)
        if isinstance(about, dict) and about.get("format") != FORMAT:
            raise UserError(
                f"{path}: its format is {str(about.get('format'))[:60]!r}, and this version of "
                f"judgebench reads {FORMAT!r}; take the version that recorded it, or record it "
                "again."
            )
        about = parse_json(text, f"{path}", shape=_ABOUT, limits=_LIMITS, remedy=_AGAIN)
        harmless = all(
            len(text) <= _LONGEST and escape_control(text) == text for text in _texts(about)
        )
        if about["mode"] not in MODES or size > _LARGEST or not harmless:
            raise UserError(f"{path}: its metadata cannot be a recording's; do not use this file.")
        return cls(path, about)

    @classmethod
    def of_run(cls, folder: Path) -> Recording:
        """The readings in a run folder; their rows have the `prompt` that was read in place of its
        SHA-256."""
        check_run_file(path := existing(folder / "readings.parquet", "judge.path"), "judge.path")
        with _reading(path):
            rows = [
                {"order": "", **row, "range": str(ScoreRange.of(row))}
                for row in read_table(path).to_pylist()
            ]
        about = {
            "models": {"main": {"title": folder.name}},
            "data": {"name": "of the run"},
            "config": {},
        }
        recording = cls(path, {**about, "compares": any(row["order"] for row in rows)})
        recording.__dict__["rows"] = rows
        return recording

    @property
    def models(self) -> dict[str, dict[str, str]]:
        """Role -> title, SHA-256 and dtype of each model, as environment.json of the recorded run
        has them."""
        models = self.about["models"]
        return {role: dict(models[role]) for role in ("main", "assistant") if role in models}

    @property
    def title(self) -> str:
        return str(self.about["models"]["main"]["title"])

    @property
    def sentence(self) -> str:
        """Sentence on which models were recorded, when and by which code; the file's metadata has
        the command."""
        made = self.about["made_with"]
        models = " with ".join(
            f"{model['title']} (SHA-256 {model['sha256'][:12]}...)"
            if model.get("sha256")
            else str(model.get("title"))
            for model in self.models.values()
        )
        if self.about["assistant"]["kind"] in ("null_context", "early_exit"):
            models += f" with {self.about['assistant']['title']}"
        changed = ", with local changes" if made["git_changed"] else ""
        commit = f" (commit {made['git_commit'][:12]}{changed})" if made["git_commit"] else ""
        version = made["judgebench"] or "of an unknown version"
        return (
            f"The readings are recorded: {models} read {self.about['data']['name']} on "
            f"{self.about['date']} with judgebench {version}{commit}."
        )

    def setting(self, *where: str) -> Any:
        """A setting of the recorded run; None where the file does not say."""
        return reduce(
            lambda node, key: node.get(key) if isinstance(node, dict) else None,
            where,
            self.about["config"],
        )

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Every row of the file, `SCHEMA`, checked."""
        with _reading(self.path):
            rows: list[Record] = read_table(self.path).to_pylist()
        for number, row in enumerate(rows, start=1):
            if (fault := _fault(row)) is not None:
                raise UserError(f"{self.path} row {number}: {fault}; {_AGAIN}.")
        names = ("example_id", *AXES, "judge", "lambda", "temperature", "decoding")
        keys = set()
        for row in rows:
            key = tuple(row[name] for name in names)
            if key in keys:
                raise UserError(
                    f"{self.path}: example '{key[0]}' ({', '.join(key[1:3])}) is there twice; "
                    f"{_AGAIN}."
                )
            keys.add(key)
        return rows


_AGAIN = (
    "the file is damaged, so get it again, or record it again with `python -m judgebench record`"
)


def prompt_digest(prompt: Prompt) -> bytes:
    """SHA-256 [32 bytes] of a prompt that was built without a model's tokenizer: the rubric's plain
    text."""
    return hashlib.sha256(prompt.text.encode()).digest()


def holds(row: Row, prompt: Prompt) -> bool:
    """True where a row's prompt has this plain text, unless an article was cut or a control token's
    name broken."""
    return bool(row["source_tokens_cut"] or row["control_tokens"]) or prompt.text in row["prompt"]


def write_recording(path: Path, rows: Sequence[Row], about: Row) -> None:
    """Writes a recording, whole or not at all; the same rows (`SCHEMA`) and metadata give the same
    bytes."""
    text = json.dumps({"format": FORMAT, **about}, ensure_ascii=False, allow_nan=False)
    rows = list(rows)
    numbers = [row[name] for row in rows for name in _LOGPROBS if row[name] is not None]
    whole = all(np.array_equal(np.float32(part), part) for part in numbers)
    schema = SCHEMA if whole else _EXACT
    table = pa.Table.from_pylist(rows, schema.with_metadata({_KEY: text.encode()}))
    repeating = [name for name in SCHEMA.names if name not in (*_LOGPROBS, "prompt_sha256")]
    with writing(f"out={path}:", "; name another file"), atomic(path) as temporary:
        write_table(temporary, table, compression_level=19, use_dictionary=repeating)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what is said against a file's content into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise UserError(
            f"{path}: cannot be read as recorded readings ({reason(error)}); {_AGAIN}."
        ) from error


def _texts(node: Any) -> list[str]:
    """Every text of plain JSON, keys among them."""
    if isinstance(node, str):
        return [node]
    parts: list[Any] = node if isinstance(node, list) else []
    if isinstance(node, dict):
        parts = [*node, *node.values()]
    return [text for part in parts for text in _texts(part)]


def _fault(row: Row) -> str | None:
    """A clause on what a row cannot hold; None where it can be a reading."""
    for name in _NEEDED:
        if row[name] is None:
            return f"{name} is missing"
    if not math.isfinite(row["seconds"]):
        return "seconds is not a number"
    if row["main_logprobs"] is None:
        written = row["text"] is not None and row["judge"]
        return None if written else "it holds neither log-probabilities nor an answer"
    count = len(row["candidates"])
    for name in _LOGPROBS:
        values = row[name]
        if values is None:
            continue
        if len(values) != count or None in values:
            return f"{name} has {len(values)} numbers for {count} candidates"
        if not is_possible(values):
            return f"{name} are no log-probabilities of candidates"
    return None
