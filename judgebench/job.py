"""A run under way: how it begins, what it must read before its texts are final, and what it reads."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import lightning as L
import pandas as pd
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from judgebench.attacks.adv_suffix import learn
from judgebench.config.fields import MEASURE
from judgebench.config.keys import path_of
from judgebench.config.parts import Parts
from judgebench.experiment import Experiment
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.loop import Models, measure
from judgebench.judges.sharding import check_split
from judgebench.judges.spec import LOCAL
from judgebench.report.paper import check_tables
from judgebench.report.render import WIDTH, Terminal
from judgebench.report.views.run import dry_run_view
from judgebench.results.folder import RunFolder
from judgebench.reuse import LastRun, Read, key_of, load_last
from judgebench.runtime.distributed import begin, here
from judgebench.runtime.errors import UserError
from judgebench.runtime.timing import Clock


@dataclass
class Job:
    """A run under way.

    Attributes:
        experiment: grows as defenses are prepared and phrases are learned.
        last: the run before, whose readings serve this one too; None without one.
        key: see `judgebench.reuse.key_of`.
        tables: names of the paper tables to write.
        models: those that are loaded.
    """

    config: DictConfig
    experiment: Experiment
    folder: RunFolder
    logger: Any
    last: LastRun | None
    key: str
    tables: Sequence[str]
    clock: Clock
    console: Terminal
    models: Models = field(default_factory=Models)

    @classmethod
    def begin(cls, parts: Parts, stack: ExitStack) -> Job:
        """Everything that a configuration asks for, checked; `stack` keeps other runs out of the folder."""
        config = parts.config
        console, clock = Terminal(width=max(WIDTH, Terminal().width)), Clock()
        with clock("load"):
            last = load_last(config)
            key = last.key if last else key_of(config)
            trainer = trainer_of(config, [])
            processes = begin(trainer)
            compute_on(trainer.strategy.root_device, config.get("compile", True))

            def parsed() -> Experiment:
                # the last run may know the data and the prompts
                experiment = last.experiment.again(parts) if last else Experiment.parse(config, parts)
                for source in experiment.sources:
                    check_split(source, trainer)
                return experiment

            experiment = processes.together(parsed)
            tables = check_tables(config.tables)
            folder = processes.agree(lambda: RunFolder.check(path_of(config, "run_dir")))
            logger = instantiate(config.logger)
            if not config.dry_run:  # the first process, which alone writes there, keeps others out
                processes.agree(lambda: stack.enter_context(folder.alone()))
        notes = dict.fromkeys(source.dtype_note for source in experiment.sources if source.dtype_note is not None)
        if processes.first and notes:
            console.print("\n".join(notes), highlight=False, markup=False)
        return cls(config, experiment, folder, logger, last, key, tables, clock, console)

    def prepare(self, stage: str) -> None:
        """Prepares those defenses that needed what a stage brings."""
        with self.clock("defense"):
            self.experiment = self.experiment.prepared(stage, self.models, partial(trainer_of, self.config))
        self.clock.move(self.models.seconds, "defense", "load")
        self.models.seconds = 0.0

    def learn(self) -> pd.DataFrame | None:
        """Searches for the phrases that are to be learned; the search's trace, None without one."""
        search, config = self.experiment.search, self.config
        if search is None:
            return None
        with self.clock("attack"):
            trainer = trainer_of(config, [])
            if trainer.world_size > 1:
                raise UserError(
                    "trainer: a phrase is learned in one process; learn it with trainer=auto, then judge with "
                    "attack=phrase attack.phrase_file=RUN/attack/phrase.json in as many as you like."
                )
            reader, lesson = self.experiment.reader(self.models), self.experiment.lesson()
            objectives = search.objectives(self.experiment.decodings, self.experiment.judge.mode)
            folder, device = path_of(config, "store").parent / "attacks", trainer.strategy.root_device
            with self.console.status("attack") as status:
                phrases, trace = learn(
                    search, objectives, lesson, reader, device, folder, lambda text: status.update(text)
                )
        self.clock.move(self.models.seconds, "attack", "load")
        self.models.seconds = 0.0
        self.experiment = self.experiment.attacked(phrases)
        return trace

    def read(self) -> Read | None:
        """Reads what judge and assistant answer; None in a process that only helped."""
        reader = self.experiment.reader(self.models)
        trainer = reader.read(partial(trainer_of, self.config))
        readings = reader.readings(self.experiment.data.split)
        read = Read(readings, reader.fingerprints, reader.device(trainer), reader.served, reader.evidence)
        self.clock.move(reader.models.seconds, "read", "load")
        return read if here().first else None


def show_dry_run(experiment: Experiment, console: Terminal) -> None:
    """Prints the prompts that would be read; reads a little where that is asked for."""
    paces = None
    if experiment.config.dry_run == MEASURE:
        # the speed of the passes, from what can be read already; none where nothing is computed here
        reader, paces = experiment.reader(), []
        if LOCAL in experiment.judge.gives:
            runner = reader.runner(partial(trainer_of, experiment.config))
            paces = measure(runner, reader.passes, reader.judge.token_budget)
    if not here().first:
        return
    console.print(dry_run_view(experiment.prompts, experiment.tokens, experiment.titles, experiment.planned, paces))
    answers = None if experiment.answers is None else experiment.answers.note
    for line in (answers, experiment.served_estimate()):
        if line is not None:
            console.print(line, highlight=False, markup=False)


def trainer_of(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    """The configured trainer, tried before anything is read."""
    # which device computes stands in environment.json; the rest is advice on training
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    try:
        trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks)
    except (MisconfigurationException, TypeError, ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"trainer: Lightning does not take it: {' '.join(str(error).split())[:400]}") from error
    return trainer
