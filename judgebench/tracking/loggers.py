"""A finished run or sweep on loggers: Weights & Biases, MLflow, TensorBoard, CSV, or any other class
with the methods of Lightning's `Logger`.

All are given the settings, the headline numbers, and, where they have a way, figures and files;
W&B also the tables of metrics and comparisons. Lightning is imported by its own loggers alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from judgebench.results.results import Results
from judgebench.runtime.secrets import environment_secrets, hider
from judgebench.settings.fields import plain
from judgebench.tracking.content import best_scalars, headlines, tracked_files, verdicts
from judgebench.tracking.wandb import QuietWandbLogger
from judgebench.types import Row
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MakeLogger = Callable[[], Any]

_TARGET = "_target_"
_NAMES = ("name", "run_name", "experiment_name")


def check_loggers(settings: Any) -> list[MakeLogger]:
    """Makers of the loggers that the key `logger` names, each with settings that its class takes.

    W&B's settings lie in `logger` itself, those of every other under its name, as `logger.csv`.
    Nothing is written yet.

    Raises:
        UserError: a class or a package is not installed, or has no such setting.
    """
    entries = plain(settings) or {}
    others = {name: entry for name, entry in entries.items() if isinstance(entry, dict)}
    named = {name: entry for name, entry in others.items() if _TARGET in entry}
    own = {key: value for key, value in entries.items() if key not in named}
    if _TARGET in own:
        named["wandb"] = own
    return [_maker(name, entry) for name, entry in named.items()]


def _maker(name: str, entry: Row) -> MakeLogger:
    # 1. packages: Lightning loads TensorBoard and MLflow when its logger is made
    needed = []
    if str(entry[_TARGET]).startswith("lightning."):
        needed.append("lightning")
    if name in ("mlflow", "tensorboard"):
        needed.append(name)
    if missing := [package for package in needed if find_spec(package) is None]:
        raise UserError(
            f"logger={name}: it needs what is not installed; `pip install {' '.join(missing)}` "
            "brings it, or leave it out with logger=none."
        )
    # 2. the class, and whether it takes the settings; names may hold what was interpolated
    hide = hider(environment_secrets())
    shown = {key: hide(entry[key]) for key in _NAMES if isinstance(entry.get(key), str)}
    try:
        make = instantiate({**entry, **shown}, _partial_=True)
        signature(make.func).bind(*make.args, **make.keywords)
    except (InstantiationException, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"logger={name}: {entry[_TARGET]}: {reason}.") from error
    return make


def log_run(
    loggers: Sequence[MakeLogger],
    results: Results,
    figures: Mapping[str, Figure],
    files: Sequence[Path] = (),
) -> None:
    """Logs a finished run: the configuration, secrets masked; `headlines`, such as
    `coherence/spearman`; the verdicts; figures; files of the run folder.

    Raises:
        UserError: a logger's files cannot be written, as on a full disk.
    """
    for make in loggers:
        with _open(make) as logger:
            logger.log_hyperparams(dict(results.config))
            logger.log_metrics(headlines(results))
            if isinstance(logger, QuietWandbLogger):
                logger.log_results(results, figures, files)
            else:
                logger.log_hyperparams(verdicts(results))
                _log_files(logger, figures, files)


def log_sweep(
    loggers: Sequence[MakeLogger],
    config: Row,
    summary: Row,
    figures: Mapping[str, Figure],
) -> None:
    """Logs a finished sweep: the best setting of every cell as numbers, and the figures.

    Args:
        config: resolved, plain, secrets masked.
        summary: see `judgebench.study.summary.summarize`.
    """
    for make in loggers:
        with _open(make) as logger:
            logger.log_hyperparams(dict(config))
            logger.log_metrics(best_scalars(summary))
            if isinstance(logger, QuietWandbLogger):
                logger.log_images(figures)
            else:
                _log_files(logger, figures)


@contextmanager
def _open(make: MakeLogger) -> Iterator[Any]:
    """A logger whose record ends with the block, so that the next job of a multirun starts its
    own."""
    # MLflow sends how it is used, unless told not to
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    status = "failed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that a tracker spells its own way
        logger = make()
        title = getattr(logger, "title", type(logger).__name__)
        try:
            try:
                yield logger
                status = "success"
            finally:
                logger.finalize(status)
        except OSError as error:
            raise UserError(
                f"logger: {title}'s files in {logger.save_dir} cannot be written "
                f"({error.strerror or error}). The run's own files are there; mend that and give "
                f"the same command again, or leave {title} out with logger=none."
            ) from error


def _log_files(logger: Any, figures: Mapping[str, Figure], files: Sequence[Path] = ()) -> None:
    """Figures and files, as far as the tracker behind a logger takes them: MLflow both, TensorBoard
    figures."""
    tracker = logger.experiment
    if hasattr(tracker, "log_artifact"):
        for path in tracked_files(files):
            tracker.log_artifact(logger.run_id, str(path), "results")
        for name, figure in figures.items():
            tracker.log_figure(logger.run_id, figure, f"figures/{name}.png")
    elif hasattr(tracker, "add_figure"):
        for name, figure in figures.items():
            tracker.add_figure(f"figures/{name}", figure, close=False)
