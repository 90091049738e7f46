"""A finished run on Weights & Biases: offline, quiet and without secrets unless the user asks for more."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure
from PIL import Image

from judgebench.report.views.served import served_scalars
from judgebench.results.results import Results
from judgebench.results.series import range_of
from judgebench.runtime.errors import UserError
from judgebench.runtime.hiding import hider
from judgebench.runtime.masking import environment_secrets
from judgebench.tracking.artifacts import keep_files, main_files, used_files
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

MODES = ("offline", "online", "disabled")


class QuietWandbLogger(WandbLogger):
    """Lightning's W&B logger that prints nothing, keeps its files in the run folder, and stays off the network.

    `mode` decides alone: "offline" (the default) writes files that `wandb sync` can send later; "online" sends at once
    and needs `wandb login` or WANDB_API_KEY; "disabled" does nothing.

    Args:
        save_dir: the run folder; W&B's files go to its `wandb/`.
        mode: "offline", "online" or "disabled".
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
        """The W&B run, started at the first call."""
        if self._experiment is None:
            # Even offline, W&B's background service looks for its telemetry server; it reads this when it starts.
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
            os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")  # it has something to say wherever openai is imported
            logging.raiseExceptions = False  # W&B keeps a log of its own, whose failures are no traceback's worth
            Path(str(self.save_dir)).mkdir(parents=True, exist_ok=True)  # W&B falls back to /tmp where it is missing
        return super().experiment


@rank_zero_only
def log_run(
    logger: WandbLogger, results: Results, figures: Mapping[str, Figure], files: Sequence[Path] = (), examples: int = 50
) -> None:
    """Logs a finished run and closes it, so that the next job of a multirun starts its own.

    Logged are the config; `scalars` such as `test/coherence/1-5/main/greedy/spearman` and `differences` (in the run's
    summary); all records as the table `metrics`, where there are such also `comparisons`, `tuning`, `pairwise` (a row a
    judge and decoding), `ranking` (a row a system), `attack/trace` (every word that was scored) and the records of
    defenses, as `defense/costs`; examples with prompt, answer and every score as the table `examples`; the figures as
    images.

    Args:
        files: files of the run folder; the main ones are kept as artifacts, see `judgebench.tracking.artifacts`.
        examples: how many examples, spread evenly over the test split (over all if there is none).

    Raises:
        UserError: W&B's files cannot be written, as on a full disk.
    """
    failed = True
    try:
        run = logger.experiment
        try:
            import wandb

            with _files_under(Path(run.dir).parent):
                logger.log_hyperparams(dict(results.config))
                content: dict[str, Any] = {name: _table(rows) for name, rows in tables_of(results, examples).items()}
                if results.trace is not None:
                    content["attack/trace"] = wandb.Table(dataframe=results.trace[results.trace["score"].notna()])
                models = results.environment.get("model_fingerprints") or {}
                keep_files(run, main_files(files), used_files(results.config), {"models": dict(models)})
                content |= _images(figures)
                run.log(content)
                run.summary.update(scalars(results.metrics) | differences(results.comparisons))
                run.summary.update(rankings(results.pairwise) | served_scalars(results.environment.get("served")))
            failed = False
        finally:
            run.finish(exit_code=int(failed))
    except OSError as error:
        raise UserError(
            f"logger: W&B's files in {logger.save_dir} cannot be written ({error.strerror or error}). The run's own "
            "files are there; mend that and give the same command again, or leave W&B out with logger=none."
        ) from error


@rank_zero_only
def log_sweep(
    logger: WandbLogger, config: Mapping[str, Any], summary: Mapping[str, Any], figures: Mapping[str, Figure]
) -> None:
    """Logs a finished sweep and closes the run: the best setting of every cell as a table and as scalars, the figures.

    Args:
        config: resolved, plain, secrets masked.
        summary: see `judgebench.study.summary.summarize`.
    """
    run = logger.experiment
    failed = True
    try:
        with _files_under(Path(run.dir).parent):
            logger.log_hyperparams(dict(config))
            cells = [cell for cell in summary["cells"] if cell["best"]]
            run.log({"best": _table([_best_row(cell, summary["params"]) for cell in cells]), **_images(figures)})
            for cell in cells:
                for split in ("dev", "test"):
                    if cell["best"][split] is not None:
                        name = f"best/{split}/{cell['dimension']}/{range_of(cell)}/{cell['metric']}"
                        run.summary[name] = cell["best"][split]
        failed = False
    finally:
        run.finish(exit_code=int(failed))


def _best_row(cell: Mapping[str, Any], params: Sequence[str]) -> dict[str, Any]:
    best = cell["best"]
    row = {"metric": cell["metric"], "dimension": cell["dimension"], "range": str(range_of(cell))}
    return row | {key: best["params"].get(key) for key in params} | {key: best[key] for key in ("dev", "test", "trial")}


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


@contextmanager
def _files_under(folder: Path) -> Iterator[None]:
    """W&B stages tables in the home folder until they are sent; this keeps them with the run that they belong to."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder.resolve())
    try:
        yield
    finally:
        del os.environ[name]
