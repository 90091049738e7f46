from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lightning import LightningModule, Trainer
from lightning.pytorch.overrides.distributed import UnrepeatedDistributedSamplerWrapper

from judgebench.data.dataset import Dataset
from judgebench.data.module import JudgeDataModule
from judgebench.judges.loop import Batches
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Example, Prompt, ScoreRange

ORDER = ["b", "a", "b", "c", "a", "d", "c", "e"]


class Letters(JudgeDataModule):
    """Groups named by letters, one example for each entry of ORDER, its rank as its rating."""

    name = "letters"
    loads = 0

    def load(self):
        self.loads += 1
        examples = [
            Example(f"e{i}", g, "s", f"article {g}", "text", {"fluency": float(i)}) for i, g in enumerate(ORDER)
        ]
        ratings = np.arange(2 * len(ORDER), dtype=float).reshape(-1, 2)
        return Dataset(examples, {"fluency": (0.0, 99.0)}, {"fluency": ratings})


def ready(**arguments):
    data = Letters(**arguments)
    data.setup()
    return data


def test_without_a_limit_everything_is_there_in_file_order():
    data = ready()
    assert [example.group_id for example in data.examples] == ORDER
    assert data.dimensions == ("fluency",)
    assert list(data.split) == ["b", "a", "c", "d", "e"]
    assert data.rubrics == "summary"


@pytest.mark.parametrize(("limit", "kept"), [(1, "b"), (2, "ba"), (3, "bac"), (5, "bacde"), (99, "bacde")])
def test_the_limit_keeps_whole_groups_and_their_ratings(limit, kept):
    data = ready(limit_groups=limit)
    rows = [i for i, group in enumerate(ORDER) if group in kept]
    assert [example.example_id for example in data.examples] == [f"e{i}" for i in rows]
    assert data.ratings["fluency"].tolist() == [[2.0 * i, 2.0 * i + 1] for i in rows]
    assert list(data.split) == list(kept)


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_a_small_limit_leaves_a_dev_and_a_test_group(limit):
    for seed in range(10):
        assert set(ready(limit_groups=limit, seed=seed).split.values()) == {"dev", "test"}


def test_no_dev_share_leaves_all_to_test():
    assert set(ready(dev_share=0).split.values()) == {"test"}


def test_sources_of_a_group_that_differ_at_their_ends_are_one_source():
    data = Letters()
    loaded = data.load()
    ends = ["", "\n", "  ", "", " \n", "", "\t", ""]
    examples = [
        replace(example, source=f"{end}{example.source}{end}")
        for example, end in zip(loaded.examples, ends, strict=True)
    ]
    data.load = lambda: replace(loaded, examples=examples)
    data.setup()
    assert [example.source for example in data.examples] == [
        *(
            "article b",
            "\narticle a\n",
            "article b",
            "article c",
            "\narticle a\n",
            "article d",
            "article c",
            "article e",
        ),
    ]


def test_sources_of_a_group_that_differ_within_are_two():
    data = Letters()
    loaded = data.load()
    data.load = lambda: replace(
        loaded, examples=[replace(loaded.examples[0], source="article  b"), *loaded.examples[1:]]
    )
    with pytest.raises(UserError, match="group 'b' has another source or context here"):
        data.setup()


def test_setup_loads_once_and_reading_before_it_is_refused():
    data = Letters()
    with pytest.raises(RuntimeError, match="call setup"):
        _ = data.examples
    data.setup()
    data.setup("predict")
    assert data.loads == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"path": 5}, "data.path: 5 should "),
        ({"limit_groups": 0}, "data.limit_groups: 0 should "),
        ({"limit_groups": -3}, "data.limit_groups: -3 should "),
        ({"limit_groups": 1.5}, "data.limit_groups: 1.5 should "),
        ({"limit_groups": True}, "data.limit_groups: True should "),
        ({"dev_share": 1}, "data.dev_share: 1 should "),
        ({"dev_share": -0.1}, "data.dev_share: -0.1 should "),
        ({"dev_share": float("nan")}, "data.dev_share: nan should "),
        ({"dev_share": "0.1"}, "data.dev_share: '0.1' should "),
        ({"seed": -1}, "data.seed: -1 should "),
        ({"seed": 0.5}, "data.seed: 0.5 should "),
    ],
)
def test_arguments_out_of_bounds_are_told(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        Letters(**arguments)


def planned(data):
    groups: dict[str, list[Prompt]] = {}
    condition = Condition("fluency", ScoreRange(1, 5))
    for example in data.examples:
        groups.setdefault(example.group_id, []).append(Prompt(example, condition, "prefix", "tail", np.array([1, 2])))
    return list(groups.values())


class Recorder(LightningModule):
    def __init__(self):
        super().__init__()
        self.read: list[Any] = []

    def predict_step(self, batch, batch_idx):
        self.read.append(batch)


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_lightning_hands_each_planned_batch_to_the_judge_as_it_is(batches):
    data = Batches(planned(ready())[:batches])
    trainer = Trainer(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False)
    judge = Recorder()
    trainer.predict(judge, datamodule=data)
    assert len(judge.read) == batches
    assert all(got is batch for got, batch in zip(judge.read, data.batches, strict=True))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_lightnings_distributed_sampler_gives_each_batch_to_exactly_one_rank(ranks):
    sampler = Batches(planned(ready())).predict_dataloader().sampler
    shares = [
        list(UnrepeatedDistributedSamplerWrapper(sampler, num_replicas=ranks, rank=r, shuffle=False))
        for r in range(ranks)
    ]
    assert shares == [list(range(r, 5, ranks)) for r in range(ranks)]
