"""Systems ranked by judges beside humans: accuracy over pairs, clusters, means, two judges; as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy import stats

from judgebench.report.formats import (
    bounded,
    is_known,
    no_text,
    p_value,
    percent,
    points,
    signed_three,
    signed_two,
    two,
)
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import best_of, few_groups, without_assistants
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, Series, labelled
from judgebench.stats.clusters import CONFIDENCE, FEWEST

_BY_CHANCE = 0.05  # where so few of 95 % intervals hold 0 by chance, the judge's means are not the humans'


def systems_frame(results: Results) -> pd.DataFrame:
    """The records of systems.json of conditions with two systems or more, a row a range and series.

    Besides what `labelled` adds: `size`; `off`, the largest error and its system; `told`, clusters of judge / humans.
    """
    several = {(row["dimension"], row["defense"]) for row in results.systems if row["systems"] > 1}
    rows = labelled(row for row in results.systems if (row["dimension"], row["defense"]) in several)
    if len(rows):
        sizes = zip(rows["texts"], rows["systems"], rows["articles"], strict=True)
        word, groups = results.examples_word, results.groups
        rows["size"] = [f"{texts} {word} of {systems} systems, {many} {groups}" for texts, systems, many in sizes]
        rows["off"] = [
            f"{two(row['error_largest'])}: {row['error_system']}" if is_known(row.get("error_largest")) else None
            for row in records(rows)
        ]
        clusters = zip(rows["clusters"], rows["human_clusters"], strict=True)
        rows["told"] = [f"{one:.0f} / {other:.0f}" if is_known(one) else None for one, other in clusters]
        rows["tied"] = [_tied(one) for one in rows["tie_threshold"]]
    return rows


def means_are_off(row: Mapping[str, Any]) -> str | None:
    """Such as "off by 0.32 points on average, by 1.23 for the worst", of the systems' means."""
    if not is_known(row.get("error")):
        return None
    return f"off by {two(row['error'])} points on average, by {two(row['error_largest'])} for the worst"


def misleads(row: Mapping[str, Any]) -> bool:
    """True where the judge's means are no substitute for the humans': the largest error is clearly more than one
    rater's; where raters are not known, fewer of the systems' errors may be 0 than chance would leave out."""
    if not is_known(row.get("error_largest_low")):
        return False
    if is_known(row["rater_error_largest"]):
        return bool(row["error_largest_low"] > row["rater_error_largest"])
    ends = [(one["error_low"], one["error_high"]) for one in row["ranking"] if one["error_low"] is not None]
    right = sum(low <= 0 <= high for low, high in ends)
    return bool(stats.binom.cdf(right, len(ends), CONFIDENCE[1] - CONFIDENCE[0]) <= _BY_CHANCE)


def _tied(threshold: float | None) -> str | None:
    if not is_known(threshold):
        return None
    return f"tied up to {threshold:.2g}" if threshold else "tied where equal"


def _note(results: Results, rows: pd.DataFrame) -> str:
    groups = results.groups
    notes = [
        "Pairs: share of pairs of systems that judge and humans order alike. Soft pairs: the same with doubt, 1 less "
        "the mean distance of both p-values of a pair (soft pairwise accuracy). Texts with ties: share of pairs of "
        f"{results.examples_word} on one of the {groups} that both order or tie alike, the judge's scores tied up to "
        "the distance that is best for it. Clusters: of systems not told apart, by the judge / by the humans."
    ]
    if "pairwise_ceiling" in rows and rows["pairwise_ceiling"].notna().any():
        notes.append(
            "As the others: share of pairs that the judge, and one rater, order as the other raters do (mean over "
            "raters, on the texts of each)."
        )
    if "error" in rows and rows["error"].notna().any():
        rater = "" if rows["rater_error"].isna().all() else f" One rater's, from the others: {_raters_errors(rows)}."
        notes.append(
            "Error: mean distance of the judge's means of systems from the humans', in points of their scale, and the "
            f"largest; calibrated: by the humans' ratings of other {groups}, and of other systems.{rater}"
        )
    if rows["pairwise_accuracy_low"].notna().any():
        notes.append(
            f"In brackets: 95 % interval, {groups} resampled, for these very systems; systems like these: systems "
            "resampled as well."
        )
    if rows["articles"].min() < FEWEST:
        notes.append(few_groups(groups))
    return " ".join(notes)


def _raters_errors(rows: pd.DataFrame) -> str:
    """By condition, for raters are the same in all of its rows."""
    firsts = rows[rows["rater_error"].notna()].drop_duplicates("condition")
    several = len(firsts) > 1
    errors = zip(firsts["condition"], firsts["rater_error"], firsts["rater_error_largest"], strict=True)
    return ", ".join(f"{f'{name} ' if several else ''}{two(mean)}, at most {two(most)}" for name, mean, most in errors)


SYSTEMS = View(
    "systems",
    "Systems as humans rank them",
    systems_frame,
    (
        Col("range", "range", left=True),
        Col("judge, decoding", "series", left=True),
        Col("soft pairs", "soft_pairwise_accuracy", percent, ends=points),
        Col("systems like these", "soft_pairwise_accuracy", no_text, ends=points,
            interval="soft_pairwise_accuracy_systems", optional=True),
        Col("pairs", "pairwise_accuracy", percent, ends=points),
        Col("judge", "pairwise_others", percent, ends=points, group="as the others", optional=True),
        Col("one rater", "pairwise_ceiling", percent, ends=points, group="as the others", optional=True),
        Col("texts with ties", "ties_accuracy", percent, ends=points, detail="tied"),
        Col("clusters", "told"),
        Col("raw", "error", two, ends=two, detail="off", group="error", optional=True),
        Col("calibrated", "calibrated_error", two, ends=two, group="error", optional=True),
        Col("other systems", "unseen_error", two, ends=two, group="error", optional=True),
    ),
    by=["condition"],
    title="{condition}",
    size="{size}",
    once=["range"],
    below="reason",
    note=_note,
)  # fmt: skip
"""Accuracies over pairs of systems, a row a range and series."""


def _tests(results: Results) -> pd.DataFrame:
    rows = []
    for row in systems_frame(results).to_dict("records"):
        for one in row["against"]:
            if one["statistic"] in (None, "spearman"):
                than = str(Series(one["judge"], one["decoding"]))
                rows.append({name: row[name] for name in ("condition", "range")} | one | {
                    "pair": f"{row['series']} less {than}", "reason": one["reason"]})  # fmt: skip
    return pd.DataFrame(rows)


SYSTEM_TESTS = View(
    "system_tests",
    "Two judges over systems",
    _tests,
    (
        Col("range", "range", left=True),
        Col("difference of", "pair", left=True),
        Col("Spearman", "difference", signed_three, ends=two),
        Col("p", "p", p_value),
        Col("p (Holm)", "p_holm", p_value),
    ),
    by=["condition"],
    title="{condition}",
    once=["range"],
    below="reason",
    note="Correlation of the systems' means with the humans'. In brackets: 95 % interval, systems and texts resampled "
    "together (BOOT-BOTH). p: the two judges' scores of single texts are swapped (PERM-BOTH); Holm: over all rows of "
    "the dimension. Both speak of systems like these, of which there are few.",
)
"""Differences of two judges at system level."""


def _ranked(results: Results) -> pd.DataFrame:
    rows = []
    for best in _best(results):
        head = {"title": f"{best['condition']}, {best['series']}, range {best['range']}"}
        for one in best["ranking"]:
            rows.append(head | one)
    return pd.DataFrame(rows)


RANKED = View(
    "system_clusters",
    "Clusters of systems",
    _ranked,
    (
        Col("system", "system", left=True),
        Col("judge's mean", "mean", two, ends=two),
        Col("cluster", "cluster", str),
        Col("humans' mean", "human_mean", two, ends=two),
        Col("cluster", "human_cluster", str),
        Col("error", "error", signed_two, ends=signed_two, optional=True),
    ),
    by=["title"],
    title="{title}",
    note="Of the judge, decoding and range with the most pairs right. Systems of one cluster are not told apart: a new "
    "one begins with the first system that some system of the present one beats (paired permutation, Holm over all "
    "pairs). Means are on the humans' scale where it is known. In brackets: 95 % interval. Error: judge less humans, "
    "text by text.",
    folded="Clusters of systems: {title}",
)
"""The ranking of systems by a dimension's best judge, beside the humans'."""


def _best(results: Results) -> list[dict[str, Any]]:
    """The row of each condition with the most pairs right, of several the one with the highest soft accuracy;
    `several`: of how many it is the best, in words."""
    rows = systems_frame(results)
    if not len(rows):
        return []
    found = []
    for _, part in rows.groupby("condition", sort=False):
        known = without_assistants(records(part[part["pairwise_accuracy"].notna()]))
        if known:
            best = max(known, key=lambda row: (row["pairwise_accuracy"], row["soft_pairwise_accuracy"]))
            found.append({**best, "several": best_of(known) if len(known) > 1 else ""})
    return found


def system_sentences(results: Results) -> list[str]:
    """One sentence a dimension: how many pairs of systems the judge with the most of them orders as humans do, and
    whether its means are the humans'. Without defense, where there is such; none where no two systems are known."""
    found = _best(results)
    bare = [one for one in found if one["defense"] == NO_DEFENSE]
    return [_sentence(one, results.groups) for one in bare or found]


def _sentence(row: Mapping[str, Any], groups: str) -> str:
    where, few = "", ""
    others = is_known(row.get("pairwise_others"))
    if row["several"]:
        where = f" in range {row['range']}"
        few = f" It is {row['several']}, so this share is optimistic."
    share = bounded(row, "pairwise_others" if others else "pairwise_accuracy", points, percent)
    sentence = f"{row['condition']}: {row['series']}{where} orders {share} of pairs of systems as humans do"
    if others:
        sentence += f", one rater {bounded(row, 'pairwise_ceiling', points, percent)} as the others"
    if means_are_off(row) is None:
        return f"{sentence}.{few}"
    if row["articles"] < FEWEST:
        return f"{sentence}, over too few {groups} to tell that from chance.{few}"
    advice = ": do not report them as human scores" if misleads(row) else ""
    return f"{sentence}; its means of systems are {means_are_off(row)}{advice}.{few}"
