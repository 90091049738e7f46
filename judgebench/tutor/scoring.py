"""The judge scores candidates, by the machinery that reads everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import lightning as L
import numpy as np

from judgebench.decoding.rules import Decoding, Expectation, Greedy
from judgebench.decoding.scores import decode
from judgebench.judges.assistants import Assistant
from judgebench.judges.loop import Models, Trainers
from judgebench.judges.reader import Reader
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.readings.store import ReadingStore
from judgebench.tutor.candidates import Candidate
from judgebench.types import FAILED, Condition, Example, Reading


@dataclass
class JudgeScorer:
    """Scores texts as the judge scores any other under one condition, clean and undefended.

    Args:
        judge: as configured; in `score_tokens` mode its expected score counts (as the paper scores), in `generate` mode
            the score that it writes.
        builder: builds the judge's prompts; knows the condition's rubric.
        condition: dimension and range.
        store: where readings are kept.
        data, trainer: for the predict loop.
        models: the models in memory; the tutor's, so that one model serves both.
    """

    judge: JudgeSpec
    builder: PromptBuilder
    condition: Condition
    store: ReadingStore
    data: L.LightningDataModule
    trainer: Trainers
    models: Models = field(default_factory=Models)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """[candidates] float64; NaN where the judge's answer holds no score."""
        return self.examples([each.as_example(self.condition.dimension) for each in candidates])

    def examples(self, examples: Sequence[Example]) -> np.ndarray:
        """[examples] float64, in order; see `__call__`.

        Args:
            examples: with an example_id each of its own.
        """
        columns = decode(self.readings(examples), {"score": self._decoding})
        scores = np.where(columns["status"] == FAILED, np.nan, columns["score"].astype(np.float64))
        found = dict(zip(columns["example_id"], scores, strict=True))
        return np.array([found[example.example_id] for example in examples])

    def readings(self, examples: Sequence[Example]) -> list[Reading]:
        """What the judge says to each, group by group.

        Args:
            examples: with an example_id each of its own.
        """
        reader = Reader(
            judge=self.judge,
            assistant=Assistant(),
            decodings={"score": self._decoding},
            tokenizer=self.builder.tokenizer,
            prompts=self.builder.build(examples, [self.condition]),
            null=self.builder.null,
            store=self.store,
        )
        reader.models = self.models
        reader.read(self.data, self.trainer)
        return reader.readings({example.group_id: "" for example in examples})

    @property
    def _decoding(self) -> Decoding:
        return Greedy() if self.judge.mode == "generate" else Expectation()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the judge's content."""
        return self.judge.source.fingerprint(self.store.file_digest)
