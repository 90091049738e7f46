"""Prompts for a judge as LightningDataModules: a dataloader a pass, a planned batch a step.

Batches are dealt to processes here and not by Lightning: whole, by their cost, so that a run of
several processes reads what one would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import lightning as L
from torch.utils.data import DataLoader, DistributedSampler

from judgebench.judges.engine.hardware import hardware
from judgebench.judges.local.batches import Batch, assign, batch_costs
from judgebench.judges.local.passes import LocalPass
from judgebench.readings.store import ReadingStore
from judgebench.runtime.distributed import join_group, process_group
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    pass

Todo = Sequence[tuple[LocalPass, Sequence[Batch]]]
"""Passes in the order in which they are read, each with its batches."""

_EMPTY = Batch(())
"""Stands in where a process has fewer batches than others: all take as many steps."""


class AssignedSampler(DistributedSampler[int]):
    """The places of one process's batches among all, as `assign` deals them, then the place behind
    the last batch as often as others have more.

    Lightning leaves a distributed sampler of one's own where it is, whatever
    `use_distributed_sampler` says.

    Args:
        costs: [batches] tokens to compute of each.
    """

    def __init__(self, costs: Sequence[int], rank: int, count: int) -> None:
        super().__init__(costs, num_replicas=count, rank=rank, shuffle=False)  # type: ignore[arg-type]  # it asks for the length alone
        shares = assign(costs, count)
        steps = max(map(len, shares))
        share = shares[rank]
        self._places = [*share, *[len(costs)] * (steps - len(share))]

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class PassDataModule(L.LightningDataModule):
    """Batches of passes that are planned already.

    Args:
        todo: the passes, each with those of its batches that are to be read.
        store: takes the readings, and holds what is proven of the models; None keeps nothing.
        doing: a verb for the progress bar.
    """

    def __init__(
        self, todo: Todo = (), store: ReadingStore | None = None, doing: str = "Reading"
    ) -> None:
        super().__init__()
        self.todo = todo
        self.store = store
        self.doing = doing
        self._following: dict[int, Batch] = {}

    def setup(self, stage: str | None = None) -> None:
        """Connects the processes of the trainer; `UserError` where one of them would read something
        else than the first."""
        processes = process_group()
        if self.trainer is not None:
            processes = join_group(self.trainer)
        if not processes.joined:
            return
        processes.check_same(hardware().arithmetic(), "arithmetic (its processor, GPU or PyTorch)")
        for pass_, batches in self.todo:
            digest = hashlib.sha256()
            for batch in batches:
                keys = "".join(key for prompt in batch.prompts for key in pass_.keys(prompt))
                digest.update(b"batch" + keys.encode())
            processes.check_same(digest.hexdigest(), "prompts")

    def predict_dataloader(self) -> list[DataLoader[Batch]]:
        """This process's batches, a dataloader a pass: its places are those of the plan, as a
        `BasePredictionWriter` is told them."""
        processes = process_group()
        self._following.clear()
        loaders: list[DataLoader[Batch]] = []
        for pass_, batches in self.todo:
            costs = batch_costs(pass_.prompts, batches)
            sampler = AssignedSampler(costs, processes.rank, processes.count)
            places = [*batches, _EMPTY]
            for place, following in pairwise(sampler):
                if following < len(batches):
                    self._following[id(places[place])] = places[following]
            loaders.append(
                DataLoader(places, batch_size=1, sampler=sampler, collate_fn=_only)  # type: ignore[arg-type]  # a list is a Dataset
            )
        return loaders

    def following(self, batch: Batch) -> Batch | None:
        """The batch of the same pass that this process reads next; None behind the last."""
        return self._following.get(id(batch))


def data_module_of(trainer: L.Trainer) -> PassDataModule:
    """The data module of a trainer that predicts; `UserError` where it is none of these."""
    prompts = getattr(trainer, "datamodule", None)
    if isinstance(prompts, PassDataModule):
        return prompts
    raise UserError(
        "trainer.predict: a JudgeModule reads the prompts of a PromptDataModule; write "
        "trainer.predict(JudgeModule(), datamodule=PromptDataModule(data, judge, conditions))."
    )


def _only(batches: Sequence[Batch]) -> Batch:
    """The batch of a step; a function of the module, so that workers can be told it."""
    return batches[0]
