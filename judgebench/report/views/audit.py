"""The audit: effects of what varies in the data, and of probes."""

from __future__ import annotations

from typing import Any

from judgebench.report.table import Block, Col, Paragraph, View, labelled_rows, rows_by
from judgebench.report.views.correlations import of_cells
from judgebench.report.views.dimensions import answers, headed
from judgebench.results.results import Results
from judgebench.stats.clusters import SIGNIFICANCE
from judgebench.studies.audit import DATA
from judgebench.types import Record, Row, Rows
from judgebench.words.formats import is_known, p_value, percent, say, signed_two, whole

_SHOWN = 4
_TITLES = {DATA: "What varies in the data, at equal quality", "probes": "What was changed"}


def audit_rows(results: Results) -> Rows:
    """The records of audit.json of the advised settings; where texts are compared, of all."""
    rows = labelled_rows(results.audit)
    chosen = rows if results.compares else of_cells(results, rows)
    return [row | {"told": is_told(row), "title": _TITLES[row["instrument"]]} for row in chosen]


def is_told(row: Row) -> bool:
    """True for an effect that is told from chance among all of its family."""
    return is_known(row.get("p_holm")) and row["p_holm"] <= SIGNIFICANCE


def _measured(results: Results) -> Rows:
    """The rows with an effect, data before probes; the largest first."""
    rows = [row for row in audit_rows(results) if is_known(row["effect"])]
    rows.sort(key=lambda row: (row["instrument"] != DATA, -abs(row["effect"] / row["width"])))
    return headed(results, rows)


def _told_first(rows: Rows) -> Rows:
    """Rows by the size of their effects, those told from chance first."""
    return sorted(rows, key=lambda row: (not row["told"], -abs(row["effect"] / row["width"])))


def _facts(rows: Rows) -> Record:
    """Facts for the sentence of one dimension."""
    known = _told_first([row for row in rows if is_known(row["effect"])])
    told = [row for row in known if row["told"]]
    missing = [row for row in rows if not is_known(row["effect"])]
    return {"told": told, "others": len(known) - len(told), "missing": missing, "most": _SHOWN}


def audit_lines(results: Results) -> list[Block]:
    """The largest effects, in each dimension."""
    parts = rows_by(audit_rows(results), ["dimension"])
    return answers(
        results, "audit", {part[0]["dimension"]: {"part": "all"} | _facts(part) for part in parts}
    )


def moved_lines(results: Results) -> list[tuple[str, Any]]:
    """The same for a terminal, a line an effect; of one dimension."""
    parts = rows_by(audit_rows(results), ["dimension"])
    if len(parts) != 1:
        return []
    facts = _facts(parts[0])
    lines = [("", say("audit", part="effect", row=row)) for row in facts["told"][:_SHOWN]]
    if rest := say("audit", part="rest", **facts):
        lines.append(("", rest))
    return [("moved by" if not number else "", line) for number, (_, line) in enumerate(lines)]


def missing_lines(results: Results) -> list[Block]:
    """Reasons for what was not measured, each once."""
    rows = [row for row in audit_rows(results) if not is_known(row["effect"])]
    lines = {}
    for part in rows_by(rows, ["reason"]):
        names = dict.fromkeys(_name(row) for row in part)
        lines[part[0]["reason"]] = ", ".join(names)
    return [
        Paragraph(f"{names[:1].upper()}{names[1:]}: {reason}.") for reason, names in lines.items()
    ]


def _name(row: Row) -> str:
    return f"{row['factor']} ({row['level']})" if row["level"] else str(row["factor"])


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
            lambda row: row["effect"] / row["width"],
            percent,
            says="the same as a part of that scale",
        ),
        Col(
            "of variance",
            "share",
            percent,
            says="of data, the part of the variance of judge less human that only this explains; of a "
            "probe, the part of the variance of scores that the change makes",
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
