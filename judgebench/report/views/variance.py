"""Range bias as variance: parts of a judge's scores that texts and ranges make, before and after each repair, and how
many ranges or raters are enough."""

from __future__ import annotations

import pandas as pd

from judgebench.report.formats import percent, points, short, two, whole
from judgebench.report.say import say
from judgebench.report.table import Col, Rows, View, records, rows_by
from judgebench.report.views.humans import ENDS
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, SeriesIndex, condition_text
from judgebench.stats.variance import HUMANS, RANGES, WANTED

_MOST = 100  # more levels of a facet than anyone would ask


def variance_frame(results: Results, study: str = RANGES) -> pd.DataFrame:
    """The records of one study of variance.json, a row each: by dimension and series, the calibrated below those as
    given.

    Added are `condition`; `series` with its setting where several are tried side by side, and `who`, the same with
    what was done to scores; `one` and `all`, the relative reliability of one level of each facet and of as many as
    there are, with intervals; `ranges_needed`, `judges_needed`, `raters_needed`: for the order of texts / for the
    scores themselves.
    """
    # Records of two decodings have no judge, and those over ranges no range: the rest tells series apart.
    rows: Rows = [{**row, "judged": row["judge"], "judge": row["judge"] or ""}
            for row in results.variance if row["study"] == study]  # fmt: skip
    index, conditions = SeriesIndex(rows), list(dict.fromkeys(map(condition_text, rows)))
    for row in rows:
        series = index.of(row)
        row |= {"condition": condition_text(row), "series": str(series).removeprefix(", "), "judged": series.judge}
        row["who"] = row["series"] + (", calibrated" if row["calibrated"] else "")
        decisions = row["decisions"] or [{}, {}]
        for name, decision in zip(("one", "all"), decisions, strict=True):
            row |= {f"{name}{end}": decision.get(f"relative{end}") for end in ENDS}
        for facet in ("range", "judge", "rater"):
            counts = [decisions[0][name] for name in (f"needed_{facet}", f"needed_absolute_{facet}")
                      if name in decisions[0]]  # fmt: skip
            texts = ["none" if count is None else str(count) if count <= _MOST else f"> {_MOST}" for count in counts]
            row[f"{facet}s_needed"] = " / ".join(texts) or None
        row["place"] = (conditions.index(row["condition"]), index.all.index(series), row["calibrated"])
    rows.sort(key=lambda row: row["place"])
    return pd.DataFrame(rows)


def reported_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `variance_frame` without assistants and without defense, where there are others."""
    for other in (rows["defense"] == NO_DEFENSE, rows["judged"] != "assistant") if len(rows) else ():
        rows = rows[other] if other[rows.index].any() else rows
    return rows


RANGE_VARIANCE = View(
    "variance", "Range bias as variance", variance_frame,
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
    by=["condition"], title="{condition}, {ranges:.0f} ranges",
    size="{texts} {examples_word} of {groups} {groups_word}", below="reason",
    note="variance_note.txt",
    brackets="{groups} resampled, for these very ranges",
)  # fmt: skip

HUMAN_VARIANCE = View(
    "variance_humans", "Human raters as variance", lambda results: variance_frame(results, HUMANS),
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


def variance_sentences(results: Results) -> list[str]:
    """The range's share of the variance of main model's and pair's scores, and after calibration."""
    sentences = []
    for part in rows_by(records(reported_rows(variance_frame(results))), ["condition"]):
        raw, fitted = ([row for row in part if row["calibrated"] == kind and row["range_both"] is not None]
                       for kind in (False, True))  # fmt: skip
        after = {row["series"]: row for row in fitted}
        calibrated = [after[row["series"]] for row in raw] if all(row["series"] in after for row in raw) else []
        sentences.append(say("variance", raw=raw, calibrated=calibrated, first=part[0]))
    return sentences
