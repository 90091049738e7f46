"""Agreement with the humans: correlations by range, within groups and over systems; what each
repair changes; and paired differences between judges.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from judgebench.report.table import (
    Col,
    View,
    excludes_zero,
    labelled_rows,
    mean_of,
    records,
    rows_by,
    values,
    with_records,
)
from judgebench.report.views.bias import favorite_text
from judgebench.report.views.humans import HUMANS_NOTE, RATERS, ceiling_row, ceilings
from judgebench.results.results import (
    NO_DEFENSE,
    Results,
    cached,
    condition_text,
    range_of,
    setting,
    unattacked,
)
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE
from judgebench.stats.correlation import CORRELATIONS, shown_level
from judgebench.studies.evaluate import CONSTANT
from judgebench.studies.paired import BETTER, NOT_SIGNIFICANT, WORSE
from judgebench.studies.repairs import AGREEMENT, ATTACK, POINTS, RANGE_SHARE
from judgebench.studies.scores import CLEAN, ScoreSeries, shown_split
from judgebench.types import Record, Records, Row, Rows
from judgebench.words.formats import (
    is_known,
    no_text,
    p_value,
    percent_one,
    rounded_up,
    say,
    short,
    signed_three,
    three,
)

_CONDITION = ["dimension", "attack", "defense"]


@cached
def correlation_rows(results: Results, level: str | None = None, silent: bool = False) -> Rows:
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
    rows = labelled_rows(
        record for record in results.clean if (record["split"], record["level"]) == place
    )
    # 1. without silent assistants
    series = (*_CONDITION, "series")
    heard = {values(row, series) for row in rows if CONSTANT not in (row.get("flags") or ())}
    if not silent:
        rows = [row for row in rows if row["judge"] != "assistant" or values(row, series) in heard]
    if not any(row.get("clamped_share") for row in rows):
        rows = [row | {"clamped_share": None} for row in rows]
    table = []
    for condition in rows_by(rows, _CONDITION):
        # 2. the ranges, and their averages
        blocks = rows_by(condition, ["range"])
        whole = [
            part
            for part in rows_by(condition, ["series"])
            if len({row["range"] for row in part}) == len(blocks)
        ]
        if len(blocks) > 1 and whole:
            blocks.append(list(map(_average, whole)))
        # 3. The best of several is marked; a judge that always says the same has 0 and would win
        # against inverted ones.
        level = condition[0]["level"]
        same = {
            "size": say(
                "size",
                rows=condition,
                level=level,
                groups=results.groups,
                examples=results.examples_word,
            ),
            "condition": at_level(condition[0]["condition"], level),
        }
        for block in blocks:
            best = {name: max(row[name] or 0.0 for row in block) for name in CORRELATIONS}
            for row in block:
                marks = {
                    f"{name}_best": len(block) > 1 and row[name] == highest and highest > 0
                    for name, highest in best.items()
                }
                table.append(row | marks | same)
    return table


def _average(rows: Rows) -> Record:
    """The means of a series over its ranges, where all of them are known."""
    settings = {row["setting"] for row in rows}
    same = {name: rows[0][name] for name in (*_CONDITION, "level", "series", "who", "judge")}
    names = (*CORRELATIONS, "failed_share", "clamped_share")
    means = {name: mean_of(rows, name) for name in names}
    return {
        **same,
        **means,
        "range": "average",
        "setting": settings.pop() if len(settings) == 1 else "λ, t by range",
    }


def level_note(level: str, groups: str) -> str:
    """Units that are correlated at a level, as words that follow "correlation"."""
    return {
        "dataset": "over all texts",
        "document": f"within each of the {groups}, mean over them",
        "system": "over the systems' mean scores",
    }.get(level, f"at level {level}")


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


def spearman_of(row: Row) -> float:
    """A row's Spearman, by which settings are sorted; below all others where it is unknown."""
    return -2.0 if row["spearman"] is None else row["spearman"]


@cached
def advised_rows(results: Results) -> Rows:
    """Of each dimension the setting that is advised, as a row of metrics.json with labels; where
    none was chosen, the main model's with the highest Spearman, or the first judge's. Clean
    texts."""
    chosen = [ScoreSeries.of(record) for record in results.choice if record["taken"]]
    rows = labelled_rows(record for record in results.shown if record["attack"] == CLEAN)
    advised = []
    for part in rows_by(rows, ["dimension"]):
        plain = undefended(part)
        judges = [row["judge"] for row in plain]
        judge = "main" if "main" in judges else judges[0]
        best = max((row for row in plain if row["judge"] == judge), key=spearman_of)
        advised.append(next((row for row in part if ScoreSeries.of(row) in chosen), best))
    return advised


def cell_scores(results: Results, lead: Row) -> pd.DataFrame:
    """The rows of scores.parquet of the cell that a row is about."""
    rows = results.scores
    here = np.ones(len(rows), dtype=bool)
    for name, value in ScoreSeries.of(lead).named.items():
        here &= (rows[name].isna() if value is None else rows[name] == value).to_numpy(bool)
    return rows[here]


def of_advised(results: Results, rows: Rows) -> Rows:
    """The rows of the judge and decoding that are advised, in every range; rows are labelled."""
    names = ("dimension", "defense", "series")
    advised = {values(row, names) for row in advised_rows(results)}
    return [row for row in rows if values(row, names) in advised]


def of_cells(results: Results, rows: Rows) -> Rows:
    """The rows of the advised settings themselves."""
    cells = [ScoreSeries.of(row) for row in advised_rows(results)]
    return [row for row in rows if ScoreSeries.of(row) in cells]


# --- the table ----------------------------------------------------------------------------------


def _with_humans(results: Results) -> Rows:
    """The correlations, and below those of clean texts at dataset level the human ceiling."""
    humans = {} if results.compares else ceilings(results)
    table = []
    rows = correlation_rows(results)
    if results.compares:  # whose scores are preferences
        rows = [row | {"modal_score": None} for row in rows]
    for part in rows_by(rows, _CONDITION):
        table += part
        first = part[0]
        if first["dimension"] in humans and (first["level"], first["attack"]) == ("dataset", CLEAN):
            same = {
                name: first[name] for name in (*_CONDITION, "condition", "level", "size", "groups")
            }
            same |= {"judge": RATERS, "series": RATERS, "who": "one, with the others"}
            table.append(ceiling_row(humans[first["dimension"]], **same))
    return table


def _note(results: Results, rows: Rows) -> str:
    level = str(rows[0]["level"])
    judged = [row for row in rows if row["range"] != RATERS]
    return say(
        "correlations",
        results=results,
        level=level,
        where=level_note(level, results.groups),
        averages=any(row["range"] == "average" for row in rows),
        humans=HUMANS_NOTE if len(judged) < len(rows) else "",
        pairs=any(row.get("human_agreement") is not None for row in rows),
        left_out=len(correlation_rows(results, level, silent=True)) - len(judged),
    )


CORRELATION = View(
    "correlations",
    "Agreement with the humans",
    _with_humans,
    (
        Col("range", left=True, width=9),
        Col("judge, decoding", "who", detail="setting", flags="flags", left=True, width=23),
        *(
            Col(name.capitalize(), name, three, short, marked=f"{name}_best")
            for name in CORRELATIONS
        ),
        Col("beside humans", "spearman_others", three, short, page=True, optional=True),
        Col("favorite score", favorite_text, left=True, page=True, optional=True),
        Col("failed", "failed_share", percent_one),
        Col(
            "if they count",
            "{spearman_worst:three} to {spearman_best:three}",
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
    """A row a range and series with its records at `document` and at `system` level."""
    document, system = (correlation_rows(results, level) for level in ("document", "system"))
    single = bool(system) and max(row.get("n") or 0 for row in system) < 2
    if single and max((row.get("groups") or 0 for row in document), default=0) < 2:
        return []  # nothing but what is over all texts
    rows = with_records(
        [
            row
            for row in document or system
            if row["judge"] != "assistant" and row["range"] != "average"
        ],
        (*_CONDITION, "range", "series"),
        document=document,
        system=system,
    )
    for row in rows:
        row["condition"] = condition_text(row)
        if row["system"] and not single:
            row["size"] = row["system"]["size"]
    known = [row[level].get("spearman") for row in rows for level in ("document", "system")]
    return rows if any(map(is_known, known)) else []


def _varied(row: Row) -> str | None:
    """Spearman within groups of which the humans tell texts apart, and the number of others."""
    constant = row["document"].get("human_constant_groups")
    if constant is None:
        return None
    return f"{three(row['document'].get('spearman_varied'))} ({int(constant)})"


LEVELS = View(
    "levels",
    "Within groups, and over systems",
    _level_rows,
    [
        Col("range", left=True),
        Col("judge, decoding", "series", left=True),
        Col(
            "within",
            "document.spearman",
            three,
            short,
            optional=True,
            says="Spearman within each of the {groups}, mean over them; those whose humans gave "
            "all texts one score say nothing of the judge and count as 0",
        ),
        Col("without", _varied, optional=True, says="the mean without these, and their number"),
        Col(
            "systems",
            "system.spearman",
            three,
            optional=True,
            says="Spearman of the systems' mean scores",
        ),
        Col(
            "these",
            "system.spearman",
            no_text,
            short,
            optional=True,
            says="95 % interval for these very systems, {groups} resampled",
        ),
        Col(
            "others",
            "system.spearman_systems",
            no_text,
            short,
            optional=True,
            says="for systems like these, systems and {groups} resampled",
        ),
    ],
    by=_CONDITION,
    title="{condition}",
    size="{size}",
    reasons=["document.missing", "system.missing"],
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
        tested = row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANCE
        row["significant"] = tested and excludes_zero(row, "difference")
        row["condition"] = row["dimension"]
    return sorted(rows, key=lambda row: list(_KINDS).index(row["kind"]))


REPAIRS = View(
    "repairs",
    "What each repair changes, in the mean over ranges",
    repair_rows,
    (
        Col("repair", "name", left=True, width=30),
        Col("before", form=three),
        Col("after", form=three),
        Col("difference", form=signed_three, ends=signed_three, marked="significant"),
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
_BY = ["dimension", "attack", "defense", "pair"]


def pair_text(row: Row) -> str:
    """Both sides of a comparison, such as "main, expectation against main, greedy"."""
    sides = "{first_judge}, {first_decoding} against {second_judge}, {second_decoding}"
    return sides.format(**row) + (", no defense" if row.get("second_defense") else "")


def place_text(row: Row) -> str:
    """The range of a comparison, or what its mean is over."""
    return f"mean of {row['ranges']} ranges" if row["range_min"] is None else str(range_of(row))


def comparison_rows(comparisons: Records, groups: str) -> Rows:
    """The records of comparisons.json in Spearman, of the reported split and level, a row a range,
    means last.

    Added are `condition`, `pair` (judges and decodings), `place` (the range, or what the mean is
    over), `mean`, `significant` (after Holm's correction), `verdict` with a `remark`, and, where a
    difference is not significant, `needed` and `needed_for`: groups for 80 % power, for this
    difference and for one of 0.05.
    """
    level = shown_level(row["level"] for row in comparisons)
    shown = {
        "split": shown_split(row["split"] for row in comparisons),
        "level": level,
        "statistic": SHOWN,
    }
    rows: Rows = [
        {**row, "pair": pair_text(row), "place": place_text(row), "mean": row["range_min"] is None}
        for row in comparisons
        if shown.items() <= row.items()
    ]
    table = []
    for block in rows_by(rows, _BY):
        # Ranges as in all tables, whatever their order in the configuration; means last. Lambdas
        # may be tried side by side in one range.
        several = len({row["place"] for row in block}) < len(block)
        block.sort(key=lambda row: (row["mean"], () if row["mean"] else range_of(row).order))
        for row in block:
            side = {"lambda": row["first_lambda"], "temperature": row["first_temperature"]}
            row["place"] += f", {setting(side)}" if several else ""
            row["condition"] = at_level(condition_text(row), level)
            # the league has the means where all are compared with one decoding
            row["fold"] = "{condition}: {pair}".format(**row) if "first_low" in row else ""
            row |= {"difference_low": row["low"], "difference_high": row["high"]}
            table.append(row | _tested(row, groups))
    return table


def _tested(row: Row, groups: str) -> Record:
    """The outcome of a comparison's test: `significant`, `verdict`, `remark`, `needed` and
    `needed_for`."""
    bounded = row["low"] is not None
    undecided = bounded and row["says"] == NOT_SIGNIFICANT
    outside = undecided and excludes_zero(row, "difference")
    undecided = undecided and not outside
    needed = row["groups_needed"] if undecided else None
    facts = {"row": row, "groups": groups, "FEWEST": FEWEST, "SIGNIFICANCE": SIGNIFICANCE}
    verdict = row["says"] or "not tested: selected on these texts"
    return {
        "significant": row["says"] in (BETTER, WORSE),
        "verdict": verdict if bounded else "no interval",
        "remark": say("remark", **facts) if outside else "",
        "needed": needed,
        "needed_for": row["groups_needed_for_0.05"] if needed else None,
    }


def _of_run(results: Results) -> Rows:
    """The comparisons, without means that `REPAIRS` has."""
    names = ("dimension", "defense", "decoding", "reference")
    planned = {values(row, names) for row in results.repairs}
    names = ("dimension", "defense", "first_decoding", "second_decoding")
    shown = []
    for row in comparison_rows(unattacked(results.comparisons), results.groups):
        if row["level"] != "dataset" or values(row, names) not in planned:
            shown.append(row)
        elif not row["mean"]:
            shown.append(row | {"fold": "{condition}: {pair}, in each range".format(**row)})
    return shown


def comparison_note(rows: Rows, groups: str) -> str:
    """The number of tests that Holm's correction is over, of each dimension by itself."""
    if all(row["p"] is None for row in rows):
        return ""
    counts = {int(row["comparisons"]) for row in rows if row["comparisons"] is not None}
    return say("comparisons", rows=rows, counts=sorted(counts) or [len(rows)], groups=groups)


COMPARISONS = View(
    "comparisons",
    f"Differences in {SHOWN.capitalize()}",
    _of_run,
    (
        Col("range", "place", left=True, width=11),
        Col("first", form=three),
        Col("second", form=three),
        Col(
            "first - second",
            "difference",
            signed_three,
            signed_three,
            marked="significant",
            says=f"difference in {SHOWN.capitalize()}",
        ),
        Col("p", form=p_value, says="paired permutation test over whole {groups}"),
        Col("p, Holm", "p_holm", p_value),
        Col(
            "needed",
            form=rounded_up,
            optional=True,
            says="{groups} for 80 % power at this very difference, before Holm's correction",
        ),
        Col("for 0.05", "needed_for", rounded_up, optional=True, says="at a difference of 0.05"),
        Col("verdict", left=True),
    ),
    by=_BY,
    title="{condition}: {pair}",
    sections=["mean"],
    below="remark",
    note=lambda results, rows: comparison_note(rows, results.groups),
    brackets="{groups} resampled",
    marks="significant after Holm's correction",
    folded="{fold}",
)
