"""Which field of a row holds what: read from configuration, and then from rows, alike for all kinds of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.data.loaded import group_hash
from judgebench.data.rows import Row
from judgebench.runtime.errors import UserError


def parse_fields(
    given: Any, needed: Sequence[str], optional: Sequence[str], several: str, of_each: str, example: str
) -> dict[str, Any]:
    """`data.fields`: entry -> name of a field, of those that are given.

    Args:
        needed, optional: the entries that there are.
        several: the needed one that may also be a mapping dimension -> field.
        of_each: what such a field holds.
        example: a right `data.fields`.

    Raises:
        UserError: no mapping, a needed entry is missing, an entry is unknown or not a name.
    """
    if not isinstance(given, Mapping):
        raise UserError(f"data.fields must be a mapping, as in {example}, got {given!r}.")
    for key in given:
        if key not in (*needed, *optional):
            raise UserError(f"data.fields.{key} is unknown; there are {', '.join((*needed, *optional))}.")
    for key in needed:
        if given.get(key) is None:
            raise UserError(f"data.fields.{key} is not given; name the field of your rows that holds it.")
    names: dict[str, Any] = {}
    for key, value in given.items():
        if key == several and isinstance(value, Mapping):
            if not value:
                raise UserError(f"data.fields.{key} is empty; name at least one dimension and {of_each}.")
            names[key] = {str(dimension): _name(f"{key}.{dimension}", field) for dimension, field in value.items()}
        elif value is not None:
            names[key] = _name(key, value)
    return names


def example_of(row: Row, field: str | None) -> str:
    """A row's name for its example: by `field`, else its `example_id`, else "line-N", N counted from 1."""
    return _identifier(row, field, "example_id") or f"line-{row.position}"


def context_of(row: Row, field: str | None) -> str:
    """A row's further text; empty where there is none."""
    return row.text(field) if field else ""


def group_of(row: Row, field: str | None, source: str, context: str) -> str:
    """A row's group: by `field`, else its `group_id`, else a hash of source and context."""
    return _identifier(row, field, "group_id") or group_hash(source, context)


def system_of(row: Row, field: str | None) -> str:
    """The system that wrote a row's text: by `field`, else its `system_id`, else "system"."""
    return _identifier(row, field, "system_id") or "system"


def _identifier(row: Row, field: str | None, column: str) -> str | None:
    """The name in `field`, which a row must have; without a `field`, that in `column` where the row has one."""
    if field is None and not row.has(column):
        return None
    return row.identifier(field or column)


def _name(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"data.fields.{key} must be the name of a field, got {value!r}.")
    return value
