"""The verdict on each use of a judge: what may be done in one sentence, its table, and the rules
that earn it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from judgebench.report.table import Block, Col, Facts, View, rows_by
from judgebench.report.views import pairwise
from judgebench.report.views.decisions import chosen_record
from judgebench.report.views.dimensions import answers, headed
from judgebench.results.results import Results
from judgebench.settings.fields import settings_of
from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Estimate
from judgebench.studies.rules import CARE, NO, RULES, half_of_way, rules_of
from judgebench.types import Row, Rows
from judgebench.words.formats import Format, bounded, in_groups, is_known, percent, points, say, two

UNITS: Mapping[str, tuple[Format, Format]] = {
    "decide": (percent, points),
    "order_texts": (percent, points),
    "compare_systems": (percent, points),
    "report_scores": (two, two),
    "replace_rater": (two, two),
    "resist_attacks": (percent, points),
    "steady": (percent, points),
}
"""Use -> the formats of its number and of the ends of its interval: shares, or points of the
humans' scale."""


def verdict_rows(results: Results) -> Rows:
    """The records of verdict.json with the `title` of the use; clauses have the run's word for its
    groups, and say from where a judge may be used with care."""
    rows = []
    for row in results.verdict:
        clause, rater, rest = in_groups(row["clause"], results.groups).partition("; one rater")
        if bars := _bars(results, row):
            clause += f"; with care from {' and '.join(dict.fromkeys(map(points, bars)))}"
        title = RULES[row["use"]].title
        rows.append({**row, "title": title, "clause": f"{clause}{rater}{rest}"})
    return rows


def _bars(results: Results, row: Row) -> Sequence[float]:
    """The shares from which a verdict is with care, half of the way from a coin to one rater; of
    *decide* that of passes and that of fails. Empty where another reason has decided."""
    margins = settings_of(Margins, results.config.get("verdict") or {}, "verdict")
    if row["use"] == "decide":
        record = chosen_record(results, row["dimension"])
        raters = [record.get(f"{side}_rater") for side in _SIDES]
        near = [margins.right if one is None else one - margins.near_rater for one in raters]
        shares: list[Any] = [record.get(side) for side in _SIDES]
    elif row["use"] in ("order_texts", "compare_systems"):
        near = [row["rater"] if is_known(row["rater"]) else margins.assumed_rater]
        shares = [row["value"]]
    else:
        return ()
    if row["verdict"] not in (CARE, NO) or not all(map(is_known, shares)):
        return ()
    bars = [half_of_way(margins, rater) for rater in near]
    reached = all(share >= bar for share, bar in zip(shares, bars, strict=True))
    return bars if reached == (row["verdict"] == CARE) else ()


def first_line(results: Results) -> str:
    """A sentence or two on what may be done: by the verdicts of the only dimension; of several by
    those of their first use; of texts compared by the humans' preferences. Empty where nothing says
    so."""
    parts = rows_by(verdict_rows(results), ["dimension"])
    if not parts:
        conditions = rows_by(pairwise.pair_rows(results), ["condition"])
        return pairwise.advice(conditions[0]) if len(conditions) == 1 else ""
    # of several dimensions those of each verdict, of one its uses
    several = len(parts) > 1
    rows = [part[0] for part in parts] if several else parts[0]
    part = "dimensions" if several else rows[0]["use"]
    mistakes = _mistakes(results, rows[0])
    return say("may", part=part, rows=rows, **mistakes)


def _mistakes(results: Results, verdict: Row) -> Row:
    """Of a judge that says pass or fail: its record, the side on which it is nearest to its bar or
    farthest below, and the share of mistakes there."""
    row = chosen_record(results, verdict["dimension"])
    shares = {side: row[side] for side in _SIDES if is_known(row.get(side))}
    bars = dict(zip(_SIDES, _bars(results, verdict), strict=False))
    side = min(shares, key=lambda name: shares[name] - bars.get(name, 0.0), default="tpr")
    right = Estimate.of(row, side)
    allowed = (results.config.get("ask") or {}).get("error")
    return {"row": row, "side": side, "wrong": right and right.rest, "error": allowed}


_SIDES = ("tpr", "tnr")


def use_lines(results: Results) -> list[Block]:
    """Uses that are allowed, with care, and not."""
    parts = rows_by(verdict_rows(results), ["dimension"])
    return answers(results, "use", {part[0]["dimension"]: {"rows": part} for part in parts})


def _number(side: str, row: Row) -> str | None:
    """The number of the judge, or of one rater, with its interval."""
    form, ends = UNITS[row["use"]]
    return bounded(row, side, ends, form) if is_known(row[side]) else None


VERDICTS = View(
    "verdict",
    "Verdict",
    lambda results: headed(
        results, [dict(row) for row in results.verdict if is_known(row["value"])]
    ),
    (
        Col("use", lambda row: RULES[row["use"]].title, left=True),
        Col("verdict", left=True),
        Col(
            "judge",
            partial(_number, "value"),
            left=True,
            says="with its 95 % interval, {groups} resampled",
        ),
        Col(
            "one rater",
            partial(_number, "rater"),
            left=True,
            optional=True,
            says="the same of one rater, compared with the others",
        ),
    ),
    sections=["head"],
    section="{head}",
)


def rules(results: Results) -> list[Block]:
    """The measure of each verdict and what earns it, with this run's margins."""
    if not results.verdict:
        return []
    rows = []
    judged = {row["use"] for row in results.verdict}
    for use, rule in rules_of(results.config).items():
        if use in judged:
            lines = [
                f"{rule.measured_by}.",
                f"Yes: {rule.yes}.",
                f"With care: {rule.with_care}.",
                f"No: {rule.no}.",
            ]
            rows.append((rule.title, [in_groups(line, results.groups) for line in lines]))
    return [Facts(rows)]
