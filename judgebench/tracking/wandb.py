"""A finished run on Weights & Biases: offline, quiet and without secrets unless the user asks for more."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure
from PIL import Image

from judgebench.config.fields import LOGGER_MODES as MODES
from judgebench.report.views.run import served_scalars
from judgebench.results.results import Results
from judgebench.results.series import range_of
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import sha256_of, user_path
from judgebench.runtime.secrets import environment_secrets, hider
from judgebench.tracking.records import differences, plain_value, rankings, scalars, tables_of

if TYPE_CHECKING:
    import wandb

_SETTINGS: Mapping[str, Any] = {
    "silent": True,
    "show_info": False,
    "console": "off",
    # W&B would record the command line, where `judge.api_key=...` may stand, host, user, packages and code by itself.
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
}


class QuietWandbLogger(WandbLogger):
    """Lightning's W&B logger that prints nothing, keeps its files in the run folder, and stays off the network.

    Args:
        save_dir: the run folder; W&B's files go to its `wandb/`.
        mode: "offline" writes files that `wandb sync` can send later; "online" sends at once and needs `wandb login` or
            WANDB_API_KEY; "disabled" does nothing.
        kwargs: see `lightning.pytorch.loggers.WandbLogger` and `wandb.init`.
    """

    def __init__(self, save_dir: str | Path, mode: str = "offline", **kwargs: Any) -> None:
        if mode not in MODES:
            raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(MODES)}.")
        settings = {**_SETTINGS, **(kwargs.pop("settings", None) or {})}
        hide = hider(environment_secrets())  # whatever was interpolated into a name or a note
        kwargs = {name: hide(value) if isinstance(value, str) else value for name, value in kwargs.items()}
        # W&B's service outlives a run, and reads a relative path from where it was started
        super().__init__(save_dir=Path(save_dir).absolute(), mode=mode, settings=settings, **kwargs)
        self._wandb_init.pop("anonymous", None)  # Lightning always passes it, and W&B 0.31 warns whenever it is passed

    @property
    @rank_zero_experiment
    def experiment(self) -> wandb.Run:
        if self._experiment is None:
            # Even offline, W&B's background service looks for its telemetry server; it reads this when it starts.
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
            os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")  # it has something to say wherever openai is imported
            logging.raiseExceptions = False  # W&B keeps a log of its own, whose failures are no traceback's worth
            Path(str(self.save_dir)).mkdir(parents=True, exist_ok=True)  # W&B falls back to /tmp where it is missing
        return super().experiment


@contextmanager
def _logged(logger: WandbLogger, config: Mapping[str, Any]) -> Iterator[wandb.Run]:
    """The logger's run, which ends with the block, so that the next job of a multirun starts its own."""
    failed, name = True, "WANDB_DATA_DIR"
    try:
        run = logger.experiment
        # W&B stages tables in the home folder until they are sent; so they stay with the run that they belong to
        staged = name not in os.environ and os.environ.setdefault(name, str(Path(run.dir).parent.resolve()))
        try:
            logger.log_hyperparams(dict(config))
            yield run
            failed = False
        finally:
            if staged:
                del os.environ[name]
            run.finish(exit_code=int(failed))
    except OSError as error:
        raise UserError(
            f"logger: W&B's files in {logger.save_dir} cannot be written ({error.strerror or error}). The run's own "
            "files are there; mend that and give the same command again, or leave W&B out with logger=none."
        ) from error


@rank_zero_only
def log_run(
    logger: WandbLogger, results: Results, figures: Mapping[str, Figure], files: Sequence[Path] = (), examples: int = 50
) -> None:
    """Logs a finished run: the config; `scalars` such as `test/coherence/1-5/main/greedy/spearman` and `differences`
    (in the run's summary); the tables of `tables_of` and `attack/trace` (every word that was scored); the figures.

    Args:
        files: of the run folder; readings, scores, metrics, phrases and findings of defenses are kept as artifacts.
        examples: see `example_rows`.

    Raises:
        UserError: W&B's files cannot be written, as on a full disk.
    """
    with _logged(logger, results.config) as run:
        import wandb

        content: dict[str, Any] = {name: _table(rows) for name, rows in tables_of(results, examples).items()}
        if results.trace is not None:
            content["attack/trace"] = wandb.Table(dataframe=results.trace[results.trace["score"].notna()])
        main = ("readings.parquet", "scores.parquet", "metrics.json", "trace.parquet")
        kept = [path for path in files if path.name in main or artifact_kind(path) or path.parent.name == "defense"]
        models = results.environment.get("model_fingerprints") or {}
        _keep_files(run, kept, used_files(results.config), {"models": dict(models)})
        run.log(content | _images(figures))
        run.summary.update(scalars(results.metrics) | differences(results.comparisons))
        run.summary.update(rankings(results.pairwise) | served_scalars(results.environment.get("served")))


@rank_zero_only
def log_sweep(
    logger: WandbLogger, config: Mapping[str, Any], summary: Mapping[str, Any], figures: Mapping[str, Figure]
) -> None:
    """Logs a finished sweep: the best setting of every cell as a table and as scalars, the figures.

    Args:
        config: resolved, plain, secrets masked.
        summary: see `judgebench.study.summary.summarize`.
    """
    with _logged(logger, config) as run:
        rows = []
        for cell in (cell for cell in summary["cells"] if cell["best"]):
            best, place = cell["best"], {"dimension": cell["dimension"], "range": str(range_of(cell))}
            params = {key: best["params"].get(key) for key in summary["params"]}
            ends = {key: best[key] for key in ("dev", "test", "trial")}
            rows.append({"metric": cell["metric"], **place, **params, **ends})
            for split in ("dev", "test"):
                if best[split] is not None:
                    run.summary["/".join(["best", split, *place.values(), cell["metric"]])] = best[split]
        run.log({"best": _table(rows), **_images(figures)})


def _table(rows: Sequence[Mapping[str, Any]]) -> wandb.Table:
    """A table of W&B's, with all keys that any row has."""
    import wandb

    columns: list[Any] = list(dict.fromkeys(key for row in rows for key in row))
    data: list[Any] = [[plain_value(row.get(column)) for column in columns] for row in rows]
    # Nulls and numbers share columns, which W&B calls mixed types.
    return wandb.Table(columns=columns, data=data, allow_mixed_types=True)


def _images(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """Figures at the resolution of print; W&B's own conversion stops at that of screens."""
    import wandb

    images = {}
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200)
        images[f"figures/{name}"] = wandb.Image(Image.open(buffer), caption=str(figure.get_label()) or None)
    return images


_PHRASE = "phrase"
_ALONE = (
    (_PHRASE, re.compile(r"phrase(_\w+)?\.json")),
    ("vectors", re.compile(r"vectors_[\w-]+\.safetensors")),
    ("detectors", re.compile(r"detectors\.json")),
)
"""Kinds of files that other runs take, each an artifact of its own."""


def artifact_kind(path: Path) -> str | None:
    """The kind of a file that other runs take; None for any other."""
    return next((kind for kind, name in _ALONE if name.fullmatch(path.name)), None)


def used_files(config: Mapping[str, Any]) -> list[Path]:
    """The existing files of other runs that a configuration names."""
    attacks = [config.get("attack"), *(config.get("attacks") or ())]
    names = [attack.get("phrase_file") for attack in attacks if isinstance(attack, Mapping)]
    names.append((config.get("defense") or {}).get("detectors"))
    vectors = (config.get("tutor") or {}).get("vectors")
    if isinstance(vectors, str):
        folder = user_path(vectors)
        names += sorted(map(str, folder.glob("vectors_*.safetensors"))) if folder.is_dir() else [vectors]
    paths = [user_path(name) for name in names if name]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def _keep_files(run: wandb.Run, files: Sequence[Path], used: Sequence[Path], about: Mapping[str, Any]) -> None:
    """Gives W&B a run's files as artifacts: those that other runs take one by one, the others together as `results`.

    An artifact is named by its kind and a digest of its content: the same files have the same name, whatever folder
    holds them. A run that uses another's phrase, vectors or detectors has their names in its config (`uses`) and in the
    metadata of what it makes (`made_from`); online W&B also draws the line itself.
    """
    import wandb

    def artifact(kind: str, paths: Sequence[Path], metadata: Mapping[str, Any]) -> wandb.Artifact:
        hashes = {path.name: sha256_of(path) for path in paths}
        digest = hashlib.sha256("".join(sorted(hashes.values())).encode()).hexdigest()[:12]
        made = wandb.Artifact(f"{kind}-{digest}", type=kind, metadata={**metadata, "sha256": hashes})
        for path in paths:
            made.add_file(str(path))
        return made

    taken = [artifact(artifact_kind(path) or _PHRASE, [path], {}) for path in used]  # a phrase's file has any name
    origin = [str(made.name) for made in taken]
    if origin:
        run.config.update({"uses": origin})
    for made in taken if not (run.offline or run.disabled) else ():
        run.use_artifact(made)
    together = [path for path in files if artifact_kind(path) is None]
    kinds = [("results", together)] if together else []
    kinds += [(kind, [path]) for path in files if (kind := artifact_kind(path))]
    for kind, paths in kinds:
        run.log_artifact(artifact(kind, paths, {**about, "made_from": origin}))
