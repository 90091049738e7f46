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

from judgebench.judges.engine.kernels import hardware
from judgebench.judges.judge import ReadingJudge
from judgebench.judges.local.batches import Batch, assign, batch_costs, unread
from judgebench.judges.local.models import compute_with
from judgebench.judges.local.passes import LocalPass
from judgebench.judges.local.reader import Reader
from judgebench.readings.store import ReadingStore
from judgebench.runtime.distributed import join_group, process_group
from judgebench.types import Condition, Reading
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.data.dataset import RatingDataset
    from judgebench.prompts.builder import Judged

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
        self.todo = unread(reader.passes, reader.judge.max_batch_tokens, reader.store)
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
