"""Range bias as variance: parts of a judge's scores that texts and ranges make, before and after each repair, and how
many ranges or raters are enough."""

from __future__ import annotations

from typing import Any

import pandas as pd

from judgebench.report.formats import bounded, percent, points, short, two, whole
from judgebench.report.say import say
from judgebench.report.table import Col, View, records
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, SeriesIndex, condition_text
from judgebench.stats.variance import HUMANS, RANGES, WANTED

_MOST = 100  # more levels of a facet than anyone would ask


def variance_frame(results: Results, study: str = RANGES) -> pd.DataFrame:
    """The records of one study of variance.json, a row each: by dimension and series, the calibrated below those as
    given.

    Added are `condition`, `size`; `series` with its setting where several are tried side by side, and `who`, the same
    with what was done to scores; `one` and `all`, the relative reliability of one level of each facet and of as many as
    there are, with intervals; `ranges_needed`, `judges_needed`, `raters_needed`: for the order of texts / for the
    scores themselves.
    """
    rows = [dict(record) for record in results.variance if record["study"] == study]
    # Records of two decodings have no judge, and those over ranges no range: series are told apart by the rest.
    index = SeriesIndex([row | {"judge": row["judge"] or ""} for row in rows])
    conditions = list(dict.fromkeys(condition_text(row) for row in rows))
    for row in rows:
        series = index.of(row | {"judge": row["judge"] or ""})
        row |= {"condition": condition_text(row), "series": str(series).removeprefix(", "), "judged": series.judge}
        row["who"] = row["series"] + (", calibrated" if row["calibrated"] else "")
        row["size"] = f"{row['texts']} {results.examples_word} of {row['groups']} {results.groups}"
        decisions = row["decisions"] or [{}, {}]
        for name, decision in zip(("one", "all"), decisions, strict=True):
            row |= {f"{name}{end}": decision.get(f"relative{end}") for end in ("", "_low", "_high")}
        for facet in ("range", "judge", "rater"):
            first, names = decisions[0], (f"needed_{facet}", f"needed_absolute_{facet}")
            needed = [first[name] for name in names if name in first]
            texts = ["none" if n is None else str(n) if n <= _MOST else f"> {_MOST}" for n in needed]
            row[f"{facet}s_needed"] = " / ".join(texts) or None
        row["place"] = (conditions.index(row["condition"]), index.all.index(series), row["calibrated"])
    rows.sort(key=lambda row: row["place"])
    return pd.DataFrame(rows)


def _note(results: Results, rows: pd.DataFrame) -> str:
    notes = [
        "Scores are parts of the way from the lowest to the highest of their range, of texts that were scored in all "
        "ranges. A judge that repeats the same mistake in every range is reliable, too."
    ]
    if rows["calibrated"].any():
        notes.append(
            f"Calibrated: each range's scores are mapped to the humans' scale by what other {results.groups} teach "
            "(isotonic); a small spread means that little is left to tell texts apart."
        )
    return " ".join(notes)


RANGE_VARIANCE = View(
    "variance",
    "Range bias as variance",
    variance_frame,
    (
        Col("judge, decoding", "who", left=True),
        Col("spread", "spread", two,
            says="standard deviation of a score, as part of its range (calibrated: of the humans' scale)"),
        Col("of texts", "texts_share", percent, points,
            says="the share of the variance that stays the same in every range"),
        Col("of range", "range_own", percent, points, says="all texts are moved alike"),
        Col("of range x text", "range_interactions", percent, points,
            says="their order changes (with the error of single scores, where answers are sampled)"),
        Col("of both", "range_both", percent, points, says="score range bias in one number"),
        Col("one range", "one", two, short, says="how reliable the order of texts in one range is as that in any"),
        Col(f"ranges for {short(WANTED)}", "ranges_needed",
            says=f"needed for a reliability of {short(WANTED)}, of the order of texts / of the scores themselves; "
            "none: no number is enough"),
    ),
    by=["condition"],
    title="{condition}, {ranges:.0f} ranges",
    size="{size}",
    below="reason",
    note=_note,
    brackets="{groups} resampled, for these very ranges",
)  # fmt: skip
"""Shares of a judge's variance, a row a series as given and calibrated."""

HUMAN_VARIANCE = View(
    "variance_humans",
    "Human raters as variance",
    lambda results: variance_frame(results, HUMANS),
    (
        Col("dimension", "condition", left=True),
        Col("raters", "raters", whole),
        Col("spread", "spread", two),
        Col("of texts", "texts_share", percent, points,
            says="the share of the variance of single ratings on which raters agree"),
        Col("of rater", "rater_own", percent, points, says="severity"),
        Col("of rater x text", "rater_interactions", percent, points, says="and of any other error"),
        Col("one rater", "one", two, short, says="reliability of the order of texts by one"),
        Col("as rated", "all", two, short, says="by the mean of as many as rated a text on average (rounded)"),
        Col(f"raters for {short(WANTED)}", "raters_needed",
            says="needed on each text, for the order of texts / for the scores themselves"),
    ),
    below="reason",
)  # fmt: skip
"""Shares of the variance of single ratings, a row a dimension."""


def variance_sentences(results: Results) -> list[str]:
    """One sentence a dimension with several ranges: the range's share of the variance of main model's and pair's
    scores, and after calibration. Without defense, where there is such."""
    rows = told_rows(variance_frame(results))
    sentences = []
    for condition, part in rows.groupby("condition", sort=False) if len(rows) else ():
        raw, fitted = (
            records(part[(part["calibrated"] == kind) & part["range_both"].notna()]) for kind in (False, True)
        )
        after = {row["series"]: _both(row) for row in fitted}
        shares = [f"{_both(row)} by {row['who']} ({_parts(row, ' and ')})" for row in raw]
        if raw:  # the first one says what the parts are
            alike, order = _parts(raw[0], " / ").split(" / ")
            first = f"{alike} moves all texts alike, {order} changes their order"
            shares[0] = f"{_both(raw[0])} of the variance of scores by {raw[0]['who']} ({first})"
        calibrated = [after[row["series"]] for row in raw] if all(row["series"] in after for row in raw) else []
        ranges = f"{raw[0]['ranges']:.0f}" if raw else ""
        facts = {"shares": shares, "calibrated": calibrated, "ranges": ranges, "reason": part["reason"].iloc[0]}
        sentences.append(say("variance", condition=condition, **facts))
    return sentences


def _both(row: dict[str, Any]) -> str:
    return bounded(row, "range_both", points, percent)


def _parts(row: dict[str, Any], between: str) -> str:
    return f"{percent(row['range_own'])}{between}{percent(row['range_interactions'])}"


def told_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `variance_frame` without assistants and without defense, where there are others."""
    if len(rows) and (rows["defense"] == NO_DEFENSE).any():
        rows = rows[rows["defense"] == NO_DEFENSE]
    return rows[rows["judged"] != "assistant"] if len(rows) and (rows["judged"] != "assistant").any() else rows
