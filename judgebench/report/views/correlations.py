"""Agreement with the humans: correlations by range, within groups and over systems; what each
repair changes; and paired differences between judges.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from judgebench.report.formats import (
    is_known,
    no_text,
    p_value,
    percent_one,
    rounded_up,
    say,
    short,
    signed_three,
    singular,
    span,
    three,
)
from judgebench.report.table import Col, Row, Rows, View, records, rows_by
from judgebench.report.views.bias import favorite_text
from judgebench.report.views.humans import HUMANS_NOTE, RATERS, ceiling_row, ceilings
from judgebench.results.results import (
    NO_DEFENSE,
    Records,
    Results,
    condition_text,
    kept,
    labelled,
    range_of,
    setting,
    unattacked,
)
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE
from judgebench.stats.correlation import CORRELATIONS, shown_level
from judgebench.stats.evaluate import CONSTANT
from judgebench.stats.paired import BETTER, NOT_SIGNIFICANT, WORSE
from judgebench.stats.repairs import AGREEMENT, ATTACK, POINTS, RANGE_SHARE
from judgebench.stats.scores import CLEAN, Cell, shown_split

_CONDITION = ["dimension", "attack", "defense"]


@kept
def correlation_frame(
    results: Results, level: str | None = None, silent: bool = False
) -> pd.DataFrame:
    """The metrics of clean texts of the reported split, a row a range and series, the averages over
    ranges last.

    `<correlation>_best` marks the best of several at one range, where it is above 0; `condition`
    names a level that is not the usual one; `size` says on how much a row rests, such as "1440
    examples of 90 articles".

    Args:
        level: dataset, document or system; None takes the reported one.
        silent: whether assistants that give every text the same score in every range are among
            them.
    """
    place = (results.split, level or results.level)
    rows = labelled(
        record for record in results.clean if (record["split"], record["level"]) == place
    )
    if not len(rows):
        return rows
    constant = pd.Series(
        [CONSTANT in (flags or ()) for flags in rows.get("flags", [()] * len(rows))]
    )
    constant = constant.groupby([rows[name] for name in (*_CONDITION, "series")]).transform("all")
    rows = rows if silent else rows[~((rows["judge"] == "assistant") & constant)]
    if "clamped_share" in rows and not rows["clamped_share"].any():
        rows["clamped_share"] = None
    parts = []
    for _, condition in rows.groupby(_CONDITION, sort=False):
        blocks = [part for _, part in condition.groupby("range", sort=False)]
        series = [
            part
            for _, part in condition.groupby("series", sort=False)
            if part["range"].nunique() == len(blocks)
        ]
        if len(blocks) > 1 and series:
            blocks.append(pd.DataFrame(map(_average, series)))
        # The best of several is marked; a judge that always says the same has 0 and would win
        # against inverted ones.
        for block in blocks:
            best = {name: block[name].astype(float).max() for name in CORRELATIONS}
            marks = {
                f"{name}_best": (len(block) > 1) & (block[name] == best[name]) & (best[name] > 0)
                for name in best
            }
            size = size_of(condition, results.groups, results.examples_word)
            name = at_level(condition["condition"].iloc[0], condition["level"].iloc[0])
            parts.append(block.assign(**marks, size=size, condition=name))
    return pd.concat(parts, ignore_index=True) if parts else rows.head(0)


def _average(rows: pd.DataFrame) -> dict[str, Any]:
    """The means of a series over its ranges, where all of them are known."""
    settings = set(rows["setting"])
    names = (*CORRELATIONS, "failed_share", "clamped_share")
    means = {
        name: rows[name].mean() if rows[name].notna().all() else None
        for name in names
        if name in rows
    }
    same = {name: rows[name].iloc[0] for name in (*_CONDITION, "level", "series", "who", "judge")}
    return (
        same
        | means
        | {"range": "average", "setting": settings.pop() if len(settings) == 1 else "λ, t by range"}
    )


def level_note(level: str, groups: str) -> str:
    """Units that are correlated at a level, as words that follow "correlation"."""
    return {
        "dataset": "over all texts",
        "document": f"within each of the {groups}, mean over them",
        "system": "over the systems' mean scores",
    }.get(level, f"at level {level}")


def size_of(rows: pd.DataFrame, groups: str, examples: str) -> str:
    """On how many examples, groups or systems the rows rest, such as "1440 texts of 90
    articles"."""
    level = rows["level"].iloc[0]
    many = f"{span(rows['groups'])} "
    many += singular(groups) if rows["groups"].max() == 1 else groups
    if level == "document":
        return many
    word = (
        "systems over"
        if level == "system"
        else f"{singular(examples) if rows['n'].max() == 1 else examples} of"
    )
    return f"{span(rows['n'])} {word} {many}"


def at_level(condition: str, level: str) -> str:
    """A condition with the level that its numbers are of, where that is not the usual one.

    Example:
        >>> at_level("coherence", "dataset"), at_level("coherence", "system")
        ('coherence', 'coherence, system level')
    """
    return condition if level == "dataset" else f"{condition}, {level} level"


def undefended(rows: Rows) -> Rows:
    """The rows without a defense; all rows where there are no such rows."""
    return [row for row in rows if row["defense"] == NO_DEFENSE] or list(rows)


# --- the setting that is taken ------------------------------------------------------------------


@kept
def advised_rows(results: Results) -> Rows:
    """Of each dimension the setting that is taken, as a row of metrics.json with labels; where none
    was chosen, as in runs of earlier versions, the main model's with the highest Spearman, or the
    first judge's. Clean texts."""
    rows = records(labelled(record for record in results.shown if record["attack"] == CLEAN))
    chosen = [Cell.of(record) for record in results.choice if record["taken"]]
    taken = [next((row for row in rows if Cell.of(row) == cell), None) for cell in chosen]
    known = {row["dimension"]: row for row in taken if row}
    for part in rows_by(undefended(rows), ["dimension"]):
        of_judge = [row for row in part if row["judge"] == "main"]
        of_judge = of_judge or [row for row in part if row["judge"] == part[0]["judge"]]
        best = max(of_judge, key=lambda row: -2.0 if row["spearman"] is None else row["spearman"])
        known.setdefault(part[0]["dimension"], best)
    return list(known.values())


def cell_scores(results: Results, lead: Row) -> pd.DataFrame:
    """The rows of scores.parquet of the cell that a row is about."""
    rows = results.scores
    for name, value in Cell.of(lead).named.items():
        rows = rows[rows[name].isna() if value is None else rows[name] == value]
    return rows


def of_advised(results: Results, rows: Rows) -> Rows:
    """The rows of the judge and decoding that are taken, in every range; rows are labelled."""
    names = ("dimension", "defense", "series")
    taken = {tuple(row[name] for name in names) for row in advised_rows(results)}
    return [row for row in rows if tuple(row[name] for name in names) in taken]


# --- the table ----------------------------------------------------------------------------------


def _with_humans(results: Results) -> Rows:
    """The correlations with favorite scores, and below those of clean texts at dataset level the
    human ceiling."""
    rows = correlation_frame(results)
    humans = {} if results.compares else ceilings(results)
    table: Rows = []
    for _, part in rows.groupby(_CONDITION, sort=False) if len(rows) else ():
        for row in records(part):
            if is_known(row.get("spearman_worst")):
                row["failures"] = f"{three(row['spearman_worst'])} to {three(row['spearman_best'])}"
            table.append(row if results.compares else {**row, "favorite": favorite_text(row)})
        first = records(part.head(1))[0]
        if first["dimension"] in humans and (first["level"], first["attack"]) == ("dataset", CLEAN):
            same = {
                name: first[name] for name in (*_CONDITION, "condition", "level", "size", "groups")
            }
            same |= {"judge": RATERS, "series": RATERS, "who": "one, with the others"}
            table.append(ceiling_row(humans[first["dimension"]], **same))
    return table


def _note(results: Results, rows: Any) -> str:
    rows = records(rows)
    level = str(rows[0]["level"])
    ranges = [row["range"] for row in rows]
    left_out = len(correlation_frame(results, level, silent=True)) - sum(
        name != RATERS for name in ranges
    )
    facts: dict[str, Any] = {
        "where": level_note(level, results.groups),
        "humans": HUMANS_NOTE if RATERS in ranges else "",
    }
    facts |= {
        "pairs": any(row.get("human_agreement") is not None for row in rows),
        "left_out": left_out,
    }
    return say("correlations", results=results, level=level, averages="average" in ranges, **facts)


CORRELATION = View(
    "correlations",
    "Agreement with the humans",
    _with_humans,
    (
        Col("range", "range", left=True, width=9),
        Col("judge, decoding", "who", detail="setting", flags="flags", left=True, width=23),
        *(
            Col(name.capitalize(), name, three, short, marked=f"{name}_best")
            for name in CORRELATIONS
        ),
        Col("beside humans", "spearman_others", three, short, page=True, optional=True),
        Col("favorite score", "favorite", left=True, page=True, optional=True),
        Col("failed", "failed_share", percent_one),
        Col(
            "if they count",
            "failures",
            page=True,
            optional=True,
            says="Spearman with other scores in the place of failed answers, at worst and at best",
        ),
        Col(
            "clamped",
            "clamped_share",
            percent_one,
            optional=True,
            says="share of answers outside the range, moved to its nearest end",
        ),
    ),
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    sections=["range"],
    once=["range"],
    note=_note,
    brackets="{groups} resampled",
    reasons=["missing_document", "missing"],
    marks="best of its range, if above 0",
)


def _level_rows(results: Results) -> Rows:
    """A row a range and series with Spearman at document level (`within`) and at system level
    (`over`)."""
    document, system = (
        records(correlation_frame(results, level)) for level in ("document", "system")
    )
    single = bool(system) and max(row["n"] or 0 for row in system) < 2
    if single and max((row["groups"] or 0 for row in document), default=0) < 2:
        return []  # nothing but what is over all texts
    keys = (*_CONDITION, "range", "series")
    of_systems = {tuple(row[name] for name in keys): row for row in system}
    rows = []
    for row in document or system:
        if row["judge"] == "assistant" or row["range"] == "average":
            continue
        within = row if document else {}
        over = of_systems.get(tuple(row[name] for name in keys), {})
        constant = within.get("human_constant_groups")
        rows.append(
            {
                **{name: row[name] for name in keys},
                **{f"within{end}": within.get(f"spearman{end}") for end in ("", "_low", "_high")},
                **{f"over{end}": over.get(f"spearman{end}") for end in ("", "_low", "_high")},
                **{
                    f"spearman_systems{end}": over.get(f"spearman_systems{end}")
                    for end in ("_low", "_high")
                },
                "without": None
                if constant is None
                else f"{three(row.get('spearman_varied'))} ({int(constant)})",
                "missing_document": within.get("missing"),
                "missing": over.get("missing"),
                "condition": condition_text(row),
                "size": row["size"] if single or not over else over["size"],
            }
        )
    return rows if any(row[name] is not None for row in rows for name in ("within", "over")) else []


LEVELS = View(
    "levels",
    "Within groups, and over systems",
    _level_rows,
    [
        Col("range", "range", left=True),
        Col("judge, decoding", "series", left=True),
        Col(
            "within",
            "within",
            three,
            short,
            optional=True,
            says="Spearman within each of the {groups}, mean over them; those whose humans gave "
            "all texts one score say nothing of the judge and count as 0",
        ),
        Col("without", "without", optional=True, says="the mean without these, and their number"),
        Col("systems", "over", three, optional=True, says="Spearman of the systems' mean scores"),
        Col(
            "these",
            "over",
            no_text,
            short,
            optional=True,
            says="95 % interval for these very systems, {groups} resampled",
        ),
        Col(
            "others",
            "spearman_systems",
            no_text,
            short,
            optional=True,
            says="for systems like these, systems and {groups} resampled",
        ),
    ],
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    reasons=["missing_document", "missing"],
)


# --- what each repair changes -------------------------------------------------------------------

_KINDS = {
    AGREEMENT: ("Spearman", "{decoding} instead of {reference}"),
    POINTS: ("points off the humans' mean", "calibrated {decoding}"),
    RANGE_SHARE: ("range's share of variance", "calibrated {decoding}"),
    ATTACK: ("change by an attack, of the range", "{defense} against {attack}, {decoding}"),
}


def repair_rows(results: Results) -> Rows:
    """The records of repairs.json that have figures, kind by kind, with `measured`, `name` and
    `significant`."""
    rows = [row for row in records(results.repairs) if row["difference"] is not None]
    for row in rows:
        row["measured"], row["name"] = (line.format(**row) for line in _KINDS[row["kind"]])
        outside = (
            row["difference_low"] is not None
            and not row["difference_low"] <= 0 <= row["difference_high"]
        )
        row["significant"] = outside and row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANCE
        row["condition"] = row["dimension"]
    return sorted(rows, key=lambda row: list(_KINDS).index(row["kind"]))


REPAIRS = View(
    "repairs",
    "What each repair changes, in the mean over ranges",
    repair_rows,
    (
        Col("repair", "name", left=True, width=30),
        Col("before", "before", three),
        Col("after", "after", three),
        Col("difference", "difference", signed_three, signed_three, marked="significant"),
        Col("p, Holm", "p_holm", p_value, says="paired permutation test over whole {groups}"),
    ),
    by=["dimension"],
    size="{n} {examples_word} of {groups} {groups_word}",
    sections=["measured"],
    section="{measured}",
    note=lambda results, rows: comparison_note(rows, results.groups),
    brackets="{groups} resampled",
    marks="significant after Holm's correction",
)


# --- paired differences -------------------------------------------------------------------------


SHOWN = "spearman"
_SIDES = ("first_judge", "first_decoding", "second_judge", "second_decoding")
_BY = ["dimension", "attack", "defense", "first_name", "second_name"]


def comparison_rows(comparisons: Records, groups: str, statistic: str = SHOWN) -> Rows:
    """The records of comparisons.json for one statistic, of the reported split and level, a row a
    range, means last.

    Added are `condition`, `first_name` and `second_name` (judge and decoding), `place` (the range,
    or what the mean is over), `mean`, `significant` (after Holm's correction), `verdict` with a
    `remark`, and, where a difference is not significant, `needed` and `needed_for`: groups for 80 %
    power, for this difference and for one of 0.05.
    """
    split = shown_split(row["split"] for row in comparisons)
    level = shown_level(row["level"] for row in comparisons)
    chosen = [
        dict(row)
        for row in comparisons
        if (row["split"], row["level"], row["statistic"]) == (split, level, statistic)
    ]
    rows: Rows = []
    for block in rows_by(chosen, ("dimension", "attack", "defense", *_SIDES)):
        for row in block:
            row["mean"] = row["range_min"] is None
            row["place"] = f"mean of {row['ranges']} ranges" if row["mean"] else str(range_of(row))
        # lambdas tried side by side in one range
        several = len({row["place"] for row in block}) < len(block)
        # Ranges as in all tables, whatever their order in the configuration; means last.
        block.sort(key=lambda row: (row["mean"], () if row["mean"] else range_of(row).order))
        for row in block:
            side = {"lambda": row["first_lambda"], "temperature": row["first_temperature"]}
            row["place"] += f", {setting(side)}" if several else ""
            row["condition"] = at_level(condition_text(row), level)
            row |= {
                f"{name}_name": f"{row[f'{name}_judge']}, {row[f'{name}_decoding']}"
                for name in ("first", "second")
            }
            row["second_name"] += ", no defense" if row.get("second_defense") else ""
            # the league has the means where all are compared with one decoding
            row["fold"] = (
                "{condition}: {first_name} against {second_name}".format(**row)
                if "first_low" in row
                else ""
            )
            row |= {"difference_low": row["low"], "difference_high": row["high"]}
            row["significant"] = row["says"] in (BETTER, WORSE)
            bounded = row["low"] is not None
            undecided = row["says"] == NOT_SIGNIFICANT
            row["verdict"] = (
                row["says"] or "not tested: selected on these texts" if bounded else "no interval"
            )
            outside = bounded and undecided and not row["low"] <= 0 <= row["high"]
            undecided = bounded and undecided and not outside
            row["needed"] = row["groups_needed"] if undecided else None
            row["needed_for"] = (
                row["groups_needed_for_0.05"] if undecided and row["groups_needed"] else None
            )
            # Why a difference is not significant although its interval leaves out 0.
            holm = " after Holm" if row["p"] is not None and row["p"] <= SIGNIFICANCE else ""
            why = f"the interval leaves out 0, but p{holm} is above {SIGNIFICANCE}"
            few = f"a test needs at least {FEWEST} {groups}; here {row['groups']}"
            row["remark"] = (few if row["groups"] < FEWEST else why) if outside else ""
        rows += block
    return rows


def _of_run(results: Results) -> Rows:
    rows = comparison_rows(unattacked(results.comparisons), results.groups)
    names = ("dimension", "defense", "first_decoding", "second_decoding")
    shown = list[dict[str, Any]]()
    planned = [
        tuple(row[name] for name in ("dimension", "defense", "decoding", "reference"))
        for row in results.repairs
    ]
    for row in rows:
        if row["level"] == "dataset" and tuple(row[name] for name in names) in planned:
            if row["mean"]:  # which `REPAIRS` has
                continue
            row["fold"] = (
                f"{row['condition']}: {row['first_name']} against {row['second_name']}, in each "
                "range"
            )
        shown.append(row)
    return shown


def comparison_note(rows: Rows, groups: str) -> str:
    """The number of tests that Holm's correction is over, of each dimension by itself."""
    if all(row["p"] is None for row in rows):
        return ""
    counts = sorted(
        {int(row["comparisons"]) for row in rows if row["comparisons"] is not None} or {len(rows)}
    )
    alone = len({row["condition"] for row in rows}) == 1
    numbers = [row["groups"] for row in rows if row["groups"] is not None]
    return say("comparisons", counts=counts, alone=alone, numbers=numbers, groups=groups)


COMPARISONS = View(
    "comparisons",
    f"Differences in {SHOWN.capitalize()}",
    _of_run,
    (
        Col("range", "place", left=True, width=11),
        Col("first", "first", three),
        Col("second", "second", three),
        Col(
            "first - second",
            "difference",
            signed_three,
            signed_three,
            marked="significant",
            says=f"difference in {SHOWN.capitalize()}",
        ),
        Col("p", "p", p_value, says="paired permutation test over whole {groups}"),
        Col("p, Holm", "p_holm", p_value),
        Col(
            "needed",
            "needed",
            rounded_up,
            optional=True,
            says="{groups} for 80 % power at this very difference, before Holm's correction",
        ),
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
    folded="{fold}",
)
