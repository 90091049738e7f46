"""The verdict on each use of a judge: sentences, its table, and the rules that earn it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from judgebench.report.formats import Format, bounded, is_known, percent, points, two
from judgebench.report.table import Block, Col, Facts, View, rows_by
from judgebench.report.views.dimensions import answers, headed
from judgebench.results.results import Results
from judgebench.stats.verdict import RULES, rules_of
from judgebench.types import Row

UNITS: Mapping[str, tuple[Format, Format]] = {
    "decide": (percent, points),
    "order_texts": (percent, points),
    "compare_systems": (percent, points),
    "report_scores": (two, two),
    "replace_rater": (two, two),
    "resist_attacks": (percent, points),
}
"""Use -> the formats of its number and of the ends of its interval: shares, or points of the
humans' scale."""


def use_lines(results: Results) -> list[Block]:
    """Uses that are allowed, with care, and not."""
    rows = [{**row, "title": RULES[row["use"]].title} for row in results.verdict]
    facts = {part[0]["dimension"]: {"rows": part} for part in rows_by(rows, ["dimension"])}
    return answers(results, "use", facts)


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
    rules = rules_of(results.config)
    for rule in [rules[use] for use in rules if use in judged]:
        earns = {
            "Yes": rule.yes,
            "With care": rule.with_care,
            "No": rule.no,
        }
        lines = [f"{verdict}: {condition}." for verdict, condition in earns.items()]
        rows.append((rule.title, [f"{rule.measured_by}.", *lines]))
    return [Facts(rows)]
