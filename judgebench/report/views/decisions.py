"""Judges that say pass or fail: what they get right, the pass mark, which texts a person sees, and
the share of texts that people pass."""

from __future__ import annotations

from typing import Any

from judgebench.report.table import Block, Col, View, labelled_rows, rows_by, values
from judgebench.report.views.correlations import of_cells
from judgebench.report.views.dimensions import headed, sentences
from judgebench.results.results import Results, range_of
from judgebench.studies.decisions import CHOSEN, SAID
from judgebench.studies.scores import first_record
from judgebench.types import Row, Rows
from judgebench.words.formats import is_known, percent, points, say, three, two

_MARKED = ("dimension", "pass_mark")
PARTS = ("classes", "pass from", "ask")
"""Parts of the answer, as a terminal names them."""


def _advised(results: Results) -> Rows:
    """The records of decisions.json of the settings that are advised, with labels."""
    return of_cells(results, labelled_rows(results.decisions))


def chosen_record(results: Results, dimension: str) -> Row:
    """The record of decisions.json of the setting that is advised, with the chosen mark where there
    is one; empty where its labels are no classes."""
    return first_record(_advised(results)[::-1], {"dimension": dimension})


def decision_rows(results: Results) -> Rows:
    """The records of decisions.json of the settings that are advised, as they say it and with the
    chosen mark; behind them one rater, and always saying the commoner class."""
    table: Rows = []
    for row in headed(results, _advised(results)):
        # the same mark twice is one row
        same = table and values(table[-1], _MARKED) == values(row, _MARKED)
        if row["mark"] == CHOSEN and same:
            row["mark"] = SAID
            table.pop()
        table.append(row)
    for row in [part[-1] for part in rows_by(table, ["dimension"])]:
        place = {name: row[name] for name in ("dimension", "head")}
        rater = {name: row.get(f"{name}_rater") for name in ("tpr", "tnr", "kappa", "agreement")}
        constant = {
            "agreement": row["agreement_constant"],
            "kappa": 0.0,
            "brier": row.get("brier_constant"),
        }
        if any(map(is_known, rater.values())):
            table.append(place | {"mark": "one rater"} | rater)
        table.append(place | {"mark": "always the commoner class"} | constant)
    return table


def decision_lines(results: Results) -> list[Block]:
    """Sentences on the texts that the judge decides right, and on those that people see."""
    lines = {}
    for dimension, parts in decision_parts(results).items():
        words = [f"{name} {part}" if name == "pass from" else part for name, part in parts.items()]
        lines[dimension] = "".join(f"{part[:1].upper()}{part[1:]}. " for part in words).strip()
    return sentences(results, lines)


def decision_parts(results: Results) -> dict[str, dict[str, str]]:
    """Dimension -> part of the answer -> its words: what the judge gets right, the pass mark, and
    the texts that people see."""
    parts: dict[str, dict[str, str]] = {}
    verdicts = {
        row["dimension"]: row["verdict"] for row in results.verdict if row["use"] == "decide"
    }
    for row in _advised(results):
        facts = {"row": row, "mark": _mark(row), "verdict": verdicts.get(row["dimension"])}
        words = {part: say("decisions", part=part, **facts) for part in PARTS}
        # the last of a dimension is that of the chosen mark
        parts[row["dimension"]] = {part: line for part, line in words.items() if line}
    return parts


def _mark(row: Row) -> str | None:
    """The worst score that passes, or the word; None where nothing passes."""
    mark: Any = row.get("pass_mark")
    return range_of(row).threshold_text(mark) if is_known(mark) else None


DECISIONS = View(
    "decisions",
    "Pass and fail",
    decision_rows,
    (
        Col("decides", "mark", left=True),
        Col("pass from", _mark, optional=True, says="worst score that passes"),
        Col(
            "right on passes",
            "tpr",
            percent,
            points,
            optional=True,
            says="of the texts that people pass, the share that it passes (TPR)",
        ),
        Col(
            "right on fails",
            "tnr",
            percent,
            points,
            optional=True,
            says="of the texts that people fail, the share that it fails (TNR)",
        ),
        Col("same class", "agreement", percent, points, says="share of texts in one class by both"),
        Col("kappa", form=two, ends=two, says="agreement beyond chance (Cohen)"),
        Col(
            "precision",
            form=percent,
            ends=points,
            optional=True,
            says="of the texts that it puts in the rarer class, the share that people do",
        ),
        Col("F1", "f1", two, optional=True, says="of the rarer class"),
        Col(
            "AUC",
            "auc",
            two,
            two,
            optional=True,
            says="share of pairs of a passed and a failed text that its scores order",
        ),
        Col(
            "cost",
            form=three,
            optional=True,
            says="of its mistakes, a text; of a chosen mark on {groups} that did not choose it",
        ),
        Col(
            "Brier",
            "brier",
            three,
            optional=True,
            says="mean squared error of p(pass), by the labels of other {groups}: 0 is best",
        ),
        Col(
            "of the word",
            "brier_word",
            three,
            optional=True,
            says="the same of p(pass) by its decision alone",
        ),
    ),
    sections=["head"],
    section="{head}",
    brackets="for texts of other {groups}",
)


def _rate_rows(results: Results) -> Rows:
    """A row of all texts and one a system, by the chosen mark."""
    rows = []
    for row in headed(results, _advised(results)):
        for part in row.get("rates") or () if row["mark"] == CHOSEN else ():
            rows.append({"head": row["head"]} | part | {"system": part["system"] or "all texts"})
    return rows


RATES = View(
    "rates",
    "Share of texts that people pass",
    _rate_rows,
    (
        Col("texts", "system", left=True),
        Col("labelled", "{labelled_texts} of {texts}"),
        Col("like these", "rate", percent, points, says="by labels and judge, of texts like these"),
        Col("these", "rate_these", percent, points, says="of these very texts"),
        Col("by", "method", left=True, says="what narrows the interval of the labels"),
        Col("judge passes", "judge", percent, says="uncorrected"),
        Col(
            "Rogan-Gladen",
            "rogan_gladen",
            percent,
            optional=True,
            says="the judge's share corrected by both rates above, as other tools do",
        ),
    ),
    sections=["head"],
    section="{head}",
    brackets="{groups} drawn anew",
    reasons=["reason"],
)
