"""Systems as judges and humans rank them: pairs in the same order, errors of means, clusters, and
two judges."""

from __future__ import annotations

from judgebench.report.formats import (
    is_known,
    no_text,
    p_value,
    percent,
    points,
    signed_three,
    signed_two,
    two,
)
from judgebench.report.table import Col, Rows, View, records
from judgebench.report.views.correlations import taken_rows
from judgebench.results.results import Results, labelled
from judgebench.stats.scores import Cell


def system_rows(results: Results) -> Rows:
    """The records of systems.json with labels, of conditions with two systems or more; `tied`: how
    far apart the judge's scores may be to count as a tie; `largest`: the largest error of a mean,
    and its system."""
    several = {(row["dimension"], row["defense"]) for row in results.systems if row["systems"] > 1}
    rows = records(
        labelled(row for row in results.systems if (row["dimension"], row["defense"]) in several)
    )
    for row in rows:
        threshold = row["tie_threshold"]
        largest = row.get("error_largest")
        row["largest"] = None if largest is None else f"{two(largest)}: {row['error_system']}"
        row["tied"] = (
            None
            if threshold is None
            else f"tied up to {threshold:.2g}"
            if threshold
            else "tied where equal"
        )
    return rows


def taken_systems(results: Results) -> Rows:
    """The rows of the settings taken."""
    cells = [Cell.of(row) for row in taken_rows(results)]
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
            "systems like these",
            "soft_pairwise_accuracy",
            no_text,
            points,
            optional=True,
            interval="soft_pairwise_accuracy_systems",
            says="the interval of soft pairs with systems resampled, too",
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
            "texts with ties",
            "ties_accuracy",
            percent,
            points,
            detail="tied",
            says="share of pairs of {examples} on one of the {groups} that both order or tie "
            "alike, the judge's scores tied up to the distance that is best for it",
        ),
        Col(
            "clusters",
            "{clusters:.0f} / {human_clusters:.0f}",
            says="of systems that cannot be told apart, by the judge / by the humans",
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


def _tests(results: Results) -> Rows:
    """A row for each test of a series against another one, whose judge and decoding it has."""
    tests = ((row, test) for row in system_rows(results) for test in row["against"])
    return [row | test for row, test in tests if test["statistic"] in (None, "spearman")]


SYSTEM_TESTS = View(
    "system_tests",
    "Two judges over systems",
    _tests,
    (
        Col("range", "range", left=True),
        Col("difference of", "{series} less {judge}, {decoding}", left=True),
        Col(
            "Spearman",
            "difference",
            signed_three,
            two,
            says="correlation of the systems' means with the humans', first judge less second",
        ),
        Col(
            "p", "p", p_value, says="the two judges' scores of single texts are swapped (PERM-BOTH)"
        ),
        Col("p (Holm)", "p_holm", p_value, says="corrected over all rows of the dimension"),
    ),
    by=["condition"],
    once=["range"],
    below="reason",
    note="Both speak of systems like these, of which there are few.",
    brackets="systems and texts resampled together (BOOT-BOTH)",
)
"""Differences of two judges at system level, a row a range and pair of series."""

RANKED = View(
    "system_clusters",
    "Clusters of systems",
    lambda results: [row | system for row in taken_systems(results) for system in row["ranking"]],
    (
        Col("system", "system", left=True),
        Col("judge's mean", "mean", two, two, says="on the humans' scale where it is known"),
        Col(
            "cluster",
            "cluster",
            str,
            says="systems of one cluster cannot be told apart; a new one begins with the first "
            "system that some system of the present one beats (paired permutation, Holm over "
            "all pairs)",
        ),
        Col("humans' mean", "human_mean", two, two),
        Col("cluster", "human_cluster", str),
        Col(
            "error",
            "error",
            signed_two,
            signed_two,
            optional=True,
            says="judge less humans, text by text",
        ),
    ),
    by=["condition"],
    title="{condition}, {series}, range {range}",
    note="Of the setting taken.",
    brackets="{groups} resampled",
)
"""The ranking of systems by the setting taken, with the humans'."""
