"""The judge as a LightningModule: `Trainer.predict` over planned batches, each stored the moment it is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from transformers import PreTrainedModel

from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import Pass
from judgebench.judges.planning import Batch
from judgebench.readings.store import ModelReading, ReadingStore


class Models:
    """The models in memory: each is loaded once and leaves when no later pass needs it."""

    def __init__(self) -> None:
        self._held: dict[ModelSource, PreTrainedModel] = {}

    def get(self, source: ModelSource) -> PreTrainedModel:
        """The model of a source, loaded if it is not held."""
        if source not in self._held:
            self._held[source] = source.model()
        return self._held[source]

    def keep_only(self, sources: Collection[ModelSource]) -> None:
        """Lets go of all others."""
        self._held = {source: model for source, model in self._held.items() if source in sources}


class Judge(L.LightningModule):
    """Runs one pass; `predict` takes `Batch`es and gives the `ModelReading`s of their prompts.

    Args:
        pass_: what is read, and with which models.
        models: where the models come from.
    """

    def __init__(self, pass_: Pass, models: Models):
        super().__init__()
        self._pass = pass_
        self._models = models
        self.language_models: torch.nn.ModuleList | None = None

    def configure_model(self) -> None:
        """Loads the models; Lightning then moves them to this process's device."""
        if self.language_models is None:
            self.language_models = torch.nn.ModuleList(self._models.get(source) for source in self._pass.sources)

    def on_predict_start(self) -> None:
        """Hands the models, now on their device, to the pass."""
        assert self.language_models is not None
        models: Any = dict(zip(self._pass.sources, self.language_models, strict=True))
        with torch.inference_mode():
            self._pass.prepare(models)

    def predict_step(self, batch: Batch, batch_idx: int) -> list[ModelReading]:
        """Reads one batch; an empty one stands in where a rank would have none."""
        return self._pass.read(batch) if batch.groups else []


class StoreWriter(BasePredictionWriter):
    """Stores every batch as soon as it is read, whole or not at all."""

    def __init__(self, store: ReadingStore):
        super().__init__(write_interval="batch")
        self._store = store

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
        """Called by Lightning after each batch, on the rank that read it."""
        self._store.put(prediction)
