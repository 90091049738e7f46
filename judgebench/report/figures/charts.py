"""Small charts of a page: dots with intervals and bars, in lines below each other, as SVG that a
template writes.

Their colors and words are the page's own, so that they are light or dark as it is, and they need no
drawing library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from judgebench.report.formats import Format, interval, is_known, percent, short, signed_two, two
from judgebench.report.table import Row, records
from judgebench.report.views.bias import (
    human_scores,
    reported_rows,
    shares,
    spans,
    to_range,
    variance_frame,
)
from judgebench.report.views.correlations import (
    advised_rows,
    cell_scores,
    correlation_rows,
    of_advised,
    undefended,
)
from judgebench.report.views.forecasts import error_rows
from judgebench.report.views.humans import ENDS, ceilings
from judgebench.report.views.league import league_rows
from judgebench.report.views.systems import advised_systems
from judgebench.results.results import Results, range_of
from judgebench.stats.repairs import AGREEMENT, POINTS
from judgebench.types import ScoreRange

LOOKS = 4
"""Looks of series, each a color and a shape: circle, square, diamond, triangle; the color of a
fifth is hot."""

_MOST_LINES = 12
_MOST_BARS = 11
_WIDE = 20  # characters of a run's name
_WRITTEN = 30  # units of the SVG from which on a bar of a stack has room for its number


@dataclass(frozen=True)
class ChartMark:
    """A dot with its interval, or a bar from 0 or from `start`: of a series (`look`), in one of the
    line's lanes."""

    look: int
    value: float
    low: float | None = None
    high: float | None = None
    start: float | None = None
    says: str = ""


@dataclass(frozen=True)
class Chart:
    """Lines of marks over one axis.

    Attributes:
        title: its subject, in few words; note: how to read it, a sentence.
        lines: label -> marks.
        keys: the name of each look that occurs.
        form: of the axis' numbers.
        rule, band: a number, and an interval, that a line and a band mark across all lines.
        stacked: whether bars follow each other in one lane.
    """

    title: str
    lines: Sequence[tuple[str, Sequence[ChartMark]]]
    keys: Mapping[int, str]
    form: Format
    note: str = ""
    rule: float | None = None
    band: tuple[float, float] | None = None
    ends: tuple[float, float] | None = None
    stacked: bool = False
    line_height: int = 26
    width: int = 300

    @property
    def barred(self) -> bool:
        """True for bars."""
        return any(mark.start is not None for _, marks in self.lines for mark in marks)

    @property
    def label_width(self) -> int:
        """Of the longest label; the rest is the axis."""
        return min(228, 12 + round(5.7 * max(4, *(len(label) for label, _ in self.lines), 0)))

    @property
    def height(self) -> int:
        """Of the lines and the axis, in units of the SVG."""
        return self.line_height * len(self.lines) + 18

    @property
    def span(self) -> tuple[float, float]:
        """The ends of the axis: as given, else of all numbers, a little wider."""
        if self.ends:
            return self.ends
        values = [self.rule, *(self.band or ())]
        for _, marks in self.lines:
            for mark in marks:
                values += [mark.value, mark.low, mark.high]
        numbers = [value for value in values if value is not None]
        low = min(numbers)
        high = max(numbers)
        room = 0.04 * (high - low) or 0.1
        return low - room, high + room

    def at(self, value: float) -> float:
        """The place of a number on the axis."""
        low, high = self.span
        share = (min(max(value, low), high) - low) / (high - low)
        return round(self.label_width + share * (self.width - self.label_width - 8), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and texts of three to five round numbers."""
        low, high = self.span
        unit = 10.0 ** np.floor(np.log10((high - low) / 3))
        step = next(unit * many for many in (1, 2, 2.5, 5, 10) if (high - low) / (unit * many) <= 4)
        values = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
        return [(self.at(value), self.form(value)) for value in values.tolist()]

    @property
    def drawn(self) -> list[dict[str, Any]]:
        """The places of all things: labels, dots (x, y, interval), bars (x, y, width, height)."""
        things: list[dict[str, Any]] = []
        for place, (label, marks) in enumerate(self.lines):
            middle = self.line_height * (place + 0.5)
            things.append(
                {"kind": "label", "x": self.label_width - 7, "y": middle + 3.5, "text": label}
            )
            lanes = 1 if self.stacked else max(1, len(marks))
            lane = (self.line_height - 6) / lanes
            for number, mark in enumerate(marks):
                y = round(middle + (0 if self.stacked else number - (lanes - 1) / 2) * lane, 1)
                thing: dict[str, Any] = {
                    "look": mark.look,
                    "x": self.at(mark.value),
                    "y": y,
                    "says": mark.says,
                    "kind": "dot",
                }
                if mark.start is not None:
                    x = self.at(mark.start)
                    height = round(lane - (2 if lanes > 1 else 4), 1)
                    thing |= {
                        "kind": "bar",
                        "width": round(thing["x"] - x, 1),
                        "x": x,
                        "height": height,
                    }
                    thing["y"] = round(y - height / 2, 1)
                    if self.stacked and thing["width"] >= _WRITTEN:
                        thing["text"] = self.form(mark.value - mark.start)
                elif mark.low is not None and mark.high is not None:
                    thing |= {"low": self.at(mark.low), "high": self.at(mark.high)}
                things.append(thing)
        return things


def _dot(
    look: int, name: str, row: Row, key: str, form: Format, ends: Format | None = None
) -> ChartMark | None:
    """The dot of a row's number; None where it is unknown."""
    value, low, high = (row.get(f"{key}{end}") for end in ENDS)
    if value is None or not is_known(value):
        return None
    says = f"{name}: {form(value)} {interval(low, high, ends or form)}".rstrip()
    return ChartMark(
        look, value, low if is_known(low) else None, high if is_known(high) else None, says=says
    )


def _lines(
    lines: Sequence[tuple[str, Sequence[ChartMark | None]]],
) -> list[tuple[str, list[ChartMark]]]:
    known = [(label, [mark for mark in marks if mark]) for label, marks in lines]
    return [(label, marks) for label, marks in known if marks]


# --- of the first screen ------------------------------------------------------------------------


def first_charts(results: Results, dimension: str) -> list[Chart]:
    """Two of a dimension, the first that have something to draw: what attacks change, agreement by
    range and the human ceiling, the range's share of the variance, what repairs buy, and scores
    given; larger than those of sections."""
    charts = (attacks_chart, agreement_chart, variance_chart, repairs_chart, scores_chart)
    drawn = [chart for chart in (draw(results, dimension) for draw in charts) if chart][:2]
    return [
        replace(chart, width=440, line_height=max(16, min(42, 168 // len(chart.lines))))
        for chart in drawn
    ]


def agreement_chart(results: Results, dimension: str) -> Chart | None:
    """Spearman by range: the setting taken first, and the other decodings, with one rater's."""
    rows = [] if results.compares else correlation_rows(results, silent=True)
    rows = [row for row in rows if row["dimension"] == dimension and row["range"] != "average"]
    taken = of_advised(results, rows)
    rows = [row for row in undefended(rows) if row["judge"] != "assistant"]
    names = list(dict.fromkeys(row["series"] for row in [*taken, *rows]))[:LOOKS]
    ceiling = ceilings(results).get(dimension, {})
    others = ceiling and all(
        is_known(row["spearman_others"]) for row in rows if row["series"] in names
    )
    key = "spearman_others" if others else "spearman"
    by = {(row["range"], row["series"]): row for row in [*rows, *taken]}
    lines = _lines(
        [
            (
                name,
                [
                    _dot(look, series, by.get((name, series), {}), key, two, short)
                    for look, series in enumerate(names)
                ],
            )
            for name in dict.fromkeys(row["range"] for row in rows)
        ]
    )
    if not lines:
        return None
    band = (
        (ceiling["ceiling_low"], ceiling["ceiling_high"])
        if others and is_known(ceiling["ceiling_low"])
        else None
    )
    note = "Spearman by score range"
    note += (
        ", with the mean of the other raters; line: one rater."
        if others
        else ", with the humans' mean."
    )
    keys = {
        look: series.removeprefix("main, ").removeprefix("pair, ")
        for look, series in enumerate(names)
    }
    rule = ceiling["ceiling"] if others else None
    return Chart("Agreement with the humans", lines, keys, two, note, rule, band)


def variance_chart(results: Results, dimension: str) -> Chart | None:
    """Shares of the variance of scores by decoding, raw and calibrated: texts, their order by
    range, the range."""
    rows = variance_frame(results)
    rows = (
        reported_rows(rows[rows["texts_share"].notna() & (rows["dimension"] == dimension)])
        if len(rows)
        else rows
    )
    lines = []
    for row in records(rows)[:_MOST_LINES]:
        marks = []
        start = 0.0
        for look, (name, says) in zip(_PART_LOOKS, _PARTS.items(), strict=True):
            end = start + row[name]
            marks.append(
                ChartMark(
                    look, end, start=start, says=f"{row['who']}, {says}: {percent(row[name])}"
                )
            )
            start = end
        label = (
            "calibrated"
            if row["calibrated"]
            else row["series"].removeprefix("main, ").removeprefix("pair, ")
        )
        lines.append((label, marks))
    if not lines:
        return None
    note = "Share of the variance of scores over the ranges; calibrated: below each decoding."
    ends: dict[str, Any] = {
        "ends": (0.0, 1.0),
        "stacked": True,
        "line_height": max(12, min(26, 104 // len(lines))),
    }
    return Chart("What moves its scores", lines, _PART_KEYS, percent, note, **ends)


_PARTS = {"texts_share": "the text", "range_interactions": "range × text", "range_own": "the range"}
_PART_LOOKS = (0, 1, 4)
_PART_KEYS = dict(zip(_PART_LOOKS, _PARTS.values(), strict=True))


def repairs_chart(results: Results, dimension: str) -> Chart | None:
    """Differences in Spearman between decodings, means over the ranges."""
    rows = [dict(row) for row in results.repairs if row["dimension"] == dimension]
    lines = [
        (f"{row['decoding']} instead of {row['reference']}", row)
        for row in rows
        if row["kind"] == AGREEMENT
    ]
    # where all decodings are compared with one, the league has the differences
    lines += [
        (row["who"].removeprefix("main, "), row)
        for row in league_rows(results)
        if row["dimension"] == dimension and is_known(row.get("difference"))
    ][:_MOST_LINES]
    drawn = _lines(
        [
            (name.replace("_", " "), [_dot(0, name, row, "difference", signed_two)])
            for name, row in lines
        ]
    )
    lead = next((row for row in advised_rows(results) if row["dimension"] == dimension), {})
    saved = next(
        (row for row in rows if row["kind"] == POINTS and row["decoding"] == lead["decoding"]), {}
    )
    note = "Change of Spearman, mean over the ranges."
    if is_known(saved.get("after")):
        note += f" Calibration: error {two(saved['before'])} → {two(saved['after'])} points."
    keys: dict[str, Any] = {"rule": 0.0, "line_height": max(12, min(26, 130 // max(1, len(drawn))))}
    return Chart("What each repair buys", drawn, {}, signed_two, note, **keys) if drawn else None


def scores_chart(results: Results, dimension: str) -> Chart | None:
    """Share of texts that get each score: of the setting taken, and of the humans mapped to its
    range."""
    lead = next((row for row in advised_rows(results) if row["dimension"] == dimension), None)
    scale = results.scale.get(dimension)
    if lead is None or not len(results.scores) or results.compares or not spans(scale):
        return None
    rows = cell_scores(results, lead)
    score_range = range_of(lead)
    humans = to_range(human_scores(rows), scale, score_range)
    if len(score_range.values) > _MOST_BARS:
        low = score_range.minimum
        high = score_range.maximum
        score_range = ScoreRange(low, high, (high - low) / (_MOST_BARS - 1))
    sides = (shares(rows["score"].dropna(), score_range), shares(humans, score_range))
    names = ("judge", "humans")
    lines = [
        (
            candidate,
            [
                ChartMark(
                    look * 3,
                    float(side[place]),
                    start=0.0,
                    says=f"{names[look]}: {percent(side[place])}",
                )
                for look, side in enumerate(sides)
            ],
        )
        for place, candidate in enumerate(score_range.candidates)
    ]
    note = f"Share of texts by score in range {lead['range']}; the humans' are mapped to it."
    ends: dict[str, Any] = {"ends": (0.0, max(float(max(side.max() for side in sides)), 0.1))}
    ends["line_height"] = max(12, min(26, 130 // len(lines)))
    return Chart("Scores given", lines[::-1], {0: "judge", 3: "humans"}, percent, note, **ends)


# --- of sections --------------------------------------------------------------------------------


def systems_chart(results: Results, dimension: str) -> Chart | None:
    """Means of systems by the judge, on the humans' scale, and by the humans."""
    row = next((row for row in advised_systems(results) if row["dimension"] == dimension), None)
    ranking = [] if row is None else row["ranking"]
    if not spans(results.scale.get(dimension)) or not 1 < len(ranking) <= 2 * _MOST_LINES:
        return None
    ranking = sorted(ranking, key=lambda system: -(system["human_mean"] or 0.0))
    lines = _lines(
        [
            (
                system["system"][:18],
                [
                    _dot(0, "judge", system, "mean", two),
                    _dot(3, "humans", system, "human_mean", two),
                ],
            )
            for system in ranking
        ]
    )
    note = "Mean score of each system on the humans' scale, uncalibrated, with its 95 % interval."
    how: dict[str, Any] = {"stacked": True, "line_height": 22}
    return (
        Chart("Means of systems", lines, {0: "judge", 3: "humans"}, two, note, **how)
        if lines
        else None
    )


def errors_chart(results: Results, dimension: str) -> Chart | None:
    """Mean errors on the texts of each system and length."""
    nothing: Row = {"slices": []}
    row = next((row for row in error_rows(results) if row["dimension"] == dimension), nothing)
    lines = _lines(
        [
            (part["slice"][:24], [_dot(0, part["slice"], part, "error", signed_two)])
            for part in row["slices"]
        ]
    )
    if not 1 < len(lines) <= 2 * _MOST_LINES:
        return None
    note = "Mean of judge less humans in points, uncalibrated; above 0 the judge is too lenient."
    return Chart("Mean error", lines, {}, signed_two, note, rule=0.0, line_height=20)


def attacks_chart(results: Results, dimension: str) -> Chart | None:
    """Change of the mean score by each attack under each defense, of the setting taken."""
    leads = [row for row in advised_rows(results) if row["dimension"] == dimension]
    keys = ("dimension", "range_min", "range_max", "judge", "decoding", "lambda", "temperature")
    rows = [
        row
        for row in records(results.shown)
        for lead in leads
        if is_known(row.get("change")) and all(row[key] == lead[key] for key in keys)
    ]
    names = list(dict.fromkeys(row["defense"] for row in rows))[:LOOKS]
    by = {(row["attack"], row["defense"]): row for row in rows}
    lines = _lines(
        [
            (
                attack[:24],
                [
                    _dot(look, name, by.get((attack, name), {}), "change", signed_two)
                    for look, name in enumerate(names)
                ],
            )
            for attack in list(dict.fromkeys(row["attack"] for row in rows))[: 2 * _MOST_LINES]
        ]
    )
    shown = {look: "no defense" if name == "none" else name for look, name in enumerate(names)}
    note = "Change of the mean score in points of the range, with its 95 % interval."
    return Chart("What attacks change", lines, shown, signed_two, note, rule=0.0) if lines else None


def _cut(name: str) -> str:
    return name if len(name) <= _WIDE else f"{name[: _WIDE - 1]}…"


def ranking_chart(rows: Sequence[Row]) -> Chart:
    """Spearman of several runs in one dimension, the best on top, and one rater's."""
    key = (
        "spearman_others"
        if all(is_known(row.get("spearman_others")) for row in rows)
        else "spearman"
    )
    lines = _lines(
        [
            (
                _cut(row["run"]),
                [_dot(0 if "spearman" in row else 3, row["run"], row, key, two, short)],
            )
            for row in rows
        ]
    )
    note = "Spearman with the humans, with its 95 % interval, of the setting that each run takes."
    return Chart("Agreement with the humans", lines, {}, two, note)


def section_charts(results: Results) -> dict[str, Chart]:
    """Name -> chart: `chart_<subject>_<dimension>`, as far as there is something to draw."""
    subjects = {
        "systems": systems_chart,
        "repairs": repairs_chart,
        "scores": scores_chart,
        "errors": errors_chart,
    }
    charts = {
        f"chart_{subject}_{row['dimension']}": draw(results, row["dimension"])
        for subject, draw in subjects.items()
        for row in advised_rows(results)
    }
    return {name: chart for name, chart in charts.items() if chart}
