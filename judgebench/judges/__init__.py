"""Judges: models here, models behind a URL, and answers or readings of an earlier time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from judgebench.judges.local.models import Models, Trainers
from judgebench.runtime.errors import UserError

if TYPE_CHECKING:
    import lightning as L
    import torch

    from judgebench.judges.local.loading import ModelSource
    from judgebench.judges.local.passes import LocalPass, ModelView
    from judgebench.judges.reader import BaseReader, ReadingTask
    from judgebench.judges.spec import JudgeSettings
    from judgebench.readings.store import ReadingStore

# torch is imported where something is read: settings and defenses are made without


def reader_for(judge: JudgeSettings, task: ReadingTask) -> BaseReader:
    """The reader of a task by a judge's settings, which hold none: they are checked before torch is
    imported."""
    from judgebench.judges import reader, spec

    readers: dict[str, Callable[[Any, ReadingTask], BaseReader]] = {
        spec.REPLAYED: reader.Replayer,
        spec.RECORDED: reader.RecordedReader,
    }
    # these import what asks servers, or torch
    if spec.SERVED in judge.capabilities:
        from judgebench.judges.served.reader import ApiReader

        readers[spec.SERVED] = ApiReader
    if spec.LOCAL in judge.capabilities:
        from judgebench.judges.local.reader import Reader

        readers[spec.LOCAL] = Reader
    (kind,) = (kind for place, kind in readers.items() if place in judge.capabilities)
    return kind(judge, task)


@dataclass(frozen=True, kw_only=True)
class PassRunner:
    """Means to compute passes and to keep what they give: the store, the trainers (`trainer` makes
    one with the given callbacks) and the models in memory."""

    store: ReadingStore
    trainer: Trainers
    models: Models = field(default_factory=Models)

    def run(
        self, passes: Sequence[LocalPass], token_budget: int, doing: str = "Reading"
    ) -> L.Trainer | None:
        """Computes and stores what is missing of each pass, in batches of `token_budget`: here (see
        `loop.compute`), or where the trainers have it computed (`ray_runner.RayTrainers`)."""
        from judgebench.judges.local.batches import pending
        from judgebench.judges.local.loop import compute

        compute = getattr(self.trainer, "compute", compute)
        return compute(
            self, [(pass_, pending(pass_, token_budget, self.store)) for pass_ in passes], doing
        )

    def view(self, source: ModelSource, engine: str) -> ModelView:
        """A model by its content, as the store's keys name it."""
        from judgebench.judges.local.passes import ModelView

        return ModelView(source, source.fingerprint(self.store.file_digest), engine)

    @property
    def device(self) -> torch.device:
        """The device on which this process computes; `UserError` where others read models, by
        another arithmetic."""
        from judgebench.judges.engine.kernels import Hardware, hardware

        device: torch.device = self.trainer([]).strategy.root_device
        if Hardware(device, hardware().compiled).arithmetic() != hardware().arithmetic():
            raise UserError(
                "runner: a tutor is steered by its states, which this process computes, and its "
                "arithmetic is not that of the actors; prepare the defense with runner=lightning "
                "on one of their machines, with the same store, or take tutor settings without "
                "steering."
            )
        return device
