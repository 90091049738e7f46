"""Passes beside those of the judge. What computes them is imported when they run, for it takes seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judgebench.judges.loading import ModelSource
from judgebench.readings.store import ReadingStore

if TYPE_CHECKING:
    import torch

    from judgebench.judges.loop import Models, Trainers
    from judgebench.judges.passes import ModelView, Pass


def _no_models() -> Models:
    from judgebench.judges.loop import Models

    return Models()


@dataclass(frozen=True, kw_only=True)
class PassRunner:
    """Computes passes beside those of the judge, and keeps what they give.

    Attributes:
        trainer: makes a Trainer with the given callbacks.
        models: the models in memory; the judge's, so that one model serves all.
    """

    store: ReadingStore
    trainer: Trainers
    models: Models = field(default_factory=_no_models)

    def run(self, pass_: Pass, token_budget: int, doing: str) -> None:
        """Computes what the store lacks of a pass; see `judges.loop.compute`."""
        from judgebench.judges.loop import compute

        compute([pass_], token_budget, self.store, self.models, self.trainer, doing)

    def view(self, source: ModelSource, engine: str) -> ModelView:
        """A model by its content, as the store's keys name it."""
        from judgebench.judges.passes import ModelView

        return ModelView(source, source.fingerprint(self.store.file_digest), engine)

    @property
    def device(self) -> torch.device:
        """The device that the configured trainer computes on."""
        device: torch.device = self.trainer([]).strategy.root_device
        return device
