"""Callbacks of a trainer that reads: readings go to the store, their number to the terminal, and
SIGTERM ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import BasePredictionWriter, Callback, ProgressBar

from judgebench.judges.local import sharding
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore, shared
from judgebench.runtime.distributed import joined
from judgebench.runtime.progress import Progressing


class ReadingWriter(BasePredictionWriter):
    """Stores each batch as soon as it is read, whole or not at all; at the end of `predict` all
    processes' readings are there. `store`: None is the one that the data ask what is missing."""

    def __init__(self, store: ReadingStore | None = None) -> None:
        super().__init__(write_interval="batch")
        self.store = store
        self._watch = ExitStack()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        processes = joined(trainer)
        store = self.store or trainer.datamodule.store
        self._open: ReadingStore = shared(store, processes)
        if sharding.is_split(trainer.strategy):
            self._watch.enter_context(processes.watched())

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Sequence[ModelReading],
        batch_indices: Sequence[int] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        self._open.put(prediction)

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # the module has let go of its models in on_predict_epoch_end: who still reads needs no other
        self._open.settle()
        trainer.strategy.barrier()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._watch.close()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self._watch.__exit__(type(exception), exception, exception.__traceback__)


class EndAtSigterm(Callback):
    """Lightning only notes SIGTERM, and predicting would go on to its end; the handler from before
    ends the process."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._before = signal.getsignal(signal.SIGTERM)

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
            if trainer.received_sigterm:
                signal.raise_signal(signal.SIGTERM)


class ReadingBar(ProgressBar):
    """The readings that all processes have done of a pass, as the first one counts them."""

    def __init__(self) -> None:
        super().__init__()
        self._progress: Progressing | None = None
        self._at: int | None = None
        self._shown = True

    def disable(self) -> None:
        """Lightning's, in all processes but the first."""
        self._shown = False

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._at = None

    def on_predict_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        prompts = trainer.datamodule
        if not self._shown or self._at == dataloader_idx or not hasattr(prompts, "todo"):
            return
        self._close()
        self._at = dataloader_idx
        pass_, batches = prompts.todo[dataloader_idx]
        count = sum(len(batch.prompts) for batch in batches)
        self._progress = Progressing(f"{prompts.doing} with {pass_.title}", count)
        self._progress.__enter__()

    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
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

    def _close(self) -> None:
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = None
