"""What was judged, as files in the run folder: a report can then be made anew without the data, or any model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from judgebench.report.run_folder import RunFolder
from judgebench.runtime.files import atomic
from judgebench.types import Example, Prompt

EXAMPLES_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("example_id", "group_id", "system_id", "split")],
        *[(name, pa.string()) for name in ("source", "context", "output", "rival_id", "rival")],
        ("dimensions", pa.list_(pa.string())),
        ("human", pa.list_(pa.float64())),
    ]
)
"""Columns of examples.parquet, one row an example, see `judgebench.types.Example`; `human` goes with `dimensions`, all
that the data has, judged or not."""

TEXTS_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("example_id", "dimension")],
        *[(name, pa.float64()) for name in ("range_min", "range_max", "range_step")],
        *[(name, pa.string()) for name in ("attack", "defense", "order", "text")],
    ]
)
"""Columns of texts.parquet: the judged text as the judge read it, one row for each example x condition in which an
attack or a defense had changed it. `order` is empty where texts are judged alone."""


@dataclass(frozen=True)
class ExampleTexts:
    """What the two files hold.

    Attributes:
        examples: `EXAMPLES_SCHEMA`.
        changed: `TEXTS_SCHEMA`.
    """

    examples: pd.DataFrame
    changed: pd.DataFrame


def write_examples(
    folder: RunFolder,
    examples: Sequence[Example],
    split: Mapping[str, str],
    changed: Iterable[tuple[Prompt, str]],
) -> ExampleTexts:
    """Writes examples.parquet, and texts.parquet where anything is in it.

    Args:
        examples: what was judged.
        split: group_id -> dev or test.
        changed: prompts, and what each has in the place of its example's own text.

    Returns:
        what was written.
    """
    held = pa.Table.from_pylist([_example(one, split[one.group_id]) for one in examples], EXAMPLES_SCHEMA)
    texts = pa.Table.from_pylist([_changed(prompt, text) for prompt, text in changed], TEXTS_SCHEMA)
    _write(folder, "examples.parquet", held)
    if len(texts):
        _write(folder, "texts.parquet", texts)
    return ExampleTexts(_frame(held), _frame(texts))


def read_examples(folder: RunFolder) -> ExampleTexts | None:
    """What a run has judged; None where it kept no texts (`examples=false`, or a run of an earlier version)."""
    if not (folder.path / "examples.parquet").is_file():
        return None
    held = folder.table("examples.parquet")
    there = (folder.path / "texts.parquet").is_file()
    return ExampleTexts(_frame(held), _frame(folder.table("texts.parquet") if there else TEXTS_SCHEMA.empty_table()))


def _write(folder: RunFolder, name: str, table: pa.Table) -> None:
    repeating = [key for key in table.schema.names if key not in ("source", "output", "rival", "text")]
    with folder.writing(folder.path / name), atomic(folder.path / name) as temporary:
        # an article stands beside each of its texts, and zstd finds that within one page
        pq.write_table(table, temporary, compression="zstd", use_dictionary=repeating, data_page_size=8 * 2**20)


def _frame(table: pa.Table) -> pd.DataFrame:
    return pd.DataFrame({name: table[name].to_pylist() for name in table.schema.names}, dtype=object)


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
