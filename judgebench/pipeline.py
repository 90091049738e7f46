"""The recipe: examples -> prompts -> readings -> scores -> metrics -> what people look at."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import lightning as L
import pandas as pd
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig
from rich.console import Console

from judgebench.clock import Clock
from judgebench.decoding.decode import decode
from judgebench.experiment import Experiment
from judgebench.metrics.agreement import agreement
from judgebench.metrics.evaluate import evaluate
from judgebench.readings.table import reading_columns
from judgebench.report.dry_run import dry_run_view
from judgebench.report.figures import draw_all
from judgebench.report.html import render_report
from judgebench.report.run_folder import RunFolder
from judgebench.report.tables import WIDTH, agreement_lines, metrics_table
from judgebench.tracking.wandb import log_run


def run(config: DictConfig) -> Path | None:
    """Runs the experiment that `config` describes.

    Returns:
        The run folder; None where nothing was to be written (a dry run, or a process that only helped to read).

    Raises:
        UserError: whatever the user can mend. Up to the first file in the run folder, nothing has been written there.
    """
    console = Console(width=max(WIDTH, Console().width), soft_wrap=False)
    clock = Clock()
    with clock("load"):
        experiment = Experiment.parse(config)
    if config.dry_run:
        console.print(dry_run_view(experiment.prompts, experiment.tokens(), experiment.titles))
        return None
    with clock("read"):
        reader = experiment.reader(experiment.store())
        trainer = reader.read(experiment.data, partial(_trainer, config))
    if trainer is not None and not trainer.is_global_zero:
        return None
    readings = reader.readings(experiment.data.split)
    with clock("decode"):
        columns = decode(readings, experiment.decodings)
    with clock("metrics"):
        records = evaluate(columns, experiment.data.name, **config.metrics)
        agreed = agreement(experiment.data.ratings)

    folder = RunFolder(config.run_dir)
    written = folder.write_config(config)
    reading_frame, score_frame = pd.DataFrame(reading_columns(readings)), pd.DataFrame(columns)
    folder.write_readings(reading_frame)
    folder.write_scores(score_frame)
    folder.write_metrics(records)
    with clock("report"):
        figures = draw_all(reading_frame, score_frame, records, experiment.data.scale, experiment.titles)
        folder.write_figures(figures)
        environment = folder.write_environment(
            device=reader.device(trainer),
            model_fingerprints=reader.fingerprints,
            seconds=clock.seconds,
            tokens=dict(
                zip(("total", "unique"), map(sum, zip(*experiment.tokens().values(), strict=True)), strict=True)
            ),
        )
        folder.write_report(render_report(written, records, score_frame, figures, environment, experiment.titles))
    if config.logger is not None:
        logger = instantiate(config.logger)
        log_run(logger, written, records, figures, score_frame, reading_frame)
    console.print(metrics_table(records, experiment.titles), agreement_lines(agreed))
    return folder.path


def _trainer(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks)
    return trainer
