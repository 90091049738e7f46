"""Paired differences between judges: their table, and what they say in sentences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from judgebench.report.formats import p_value, rounded_up, signed_three, three
from judgebench.report.say import say
from judgebench.report.table import Block, Col, Rows, View, rows_by
from judgebench.report.views.correlations import at_level
from judgebench.results.results import Records, Results, unattacked
from judgebench.results.series import condition_text, range_of, setting
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.levels import shown_level
from judgebench.stats.paired import BETTER, NOT_SIGNIFICANT, WORSE
from judgebench.stats.scores import shown_split

SHOWN = "spearman"
_SIDES = ("first_judge", "first_decoding", "second_judge", "second_decoding")
_BY = ["dimension", "attack", "defense", "first_name", "second_name"]


def comparison_rows(comparisons: Records, groups: str, statistic: str = SHOWN) -> Rows:
    """The records of comparisons.json for one statistic, of the reported split and level, a row a range, means last.

    Added are `condition`, `first_name` and `second_name` (judge and decoding), `place` (the range, or what the mean is
    over), `mean`, `significant` (after Holm's correction), `verdict` with a `remark`, and, where a difference is not
    significant, `needed` and `needed_for`: groups for 80 % power, for this difference and for one of 0.05.
    """
    split, level = shown_split(row["split"] for row in comparisons), shown_level(row["level"] for row in comparisons)
    chosen = [dict(row) for row in comparisons
             if (row["split"], row["level"], row["statistic"]) == (split, level, statistic)]  # fmt: skip
    rows: Rows = []
    for block in rows_by(chosen, ("dimension", "attack", "defense", *_SIDES)):
        for row in block:
            row["mean"] = row["range_min"] is None
            row["place"] = f"mean of {row['ranges']} ranges" if row["mean"] else str(range_of(row))
        several = len({row["place"] for row in block}) < len(block)  # lambdas tried side by side in one range
        # Ranges as in all tables, whatever their order in the configuration; means last.
        block.sort(key=lambda row: (row["mean"], () if row["mean"] else range_of(row).order))
        for row in block:
            side = {"lambda": row["first_lambda"], "temperature": row["first_temperature"]}
            row["place"] += f", {setting(side)}" if several else ""
            row["condition"] = at_level(condition_text(row), level)
            row |= {
                f"{name}_name": f"{row[f'{name}_judge']}, {row[f'{name}_decoding']}" for name in ("first", "second")
            }
            row |= {"difference_low": row["low"], "difference_high": row["high"]}
            row["significant"] = row["says"] in (BETTER, WORSE)
            bounded, undecided = row["low"] is not None, row["says"] == NOT_SIGNIFICANT
            row["verdict"] = row["says"] or "not tested: selected on these texts" if bounded else "no interval"
            outside = bounded and undecided and not row["low"] <= 0 <= row["high"]
            undecided = bounded and undecided and not outside
            row["needed"] = row["groups_needed"] if undecided else None
            row["needed_for"] = row["groups_needed_for_0.05"] if undecided and row["groups_needed"] else None
            # Why a difference is not significant although its interval leaves out 0.
            holm = " after Holm" if row["p"] is not None and row["p"] <= SIGNIFICANCE else ""
            why = f"the interval leaves out 0, but p{holm} is above {SIGNIFICANCE}"
            few = f"a test needs at least {FEWEST} {groups}; here {row['groups']}"
            row["remark"] = (few if row["groups"] < FEWEST else why) if outside else ""
        rows += block
    return rows


def _of_run(results: Results, statistic: str = SHOWN) -> Rows:
    return comparison_rows(unattacked(results.comparisons), results.groups, statistic)


def comparison_note(rows: Rows, groups: str, together: bool = False) -> str:
    """The number of tests that Holm's correction is over: of each dimension by itself, or of all `together`."""
    if all(row["p"] is None for row in rows):
        return ""
    counts = sorted({int(row["comparisons"]) for row in rows if row["comparisons"] is not None} or {len(rows)})
    alone = len({row["condition"] for row in rows}) == 1
    numbers = [row["groups"] for row in rows if row["groups"] is not None]
    return say("comparisons", counts=counts, alone=alone, together=together, numbers=numbers, groups=groups)


COMPARISONS = View(
    "comparisons", f"Differences in {SHOWN.capitalize()}", _of_run,
    (
        Col("range", "place", left=True, width=11),
        Col("first", "first", three),
        Col("second", "second", three),
        Col("first - second", "difference", signed_three, signed_three, marked="significant",
            says=f"difference in {SHOWN.capitalize()}"),
        Col("p", "p", p_value, says="paired permutation test over whole {groups}"),
        Col("p, Holm", "p_holm", p_value),
        Col("needed", "needed", rounded_up, optional=True,
            says="{groups} for 80 % power at this very difference, before Holm's correction"),
        Col("for 0.05", "needed_for", rounded_up, optional=True, says="at a difference of 0.05"),
        Col("verdict", "verdict", left=True),
    ),
    by=_BY, title="{condition}: {first_name} against {second_name}", sections=["mean"], below="remark",
    note=lambda results, rows: comparison_note(rows, results.groups), brackets="{groups} resampled",
    marks="significant after Holm's correction",
)  # fmt: skip


def other_statistics(results: Results) -> list[Block]:
    """The same in the other correlations, folded."""
    tables: list[Block] = []
    for name in (name for name in CORRELATIONS if name != SHOWN):
        view: dict[str, Any] = dict.fromkeys(("note", "brackets", "marks"), "")
        view |= {"name": f"comparisons_{name}", "heading": f"Differences in {name.capitalize()}"}
        view |= {"columns": [replace(column, says="") for column in COMPARISONS.columns]}
        view |= {"folded": f"{{condition}}: the same in {name.capitalize()}"}
        tables += replace(COMPARISONS, frame=partial(_of_run, statistic=name), **view).tables(results)
    return tables


def change_sentences(results: Results) -> list[str]:
    """One sentence a comparison against the main model: where contrasting changes Spearman significantly."""
    return _sentences([row for row in _of_run(results) if row["second_judge"] == "main"], runs=False)


def comparison_sentences(rows: Rows) -> list[str]:
    """One sentence a comparison of two runs: where they differ significantly."""
    return _sentences(rows, runs=True) or [
        "No two of these runs have judged the same examples under the same condition."
    ]


def _sentences(rows: Rows, runs: bool) -> list[str]:
    sentences = []
    for block in rows_by(rows, _BY):
        means = [row for row in block if row["mean"]]
        ranges = [row for row in block if not row["mean"]] or block
        clear = [row for row in ranges if row["significant"]]
        facts = {"clear": clear, "widest": max(ranges, key=lambda row: abs(row["difference"]))}
        unbounded = any(row["low"] is None for row in ranges)
        sentences.append(say("change", runs=runs, rows=ranges, means=means, unbounded=unbounded, **facts))
    return sentences
