"""Causes of judges' errors: tables of factors and of slices, and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from judgebench.report.formats import is_known, p_value, signed_two, spaced, two
from judgebench.report.table import Block, Col, Heading, Paragraph, View, records
from judgebench.report.views.correlations import few_groups
from judgebench.report.views.forecasts import leading
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.clusters import FEWEST, SIGNIFICANCE

FACTORS: Mapping[str, str] = {
    "length": "length, per doubling",
    "format": "format, from plain to all lines marked up",
    "family": "a system of the judge's own family",
}
"""The meaning of each factor's coefficient."""


def _lead_rows(results: Results, lead: bool) -> pd.DataFrame:
    """The records of errors.json with labels: of the leading cells, or of all others."""
    rows = labelled(results.errors)
    if not len(rows):
        return rows
    names = ["condition", "range", "who", "setting"]
    leads = {tuple(one[name] for name in names) for one in leading(results)}
    own = [tuple(row) in leads for row in rows[names].itertuples(index=False)]
    return rows[pd.Series(own) == lead]


def _listed(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """A row for each factor or slice of each cell."""
    found = [
        {**row, **one, "series": f"{row['who']} in range {row['range']}"}
        for row in rows.to_dict("records")
        for one in row[name]
    ]
    return pd.DataFrame(found)


def factor_frame(results: Results, lead: bool = True) -> pd.DataFrame:
    """A row for each coefficient of the leading cells' regressions, or of all others'."""
    rows = _listed(_lead_rows(results, lead), "factors") if len(results.errors) else pd.DataFrame()
    return rows.assign(named=[FACTORS.get(one, one) for one in rows["factor"]]) if len(rows) else rows


_MOST_OPEN = 10


def slice_frame(results: Results) -> pd.DataFrame:
    """A row for each slice of the leading cells."""
    rows = _listed(_lead_rows(results, True), "slices") if len(results.errors) else pd.DataFrame()
    if not len(rows):
        return rows
    many = rows.groupby("condition")["slice"].transform("size") > _MOST_OPEN
    return rows.assign(fold=np.where(many, "Systems and lengths: " + rows["condition"], ""))


def _note(results: Results, rows: pd.DataFrame) -> str:
    few = f" {few_groups(results.groups)}" if rows["groups"].min() < FEWEST else ""
    return (
        "Error: the judge's score on the humans' scale less the humans' mean, in points. Each factor's share in it "
        "while the others stay the same, by least squares; a judge that tells texts apart poorly shows, reversed, what "
        "the humans reward. Format: lists, headings, code, tables, bold words. "
        f"In brackets: 95 % interval, errors clustered by {results.groups}. Holm: p, corrected over the factors.{few}"
    )


def _slice_note(results: Results, rows: pd.DataFrame) -> str:
    few = f" {few_groups(results.groups)}" if rows["groups"].min() < FEWEST else ""
    if rows["p"].isna().any():
        few += f" A dash: a slice of one of the {results.groups}, or errors that do not vary."
    return (
        "Mean error: the judge's score on the humans' scale less the humans' mean, in points. Beside others: less the "
        "mean error of all other texts; above 0 the judge favors the slice; a judge that tells texts apart "
        "poorly favors what humans find bad. In brackets: 95 % interval, errors "
        f"clustered by {results.groups}. Holm: p of that difference, corrected over the slices.{few}"
    )


def _factors_view(lead: bool) -> View:
    return View(
        "errors" if lead else "errors_others",
        "Why the judge errs",
        lambda results: factor_frame(results, lead),
        (
            Col("judge, decoding", "series", detail="setting", left=True),
            Col("factor", "named", left=True),
            Col("points", "estimate", signed_two, ends=signed_two),
            Col("p", "p", p_value),
            Col("Holm", "p_holm", p_value),
        ),
        by=("condition",),
        title="{condition}",
        once=("series", "setting"),
        note=_note if lead else "",
        folded="" if lead else "Other judges, decodings and ranges",
    )


SLICES = View(
    "error_slices",
    "Why the judge errs",
    slice_frame,
    (
        Col("texts of", "slice", left=True),
        Col("texts", "texts", lambda value: f"{value:g}"),
        Col("humans' mean", "human", two),
        Col("mean error", "error", signed_two, ends=signed_two),
        Col("beside others", "apart", signed_two, ends=signed_two),
        Col("p", "p", p_value),
        Col("Holm", "p_holm", p_value),
    ),
    by=("condition",),
    title="{condition}, {series}",
    sections=("kind",),
    folded="{fold}",
    note=_slice_note,
)
"""Systems and lengths: which ones the judge favors."""

_LEAD, _OTHERS = _factors_view(True), _factors_view(False)


def error_tables(results: Results) -> list[Block]:
    """Factors and slices of the leading cells, those of all others folded, and what is left out for which reason."""
    tables = [*_LEAD.tables(results), *SLICES.tables(results), *_OTHERS.tables(results)]
    lines = [Paragraph(line, note=True) for line in _left_out(results)]
    return [Heading(_LEAD.heading), *tables, *lines] if tables else []


def _left_out(results: Results) -> list[str]:
    """Sentences on what is left out of the leading cells, each with the dimensions that it is true of."""
    said: dict[tuple[str, str], list[str]] = {}
    for row in records(_lead_rows(results, True)):
        named = "; ".join(f"{name} ({why})" for name, why in row["left_out"].items())
        for start, line in (("", row["reason"]), ("Left out of ", f"{named}." if named else "")):
            if line:
                said.setdefault((start, line), []).append(row["condition"])
    return [f"{start}{', '.join(where)}: {line}" for (start, line), where in said.items()]


_TOLD: Mapping[str, tuple[str, str]] = {
    "length": (
        "a text twice as long gets {points} {more}, relative to the humans",
        "length",
    ),
    "format": ("texts with all lines marked up (lists, headings, bold words) get {points} {more} than plain "
               "ones, relative to the humans", "format"),
    "family": ("systems of its own family get {points} {more} than others, relative to the humans",
               "its own family"),
}  # fmt: skip


def error_sentences(results: Results) -> list[str]:
    """At most two sentences a dimension on the main model's errors, in the range in which it agrees best with the
    humans: which factors of texts move them by more than chance, and which systems it favors."""
    found = []
    for row in records(_lead_rows(results, True)):
        where = f"{row['condition']}, {row['who']} in range {row['range']}"
        told = (_factor_sentence(row), _system_sentence(row))
        found += [f"{where}: {sentence}" for sentence in told if sentence]
    return found


def _sure(row: Mapping[str, Any], groups: int) -> bool:
    return groups >= FEWEST and is_known(row["p_holm"]) and row["p_holm"] < SIGNIFICANCE


def _by(row: Mapping[str, Any], name: str) -> str:
    """The interval of a size whose direction a word tells."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return spaced(low, high, two) if row[name] > 0 else spaced(-high, -low, two)


def _factor_sentence(row: Mapping[str, Any]) -> str:
    known = [one for one in row["factors"] if one["factor"] in _TOLD]
    if not known or row["groups"] < FEWEST:
        return ""
    parts = []
    for one in known:
        if _sure(one, row["groups"]):
            said = _TOLD[one["factor"]][0].format(
                points=f"{two(abs(one['estimate']))} points {_by(one, 'estimate')}",
                more="more" if one["estimate"] > 0 else "less",
            )
            parts.append(said)
    rest = [_TOLD[one["factor"]][1] for one in known if not _sure(one, row["groups"])]
    if not parts:
        return f"its errors have no clear link with {_or(rest)}."
    tail = f"; with {_or(rest)} they have no clear link" if rest else ""
    return f"{', and '.join(parts)}{tail}."


_FEWEST_SYSTEMS, _TOGETHER_AT = 4, -0.7
_TOGETHER = (
    "Over these systems its errors fall as the humans' means rise, as they do where a judge tells good texts from bad "
    "ones less than the humans do."
)


def _system_sentence(row: Mapping[str, Any]) -> str:
    own = [one for one in row["slices"] if one["kind"] == "system"]
    if not own or row["groups"] < FEWEST:
        return ""
    sure = [one for one in own if _sure(one, row["groups"])]
    if not sure:
        return "no system's error differs clearly from the others'."
    parts, drawn = [], _draws_together(own)
    for sign, side in ((1, "higher"), (-1, "lower")):
        least = sorted(sure, key=itemgetter("apart"))[-1 if sign > 0 else 0]
        if sign * least["apart"] > 0:
            parts.append(f"{least['slice']} {two(abs(least['apart']))} points {_by(least, 'apart')} {side}")
    count = f"{len(sure)} of {len(own)} differ clearly, and {'these differ' if len(parts) > 1 else 'this one differs'}"
    sentence = f"relative to the humans it scores {' and '.join(parts)} than the other systems ({count} most)."
    return f"{sentence} {_TOGETHER}" if drawn else sentence


def _draws_together(systems: Sequence[Mapping[str, Any]]) -> bool:
    """True where errors fall as systems get better in the humans' eyes, and little else moves them."""
    if len(systems) < _FEWEST_SYSTEMS:
        return False
    human, error = (np.array([one[name] for one in systems]) for name in ("human", "error"))
    return bool(min(np.ptp(human), np.ptp(error)) > 0 and np.corrcoef(human, error)[0, 1] < _TOGETHER_AT)


def _or(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
