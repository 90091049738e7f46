"""The run folder: how its files are written and read; what they are is said in `contract`."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from omegaconf import DictConfig, OmegaConf

from judgebench.atomic import atomic
from judgebench.digests import NAME as DIGESTS
from judgebench.digests import check_digest, write_digests
from judgebench.locked import Held, locked
from judgebench.report.contract import (
    FILES,
    PLACES,
    READINGS_COMPARED,
    READINGS_SCHEMA,
    SCORES_COMPARED,
    SCORES_SCHEMA,
    SERVED_SCHEMA,
    compared,
    is_ours,
)
from judgebench.report.environment import describe_environment
from judgebench.report.masking import mask_secrets
from judgebench.runtime.errors import UserError

if TYPE_CHECKING:  # drawing is slow to import, and most readers of a run folder never draw
    from matplotlib.figure import Figure

_PAGE_BYTES = 8 * 2**20
"""Prompts repeat an article some thousand characters apart; zstd only finds that within one page."""


class RunFolder:
    """Writes and reads one run's folder. Every file is whole or absent, whenever the run is killed.

    Example:
        >>> import tempfile
        >>> folder = RunFolder(tempfile.mkdtemp())
        >>> folder.write_config({"seed": 1, "api_key": "sk-123456"})
        {'seed': 1, 'api_key': '***'}
        >>> RunFolder.open(folder.path).config()
        {'seed': 1, 'api_key': '***'}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A run folder that exists.

        Raises:
            UserError: there is no such folder, or no run wrote it.
        """
        path = Path(path)
        if not os.path.isdir(path):  # unlike Path's, it also takes names that are too long
            raise UserError(
                f"{path}: there is no such folder; give a folder that a run wrote (its path is printed last)."
            )
        if not (path / "config.yaml").is_file():
            if any((path / name).is_file() for name in FILES):
                raise UserError(f"{path}: has no config.yaml, so this run did not finish; start it again.")
            raise UserError(f"{path}: not a run folder, for it has no config.yaml; give one that a run wrote.")
        return cls(path)

    @classmethod
    def check(cls, path: str | Path) -> RunFolder:
        """A run folder that can be made and written, as a trial shows that leaves nothing behind.

        Nothing in the folder changes, and it is not made where it did not exist.

        Raises:
            UserError: it cannot, and why.
        """
        if not str(path or "").strip():
            raise UserError("run_dir: it is empty; name a folder, as run_dir=outputs/first.")
        if "\0" in str(path):
            raise UserError(f"run_dir: {str(path)!r} holds a null byte, which no folder's name can.")
        folder = cls(path)
        with folder.writing(folder.path):
            whole = Path(os.path.abspath(folder.path))
            start = next(one for one in (whole, *whole.parents) if os.path.lexists(one))
            # The trial runs beside what is missing, in a folder of its own: jobs that start together share parents,
            # and must not take from each other what they only tried.
            inside = [(whole / name, Path()) for name in ("figures", "attack", "defense")]
            for place, missing in [(start, whole.relative_to(start)), *inside]:
                if not os.path.lexists(place):
                    continue
                if not place.is_dir():
                    raise UserError(f"run_dir: {folder.path} cannot be a run folder, for {place} is no folder.")
                with tempfile.TemporaryDirectory(prefix=".judgebench-", dir=place) as trial:
                    inner = Path(trial) / missing
                    inner.mkdir(parents=True, exist_ok=True)
                    (inner / "trial").write_text("trial", encoding="utf-8")
        for name in FILES:
            if (folder.path / name).is_dir():
                raise UserError(f"run_dir: {folder.path} cannot be a run folder, for its {name} is a folder.")
        return folder

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other runs out of the folder until the block ends. What a killed run has left keeps nobody out.

        Raises:
            UserError: another run is at work there, and which; or the folder cannot be written.
        """
        with ExitStack() as stack:
            try:
                with self.writing(self.path):
                    stack.enter_context(locked(self.path))
            except Held as held:
                raise UserError(
                    f"run_dir: another run writes to {self.path} ({held}); wait until it is done, or choose another "
                    "folder with run_dir=DIR."
                ) from held
            yield

    # --- writing ------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Removes what an earlier run wrote here, so that its files never stand beside this run's.

        Only the contract's own files go, and what killed runs left half-written of them; whatever else lies in the
        folder stays. config.yaml goes first: a kill in between leaves a folder that `open` calls unfinished.
        """
        with self.writing(self.path):
            for name in FILES:
                (self.path / name).unlink(missing_ok=True)
            for place in PLACES:
                folder = self.path / place
                for path in list(folder.iterdir()) if folder.is_dir() else []:
                    if is_ours(place, path.name):
                        path.unlink(missing_ok=True)

    def write_config(self, config: DictConfig | Mapping[str, Any]) -> dict[str, Any]:
        """Writes config.yaml, interpolations resolved and secrets masked.

        Returns:
            what was written: the only form of the config that may leave this machine (log_run takes this).
        """
        plain = (
            OmegaConf.to_container(config, resolve=True, enum_to_str=True) if OmegaConf.is_config(config) else config
        )
        masked: dict[str, Any] = mask_secrets(plain)
        self._write_text("config.yaml", yaml.safe_dump(masked, sort_keys=False, allow_unicode=True, width=120))
        return masked

    def write_environment(
        self,
        *,
        device: str,
        model_fingerprints: Mapping[str, Any],
        seconds: Mapping[str, float],
        tokens: Mapping[str, int],
        served: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Writes environment.json and returns its content; called again, it replaces the file (seconds grow).

        Args:
            device: name of what computed, such as "cpu" or "NVIDIA H200".
            model_fingerprints: role ("main", "assistant") -> what identifies the weights.
            seconds: stage (load, read, decode, metrics, report) -> wall seconds.
            tokens: total and unique prompt tokens.
            served: what was asked of judges behind a URL, see `judges.api.reader.ApiReader.served`; None without one.
        """
        content = describe_environment() | {
            "device": device,
            "model_fingerprints": dict(model_fingerprints),
            "seconds": dict(seconds),
            "tokens": dict(tokens),
        }
        if served is not None:
            content["served"] = dict(served)
        self.write_json("environment.json", content)
        return content

    def write_readings(self, readings: pd.DataFrame, notes: Mapping[str, str] | None = None) -> None:
        """Writes readings.parquet; log-probabilities become float32.

        Args:
            notes: kept in the file's own metadata, as where the scores of a served judge come from.
        """
        schema = compared(READINGS_SCHEMA, READINGS_COMPARED, readings)
        self._write_parquet("readings.parquet", readings, schema, notes)

    def write_scores(self, scores: pd.DataFrame) -> None:
        """Writes scores.parquet."""
        self._write_parquet("scores.parquet", scores, compared(SCORES_SCHEMA, SCORES_COMPARED, scores))

    def write_served(self, evidence: pd.DataFrame) -> None:
        """Writes served.parquet: what the readings of a judge behind a URL were made of."""
        self._write_parquet("served.parquet", evidence, compared(SERVED_SCHEMA, READINGS_COMPARED, evidence))

    def write_metrics(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes metrics.json; NaN and infinities become null, for JSON has no such numbers."""
        self.write_json("metrics.json", list(records))

    def write_comparisons(self, comparisons: Sequence[Mapping[str, Any]]) -> None:
        """Writes comparisons.json: paired differences between judges, see `judgebench.metrics.compare`."""
        self.write_json("comparisons.json", list(comparisons))

    def write_pairwise(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes pairwise.json: systems ranked by comparisons, and the humans', see `judgebench.metrics.pairwise`."""
        self.write_json("pairwise.json", list(records))

    def write_tuning(self, tuning: Any) -> None:
        """Writes tuning.json: the chosen lambda and t of each cell, and what else was tried, see judgebench.tuning."""
        self.write_json("tuning.json", tuning)

    def write_about(
        self,
        titles: Mapping[str, str | None],
        scale: Mapping[str, tuple[float, float] | None],
        agreement: Mapping[str, Mapping[str, float | None]],
    ) -> None:
        """Writes about.json: what a report must know besides the tables, see `Experiment.titles`, `scale` and
        `agreement`."""
        self.write_json("about.json", {"titles": titles, "scale": scale, "agreement": agreement})

    def write_suffix(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes attack/suffix.json: what learned phrases change by their length, see `judgebench.metrics.suffix`."""
        self.write_json("attack/suffix.json", list(records))

    def write_phrases(self, phrases: Mapping[str, Mapping[str, Any]], trace: pd.DataFrame | None) -> list[Path]:
        """Writes attack/phrase.json, or one file a phrase where there are several: phrase_<name>.json; and
        attack/trace.parquet, every word that a search has tried, where there was one.

        Args:
            phrases: by name, what their files hold.
        """
        written = []
        for name, content in phrases.items():
            file = "phrase.json" if len(phrases) == 1 else f"phrase_{name}.json"
            self.write_json(f"attack/{file}", dict(content))
            written.append(self.path / "attack" / file)
        if trace is not None:
            path = self.path / "attack" / "trace.parquet"
            with self.writing(path), atomic(path) as temporary:
                trace.to_parquet(temporary, index=False)
            written.append(path)
        return written

    def write_attack_differences(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes attack/differences.json: how much more attacks change of one decoding's scores than of another's, see
        `judgebench.metrics.attack_differences`."""
        self.write_json("attack/differences.json", list(records))

    def write_tables(self, tables: Mapping[str, str]) -> list[Path]:
        """Writes tables/<file name> for each, and returns the paths."""
        return [self._write_text(f"tables/{name}", text) for name, text in tables.items()]

    def write_figures(self, figures: Mapping[str, Figure]) -> list[Path]:
        """Writes figures/<name>.png (200 dpi) and figures/<name>.svg for each, and returns the paths."""
        from judgebench.report.saved_figures import save_figures

        with self.writing(self.path / "figures"):
            return save_figures(figures, self.path / "figures")

    def write_report(self, html: str) -> Path:
        """Writes report.html and returns its path."""
        return self._write_text("report.html", html)

    def write_digests(self) -> None:
        """Writes digests.json, the last of a run's files: what reads them shows by it whether one has changed."""
        places = {place: self.path / place for place in PLACES}
        written = [
            path.relative_to(self.path).as_posix()
            for place, folder in places.items()
            for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
            if path.is_file() and is_ours(place, path.name) and path.name != DIGESTS and not path.name.startswith(".")
        ]
        with self.writing(self.path / DIGESTS):
            write_digests(self.path, written)

    def write_drawn(self, figures: Mapping[str, Figure], html: str) -> Path:
        """Writes the figures and the page anew, with their digests where the folder has such, and returns the page's
        path."""
        drawn = [*self.write_figures(figures), self.write_report(html)]
        if (self.path / DIGESTS).is_file():
            with self.writing(self.path / DIGESTS):
                write_digests(self.path, [path.relative_to(self.path).as_posix() for path in drawn])
        return drawn[-1]

    # --- reading ------------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """The resolved config, secrets masked."""
        with self.reading("config.yaml") as path:
            content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return content

    def environment(self) -> dict[str, Any]:
        """Versions, commit, device, fingerprints, seconds and tokens."""
        with self.reading("environment.json") as path:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def readings(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The readings, or some of their columns; list columns hold Python lists, or None where there is none."""
        with self.reading("readings.parquet") as path:
            table = pq.read_table(path, columns=None if columns is None else list(columns))
            # a damaged file may have notes of pandas' own that no longer fit, which ours never have
            frame = table.replace_schema_metadata(None).to_pandas()
            for name, kind in zip(table.schema.names, table.schema.types, strict=True):
                if pa.types.is_list(kind):
                    frame[name] = pd.Series(table[name].to_pylist(), index=frame.index, dtype=object)
        return frame

    def scores(self) -> pd.DataFrame:
        """The scores, one row per example x condition x decoding."""
        with self.reading("scores.parquet") as path:
            frame: pd.DataFrame = pq.read_table(path).replace_schema_metadata(None).to_pandas()
        return frame

    def metrics(self) -> list[dict[str, Any]]:
        """The metric records; a number that could not be computed is None."""
        with self.reading("metrics.json") as path:
            content: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def about(self) -> dict[str, Any]:
        """Titles, scales of the humans and agreement among them.

        Raises:
            UserError: the run was made before there was such a file.
        """
        content: dict[str, Any] | None = self.optional_json("about.json")
        if content is None:
            raise UserError(
                f"{self.path / 'about.json'}: missing, so an earlier version of judgebench made this run; run it again "
                "(its readings are in the store, so nothing is read anew)."
            )
        return content

    def table(self, name: str) -> pa.Table:
        """A Parquet file of the folder, as it is."""
        with self.reading(name) as path:
            return pq.read_table(path)

    def comparisons(self) -> list[dict[str, Any]]:
        """The paired differences; empty where the run has none."""
        content: list[dict[str, Any]] = self.optional_json("comparisons.json") or []
        return content

    def pairwise(self) -> list[dict[str, Any]]:
        """The rankings of systems; empty where the run compared no texts."""
        content: list[dict[str, Any]] = self.optional_json("pairwise.json") or []
        return content

    def tuning(self) -> Any:
        """How lambda and t were chosen; None where they were not."""
        return self.optional_json("tuning.json")

    def suffix(self) -> list[dict[str, Any]]:
        """What learned phrases change; empty where the run has none."""
        content: list[dict[str, Any]] = self.optional_json("attack/suffix.json") or []
        return content

    def attack_differences(self) -> list[dict[str, Any]]:
        """How much more attacks change of one decoding than of another; empty where the run has none."""
        content: list[dict[str, Any]] = self.optional_json("attack/differences.json") or []
        return content

    # --- how ----------------------------------------------------------------------------------------------------

    def optional_json(self, name: str) -> Any:
        """The content of a JSON file of the folder; None where the run has none of this name."""
        if not (self.path / name).is_file():
            return None
        with self.reading(name) as path:
            return json.loads(path.read_text(encoding="utf-8"))

    def _write_text(self, name: str, text: str) -> Path:
        with self.writing(self.path / name), atomic(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return self.path / name

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file of the folder; a number that is not finite becomes null."""
        text = json.dumps(_json_value(content), indent=1, ensure_ascii=False, allow_nan=False)
        self._write_text(name, text + "\n")

    def _write_parquet(
        self, name: str, frame: pd.DataFrame, schema: pa.Schema, notes: Mapping[str, str] | None = None
    ) -> None:
        differing = set(schema.names) ^ set(frame.columns)
        if differing:
            raise ValueError(
                f"{name}: columns {sorted(differing & set(schema.names))} are missing and "
                f"{sorted(differing - set(schema.names))} are unknown; report/contract.py has them."
            )
        table = pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
        # pandas' own notes would differ between pandas versions
        table = table.replace_schema_metadata(dict(notes) if notes else None)
        repeating = [
            key
            for key in schema.names
            if key not in ("prompt", "text", "texts", "main_logprobs", "assistant_logprobs", "lower", "upper")
        ]
        with self.writing(self.path / name), atomic(self.path / name) as temporary:
            pq.write_table(table, temporary, compression="zstd", use_dictionary=repeating, data_page_size=_PAGE_BYTES)

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Turns whatever the system says against writing `path` into a `UserError`."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"run_dir: {path} cannot be written ({error.strerror or error}); mend that, or choose another folder "
                f"with run_dir=..."
            ) from error

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """The path of a file of the folder; turns whatever is said against its content into a `UserError`."""
        path = self.path / name
        if not path.is_file():
            raise UserError(f"{path}: missing, so this run did not finish; start it again with run_dir={self.path}.")
        try:
            check_digest(self.path, name)
            yield path
        except (pa.ArrowException, OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise UserError(f"{path}: cannot be read ({reason}); restore the file or run again.") from error


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
