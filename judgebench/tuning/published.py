"""The lambda and t that the CD paper prints.

published.csv holds tables 3 to 5 of "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge" (arXiv
2510.18196), with the models' hub ids for their printed names.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from judgebench.runtime.errors import UserError
from judgebench.tuning.grid import Setting
from judgebench.types import ScoreRange

FILE = Path(__file__).with_name("published.csv")


@dataclass(frozen=True)
class Published:
    """The paper's settings.

    Attributes:
        rows: (main, assistant) -> (dimension, range) -> setting.
    """

    rows: Mapping[tuple[str, str], Mapping[tuple[str, ScoreRange], Setting]]

    @classmethod
    @cache
    def load(cls) -> Published:
        """From the file inside the package."""
        rows: dict[tuple[str, str], dict[tuple[str, ScoreRange], Setting]] = {}
        with FILE.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                cell = (row["dimension"], ScoreRange(float(row["range_min"]), float(row["range_max"])))
                setting = Setting(float(row["lambda"]), float(row["temperature"]))
                rows.setdefault((row["main"], row["assistant"]), {})[cell] = setting
        return cls(rows)

    def settings(
        self, main: str | None, assistant: str | None, cells: Sequence[tuple[str, ScoreRange]]
    ) -> dict[tuple[str, ScoreRange], Setting]:
        """What the paper chose for a pair of models in each cell.

        Raises:
            UserError: the paper has no such pair; or it lacks cells, which are named.
        """
        held = self.rows.get((main or "", assistant or ""))
        if held is None:
            pairs = "; ".join(f"{one} with {other}" for one, other in self.rows)
            raise UserError(
                f"tune=published: the paper has no settings for {main} with {assistant or 'no second model'}, only for "
                f"{pairs}; if local folders hold such a pair, say which with tune.main= and tune.assistant=."
            )
        if missing := [cell for cell in cells if cell not in held]:
            named = ", ".join(f"{dimension} {score_range}" for dimension, score_range in missing)
            raise UserError(
                f"tune=published: the paper has no setting for {named}; it has coherence, relevance and consistency in "
                "0-4, 1-5, 2-6 and 3-7. Leave the others out of dimensions and ranges, or take tune=dev."
            )
        return {cell: held[cell] for cell in cells}
