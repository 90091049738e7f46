"""Records of tuning arranged as people read them: a block a dimension and decoding, a row a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.results.series import range_of

HOW: Mapping[str, str] = {
    "dev": "the best point of the grid by Spearman on the dev split, for each range",
    "exact": "the best of all kappas by Spearman on the dev split, for each range",
    "shared": "one point of the grid for all ranges, the best by mean Spearman on the dev split",
    "published": "what the contrastive-decoding paper prints",
}
"""What each `tune` chooses."""


@dataclass(frozen=True)
class Choices:
    """One tuned decoding in one dimension; `rows` are its records of tuning.json, by range."""

    dimension: str
    decoding: str
    how: str
    rows: Sequence[Mapping[str, Any]]


def arrange_tuning(tuning: Sequence[Mapping[str, Any]] | None) -> list[Choices]:
    """By dimension and decoding, in order of appearance, ranges ascending."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in tuning or ():
        cells.setdefault((record["dimension"], record["decoding"]), []).append(record)
    return [
        Choices(*key, HOW.get(rows[0]["tune"], str(rows[0]["tune"])), sorted(rows, key=lambda row: row["range_min"]))
        for key, rows in cells.items()
    ]


def kappas(row: Mapping[str, Any]) -> str:
    """The interval of kappa that is exactly optimal on dev, or "-" where there is no exact path."""
    exact = row["exact"]
    return "-" if exact is None else interval_of(exact["low"], exact["high"])


def interval_of(low: float, high: float | None) -> str:
    """An interval of kappa: open, from 0 on where it begins there.

    Example:
        >>> interval_of(0.0271, 0.035), interval_of(2.0, None)
        ('0.0271 to 0.035', 'above 2')
    """
    return f"above {low:.3g}" if high is None else f"{low:.3g} to {high:.3g}"


def place(row: Mapping[str, Any]) -> str:
    """The range of a row."""
    return str(range_of(row))


def chosen(row: Mapping[str, Any]) -> str:
    """Lambda and t of a row.

    Example:
        >>> chosen({"lambda": 0.1, "temperature": 4.0})
        'λ 0.1, t 4'
    """
    return f"λ {row['lambda']:.4g}, t {row['temperature']:.4g}"


def marks(row: Mapping[str, Any]) -> list[str]:
    """What is wrong with a choice: edge, and constant where it gives every dev text the same score.

    Example:
        >>> marks({"edge": True, "constant": True}), marks({"edge": False, "constant": None})
        (['edge', 'constant'], [])
    """
    return [name for name in ("edge", "constant") if row[name]]


def search_note(choices: Choices) -> str:
    """What the grid can and cannot tell: how many decodings it really holds, and how far it falls short."""
    rows = choices.rows
    points = {len(row["grid"]) for row in rows}
    if points == {0}:
        return ""
    vectors = [row["grid_scores"] for row in rows]
    note = (
        f"The grid's {max(points)} points are {max(row['grid_kappas'] for row in rows)} kappas, which give "
        f"{_span(vectors)} different lists of scores."
    )
    below = [row["grid_below_exact"] for row in rows if row["grid_below_exact"] is not None]
    if below:
        note += f" On dev its best falls {_span([f'{value:.3f}' for value in below])} below the exact optimum."
    exact = [row["exact"] for row in rows if row["exact"] is not None]
    if widths := sorted(one["width"] for one in exact if one["width"] is not None):
        note += f" The interval of κ that is exactly optimal is {_span([f'{width:.2g}' for width in widths])} wide"
        note += ", or never ends." if len(widths) < len(exact) else "."
    return note


def shared_note(choices: Choices) -> str:
    """What one setting for all ranges reaches on average; empty where ranges have their own."""
    shared = choices.rows[0].get("shared")
    if not shared:
        return ""
    told = [f"{value:.3f} on {split}" for split, value in shared.items() if value is not None]
    return f"Mean Spearman over the ranges: {', '.join(told)}."


def _span(values: Sequence[Any]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
