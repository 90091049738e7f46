"""Texts of any number, shard by shard: read once for what is wrong with them, of which only numbers
are kept, and once more as they are scored, each shard from its place in a file.

A shard is consecutive rows, cut where another group begins: a group that lies together is judged at
once, and one whose rows lie apart in each place.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from judgebench.data.dataset import DataSettings, completed, longest_of, validate
from judgebench.data.fields import Rated, Scores, TextFields, check_present, dataset_of
from judgebench.data.rows import file_rows, named_files, names_within
from judgebench.types import Array, Example, Record
from judgebench.words.errors import UserError

_LONGEST = 4
"""Shards that a group may fill before it is cut."""

_LOOKED_AT = 100
"""Names, and groups, that are looked at again where they seem to be at fault."""


class _Place(NamedTuple):
    """A row's place: number of its file, rows before it there, its line, and the byte at which that
    begins."""

    file: int
    before: int
    line: int
    byte: int


_CLOSED: tuple[int, Any] = (-1, None)
"""Of `Texts` that are not read at the moment: the next shard, and the texts from there on."""


class Texts:
    """The texts of an input, checked.

    Args:
        path: see `named_files`.
        fields: see `TextFields`.
        size: rows of a shard, about.
        limit_groups: the first so many groups alone; None takes all.
        longest: characters that a text may have.
        sheet: of a workbook (.xlsx); None takes the first.

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
        sheet: str | None = None,
    ) -> None:
        self._files = named_files(path)
        self._sheet = sheet
        self._fields = TextFields.parse({} if fields is None else fields)
        check_present(self._files[0], self._fields, file_rows(self._files[0], sheet))
        self._scores: Scores = {dimension: {} for dimension in dimensions}
        self._most = limit_groups
        self._kept = set[str]()
        self.sizes = list[int]()
        self.digests = list[str]()
        self.cut = 0
        self._starts = list[_Place]()
        self._open = _CLOSED
        # 1. text by text; 8 bytes of each stay, and 16 of each group that lies together
        names = array("q")
        groups = array("q")
        sources = array("q")
        self._begin()
        last = None
        for place, text in self._texts():
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
            if not self._rows:
                self._starts.append(place)
            self._digest.update(_content(text))
            self._rows += 1
        if not names:
            validate(dataset_of([]))
        self._close()
        # 2. names that come twice and groups of two sources
        suspects = self._suspects(names, np.array([groups, sources], np.int64))
        if suspects:
            validate(dataset_of(suspects), longest)

    def _suspects(self, names: array[int], pairs: Array) -> list[Rated]:
        """Texts that seem to share a name with another, or to be of a group with two sources, which
        are looked at again: equal hashes are no proof.

        Args:
            names: hashes of all names.
            pairs: [2, stretches] hashes of the group and of the source of texts that lie together.
        """
        ordered = np.sort(np.frombuffer(names, np.int64))
        # by group, then by source: two sources of a group are neighbors
        pairs = pairs[:, np.lexsort(pairs[::-1])]
        same_group, same_source = pairs[:, 1:] == pairs[:, :-1]
        twice = ordered[1:][ordered[1:] == ordered[:-1]][:_LOOKED_AT].tolist()
        apart = pairs[0, 1:][same_group & ~same_source][:_LOOKED_AT].tolist()
        if self._fields.group_id is not None:  # a group that is named need not be one source
            apart = []
        seen = Counter[Any]()
        suspects = []
        for _, text in self._texts() if twice or apart else ():
            name = hash(text.example.example_id)
            of_group = (hash(text.example.group_id), _source(text))
            new_name = name in twice and seen[name] < 2
            new_source = of_group[0] in apart and not seen[of_group]
            if new_name or new_source:
                suspects.append(text)
                seen.update([name, of_group])
        return suspects

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def shard(self, number: int) -> list[Example]:
        """The texts of a shard, read on behind the one that was read last, or from their place;
        `UserError` where they have changed since they were checked."""
        after, texts = self._open
        if after != number:
            texts = self._texts(self._starts[number])
        self._begin()
        shard = []
        for _, text in islice(texts, self.sizes[number]):
            self._digest.update(_content(text))
            shard.append(text)
        if self._digest.hexdigest() != self.digests[number]:
            raise UserError(
                "data.path: the texts have changed while they were read; run the same command "
                "again."
            )
        self._open = number + 1, texts
        return list(completed(dataset_of(shard)).examples)

    def __getstate__(self) -> Record:
        """Without what is open here, for another process."""
        return vars(self) | {"_open": _CLOSED, "_digest": None}

    def _begin(self) -> None:
        self._rows = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def _close(self) -> None:
        self.sizes.append(self._rows)
        self.digests.append(self._digest.hexdigest())
        self._begin()

    def _texts(self, start: _Place | None = None) -> Iterator[tuple[_Place, Rated]]:
        """All texts from a place on, each with its own."""
        start = start or _Place(0, 0, 1, 0)
        files = list(zip(self._files, names_within(self._files), strict=True))
        for number in range(start.file, len(files)):
            file, within = files[number]
            before = start.before
            for row in file_rows(file, self._sheet, before, first=(start.line, start.byte)):
                place = _Place(number, before, row.position, row.byte)
                before += 1
                row = replace(row, within=within) if within else row
                text = Rated(self._fields.example(row), self._scores, row.place)
                if self._most is not None:
                    if len(self._kept) < self._most:
                        self._kept.add(text.example.group_id)
                    if text.example.group_id not in self._kept:
                        continue
                yield place, text
            start = _Place(0, 0, 1, 0)


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
