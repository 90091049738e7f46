"""Values as W&B takes them: cells, tables, images, and where it keeps them until they are sent."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

if TYPE_CHECKING:
    import wandb


def cell(value: Any) -> Any:
    """A value of a table: lists as text, whatever is no number as None."""
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of JSON without its lists, such as a grid; what is nested as `exact_low`."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= {f"{key}_{name}": inner for name, inner in value.items() if not isinstance(inner, list)}
        elif not isinstance(value, list):
            found[key] = value
    return found


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> wandb.Table:
    """A table of W&B's."""
    import wandb

    # Nulls and numbers share columns, which W&B calls mixed types.
    return wandb.Table(columns=list(columns), data=list(rows), allow_mixed_types=True)


def pixels(figure: Figure) -> Image.Image:
    """A figure at the resolution of print; W&B's own conversion stops at that of screens."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=200)
    return Image.open(buffer)


@contextmanager
def files_under(folder: Path) -> Iterator[None]:
    """W&B stages tables in the home folder until they are sent; this keeps them with the run that they belong to."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder.resolve())
    try:
        yield
    finally:
        del os.environ[name]
