"""The prompts that a judge is asked, as a LightningDataModule: one dataloader a pass, one planned
batch a step, and of it only what the store lacks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import lightning as L
from torch.utils.data import DataLoader, DistributedSampler

from judgebench.judges.engine.hardware import hardware
from judgebench.judges.judge import ReadingJudge
from judgebench.judges.local.batches import Batch, assign, batch_costs, pending
from judgebench.judges.local.passes import LocalPass
from judgebench.readings.store import ReadingStore
from judgebench.runtime.distributed import joined
from judgebench.types import Condition, Reading

Todo = Sequence[tuple[LocalPass, Sequence[Batch]]]

_EMPTY = Batch(())
"""Stands in where a rank has fewer batches than others: all have as many steps."""


class AssignedSampler(DistributedSampler):
    """Whole batches to processes, as `assign` says. Lightning leaves a distributed sampler of one's
    own where it is, whatever `use_distributed_sampler` says."""

    def __init__(self, costs: Sequence[int], rank: int, world_size: int) -> None:
        shares = assign(costs, world_size)
        steps = max(map(len, shares))
        share = shares[rank]
        self._share = [*share, *[len(costs)] * (steps - len(share))]

    def __iter__(self) -> Iterator[int]:
        return iter(self._share)

    def __len__(self) -> int:
        return len(self._share)

    def set_epoch(self, epoch: int) -> None:
        """Lightning's; there is one."""


class PromptDataModule(L.LightningDataModule):
    """What a judge is asked about data under conditions.

    Args:
        data, judge, conditions: what the prompts are made of; `judge.store` says what is missing.
        todo: passes and their missing batches, where they are planned already.
        doing: a verb for the progress bar.
    """

    def __init__(
        self,
        data: Any = None,
        judge: ReadingJudge | None = None,
        conditions: Sequence[Condition] = (),
        *,
        todo: Todo | None = None,
        store: ReadingStore | None = None,
        doing: str = "Reading",
    ) -> None:
        super().__init__()
        self.data = data
        self.judge = judge
        self.conditions = conditions
        self.doing = doing
        self.todo = todo
        self.store = store
        self._following: dict[int, Batch] = {}

    def setup(self, stage: str | None = None) -> None:
        """The passes and their missing batches, the same in all processes."""
        processes = joined(self.trainer) if self.trainer is not None else None
        if self.todo is None:
            assert self.judge is not None
            self.data.setup()
            questions = self.judge.questions(
                self.data.examples, self.conditions, self.data.split, self.data.name
            )
            self.reader: Any = self.judge.reader(questions)
            self.store = self.reader.store
            budget = self.judge.settings.max_batch_tokens
            listed = [(pass_, pending(pass_, budget, self.store)) for pass_ in self.reader.passes]
            self.todo = [(pass_, batches) for pass_, batches in listed if batches]
        if processes is not None and processes.joined and self.todo:
            processes.check_same(
                hardware().arithmetic(), "arithmetic (its processor, GPU or PyTorch)"
            )
            digest = hashlib.sha256()
            for pass_, batches in self.todo:
                for batch in batches:
                    keys = "".join(key for p in batch.prompts for key in pass_.keys(p))
                    digest.update(b"batch" + keys.encode())
            processes.check_same(digest.hexdigest(), "prompts")

    def predict_dataloader(self) -> list[DataLoader]:
        assert self.todo is not None
        trainer = self.trainer
        rank, world = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        loaders = []
        for pass_, batches in self.todo:
            sampler = AssignedSampler(batch_costs(pass_.prompts, batches), rank, world)
            items = [*batches, _EMPTY]
            mine = [items[i] for i in sampler]
            for batch, after in pairwise(mine):
                if after.groups:
                    self._following[id(batch)] = after
            # one planned batch a step: what the sampler names is the batch, as Lightning's writers
            # are told
            loaders.append(
                DataLoader(items, batch_size=1, sampler=sampler, collate_fn=lambda batch: batch[0])  # type: ignore[arg-type]
            )
        return loaders

    def following(self, batch: Batch) -> Batch | None:
        """The batch that this process reads next."""
        return self._following.get(id(batch))

    def readings(self) -> list[Reading]:
        """The readings of all prompts, once they are read."""
        readings: list[Reading] = self.reader.readings(self.data.split)
        return readings
