"""The base of all data sets: limit, split, and the loader that the predict loop reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.config.fields import plain
from judgebench.data.dataset import Dataset, DataSettings, completed, split_groups, validate
from judgebench.data.rows import local_path
from judgebench.runtime.errors import UserError
from judgebench.types import Example

ANY_KIND = "a file of rows (.jsonl, .json, .csv, .tsv, .parquet), or a folder of them"


class JudgeDataModule(ABC):
    """Human-rated examples. A data set is a subclass with a `name` and a `load`.

    Args:
        path: the file (or what else `load` takes).
        rubrics: which family of rubrics asks about such texts ("summary", "dialogue"); conf/prompt reads it.
        dimensions, ranges: what is judged of such texts, and in which score ranges, where nothing else is asked for;
            conf/config.yaml reads them.
        settings: the further fields of `DataSettings`.

    Attributes:
        name: what tables call the data set (column `dataset`).
        groups_are: its groups in the plural, for titles: "articles", "dialogues", or "groups" where they are unknown.
        note: a sentence that readers of its results must know.
        paired: True where its examples are pairs of texts, which people compared.
        examples, scale, ratings, raters, rated: from `setup` on, see `Dataset`.
        dimensions: with human scores; every example has all of them, NaN where it is unrated.
        split: group_id -> "dev" or "test", in file order.

    Raises:
        UserError: an argument out of its bounds; from `setup`, everything that is wrong with the data.
    """

    name: str
    groups_are: str = "articles"
    note: str | None = None
    paired: bool = False

    examples: list[Example]
    dimensions: tuple[str, ...]
    scale: Mapping[str, tuple[float, float]]
    ratings: Mapping[str, np.ndarray]
    raters: tuple[str, ...]
    rated: bool
    split: dict[str, str]

    def __init__(
        self,
        path: str | None = None,
        rubrics: str = "summary",
        dimensions: Sequence[str] = (),
        ranges: Sequence[Any] = (),
        **settings: Any,
    ) -> None:
        checked = DataSettings(path, **plain(settings))
        self.path = path
        self.limit_groups, self.dev_share, self.seed = checked.limit_groups, float(checked.dev_share), checked.seed
        self.published = checked.source
        self.groups_are = checked.groups_are or type(self).groups_are
        self.rubrics = rubrics
        self.asked = {"dimensions": dimensions, "ranges": ranges}

    def __getattr__(self, name: str) -> Any:
        if name in ("examples", "dimensions", "scale", "ratings", "raters", "rated", "split"):
            raise RuntimeError("the data is not loaded yet: call setup() first.")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @abstractmethod
    def load(self) -> Dataset:
        """The whole data set, unchecked beyond what reading needs; `setup` checks it."""

    def setup(self, stage: str | None = None) -> None:
        """Loads, checks, limits and splits the data, once.

        The split is drawn among the groups that the limit leaves, so that a short trial run has dev groups too: results
        of different limits do not mix.
        """
        if "examples" in vars(self):
            return
        loaded = completed(self.load())
        validate(loaded)
        kept = set(list(dict.fromkeys(example.group_id for example in loaded.examples))[: self.limit_groups])
        rows = [i for i, example in enumerate(loaded.examples) if example.group_id in kept]
        self.examples = [loaded.examples[i] for i in rows]
        self.dimensions = tuple(self.examples[0].human)
        self.scale, self.raters, self.rated = loaded.scale, tuple(loaded.raters), loaded.rated
        self.ratings = {dimension: ratings[rows] for dimension, ratings in loaded.ratings.items()}
        self.split = split_groups((example.group_id for example in self.examples), self.dev_share, self.seed)

    def given_path(self, expected: str) -> Path:
        """`path`, with "~" expanded; `UserError` where none was given, which says what is `expected`, or where data was
        published; or where published data is not there."""
        if not self.path or not self.path.strip():
            raise UserError(f"data.path is not given; it must be {self.published or expected}.")
        path = local_path(self.path)
        if self.published and not path.exists():
            raise UserError(f"{path}: there is no such file; data.path must be {self.published}.")
        return path
