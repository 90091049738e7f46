"""Causes of judges' errors: factors of texts and slices of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from judgebench.report.formats import is_known, p_value, signed_two, two
from judgebench.report.say import say
from judgebench.report.table import Block, Col, Heading, Paragraph, Row, Rows, View, records
from judgebench.report.views.forecasts import leading
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE

FACTORS: Mapping[str, tuple[str, str]] = {
    "length": ("length, per doubling", "length"),
    "format": ("format, from plain to all lines marked up", "format"),
    "family": ("a system of the judge's own family", "its own family"),
}
"""Each factor's coefficient in a table, and the factor in a sentence."""

_MOST_OPEN = 10  # slices of a condition that are shown without being asked for
_FEWEST_SYSTEMS, _TOGETHER = 4, -0.7  # a correlation over so many systems that is worth a sentence


def error_rows(results: Results, lead: bool = True) -> Rows:
    """The records of errors.json with labels: of the leading cells, or of all others."""
    names = ("condition", "range", "who", "setting")
    leads = {tuple(row[name] for name in names) for row in leading(results)}
    rows = records(labelled(results.errors)) if results.errors else []
    rows = [row for row in rows if (tuple(row[name] for name in names) in leads) == lead]
    return [row | {"series": f"{row['who']} in range {row['range']}"} for row in rows]


def _factors(results: Results, lead: bool = True) -> Rows:
    """A row for each coefficient of the regressions."""
    return [
        {**row, **part, "name": FACTORS.get(part["factor"], (part["factor"],))[0]}
        for row in error_rows(results, lead)
        for part in row["factors"]
    ]


def _slices(results: Results) -> Rows:
    """A row for each slice of the leading cells; many are folded."""
    return [
        {**row, **part, "fold": f"Systems and lengths: {row['condition']}" if len(row["slices"]) > _MOST_OPEN else ""}
        for row in error_rows(results)
        for part in row["slices"]
    ]


_ERROR = "the judge's score on the humans' scale less the humans' mean, in points"

_LEAD = View(
    "errors", "Why the judge errs", _factors,
    (
        Col("judge, decoding", "series", detail="setting", left=True),
        Col("factor", "name", left=True, says="format: lists, headings, code, tables, bold words"),
        Col("points", "estimate", signed_two, signed_two,
            says="each factor's share in the error while the others stay the same, by least squares; a judge that "
            "tells texts apart poorly shows, reversed, what the humans reward"),
        Col("p", "p", p_value),
        Col("Holm", "p_holm", p_value, says="p, corrected over the factors"),
    ),
    by=("condition",), once=("series", "setting"), note=f"Error: {_ERROR}.", brackets="errors clustered by {groups}",
)  # fmt: skip
_OTHERS = replace(
    _LEAD,
    name="errors_others",
    frame=partial(_factors, lead=False),
    columns=[replace(column, says="") for column in _LEAD.columns],
    folded="Other judges, decodings and ranges",
    note="",
    brackets="",
)

SLICES = View(
    "error_slices", "Why the judge errs", _slices,
    (
        Col("texts of", "slice", left=True),
        Col("texts", "texts", lambda value: f"{value:g}"),
        Col("humans' mean", "human", two),
        Col("mean error", "error", signed_two, signed_two, says=f"of {_ERROR}"),
        Col("beside others", "apart", signed_two, signed_two,
            says="less the mean error of all other texts; above 0 the judge favors the slice; a judge that tells texts "
            "apart poorly favors what humans find bad"),
        Col("p", "p", p_value, says="unknown for a slice of one of the {groups}, or where errors do not vary"),
        Col("Holm", "p_holm", p_value, says="p of that difference, corrected over the slices"),
    ),
    by=("condition",), title="{condition}, {series}", sections=("kind",), folded="{fold}",
    brackets="errors clustered by {groups}",
)  # fmt: skip


def error_tables(results: Results) -> list[Block]:
    """Factors and slices of the leading cells, those of all others folded, and what is left out for which reason."""
    tables = [*_LEAD.tables(results), *SLICES.tables(results), *_OTHERS.tables(results)]
    # A sentence on what is left out stands once, with the dimensions that it is true of.
    conditions: dict[tuple[str, str], list[str]] = {}
    for row in error_rows(results):
        names = "; ".join(f"{name} ({why})" for name, why in row["left_out"].items())
        for start, line in (("", row["reason"]), ("Left out of ", f"{names}." if names else "")):
            if line:
                conditions.setdefault((start, line), []).append(row["condition"])
    lines = [f"{start}{', '.join(where)}: {line}" for (start, line), where in conditions.items()]
    return [Heading(_LEAD.heading), *tables, *(Paragraph(line, note=True) for line in lines)] if tables else []


def error_sentences(results: Results) -> list[str]:
    """Factors of texts that move the main model's errors by more than chance, and systems whose errors differ."""
    sentences = []
    for row in (row for row in error_rows(results) if row["groups"] >= FEWEST):
        factors = [factor for factor in row["factors"] if factor["factor"] in FACTORS]
        if factors:
            rest = [FACTORS[factor["factor"]][1] for factor in factors if not _is_sure(factor)]
            line = " or ".join(filter(None, [", ".join(rest[:-1]), *rest[-1:]]))
            sentences.append(say("errors", row=row, sure=list(filter(_is_sure, factors)), rest=line))
        systems = [part for part in row["slices"] if part["kind"] == "system"]
        if systems:
            sure = sorted(filter(_is_sure, systems), key=lambda part: part["apart"])
            ends = [part for part in sure[-1:] if part["apart"] > 0] + [part for part in sure[:1] if part["apart"] < 0]
            # Errors fall as systems get better in the humans' eyes, and little else moves them.
            human, error = (np.array([part[name] for part in systems]) for name in ("human", "error"))
            vary = len(systems) >= _FEWEST_SYSTEMS and min(np.ptp(human), np.ptp(error)) > 0
            together = vary and bool(np.corrcoef(human, error)[0, 1] < _TOGETHER)
            facts = {"sure": sure, "ends": ends, "systems": len(systems), "together": together}
            sentences.append(say("error_systems", row=row, **facts))
    return sentences


def _is_sure(row: Row) -> bool:
    return is_known(row["p_holm"]) and row["p_holm"] < SIGNIFICANCE
