"""Judges beside single raters: agreement in points, and the alternative annotator test, as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from judgebench.report.formats import (
    bounded,
    is_known,
    percent,
    points,
    short,
    signed_two,
    singular,
    spaced,
    text,
    three,
    two,
)
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import few_groups, sized_correlations
from judgebench.report.views.humans import RATERS, human_figures
from judgebench.results.results import Records, Results
from judgebench.results.series import CELL, NO_DEFENSE, labelled
from judgebench.stats.alternative import EXPERTS, FEWEST_RATERS, PASSED
from judgebench.stats.clusters import FEWEST
from judgebench.stats.humans import CALIBRATED, RAW
from judgebench.types import LABELS

_WITH_MEAN = ("exact", "kappa", "ac2")
_CONDITION = ("dimension", "defense")


def _rows(results: Results) -> pd.DataFrame:
    """The records as rows that tables show."""
    if not results.beside_humans:
        return pd.DataFrame()
    rows = labelled(results.beside_humans)
    raw = rows["scores"] == RAW
    return rows.assign(label=rows["who"].where(raw, CALIBRATED), own_setting=rows["setting"].where(raw, ""))


def _beside_raters(results: Results, rows: pd.DataFrame, who: str, human: Mapping[str, str]) -> pd.DataFrame:
    """The rows, and behind those of each condition one of a single rater.

    Args:
        who: what a single rater is with.
        human: column of the rows -> key of humans.json, with its interval.
    """
    known, parts = human_figures(results), []
    for _, part in rows.groupby(list(_CONDITION), sort=False):
        parts.append(part)
        record = known.get(part["dimension"].iloc[0], {})
        figures = {
            f"{name}{end}": record.get(f"{key}{end}") for name, key in human.items() for end in ("", "_low", "_high")
        }
        if any(is_known(value) for value in figures.values()):
            same = {name: part[name].iloc[0] for name in (*_CONDITION, "condition")}
            parts.append(pd.DataFrame([same | figures | {"range": RATERS, "label": f"one, with {who}"}]))
    return pd.concat([part.astype(object) for part in parts], ignore_index=True)


# --- agreement in points ----------------------------------------------------------------------------------------------


def points_frame(results: Results) -> pd.DataFrame:
    """A row a range, judge and kind of scores, and one of a single rater beside another for each condition.

    Where single raters are known, the figures of agreement are with these; else those with their mean stand in
    `mean_*`.
    """
    rows = _rows(results)
    if not len(rows):
        return rows
    rows["why"] = None
    unknown = rows["mae"].isna()
    rows.loc[unknown, "why"] = rows.loc[unknown, "points_reason"]
    singles = rows["single_mae"].notna().any()
    for name in _WITH_MEAN:
        for end in ("", "_low", "_high"):
            rows[f"mean_{name}{end}"] = None if singles else rows[f"{name}{end}"]
    names = ("mae", "exact", "adjacent", "kappa", "ac2")
    return _beside_raters(results, rows, "another", {f"single_{name}": f"single_{name}" for name in names})


def _points_note(results: Results, rows: pd.DataFrame) -> str:
    single = rows["single_mae"].notna().any()
    parts = [
        "Points are those of the humans' scale. Raw: scores mapped to it linearly, end to end. Calibrated: what "
        f"isotonic regression makes of them, learned from other {results.groups}. Bias: mean of judge less human; "
        "above 0 the judge is too lenient. Off their mean"
        + (
            ", off one rater: mean distance from the mean of all raters, and from one (mean over raters)."
            if single
            else ": mean distance from it."
        ),
        ("The other columns are with one rater, too, and the last row is one rater beside another." if single else ""),
        "Same: share of texts with the same score, rounded half up"
        + ("; within 1: with the same or the next. " if single else ". ")
        + "Kappa: weighted by squared distance; AC2: Gwet's, likewise, which stays meaningful where nearly all scores "
        "are equal. Brackets: 95 % intervals over " + results.groups + ".",
        few_groups(results.groups) if rows["groups"].min() < FEWEST else "",
    ]
    reasons = dict.fromkeys(one for one in rows.get("points_reason", ()) if is_known(one))
    return " ".join(filter(None, [*parts, *reasons]))


POINTS = View(
    "points",
    "Agreement in points",
    points_frame,
    (
        Col("judge, decoding", "label", detail="own_setting", left=True, width=23),
        Col("bias", "bias", signed_two, ends=signed_two),
        Col("off their mean", "mae", two, ends=two),
        Col("same", "mean_exact", percent, ends=points, optional=True),
        Col("kappa", "mean_kappa", two, ends=short, optional=True),
        Col("AC2", "mean_ac2", two, ends=short, optional=True),
        Col("off one rater", "single_mae", two, ends=two, optional=True),
        Col("same", "single_exact", percent, ends=points, optional=True),
        Col("within 1", "single_adjacent", percent, ends=points, optional=True),
        Col("kappa", "single_kappa", two, ends=short, optional=True),
        Col("AC2", "single_ac2", two, ends=short, optional=True),
    ),
    by=["condition"],
    title="{condition}",
    sections=["range"],
    section="{range}",
    below="why",
    note=_points_note,
)
"""Bias, distance and chance-corrected agreement of judge and humans, raw and calibrated."""


# --- the alternative annotator test -----------------------------------------------------------------------------------


def stand_in_frame(results: Results) -> pd.DataFrame:
    """A row a range, judge and kind of scores with the verdict of the alternative annotator test in words, and one of
    a single rater for each condition."""
    rows = _rows(results)
    if not len(rows) or not (rows["tested"] > 0).any():
        return rows.head(0)
    found = records(rows)
    rows["wins"] = [_wins(row) for row in found]
    rows["blind"] = [_blind(row) for row in found]
    rows["verdict"] = [_verdict(row) for row in found]
    rows["why"] = [_warning(row) for row in found]
    return _beside_raters(results, rows, "the others", {"tested_spearman_others": "ceiling"})


def _wins(row: Mapping[str, Any]) -> str | None:
    rate = row["winning_rate"]
    return f"{round(rate * row['tested'])} of {row['tested']:.0f}" if is_known(rate) else None


def _blind(row: Mapping[str, Any]) -> str | None:
    if not is_known(row["favorite"]):
        return None
    return f"{row['favorite']:g}: {percent(row['favorite_advantage'])}"


def _by_favorite(row: Mapping[str, Any]) -> bool:
    """True where it is the favorite score that passes as well, not only the judge's own scores at random."""
    low = row["favorite_difference_low"]
    low = low if is_known(low) else row["favorite_difference"]
    return bool(row["favorite_winning_rate"] >= PASSED and low <= 0)


def rival(row: Mapping[str, Any]) -> str:
    """The judge without judgment that passes as well as this one."""
    return f"a judge that always says {row['favorite']:g}" if _by_favorite(row) else "its scores dealt out at random"


def _verdict(row: Mapping[str, Any]) -> str:
    if not is_known(row["passes"]):
        return "not tested"
    return ("passes, as blind" if row["by_favorite"] else "passes") if row["passes"] else "does not pass"


def _warning(row: Mapping[str, Any]) -> str:
    """A line below a row whose test has no answer, or one that says nothing of judgment."""
    if not is_known(row["passes"]):
        return text(row["alternative_reason"])
    verb = "does" if _by_favorite(row) else "do"
    who = f"{row['who']}, {row['scores']}: it passes, "
    if row["by_favorite"]:
        return f"{who}as {verb} {rival(row)}; passing is no sign of judgment."
    return f"{who}and so, by less, does a judge that always says {row['favorite']:g}." if rivalled(row) else ""


def rivalled(row: Mapping[str, Any]) -> bool:
    """True where a judge passes, and its favorite alone would, though by less."""
    return bool(row["passes"] and not row["by_favorite"] and row["favorite_winning_rate"] >= PASSED)


def _stand_in_note(results: Results, rows: pd.DataFrame) -> str:
    reasons = [one for one in rows["disattenuated_reason"][rows["scores"] == RAW] if is_known(one)]
    return " ".join(
        [
            "Alternative annotator test (Calderon et al., 2025): each rater is left out in turn, and judge and rater "
            "are compared by who lies closer to the others. Wins over: raters to whom the judge loses by less than "
            f"epsilon, {EXPERTS:g} of the texts (Benjamini-Yekutieli over raters, {results.groups} as the units); it "
            "passes with half of them. At least as close: share of texts on which the judge lies at least as close to "
            "the others as the rater left out. Always says: the same of a judge that gives all texts one score, the "
            "best for it. Spearman: of the tested scores with the mean of the other raters, as for one rater. "
            "Disattenuated: Spearman of raw scores with the mean of all, divided by the root of that mean's "
            "reliability, an estimate for raters who do not err; it may exceed 1. "
            + ("Scores are rounded to what a rater may give. " if rows["exact"].notna().any() else "")
            + "Blind: one score for all texts, or the judge's own scores dealt to texts at random; where such "
            "a judge passes as well and is not shown to do worse, passing is no sign of judgment. The test is meant "
            f"for {FEWEST_RATERS} raters or more; a judge that does not pass it may lack texts, not worth.",
            *dict.fromkeys(reasons),
        ]
    )


STAND_IN = View(
    "stand_in",
    "May it stand in for a rater?",
    stand_in_frame,
    (
        Col("judge, decoding", "label", detail="own_setting", left=True, width=23),
        Col("wins over", "wins"),
        Col("at least as close", "advantage", percent, ends=points),
        Col("always says", "blind"),
        Col("Spearman", "tested_spearman_others", three, ends=short),
        Col("disattenuated", "disattenuated_spearman", three, ends=short, optional=True),
        Col("verdict", "verdict", left=True),
    ),
    by=["condition"],
    title="{condition}",
    sections=["range"],
    section="{range}",
    below="why",
    note=_stand_in_note,
)
"""The alternative annotator test of judges, raw and calibrated, beside a judge without judgment and beside Spearman."""


# --- several runs -----------------------------------------------------------------------------------------------------


def beside_runs_frame(runs: Mapping[str, Results]) -> pd.DataFrame:
    """A row a run (by its letter), range and judge of each dimension, and the humans' own behind those of a dimension,
    one a run where they differ; clean texts without defense, raw scores. Empty where no run was studied beside
    humans."""
    parts: list[dict[str, Any]] = []
    humans: dict[str, dict[str, dict[str, Any]]] = {}
    for letter, run in runs.items():
        orders = {series_key(row): row for row in correlated(run)}
        ranked = {series_key(row): row for row in run.systems}
        rows = [row for row in records(_rows(run)) if row["defense"] == NO_DEFENSE]
        fitted = {series_key(row): row for row in rows if row["scores"] == CALIBRATED}
        for row in (row for row in rows if row["scores"] == RAW):
            key = series_key(row)
            found = {"run": letter, "wins": _wins(row), "fitted": _wins(fitted[key]), "blind": _blind(row)}
            parts.append(row | _kept(orders.get(key), "spearman_others") | _kept(ranked.get(key), "pairwise_accuracy")
                         | found)  # fmt: skip
        for name, record in human_figures(run).items():
            own = _kept(record, "spearman_others", "ceiling")
            own |= _kept(record, "single_mae")
            same = {"condition": name, "who": "one, with the others", "range": RATERS} | own
            humans.setdefault(name, {})[letter] = same
    table = pd.DataFrame(parts)
    if not len(table):
        return table
    both = []
    for condition, part in table.groupby("condition", sort=False):
        name = str(condition)
        known = humans.get(name, {})
        alike = all(one == next(iter(known.values())) for one in known.values())
        shown = [{"run": "" if alike else letter} | one for letter, one in known.items()]
        both += [part, pd.DataFrame(shown[:1] if alike else shown)] if shown else [part]
    return pd.concat([part.astype(object) for part in both], ignore_index=True)


def _kept(row: Mapping[str, Any] | None, name: str, source: str = "") -> dict[str, Any]:
    """A number with its interval, by its name."""
    return {f"{name}{end}": None if row is None else row.get(f"{source or name}{end}") for end in ("", "_low", "_high")}


BESIDE_RUNS = View(
    "beside_runs",
    "Beside humans",
    beside_runs_frame,
    (
        Col("run", "run", left=True),
        Col("judge, decoding", "who", detail="setting", left=True),
        Col("range", "range", left=True),
        Col("Spearman", "spearman_others", three, ends=short),
        Col("bias", "bias", signed_two, ends=signed_two),
        Col("off one rater", "single_mae", two, ends=two, optional=True),
        Col("wins over", "wins", group="alternative annotator test", optional=True),
        Col("calibrated", "fitted", group="alternative annotator test", optional=True),
        Col("always says", "blind", group="alternative annotator test", optional=True),
        Col("pairs", "pairwise_accuracy", percent, ends=points, optional=True),
    ),
    by=["condition"],
    title="{condition}",
    note="Spearman: with the mean of all raters but one, mean over raters, as for one rater. Bias: mean of judge less "
    "human, in points of the humans' scale. Off one rater: mean distance from a single rater. Wins over: raters to "
    "whom the judge loses by less than epsilon; calibrated: the same of calibrated scores; always says: the best "
    "single score, and the share of texts on which a judge that always gives it would lie as close. Pairs: share of "
    "pairs of systems that the judge orders as humans do.",
)
"""Judges of several runs on one data set, and one human, in the same columns."""


# --- sentences --------------------------------------------------------------------------------------------------------


def stand_in_sentences(results: Results) -> list[str]:
    """One sentence or two a dimension: the alternative annotator test of the judge and range that agree best with the
    humans, raw and calibrated, and of a judge without judgment."""
    return [f"{name}: {_stands_in(results, raw, fitted)}" for name, raw, fitted in best_pairs(results)]


def _stands_in(results: Results, raw: Mapping[str, Any], fitted: Mapping[str, Any]) -> str:
    if not is_known(raw["passes"]) and not is_known(fitted["passes"]):
        return f"no alternative annotator test. {raw['alternative_reason']}"
    test = " the alternative annotator test"
    told = ("wins over", "lies at least as close to the others as the rater left out on")
    first = _tested(raw, judge_name(results, raw), test, told)
    return f"{first} {_tested(fitted, 'Calibrated, it', '', ('', ''))}"


def _tested(row: Mapping[str, Any], who: str, test: str, told: tuple[str, str]) -> str:
    if not is_known(row["passes"]):
        return f"{who} is not tested. {row['alternative_reason']}"
    raters = "rater" if row["tested"] == 1 else "raters"
    figures = f"{told[0]} {_wins(row)} {raters}, {told[1]} {percent(row['advantage'])} of texts".replace(
        "  ", " "
    ).strip()
    sentence = (
        f"{who} {'passes' if row['passes'] else 'does not pass'}{test} ({figures}{_ends(row, 'advantage', points)})"
    )
    if row["by_favorite"]:
        sentence += f", but so would {rival(row)}, so passing is no sign of judgment"
    elif rivalled(row):
        sentence += f"; a judge that always says {row['favorite']:g} would, too ({percent(row['favorite_advantage'])})"
    return f"{sentence}."


def points_sentences(results: Results) -> list[str]:
    """One sentence a dimension: bias and distance from the humans in points of their scale, of the judge and range that
    agree best with them, and the distance of one rater from another."""
    humans = human_figures(results)
    return [f"{name}: {_in_points(results, raw, humans)}" for name, raw, _ in best_pairs(results)]


def _in_points(results: Results, row: Mapping[str, Any], humans: Mapping[str, Mapping[str, Any]]) -> str:
    name = judge_name(results, row)
    if not is_known(row["mae"]):
        return f"no agreement in points for {name}. {row['points_reason']}"
    low, high, bias = row["bias_low"], row["bias_high"], row["bias"]
    way = f"{two(abs(bias))} points too {'lenient' if bias > 0 else 'strict'}"
    few = row["groups"] < FEWEST
    if not is_known(low) or few:
        why = f"over only {row['groups']:.0f} {results.groups if row['groups'] > 1 else singular(results.groups)}"
        why = why if few else "without an interval"
        lean = f"is {way} on average, {why}," if two(bias) != two(0) else "has no bias on average"
    elif low <= 0 <= high:
        lean = f"has no clear bias ({signed_two(bias)}{_ends(row, 'bias', signed_two)})"
    else:
        ends = (low, high) if bias > 0 else (-high, -low)
        lean = f"is {way} {spaced(*ends, two)}"
    if not is_known(row["single_mae"]):
        return f"on the humans' scale {name} {lean} and misses their mean by {_measured(row, 'mae')} on average."
    sentence = f"on the humans' scale {name} {lean} and misses one rater by {_measured(row, 'single_mae')} on average"
    other = humans.get(str(row["dimension"]), {})
    if is_known(other.get("single_mae")):
        sentence += f"; one rater misses another by {_measured(other, 'single_mae')}"
    return f"{sentence}."


def calibration_sentences(results: Results) -> list[str]:
    """One sentence a dimension: the distance from the humans' mean of the judge and range that agree best with them,
    raw and calibrated, and whether that is closer by more than chance; none where one of them is not known, or with
    fewer than `FEWEST` groups."""
    return [
        f"{name}: calibrated by the humans' ratings of other {results.groups}, {judge_name(results, raw)} misses the "
        f"humans' mean by {_measured(fitted, 'mae')}, in place of {_measured(raw, 'mae')}"
        f"{_closer(fitted)}{_constant(fitted)}."
        for name, raw, fitted in best_pairs(results)
        if is_known(raw["mae"]) and is_known(fitted["mae"]) and raw["groups"] >= FEWEST
    ]


def _closer(fitted: Mapping[str, Any]) -> str:
    low, high = fitted.get("mae_saved_low"), fitted.get("mae_saved_high")
    if low is None or high is None or not low <= 0:  # NaN is not known either
        return ""
    return ", which is worse" if high < 0 else ", which is no closer by more than chance"


def _constant(fitted: Mapping[str, Any]) -> str:
    """What the calibrated scores are worth compared with always saying the mean rating, both by squared distance."""
    if not is_known(fitted.get("r2")) or not is_known(fitted["r2_low"]):
        return ""
    share = bounded(fitted, "r2", points, percent)
    if fitted["r2_low"] > 0:
        return f"; its squared error is {share} smaller than that of always saying the humans' mean score"
    how = "worse than" if fitted["r2_high"] < 0 else "not clearly better than"
    return (
        f"; by squared error that is {how} always saying the humans' mean score (R2 {bounded(fitted, 'r2', two, two)})"
    )


def _measured(row: Mapping[str, Any], name: str) -> str:
    return f"{two(row[name])}{_ends(row, name, two)} points"


def _ends(row: Mapping[str, Any], name: str, form: Any) -> str:
    ends = spaced(row[f"{name}_low"], row[f"{name}_high"], form)
    return f" {ends}" if ends else ""


def judge_name(results: Results, row: Mapping[str, Any]) -> str:
    """A judge in a sentence: its model's name, with decoding and range where the run has several; else its series."""
    titles, judge = results.titles, str(row["judge"])
    own = titles.get(judge) or f"the {judge}"
    if judge == "pair" and titles.get("main") and titles.get("assistant"):
        own = f"{titles['main']} with {titles['assistant']}"
    several = len({(one["judge"], one["decoding"]) for one in results.beside_humans}) > 1
    ranges = len({one["range"] for one in records(_rows(results))}) > 1
    parts = [str(row["who"]) if several else "", str(row["setting"]) if several else ""]
    parts += [f"range {row['range']}"] if ranges else []
    said = ", ".join(filter(None, parts))
    return f"{own} ({said})" if said else own


_KEYS = (*CELL, "judge", "decoding", "lambda", "temperature", LABELS)


def best_pairs(results: Results) -> Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Condition, and the raw and calibrated rows of the judge and range with the highest Spearman there; without
    defense where there are such rows."""
    rows = _rows(results)
    if not len(rows):
        return []
    bare = rows[rows["defense"] == NO_DEFENSE]
    height = {series_key(one): one["spearman"] for one in correlated(results)}
    found = []
    for condition, part in (bare if len(bare) else rows).groupby("condition", sort=False):
        kinds = {kind: records(part[part["scores"] == kind]) for kind in (RAW, CALIBRATED)}
        best = max(range(len(kinds[RAW])), key=[height.get(series_key(one), -2.0) for one in kinds[RAW]].__getitem__)
        found.append((str(condition), kinds[RAW][best], kinds[CALIBRATED][best]))
    return found


def correlated(results: Results) -> Records:
    """The correlations at dataset level that are known, without the averages."""
    rows = sized_correlations(results, "dataset", silent=True)
    if not len(rows):
        return []
    return [one for one in records(rows[rows["range"] != "average"]) if is_known(one["spearman"])]


def series_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Condition, judge and setting of a record or a row, by which those of several files are found."""
    return tuple(row.get(name) if is_known(row.get(name)) and row[name] != "" else None for name in _KEYS)
