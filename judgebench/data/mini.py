"""A small data set inside the package, for a first run and for tests: needs no file and no network."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Any

from judgebench.data.joint import with_joint
from judgebench.data.jsonl import Fields, load_jsonl
from judgebench.data.loaded import Loaded
from judgebench.data.module import JudgeDataModule

_FIELDS = Fields(
    source="source",
    output="output",
    human="human",
    example_id="example_id",
    group_id="group_id",
    system_id="system_id",
)
_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
_SCALE = (1.0, 5.0)


class Mini(JudgeDataModule):
    """The embedded summaries of judgebench/data/mini/mini.jsonl, on a scale of 1 to 5; `joint` is the mean of the
    four dimensions.

    Args:
        **common: see JudgeDataModule; there is no `path`.
    """

    name = "mini"
    note = "The human scores of mini follow from how its texts were made; no human rated them."

    def __init__(self, **common: Any) -> None:
        super().__init__(path=None, **common)

    def load(self) -> Loaded:
        with as_file(files("judgebench.data").joinpath("mini", "mini.jsonl")) as path:
            return with_joint(load_jsonl(path, _FIELDS, _SCALE), _DIMENSIONS)
