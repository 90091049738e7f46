"""Judges compared with single raters: agreement in points, and the alternative annotator test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, percent, points, short, signed_two, singular, spaced, three, two
from judgebench.report.say import say
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import sized_correlations
from judgebench.report.views.humans import RATERS, human_figures
from judgebench.results.results import Records, Results
from judgebench.results.series import CELL, NO_DEFENSE, labelled
from judgebench.stats.alternative import EXPERTS, FEWEST_RATERS, PASSED
from judgebench.stats.clusters import FEWEST
from judgebench.stats.humans import CALIBRATED, RAW
from judgebench.types import LABELS

Row = Mapping[str, Any]
ENDS = ("", "_low", "_high")


# --- rows -------------------------------------------------------------------------------------------------------------


def judge_rows(results: Results) -> list[dict[str, Any]]:
    """The records of beside_humans.json with labels, a row a range, judge and kind of scores. Of the alternative
    annotator test in words: `wins`, `blind`, `verdict` and `advantage_ends`; `rival`, the judge without judgment that
    passes as well; `rivalled`: the judge passes, and its favorite alone would, though by less."""
    rows = records(labelled(results.beside_humans)) if results.beside_humans else []
    for row in rows:
        raw, passes, favorite, rate = row["scores"] == RAW, row["passes"], row["favorite"], row["winning_rate"]
        row |= {"label": row["who"] if raw else CALIBRATED, "own_setting": row["setting"] if raw else ""}
        row["wins"] = f"{round(rate * row['tested'])} of {row['tested']:.0f}" if is_known(rate) else None
        row["blind"] = f"{favorite:g}: {percent(row['favorite_advantage'])}" if is_known(favorite) else None
        ends = spaced(row["advantage_low"], row["advantage_high"], points)
        row["advantage_ends"] = f" {ends}" if ends else ""
        favorite_wins = is_known(row["favorite_winning_rate"]) and row["favorite_winning_rate"] >= PASSED
        row["rivalled"] = bool(passes and not row["by_favorite"] and favorite_wins)
        row["rival"] = "its scores dealt out at random"
        if favorite_wins:
            low = row["favorite_difference_low"]
            if (low if is_known(low) else row["favorite_difference"]) <= 0:
                row["rival"] = f"a judge that always says {favorite:g}"
        if not is_known(passes):
            row["verdict"] = "not tested"
        else:
            row["verdict"] = "does not pass" if not passes else "passes, as blind" if row["by_favorite"] else "passes"
    return rows


def _with_raters(results: Results, rows: list[dict[str, Any]], who: str, human: Mapping[str, str]) -> pd.DataFrame:
    """The rows, and behind those of each dimension and defense one of a single rater.

    Args:
        who: what a single rater is compared with.
        human: key of the rows -> key of humans.json, with its interval.
    """
    parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault((row["dimension"], row["defense"]), []).append(row)
    for (dimension, defense), part in parts.items():
        record = human_figures(results).get(dimension, {})
        figures = {f"{name}{end}": record.get(f"{key}{end}") for name, key in human.items() for end in ENDS}
        if any(map(is_known, figures.values())):
            same = {"dimension": dimension, "defense": defense, "condition": part[0]["condition"]}
            part.append(same | figures | {"range": RATERS, "label": f"one, with {who}"})
    return pd.DataFrame([row for part in parts.values() for row in part])


def points_frame(results: Results) -> pd.DataFrame:
    """A row a range, judge and kind of scores, and one of a single rater with another for each condition. Where single
    raters are known, the figures of agreement are with these; else those with their mean stand in `mean_*`."""
    rows = judge_rows(results)
    singles = any(is_known(row["single_mae"]) for row in rows)
    for row in rows:
        row["why"] = row["points_reason"] if row["mae"] is None else None
        row |= {f"mean_{key}{end}": None if singles else row[f"{key}{end}"]
                for key in ("exact", "kappa", "ac2") for end in ENDS}  # fmt: skip
    same = [f"single_{name}" for name in ("mae", "exact", "adjacent", "kappa", "ac2")]
    return _with_raters(results, rows, "another", dict(zip(same, same, strict=True)))


def stand_in_frame(results: Results) -> pd.DataFrame:
    """A row a range, judge and kind of scores with the verdict of the alternative annotator test, and one of a single
    rater for each condition; `why`: a line below a row whose test has no answer, or one that says little."""
    rows = judge_rows(results)
    for row in rows:
        who, favorite = f"{row['who']}, {row['scores']}: it passes,", row["favorite"]
        if not is_known(row["passes"]):
            row["why"] = row["alternative_reason"] or ""
        elif row["by_favorite"]:
            verb = "do" if row["rival"].startswith("its") else "does"
            row["why"] = f"{who} as {verb} {row['rival']}; passing is no sign of judgment."
        else:
            by_less = f"{who} and so, by less, does a judge that always says {favorite:g}." if row["rivalled"] else ""
            row["why"] = by_less
    if not any((row["tested"] or 0) > 0 for row in rows):
        return pd.DataFrame()
    return _with_raters(results, rows, "the others", {"tested_spearman_others": "ceiling"})


# --- tables -----------------------------------------------------------------------------------------------------------

_SAME = "share of texts with the same score, rounded half up"
_KAPPA = "weighted by squared distance"
_AC2 = "Gwet's, by squared distance; it stays meaningful where nearly all scores are equal"

POINTS = View(
    "points",
    "Agreement in points",
    points_frame,
    (
        Col("judge, decoding", "label", detail="own_setting", left=True, width=23),
        Col("bias", "bias", signed_two, signed_two, says="mean of judge less human; above 0 the judge is too lenient"),
        Col("off their mean", "mae", two, two, says="mean distance from the mean of all raters"),
        Col("same", "mean_exact", percent, points, optional=True, says=_SAME),
        Col("kappa", "mean_kappa", two, short, optional=True, says=_KAPPA),
        Col("AC2", "mean_ac2", two, short, optional=True, says=_AC2),
        Col("off one rater", "single_mae", two, two, optional=True,
            says="mean distance from one rater, mean over raters, as of the columns that follow"),
        Col("same", "single_exact", percent, points, optional=True, says=_SAME),
        Col("within 1", "single_adjacent", percent, points, optional=True, says="with the same or the next score"),
        Col("kappa", "single_kappa", two, short, optional=True, says=_KAPPA),
        Col("AC2", "single_ac2", two, short, optional=True, says=_AC2),
    ),
    by=["condition"],
    title="{condition}",
    sections=["range"],
    section="{range}",
    below="why",
    note="Points are those of the humans' scale. Raw: scores mapped to it linearly, end to end. Calibrated: what "
    "isotonic regression makes of them, learned from other {groups}.",
    brackets="{groups} resampled",
    reasons=["points_reason"],
)  # fmt: skip
"""Bias, distance and chance-corrected agreement of judge and humans, raw and calibrated."""


def _stand_in_note(results: Results, rows: pd.DataFrame) -> str:
    reasons = [reason for reason in rows["disattenuated_reason"][rows["scores"] == RAW] if is_known(reason)]
    rounded = ["Scores are rounded to what a rater may give."] if rows["exact"].notna().any() else []
    return " ".join([
        "Alternative annotator test (Calderon et al., 2025): each rater is left out in turn, and judge and rater are "
        "compared by who lies closer to the others; a judge passes that wins over half of them.",
        *rounded,
        "Blind: one score for all texts, or the judge's own scores dealt to texts at random; where such a judge passes "
        "as well and is not shown to do worse, passing is no sign of judgment. The test is meant for "
        f"{FEWEST_RATERS} raters or more; a judge that does not pass it may lack texts, not worth.",
        *dict.fromkeys(reasons),
    ])  # fmt: skip


STAND_IN = View(
    "stand_in",
    "May it stand in for a rater?",
    stand_in_frame,
    (
        Col("judge, decoding", "label", detail="own_setting", left=True, width=23),
        Col("wins over", "wins",
            says=f"raters to whom the judge loses by less than epsilon, {EXPERTS:g} of the texts (Benjamini-Yekutieli "
            "over raters, {groups} as the units)"),
        Col("at least as close", "advantage", percent, points,
            says="share of texts on which the judge lies at least as close to the others as the rater left out"),
        Col("always says", "blind", says="the same of a judge that gives all texts one score, the best for it"),
        Col("Spearman", "tested_spearman_others", three, short,
            says="of the tested scores with the mean of the other raters, as for one rater"),
        Col("disattenuated", "disattenuated_spearman", three, short, optional=True,
            says="Spearman of raw scores with the mean of all, divided by the root of that mean's reliability, an "
            "estimate for raters who do not err; it may exceed 1"),
        Col("verdict", "verdict", left=True),
    ),
    by=["condition"],
    title="{condition}",
    sections=["range"],
    section="{range}",
    below="why",
    note=_stand_in_note,
)  # fmt: skip
"""The alternative annotator test of judges, raw and calibrated, with a judge without judgment and with Spearman."""


def beside_runs_frame(runs: Mapping[str, Results]) -> pd.DataFrame:
    """A row a run (by its letter), range and judge of each dimension, and the humans' own behind those of a dimension,
    one a run where they differ; clean texts without defense, raw scores. Empty where no run was studied with single
    raters."""
    judges: dict[str, list[dict[str, Any]]] = {}
    humans: dict[str, dict[str, dict[str, Any]]] = {}
    for letter, run in runs.items():
        orders = {series_key(row): row for row in correlated(run)}
        ranked = {series_key(row): row for row in run.systems}
        rows = [row for row in judge_rows(run) if row["defense"] == NO_DEFENSE]
        fitted = {series_key(row): row for row in rows if row["scores"] == CALIBRATED}
        for row in rows:
            if row["scores"] == RAW:
                key = series_key(row)
                others = {"spearman_others": orders.get(key, {}), "pairwise_accuracy": ranked.get(key, {})}
                row |= {f"{name}{end}": of.get(f"{name}{end}") for name, of in others.items() for end in ENDS}
                row |= {"run": letter, "fitted": fitted[key]["wins"]}
                judges.setdefault(str(row["condition"]), []).append(row)
        for name, record in human_figures(run).items():
            sources = {"spearman_others": "ceiling", "single_mae": "single_mae"}
            figures = {f"{key}{end}": record.get(f"{of}{end}") for key, of in sources.items() for end in ENDS}
            same = {"condition": name, "who": "one, with the others", "range": RATERS}
            humans.setdefault(name, {})[letter] = same | figures
    rows = []
    for condition, part in judges.items():
        lines = humans.get(condition, {})
        alike = all(line == next(iter(lines.values())) for line in lines.values())
        shown = [{"run": "" if alike else letter} | line for letter, line in lines.items()]
        rows += [*part, *(shown[:1] if alike else shown)]
    return pd.DataFrame(rows)


BESIDE_RUNS = View(
    "beside_runs",
    "Beside humans",
    beside_runs_frame,
    (
        Col("run", "run", left=True),
        Col("judge, decoding", "who", detail="setting", left=True),
        Col("range", "range", left=True),
        Col("Spearman", "spearman_others", three, short,
            says="with the mean of all raters but one, mean over raters, as for one rater"),
        Col("bias", "bias", signed_two, signed_two, says="mean of judge less human, in points of the humans' scale"),
        Col("off one rater", "single_mae", two, two, optional=True, says="mean distance from a single rater"),
        Col("wins over", "wins", group="alternative annotator test", optional=True,
            says="raters to whom the judge loses by less than epsilon"),
        Col("calibrated", "fitted", group="alternative annotator test", optional=True,
            says="the same of calibrated scores"),
        Col("always says", "blind", group="alternative annotator test", optional=True,
            says="the best single score, and the share of texts on which a judge that always gives it would lie as "
            "close"),
        Col("pairs", "pairwise_accuracy", percent, points, optional=True,
            says="share of pairs of systems that the judge orders as humans do"),
    ),
    by=["condition"],
    title="{condition}",
)  # fmt: skip
"""Judges of several runs on one data set, and one human, in the same columns."""


# --- sentences --------------------------------------------------------------------------------------------------------


def stand_in_sentences(results: Results) -> list[str]:
    """One sentence or two a dimension: the alternative annotator test of the judge and range that agree best with the
    humans, raw and calibrated, and of a judge without judgment."""
    return [
        say("stand_in", condition=condition, raw=raw, fitted=fitted, name=judge_name(results, raw))
        for condition, raw, fitted in best_pairs(results)
    ]


def points_sentences(results: Results) -> list[str]:
    """One sentence a dimension: bias and distance from the humans in points of their scale, of the judge and range that
    agree best with them, and the distance of one rater from another."""
    sentences = []
    for condition, row, _ in best_pairs(results):
        human = human_figures(results).get(str(row["dimension"]), {})
        groups = results.groups if row["groups"] > 1 else singular(results.groups)
        few = f"over only {row['groups']:.0f} {groups}" if row["groups"] < FEWEST else ""
        name = judge_name(results, row)
        sentences.append(say("points", condition=condition, row=row, name=name, human=human, few=few))
    return sentences


def calibration_sentences(results: Results) -> list[str]:
    """One sentence a dimension: the distance from the humans' mean of the judge and range that agree best with them,
    raw and calibrated, whether that is closer by more than chance, and how it compares with always saying the mean;
    none where one of them is not known, or with fewer than `FEWEST` groups."""
    return [
        say("calibration", condition=name, raw=raw, fitted=fitted, name=judge_name(results, raw), groups=results.groups)
        for name, raw, fitted in best_pairs(results)
        if is_known(raw["mae"]) and is_known(fitted["mae"]) and raw["groups"] >= FEWEST
    ]


def judge_name(results: Results, row: Row) -> str:
    """A judge in a sentence: its model's name, with decoding and range where the run has several; else its series."""
    titles, judge, rows = results.titles, str(row["judge"]), judge_rows(results)
    title = titles.get(judge) or f"the {judge}"
    if judge == "pair" and titles.get("main") and titles.get("assistant"):
        title = f"{titles['main']} with {titles['assistant']}"
    several = len({(other["judge"], other["decoding"]) for other in rows}) > 1
    parts = [str(row["who"]), str(row["setting"])] if several else []
    parts += [f"range {row['range']}"] if len({other["range"] for other in rows}) > 1 else []
    details = ", ".join(filter(None, parts))
    return f"{title} ({details})" if details else title


def best_pairs(results: Results) -> list[tuple[str, Row, Row]]:
    """Condition, and the raw and calibrated rows of the judge and range with the highest Spearman there; without
    defense where there are such rows."""
    rows = judge_rows(results)
    rows = [row for row in rows if row["defense"] == NO_DEFENSE] or rows
    height = {series_key(row): row["spearman"] for row in correlated(results)} if rows else {}
    pairs: list[tuple[str, Row, Row]] = []
    for condition in dict.fromkeys(str(row["condition"]) for row in rows):
        raw, fitted = ([row for row in rows if row["condition"] == condition and row["scores"] == kind]
                       for kind in (RAW, CALIBRATED))  # fmt: skip
        best = max(range(len(raw)), key=[height.get(series_key(row), -2.0) for row in raw].__getitem__)
        pairs.append((condition, raw[best], fitted[best]))
    return pairs


def correlated(results: Results) -> Records:
    """The correlations at dataset level that are known, without the averages."""
    rows = records(sized_correlations(results, "dataset", silent=True))
    return [row for row in rows if row["range"] != "average" and is_known(row["spearman"])]


_KEYS = (*CELL, "judge", "decoding", "lambda", "temperature", LABELS)


def series_key(row: Row) -> tuple[Any, ...]:
    """Condition, judge and setting of a record or a row, by which those of several files are found."""
    return tuple(row.get(name) if is_known(row.get(name)) and row[name] != "" else None for name in _KEYS)
