"""A judge without a model: it repeats what some judge answered earlier, so that it is measured like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import lightning as L

from judgebench.judges.answers import Answers
from judgebench.judges.loop import Models, Trainers
from judgebench.judges.spec import AnswerFile, ReplaySpec
from judgebench.types import Generation, Prompt, Reading

__all__ = ["ReplaySpec", "Replayer"]  # configurations and cards find it here


@dataclass
class Replayer:
    """Gives the readings of prompts that were answered earlier, as a `Reader` gives those that it computes.

    Args:
        source: the file.
        answers: what it says.
        prompts: those that have an answer.
        decoding: what tables call the way in which the answers came about.
        worded: defenses under which the judge was to reason first, see `Reader`.

    Attributes:
        models: none.
    """

    source: AnswerFile
    answers: Answers
    prompts: Sequence[Prompt]
    decoding: str = "greedy"
    worded: Mapping[str, int] = field(default_factory=dict)
    models: Models = field(default_factory=Models)
    served: ClassVar[None] = None
    evidence: ClassVar[None] = None

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Role -> title and SHA-256 of the file."""
        return {"main": {"title": self.source.title, "sha256": self.source.sha256()}}

    def read(self, data: L.LightningDataModule, trainer: Trainers) -> None:
        """Nothing is to be computed."""

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """One a prompt.

        Args:
            split: group_id -> dev or test.
        """
        return [
            Reading(
                prompt,
                split[prompt.example.group_id],
                text=self.answers.text(prompt),
                generation=Generation("main", self.decoding, reasoned=prompt.condition.defense in self.worded),
            )
            for prompt in self.prompts
        ]

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        """The name of what computed."""
        return "none: the answers were given earlier"
