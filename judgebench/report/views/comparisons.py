"""Paired differences between judges: their table, and what they say in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from judgebench.report.formats import p_value, rounded_up, signed_three, spaced, three
from judgebench.report.table import Block, Col, View, records
from judgebench.report.views.correlations import at_level
from judgebench.results.results import Records, Results, unattacked
from judgebench.results.series import condition_text, range_of, setting, shown_split
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.levels import shown_level
from judgebench.stats.paired import BETTER, NOT_SIGNIFICANT, WORSE

SHOWN = "spearman"
_WHO = ("first_judge", "first_decoding", "second_judge", "second_decoding")
_BY = ["dimension", "attack", "defense", "first_name", "second_name"]


def comparison_frame(comparisons: Records, groups: str, statistic: str = SHOWN) -> pd.DataFrame:
    """The records of comparisons.json for one statistic, of the reported split and level, a row a range, means last.

    Added are `condition`, `first_name` and `second_name` (judge and decoding), `place` (the range, or what the mean is
    over), `mean`, `significant` (after Holm's correction), `verdict` with a `remark`, and, where a difference is not
    significant, `needed` and `needed_for`: groups for 80 % power, for this difference and for one of 0.05.
    """
    shown = {
        "split": shown_split(record["split"] for record in comparisons),
        "level": shown_level(record["level"] for record in comparisons),
        "statistic": statistic,
    }
    rows = [dict(record) for record in comparisons if all(record[name] == value for name, value in shown.items())]
    blocks: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        blocks.setdefault(tuple(row[name] for name in ("dimension", "attack", "defense", *_WHO)), []).append(row)
    found = []
    for block in blocks.values():
        block.sort(key=_range_order)
        places = [place_of(row) for row in block]
        several = len(set(places)) < len(places)  # lambdas tried side by side in one range
        for row, place in zip(block, places, strict=True):
            found.append(row | _labels(row, shown["level"], groups) | {"place": place})
            if several:
                found[-1]["place"] += f", {setting_of(row)}"
    return pd.DataFrame(found)


def place_of(record: dict[str, Any]) -> str:
    """The range that a paired difference is of, or what its mean is over."""
    return f"mean of {record['ranges']} ranges" if record["range_min"] is None else str(range_of(record))


def setting_of(record: dict[str, Any], side: str = "first") -> str:
    """Lambda and t of one side of a paired difference, see `setting`."""
    return setting({"lambda": record[f"{side}_lambda"], "temperature": record[f"{side}_temperature"]})


def _labels(row: dict[str, Any], level: str, groups: str) -> dict[str, Any]:
    significant = row["says"] in (BETTER, WORSE)
    undecided = row["says"] == NOT_SIGNIFICANT and row["low"] is not None and row["low"] <= 0 <= row["high"]
    return {
        "condition": at_level(condition_text(row), level),
        "first_name": f"{row['first_judge']}, {row['first_decoding']}",
        "second_name": f"{row['second_judge']}, {row['second_decoding']}",
        "mean": row["range_min"] is None,
        "difference_low": row["low"],
        "difference_high": row["high"],
        "significant": significant,
        "verdict": "no interval" if row["low"] is None else row["says"] or "not tested: selected on these texts",
        "remark": _remark(row, groups),
        "needed": row["groups_needed"] if undecided else None,
        "needed_for": row["groups_needed_for_0.05"] if undecided and row["groups_needed"] else None,
    }


def _range_order(record: dict[str, Any]) -> tuple[Any, ...]:
    """By range as in all tables, whatever their order in the configuration; means last."""
    mean = record["range_min"] is None
    return mean, () if mean else range_of(record).order


def _remark(row: dict[str, Any], groups: str) -> str:
    """The reason why a difference is not significant although its interval leaves out 0; else empty."""
    if row["says"] != NOT_SIGNIFICANT or row["low"] is None or row["low"] <= 0 <= row["high"]:
        return ""
    if row["groups"] < FEWEST:
        return f"a test needs at least {FEWEST} {groups}; here {row['groups']}"
    corrected = row["p"] is not None and row["p"] <= SIGNIFICANCE
    return f"the interval leaves out 0, but p{' after Holm' if corrected else ''} is above {SIGNIFICANCE}"


def _because(row: dict[str, Any]) -> str:
    """The remark of a sentence about a difference that is not significant. How many groups would make this very
    difference significant is not said: that number is p over again."""
    return f" ({row['remark']})" if row["remark"] else ""


def comparison_note(rows: pd.DataFrame, groups: str, together: bool = False) -> str:
    """The meaning of the comparisons' numbers.

    Args:
        together: whether Holm's correction is over all that is shown, and not over each dimension by itself.
    """
    text = f"First - second: difference in {SHOWN.capitalize()}"
    if rows["low"].notna().any():
        text += f" [95 % interval, {groups} resampled]"
    if rows["p"].notna().any():
        text += f". p: paired permutation test over whole {groups}; Holm: corrected over {_family(rows, together)}."
        text += (
            f" Needed: {groups} for 80 % power, for this difference and for one of 0.05, before Holm's correction; "
            f"here {_counts(rows['groups'])}"
        )
    return f"{text}."


def _family(rows: pd.DataFrame, together: bool) -> str:
    """The comparisons over which Holm's correction is: on the page, or of each dimension, attack and defense."""
    counts = sorted({int(one) for one in rows["comparisons"].dropna()} or {len(rows)})
    several = "" if counts == [1] else "s"
    if together:
        return f"{'all ' if several else ''}the {counts[-1]} comparison{several} of this page"
    if counts == [1]:
        return "the one comparison of the dimension"
    alone = rows["condition"].nunique() == 1
    listed = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"the {listed} comparison{several} of {'the dimension' if alone else 'each dimension by itself'}"


def _counts(column: pd.Series) -> str:
    known = column.dropna().astype(int)
    return f"{known.min()}" if known.nunique() == 1 else f"{known.min()} to {known.max()}"


def comparison_view(statistic: str = SHOWN, folded: bool = False) -> View:
    """The table of one statistic."""
    return View(
        "comparisons" if statistic == SHOWN else f"comparisons_{statistic}",
        f"Differences in {statistic.capitalize()}",
        lambda results: comparison_frame(unattacked(results.comparisons), results.groups, statistic),
        COLUMNS,
        by=_BY,
        title="{condition}: {first_name} against {second_name}",
        sections=["mean"],
        below="remark",
        note="" if folded else lambda results, rows: comparison_note(rows, results.groups),
        marks="" if folded else "significant after Holm's correction",
        folded=f"{{condition}}: the same in {statistic.capitalize()}" if folded else "",
    )


COLUMNS = (
    Col("range", "place", left=True, width=11),
    Col("first", "first", three),
    Col("second", "second", three),
    Col("first - second", "difference", signed_three, ends=signed_three, marked="significant"),
    Col("p", "p", p_value),
    Col("p, Holm", "p_holm", p_value),
    Col("needed", "needed", rounded_up, optional=True),
    Col("for 0.05", "needed_for", rounded_up, optional=True),
    Col("verdict", "verdict", left=True),
)

COMPARISONS = comparison_view()
"""Differences in Spearman between judges and decodings."""


def other_statistics(results: Results) -> list[Block]:
    """The same in the other correlations, folded."""
    others = [name for name in CORRELATIONS if name != SHOWN]
    return [table for name in others for table in comparison_view(name, folded=True).tables(results)]


def change_sentences(results: Results) -> list[str]:
    """One sentence a comparison against the main model: where contrasting changes Spearman significantly."""
    return [
        _change_sentence(records(part))
        for part in _compared(comparison_frame(unattacked(results.comparisons), results.groups))
        if str(part["second_judge"].iloc[0]) == "main"
    ]


def _compared(frame: pd.DataFrame) -> Sequence[pd.DataFrame]:
    return [part for _, part in frame.groupby(_BY, sort=False)] if len(frame) else []


def _change_sentence(block: list[dict[str, Any]]) -> str:
    rows, means = ([row for row in block if row["mean"] is mean] for mean in (False, True))
    head = f"{block[0]['condition']}: {block[0]['first_name']}, against {block[0]['second_name']},"
    changes = [row["difference"] for row in rows]
    spread = f"{signed_three(min(changes))} to {signed_three(max(changes))}"
    if any(row["low"] is None for row in rows):
        extent = in_range(rows[0]) if len(rows) == 1 else f"{spread} over {len(rows)} ranges"
        return f"{head} changes Spearman by {extent}; without an interval, chance cannot be ruled out."
    if len(rows) == 1:
        row = rows[0]
        verdict = f"significantly {row['says']}" if row["significant"] else f"not significant{_because(row)}"
        return f"{head} changes Spearman by {in_range(row)}: {verdict}."
    clear = [row for row in rows if row["significant"]]
    sentence = f"{head} changes Spearman significantly in "
    if clear:
        sentence += f"{len(clear)} of {len(rows)} ranges: {'; '.join(in_range(row) for row in clear)}"
    else:
        sentence += f"none of {len(rows)} ranges: the changes are {spread}"
    for mean in means:
        sentence += f". The mean over the ranges changes by {difference_text(mean)}: {mean['verdict']}"
        sentence += _because(mean)
    return f"{sentence}."


def comparison_sentences(frame: pd.DataFrame) -> list[str]:
    """One sentence a comparison of two runs: where they differ significantly."""
    sentences = []
    for block in map(records, _compared(frame)):
        rows = [row for row in block if not row["mean"]] or block
        clear = [row for row in rows if row["significant"]]
        head = f"{block[0]['condition']}: {block[0]['first_name']}, against {block[0]['second_name']}"
        if clear:
            changes = "; ".join(in_range(row) for row in clear)
            found = f", differs significantly in Spearman in {len(clear)} of {len(rows)} ranges: {changes}."
        else:
            widest = max(rows, key=lambda row: abs(row["difference"]))
            one = f"the difference in Spearman, {in_range(widest)}, is not significant"
            several = f"no difference in Spearman is significant; the largest of {len(rows)} is {in_range(widest)}"
            found = f": {one if len(rows) == 1 else several}{_because(widest)}."
        sentences.append(f"{head}{found}")
    return sentences or ["No two of these runs have judged the same examples under the same condition."]


def in_range(row: dict[str, Any]) -> str:
    """A difference with its interval and range."""
    return f"{difference_text(row)} in range {row['place']}"


def difference_text(row: dict[str, Any]) -> str:
    """A difference with its interval."""
    return f"{signed_three(row['difference'])} {spaced(row['low'], row['high'], signed_three)}".rstrip()
