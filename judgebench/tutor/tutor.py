"""The tutor at work: it is asked, writes, and what it wrote is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lightning as L
import torch

from judgebench.errors import UserError
from judgebench.judges.loop import Models, Trainers
from judgebench.judges.passes import ModelView
from judgebench.readings.store import ReadingStore
from judgebench.tutor.asking import Asking, load_templates
from judgebench.tutor.sampling import Sampling
from judgebench.tutor.spec import TutorSpec
from judgebench.tutor.steering import Standard
from judgebench.tutor.writing import Text, WritePass, Written, write
from judgebench.types import ScoreRange


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
    trainer: Trainers
    models: Models = field(default_factory=Models)

    @classmethod
    def of(
        cls,
        spec: TutorSpec,
        scale: ScoreRange,
        store: ReadingStore,
        data: L.LightningDataModule,
        trainer: Trainers,
        models: Models | None = None,
        truncate: str = "error",
        template_options: Mapping[str, Any] | None = None,
    ) -> Tutor:
        """A tutor with the prompts that its spec names; of the model only tokenizer and configuration are loaded.

        Args:
            scale: the score range in which a text of a given score is asked for.
            models: the judge's.
            truncate, template_options: of conf/prompt: what the judge's prompts do, the tutor's do.

        Raises:
            UserError: the model or the prompts cannot be had, or the model is too short for such texts.
        """
        room = spec.sizes.most - spec.most_tokens
        if room < 1:
            raise UserError(
                f"tutor.max_new_tokens: texts of {spec.most_tokens} tokens leave no room for a prompt in the "
                f"{spec.sizes.most} that {spec.source.title} can read; lower it."
            )
        templates = load_templates(spec.prompts)
        asking = Asking(spec.source.tokenizer(), templates, room, scale, truncate, template_options)
        return cls(spec, asking, store, data, trainer, Models() if models is None else models)

    @cached_property
    def voice(self) -> ModelView:
        """The model, by content."""
        source = self.spec.source
        return ModelView(source, source.fingerprint(self.store.file_digest), self.spec.engine)

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
        tokenizer, longest = self.spec.source.tokenizer(), self.spec.most_tokens
        pass_ = WritePass(self.voice, tokenizer, texts, longest, sampling, standard)
        return write(pass_, self.spec.token_budget, self.store, self.models, self.data, self.trainer)

    @property
    def device(self) -> torch.device:
        """Where the configured trainer computes."""
        device: torch.device = self.trainer([]).strategy.root_device
        return device
