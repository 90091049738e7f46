"""The judged texts as files in the run folder: a report can then be made anew without the data, or any model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from judgebench.results.folder import plain_frame
from judgebench.results.schema import EXAMPLES_SCHEMA, TEXTS_SCHEMA
from judgebench.types import Example, Prompt


def examples_frame(examples: Sequence[Example], split: Mapping[str, str]) -> pd.DataFrame:
    """The judged examples as examples.parquet holds them.

    Args:
        split: group_id -> dev or test.
    """
    rows = [_example(example, split[example.group_id]) for example in examples]
    return plain_frame(pa.Table.from_pylist(rows, EXAMPLES_SCHEMA))


def texts_frame(changed: Iterable[tuple[Prompt, str]]) -> pd.DataFrame:
    """The changed texts as texts.parquet holds them.

    Args:
        changed: prompts, and what each has in the place of its example's own text.
    """
    return plain_frame(pa.Table.from_pylist([_changed(prompt, text) for prompt, text in changed], TEXTS_SCHEMA))


def _example(one: Example, split: str) -> dict[str, Any]:
    own = ("example_id", "group_id", "system_id", "source", "context", "output", "rival_id", "rival")
    human = {"dimensions": list(one.human), "human": [float(value) for value in one.human.values()]}
    return {name: getattr(one, name) for name in own} | {"split": split} | human


def _changed(prompt: Prompt, text: str) -> dict[str, Any]:
    condition = prompt.condition
    return {
        "example_id": prompt.example.example_id,
        "dimension": condition.dimension,
        "range_min": condition.range.minimum,
        "range_max": condition.range.maximum,
        "range_step": condition.range.step,
        "attack": condition.attack,
        "defense": condition.defense,
        "order": condition.order,
        "text": text,
    }
