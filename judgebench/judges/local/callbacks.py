"""Callbacks of a trainer that reads: readings go to the store, their number and speed to the
terminal, and SIGTERM ends the process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import BasePredictionWriter, Callback, ProgressBar

from judgebench.judges.local import sharding
from judgebench.judges.local.batches import Batch
from judgebench.judges.local.datamodule import data_module_of
from judgebench.readings.reading import ModelReading
from judgebench.runtime.distributed import process_group
from judgebench.runtime.progress import Progressing
from judgebench.words.terminal import print_safely


class ReadingWriter(BasePredictionWriter):
    """Puts each batch into the store of the data module as soon as it is read, whole or not at all.
    Once `predict` ends, the readings of all processes are there."""

    def __init__(self) -> None:
        super().__init__(write_interval="batch")
        self._watch = ExitStack()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._store = data_module_of(trainer).store
        # collectives of split models would wait for a process that has ended
        if sharding.is_split(trainer.strategy):
            self._watch.enter_context(process_group().watched())

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Sequence[ModelReading],
        batch_indices: Sequence[int] | None,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        if self._store is not None:
            self._store.put(prediction)

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # the module has let go of split models by now (`on_predict_epoch_end`): whoever still reads
        # needs nothing of a process that waits here
        if self._store is not None:
            self._store.settle()
        # another process may still be reading what this one is about to look up
        trainer.strategy.barrier()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._watch.close()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        # the others learn that this process has ended
        self._watch.__exit__(type(exception), exception, exception.__traceback__)


class EndAtSigterm(Callback):
    """Has SIGTERM end the process, as it did before: Lightning's handler only notes the signal, and
    predicting would go on to its end."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._before = signal.getsignal(signal.SIGTERM)

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        signal.signal(signal.SIGTERM, self._before)
        if trainer.received_sigterm:  # it came while models were loaded
            signal.raise_signal(signal.SIGTERM)


class ReadingBar(ProgressBar):
    """The readings that all processes have done of a pass, as the first one counts them."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled = True
        self._dataloader: int | None = None
        self._progress: Progressing | None = None
        self._shown = ExitStack()

    def disable(self) -> None:
        """Lightning's, in all processes but the first."""
        self._enabled = False

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._open(trainer, 0)

    def on_predict_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx != self._dataloader:
            self._open(trainer, dataloader_idx)

    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self._progress is not None:
            self._progress.advance(len(batch.prompts) * trainer.world_size)

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._close()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _open(self, trainer: L.Trainer, dataloader_idx: int) -> None:
        self._close()
        self._dataloader = dataloader_idx
        if self._enabled:
            prompts = data_module_of(trainer)
            pass_, batches = prompts.todo[dataloader_idx]
            readings = sum(len(batch.prompts) for batch in batches)
            progress = Progressing(f"{prompts.doing} with {pass_.title}", readings)
            self._progress = self._shown.enter_context(progress)

    def _close(self) -> None:
        self._shown.close()
        self._dataloader = self._progress = None


class ReadingSpeed(Callback):
    """Says at the end of each `predict` how many prompts and tokens a second each process has read,
    and how much memory of a GPU that took: what `judge.max_batch_tokens` is chosen by."""

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._prompts = self._tokens = 0
        self._device = trainer.strategy.root_device
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def on_predict_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if not self._prompts:  # the first model's loading and its proof do not count
            self._began = time.monotonic()

    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._prompts += len(batch.prompts)
        self._tokens += batch.tokens()

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        seconds = time.monotonic() - self._began
        line = (
            f"Process {trainer.global_rank} read {self._prompts:,} prompts in {seconds:,.1f} s: "
            f"{self._tokens / seconds:,.0f} tokens a second"
        )
        if self._device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self._device)
            line += f", at most {peak / 2**30:.1f} GiB"
        print_safely(f"{line}.", error=True)
