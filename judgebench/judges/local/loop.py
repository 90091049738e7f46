"""The judge as a LightningModule, and the one trainer of a run, whose `predict` reads pass by
pass."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import lightning as L
import torch
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback, ProgressBar
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from judgebench.judges.engine.hardware import compute_on, out_of_memory
from judgebench.judges.local import sharding
from judgebench.judges.local.batches import Batch
from judgebench.judges.local.callbacks import EndAtSigterm, ReadingBar, ReadingWriter
from judgebench.judges.local.datamodule import PromptDataModule
from judgebench.judges.local.models import Models
from judgebench.judges.local.passes import LocalPass
from judgebench.judges.local.session import PassSession
from judgebench.readings.reading import ModelReading
from judgebench.runtime.distributed import here
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.judges import PassRunner


def callbacks_of(config: DictConfig) -> list[Callback]:
    """The user's, of `callbacks` and of `trainer.callbacks`, behind ours."""
    chosen = config.get("callbacks") or {}
    theirs = [instantiate(each) for each in chosen.values() if each and "_target_" in each]
    more = instantiate(config.trainer.get("callbacks")) or []
    theirs += more if isinstance(more, Sequence) else [more]
    ours: list[Callback] = [ReadingWriter(), EndAtSigterm()]
    if config.trainer.get("enable_progress_bar", True) is not False and not any(
        isinstance(callback, ProgressBar) for callback in theirs
    ):
        ours.append(ReadingBar())
    return [*ours, *theirs]


def trainer_of(config: DictConfig) -> L.Trainer:
    """The configured trainer, on whose device models run from now on, tried before anything is
    read."""
    # which device computes stands in environment.json; the rest is advice on training
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    try:
        trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks_of(config))
    except (
        MisconfigurationException,
        ImportError,
        TypeError,
        ValueError,
        RuntimeError,
        KeyError,
    ) as error:
        raise UserError(
            f"trainer: Lightning does not take it: {' '.join(str(error).split())[:400]}"
        ) from error
    compute_on(trainer.strategy.root_device, config.get("compile", True))
    return trainer


class JudgeModule(L.LightningModule):
    """Reads the batches of a `PromptDataModule`, a dataloader a pass, each pass with its models."""

    def __init__(self, models: Models | None = None) -> None:
        super().__init__()
        self._loaded = models or Models()
        self._session: PassSession | None = None
        self._at = 0
        self._ddp_params_and_buffers_to_ignore: list[str] = []
        self.language_models: torch.nn.ModuleList | None = None

    @property
    def prompts(self) -> PromptDataModule:
        prompts: PromptDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        return prompts

    def configure_model(self) -> None:
        """Loads the first pass's models, or this process's part of them; Lightning then moves them
        to its device."""
        if self._session is None and self.prompts.todo:
            self._load(0)

    def on_predict_start(self) -> None:
        assert self._session is not None
        self._session.begin(self.prompts.store)

    def on_predict_batch_start(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        if dataloader_idx != self._at:
            self._release()
            self._load(dataloader_idx)
            assert self._session is not None
            if not sharding.is_split(self.trainer.strategy):
                self.to(self.trainer.strategy.root_device)
            self._session.begin(self.prompts.store)

    def predict_step(
        self, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> list[ModelReading]:
        assert self._session is not None
        return self._session.read(batch, self.prompts.following(batch))

    def on_predict_epoch_end(self) -> None:
        # before any process waits in on_predict_end of a callback: it may still be needed
        self._release()

    def _load(self, number: int) -> None:
        todo = self.prompts.todo
        assert todo is not None
        pass_ = todo[number][0]
        self._loaded.make_room({source for later, _ in todo[number:] for source in later.sources})
        load = turns = None
        mesh = self.device_mesh
        if mesh is not None:  # which strategies have that split models
            for source in pass_.sources:
                here().agree(partial(sharding.check_split, source, self.trainer))
            load = partial(sharding.load_split, strategy=self.trainer.strategy, mesh=mesh)
            turns = sharding.Turns
        self._at = number
        self._session = PassSession(pass_, self._loaded, load, turns)
        self.language_models = torch.nn.ModuleList(self._session.models)
        # each process has loaded the same weights; Lightning's DDP would send all of them to all
        # before each pass
        self._ddp_params_and_buffers_to_ignore = list(self.state_dict()) + [
            name for name, _ in self.named_buffers()
        ]

    def _release(self) -> None:
        if self._session is not None:
            self._session.end()
        # Lightning's teardown would move them to the CPU
        self._session = self.language_models = None


def compute(
    runner: PassRunner, todo: Sequence[tuple[LocalPass, Sequence[Batch]]], doing: str
) -> L.Trainer | None:
    """Computes and stores batches; gives the trainer, None if nothing was missing. `UserError`
    where a prompt does not fit into memory, another process has ended, or one would read something
    else.

    Args:
        todo: passes and their batches; a pass without batches takes no part.
        doing: a verb for the progress bar.
    """
    todo = [(pass_, batches) for pass_, batches in todo if batches]
    if not todo:
        return None
    here().join()  # only now, for what is stored needs no second process
    if not any(isinstance(each, ReadingWriter) for each in runner.trainer.callbacks):
        runner.trainer.callbacks.insert(0, ReadingWriter())  # a trainer of the caller's own
    prompts = PromptDataModule(todo=todo, store=runner.store, doing=doing)
    predict(runner.trainer, JudgeModule(runner.models), prompts)
    return runner.trainer


def predict(trainer: L.Trainer, judge: JudgeModule, prompts: PromptDataModule) -> None:
    """Lightning's predict loop, without its warnings about training."""
    with warnings.catch_warnings():
        # Lightning's own, about torch and about its recommended number of workers
        warnings.filterwarnings("ignore", message=".*LeafSpec|.*does not have many workers")
        try:
            trainer.predict(judge, datamodule=prompts, return_predictions=False)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            title = prompts.todo[judge._at][0].title if prompts.todo else "the judge"
            raise UserError(
                f"trainer: {title} does not fit into the memory of {trainer.strategy.root_device}; "
                "take a smaller model, a dtype of half the size (judge.dtype=bfloat16), or several "
                "GPUs with trainer=fsdp."
            ) from error
        # what Lightning makes of Ctrl-C; a sweep would take it for a failed job
        except SystemExit as end:
            if isinstance(end.__context__, KeyboardInterrupt):
                raise end.__context__ from None
            raise
