"""The verdict on each use of a judge: sentences, its table, and the rules that earn it."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.report.formats import Format, bounded, is_known, percent, points, two
from judgebench.report.table import Block, Col, Facts, Rows, View, rows_by
from judgebench.report.views.dimensions import answers, headed
from judgebench.results.results import Results
from judgebench.stats.verdict import CARE, NO, RULES, YES, rules_of

UNITS: Mapping[str, tuple[Format, Format]] = {
    "order_texts": (percent, points),
    "compare_systems": (percent, points),
    "report_scores": (two, two),
    "replace_rater": (two, two),
    "resist_attacks": (percent, points),
}
"""Use -> the formats of its number and of the ends of its interval: shares, or points of the
humans' scale."""

_WORDS = {YES: "yes", CARE: "care", NO: "no"}


def use_lines(results: Results) -> list[Block]:
    """Uses that are allowed, with care, and not."""
    facts = {}
    for part in rows_by([dict(row) for row in results.verdict], ["dimension"]):
        uses: dict[str, list[str]] = {
            "yes": [],
            "care": [],
            "no": [],
            "others": [],
        }
        for row in part:
            word = _WORDS.get(row["verdict"], "others")
            title = RULES[row["use"]].title
            uses[word].append(title)
        dimension = part[0]["dimension"]
        facts[dimension] = uses
    return answers(results, "use", facts)


def _verdicts(results: Results) -> Rows:
    """The verdicts that have a number, written as text."""
    rows = [dict(row) for row in results.verdict if is_known(row["value"])]
    for row in rows:
        form, ends = UNITS[row["use"]]
        row["title"] = RULES[row["use"]].title
        for side in ("value", "rater"):
            row[side] = bounded(row, side, ends, form) if is_known(row[side]) else None
    return headed(results, rows)


VERDICTS = View(
    "verdict",
    "Verdict",
    _verdicts,
    (
        Col("use", "title", left=True),
        Col("verdict", "verdict", left=True),
        Col("judge", "value", left=True, says="with its 95 % interval, {groups} resampled"),
        Col(
            "one rater",
            "rater",
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
    for rule in rules_of(results.config).values():
        lines = [
            f"{rule.measured_by}.",
            f"Yes: {rule.yes}.",
            f"With care: {rule.with_care}.",
            f"No: {rule.no}.",
        ]
        rows.append((rule.title, lines))
    return [Facts(rows)]
