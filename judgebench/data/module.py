"""The base of all data sets: limit, split, and the loader that the predict loop reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.config.fields import plain
from judgebench.data.dataset import Dataset, DataSettings, completed, split_groups, validate, with_one_source
from judgebench.data.rows import local_path
from judgebench.runtime.errors import UserError
from judgebench.types import Example

ANY_KIND = "a file of rows (.jsonl, .json, .csv, .tsv, .parquet), or a folder of them"


class JudgeDataModule(ABC):
    """Human-rated examples. A data set is a subclass with a `name` and a `load`.

    Call `setup()` before reading any of the properties; it loads once.

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

    Raises:
        UserError: an argument out of its bounds; from `setup`, everything that is wrong with the data.
    """

    name: str
    groups_are: str = "articles"
    note: str | None = None
    paired: bool = False

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
        self.limit_groups = checked.limit_groups
        self.dev_share = float(checked.dev_share)
        self.seed = checked.seed
        self.published = checked.source
        self.groups_are = checked.groups_are or type(self).groups_are
        self.rubrics = rubrics
        self.asked = {"dimensions": dimensions, "ranges": ranges}
        self._data: Dataset | None = None
        self._split: dict[str, str] = {}

    @abstractmethod
    def load(self) -> Dataset:
        """The whole data set, unchecked beyond what reading needs; `setup` checks it."""

    def setup(self, stage: str | None = None) -> None:
        """Loads, checks, limits and splits the data, once.

        The split is drawn among the groups that the limit leaves, so that a short trial run has dev groups too: results
        of different limits do not mix.
        """
        if self._data is not None:
            return
        loaded = with_one_source(completed(self.load()))
        validate(loaded)
        kept = set(list(dict.fromkeys(example.group_id for example in loaded.examples))[: self.limit_groups])
        rows = [i for i, example in enumerate(loaded.examples) if example.group_id in kept]
        self._data = replace(
            loaded,
            examples=[loaded.examples[i] for i in rows],
            ratings={dimension: ratings[rows] for dimension, ratings in loaded.ratings.items()},
            places=[loaded.places[i] for i in rows] if loaded.places else (),
        )
        self._split = split_groups((example.group_id for example in self.examples), self.dev_share, self.seed)

    @property
    def examples(self) -> list[Example]:
        """In file order."""
        return self._loaded.examples

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions with human scores; every example has all of them, NaN where nobody rated it."""
        return tuple(self.examples[0].human)

    @property
    def scale(self) -> Mapping[str, tuple[float, float]]:
        """Dimension -> (lowest, highest) score that a human could give; none for a dimension whose scale is unknown."""
        return self._loaded.scale

    @property
    def ratings(self) -> Mapping[str, np.ndarray]:
        """Dimension -> [examples, raters] the scores of single raters, NaN where one gave none; of dimensions in which
        some example has two or more."""
        return self._loaded.ratings

    @property
    def rated(self) -> bool:
        """False where no human scored any text, nor was asked to."""
        return self._loaded.rated

    @property
    def raters(self) -> tuple[str, ...]:
        """Names of the raters, the columns of each of `ratings`."""
        return tuple(self._loaded.raters)

    @property
    def split(self) -> dict[str, str]:
        """group_id -> "dev" or "test", in file order."""
        return self._split

    def given_path(self, expected: str) -> Path:
        """`path`, with "~" expanded; `UserError` where none was given, which says what is `expected`, or where data was
        published; or where published data is not there."""
        if not self.path or not self.path.strip():
            raise UserError(f"data.path is not given; it must be {self.published or expected}.")
        path = local_path(self.path)
        if self.published and not path.exists():
            raise UserError(f"{path}: there is no such file; data.path must be {self.published}.")
        return path

    @property
    def _loaded(self) -> Dataset:
        if self._data is None:
            raise RuntimeError("the data is not loaded yet: call setup() first.")
        return self._data
