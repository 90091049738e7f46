"""The tutor at work: it is asked, writes, and what it wrote is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from judgebench.judges.judge import Models
from judgebench.judges.passes import Voice
from judgebench.judges.running import compute
from judgebench.readings.store import ReadingStore
from judgebench.tutor.asking import Asking
from judgebench.tutor.sampling import Sampling
from judgebench.tutor.spec import TutorSpec
from judgebench.tutor.steering import Standard
from judgebench.tutor.writing import Text, WritePass, Written, written


@dataclass
class Tutor:
    """Writes texts in batches; each is stored the moment its batch is done, and never written twice.

    Args:
        spec: as configured.
        asking: builds its prompts.
        store: where texts are kept, the judge's own readings beside them.
        data: lends its loader to the predict loop; its `batches` are set.
        trainer: makes a Trainer with the given callbacks.
        models: the models in memory; the judge's, so that one model serves both.
    """

    spec: TutorSpec
    asking: Asking
    store: ReadingStore
    data: L.LightningDataModule
    trainer: Callable[[list[Callback]], L.Trainer]
    models: Models = field(default_factory=Models)

    @cached_property
    def voice(self) -> Voice:
        """The model, by content."""
        source = self.spec.source
        return Voice(source, source.fingerprint(self.store.file_digest), self.spec.engine)

    @cached_property
    def sampling(self) -> Sampling:
        """How candidates are drawn."""
        return Sampling(self.spec.seed, self.spec.temperature, self.spec.top_p)

    def write(
        self, texts: Sequence[Text], sampling: Sampling | None = None, standard: Standard | None = None
    ) -> list[Written]:
        """The texts, in order.

        Args:
            sampling: how tokens are drawn; None takes the likeliest.
            standard: where texts with an alpha are steered to.

        Raises:
            ValueError: a text is to be steered, and there is no standard.
            UserError: the model cannot be read, or what it needs does not fit into memory.
        """
        if standard is None and any(text.alpha for text in texts):
            raise ValueError("texts with an alpha need a standard to be steered to")
        longest = self.spec.most_tokens
        pass_ = WritePass(self.voice, self.spec.source.tokenizer(), texts, longest, sampling, standard)
        compute([pass_], self.spec.token_budget, self.store, self.models, self.data, self.trainer, "Writing")
        keys = [pass_.key(text) for text in texts]
        held = self.store.get(keys)
        return [written(held[key], longest) for key in keys]

    @property
    def device(self) -> torch.device:
        """Where the configured trainer computes."""
        device: torch.device = self.trainer([]).strategy.root_device
        return device
