"""Agreement with the humans: correlations by range, within groups and over systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from judgebench.report.formats import no_text, percent_one, short, singular, span, three
from judgebench.report.table import Block, Col, View, few_groups, records
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
    parts = []
    for _, condition in rows.groupby(_CONDITION, sort=False):
        size, ranges = size_of(condition), condition["range"].nunique()
        blocks = [part for _, part in condition.groupby("range", sort=False)]
        complete = condition[condition.groupby("series", sort=False)["range"].transform("nunique") == ranges]
        if ranges > 1 and len(complete):
            averages = [_average(part) for _, part in complete.groupby("series", sort=False)]
            blocks.append(pd.DataFrame(averages))
        # The best of several is marked; a judge that always says the same has 0 and would win against inverted ones.
        for block in blocks:
            best = {name: block[name].astype(float).max() for name in CORRELATIONS}
            marks = {f"{name}_best": (len(block) > 1) & (block[name] == best[name]) & (best[name] > 0) for name in best}
            parts.append(block.assign(**marks, size=size))
    return pd.concat(parts, ignore_index=True) if parts else rows.head(0)


def _average(rows: pd.DataFrame) -> dict[str, Any]:
    """The means of a series over its ranges."""
    settings = set(rows["setting"])
    means = {
        name: rows[name].mean() if rows[name].notna().all() else None
        for name in (*CORRELATIONS, "failed_share", "clamped_share")
        if name in rows
    }
    same = {name: rows[name].iloc[0] for name in (*_CONDITION, "condition", "level", "series", "who", "judge")}
    return same | means | {"range": "average", "setting": settings.pop() if len(settings) == 1 else "λ, t by range"}


def level_note(level: str, groups: str) -> str:
    """Units that are correlated at a level, as words that follow "correlation"."""
    return {
        "dataset": "over all texts",
        "document": f"within each of the {groups}, mean over them",
        "system": "over the systems' mean scores",
    }.get(level, f"at level {level}")


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


def _shown(results: Results) -> pd.DataFrame:
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
        systems = ": for these systems alone" if level == "system" else ""
        notes.append(f"In brackets: 95 % interval, {groups} resampled{systems}.")
        notes += [few_groups(groups)] if rows["groups"].min() < FEWEST else []
    notes += [HUMANS_NOTE] if (rows["range"] == RATERS).any() else []
    notes += ["Average: mean over the ranges, without an interval."] if (rows["range"] == "average").any() else []
    pairs = "human_agreement" in rows and rows["human_agreement"].notna().any()
    notes.append(
        "Failed: share of pairs of which an answer could not be read; it counts as undecided."
        if pairs
        else "Failed: share of answers that could not be read; the lowest score of the range stands in for them."
    )
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


CORRELATION = View(
    "correlations",
    "Agreement with the humans",
    _shown,
    (
        Col("range", "range", left=True, width=9),
        Col("judge, decoding", "who", detail="setting", flags="flags", left=True, width=23),
        *(Col(name.capitalize(), name, three, short, marked=f"{name}_best") for name in CORRELATIONS),
        Col("beside humans", "spearman_others", three, short, page=True, optional=True),
        Col("favorite score", "favorite", left=True, page=True, optional=True),
        Col("failed", "failed_share", percent_one),
        Col("clamped", "clamped_share", percent_one, optional=True,
            says="share of answers outside the range, moved to its nearest end"),
    ),
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    sections=["range"],
    once=["range"],
    note=_note,
    reasons=["missing_document", "missing"],
    marks="best of its range, if above 0",
)  # fmt: skip
"""Correlations at the reported level."""


def other_levels(results: Results) -> list[Block]:
    """The correlations at the levels that are not the reported one, folded."""
    tables: list[Block] = []
    for level in dict.fromkeys(str(record["level"]) for record in results.metrics if record["split"] == results.split):
        single = level == "system" and _of_one_system(correlation_frame(results, level))
        if level != results.level and not single:
            folded = f"{{condition}}: correlation {level_note(level, results.groups)}"
            frame = partial(sized_correlations, level=level)
            tables += replace(CORRELATION, name=f"correlations_{level}", frame=frame, folded=folded).tables(results)
    return tables


# --- within groups, and over systems ----------------------------------------------------------------------------------


def _of_one_system(rows: pd.DataFrame) -> bool:
    """True of rows at system level whose texts are all of one system, so that they have no correlation."""
    return len(rows) > 0 and rows["n"].max() < 2


def _levels_frame(results: Results) -> pd.DataFrame:
    """A row a range and series with Spearman at document and system level; assistants are left out."""
    document, system = (correlation_frame(results, level) for level in ("document", "system"))
    single, keys = _of_one_system(system), [*_CONDITION, "range", "series"]
    if single and (not len(document) or document["groups"].max() < 2):
        return pd.DataFrame()  # nothing but what is over all texts
    parts: list[pd.DataFrame] = []
    for frame, name in ((document, "within"), (system, "over")):
        if len(frame):
            frame = frame.rename(columns={f"spearman{end}": f"{name}{end}" for end in ("", "_low", "_high")})
            if parts:
                kept = [*keys, "size", "missing", "over", "over_low", "over_high"]
                kept += ["spearman_systems_low", "spearman_systems_high"]
                frame = parts.pop().merge(
                    frame[[name for name in kept if name in frame]], on=keys, how="left", suffixes=("_document", "")
                )
            parts.append(frame)
    if not parts:
        return pd.DataFrame()
    rows = parts[0][(parts[0]["judge"] != "assistant") & (parts[0]["range"] != "average")]
    if not any(rows[name].notna().any() for name in ("within", "over") if name in rows):
        return rows.head(0)
    without = [
        None if row.get("human_constant_groups") is None
        else f"{three(row.get('spearman_varied'))} ({int(row['human_constant_groups'])})"
        for row in records(rows)
    ]  # fmt: skip
    rows = rows.assign(without=pd.Series(without, index=rows.index, dtype=object))
    sizes = rows["size_document" if single else "size"]
    rows["size"] = [sized(str(size), results.groups, results.examples_word) for size in sizes]
    return rows


LEVELS = View(
    "levels",
    "Within groups, and over systems",
    _levels_frame,
    [
        Col("range", "range", left=True),
        Col("judge, decoding", "series", left=True),
        Col("within", "within", three, short, optional=True,
            says="Spearman within each of the {groups}, mean over them; those whose humans gave all texts one score "
            "say nothing of the judge and count as 0"),
        Col("without", "without", optional=True, says="the mean without these, and their number"),
        Col("systems", "over", three, optional=True, says="Spearman of the systems' mean scores"),
        Col("these", "over", no_text, short, optional=True,
            says="95 % interval for these very systems, {groups} resampled"),
        Col("others", "spearman_systems", no_text, short, optional=True,
            says="for systems like these, systems and {groups} resampled"),
    ],
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    reasons=["missing_document", "missing"],
)  # fmt: skip
"""Spearman at document and system level."""
