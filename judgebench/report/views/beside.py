"""Judges compared with single raters: agreement in points, the alternative annotator test, and the
uses of a judge."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.report.formats import (
    is_known,
    percent,
    points,
    short,
    signed_two,
    spaced,
    three,
    two,
)
from judgebench.report.table import Col, Rows, View, records, rows_by
from judgebench.report.views.humans import ENDS, RATERS, human_figures
from judgebench.results.results import Results, labelled
from judgebench.stats.agreement import EXPERTS, PASSED
from judgebench.stats.humans import CALIBRATED, RAW

# --- rows ----------------------------------------------------------------------------------------


def judge_rows(results: Results) -> Rows:
    """The records of beside_humans.json with labels, a row a range, judge and kind of scores. Of
    the alternative annotator test in words: `wins`, `blind`, `verdict` and `advantage_ends`;
    `rival`, the judge without judgment that passes as well; `rivalled`: the judge passes, and its
    favorite alone would, though by less."""
    rows = records(labelled(results.beside_humans)) if results.beside_humans else []
    for row in rows:
        raw = row["scores"] == RAW
        passes = row["passes"]
        favorite = row["favorite"]
        rate = row["winning_rate"]
        row |= {
            "label": row["who"] if raw else CALIBRATED,
            "own_setting": row["setting"] if raw else "",
        }
        row["wins"] = (
            f"{round(rate * row['tested'])} of {row['tested']:.0f}" if is_known(rate) else None
        )
        row["blind"] = (
            f"{favorite:g}: {percent(row['favorite_advantage'])}" if is_known(favorite) else None
        )
        ends = spaced(row["advantage_low"], row["advantage_high"], points)
        row["advantage_ends"] = f" {ends}" if ends else ""
        favorite_wins = (
            is_known(row["favorite_winning_rate"]) and row["favorite_winning_rate"] >= PASSED
        )
        row["rivalled"] = bool(passes and not row["by_favorite"] and favorite_wins)
        row["rival"] = "its scores dealt out at random"
        if favorite_wins:
            low = row["favorite_difference_low"]
            if (low if is_known(low) else row["favorite_difference"]) <= 0:
                row["rival"] = f"a judge that always says {favorite:g}"
        row["verdict"] = "not tested"
        if is_known(passes):
            row["verdict"] = (
                "does not pass"
                if not passes
                else "passes, as blind"
                if row["by_favorite"]
                else "passes"
            )
    return rows


def _with_raters(results: Results, rows: Rows, who: str, human: Mapping[str, str]) -> Rows:
    """The rows, and behind those of each dimension and defense one of a single rater.

    Args:
        who: the people that a single rater is compared with.
        human: key of the rows -> key of humans.json, with its interval.
    """
    table = []
    for part in rows_by(rows, ["dimension", "defense"]):
        same = {name: part[0][name] for name in ("dimension", "defense", "condition")}
        record = human_figures(results).get(same["dimension"], {})
        figures = {
            f"{name}{end}": record.get(f"{key}{end}") for name, key in human.items() for end in ENDS
        }
        row = same | figures | {"range": RATERS, "label": f"one, with {who}"}
        table += [*part, *([row] if any(map(is_known, figures.values())) else [])]
    return table


def _points(results: Results) -> Rows:
    """The rows; where single raters are known, agreement is with these, else with their mean
    (`mean_*`)."""
    rows = judge_rows(results)
    singles = any(is_known(row["single_mae"]) for row in rows)
    for row in rows:
        row["why"] = row["points_reason"] if row["mae"] is None else None
        row |= {
            f"mean_{key}{end}": None if singles else row[f"{key}{end}"]
            for key in ("exact", "kappa")
            for end in ENDS
        }
    same = [f"single_{name}" for name in ("mae", "exact", "adjacent", "kappa")]
    return _with_raters(results, rows, "another", dict(zip(same, same, strict=True)))


def _stand_in(results: Results) -> Rows:
    """The rows with `why`: a line below one whose test has no answer, or an answer that says
    little."""
    rows = judge_rows(results)
    for row in rows:
        who, row["why"] = f"{row['who']}, {row['scores']}: it passes,", ""
        if not is_known(row["passes"]):
            row["why"] = row["alternative_reason"] or ""
        elif row["by_favorite"]:
            verb = "do" if row["rival"].startswith("its") else "does"
            row["why"] = f"{who} as {verb} {row['rival']}; passing is no sign of judgment."
        elif row["rivalled"]:
            row["why"] = (
                f"{who} and so, by less, does a judge that always says {row['favorite']:g}."
            )
    tested = any((row["tested"] or 0) > 0 for row in rows)
    return (
        _with_raters(results, rows, "the others", {"tested_spearman_others": "ceiling"})
        if tested
        else []
    )


# --- tables -------------------------------------------------------------------------------------

_SAME = "share of texts with the same score, rounded half up"
_KAPPA = "weighted by squared distance"

POINTS = View(
    "points",
    "Agreement in points",
    _points,
    (
        Col("judge, decoding", "label", detail="own_setting", left=True, width=23),
        Col(
            "bias",
            "bias",
            signed_two,
            signed_two,
            says="mean of judge less human; above 0 the judge is too lenient",
        ),
        Col("off their mean", "mae", two, two, says="mean distance from the mean of all raters"),
        Col("same", "mean_exact", percent, points, optional=True, says=_SAME),
        Col("kappa", "mean_kappa", two, short, optional=True, says=_KAPPA),
        Col(
            "off one rater",
            "single_mae",
            two,
            two,
            optional=True,
            says="mean distance from one rater, mean over raters, as of the columns that follow",
        ),
        Col("same", "single_exact", percent, points, optional=True, says=_SAME),
        Col(
            "within 1",
            "single_adjacent",
            percent,
            points,
            optional=True,
            says="with the same or the next score",
        ),
        Col("kappa", "single_kappa", two, short, optional=True, says=_KAPPA),
    ),
    by=["condition"],
    sections=["range"],
    section="{range}",
    below="why",
    note="Points are those of the humans' scale. Raw: scores mapped to it linearly, end to end. "
    "Calibrated: what isotonic regression makes of them, learned from other {groups}.",
    brackets="{groups} resampled",
    reasons=["points_reason"],
)

STAND_IN = View(
    "stand_in",
    "May it stand in for a rater?",
    _stand_in,
    (
        Col("judge, decoding", "label", detail="own_setting", left=True, width=23),
        Col(
            "wins over",
            "wins",
            says=f"raters to whom the judge loses by less than epsilon, {EXPERTS:g} of the texts "
            "(Benjamini-Yekutieli over raters, {groups} as the units)",
        ),
        Col(
            "at least as close",
            "advantage",
            percent,
            points,
            says="share of texts on which the judge lies at least as close to the others as the "
            "rater left out",
        ),
        Col(
            "always says",
            "blind",
            says="the same of a judge that gives all texts one score, the best for it",
        ),
        Col(
            "Spearman",
            "tested_spearman_others",
            three,
            short,
            says="of the tested scores with the mean of the other raters, as for one rater",
        ),
        Col("verdict", "verdict", left=True),
    ),
    by=["condition"],
    sections=["range"],
    section="{range}",
    below="why",
    note="stand_in_note.txt",
)
