"""Texts of any number, shard by shard: read once for what is wrong with them, of which only numbers
are kept, and once more as they are scored.

A shard is consecutive rows, cut where another group begins: a group that lies together is judged at
once, and one whose rows lie apart in each place.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from judgebench.data.dataset import DataSettings, completed, longest_of, validate
from judgebench.data.fields import Rated, Scores, TextFields, dataset_of
from judgebench.data.rows import FileRow, file_rows, named_files, names_within
from judgebench.runtime.errors import UserError
from judgebench.types import Array, Example

_LONGEST = 4
"""Shards that a group may fill before it is cut."""

_LOOKED_AT = 100
"""Names, and groups, that are looked at again where they seem to be at fault."""


class Texts:
    """The texts of an input, checked.

    Args:
        path: see `named_files`.
        fields: see `TextFields`.
        size: rows of a shard, about.
        limit_groups: the first so many groups alone; None takes all.
        longest: characters that a text may have.

    Attributes:
        sizes: rows of each shard.
        digests: of the texts of each shard.
        cut: groups that were cut, for they fill more than some shards.

    Raises:
        UserError: the first text that cannot be judged; a name that two have; a group with two
            sources.
    """

    def __init__(
        self,
        path: str,
        fields: Any,
        dimensions: Iterable[str],
        size: int,
        limit_groups: int | None = None,
        longest: int = DataSettings.longest,
    ) -> None:
        self._files = named_files(path)
        self._fields = TextFields.parse({} if fields is None else fields)
        self._scores: Scores = {dimension: {} for dimension in dimensions}
        self._most = limit_groups
        self._kept = set[str]()
        self.sizes = list[int]()
        self.digests = list[str]()
        self.cut = 0
        # 1. text by text; 8 bytes of each stay, and 16 of each group that lies together
        names = array("q")
        groups = array("q")
        sources = array("q")
        self._begin()
        last = None
        for text in self._texts():
            example = text.example
            blank = not example.output.strip() or not example.source.strip()
            if blank or longest_of(example) > longest:
                validate(dataset_of([text]), longest)
            names.append(hash(example.example_id))
            about = (example.group_id, example.source, example.context)
            if about != last:
                if self._rows >= size and (last is None or last[0] != example.group_id):
                    self._close()
                groups.append(hash(example.group_id))
                sources.append(_source(text))
                last = about
            if self._rows >= _LONGEST * size:
                self._close()
                self.cut = self.cut + 1
            self._digest.update(_content(text))
            self._rows += 1
        if not names:
            validate(dataset_of([]))
        self._close()
        # 2. names that come twice and groups of two sources: some of those with their numbers are
        # looked at again
        ordered = np.sort(np.frombuffer(names, np.int64))
        pairs = np.array([groups, sources], np.int64)
        pairs = pairs[:, np.lexsort(pairs[::-1])]
        same_group, same_source = pairs[:, 1:] == pairs[:, :-1]
        twice = ordered[1:][ordered[1:] == ordered[:-1]][:_LOOKED_AT].tolist()
        apart = pairs[0, 1:][same_group & ~same_source][:_LOOKED_AT].tolist()
        seen = Counter[Any]()
        suspects = []
        for text in self._texts() if twice or apart else ():
            name = hash(text.example.example_id)
            of_group = (hash(text.example.group_id), _source(text))
            new_name = name in twice and seen[name] < 2
            new_source = of_group[0] in apart and not seen[of_group]
            if new_name or new_source:
                suspects.append(text)
                seen.update([name, of_group])
        if suspects:
            validate(dataset_of(suspects), longest)

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def shards(self, wanted: Collection[int]) -> Iterator[tuple[int, list[Example]]]:
        """The texts of some shards, in order; `UserError` where they have changed since they were
        checked."""
        texts = self._texts(
            np.repeat(np.isin(np.arange(len(self.sizes)), list(wanted)), self.sizes)
        )
        for number in sorted(wanted):
            shard = list(islice(texts, self.sizes[number]))
            digest = hashlib.blake2b(digest_size=16)
            for text in shard:
                digest.update(_content(text))
            if digest.hexdigest() != self.digests[number]:
                raise UserError(
                    "data.path: the texts have changed while they were read; run the same command "
                    "again."
                )
            yield number, list(completed(dataset_of(shard)).examples)

    def _begin(self) -> None:
        self._rows = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def _close(self) -> None:
        self.sizes.append(self._rows)
        self.digests.append(self._digest.hexdigest())
        self._begin()

    def _texts(self, wanted: Array | None = None) -> Iterator[Rated]:
        """All texts, or those whose place among them is `wanted` [texts]."""
        place = 0
        for file, within in zip(self._files, names_within(self._files), strict=True):
            for row in file_rows(file):
                text = None
                if self._most is not None:
                    text = self._text(row, within)
                    if len(self._kept) < self._most:
                        self._kept.add(text.example.group_id)
                    if text.example.group_id not in self._kept:
                        continue
                if wanted is None or (place < len(wanted) and wanted[place]):
                    yield text or self._text(row, within)
                place += 1

    def _text(self, row: FileRow, within: str) -> Rated:
        row = replace(row, within=within) if within else row
        return Rated(self._fields.example(row), self._scores, row.place)


def _source(text: Rated) -> int:
    return hash((text.example.source.strip(), text.example.context.strip()))


def _content(text: Rated) -> bytes:
    example = text.example
    parts = (
        example.example_id,
        example.group_id,
        example.system_id,
        example.source,
        example.output,
        example.context,
        *filter(None, [example.question]),
    )
    joined = "\0".join((*parts, "\1"))
    # a text has NULs of its own; no example_id is empty, so none begins like this
    if joined.count("\0") > len(parts):
        joined = f"\0{json.dumps(parts)}\0"
    return joined.encode()
