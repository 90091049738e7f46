"""Range bias as variance: parts of a judge's scores that texts and ranges make, before and after each repair, and how
many ranges, judges or raters are enough; as tables and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import UNKNOWN, bounded, is_known, percent, points, short, two, whole
from judgebench.report.table import Col, View
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, SeriesIndex, condition_text
from judgebench.stats.variance import HUMANS, JUDGES, RANGES, WANTED

_MOST = 100  # more levels of a facet than anyone would ask
_CALIBRATED = ", calibrated"


def variance_frame(results: Results, study: str = RANGES) -> pd.DataFrame:
    """The records of one study of variance.json, a row each: by dimension and series, the calibrated below those as
    given.

    Added are `condition`; `series` with its setting where several are tried side by side, and `who`, the same with what
    was done to scores; `one` and `all`, the relative reliability of one level of each facet and of as many as there
    are, with intervals; `ranges_needed`, `judges_needed`, `raters_needed`: for the order of texts / for the scores
    themselves.
    """
    rows = [dict(record) for record in results.variance if record["study"] == study]
    # Records of two decodings have no judge, and those over ranges no range: series are told apart by the rest.
    index = SeriesIndex([row | {"judge": row["judge"] or ""} for row in rows])
    order = []
    conditions = list(dict.fromkeys(condition_text(row) for row in rows))
    for row in rows:
        series = index.of(row | {"judge": row["judge"] or ""})
        row |= {"condition": condition_text(row), "series": str(series).removeprefix(", "), "judged": series.judge}
        row["who"] = row["series"] + (_CALIBRATED if row["calibrated"] else "")
        row |= dict(_reliabilities(row))
        order.append((conditions.index(row["condition"]), index.all.index(series), row["calibrated"]))
    return pd.DataFrame([rows[one] for one in sorted(range(len(rows)), key=order.__getitem__)])


def _reliabilities(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    decisions = row["decisions"]
    for name, decision in zip(("one", "all"), decisions or [{}, {}], strict=True):
        for end in ("", "_low", "_high"):
            yield f"{name}{end}", decision.get(f"relative{end}")
    for facet in ("range", "judge", "rater"):
        known = decisions and f"needed_{facet}" in decisions[0]
        both = [decisions[0][f"needed_{facet}"], decisions[0][f"needed_absolute_{facet}"]] if known else []
        yield f"{facet}s_needed", " / ".join(map(_number, both)) or None


def _number(needed: int | None) -> str:
    if needed is None:
        return "none"
    return str(needed) if needed <= _MOST else f"> {_MOST}"


def _note(results: Results, rows: pd.DataFrame) -> str:
    notes = [
        "Scores are parts of the way from the lowest to the highest of their range, of texts that were scored in all "
        "ranges. Of texts: the share of the variance that stays the same in every range. Of range: all texts are "
        "moved alike. Of range x text: their order changes (with the error of single scores, where answers are "
        "sampled). Of both: score range bias in one number. Spread: standard "
        "deviation of a score, as part of its range (calibrated: of the humans' scale). One range: how reliable the "
        f"order of texts in one range is as that in any. Ranges needed for {short(WANTED)}: for the order of texts / "
        "for the scores themselves; none: no number is enough. A judge that repeats the same mistake in every range "
        "is reliable, too."
    ]
    if rows["calibrated"].any():
        notes.append(
            f"Calibrated: each range's scores are mapped to the humans' scale by what other {results.groups} teach "
            "(isotonic); a small spread means that little is left to tell texts apart."
        )
    if rows["texts_share_low"].notna().any():
        notes.append(f"In brackets: 95 % interval over {results.groups}, for these very ranges.")
    return " ".join(notes)


def _size(rows: pd.DataFrame, results: Results) -> pd.DataFrame:
    if len(rows):
        words = results.examples_word, results.groups
        rows["size"] = [f"{n} {words[0]} of {g} {words[1]}" for n, g in zip(rows["texts"], rows["groups"], strict=True)]
    return rows


def _variance(value: Any) -> str:
    return f"{value:.4f}" if is_known(value) else UNKNOWN


def _share(title: str, key: str) -> Col:
    return Col(title, key, percent, ends=points)


RANGE_VARIANCE = View(
    "variance",
    "Range bias as variance",
    lambda results: _size(variance_frame(results), results),
    (
        Col("judge, decoding", "who", left=True),
        Col("spread", "spread", two),
        _share("of texts", "texts_share"),
        _share("of range", "range_own"),
        _share("of range x text", "range_interactions"),
        _share("of both", "range_both"),
        Col("one range", "one", two, ends=short),
        Col(f"ranges for {short(WANTED)}", "ranges_needed"),
    ),
    by=["condition"],
    title="{condition}, {ranges:.0f} ranges",
    size="{size}",
    below="reason",
    note=_note,
)
"""Shares of a judge's variance, a row a series as given and calibrated."""

JUDGE_VARIANCE = View(
    "variance_judges",
    "Main model and assistant as two judges",
    lambda results: _size(variance_frame(results, JUDGES), results),
    (
        Col("decoding", "who", left=True),
        Col("spread", "spread", two),
        _share("of texts", "texts_share"),
        _share("of range", "range_own"),
        _share("of judge", "judge_own"),
        _share("all with range", "range_both"),
        _share("all with judge", "judge_both"),
        Col("one judge, one range", "one", two, ends=short),
        Col(f"judges for {short(WANTED)}", "judges_needed"),
    ),
    by=["condition"],
    title="{condition}",
    size="{size}",
    below="reason",
    note="All with range, all with judge: of it alone and of all its interactions. Judges needed: such as these two, "
    "each asked in one range; none: no number is enough. Two judges tell little of others.",
    folded="Main model and assistant as two judges: how much depends on which is asked",
)
"""Shares of the variance of two judges in the same ranges."""

HUMAN_VARIANCE = View(
    "variance_humans",
    "Human raters as variance",
    lambda results: _size(variance_frame(results, HUMANS), results),
    (
        Col("dimension", "condition", left=True),
        Col("raters", "raters", whole),
        Col("spread", "spread", two),
        _share("of texts", "texts_share"),
        _share("of rater", "rater_own"),
        _share("of rater x text", "rater_interactions"),
        Col("one rater", "one", two, ends=short),
        Col("as rated", "all", two, ends=short),
        Col(f"raters for {short(WANTED)}", "raters_needed"),
    ),
    below="reason",
    note="Of texts: the share of the variance of single ratings on which raters agree. Of rater: severity. Of "
    "rater x text: and of any other error. One rater, as rated: reliability of the order of texts by "
    "one, and by the mean of as many as rated a text on average "
    "(rounded). Raters needed: on each text, for the order of texts / for the scores themselves.",
)
"""Shares of the variance of single ratings, a row a dimension."""


def _by_author(results: Results) -> pd.DataFrame:
    rows = variance_frame(results).to_dict("records")
    return pd.DataFrame(
        [{"title": f"{row['condition']}: {row['who']}"} | one for row in rows for one in row["crossed"]]
    )


BY_AUTHOR = View(
    "variance_by_author",
    "Range bias by article and system",
    _by_author,
    (
        Col("effect", "effect", left=True),
        Col("variance", "variance", _variance),
        _share("share", "share"),
    ),
    sections=["title"],
    section="{title}",
    note="The same scores with a text's article and system (its author) apart, where texts are crossed so. System x "
    "range: the range changes the order of systems. A negative estimate counts as 0 in the shares.",
    folded="Range bias by article and system",
)
"""Components of article x system x range of every series."""


def variance_sentences(results: Results) -> list[str]:
    """One sentence a dimension with several ranges: the range's share of the variance of main model's and pair's
    scores, and after calibration. Without defense, where there is such."""
    rows = told_rows(variance_frame(results))
    return [_sentence(part) for _, part in rows.groupby("condition", sort=False)] if len(rows) else []


def told_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `variance_frame` without assistants and without defense, where there are others."""
    for other in ("defense", "judged") if len(rows) else ():
        own = rows[rows[other] == NO_DEFENSE] if other == "defense" else rows[rows[other] != "assistant"]
        rows = own if len(own) else rows
    return rows


def _sentence(rows: pd.DataFrame) -> str:
    head = f"{rows['condition'].iloc[0]}: "
    given, calibrated = (
        rows[(rows["calibrated"] == kind) & rows["range_both"].notna()].to_dict("records") for kind in (False, True)
    )
    if not given:
        return f"{head}the range's share of the variance is unknown. {rows['reason'].iloc[0]}"
    shares = [
        f"{_bounded(row)} of the variance of scores by {row['who']} ({percent(row['range_own'])} moves all texts "
        f"alike, {percent(row['range_interactions'])} changes their order)"
        for row in given[:1]
    ]
    shares += [
        f"{_bounded(row)} by {row['who']} ({percent(row['range_own'])} and {percent(row['range_interactions'])})"
        for row in given[1:]
    ]
    sentence = f"{head}over {given[0]['ranges']:.0f} ranges, the score range makes {_listed(shares)}"
    after = {row["series"]: row for row in calibrated}
    if all(row["series"] in after for row in given):
        shares = [_bounded(after[row["series"]]) for row in given]
        sentence += f"; calibrated by the humans in each range, {_listed(shares)}"
    return f"{sentence}."


def _bounded(row: Mapping[Any, Any]) -> str:
    return bounded(row, "range_both", points, percent)


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
