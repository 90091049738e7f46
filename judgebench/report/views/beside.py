"""Judges compared with single raters: agreement in points, the alternative annotator test, and the
uses of a judge."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.report.table import Col, View, labelled_rows, rows_by
from judgebench.report.views.humans import RATERS, human_figures
from judgebench.results.results import Results
from judgebench.stats.agreement import EXPERTS, FEWEST_RATERS, PASSED
from judgebench.stats.clusters import Estimate
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.types import Row, Rows
from judgebench.words.formats import is_known, percent, points, say, short, signed_two, three, two

# --- rows ----------------------------------------------------------------------------------------


def judge_rows(results: Results) -> Rows:
    """The records of beside_humans.json with labels, a row a range, judge and kind of scores."""
    return labelled_rows(results.beside_humans)


def _with_raters(results: Results, rows: Rows, who: str, human: Mapping[str, str]) -> Rows:
    """The rows, and behind those of each dimension and defense one of a single rater.

    Args:
        who: the people that a single rater is compared with.
        human: key of the rows -> key of humans.json.
    """
    table = []
    for part in rows_by(rows, ["dimension", "defense"]):
        table += part
        same = {name: part[0][name] for name in ("dimension", "defense", "condition")}
        record = human_figures(results).get(same["dimension"], {})
        figures = {name: Estimate.of(record, key) for name, key in human.items()}
        if any(figures.values()):
            rater = {
                "range": RATERS,
                "who": f"one, with {who}",
                "setting": "",
                "scores": RAW,
            }
            table.append(same | figures | rater)
    return table


def _points(results: Results) -> Rows:
    """The rows; where single raters are known, agreement is with these, else with their mean
    (`mean_*`)."""
    rows = judge_rows(results)
    singles = any(is_known(row["single_mae"]) for row in rows)
    for row in rows:
        row["why"] = row["points_reason"] if row["mae"] is None else None
        for name in ("exact", "kappa"):
            row[f"mean_{name}"] = None if singles else Estimate.of(row, name)
    names = [f"single_{name}" for name in ("mae", "exact", "adjacent", "kappa")]
    return _with_raters(results, rows, "another", {name: name for name in names})


def _stand_in(results: Results) -> Rows:
    """The rows with `why`: a line below one whose test has no answer, or an answer that says
    little."""
    rows = [row | {"why": say("stand_in", row=row, PASSED=PASSED)} for row in judge_rows(results)]
    if not any((row["tested"] or 0) > 0 for row in rows):
        return []
    return _with_raters(results, rows, "the others", {"tested_spearman_others": "ceiling"})


def _label(row: Row) -> str:
    return row["who"] if row["scores"] == RAW else CALIBRATED


def _setting(row: Row) -> str:
    return row["setting"] if row["scores"] == RAW else ""


def _wins(row: Row) -> str | None:
    """The raters that the judge wins over, as "2 of 3"."""
    rate = row.get("winning_rate")
    return f"{round(rate * row['tested'])} of {row['tested']:.0f}" if is_known(rate) else None


def _verdict(row: Row) -> str | None:
    if row["range"] == RATERS:
        return None
    if not is_known(row["passes"]):
        return "not tested"
    if not row["passes"]:
        return "does not pass"
    return "passes, as blind" if row["by_favorite"] else "passes"


# --- tables -------------------------------------------------------------------------------------

_SAME = "share of texts with the same score, rounded half up"
_KAPPA = "weighted by squared distance"

POINTS = View(
    "points",
    "Agreement in points",
    _points,
    (
        Col("judge, decoding", _label, detail=_setting, left=True, width=23),
        Col(
            "bias",
            form=signed_two,
            ends=signed_two,
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
        Col("judge, decoding", _label, detail=_setting, left=True, width=23),
        Col(
            "wins over",
            _wins,
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
            "{favorite:g}: {favorite_advantage:percent}",
            says="the same of a judge that gives all texts one score, the best for it",
        ),
        Col(
            "Spearman",
            "tested_spearman_others",
            three,
            short,
            says="of the tested scores with the mean of the other raters, as for one rater",
        ),
        Col("verdict", _verdict, left=True),
    ),
    by=["condition"],
    sections=["range"],
    section="{range}",
    below="why",
    note=lambda _, rows: say("stand_in_note", rows=rows, FEWEST_RATERS=FEWEST_RATERS),
)
