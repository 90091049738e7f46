"""The judge as a LightningModule, and the trainer of a run, whose `predict` reads pass by pass."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from hydra.errors import InstantiationException
from lightning.pytorch.callbacks import Callback, ProgressBar
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from judgebench.judges.engine.hardware import compute_on, out_of_memory
from judgebench.judges.local import sharding
from judgebench.judges.local.batches import Batch
from judgebench.judges.local.callbacks import EndAtSigterm, ReadingBar, ReadingWriter
from judgebench.judges.local.datamodule import PassDataModule, Todo, data_module_of
from judgebench.judges.local.models import Models
from judgebench.judges.local.session import PassSession
from judgebench.readings.reading import ModelReading
from judgebench.runtime.distributed import process_group
from judgebench.settings.components import TARGET, build_component
from judgebench.settings.fields import plain
from judgebench.words.errors import UserError, reason

if TYPE_CHECKING:
    from judgebench.judges import PassRunner


def trainer_of(config: DictConfig) -> L.Trainer:
    """The configured trainer with the configured callbacks, tried before anything is read; models
    run on its device from now on."""
    # which device computes stands in environment.json, and the rest is advice on training; but a
    # profiler reports by its logger
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.pytorch.profilers").setLevel(logging.INFO)
    if logging.getLogger().handlers:  # those of Hydra's job_logging, behind Lightning's own
        logging.getLogger("lightning").handlers.clear()
    settings = plain(config.trainer)
    given = settings.pop("callbacks", None) or []
    chosen = plain(config.get("callbacks")) or {}
    nodes = [*chosen.values(), *(given if isinstance(given, list) else [given])]
    callbacks = [callback_of(node) for node in nodes if node is not None]
    # Lightning refuses two bars, and one where bars are switched off
    has_bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    if settings.get("enable_progress_bar", True) and not has_bar:
        callbacks.append(ReadingBar())
    try:
        trainer: L.Trainer = build_component(settings)(callbacks=callbacks)
    except (
        InstantiationException,
        MisconfigurationException,
        ImportError,
        TypeError,
        ValueError,
        RuntimeError,
        KeyError,
    ) as error:
        raise not_taken(error) from error
    if repr(trainer.limit_predict_batches) != "1.0":  # 1 is a single batch
        raise UserError(
            "trainer.limit_predict_batches: a run needs all of its readings; leave this out (and "
            "trainer.fast_dev_run), and judge fewer texts with data.limit_groups=2."
        )
    compute_on(trainer.strategy.root_device, config.get("compile", True))
    return trainer


def callback_of(node: Any) -> Callback:
    """A callback that an entry of `callbacks` or `trainer.callbacks` describes; `UserError` where
    it describes none."""
    problem = "gives no callback of lightning.pytorch"
    made = None
    try:
        made = build_component(node)
    except InstantiationException as error:
        problem = f"gives nothing ({reason(error.__cause__ or error)})"
    if isinstance(made, Callback):
        return made
    named = node.get(TARGET) if isinstance(node, Mapping) else node
    raise UserError(
        f"callbacks: {named!r} {problem}; name a subclass of lightning.pytorch.Callback in the "
        "folder where the command is started, or installed, as "
        "+callbacks.mine._target_=mine.Callback."
    )


def not_taken(error: Exception) -> UserError:
    """The mistake of a user whose trainer Lightning cannot use, with what Lightning says."""
    return UserError(f"trainer: Lightning does not take it: {reason(error.__cause__ or error)}.")


class JudgeModule(L.LightningModule):
    """Reads the batches of a data module (`PromptDataModule`), a dataloader a pass, each pass with
    its models, which are loaded when their pass begins. Its predictions are those of this process
    alone; a `ReadingWriter`, which it brings along where the trainer has none, stores all.

    Args:
        models: those that are in memory already.

    Attributes:
        dataloader_idx: number of the pass under way.
    """

    def __init__(self, models: Models | None = None) -> None:
        super().__init__()
        self._models = models or Models()
        self._session: PassSession | None = None
        self.dataloader_idx = 0
        # Lightning's DDP would send all weights to all processes, which have loaded the same ones
        self._ddp_params_and_buffers_to_ignore: list[str] = []
        self.language_models: torch.nn.ModuleList | None = None

    def configure_callbacks(self) -> list[Callback]:
        """The callbacks that reading needs and the trainer lacks."""
        there = self.trainer.callbacks  # type: ignore[attr-defined]
        needed = (ReadingWriter, EndAtSigterm)
        return [each() for each in needed if not any(isinstance(c, each) for c in there)]

    def configure_model(self) -> None:
        """Loads the first pass's models, or this process's part of them; Lightning then moves them
        to its device."""
        if self._session is None and data_module_of(self.trainer).todo:
            self._load(0)

    def on_predict_start(self) -> None:
        """Makes the engines of the first pass."""
        self._begin()

    def on_predict_batch_start(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Exchanges the models where the next pass begins."""
        if dataloader_idx == self.dataloader_idx:
            return
        self._release()
        self._load(dataloader_idx)
        if not sharding.is_split(self.trainer.strategy):
            self.to(self.trainer.strategy.root_device)
        self._begin()

    def predict_step(
        self, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> list[ModelReading]:
        """Reads one batch, see `PassSession.read`."""
        assert self._session is not None
        return self._session.read(batch, data_module_of(self.trainer).following(batch))

    def on_predict_epoch_end(self) -> None:
        """Lets go of the models, before any process waits in `on_predict_end` of a callback: of
        split ones, others may still need this one's part."""
        self._release()

    def _load(self, dataloader_idx: int) -> None:
        self.dataloader_idx = dataloader_idx
        todo = data_module_of(self.trainer).todo[dataloader_idx:]
        pass_ = todo[0][0]
        self._models.make_room({source for later, _ in todo for source in later.sources})
        load = turns = None
        mesh = self.device_mesh
        if mesh is not None:  # which strategies have that split models
            for source in pass_.sources:
                process_group().agree(partial(sharding.check_split, source, self.trainer))
            load = partial(sharding.load_split, strategy=self.trainer.strategy, mesh=mesh)
            turns = sharding.Turns
        self._session = PassSession(pass_, self._models, load, turns)
        self.language_models = torch.nn.ModuleList(self._session.models)
        self._ddp_params_and_buffers_to_ignore = [
            *self.state_dict(),
            *(name for name, _ in self.named_buffers()),
        ]

    def _begin(self) -> None:
        assert self._session is not None
        self._session.begin(data_module_of(self.trainer).store)

    def _release(self) -> None:
        if self._session is not None:
            self._session.end()
        # Lightning's teardown would move them to the CPU
        self._session = self.language_models = None


def compute(runner: PassRunner, todo: Todo, doing: str) -> L.Trainer:
    """Computes and stores batches, by Lightning's predict loop; gives the trainer. `UserError`
    where a prompt does not fit into memory, another process has ended, or one would read something
    else.

    Args:
        todo: passes and their batches, at least one of each.
        doing: a verb for the progress bar.
    """
    process_group().join()  # only now, for what is stored needs no second process
    trainer: L.Trainer = runner.trainer
    judge = JudgeModule(runner.models)
    prompts = PassDataModule(todo, runner.store, doing)
    with warnings.catch_warnings():
        # Lightning's own, about torch and about its recommended number of workers
        warnings.filterwarnings("ignore", message=".*LeafSpec|.*does not have many workers")
        try:
            trainer.predict(judge, datamodule=prompts, return_predictions=False)
        except MisconfigurationException as error:  # of a callback, which sees the trainer now
            raise not_taken(error) from error
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            title = todo[judge.dataloader_idx][0].title
            raise UserError(
                f"trainer: {title} does not fit into the memory of "
                f"{trainer.strategy.root_device}; take a smaller model, a dtype of half the size "
                "(judge.dtype=bfloat16), or several GPUs with trainer=fsdp."
            ) from error
        # what Lightning makes of Ctrl-C; a sweep would take it for a failed job
        except SystemExit as end:
            if isinstance(end.__context__, KeyboardInterrupt):
                # Lightning has killed the processes that it started, and who watches over them
                # would kill this one too, before it has said so
                getattr(trainer.strategy.launcher, "procs", []).clear()
                raise end.__context__ from None
            raise
    return trainer
