"""Small charts of a page: dots with intervals and bars, in lines below each other, as SVG that a
template writes.

Their colors and words are the page's own, so that they are light or dark as it is, and they need no
drawing library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any
from unicodedata import east_asian_width

import numpy as np

from judgebench.data.dataset import DEV, TEST
from judgebench.report.table import records
from judgebench.report.views.audit import audit_rows
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
from judgebench.report.views.decisions import chosen_record
from judgebench.report.views.forecasts import error_rows
from judgebench.report.views.humans import ENDS, ceilings
from judgebench.report.views.league import league_rows
from judgebench.report.views.pairwise import ranking_records
from judgebench.report.views.systems import advised_systems
from judgebench.report.views.tuning import tuning_blocks
from judgebench.results.results import Results, range_of
from judgebench.stats.bradley_terry import ELO_MEAN
from judgebench.studies.audit import DATA
from judgebench.studies.repairs import AGREEMENT, POINTS
from judgebench.studies.scores import CLEAN, first_record
from judgebench.types import Ends, Record, Row, Rows, ScoreRange
from judgebench.words.formats import (
    Format,
    general,
    interval,
    is_known,
    percent,
    say,
    short,
    signed_two,
    three,
    two,
    whole,
)

LOOKS = 4
"""Looks of series, each a color and a shape: circle, square, diamond, triangle; the color of a
fifth is hot."""

_MOST_LINES = 12
_MOST_BARS = 11
_MOST_RANKED = 60
_SPLITS = (DEV, TEST)
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
    band: Ends | None = None
    ends: Ends | None = None
    stacked: bool = False
    line_height: int = 26
    width: int = 300

    @property
    def barred(self) -> bool:
        """True for bars."""
        return any(mark.start is not None for _, marks in self.lines for mark in marks)

    @cached_property
    def label_width(self) -> int:
        """Of the longest label as it is written; the rest is the axis."""
        return 12 + round(max([25.0, *(self.long(self.written(label)) for label, _ in self.lines)]))

    def long(self, text: str) -> float:
        """The length of a text in units of the SVG, in a wide font, in the larger letters of a
        phone."""
        return (13 if self.width > 300 else 11) * sum(map(_em, text))

    def written(self, label: str) -> str:
        """A label that leaves two fifths of the chart to the axis; whole ones stand below."""
        most = 0.6 * self.width
        if self.long(label) <= most:
            return label
        kept = next(n for n in range(len(label), 0, -1) if self.long(label[:n]) < most - 12)
        return f"{label[:kept].rstrip()}…"

    @property
    def shortened(self) -> list[str]:
        """The labels that are not written whole."""
        return [label for label, _ in self.lines if self.written(label) != label]

    @property
    def height(self) -> int:
        """Of the lines and the axis, in units of the SVG."""
        return self.line_height * len(self.lines) + 18

    @cached_property
    def span(self) -> Ends:
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
        """Places and texts of three to five round numbers, none of which leaves the chart."""
        low, high = self.span
        unit = 10.0 ** np.floor(np.log10((high - low) / 3))
        step = next(unit * many for many in (1, 2, 2.5, 5, 10) if (high - low) / (unit * many) <= 4)
        values = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
        return [(self.at(value), self.form(value)) for value in values.tolist()]

    def tick_at(self, x: float, text: str) -> float:
        """The middle of a tick's text, which stays within the chart."""
        return round(min(x, self.width - self.long(text) / 2), 1)

    @property
    def drawn(self) -> Rows:
        """The places of all things: labels, dots (x, y, interval), bars (x, y, width, height)."""
        things = []
        for place, (label, marks) in enumerate(self.lines):
            middle = self.line_height * (place + 0.5)
            things.append(
                {
                    "kind": "label",
                    "x": self.label_width - 7,
                    "y": middle + 3.5,
                    "text": self.written(label),
                }
            )
            lanes = 1 if self.stacked else max(1, len(marks))
            lane = (self.line_height - 6) / lanes
            for number, mark in enumerate(marks):
                y = middle if self.stacked else middle + (number - (lanes - 1) / 2) * lane
                things.append(
                    self._thing(mark, round(y, 1), round(lane - (2 if lanes > 1 else 4), 1))
                )
        return things

    def _thing(self, mark: ChartMark, y: float, height: float) -> Record:
        """The place of a mark whose lane has its middle at y."""
        end = self.at(mark.value)
        thing = {
            "kind": "dot",
            "look": mark.look,
            "x": end,
            "y": y,
            "says": mark.says,
        }
        if mark.start is not None:
            start = self.at(mark.start)
            width = round(end - start, 1)
            thing |= {
                "kind": "bar",
                "x": start,
                "y": round(y - height / 2, 1),
                "width": width,
                "height": height,
            }
            if self.stacked and width >= _WRITTEN:
                thing["text"] = self.form(mark.value - mark.start)
        elif mark.low is not None and mark.high is not None:
            thing |= {"low": self.at(mark.low), "high": self.at(mark.high)}
        return thing


@cache
def _em(letter: str) -> float:
    """The width of a letter as a part of its height, in a wide sans serif."""
    if east_asian_width(letter) in "WF":
        return 1.05
    if letter in " .,:;|!'ijlIft()[]":
        return 0.4
    return (
        0.85 if letter in "mwMWOQGD%@" or letter > "\u00ff" else 0.68 if letter.isupper() else 0.63
    )


def _dot(
    look: int, name: str, row: Row, key: str, form: Format, ends: Format | None = None
) -> ChartMark | None:
    """The dot of a row's number; None where it is unknown."""
    value: Any = row.get(key)
    if not is_known(value):
        return None
    low, high = (row.get(f"{key}{end}") for end in ENDS[1:])
    low, high = (bound if is_known(bound) else None for bound in (low, high))
    return ChartMark(
        look,
        value,
        low,
        high,
        says=f"{name}: {form(value)} {interval(low, high, ends or form)}".rstrip(),
    )


def _lines(
    lines: Iterable[tuple[str, Sequence[ChartMark | None]]],
) -> list[tuple[str, list[ChartMark]]]:
    """The lines that have a mark, without those that are unknown."""
    known = [(label, [mark for mark in marks if mark]) for label, marks in lines]
    return [(label, marks) for label, marks in known if marks]


def _height(total: int, lines: Sequence[Any]) -> int:
    """Of a line, where all share a height."""
    return max(12, min(26, total // max(1, len(lines))))


def _brief(series: str) -> str:
    return series.removeprefix("main, ").removeprefix("pair, ")


# --- of the first screen ------------------------------------------------------------------------


def first_charts(results: Results, dimension: str) -> list[Chart]:
    """Two of a dimension, the first that have something to draw: what attacks change, agreement by
    range and the human ceiling, the range's share of the variance, what repairs buy, and scores
    given; larger than those of sections."""
    makers = (
        attacks_chart,
        classes_chart,
        agreement_chart,
        variance_chart,
        repairs_chart,
        scores_chart,
    )
    charts = [chart for chart in (make(results, dimension) for make in makers) if chart.lines]
    return [
        replace(chart, width=440, line_height=max(16, min(42, 168 // len(chart.lines))))
        for chart in charts[:2]
    ]


def agreement_chart(results: Results, dimension: str) -> Chart:
    """Spearman by range: the setting that is advised, and the other decodings, with one rater's."""
    rows = [] if results.compares else correlation_rows(results, silent=True)
    rows = [row for row in rows if row["dimension"] == dimension and row["range"] != "average"]
    advised = of_advised(results, rows)
    rows = [row for row in undefended(rows) if row["judge"] != "assistant"]
    names = list(dict.fromkeys(row["series"] for row in [*advised, *rows]))[:LOOKS]
    ceiling = ceilings(results).get(dimension, {})
    drawn = [row for row in rows if row["series"] in names]
    others = ceiling and all(is_known(row["spearman_others"]) for row in drawn)
    key = "spearman_others" if others else "spearman"
    by = {(row["range"], row["series"]): row for row in [*rows, *advised]}

    def dots(score_range: str) -> list[ChartMark | None]:
        return [
            _dot(look, series, by.get((score_range, series), {}), key, two, short)
            for look, series in enumerate(names)
        ]

    ranges = dict.fromkeys(row["range"] for row in rows)
    chart = Chart(
        "Agreement with the humans",
        _lines((name, dots(name)) for name in ranges),
        {look: _brief(series) for look, series in enumerate(names)},
        two,
        "Spearman by score range, with the humans' mean.",
    )
    if not others:
        return chart
    ends = (ceiling["ceiling_low"], ceiling["ceiling_high"])
    return replace(
        chart,
        note="Spearman by score range, with the mean of the other raters; line: one rater.",
        rule=ceiling["ceiling"],
        band=ends if is_known(ends[0]) else None,
    )


_PARTS = {"texts_share": "the text", "range_interactions": "range × text", "range_own": "the range"}
_PART_LOOKS = (0, 1, 4)
_PART_KEYS = dict(zip(_PART_LOOKS, _PARTS.values(), strict=True))


def variance_chart(results: Results, dimension: str) -> Chart:
    """Shares of the variance of scores by decoding, raw and calibrated: texts, their order by
    range, the range."""
    rows = variance_frame(results)
    if len(rows):
        known = rows["texts_share"].notna() & (rows["dimension"] == dimension)
        rows = reported_rows(rows[known])
    lines = []
    for row in records(rows)[:_MOST_LINES]:
        marks = []
        start = 0.0
        for look, (name, part) in zip(_PART_LOOKS, _PARTS.items(), strict=True):
            end = start + row[name]
            says = f"{row['who']}, {part}: {percent(row[name])}"
            marks.append(ChartMark(look, end, start=start, says=says))
            start = end
        lines.append(("calibrated" if row["calibrated"] else _brief(row["series"]), marks))
    return Chart(
        "What moves its scores",
        lines,
        _PART_KEYS,
        percent,
        "Share of the variance of scores over the ranges; calibrated: below each decoding.",
        ends=(0.0, 1.0),
        stacked=True,
        line_height=_height(104, lines),
    )


def repairs_chart(results: Results, dimension: str) -> Chart:
    """Differences in Spearman between decodings, means over the ranges."""
    rows = [row for row in results.repairs if row["dimension"] == dimension]
    pairs = [
        (f"{row['decoding']} instead of {row['reference']}", dict(row))
        for row in rows
        if row["kind"] == AGREEMENT
    ]
    # where all decodings are compared with one, the league has the differences
    league = [
        (row["who"].removeprefix("main, "), row)
        for row in league_rows(results)
        if row["dimension"] == dimension and is_known(row.get("difference"))
    ]
    lines = _lines(
        (name.replace("_", " "), [_dot(0, name, row, "difference", signed_two)])
        for name, row in [*pairs, *league[:_MOST_LINES]]
    )
    note = "Change of Spearman, mean over the ranges."
    decoding = first_record(advised_rows(results), {"dimension": dimension}).get("decoding")
    calibrated = [row for row in rows if (row["kind"], row["decoding"]) == (POINTS, decoding)]
    if calibrated and is_known(calibrated[0].get("after")):
        before, after = (two(calibrated[0][name]) for name in ("before", "after"))
        note += f" Calibration: error {before} → {after} points."
    return Chart(
        "What each repair buys",
        lines,
        {},
        signed_two,
        note,
        rule=0.0,
        line_height=_height(130, lines),
    )


def scores_chart(results: Results, dimension: str) -> Chart:
    """Share of texts that get each score: of the setting that is advised, and of the humans mapped
    to its range."""
    names = {0: "judge", 3: "humans"}
    chart = Chart("Scores given", [], names, percent)
    lead = first_record(advised_rows(results), {"dimension": dimension})
    scale = results.scale.get(dimension)
    if not lead or not len(results.scores) or results.compares or not spans(scale):
        return chart
    rows = cell_scores(results, lead)
    score_range = range_of(lead)
    humans = to_range(human_scores(rows), scale, score_range)
    if len(score_range.values) > _MOST_BARS:
        low = score_range.minimum
        high = score_range.maximum
        score_range = ScoreRange(low, high, (high - low) / (_MOST_BARS - 1))
    sides = (shares(rows["score"].dropna(), score_range), shares(humans, score_range))
    lines = []
    for candidate, *heights in zip(score_range.candidates, *sides, strict=True):
        marks = []
        for (look, name), height in zip(names.items(), map(float, heights), strict=True):
            marks.append(ChartMark(look, height, start=0.0, says=f"{name}: {percent(height)}"))
        lines.append((candidate, marks))
    return replace(
        chart,
        lines=lines[::-1],
        note=f"Share of texts by score in range {lead['range']}; the humans' are mapped to it.",
        ends=(0.0, max(0.1, *(float(side.max()) for side in sides))),
        line_height=_height(130, lines),
    )


def classes_chart(results: Results, dimension: str) -> Chart:
    """The confusion matrix: of the texts that people put in each class, the shares that the judge
    puts in each."""
    row = chosen_record(results, dimension)
    names = list(row.get("classes", ()))[: LOOKS + 1]
    lines = []
    for name, counts in zip(names, row.get("matrix", ()), strict=False):
        total = sum(counts)
        marks = []
        start = 0.0
        for look, count in enumerate(counts[: LOOKS + 1] if total else ()):
            end = start + count / total
            says = f"people {name}, judge {names[look]}: {count:.4g} of {total:.4g} texts"
            marks.append(ChartMark(look, end, start=start, says=says))
            start = end
        lines.append((f"people: {name}", marks))
    return Chart(
        "People's classes, and the judge's",
        lines,
        {look: f"judge: {name}" for look, name in enumerate(names)},
        percent,
        "Share of the texts of each class that the judge puts in each.",
        ends=(0.0, 1.0),
        stacked=True,
    )


def asked_chart(results: Results, dimension: str) -> Chart:
    """The share of mistakes among the texts that the judge decides, by the share that people
    see."""
    row = chosen_record(results, dimension)
    curve = row.get("curve") or []
    step = -(-len(curve) // _MOST_LINES) or 1
    lines = []
    for asked, error in curve[::step]:
        says = f"a person sees {percent(asked)}: {percent(error)} mistakes"
        lines.append((f"{percent(asked)} seen", [ChartMark(0, error, says=says)]))
    allowed = (results.config.get("ask") or {}).get("error")
    return Chart(
        "Mistakes among the texts that the judge decides",
        lines,
        {},
        percent,
        "By the share of texts that a person sees, those of which it is least sure; line: ask.error.",
        rule=allowed if lines else None,
        line_height=20,
    )


# --- of sections --------------------------------------------------------------------------------


def systems_chart(results: Results, dimension: str) -> Chart:
    """Means of systems by the judge, on the humans' scale, and by the humans."""
    ranking = first_record(advised_systems(results), {"dimension": dimension}).get("ranking", ())
    if not spans(results.scale.get(dimension)) or not 1 < len(ranking) <= 2 * _MOST_LINES:
        ranking = ()
    columns = (("judge", "mean"), ("humans", "human_mean"))
    lines = []
    for system in sorted(ranking, key=lambda system: -(system["human_mean"] or 0.0)):
        dots = [
            _dot(look, name, system, key, two)
            for look, (name, key) in zip((0, 3), columns, strict=True)
        ]
        lines.append((system["system"], dots))
    return Chart(
        "Means of systems",
        _lines(lines),
        {0: "judge", 3: "humans"},
        two,
        "Mean score of each system on the humans' scale, uncalibrated, with its 95 % interval.",
        stacked=True,
        line_height=22,
    )


def errors_chart(results: Results, dimension: str) -> Chart:
    """Mean errors on the texts of each system and length."""
    slices = first_record(error_rows(results), {"dimension": dimension}).get("slices", ())
    lines = _lines(
        (part["slice"], [_dot(0, part["slice"], part, "error", signed_two)]) for part in slices
    )
    if not 1 < len(lines) <= 2 * _MOST_LINES:
        lines = []
    return Chart(
        "Mean error",
        lines,
        {},
        signed_two,
        "Mean of judge less humans in points, uncalibrated; above 0 the judge is too lenient.",
        rule=0.0,
        line_height=20,
    )


def moved_chart(results: Results, dimension: str) -> Chart:
    """Effects of the audit that have an interval."""
    rows = [row for row in audit_rows(results) if row["dimension"] == dimension]
    parts = []
    for row in rows:
        if row["p"] is not None:
            look = 0 if row["instrument"] == DATA else 1
            name = f"{row['factor']}: {row['level']}"
            parts.append((name, [_dot(look, name, row, "effect", signed_two)]))
    return Chart(
        "What moves it",
        _lines(parts[: 2 * _MOST_LINES]),
        {0: "varies in the data", 1: "was changed"},
        signed_two,
        "Effects in points of the humans' scale, with 95 % intervals.",
        rule=0.0,
        line_height=20,
    )


def attacks_chart(results: Results, dimension: str) -> Chart:
    """Change of the mean score by each attack under each defense, of the setting that is
    advised."""
    keys = ("dimension", "range_min", "range_max", "judge", "decoding", "lambda", "temperature")
    leads = [row for row in advised_rows(results) if row["dimension"] == dimension]
    settings = [[lead[key] for key in keys] for lead in leads]
    rows = [
        row
        for row in records(results.shown)
        if is_known(row.get("change")) and [row[key] for key in keys] in settings
    ]
    names = list(dict.fromkeys(row["defense"] for row in rows))[:LOOKS]
    by = {(row["attack"], row["defense"]): row for row in rows}

    def dots(attack: str) -> list[ChartMark | None]:
        return [
            _dot(look, name, by.get((attack, name), {}), "change", signed_two)
            for look, name in enumerate(names)
        ]

    attacks = list(dict.fromkeys(row["attack"] for row in rows))[: 2 * _MOST_LINES]
    return Chart(
        "What attacks change",
        _lines((attack, dots(attack)) for attack in attacks),
        {look: "no defense" if name == "none" else name for look, name in enumerate(names)},
        signed_two,
        "Change of the mean score in points of the range, with its 95 % interval.",
        rule=0.0,
    )


def elo_chart(results: Results, dimension: str) -> Chart:
    """Strengths of systems compared, on the Elo scale, by each judge that is shown in full and by
    the humans; of clean texts without a defense where there are such."""
    leads = [record for record in ranking_records(results) if record["lead"]]
    leads = [record for record in leads if record["dimension"] == dimension]
    clean = [record for record in leads if record["attack"] == CLEAN] or leads
    blocks = [record for record in clean if record["condition"] == clean[0]["condition"]]
    blocks = [block for block in blocks if 1 < len(block["ranking"]) <= _MOST_RANKED][: LOOKS - 1]
    if not blocks:
        return Chart("Systems ranked", [], {}, whole)
    # a lane is one who ranks: its name, its systems by name, and where its columns begin
    lanes = {
        look: (block["name"], {system["system"]: system for system in block["ranking"]}, "")
        for look, block in enumerate(blocks)
    }
    lanes[LOOKS - 1] = ("humans", lanes[0][1], "human_")

    def dots(system: str) -> list[ChartMark | None]:
        return [
            _dot(look, name, systems.get(system, {}), f"{start}elo", whole)
            for look, (name, systems, start) in lanes.items()
        ]

    lines = _lines((system["system"], dots(system["system"])) for system in blocks[0]["ranking"])
    drawn = {mark.look for _, marks in lines for mark in marks}
    return Chart(
        "Systems ranked",
        lines,
        {look: _brief(name) for look, (name, _, _) in lanes.items() if look in drawn},
        whole,
        say(
            "caption_ranking",
            size=blocks[0]["size"],
            bounded=any(mark.low is not None for _, marks in lines for mark in marks),
            groups=results.groups,
            notes=blocks[0]["notes"],
        ),
        rule=ELO_MEAN,
    )


def path_charts(results: Results) -> dict[str, Chart]:
    """Name -> Spearman on dev and test by kappa = lambda / t, of each tuned decoding and range; none
    where scores are expectations."""
    charts = {}
    for block in tuning_blocks(results.tuning):
        for row in block:
            if row["rule"] == "argmax":
                name = f"chart_path_{row['dimension']}_{row['decoding']}_{range_of(row)}"
                charts[name] = _path_chart(row, str(range_of(row)))
    return charts


def _path_chart(row: Row, score_range: str) -> Chart:
    points = {point["kappa"]: point for point in row["grid"] if not point["constant"]}
    kappas = sorted(points)
    shown = {*kappas[:: -(-len(kappas) // _MOST_LINES) or 1], row["kappa"]}
    lines = []
    for kappa in sorted(shown):
        chosen = kappa == row["kappa"]
        point = row if chosen else points[kappa]
        dots = [_dot(look, split, point, split, three) for look, split in enumerate(_SPLITS)]
        lines.append((f"{general(kappa)}{', selected' if chosen else ''}", dots))
    return Chart(
        f"Spearman over κ = λ / t: {row['decoding']}, range {score_range}",
        _lines(lines),
        dict(enumerate(_SPLITS)),
        two,
        "Of many κ some, evenly spread; those without a correlation, as every text gets the same "
        "score, are left out. κ = 0 is the main model alone.",
        rule=0.0,
        stacked=True,
        line_height=20,
    )


_SECTIONS = {
    "ranking": elo_chart,
    "variance": variance_chart,
    "classes": classes_chart,
    "asked": asked_chart,
    "systems": systems_chart,
    "repairs": repairs_chart,
    "scores": scores_chart,
    "errors": errors_chart,
    "moved": moved_chart,
}


def section_charts(results: Results) -> dict[str, Chart]:
    """Name -> chart: `chart_<subject>_<dimension>`, as far as there is something to draw."""
    dimensions = dict.fromkeys(row["dimension"] for row in [*results.metrics, *results.pairwise])
    charts = {
        f"chart_{subject}_{dimension}": draw(results, dimension)
        for subject, draw in _SECTIONS.items()
        for dimension in dimensions
    }
    charts |= path_charts(results)
    return {name: chart for name, chart in charts.items() if chart.lines}
