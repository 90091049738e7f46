"""Files of a run as W&B artifacts, named by their contents: who made one and who used it are told by the same name.

A run that uses another's phrase, vectors or detectors says so by the artifact's name, in its config (`uses`) and in the
metadata of what it makes (`made_from`); online it also draws the line itself. W&B keeps no such line offline.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import wandb

_PHRASE = "phrase"
_ALONE = (
    (_PHRASE, re.compile(r"phrase(_\w+)?\.json")),
    ("vectors", re.compile(r"vectors_[\w-]+\.safetensors")),
    ("detectors", re.compile(r"detectors\.json")),
)
"""Kinds of files that other runs take, each an artifact of its own."""


def artifact_kind(path: Path) -> str | None:
    """Of a file that other runs take; None for any other.

    Example:
        >>> artifact_kind(Path("run/attack/phrase_greedy.json")), artifact_kind(Path("run/defense/costs.json"))
        ('phrase', None)
    """
    return next((kind for kind, name in _ALONE if name.fullmatch(path.name)), None)


def used_files(config: Mapping[str, Any]) -> list[Path]:
    """The files of other runs that a configuration takes, of those that exist."""
    named = [(config.get("attack") or {}).get("phrase_file"), (config.get("defense") or {}).get("detectors")]
    named += [one.get("phrase_file") for one in config.get("attacks") or () if isinstance(one, Mapping)]
    vectors = (config.get("tutor") or {}).get("vectors")
    if isinstance(vectors, str):
        folder = Path(vectors).expanduser()
        named += sorted(map(str, folder.glob("vectors_*.safetensors"))) if folder.is_dir() else [vectors]
    paths = [Path(str(name)).expanduser() for name in named if name]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def main_files(files: Sequence[Path]) -> list[Path]:
    """The files of a run folder that are kept: readings, scores, metrics, phrases and what defenses found."""
    main = ("readings.parquet", "scores.parquet", "metrics.json", "trace.parquet")
    return [path for path in files if path.name in main or artifact_kind(path) or path.parent.name == "defense"]


def keep_files(run: wandb.Run, files: Sequence[Path], used: Sequence[Path], about: Mapping[str, Any]) -> None:
    """Gives W&B a run's files: those that other runs take one by one, and the others together as `results`.

    Args:
        run: the W&B run, not finished.
        files: of this run.
        used: of other runs, see `used_files`.
        about: what else each artifact's metadata says, such as the models' fingerprints.
    """
    import wandb

    given = [(artifact_kind(path) or _PHRASE, [path]) for path in used]  # a phrase may lie in a file of any name
    origin = [_name(kind, paths) for kind, paths in given]
    if origin:
        run.config.update({"uses": origin})
    if not run.offline and not run.disabled:
        for kind, paths in given:
            run.use_artifact(_artifact(wandb, kind, paths, {}))
    for kind, paths in _together(files):
        run.log_artifact(_artifact(wandb, kind, paths, {**about, "made_from": origin}))


def _together(files: Sequence[Path]) -> Iterator[tuple[str, list[Path]]]:
    rest = [path for path in files if artifact_kind(path) is None]
    if rest:
        yield "results", rest
    for path in files:
        if kind := artifact_kind(path):
            yield kind, [path]


def _artifact(wandb: Any, kind: str, paths: Sequence[Path], metadata: Mapping[str, Any]) -> wandb.Artifact:
    hashes = {path.name: _sha256(path) for path in paths}
    artifact = wandb.Artifact(_name(kind, paths), type=kind, metadata={**metadata, "sha256": hashes})
    for path in paths:
        artifact.add_file(str(path))
    return artifact


def _name(kind: str, paths: Sequence[Path]) -> str:
    """A kind and a digest of the files' contents: the same files have the same name, whatever folder holds them."""
    joint = "".join(sorted(_sha256(path) for path in paths))
    return f"{kind}-{hashlib.sha256(joint.encode()).hexdigest()[:12]}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
