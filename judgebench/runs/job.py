"""A run under way: how it begins, what it must read before its texts are final, and what it reads.

The last run of a session is kept (`LastRun`): its data, its prompts and its readings of
`score_tokens` mode. A later run of the same session, a sweep's next job, uses them where its
configuration differs in nothing that is loaded or read.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from judgebench.config.keys import FOLDER, implied_choices, path_of
from judgebench.config.parts import Parts
from judgebench.defenses.prepared import planned
from judgebench.judges.judge import RunReadings
from judgebench.judges.local.loading import hash_ahead
from judgebench.judges.local.models import Models, Trainers
from judgebench.judges.local.ray_runner import RayRunner, RayTrainer
from judgebench.judges.reader import IN_STORE
from judgebench.judges.served.settings import unpaid
from judgebench.judges.spec import RECORDED
from judgebench.results.folder import RunFolder
from judgebench.runs.dry_run import show_dry_run
from judgebench.runs.experiment import Experiment
from judgebench.runtime.distributed import NullTrainer, begin_group, process_group
from judgebench.runtime.files import inode
from judgebench.runtime.session import Session
from judgebench.settings.fields import plain
from judgebench.types import Row
from judgebench.words.console import WIDTH, Terminal
from judgebench.words.errors import Clock, UserError

if TYPE_CHECKING:
    import pandas as pd

    from judgebench.tracking.loggers import MakeLogger

FREE = frozenset(
    (
        "decoding",
        "tune",
        "metrics",
        "pairwise",
        "report",
        "figures",
        "human_agreement",
        "examples",
        "tables",
        "name",
        "run_dir",
        "logger",
        "callbacks",
        "objective",
        "hydra",
        "dry_run",
    )
)
"""The config's entries that change nothing of what is loaded and read."""


@dataclass(frozen=True)
class LastRun:
    """A run that can be used again.

    Attributes:
        key: see `key_of`.
        store: the store's file, by device and inode.
    """

    key: str
    store: tuple[int, int] | None
    experiment: Experiment
    readings: RunReadings

    @classmethod
    def of(cls, experiment: Experiment, readings: RunReadings) -> LastRun | None:
        """A run whose readings are complete; None of free answers, which depend on the
        decodings."""
        judge = experiment.judge
        if judge.settings.mode != "score_tokens" or judge.free_text:
            return None
        again = copy.copy(readings)  # with its columns, where they are computed already
        if RECORDED not in judge.settings.capabilities:
            again.device = IN_STORE
        if again.served is not None:
            again.served = unpaid(again.served)
        config = experiment.parts.config
        return cls(key_of(config), inode(path_of(config, "store")), experiment, again)

    def serves(self, config: DictConfig) -> bool:
        """True where its data and readings are a configuration's too, and the store's file, which
        must hold what a run says it has stored, is there as it was."""
        return (self.key, self.store) == (key_of(config), inode(path_of(config, "store")))


def key_of(config: DictConfig) -> str:
    """Everything that data, prompts and readings of a session's run depend on: the resolved config
    less its `FREE` entries."""
    read = {key: plain(config[key]) for key in config if key not in FREE}
    return json.dumps([os.getcwd(), read], sort_keys=True, default=str)


# --- a run under way ----------------------------------------------------------------------------


@dataclass
class Job:
    """A run under way.

    Attributes:
        experiment: grows as defenses are prepared and phrases are learned.
        last: the run before, whose readings serve this one too; None without one.
        loggers: make what the finished run is logged to.
        tables: names of the paper tables to write.
        models: those that are loaded.
        trainer: see `trainer_for`.
    """

    config: DictConfig
    experiment: Experiment
    folder: RunFolder
    loggers: Sequence[MakeLogger]
    last: LastRun | None
    tables: Sequence[str]
    clock: Clock
    console: Terminal
    trainer: Trainers
    models: Models = field(default_factory=Models)

    @classmethod
    def begin(cls, parts: Parts, stack: ExitStack, session: Session) -> Job:
        """Everything that a configuration asks for, checked; `stack` keeps other runs out of the
        folder."""
        config = parts.config
        console = Terminal(width=max(WIDTH, Terminal().width))
        clock = Clock()
        with clock("load"):
            if not config.dry_run:
                models = (parts.judge.source, parts.assistant.source)
                hash_ahead(models, path_of(config, "store"))
            # 1. the processes, all of which parse the experiment; the last run may know its data
            last: LastRun | None = session.last
            if last is not None and not last.serves(config):
                # before the next data and readings come, for there is room for one
                last = session.last = None
            trainer = trainer_for(config, parts.computes, parts.runner)
            processes = begin_group(trainer)
            experiment = processes.together(lambda: _parsed(parts, last, trainer))
            # 2. what the run writes to; the first process, which alone writes there, keeps others
            # out
            folder = processes.agree(lambda: RunFolder.check(path_of(config, "run_dir")))
            loggers: Sequence[MakeLogger] = ()
            if config.get("logger"):
                from judgebench.tracking.loggers import check_loggers  # Lightning with its own

                loggers = check_loggers(config.logger)
            if not config.dry_run:
                processes.agree(lambda: stack.enter_context(folder.alone(log=True)))
        notes = dict.fromkeys(source.dtype_note for source in experiment.judge.sources)
        notes.pop(None, None)
        notes |= dict.fromkeys([*implied_choices(config), *experiment.possible_bands])
        if processes.first and notes:
            console.print("\n".join(map(str, notes)), highlight=False, markup=False)
        return cls(
            config=config,
            experiment=experiment,
            folder=folder,
            loggers=loggers,
            last=last,
            tables=list(dict.fromkeys(config.get("tables") or ())),
            clock=clock,
            console=console,
            trainer=trainer,
        )

    def show_prompts(self) -> None:
        """Prints the prompts that would be read."""
        experiment = self.experiment
        store = path_of(self.config, "store")
        show_dry_run(
            experiment.judge, experiment.questions, self.console, planned(experiment.judge), store
        )

    def prepare(self, stage: str) -> None:
        """Prepares those defenses that needed what a stage brings."""
        with self._timed("defense"):
            self.experiment = self.experiment.prepared(stage, self.models, self.trainer)

    def learn(self) -> pd.DataFrame | None:
        """Searches for the phrases that are to be learned; the search's trace, None without one."""
        search = self.experiment.parts.search
        if search is None:
            return None
        from judgebench.attacks.adv_suffix import learn  # torch with it
        from judgebench.judges.local.reader import Reader

        with self._timed("attack"):
            trainer = self.trainer
            if trainer.world_size > 1:
                raise UserError(
                    "trainer: a phrase is learned in one process; learn it with trainer=auto, then "
                    "judge with 'attacks=[{name: adv_suffix, phrase_file: RUN/attack/phrase.json}]' "
                    "in as many as you like."
                )
            judge = self.experiment.judge
            reader = judge.reader(self.experiment.questions, self.models)
            assert isinstance(reader, Reader)  # a phrase is learned from gradients
            with self.console.status("attack") as status:
                phrases, trace = learn(
                    search,
                    search.objectives(judge.decodings, judge.settings.mode),
                    self.experiment.lesson(),
                    reader,
                    trainer.strategy.root_device,
                    path_of(self.config, "store").parent / "attacks",
                    status.update,
                )
        self.experiment = self.experiment.attacked(phrases)
        return trace

    def read(self) -> RunReadings | None:
        """The readings of judge and assistant, computed once and stored; None in a process that
        only helped."""
        with self._timed("read"):
            if self.last is not None:
                return self.last.readings
            experiment = self.experiment
            readings = experiment.judge.read(
                experiment.questions, experiment.data.split, self.trainer, self.models
            )
            return readings if process_group().first else None

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        """Counts the seconds of a step, those in which models were loaded as loading."""
        with self.clock(step):
            yield
        self.clock.move(self.models.seconds, step, "load")
        self.models.seconds = 0.0


def _parsed(parts: Parts, last: LastRun | None, trainer: Any) -> Experiment:
    """The experiment of some parts; the last run may know the data and the prompts."""
    experiment = last.experiment.again(parts) if last else Experiment.parse(parts.config, parts)
    for source in experiment.judge.sources:
        from judgebench.judges.local.sharding import check_split  # torch with it

        check_split(source, trainer)
    return experiment


def trainer_for(config: DictConfig, computes: bool, runner: RayRunner | None = None) -> Trainers:
    """The trainer of a configuration, one for all that is read; what stands for it where one
    process reads no model here (`computes`), as of recorded readings or served judges: nothing else
    needs Lightning and torch."""
    settings = plain(config.trainer)
    if chosen := config.get("callbacks"):
        settings["callbacks"] = chosen
    changed = _changed(settings)
    # 1. no model is read here: nothing stands in for a trainer that is as usual, or on the CPU
    on_cpu = changed == {"accelerator"} and settings["accelerator"] == "cpu"
    if not computes and (not changed or on_cpu):
        return NullTrainer(settings.get("enable_progress_bar", True) or None)
    # 2. Lightning here
    from judgebench.judges.local.loop import trainer_of  # torch and Lightning with it

    local = trainer_of(config)
    if runner is None:
        return local
    # 3. actors of Ray
    check_trainer_of_actors(settings)
    return RayTrainer(runner, local)


def check_trainer_of_actors(settings: Row) -> None:
    """Checks that a configured trainer is one that an actor can have; else `UserError`."""
    if odd := sorted(_changed(settings) - {"accelerator"}):
        raise UserError(
            f"trainer.{odd[0]}: under runner=ray each actor reads with a copy of the models on a "
            "device of its own; leave the trainer as it is, or take runner=lightning."
        )


def _changed(settings: Row) -> set[str]:
    """Keys of a trainer that are not as usual, but for its bar."""
    usual = plain(OmegaConf.load(FOLDER / "trainer" / "auto.yaml"))
    changed = {name for name in {*settings, *usual} if settings.get(name) != usual.get(name)}
    return changed - {"enable_progress_bar"}
