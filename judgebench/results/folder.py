"""The run folder: how its files are written and read; `judgebench.results.schema` declares them.
`environment` says with what code and on what machine the run was made.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from omegaconf import DictConfig

from judgebench.results.schema import ARTIFACTS, FILES, LOG, Presence, columns_of, own_files
from judgebench.runtime.files import (
    DIGESTS,
    Held,
    atomic,
    check_digest,
    locked,
    write_digests,
    writing,
)
from judgebench.runtime.log import steps_in
from judgebench.runtime.parquet import read_table, write_table
from judgebench.runtime.parsing import YAML_LIMITS, read_yaml
from judgebench.runtime.secrets import mask_secrets
from judgebench.settings.fields import plain
from judgebench.types import Record, Row
from judgebench.words.errors import UserError, reason

ARTIFACT = {artifact.name: artifact for artifact in ARTIFACTS}
"""Name -> artifact."""

_DISTINCT = frozenset(
    "prompt text texts source output rival main_logprobs assistant_logprobs lower upper".split()  # noqa: SIM905
)
"""Columns whose values hardly repeat, so that a dictionary of them would be waste."""

_LIMITS = replace(YAML_LIMITS, loose=True)

_PIECE = 8192
"""Rows that become one piece of a table."""
_PAGE_BYTES = 8 * 2**20
"""Prompts repeat an article some thousand characters apart; zstd only finds that within one
page."""


class RunFolder:
    """Writes and reads one run's folder. Every file but run.log is whole or absent, whenever the run is
    killed.

    Example:
        >>> import tempfile
        >>> folder = RunFolder(tempfile.mkdtemp())
        >>> folder.write("config", {"seed": 1}).name
        'config.yaml'
        >>> RunFolder.open(folder.path).read("config")
        {'seed': 1}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A run folder that exists."""
        path = Path(path)
        if not os.path.isdir(path):  # unlike Path's, it also takes names that are too long
            raise UserError(
                f"{path}: this folder does not exist; give one that a run wrote (its path is "
                "printed last)."
            )
        if not (path / "config.yaml").is_file():
            if any((path / name).is_file() for name in FILES):
                raise UserError(
                    f"{path}: has no config.yaml, so this run did not finish; start it again."
                )
            raise UserError(
                f"{path}: not a run folder, for it has no config.yaml; give one that a run wrote."
            )
        return cls(path)

    @classmethod
    def check(cls, path: str | Path) -> RunFolder:
        """A run folder that can be made and written, as a trial shows that leaves nothing behind.

        Nothing in the folder changes, and it is not made where it did not exist."""
        if not str(path or "").strip():
            raise UserError("run_dir: it is empty; name a folder, as run_dir=outputs/first.")
        if "\0" in str(path):
            raise UserError(
                f"run_dir: {str(path)!r} holds a null byte, which no folder's name can."
            )
        folder = cls(path)
        with folder.writing(folder.path):
            whole = Path(os.path.abspath(folder.path))
            start = next(folder for folder in (whole, *whole.parents) if os.path.lexists(folder))
            # each trial has a folder of its own: jobs that start together share parents, and must
            # not take from each other what they only tried
            inside = [(whole / name, Path()) for name in ("figures", "attack", "defense")]
            for place, missing in [(start, whole.relative_to(start)), *inside]:
                if not os.path.lexists(place):
                    continue
                if not place.is_dir():
                    raise UserError(
                        f"run_dir: {folder.path} cannot be a run folder, for {place} is not a "
                        "folder."
                    )
                with tempfile.TemporaryDirectory(prefix=".judgebench-", dir=place) as trial:
                    inner = Path(trial) / missing
                    inner.mkdir(parents=True, exist_ok=True)
                    (inner / "trial").write_text("trial", encoding="utf-8")
        for name in FILES:
            if (folder.path / name).is_dir():
                raise UserError(
                    f"run_dir: {folder.path} cannot be a run folder, for its {name} is a folder."
                )
        return folder

    @contextmanager
    def alone(self, log: bool = False) -> Iterator[None]:
        """Keeps other runs out of the folder until the block ends; the lock of a killed run does
        not count. With `log`, run.log gets the steps of the block."""
        with ExitStack() as stack:
            try:
                with self.writing(self.path):
                    stack.enter_context(locked(self.path))
                    if log:
                        stack.enter_context(steps_in(self.path / LOG))
            except Held as error:
                raise UserError(
                    f"run_dir: another run writes to {self.path} ({error}); wait until it is done, "
                    "or choose another folder with run_dir=DIR."
                ) from error
            yield

    # --- writing ---------------------------------------------------------------------------------

    def clear(self) -> None:
        """Removes what an earlier run wrote here, so that its files never mix with this run's.

        Only the contract's own files go, and what killed runs left half-written of them; this
        run's log and all else in the folder stay. config.yaml goes first: a kill in between leaves a folder that `open`
        calls unfinished.
        """
        with self.writing(self.path):
            for path in own_files(self.path):
                if path.name != LOG:  # which this run has begun
                    path.unlink(missing_ok=True)

    def write(self, name: str, value: Any) -> Path:
        """Writes the file of one artifact, see `ARTIFACTS`: records, a mapping, or a frame, whose
        `attrs` become notes in the file's own metadata. Numbers that are not finite become null in
        JSON."""
        artifact = ARTIFACT[name]
        path = self.path / artifact.path
        if path.suffix == ".yaml":
            return self.write_file(
                artifact.path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
            )
        if path.suffix == ".json":
            return self.write_json(artifact.path, value)
        schema = None if artifact.schema is None else columns_of(artifact, value)
        if schema is not None and (differing := set(schema.names) ^ set(value.columns)):
            raise ValueError(
                f"{artifact.path}: columns {sorted(differing & set(schema.names))} are missing and "
                f"{sorted(differing - set(schema.names))} are unknown; results/schema.py has them."
            )
        frame = value if schema is None else value[schema.names]
        # in pieces, for the articles of all texts together are large, and Arrow takes twice as much
        parts = [frame.iloc[at : at + _PIECE] for at in range(0, max(1, len(frame)), _PIECE)]
        table = pa.concat_tables(
            pa.Table.from_pandas(part, schema=schema, preserve_index=False) for part in parts
        )
        # pandas' own notes would differ between pandas versions
        table = table.replace_schema_metadata(dict(value.attrs) or None)
        repeating = [column for column in table.schema.names if column not in _DISTINCT]
        with self.writing(path), atomic(path) as temporary:
            write_table(temporary, table, use_dictionary=repeating, data_page_size=_PAGE_BYTES)
        del table, parts
        pa.default_memory_pool().release_unused()  # which Arrow would keep for its next table
        return path

    def write_file(self, name: str, content: str | bytes) -> Path:
        """Writes a file of the folder, such as report.html or figures/scores.svg, and returns its
        path."""
        path = self.path / name
        with self.writing(path), atomic(path) as temporary:
            temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    def write_json(self, name: str, content: Any) -> Path:
        """Writes a JSON file of the folder; a number that is not finite becomes null."""
        text = json.dumps(_json_value(content), indent=1, ensure_ascii=False, allow_nan=False)
        return self.write_file(name, text + "\n")

    def write_digests(self, paths: Iterable[Path] | None = None) -> None:
        """Writes digests.json, the last of a run's files, of the files written or (None) of all
        that a run has: by it a reader sees whether another has changed."""
        if paths is None:
            files = (path for path in own_files(self.path) if path.is_file())
            paths = [
                path for path in files if path.name[0] != "." and path.name not in (LOG, DIGESTS)
            ]
        elif not (self.path / DIGESTS).is_file():  # of an earlier version
            return
        with self.writing(self.path / DIGESTS):
            write_digests(self.path, [path.relative_to(self.path).as_posix() for path in paths])

    # --- reading ---------------------------------------------------------------------------------

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """The value of one artifact, see `ARTIFACTS`: records or a mapping of JSON, or a frame
        whose list columns hold Python lists (None where there is none). Where a run need not have
        it: None without the file."""
        artifact = ARTIFACT[name]
        if artifact.presence is not Presence.REQUIRED and not (self.path / artifact.path).is_file():
            return None
        with self.reading(artifact.path) as path:
            if artifact.path.endswith(".yaml"):
                remedy = "restore the file or run again"
                return read_yaml(path, str(path), limits=_LIMITS, remedy=remedy)
            if not artifact.path.endswith(".parquet"):
                return json.loads(path.read_text(encoding="utf-8"))
            return plain_frame(read_table(path, columns))

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Turns a failure to write `path` into a `UserError`."""
        remedy = "; mend that, or choose another folder with run_dir=.."
        with writing(f"run_dir: {path}", remedy):
            yield

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """The path of a file of the folder; turns a failure to read it into a `UserError`."""
        path = self.path / name
        if not path.is_file():
            raise UserError(
                f"{path}: missing, so this run did not finish; start it again with "
                f"run_dir={self.path}."
            )
        try:
            check_digest(self.path, name)
            yield path
        except (pa.ArrowException, OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            raise UserError(
                f"{path}: cannot be read ({reason(error)}); restore the file or run again."
            ) from error


def masked(config: DictConfig | Row) -> Record:
    """A configuration as it may leave this machine: resolved, plain, secrets masked.

    Example:
        >>> masked({"seed": 1, "api_key": "sk-123456"})
        {'seed': 1, 'api_key': '***'}
    """
    hidden: Record = mask_secrets(plain(config))
    return hidden


def plain_frame(table: pa.Table) -> pd.DataFrame:
    # a damaged file may have notes of pandas' own that no longer fit, which ours never have
    frame: pd.DataFrame = table.replace_schema_metadata(None).to_pandas()
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        if pa.types.is_list(kind):
            frame[name] = pd.Series(table[name].to_pylist(), index=frame.index, dtype=object)
    return frame


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [_json_value(item) for item in value]
    if isinstance(value, np.generic):
        return _json_value(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or value is pd.NA:
        return None
    return value if isinstance(value, bool | int | str) else str(value)


# --- environment --------------------------------------------------------------------------------


PACKAGES = (
    "judgebench",
    "torch",
    "lightning",
    "transformers",
    "accelerate",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "hydra-core",
    "omegaconf",
    "optuna",
    "wandb",
    "matplotlib",
    "httpx",
)
"""The packages whose versions can change a run's numbers or files."""


def describe_environment(
    *,
    device: str,
    model_fingerprints: Row,
    seconds: Mapping[str, float],
    tokens: Mapping[str, int],
    steps: Row | None = None,
    served: Row | None = None,
    command: str | None = None,
) -> Record:
    """The content of environment.json: package versions (null: not installed), Python, platform,
    how products in float32 are computed (highest: in float32; null: without torch), the code's git
    commit (null: no checkout), the day, and the arguments; `steps` of free answers on a GPU, where
    there are any."""
    torch = sys.modules.get("torch")  # what reads no model here does without it
    packages: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    commit, changed = code_version(Path(__file__).parents[1])
    return {
        "packages": packages,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "float32_products": None if torch is None else torch.get_float32_matmul_precision(),
        "git_commit": commit,
        "git_changed": changed,
        "date": datetime.date.today().isoformat(),
        "command": command,
        "device": device,
        "model_fingerprints": dict(model_fingerprints),
        "seconds": dict(seconds),
        "tokens": dict(tokens),
        **({"steps": dict(steps)} if steps else {}),
        **({} if served is None else {"served": dict(served)}),
    }


def code_version(package: Path) -> tuple[str | None, bool | None]:
    """The commit of the checkout that `package` belongs to, and whether its tracked files were
    changed since.

    `(None, None)` for an installed package, even if its virtual environment lies inside some other
    repository.
    """
    # a tracked file, not just a repository, shows that the checkout around the package is its own
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None
    changes = _git(package, "status", "--porcelain", "--untracked-files=no")
    return _git(package, "rev-parse", "HEAD"), None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    # no git, or a file system too slow to ask: the run matters more
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
