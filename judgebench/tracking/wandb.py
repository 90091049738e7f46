"""A finished run on Weights & Biases: offline, quiet and without secrets unless the user asks for
more. Next to what any tracker is given: tables, images and artifacts.
"""

from __future__ import annotations

import io
import logging
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judgebench.results.results import Results
from judgebench.runtime.secrets import environment_secrets, hider
from judgebench.settings.run import LOGGER_MODES as MODES
from judgebench.tracking.content import differences, scalars, tracked_files, verdicts
from judgebench.types import Record, Records, Row
from judgebench.words.errors import UserError
from judgebench.words.formats import is_known

if TYPE_CHECKING:
    import wandb
    from matplotlib.figure import Figure

_SETTINGS: Row = {
    "silent": True,
    "show_info": False,
    "console": "off",
    # W&B would record the command line, where `judge.api_key=...` may stand, host, user, packages
    # and code by itself.
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
}


_STAGE = "WANDB_DATA_DIR"


class QuietWandbLogger:
    """A logger of Lightning's interface that logs to W&B, prints nothing, keeps its files in the run
    folder, and stays off the network; it needs neither Lightning nor torch.

    Args:
        save_dir: the run folder; W&B's files go to its `wandb/`.
        mode: "offline" writes files that `wandb sync` can send later; "online" sends at once and
            needs `wandb login` or WANDB_API_KEY; "disabled" does nothing.
        kwargs: see `wandb.init`.
    """

    title = "W&B"

    def __init__(self, save_dir: str | Path, mode: str = "offline", **kwargs: Any) -> None:
        if mode not in MODES:
            raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(MODES)}.")
        settings = {**_SETTINGS, **(kwargs.pop("settings", None) or {})}
        hide = hider(environment_secrets())  # of what was interpolated into a name or a note
        kwargs = {
            name: hide(value) if isinstance(value, str) else value for name, value in kwargs.items()
        }
        # W&B's service outlives a run, and reads a relative path from where it was started
        self.save_dir = Path(save_dir).absolute()
        self._init: Record = {
            "dir": self.save_dir,
            "mode": mode,
            "settings": settings,
            **kwargs,
        }
        self._staged = False

    @cached_property
    def experiment(self) -> wandb.Run:
        # Even offline, W&B's background service looks for its telemetry server; it reads this when
        # it starts.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        # it has something to say wherever openai is imported
        os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
        # W&B keeps a log of its own, whose failures are no traceback's worth
        logging.raiseExceptions = False
        # W&B falls back to /tmp where it is missing
        self.save_dir.mkdir(parents=True, exist_ok=True)
        import wandb

        run = wandb.init(**self._init)
        # W&B stages tables in the home folder until they are sent; so they stay with the run that
        # they belong to
        self._staged = _STAGE not in os.environ
        if self._staged:
            os.environ[_STAGE] = str(Path(run.dir).parent.resolve())
        return run

    def log_hyperparams(self, params: Row) -> None:
        self.experiment.config.update(dict(params), allow_val_change=True)

    def log_metrics(self, metrics: Row, step: int | None = None) -> None:
        """Puts numbers into the run's summary."""
        self.experiment.summary.update(dict(metrics))

    def finalize(self, status: str) -> None:
        if self._staged:
            del os.environ[_STAGE]
        if "experiment" in vars(self):
            self.experiment.finish(exit_code=int(status != "success"))

    def log_results(
        self,
        results: Results,
        figures: Mapping[str, Figure],
        files: Sequence[Path] = (),
    ) -> None:
        """Logs the verdicts, and the numbers of every cell that workspaces show; as tables
        `metrics` and `comparisons`; figures as images, and of the files of a run folder, as an
        artifact, readings, scores, metrics, phrases and findings of defenses."""
        import wandb

        content = {"metrics": _table(results.metrics), "comparisons": _table(results.comparisons)}
        if paths := tracked_files(files):
            artifact = wandb.Artifact(
                f"results-{self.experiment.id}",
                type="results",
                metadata={"models": dict(results.environment.get("model_fingerprints") or {})},
            )
            for path in paths:
                artifact.add_file(str(path))
            self.experiment.log_artifact(artifact)
        self.experiment.log(content | _images(figures))
        self.log_metrics(scalars(results.metrics) | differences(results.comparisons))
        self.log_metrics(verdicts(results))

    def log_images(self, figures: Mapping[str, Figure]) -> None:
        self.experiment.log(_images(figures))


# --- tables -------------------------------------------------------------------------------------


def _value(value: Any) -> Any:
    """A value of a table: lists as text, nulls and numbers that are not finite as None."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    value = value.item() if isinstance(value, np.generic) else value
    infinite = isinstance(value, float) and math.isinf(value)
    return value if is_known(value) and not infinite else None


def _table(rows: Records) -> wandb.Table:
    """A table of W&B's, with all keys that any row has."""
    import wandb

    columns: list[Any] = list(dict.fromkeys(key for row in rows for key in row))
    data: list[Any] = [[_value(row.get(column)) for column in columns] for row in rows]
    # Nulls and numbers share columns, which W&B calls mixed types.
    return wandb.Table(columns=columns, data=data, allow_mixed_types=True)


def _images(figures: Mapping[str, Figure]) -> Record:
    """Figures at the resolution of print; W&B's own conversion stops at that of screens."""
    import wandb
    from PIL import Image

    images = {}
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200)
        images[f"figures/{name}"] = wandb.Image(
            Image.open(buffer), caption=str(figure.get_label()) or None
        )
    return images
