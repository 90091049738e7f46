"""A finished run on Weights & Biases: offline, quiet and without secrets unless the user asks for more."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from judgebench.report.defense_files import DefenseRecords
from judgebench.report.hiding import hider
from judgebench.report.masking import environment_secrets
from judgebench.report.served import served_scalars
from judgebench.runtime.errors import UserError
from judgebench.tracking.artifacts import keep, used_files
from judgebench.tracking.summary import differences, rankings, scalars
from judgebench.tracking.tables import defense_rows, example_rows, metric_rows, pairwise_rows
from judgebench.tracking.values import files_under, flat, pixels, table

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
    logger: WandbLogger,
    config: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    figures: Mapping[str, Figure],
    scores: pd.DataFrame,
    readings: pd.DataFrame,
    examples: int = 50,
    comparisons: Sequence[Mapping[str, Any]] = (),
    tuning: Sequence[Mapping[str, Any]] = (),
    trace: pd.DataFrame | None = None,
    defense: DefenseRecords | None = None,
    files: Sequence[Path] = (),
    models: Mapping[str, Any] | None = None,
    pairwise: Sequence[Mapping[str, Any]] = (),
    served: Mapping[str, Any] | None = None,
) -> None:
    """Logs a finished run and closes it, so that the next job of a multirun starts its own.

    Logged are the config; `scalars` such as `test/coherence/1-5/main/greedy/spearman` and `differences` (in the run's
    summary); all records as the table `metrics`, where there are such also `comparisons` and `tuning`; examples with
    prompt, answer and every score as the table `examples`; the figures as images.

    Args:
        config: what `RunFolder.write_config` returned: resolved, plain, secrets masked.
        examples: how many examples, spread evenly over the test split (over all if there is none).
        comparisons, tuning: comparisons.json and tuning.json.
        trace: of the search for a phrase, as the table `attack/trace`: every word that was scored.
        defense: the records of `defense/`, as the tables `defense/standards` (without what is nested),
            `defense/strengths`, `defense/references`, `defense/costs` and `defense/detectors`.
        files: files of the run folder that are kept as artifacts, see `judgebench.tracking.artifacts`.
        models: role -> title and fingerprint of each model, for the artifacts' metadata.
        pairwise: pairwise.json, as the tables `pairwise` (a row a judge and decoding) and `ranking` (a row a system),
            and in the summary.
        served: what was asked of judges behind a URL, as numbers of the summary under `served/`.

    Raises:
        UserError: W&B's files cannot be written, as on a full disk.
        TypeError: `config` is an OmegaConf node, hence not masked; nothing is logged then.
    """
    if OmegaConf.is_config(config):
        raise TypeError("config: an OmegaConf node may hold secrets; give what RunFolder.write_config returned.")
    failed = True
    try:
        run = logger.experiment
        try:
            import wandb

            with files_under(Path(run.dir).parent):
                logger.log_hyperparams(dict(config))
                content: dict[str, Any] = {
                    "metrics": table(*metric_rows(records)),
                    "examples": table(*example_rows(scores, readings, examples)),
                }
                for name, found in (("comparisons", comparisons), ("tuning", [flat(record) for record in tuning])):
                    if found:
                        content[name] = table(*metric_rows(found))
                if trace is not None:
                    tried = trace[trace["score"].notna()]
                    content["attack/trace"] = wandb.Table(dataframe=tried)
                content |= {f"defense/{name}": table(*rows) for name, rows in defense_rows(defense).items()}
                content |= {
                    name: table(*metric_rows(found)) for name, found in pairwise_rows(pairwise).items() if found
                }
                keep(run, files, used_files(config), {"models": dict(models or {})})
                for name, figure in figures.items():
                    content[f"figures/{name}"] = wandb.Image(pixels(figure), caption=str(figure.get_label()) or None)
                run.log(content)
                told = scalars(records) | differences(comparisons) | rankings(pairwise) | served_scalars(served)
                run.summary.update(told)
            failed = False
        finally:
            run.finish(exit_code=int(failed))
    except OSError as error:
        raise UserError(
            f"logger: W&B's files in {logger.save_dir} cannot be written ({error.strerror or error}). The run's own "
            "files are there; mend that and give the same command again, or leave W&B out with logger=none."
        ) from error
