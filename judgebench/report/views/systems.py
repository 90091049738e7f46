"""Systems as judges and humans rank them: pairs in the same order, errors of means, clusters, and two judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy import stats

from judgebench.report.formats import is_known, no_text, p_value, percent, points, signed_three, signed_two, two
from judgebench.report.say import say
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import best_of, without_assistants
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, Series, labelled
from judgebench.stats.clusters import CONFIDENCE

_BY_CHANCE = 0.05  # where so few of 95 % intervals hold 0 by chance, the judge's means are not the humans'


# --- rows -------------------------------------------------------------------------------------------------------------


def systems_frame(results: Results) -> pd.DataFrame:
    """The records of systems.json of conditions with two systems or more, a row a range and series, with cells as
    text: `size`; `off`, the largest error and its system; `clusters_of_both`; `tied`, the judge's threshold of ties."""
    several = {(row["dimension"], row["defense"]) for row in results.systems if row["systems"] > 1}
    size = f"{{texts}} {results.examples_word} of {{systems}} systems, {{articles}} {results.groups}"
    rows = []
    for row in records(labelled(row for row in results.systems if (row["dimension"], row["defense"]) in several)):
        largest, threshold = row.get("error_largest"), row["tie_threshold"]
        row["size"] = size.format(**row)
        row["off"] = None if largest is None else f"{two(largest)}: {row['error_system']}"
        row["clusters_of_both"] = (
            None if row["clusters"] is None else f"{row['clusters']:.0f} / {row['human_clusters']:.0f}"
        )
        row["tied"] = None if threshold is None else f"tied up to {threshold:.2g}" if threshold else "tied where equal"
        rows.append(row)
    return pd.DataFrame(rows)


def best_judges(results: Results) -> list[dict[str, Any]]:
    """The row of each condition with the most pairs right, of several the one with the highest soft accuracy; as
    `several` of how many it is the best, in words."""
    best = []
    rows_of_all = systems_frame(results)
    for _, part in rows_of_all.groupby("condition", sort=False) if len(rows_of_all) else ():
        rows = without_assistants(records(part[part["pairwise_accuracy"].notna()]))
        if rows:
            row = max(rows, key=lambda row: (row["pairwise_accuracy"], row["soft_pairwise_accuracy"]))
            best.append({**row, "several": best_of(rows) if len(rows) > 1 else ""})
    return best


def _systems_of_best(results: Results) -> pd.DataFrame:
    """A row a system, of the best judge, decoding and range of each condition."""
    titled = [(f"{row['condition']}, {row['series']}, range {row['range']}", row) for row in best_judges(results)]
    return pd.DataFrame([{"title": title, **system} for title, row in titled for system in row["ranking"]])


def _pairs_of_judges(results: Results) -> pd.DataFrame:
    """A row a range and a pair of series that were tested against each other."""
    rows = []
    for row in records(systems_frame(results)):
        for test in row["against"]:
            if test["statistic"] in (None, "spearman"):
                pair = f"{row['series']} less {Series(test['judge'], test['decoding'])}"
                rows.append({"condition": row["condition"], "range": row["range"], **test, "pair": pair})
    return pd.DataFrame(rows)


# --- tables -----------------------------------------------------------------------------------------------------------


def _errors_of_raters(results: Results, rows: pd.DataFrame) -> str:
    """One rater's error from the others, by condition: raters are the same in all of its rows."""
    if "rater_error" not in rows or rows["rater_error"].isna().all():
        return ""
    firsts = records(rows[rows["rater_error"].notna()].drop_duplicates("condition"))
    heads = [f"{row['condition']} " if len(firsts) > 1 else "" for row in firsts]
    errors = [f"{two(row['rater_error'])}, at most {two(row['rater_error_largest'])}" for row in firsts]
    return f"One rater's error, from the others: {', '.join(map(''.join, zip(heads, errors, strict=True)))}."


SYSTEMS = View(
    "systems",
    "Systems as humans rank them",
    systems_frame,
    (
        Col("range", "range", left=True),
        Col("judge, decoding", "series", left=True),
        Col("soft pairs", "soft_pairwise_accuracy", percent, points,
            says="the same with doubt, 1 less the mean distance of both p-values of a pair of systems (soft pairwise "
            "accuracy)"),
        Col("systems like these", "soft_pairwise_accuracy", no_text, points, optional=True,
            interval="soft_pairwise_accuracy_systems", says="the interval of soft pairs with systems resampled, too"),
        Col("pairs", "pairwise_accuracy", percent, points,
            says="share of pairs of systems that judge and humans order alike"),
        Col("judge", "pairwise_others", percent, points, group="as the others", optional=True,
            says="share of pairs of systems that it orders as the other raters do, mean over raters, on the texts of "
            "each"),
        Col("one rater", "pairwise_ceiling", percent, points, group="as the others", optional=True,
            says="the same share of the rater left out"),
        Col("texts with ties", "ties_accuracy", percent, points, detail="tied",
            says="share of pairs of {examples} on one of the {groups} that both order or tie alike, the judge's scores "
            "tied up to the distance that is best for it"),
        Col("clusters", "clusters_of_both", says="of systems not told apart, by the judge / by the humans"),
        Col("raw", "error", two, two, detail="off", group="error", optional=True,
            says="mean distance of the judge's means of systems from the humans', in points of their scale, and the "
            "largest"),
        Col("calibrated", "calibrated_error", two, two, group="error", optional=True,
            says="the same, calibrated by the humans' ratings of other {groups}"),
        Col("other systems", "unseen_error", two, two, group="error", optional=True,
            says="the same, calibrated by ratings of other systems"),
    ),
    by=["condition"],
    title="{condition}",
    size="{size}",
    once=["range"],
    below="reason",
    note=_errors_of_raters,
    brackets="{groups} resampled, for these very systems",
)  # fmt: skip
"""Accuracies over pairs of systems and errors of their means, a row a range and series."""

SYSTEM_TESTS = View(
    "system_tests",
    "Two judges over systems",
    _pairs_of_judges,
    (
        Col("range", "range", left=True),
        Col("difference of", "pair", left=True),
        Col("Spearman", "difference", signed_three, two,
            says="correlation of the systems' means with the humans', first judge less second"),
        Col("p", "p", p_value, says="the two judges' scores of single texts are swapped (PERM-BOTH)"),
        Col("p (Holm)", "p_holm", p_value, says="corrected over all rows of the dimension"),
    ),
    by=["condition"],
    title="{condition}",
    once=["range"],
    below="reason",
    note="Both speak of systems like these, of which there are few.",
    brackets="systems and texts resampled together (BOOT-BOTH)",
)  # fmt: skip
"""Differences of two judges at system level."""

RANKED = View(
    "system_clusters",
    "Clusters of systems",
    _systems_of_best,
    (
        Col("system", "system", left=True),
        Col("judge's mean", "mean", two, two, says="on the humans' scale where it is known"),
        Col("cluster", "cluster", str,
            says="systems of one cluster are not told apart; a new one begins with the first system that some system "
            "of the present one beats (paired permutation, Holm over all pairs)"),
        Col("humans' mean", "human_mean", two, two),
        Col("cluster", "human_cluster", str),
        Col("error", "error", signed_two, signed_two, optional=True, says="judge less humans, text by text"),
    ),
    by=["title"],
    title="{title}",
    note="Of the judge, decoding and range with the most pairs right.",
    brackets="{groups} resampled",
    folded="Clusters of systems: {title}",
)  # fmt: skip
"""The ranking of systems by a dimension's best judge, with the humans'."""


# --- sentences --------------------------------------------------------------------------------------------------------


def means_are_off(row: Mapping[str, Any]) -> str:
    """Such as "off by 0.32 points on average, by 1.23 for the worst", of the systems' means; empty where unknown."""
    if not is_known(row.get("error")):
        return ""
    return f"off by {two(row['error'])} points on average, by {two(row['error_largest'])} for the worst"


def misleads(row: Mapping[str, Any]) -> bool:
    """True where the judge's means are no substitute for the humans': the largest error is clearly more than one
    rater's; where raters are not known, fewer of the systems' errors may be 0 than chance would leave out."""
    if not is_known(row.get("error_largest_low")):
        return False
    if is_known(row["rater_error_largest"]):
        return bool(row["error_largest_low"] > row["rater_error_largest"])
    ends = [(system["error_low"], system["error_high"]) for system in row["ranking"] if system["error_low"] is not None]
    right = sum(low <= 0 <= high for low, high in ends)
    return bool(stats.binom.cdf(right, len(ends), CONFIDENCE[1] - CONFIDENCE[0]) <= _BY_CHANCE)


def system_sentences(results: Results) -> list[str]:
    """A sentence a condition: how many pairs of systems its best judge orders as humans do, compared with one rater,
    and how far its means of systems are off. Without defense, where there is such; none without two systems."""
    best = best_judges(results)
    bare = [row for row in best if row["defense"] == NO_DEFENSE]
    return [
        say("systems", row=row, off=means_are_off(row), misleads=misleads(row), groups=results.groups)
        for row in bare or best
    ]
