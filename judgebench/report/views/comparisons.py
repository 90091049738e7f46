"""Paired differences between judges: their table, and what they say in sentences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from judgebench.report.formats import p_value, rounded_up, signed_three, span, three
from judgebench.report.say import say
from judgebench.report.table import Block, Col, View, records
from judgebench.report.views.correlations import at_level
from judgebench.results.results import Records, Results, unattacked
from judgebench.results.series import condition_text, range_of, setting
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.levels import shown_level
from judgebench.stats.paired import BETTER, NOT_SIGNIFICANT, WORSE
from judgebench.stats.scores import shown_split

SHOWN = "spearman"
_WHO = ("first_judge", "first_decoding", "second_judge", "second_decoding")
_BY = ["dimension", "attack", "defense", "first_name", "second_name"]


def comparison_frame(comparisons: Records, groups: str, statistic: str = SHOWN) -> pd.DataFrame:
    """The records of comparisons.json for one statistic, of the reported split and level, a row a range, means last.

    Added are `condition`, `first_name` and `second_name` (judge and decoding), `place` (the range, or what the mean is
    over), `mean`, `significant` (after Holm's correction), `verdict` with a `remark`, and, where a difference is not
    significant, `needed` and `needed_for`: groups for 80 % power, for this difference and for one of 0.05.
    """
    split, level = (shown(record[name] for record in comparisons)
                    for shown, name in ((shown_split, "split"), (shown_level, "level")))  # fmt: skip
    blocks: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in comparisons:
        if (record["split"], record["level"], record["statistic"]) == (split, level, statistic):
            key = tuple(record[name] for name in ("dimension", "attack", "defense", *_WHO))
            blocks.setdefault(key, []).append(dict(record))
    rows = []
    for block in blocks.values():
        # Ranges as in all tables, whatever their order in the configuration; means last.
        block.sort(key=lambda row: (row["range_min"] is None, () if row["range_min"] is None else range_of(row).order))
        places = [f"mean of {row['ranges']} ranges" if row["range_min"] is None else str(range_of(row))
                  for row in block]  # fmt: skip
        several = len(set(places)) < len(places)  # lambdas tried side by side in one range
        for row, place in zip(block, places, strict=True):
            known = row["low"] is not None
            inside = known and row["low"] <= 0 <= row["high"]
            undecided = row["says"] == NOT_SIGNIFICANT and inside
            row |= {"place": f"{place}, {setting_of(row)}" if several else place, "mean": row["range_min"] is None}
            row["condition"] = at_level(condition_text(row), level)
            for side in ("first", "second"):
                row[f"{side}_name"] = f"{row[f'{side}_judge']}, {row[f'{side}_decoding']}"
            row |= {"difference_low": row["low"], "difference_high": row["high"]}
            row["significant"] = row["says"] in (BETTER, WORSE)
            row["verdict"] = row["says"] or "not tested: selected on these texts" if known else "no interval"
            row["needed"] = row["groups_needed"] if undecided else None
            row["needed_for"] = row["groups_needed_for_0.05"] if undecided and row["groups_needed"] else None
            # Why a difference is not significant although its interval leaves out 0.
            row["remark"] = ""
            if row["says"] == NOT_SIGNIFICANT and known and not inside:
                corrected = " after Holm" if row["p"] is not None and row["p"] <= SIGNIFICANCE else ""
                row["remark"] = f"the interval leaves out 0, but p{corrected} is above {SIGNIFICANCE}"
                if row["groups"] < FEWEST:
                    row["remark"] = f"a test needs at least {FEWEST} {groups}; here {row['groups']}"
            rows.append(row)
    return pd.DataFrame(rows)


def setting_of(record: dict[str, Any], side: str = "first") -> str:
    """Lambda and t of one side of a paired difference, see `setting`."""
    return setting({"lambda": record[f"{side}_lambda"], "temperature": record[f"{side}_temperature"]})


def comparison_note(rows: pd.DataFrame, groups: str, together: bool = False) -> str:
    """The ground of the comparisons: the number of tests that Holm's correction is over, and the groups that there are.

    Args:
        together: whether the correction is over all that is shown, and not over each dimension by itself.
    """
    if not rows["p"].notna().any():
        return ""
    counts = sorted(set(rows["comparisons"].dropna().astype(int)) or {len(rows)})
    several, many = "" if counts == [1] else "s", span(counts)
    if together:
        family = f"{'all ' if several else ''}the {counts[-1]} comparison{several} of this page"
    elif not several:
        family = "the one comparison of the dimension"
    else:
        alone = rows["condition"].nunique() == 1
        family = f"the {many} comparison{several} of {'the dimension' if alone else 'each dimension by itself'}"
    return f"Holm: corrected over {family}. Here are {span(rows['groups'].dropna())} {groups}."


COMPARISONS = View(
    "comparisons",
    f"Differences in {SHOWN.capitalize()}",
    lambda results: comparison_frame(unattacked(results.comparisons), results.groups),
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
    by=_BY,
    title="{condition}: {first_name} against {second_name}",
    sections=["mean"],
    below="remark",
    note=lambda results, rows: comparison_note(rows, results.groups),
    brackets="{groups} resampled",
    marks="significant after Holm's correction",
)  # fmt: skip
"""Differences in Spearman between judges and decodings."""


def _given(frame: pd.DataFrame, results: Results) -> pd.DataFrame:
    return frame


def other_statistics(results: Results) -> list[Block]:
    """The same in the other correlations, folded."""
    tables: list[Block] = []
    for name in (name for name in CORRELATIONS if name != SHOWN):
        frame = comparison_frame(unattacked(results.comparisons), results.groups, name)
        tables += replace(
            COMPARISONS,
            name=f"comparisons_{name}",
            heading=f"Differences in {name.capitalize()}",
            frame=partial(_given, frame),
            columns=[replace(column, says="") for column in COMPARISONS.columns],
            folded=f"{{condition}}: the same in {name.capitalize()}",
            **dict.fromkeys(("note", "brackets", "marks"), ""),
        ).tables(results)
    return tables


def change_sentences(results: Results) -> list[str]:
    """One sentence a comparison against the main model: where contrasting changes Spearman significantly."""
    frame = comparison_frame(unattacked(results.comparisons), results.groups)
    return _sentences(frame[frame["second_judge"] == "main"] if len(frame) else frame, runs=False)


def comparison_sentences(frame: pd.DataFrame) -> list[str]:
    """One sentence a comparison of two runs: where they differ significantly."""
    sentences = _sentences(frame, runs=True)
    return sentences or ["No two of these runs have judged the same examples under the same condition."]


def _sentences(frame: pd.DataFrame, runs: bool) -> list[str]:
    sentences = []
    for _, part in frame.groupby(_BY, sort=False) if len(frame) else ():
        block = records(part)
        means = [row for row in block if row["mean"]]
        rows = [row for row in block if not row["mean"]] or block
        clear, widest = [row for row in rows if row["significant"]], max(rows, key=lambda row: abs(row["difference"]))
        facts = {"clear": clear, "widest": widest, "unbounded": any(row["low"] is None for row in rows)}
        sentences.append(say("change", runs=runs, rows=rows, means=means, **facts))
    return sentences
