"""Agreement with the humans: correlations by range, within groups and over systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, no_text, percent_one, short, singular, span, three
from judgebench.report.table import Block, Col, View, records
from judgebench.report.views.bias import favorite_text
from judgebench.report.views.humans import HUMANS_NOTE, RATERS, with_humans
from judgebench.results.results import Records, Results
from judgebench.results.series import labelled
from judgebench.stats.clusters import FEWEST
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.evaluate import CONSTANT

_CONDITION = ["dimension", "attack", "defense"]


def correlation_frame(results: Results, level: str | None = None, silent: bool = False) -> pd.DataFrame:
    """The metrics of clean texts of the reported split, a row a range and series, the averages over ranges last.

    `<correlation>_best` marks the best of several at one range, where it is above 0.

    Args:
        level: dataset, document or system; None takes the reported one.
        silent: whether assistants that give every text the same score in every range are among them.
    """
    shown = (results.split, level or results.level)
    rows = labelled(record for record in results.clean if (record["split"], record["level"]) == shown)
    if not len(rows):
        return rows
    rows["constant"] = [CONSTANT in (flags or ()) for flags in rows.get("flags", [()] * len(rows))]
    if not silent:
        constant = rows.groupby([*_CONDITION, "series"])["constant"].transform("all")
        rows = rows[~((rows["judge"] == "assistant") & constant)]
    if "clamped_share" in rows and not rows["clamped_share"].any():
        rows["clamped_share"] = None
    parts = [_with_averages(part) for _, part in rows.groupby(_CONDITION, sort=False)]
    return pd.concat(parts, ignore_index=True) if parts else rows.head(0)


def level_note(level: str, groups: str) -> str:
    """Units that are correlated at a level, as words that follow "correlation"."""
    return {
        "dataset": "over all texts",
        "document": f"within each of the {groups}, mean over them",
        "system": "over the systems' mean scores",
    }.get(level, f"at level {level}")


def resampled_note(level: str, groups: str) -> str:
    """Subject of an interval at a level, as words that follow "95 % interval"."""
    return f"{groups} resampled{': for these systems alone' if level == 'system' else ''}"


def _with_averages(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one condition, with sizes, marks, and the averages over several ranges."""
    size = size_of(rows)
    ranges = rows["range"].nunique()
    parts = [_marked(part) for _, part in rows.groupby("range", sort=False)]
    complete = rows.groupby("series", sort=False).filter(lambda part: part["range"].nunique() == ranges)
    if ranges > 1 and len(complete):
        averages = [_average(part) for _, part in complete.groupby("series", sort=False)]
        parts.append(_marked(pd.DataFrame(averages)))
    return pd.concat(parts, ignore_index=True).assign(size=size)


def _average(rows: pd.DataFrame) -> dict[str, Any]:
    settings = set(rows["setting"])
    means = {
        name: rows[name].mean() if rows[name].notna().all() else None
        for name in (*CORRELATIONS, "failed_share", "clamped_share")
        if name in rows
    }
    same = {name: rows[name].iloc[0] for name in (*_CONDITION, "condition", "level", "series", "who", "judge")}
    return same | means | {"range": "average", "setting": settings.pop() if len(settings) == 1 else "λ, t by range"}


def _marked(rows: pd.DataFrame) -> pd.DataFrame:
    """Marks the best of several rows; a judge that always says the same has 0 and would win against inverted ones."""
    best = {name: rows[name].astype(float).max() for name in CORRELATIONS}
    several = len(rows) > 1
    return rows.assign(**{f"{name}_best": several & (rows[name] == best[name]) & (best[name] > 0) for name in best})


def size_of(rows: pd.DataFrame) -> str:
    """On how many examples, groups or systems the rows rest, such as "1440 {examples} of 90 {groups}"."""
    level = rows["level"].iloc[0]
    groups = f"{span(rows['groups'])} {{{'group' if rows['groups'].max() == 1 else 'groups'}}}"
    if level == "document":
        return groups
    examples = "{example}" if rows["n"].max() == 1 else "{examples}"
    return f"{span(rows['n'])} {'systems over' if level == 'system' else f'{examples} of'} {groups}"


def sized(size: str, groups: str, examples: str) -> str:
    """A size of `size_of` in words of one's own, plurals."""
    return size.format(groups=groups, group=singular(groups), examples=examples, example=singular(examples))


def at_level(condition: str, level: str) -> str:
    """A condition with the level that its numbers are of, where that is not the usual one.

    Example:
        >>> at_level("coherence", "dataset"), at_level("coherence", "system")
        ('coherence', 'coherence, system level')
    """
    return condition if level == "dataset" else f"{condition}, {level} level"


def sized_correlations(results: Results, level: str | None = None, silent: bool = False) -> pd.DataFrame:
    """`correlation_frame` with the column `size`, such as "1440 examples of 90 articles", and levels in `condition`."""
    rows = correlation_frame(results, level, silent)
    if len(rows):
        rows["condition"] = [at_level(*pair) for pair in zip(rows["condition"], rows["level"], strict=True)]
        rows["size"] = [sized(size, results.groups, results.examples_word) for size in rows["size"]]
    return rows


def _told(results: Results) -> pd.DataFrame:
    """The correlations with the humans' own, and each judge's favorite score."""
    rows = sized_correlations(results)
    if not len(rows) or results.compares:
        return rows
    rows["favorite"] = [favorite_text(row) for row in records(rows)]
    return with_humans(results, rows)


def _note(results: Results, rows: pd.DataFrame) -> str:
    level, groups = str(rows["level"].iloc[0]), results.groups
    notes = [f"Correlation {level_note(level, groups)}, {results.split} split."]
    if rows["spearman_low"].notna().any():
        notes.append(f"In brackets: 95 % interval, {resampled_note(level, groups)}.")
        if rows["groups"].min() < FEWEST:
            notes.append(few_groups(groups))
    notes += missing_reasons(rows)
    if (rows["range"] == RATERS).any():
        notes.append(HUMANS_NOTE)
    if (rows["range"] == "average").any():
        notes.append("Average: mean over the ranges, without an interval.")
    if "human_agreement" in rows and rows["human_agreement"].notna().any():
        notes.append("Failed: share of pairs of which an answer could not be read; it counts as undecided.")
    else:
        notes.append(
            "Failed: share of answers that could not be read; the lowest score of the range stands in for them."
        )
    if rows["clamped_share"].notna().any():
        notes.append("Clamped: share of answers outside the range, moved to its nearest end.")
    if len(correlation_frame(results, level, silent=True)) > (rows["range"] != RATERS).sum():
        notes.append("The assistant is left out where it gives every text the same score.")
    if results.titles.get("note") and level == results.level:
        notes.append(str(results.titles["note"]))
    return " ".join(notes)


def without_assistants(rows: Records) -> list[Mapping[str, Any]]:
    """The rows among which a page picks the best: assistants are no judges to choose, unless a run has nothing else."""
    judges = [row for row in rows if row["judge"] != "assistant"]
    return judges or list(rows)


def best_of(rows: Records) -> str:
    """The number of rows that the best was picked from, and what they are.

    Example:
        >>> best_of([{"range": one, "series": other} for one in ("1-5", "0-4") for other in ("main", "pair")])
        'the best of 4 combinations of judge, decoding and range'
    """
    series, ranges = (len({str(row[name]) for row in rows}) for name in ("series", "range"))
    if ranges == 1:
        kinds = "judges and decodings"
    else:
        kinds = "ranges" if series == 1 else "combinations of judge, decoding and range"
    return f"the best of {len(rows)} {kinds}"


def few_groups(groups: str) -> str:
    """The warning of intervals that rest on fewer than `FEWEST` groups."""
    return f"Fewer than {FEWEST} {groups}: the intervals are too narrow, and no difference is called significant."


def missing_reasons(rows: pd.DataFrame) -> list[str]:
    """The reasons for correlations and intervals that are missing, each once."""
    columns = [rows[name] for name in ("missing_document", "missing") if name in rows]
    return list(dict.fromkeys(str(one) for column in columns for one in column if is_known(one) and one))


_COLUMNS = (
    Col("range", "range", left=True, width=9),
    Col("judge, decoding", "who", detail="setting", flags="flags", left=True, width=23),
    *(Col(name.capitalize(), name, three, ends=short, marked=f"{name}_best") for name in CORRELATIONS),
    Col("beside humans", "spearman_others", three, ends=short, page=True, optional=True),
    Col("favorite score", "favorite", left=True, page=True, optional=True),
    Col("failed", "failed_share", percent_one),
    Col("clamped", "clamped_share", percent_one, optional=True),
)

CORRELATION = View(
    "correlations",
    "Agreement with the humans",
    _told,
    _COLUMNS,
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    sections=["range"],
    once=["range"],
    note=_note,
    marks="best of its range, if above 0",
)
"""Correlations at the reported level."""


def other_levels(results: Results) -> list[Block]:
    """The correlations at the levels that are not the reported one, folded."""
    levels = dict.fromkeys(str(record["level"]) for record in results.metrics if record["split"] == results.split)
    found: list[Block] = []
    for level in levels:
        if level != results.level and not (level == "system" and _of_one_system(correlation_frame(results, level))):
            folded = f"{{condition}}: correlation {level_note(level, results.groups)}"
            view = replace(
                CORRELATION, name=f"correlations_{level}", frame=partial(sized_correlations, level=level), folded=folded
            )
            found += view.tables(results)
    return found


# --- within groups, and over systems ----------------------------------------------------------------------------------


def _levels_frame(results: Results) -> pd.DataFrame:
    """A row a range and series with Spearman at document and system level; assistants are left out."""
    document, system = (correlation_frame(results, level) for level in ("document", "system"))
    if _of_one_system(system) and (not len(document) or document["groups"].max() < 2):
        return pd.DataFrame()  # nothing but what is over all texts
    parts = []
    if len(document):
        names = {"spearman": "within", "spearman_low": "within_low", "spearman_high": "within_high"}
        parts.append(document.rename(columns=names))
    if len(system):
        names = {"spearman": "over", "spearman_low": "over_low", "spearman_high": "over_high"}
        kept = [*_CONDITION, "range", "series", "size", "missing", *names]
        kept += [name for name in ("spearman_systems_low", "spearman_systems_high") if name in system]
        kept = [name for name in kept if name in system] if parts else list(system.columns)
        parts.append(system[kept].rename(columns=names))
    if not parts:
        return pd.DataFrame()
    keys = [*_CONDITION, "range", "series"]
    rows = parts[0] if len(parts) == 1 else parts[0].merge(parts[1], on=keys, how="left", suffixes=("_document", ""))
    rows = rows[(rows["judge"] != "assistant") & (rows["range"] != "average")]
    columns = [rows[name] for name in ("within", "over") if name in rows]
    if not any(column.notna().any() for column in columns):
        return rows.head(0)
    rows = rows.assign(without=pd.Series([_without(row) for row in records(rows)], index=rows.index, dtype=object))
    sizes = rows["size_document" if _of_one_system(system) else "size"]
    rows["size"] = [sized(str(size), results.groups, results.examples_word) for size in sizes]
    return rows


def _of_one_system(rows: pd.DataFrame) -> bool:
    """True of rows at system level whose texts are all of one system, so that they have no correlation."""
    return len(rows) > 0 and rows["n"].max() < 2


def _without(row: dict[str, Any]) -> str | None:
    """The mean within groups without the silent ones, and how many these are."""
    silent = row.get("human_constant_groups")
    return None if silent is None else f"{three(row.get('spearman_varied'))} ({int(silent)})"


def _levels_note(results: Results, rows: pd.DataFrame) -> str:
    notes, groups = [], results.groups
    if "within" in rows and rows["within"].notna().any():
        notes.append(
            f"Within: Spearman within each of the {groups}, mean over them; those whose humans gave all texts one "
            "score say nothing of the judge and count as 0. Without: the mean without them, and their number."
        )
    if "over" in rows and rows["over"].notna().any():
        notes.append("Systems: Spearman of the systems' mean scores.")
        if rows["over_low"].notna().any():
            notes.append(
                f"These: 95 % interval for these very systems, {groups} resampled. Others: for systems like these, "
                f"systems and {groups} resampled."
            )
    return " ".join([*notes, *missing_reasons(rows)])


LEVELS = View(
    "levels",
    "Within groups, and over systems",
    _levels_frame,
    [
        Col("range", "range", left=True),
        Col("judge, decoding", "series", left=True),
        Col("within", "within", three, ends=short, optional=True),
        Col("without", "without", optional=True),
        Col("systems", "over", three, optional=True),
        Col("these", "over", no_text, ends=short, optional=True),
        Col("others", "spearman_systems", no_text, ends=short, optional=True),
    ],
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    note=_levels_note,
)
"""Spearman at document and system level."""
