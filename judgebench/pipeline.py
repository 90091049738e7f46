"""The recipe: examples -> prompts -> readings -> scores -> metrics -> what people look at."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig
from rich.console import Console

from judgebench.clock import Clock
from judgebench.decoding.decode import decode
from judgebench.errors import UserError
from judgebench.experiment import Experiment, path_of
from judgebench.metrics.evaluate import evaluate
from judgebench.readings.table import reading_columns
from judgebench.report.dry_run import dry_run_view
from judgebench.report.figures import draw_all
from judgebench.report.html import render_report
from judgebench.report.run_folder import RunFolder
from judgebench.report.tables import WIDTH, agreement_lines, metrics_table
from judgebench.tracking.wandb import log_run


@dataclass(frozen=True)
class Finished:
    """What a run has left.

    Attributes:
        path: its folder.
        records: those of metrics.json.
    """

    path: Path
    records: Sequence[Mapping[str, Any]]


def run(config: DictConfig) -> Finished | None:
    """Runs the experiment that `config` describes.

    Returns:
        Its folder and metrics; None where nothing was to be written (a dry run, or a process that only helped to read).

    Raises:
        UserError: whatever the user can mend. Up to the first file in the run folder, nothing has been written there.
    """
    console = Console(width=max(WIDTH, Console().width))
    clock = Clock()
    with clock("load"):
        experiment = Experiment.parse(config)
        folder = RunFolder.check(path_of(config, "run_dir"))
        _trainer(config, [])
        logger = instantiate(config.logger)
    if config.dry_run:
        console.print(dry_run_view(experiment.prompts, experiment.tokens, experiment.titles))
        return None

    with clock("read"):
        reader = experiment.reader()
        trainer = reader.read(experiment.data, partial(_trainer, config))
        readings = reader.readings(experiment.data.split)
    clock.move(reader.models.seconds, "read", "load")
    if trainer is not None and not trainer.is_global_zero:
        return None
    with clock("decode"):
        columns = decode(readings, experiment.decodings)
    with clock("metrics"):
        records = evaluate(columns, experiment.data.name, **config.metrics)
        agreement = experiment.agreement()

    folder.clear()
    written = folder.write_config(config)
    read, scores = pd.DataFrame(reading_columns(readings)), pd.DataFrame(columns)
    folder.write_readings(read)
    folder.write_scores(scores)
    folder.write_metrics(records)
    cost: dict[str, Any] = {
        "device": reader.device(trainer),
        "model_fingerprints": reader.fingerprints,
        "seconds": clock.seconds,
        "tokens": experiment.all_tokens,
    }
    environment = folder.write_environment(**cost)
    with clock("report"):
        shown: dict[str, Any] = {
            "scores": scores,
            "records": records,
            "scale": experiment.scale,
            "titles": experiment.titles,
        }
        figures = draw_all(readings=read, **shown)
        folder.write_figures(figures)
        page = render_report(config=written, environment=environment, figures=figures, agreement=agreement, **shown)
        folder.write_report(page)
        if logger is not None:
            log_run(logger, written, records, figures, scores, read)
    folder.write_environment(**cost)
    if agreement:
        console.print(agreement_lines(agreement))
    console.print(metrics_table(records, experiment.titles))
    return Finished(folder.path, records)


def _trainer(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    """The configured trainer; whether there can be one is tried before anything is read."""
    # which device computes stands in environment.json; the rest is advice on training
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    try:
        trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks)
    except (MisconfigurationException, TypeError, ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"trainer: Lightning does not take it: {' '.join(str(error).split())[:400]}") from error
    return trainer
