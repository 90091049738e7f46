"""Judges: models here, models behind a URL, and answers or readings of an earlier time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judgebench.judges.local.models import Models, Trainers
from judgebench.judges.local.ray_runner import RayTrainer
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    import lightning as L
    import torch

    from judgebench.judges.local.loading import ModelSource
    from judgebench.judges.local.passes import LocalPass, ModelView
    from judgebench.readings.store import ReadingStore
    from judgebench.runtime.distributed import NullTrainer

# torch is imported where something is read: settings and defenses are made without


@dataclass(frozen=True, kw_only=True)
class PassRunner:
    """Means to compute passes and to keep what they give: the store, the trainer and the models in
    memory."""

    store: ReadingStore
    trainer: Trainers
    models: Models = field(default_factory=Models)

    def run(
        self, passes: Sequence[LocalPass], max_batch_tokens: int, doing: str = "Reading"
    ) -> L.Trainer | NullTrainer | None:
        """Computes and stores what is missing of each pass, in batches of `max_batch_tokens`: here (see
        `loop.compute`), or by actors (`RayTrainer.compute`). Gives what has computed, None if
        nothing was missing."""
        from judgebench.judges.local.batches import unread_batches
        from judgebench.judges.local.loop import compute

        todo = unread_batches(passes, max_batch_tokens, self.store)
        if not todo:
            return None
        if isinstance(self.trainer, RayTrainer):
            return self.trainer.compute(self, todo, doing)
        return compute(self, todo, doing)

    def view(self, source: ModelSource, engine: str) -> ModelView:
        """A model by its content, as the store's keys name it."""
        from judgebench.judges.local.passes import ModelView

        return ModelView(source, source.fingerprint(self.store.file_digest), engine)

    @property
    def device(self) -> torch.device:
        """The device on which this process computes; `UserError` where others read models, by
        another arithmetic."""
        from judgebench.judges.engine.hardware import Hardware, hardware

        device: torch.device = self.trainer.strategy.root_device
        if Hardware(device, hardware().compiled).arithmetic() != hardware().arithmetic():
            raise UserError(
                "runner: a tutor is steered by its states, which this process computes, and its "
                "arithmetic is not that of the actors; prepare the defense with runner=lightning "
                "on one of their machines, with the same store, or take tutor settings without "
                "steering."
            )
        return device
