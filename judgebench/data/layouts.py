"""Declared layouts of published files: which files they are, where their rows lie, and which field holds what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from judgebench.config.fields import known_keys, plain
from judgebench.data.fields import Rated, RowFields
from judgebench.data.rows import FileRow, data_files, file_rows
from judgebench.runtime.errors import UserError

_PROBED = 50
"""Rows at the beginning of a file among which one must fit its layout."""

Fields = TypeVar("Fields", bound=RowFields)


@dataclass(frozen=True)
class Layout(Generic[Fields]):
    """Form of some files.

    Attributes:
        fields: which field of a row holds what.
        files: a pattern of their names, as `*.json`; of a path with folders where it has a slash.
        rows: the path of the list of rows in a JSON file that is one object; None where the file is the list.
    """

    fields: Fields
    files: str = "*"
    rows: str | None = None

    def takes(self, file: Path) -> bool:
        """True of a file whose name fits the pattern."""
        return fnmatch(file.as_posix(), f"*/{self.files}") or fnmatch(file.as_posix(), self.files)


Read = Callable[[Fields, FileRow], Iterable[Rated]]
"""Fields, row -> its texts."""


@dataclass(frozen=True)
class Layouts(Generic[Fields]):
    """Layouts in which a data set goes round.

    Attributes:
        known: of several that fit a file, the first counts by which its rows can be read.
        declared: False where the fields are those of a user's own file, each row of which must be right. Of published
            files, rows without a text or a score are left out.
    """

    known: Sequence[Layout[Fields]]
    declared: bool = True

    @classmethod
    def parse(cls, kind: type[Fields], fields: Any, layouts: Any) -> Layouts[Fields]:
        """From the config keys `data.fields` and `data.layouts`, of which one is given; else `UserError`."""
        layouts = plain(layouts)
        if layouts is None:
            return cls([Layout(kind.parse({} if fields is None else fields))], declared=False)
        if fields is not None:
            raise UserError("data.fields and data.layouts are both given; fields of layouts lie in data.layouts.")
        if not isinstance(layouts, Sequence) or isinstance(layouts, str) or not layouts:
            raise UserError(f"data.layouts must be a list of {{files: PATTERN, fields: ...}}, got {layouts!r}.")
        known = []
        for i, layout in enumerate(layouts):
            where = f"data.layouts[{i}]"
            if not isinstance(layout, Mapping):
                raise UserError(f"{where} must be {{files: PATTERN, fields: ...}}, got {layout!r}.")
            known_keys(layout, ("files", "rows", "fields"), where)
            for key in ("files", "rows"):
                if not isinstance(layout.get(key, ""), str | None):
                    raise UserError(f"{where}.{key} must be text, got {layout[key]!r}.")
            parsed = kind.parse(layout.get("fields", {}), f"{where}.fields")
            known.append(Layout(parsed, layout.get("files") or "*", layout.get("rows")))
        return cls(known)

    def read(self, path: Path, read: Read[Fields], published: str | None = None) -> tuple[list[Rated], list[UserError]]:
        """Examples of a file, or of those in a folder that have a known layout; and why rows were left out.

        Args:
            published: where such files can be had, for an error.

        Raises:
            UserError: no such file; no file of a known layout; a row that is wrong, or where rows may be left out, all
                of them.
        """
        chosen: list[tuple[Path, Layout[Fields]]] = []
        for file in data_files(path):
            fitting = [layout for layout in self.known if layout.takes(file)]
            if not fitting and not path.is_dir():
                fitting = list(self.known)
            if len(fitting) > 1:  # the first of which one of the first rows can be read
                fitting = [next((layout for layout in fitting if self._fits(layout, file, read)), fitting[0])]
            if fitting:
                chosen.append((file, fitting[0]))
        if not chosen:
            patterns = " or ".join(dict.fromkeys(layout.files for layout in self.known))
            expected = published or "a file, or a folder with some"
            raise UserError(f"{path}: this folder has no file {patterns}; data.path must be {expected}.")
        texts: list[Rated] = []
        left: list[UserError] = []
        for file, layout in chosen:
            within = f"{file.relative_to(path).with_suffix('')}/" if len(chosen) > 1 else ""
            for row in _rows(layout, file):
                try:
                    texts.extend(self._examples(layout, replace(row, within=within), read))
                except UserError as error:
                    if not self.declared:
                        raise
                    left.append(error)
        if left and not texts:
            raise left[0]
        return texts, left

    def _fits(self, layout: Layout[Fields], file: Path, read: Read[Fields]) -> bool:
        """True where one of the first rows can be read; a file may end, or break, before as many."""
        with suppress(UserError):
            for row in list(islice(_rows(layout, file), _PROBED)):
                with suppress(UserError):
                    self._examples(layout, row, read)
                    return True
        return False

    def _examples(self, layout: Layout[Fields], row: FileRow, read: Read[Fields]) -> list[Rated]:
        texts = list(read(layout.fields, row))
        for example in [rated.example for rated in texts] if self.declared else ():
            for what, text in (("judged text", example.output), ("source", example.source)):
                if not text.strip():
                    raise UserError(f"{row.place}: the {what} is empty.")
        return texts


def _rows(layout: Layout[Fields], file: Path) -> Iterator[FileRow]:
    """Rows of a file, each once for each of its texts."""
    return chain.from_iterable(map(layout.fields.rows_of, file_rows(file, layout.rows)))


def merged(texts: Iterable[Rated], named: bool, needed: bool = True) -> tuple[list[Rated], list[UserError]]:
    """Texts with the scores of all rows that rate them, and why some were left out.

    Rows are about one text where their group, system and text are the same and no rater gives it two scores. A text is
    called by its group and its system, with a number where a system has several texts in a group.

    Args:
        named: the rows name their examples: rows of one name are about one text.
        needed: texts that nobody rated on a dimension, which others have, are left out.
    """
    # 1. rows about one text are put together
    joint: dict[tuple[str, ...], list[Rated]] = {}
    in_group: Counter[str] = Counter()
    for text in texts:
        example = text.example
        key = (example.example_id,) if named else (example.group_id, example.system_id, example.output)
        for other in joint.setdefault(key, []):
            if not any(set(scores) & set(other.scores.get(name, ())) for name, scores in text.scores.items()):
                both = dict.fromkeys([*other.scores, *text.scores])
                other.scores = {name: {**other.scores.get(name, {}), **text.scores.get(name, {})} for name in both}
                break
        else:
            in_group[example.group_id] += 1
            system = example.system_id.replace("{nth}", str(in_group[example.group_id]))
            joint[key].append(replace(text, example=replace(example, system_id=system)))
    # 2. each gets its name, and its mean scores on all dimensions
    listed = [text for rated in joint.values() for text in rated]
    dimensions = dict.fromkeys(dimension for text in listed for dimension in text.scores)
    kept: list[Rated] = []
    left: list[UserError] = []
    taken: Counter[str] = Counter()
    for text in listed:
        example = text.example
        missing = [dimension for dimension in dimensions if not text.scores.get(dimension)]
        if needed and missing:
            left.append(
                UserError(f"{text.place}: no row has a score for {', '.join(map(repr, missing))} of this text.")
            )
            continue
        name = example.example_id if named else f"{example.group_id}/{example.system_id}"
        taken[name] += 1
        name += f"#{taken[name]}" if taken[name] > 1 else ""
        scores = {dimension: text.scores.get(dimension, {}) for dimension in dimensions}
        kept.append(Rated(replace(example, example_id=name), scores, text.place))
    return kept, left


def left_out_note(left: Sequence[UserError]) -> str:
    """A note on rows that were left out."""
    rows = "1 row is" if len(left) == 1 else f"{len(left)} rows are"
    return f"{rows} left out, the first because of this: {left[0]}"
