"""Prompts of a judge about data, as a LightningDataModule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from judgebench.judges.judge import ReadingJudge
from judgebench.judges.local.batches import unread_batches
from judgebench.judges.local.datamodule import PassDataModule
from judgebench.judges.local.devices import compute_with
from judgebench.judges.local.reader import Reader
from judgebench.runtime.distributed import join_group
from judgebench.types import Condition, Reading
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.data.dataset import RatingDataset
    from judgebench.prompts.builder import Judged


class PromptDataModule(PassDataModule):
    """Prompts for a judge of models here about data under conditions, less what its store holds.

    Args:
        data: what is judged; `setup` loads it.
        judge: how prompts are built, which models read them, and where readings are kept.
        conditions: under which each example is judged.
        judged: gives the judged text of each prompt, as under attacks; None takes the example's.

    Raises:
        UserError: from `setup`, where the data or a prompt cannot be, or no model here is to read.

    Example:
        prompts = PromptDataModule(data, judge, [Condition("coherence", ScoreRange(1, 5))])
        trainer.predict(JudgeModule(), datamodule=prompts)
        judge.scores(prompts.readings())
    """

    def __init__(
        self,
        data: RatingDataset,
        judge: ReadingJudge,
        conditions: Sequence[Condition],
        judged: Judged | None = None,
    ) -> None:
        super().__init__()
        self.data = data
        self.judge = judge
        self.conditions = conditions
        self.judged = judged
        self._reader: Reader | None = None

    def setup(self, stage: str | None = None) -> None:
        """Builds the prompts, and plans what of them is to be read; the same in all processes."""
        # 1. the device, on which the store's keys depend, and the processes, which share the store
        if self.trainer is not None:
            compute_with(self.trainer)
            join_group(self.trainer)
        # 2. the prompts
        self.data.setup()
        questions = self.judge.questions(
            self.data.examples, self.conditions, self.data.split, self.data.name, self.judged
        )
        # 3. their passes, and what the store lacks
        reader = self.judge.reader(questions)
        if not isinstance(reader, Reader) or self.judge.thinking:
            raise UserError(
                f"PromptDataModule: {self.judge.settings.source.title} reads no prompts that are "
                "all known beforehand by models here: its answers are recorded or served, or it "
                "thinks first. judgebench.run does that."
            )
        self.todo = unread_batches(reader.passes, reader.judge.max_batch_tokens, reader.store)
        self.store = reader.store
        self._reader = reader
        super().setup(stage)

    def readings(self) -> list[Reading]:
        """The readings of all prompts, in their order, in every process; `UserError` where one is
        not in the store, as before `Trainer.predict`."""
        if self._reader is None:
            self.setup()
        assert self._reader is not None
        return self._reader.readings(self.data.split)
