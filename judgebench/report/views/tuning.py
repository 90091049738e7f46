"""The selected lambda and t of each range, and how far the search can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from judgebench.report.formats import general, span, three
from judgebench.report.table import Col, View
from judgebench.results.results import Results
from judgebench.results.series import range_of

HOW: Mapping[str, str] = {
    "dev": "the best point of the grid by Spearman on the dev split, for each range",
    "exact": "the best of all kappas by Spearman on the dev split, for each range",
    "shared": "one point of the grid for all ranges, the best by mean Spearman on the dev split",
    "published": "what the contrastive-decoding paper prints",
}
"""What each `tune` selects."""


def tuning_blocks(tuning: Sequence[Mapping[str, Any]] | None) -> list[list[Mapping[str, Any]]]:
    """The records of tuning.json by dimension and decoding, in order of appearance, ranges ascending."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in tuning or ():
        cells.setdefault((record["dimension"], record["decoding"]), []).append(record)
    return [sorted(rows, key=lambda row: range_of(row).order) for rows in cells.values()]


def how_selected(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rule by which a tuned decoding's lambda and t were selected, in words."""
    return HOW.get(rows[0]["tune"], str(rows[0]["tune"]))


def interval_of(low: float, high: float | None) -> str:
    """An interval of kappa: open, from 0 on where it begins there.

    Example:
        >>> interval_of(0.0271, 0.035), interval_of(2.0, None)
        ('0.0271 to 0.035', 'above 2')
    """
    return f"above {low:.3g}" if high is None else f"{low:.3g} to {high:.3g}"


def setting_text(row: Mapping[str, Any]) -> str:
    """Lambda and t of a record.

    Example:
        >>> setting_text({"lambda": 0.1, "temperature": 4.0})
        'λ 0.1, t 4'
    """
    return f"λ {row['lambda']:.4g}, t {row['temperature']:.4g}"


def _frame(results: Results) -> pd.DataFrame:
    return pd.DataFrame([_row(record) for block in tuning_blocks(results.tuning) for record in block])


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    exact = record["exact"] or {}
    count = len(exact.get("intervals") or ())
    best = f"{interval_of(exact['low'], exact['high'])}{f' of {count}' if count > 1 else ''}" if exact else None
    width = exact.get("width")
    return {
        "dimension": record["dimension"],
        "decoding": record["decoding"],
        "how": how_selected([record]),
        "range": str(range_of(record)),
        "selected": setting_text(record),
        "flags": [name for name in ("edge", "constant") if record[name]],
        "kappa": record["kappa"],
        "dev": record["dev"],
        "test": record["test"],
        "exact": best,
        "width": None if not exact else "∞" if width is None else f"{width:.3g}",
        "exact_dev": exact.get("dev"),
        "exact_test": exact.get("test"),
        "below": record["grid_below_exact"],
    }


def _note(results: Results, rows: pd.DataFrame) -> str:
    subjects: dict[str, str] = {}
    blocks = tuning_blocks(results.tuning)
    for block in blocks:
        about = f"{block[0]['dimension']}, {block[0]['decoding']}: " if len(blocks) > 1 else ""
        for text in (_shared_note(block), _search_note(block)):
            subjects.setdefault(text, about)  # what is true of several stands once
    return " ".join(
        [
            *(f"{about}{text}" for text, about in subjects.items() if text),
            "Dev, test: Spearman. Scores by argmax depend on κ = λ / t alone; the exactly best κ is the interval in "
            "which Spearman on the dev split is highest, found without a search.",
        ]
    )


def _search_note(rows: Sequence[Mapping[str, Any]]) -> str:
    """Limits of the grid: how many decodings it really holds, and how far it falls short."""
    points = {len(row["grid"]) for row in rows}
    if points == {0}:
        return ""
    vectors = [row["grid_scores"] for row in rows]
    note = (
        f"The grid's {max(points)} points are {max(row['grid_kappas'] for row in rows)} kappas, which give "
        f"{span(vectors)} different lists of scores."
    )
    below = [row["grid_below_exact"] for row in rows if row["grid_below_exact"] is not None]
    if below:
        note += f" On dev its best falls {span([f'{value:.3f}' for value in below])} below the exact optimum."
    exact = [row["exact"] for row in rows if row["exact"] is not None]
    if widths := sorted(one["width"] for one in exact if one["width"] is not None):
        note += f" The interval of κ that is exactly optimal is {span([f'{width:.2g}' for width in widths])} wide"
        note += ", or never ends." if len(widths) < len(exact) else "."
    return note


def _shared_note(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mean that one setting for all ranges reaches; empty where ranges have their own."""
    shared = rows[0].get("shared")
    notes = [f"{value:.3f} on {split}" for split, value in (shared or {}).items() if value is not None]
    return f"Mean Spearman over the ranges: {', '.join(notes)}." if notes else ""


TUNING = View(
    "tuning",
    "Tuning",
    _frame,
    (
        Col("range", "range", left=True),
        Col("selected", "selected", flags="flags", left=True),
        Col("κ = λ / t", "kappa", general),
        Col("dev", "dev", three),
        Col("test", "test", three),
        Col("exactly best κ", "exact", left=True, optional=True),
        Col("width", "width", optional=True, page=True),
        Col("dev", "exact_dev", three, optional=True),
        Col("test", "exact_test", three, optional=True),
        Col("grid below it", "below", three, optional=True, page=True),
    ),
    by=["dimension", "decoding"],
    title="{dimension}: {decoding}",
    size="{how}",
    note=_note,
)
"""Lambda and t of each range."""
