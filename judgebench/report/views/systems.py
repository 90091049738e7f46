"""Systems as judges and humans rank them: pairs in the same order, and errors of means."""

from __future__ import annotations

from judgebench.report.formats import is_known, percent, points, two
from judgebench.report.table import Col, Rows, View, records
from judgebench.report.views.correlations import advised_rows
from judgebench.results.results import Results, labelled
from judgebench.stats.scores import Cell


def system_rows(results: Results) -> Rows:
    """The records of systems.json with labels, of conditions with two systems or more; `largest`:
    the largest error of a mean, and its system."""
    several = {(row["dimension"], row["defense"]) for row in results.systems if row["systems"] > 1}
    rows = records(
        labelled(row for row in results.systems if (row["dimension"], row["defense"]) in several)
    )
    for row in rows:
        largest = row.get("error_largest")
        row["largest"] = None if largest is None else f"{two(largest)}: {row['error_system']}"
    return rows


def advised_systems(results: Results) -> Rows:
    """The rows of the settings taken."""
    cells = [Cell.of(row) for row in advised_rows(results)]
    return [
        row
        for row in system_rows(results)
        if Cell.of(row) in cells and is_known(row["pairwise_accuracy"])
    ]


# --- tables -------------------------------------------------------------------------------------

SYSTEMS = View(
    "systems",
    "Systems as humans rank them",
    system_rows,
    (
        Col("range", "range", left=True),
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
            detail="largest",
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
