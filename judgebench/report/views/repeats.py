"""The same judge asked again: what of its scores is chance."""

from __future__ import annotations

from typing import Any

from judgebench.report.table import Col, View, labelled_rows
from judgebench.results.results import Results
from judgebench.studies.repeats import WIDTHS
from judgebench.types import Row, Rows
from judgebench.words.formats import percent, points, two


def repeat_rows(results: Results) -> Rows:
    """The records of repeats.json, with the answers that each width needs."""
    rows = labelled_rows(results.repeats)
    for row in rows:
        for part in row["needed"]:
            row[_key(part["width"])] = part["answers"]
    return rows


def _key(width: float) -> str:
    return f"needed_{round(100 * width)}"


def _range_of(row: Row) -> Any:
    """The range, or that the row is over all of them."""
    return row["range"] if row["range_min"] is not None else "all ranges"


_SHARE = "share of the variance of a score that is due to "

REPEATS = View(
    "repeats",
    "The same judge asked again",
    repeat_rows,
    (
        Col("range", _range_of, left=True),
        Col("text", "texts_share", percent, points, says=f"{_SHARE}the text"),
        Col("range's", "range_share", percent, points, optional=True, says=f"{_SHARE}the range"),
        Col("chance", "repeat_share", percent, points, says=f"{_SHARE}the repeat of one prompt"),
        Col(
            "differ",
            "changed",
            percent,
            points,
            says="share of pairs of answers to one prompt with different scores",
        ),
        Col(
            "flip",
            "flipped",
            percent,
            points,
            optional=True,
            says="share of such pairs of which one passes and one fails",
        ),
        Col("spread", form=two, says="standard deviation of an answer, as part of the range"),
        *(
            Col(
                f"within {width:.0%}".replace("%", " %"),
                _key(width),
                optional=True,
                says="answers whose mean is so near to the mean of all, as part of the range, in "
                "95 of 100 cases",
            )
            for width in WIDTHS
        ),
    ),
    by=["condition"],
    size="{texts} {examples_word} of {groups} {groups_word}, up to {repeats} answers each",
    below="reason",
    brackets="{groups} resampled",
)
"""Chance in the scores, a row a range."""
