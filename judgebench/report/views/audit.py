"""The audit: effects of what varies in the data, and of probes."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from judgebench.report.table import Block, Col, Paragraph, View, labelled_rows, rows_by
from judgebench.report.views.correlations import of_cells
from judgebench.report.views.dimensions import answers, headed
from judgebench.results.results import Results
from judgebench.stats.clusters import SIGNIFICANCE
from judgebench.studies.audit import DATA, PROBES
from judgebench.types import Rows, by_key
from judgebench.words.formats import is_known, p_value, percent, say, signed_two, whole

_SHOWN = 4
"""Effects of a line in a terminal, and of a sentence."""
_TITLES = {DATA: "What varies in the data, at equal quality", PROBES: "What was changed"}


def audit_rows(results: Results) -> Rows:
    """The records of audit.json of the advised settings (where texts are compared, of all): effects
    that are told from chance first, the largest of them first."""
    rows = labelled_rows(results.audit)
    chosen = []
    for row in rows if results.compares else of_cells(results, rows):
        level = f" ({row['level']})" if row["level"] else ""
        more = {
            "name": f"{row['factor']}{level}",
            "title": _TITLES[row["instrument"]],
            "part": row["effect"] / row["width"] if is_known(row["effect"]) else None,
            "told": is_known(row["p_holm"]) and row["p_holm"] <= SIGNIFICANCE,
        }
        chosen.append(row | more)
    return sorted(chosen, key=lambda row: (not row["told"], -abs(row["part"] or 0)))


def _measured(results: Results) -> Rows:
    """The rows with an effect, data before probes."""
    rows = [row for row in audit_rows(results) if is_known(row["part"])]
    return headed(results, sorted(rows, key=lambda row: row["instrument"]))


def audit_lines(results: Results) -> list[Block]:
    """The largest effects, in each dimension."""
    parts = by_key(audit_rows(results), itemgetter("dimension"))
    facts = {name: {"part": "all", "rows": rows} for name, rows in parts.items()}
    return answers(results, "audit", facts)


def moved_lines(results: Results) -> list[tuple[str, Any]]:
    """The same for a terminal, a line an effect; of one dimension."""
    rows = audit_rows(results)
    if len({row["dimension"] for row in rows}) != 1:
        return []
    told = [say("audit", part="effect", row=row) for row in rows if row["told"]]
    lines = [*told[:_SHOWN], say("audit", part="rest", rows=rows)]
    return list(zip(["moved by", *[""] * _SHOWN], filter(None, lines), strict=False))


def missing_lines(results: Results) -> list[Block]:
    """Reasons for what was not measured, each once."""
    rows = [row for row in audit_rows(results) if not is_known(row["part"])]
    return [
        Paragraph(say("audit", part="missing", rows=part)) for part in rows_by(rows, ["reason"])
    ]


def _note(results: Results, rows: Rows) -> str:
    return say("audit", part="note", rows=rows)


AUDIT = View(
    "audit",
    "What else moves it?",
    _measured,
    (
        Col("what", "factor", left=True, width=24),
        Col("effect of", "level", left=True, width=26),
        Col(
            "points",
            "effect",
            signed_two,
            signed_two,
            marked="told",
            says="by how much the judge's score is moved, on the humans' scale",
        ),
        Col(
            "of the scale",
            "part",
            percent,
            says="the same as a part of that scale",
        ),
        Col(
            "of variance",
            "share",
            percent,
            says="in the data, the part of what quality leaves unexplained that this alone explains; of "
            "a probe, the part of the variance of scores that the change makes",
        ),
        Col("p", "p_holm", p_value, says="of all effects of a setting together, Holm's correction"),
        Col("texts", form=whole, page=True),
    ),
    sections=["head", "title"],
    section="{head} {title}",
    brackets="{groups} are the clusters",
    note=_note,
    marks="a p of at most .05",
)
"""Effects, a row each."""
