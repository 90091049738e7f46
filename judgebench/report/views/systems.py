"""Systems as judges and humans rank them: pairs in the same order, and errors of means."""

from __future__ import annotations

from judgebench.report.table import Col, View, labelled_rows, values
from judgebench.report.views.correlations import of_cells
from judgebench.results.results import Results
from judgebench.types import Rows
from judgebench.words.formats import is_known, percent, points, two


def system_rows(results: Results) -> Rows:
    """The records of systems.json with labels, of conditions with two systems or more."""
    names = ("dimension", "defense")
    several = {values(row, names) for row in results.systems if row["systems"] > 1}
    return labelled_rows(row for row in results.systems if values(row, names) in several)


def advised_systems(results: Results) -> Rows:
    """The rows of the advised settings."""
    rows = of_cells(results, system_rows(results))
    return [row for row in rows if is_known(row["pairwise_accuracy"])]


# --- tables -------------------------------------------------------------------------------------

SYSTEMS = View(
    "systems",
    "Systems as humans rank them",
    system_rows,
    (
        Col("range", left=True),
        Col("judge, decoding", "series", left=True),
        Col(
            "soft pairs",
            "soft_pairwise_accuracy",
            percent,
            points,
            says="share of pairs of systems that judge and humans order alike, with its doubt: 1 "
            "less the mean distance of both p-values (soft pairwise accuracy)",
        ),
        Col(
            "pairs",
            "pairwise_accuracy",
            percent,
            points,
            says="the same without doubt: the order of the means alone counts",
        ),
        Col(
            "judge",
            "pairwise_others",
            percent,
            points,
            group="as the others",
            optional=True,
            says="share of pairs of systems that it orders as the other raters do, mean over "
            "raters, on the texts of each",
        ),
        Col(
            "one rater",
            "pairwise_ceiling",
            percent,
            points,
            group="as the others",
            optional=True,
            says="the same share of the rater left out",
        ),
        Col(
            "raw",
            "error",
            two,
            two,
            detail="{error_largest:two}: {error_system}",
            group="error",
            optional=True,
            says="mean distance of the judge's means of systems from the humans', in points of "
            "their scale, and the largest",
        ),
        Col(
            "calibrated",
            "calibrated_error",
            two,
            two,
            group="error",
            optional=True,
            says="the same, calibrated by the humans' ratings of other {groups}",
        ),
        Col(
            "other systems",
            "unseen_error",
            two,
            two,
            group="error",
            optional=True,
            says="the same, calibrated by ratings of other systems",
        ),
    ),
    by=["condition"],
    size="{texts} {examples_word} of {systems} systems, {articles} {groups_word}",
    once=["range"],
    below="reason",
    note="system_errors.txt",
    brackets="{groups} resampled, for these very systems",
)
"""Accuracies over pairs of systems and errors of their means, a row a range and series."""
