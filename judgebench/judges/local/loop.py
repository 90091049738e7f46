"""The judge as a LightningModule: `Trainer.predict` over planned batches, each stored the moment it
is read."""

from __future__ import annotations

import hashlib
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback, ProgressBar
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig
from torch.utils.data import DataLoader

from judgebench.judges.engine.kernels import compute_on, hardware, out_of_memory
from judgebench.judges.local import sharding
from judgebench.judges.local.batches import Batch, assigned, batch_costs
from judgebench.judges.local.models import Models
from judgebench.judges.local.passes import LocalPass
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.distributed import here
from judgebench.runtime.errors import UserError
from judgebench.runtime.progress import Progressing

if TYPE_CHECKING:
    from judgebench.judges import PassRunner


def trainer_of(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    """The configured trainer, on whose device models run from now on, tried before anything is
    read."""
    # which device computes stands in environment.json; the rest is advice on training
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    try:
        trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks)
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
    """Runs one pass over planned batches, and stores each as soon as it is read, whole or not at
    all."""

    def __init__(
        self,
        pass_: LocalPass,
        models: Models,
        store: ReadingStore | None = None,
        batches: Sequence[Batch] = (),
    ) -> None:
        super().__init__()
        self.batches = batches
        self._pass = pass_
        self._models = models
        self._store = store
        self._following: dict[int, Batch] = {}
        self._too_many = sys.maxsize
        self._split = False
        self._turns: sharding.Turns | None = None
        self._ddp_params_and_buffers_to_ignore: list[str] = []
        self._at_sigterm = signal.getsignal(signal.SIGTERM)
        self.language_models: torch.nn.ModuleList | None = None

    def predict_dataloader(self) -> DataLoader:
        # Under DDP, Lightning deals out the indices into `batches` itself: rank r of R reads r, r +
        # R, r + 2R, ...
        following = self.batches[self.trainer.world_size :]
        for batch, after in zip(self.batches, following, strict=False):
            if after.groups:
                self._following[id(batch)] = after
        # torch's default collate_fn would copy lists and turn arrays into tensors.
        return DataLoader(self.batches, batch_size=None, collate_fn=lambda batch: batch)  # type: ignore[arg-type]

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        # Lightning's own transfer would take prompts apart, and refuses frozen dataclasses
        return batch

    def configure_model(self) -> None:
        """Loads the models, or this process's part of them; Lightning then moves them to its
        device."""
        if self.language_models is not None:
            return
        load = None
        mesh = self.device_mesh
        if mesh is not None:  # which strategies have that split models
            self._split = True
            for source in self._pass.sources:
                here().agree(partial(sharding.check_split, source, self.trainer))
            load = partial(sharding.load_split, strategy=self.trainer.strategy, mesh=mesh)
        self.language_models = torch.nn.ModuleList(
            self._models.get(source, load) for source in self._pass.sources
        )
        # each process has loaded the same weights; Lightning's DDP would send all of them to all
        # before each pass
        self._ddp_params_and_buffers_to_ignore = list(self.state_dict()) + [
            name for name, _ in self.named_buffers()
        ]

    def on_predict_start(self) -> None:
        # 1. Lightning's handler only notes SIGTERM, and reading would go on: the one from before
        # ends the process
        if self._trainer is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._at_sigterm)
            if self.trainer.received_sigterm:
                signal.raise_signal(signal.SIGTERM)
        # 2. the models of the pass
        assert self.language_models is not None
        models: Any = dict(zip(self._pass.sources, self.language_models, strict=True))
        if self._split:
            self._turns = sharding.Turns(list(models.values()))
        # inference mode refuses that parts of a split model are gathered into one place repeatedly
        mode = torch.no_grad() if self._split else torch.inference_mode()
        with mode:
            self._pass.prepare(models, self._store)

    def on_predict_end(self) -> None:
        """Lets go of the models, once no other process needs this one's part: the next pass may
        need their room."""
        if self._turns is not None:
            self._turns.finish()
        self._pass.release()
        self.language_models = None

    def on_predict_batch_end(
        self, outputs: Any, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if self._store is not None:
            self._store.put(outputs)

    def predict_step(self, batch: Batch, batch_idx: int) -> list[ModelReading]:
        """Reads one batch; an empty one stands in where a rank would have none. `UserError` where a
        single prompt does not fit into memory."""
        if not batch.groups:
            return []
        following = self._following.get(id(batch))
        if following is not None and following.tokens() < self._too_many:
            self._pass.following = following
        return self._within_memory(batch)

    def _within_memory(self, batch: Batch) -> list[ModelReading]:
        """Reads a batch, in halves where the whole has no room; what has had none once is not tried
        again."""
        tokens = batch.tokens()
        if tokens < self._too_many or len(batch.prompts) == 1:
            try:
                return self._pass.read(batch)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                if self._split:  # the others are in the midst of the same pass
                    raise UserError(
                        f"trainer: {tokens} tokens at once do not fit into this process's memory; "
                        "take more processes, or a smaller judge.token_budget."
                    ) from error
                if len(batch.prompts) == 1:
                    raise UserError(
                        f"The prompt of example {batch.prompts[0].example.example_id} with its "
                        f"{tokens} tokens does not fit into memory; take a smaller model or dtype, "
                        "or set prompt.max_tokens and prompt.truncate=source."
                    ) from error
                self._too_many = min(self._too_many, tokens)
            finally:
                self._pass.following = None
            # outside of the handler, which would keep the failed pass's tensors alive
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return [reading for half in batch.halves() for reading in self._within_memory(half)]


class ReadingBar(ProgressBar):
    """The readings that all processes have done of a pass, as the first one counts them."""

    def __init__(self, what: str, readings: int):
        super().__init__()
        self._progress = Progressing(what, readings)
        self._shown = True

    def disable(self) -> None:
        """Lightning's, in all processes but the first."""
        self._shown = False

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._shown:
            self._progress.__enter__()

    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        *numbers: int,
    ) -> None:
        if self._shown:
            self._progress.advance(len(batch.prompts) * trainer.world_size)

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._shown:
            self._progress.__exit__(None, None, None)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.on_predict_end(trainer, pl_module)


def compute(
    runner: PassRunner, todo: Sequence[tuple[LocalPass, Sequence[Batch]]], doing: str
) -> L.Trainer | None:
    """Computes and stores batches; gives the last trainer that ran, None if nothing was missing.
    `UserError` where a prompt does not fit into memory, another process has ended, or one would
    read something else.

    Args:
        todo: passes and their batches; a pass without batches takes no part.
        doing: a verb for the progress bar.
    """
    trainer = None
    processes = here()
    store = runner.store
    todo = [(pass_, batches) for pass_, batches in todo if batches]
    for i, (pass_, batches) in enumerate(todo):
        processes.join()  # only now, for what is stored needs no second process
        if processes.joined:
            processes.check_same(
                hardware().arithmetic(), "arithmetic (its processor, GPU or PyTorch)"
            )
            digest = hashlib.sha256()
            for batch in batches:
                digest.update(
                    b"batch" + "".join(key for p in batch.prompts for key in pass_.keys(p)).encode()
                )
            processes.check_same(digest.hexdigest(), "prompts")
        runner.models.make_room({source for later, _ in todo[i:] for source in later.sources})
        readings = sum(len(batch.prompts) for batch in batches)
        trainer = runner.trainer([ReadingBar(f"{doing} with {pass_.title}", readings)])
        dealt = assigned(batches, batch_costs(pass_.prompts, batches), trainer.world_size)
        with processes.watched() if sharding.is_split(trainer.strategy) else nullcontext():
            _predict(trainer, JudgeModule(pass_, runner.models, store, dealt), pass_.title)
            # another process may still be reading what this one is about to look up
            store.settle()
            trainer.strategy.barrier()
    return trainer


def _predict(trainer: L.Trainer, judge: JudgeModule, title: str) -> None:
    """Lightning's predict loop, without its warnings about training."""
    with warnings.catch_warnings():
        # Lightning's own, about torch and about its recommended number of workers
        warnings.filterwarnings("ignore", message=".*LeafSpec|.*does not have many workers")
        try:
            trainer.predict(judge, return_predictions=False)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
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
