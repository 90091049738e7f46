"""Pairs of series that are compared: which cells stand against which, and what a record calls the two sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from judgebench.metrics.cells import Cell

Series = tuple[str, str]
"""(judge, decoding), as in the columns of scores.parquet."""

_Ranges = TypeVar("_Ranges")


def matched(
    here: Mapping[tuple[Any, ...], _Ranges], pairs: Sequence[tuple[Series, Series]]
) -> list[tuple[_Ranges, _Ranges]]:
    """The two sides of each pair in one table; several where a table holds several settings of a judge and decoding.

    Args:
        here: series of one table, each named by judge, decoding, lambda and temperature -> its cells (see
            `judgebench.metrics.cells.series_of`).
        pairs: ((judge, decoding), (judge, decoding)).

    Example:
        >>> matched({("main", "greedy"): "a", ("pair", "greedy"): "b"}, [(("pair", "greedy"), ("main", "greedy"))])
        [('b', 'a')]
    """
    return [
        (here[first], here[second])
        for one, other in pairs
        for first in here
        for second in here
        if first[:2] == tuple(one) and second[:2] == tuple(other)
    ]


def named_pair(sides: Sequence[tuple[Cell, Cell]]) -> dict[str, Any]:
    """The columns that say what is compared: in one range, or in the mean over several.

    Returns:
        split, dimension, range_min, range_max, range_step (None in a mean over ranges), ranges (how many), attack,
        defense, and judge, decoding, lambda and temperature of `first_` and `second_`: lambda and temperature are None
        where there is none, and in a mean where they vary over the ranges.
    """
    one = sides[0][0]
    low, high, step = one.range if len(sides) == 1 else (None, None, None)
    named: dict[str, Any] = {"split": one.split, "dimension": one.dimension}
    named |= {"range_min": low, "range_max": high, "range_step": step, "ranges": len(sides)}
    named |= {"attack": one.attack, "defense": one.defense}
    for side, name in enumerate(("first", "second")):
        cell = sides[0][side]
        settings = zip(*(both[side].knobs for both in sides), strict=True)
        lambda_, temperature = (values[0] if len(set(values)) == 1 else None for values in settings)
        named |= {f"{name}_judge": cell.judge, f"{name}_decoding": cell.decoding}
        named |= {f"{name}_lambda": lambda_, f"{name}_temperature": temperature}
    return named
