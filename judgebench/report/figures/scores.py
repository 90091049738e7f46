"""Figures of scores, log-probabilities of scores, score range bias as variance, and systems ranked
by comparisons."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from judgebench.report.figures import style
from judgebench.report.figures.style import HUMANS, MUTED, Mark
from judgebench.report.views import bias
from judgebench.report.views.bias import reported_rows, variance_frame
from judgebench.report.views.pairwise import ranking_records
from judgebench.results import results as cells
from judgebench.results.results import Results, Series, SeriesIndex, Titles
from judgebench.stats.bradley_terry import ELO_MEAN
from judgebench.studies.scores import CLEAN, shown_split
from judgebench.types import Records, Scale, ScoreRange
from judgebench.words.formats import points, say

_BAND = "#e9e9e9"
_MOST_TICKS = 21
_WIDE = 11
"""Candidates from which on a panel takes a row of its own."""


@style.house_style()
def score_figure(
    scores: pd.DataFrame, dimension: str, scale: Scale | None, titles: Titles
) -> Figure:
    """Share of texts per score: grouped bars for each judge with discrete scores, and for the
    humans; of the reported split, without attack and defense where there are such. Decodings whose
    scores mostly fall between the range's (expectation) are not drawn."""
    rows, split, condition = _shown(scores, dimension)
    index = SeriesIndex.from_frame(rows)
    discrete = [series for series, part in index.parts(rows).items() if bias.is_discrete(part)]
    looks = style.marks(discrete)
    ranges = cells.ranges_of(rows)

    def draw(axis: Axes, panel: tuple[ScoreRange, pd.DataFrame]) -> None:
        score_range, part = panel
        parts = index.parts(part)
        bars = []
        for series, look in looks.items():
            if series in parts:
                shares = bias.shares(parts[series]["score"], score_range)
                bars.append((look.color, shares))
        if bias.spans(scale):
            humans = bias.to_range(bias.human_scores(part), scale, score_range)
            bars.append((HUMANS, bias.shares(humans, score_range)))
        at = np.arange(len(score_range.values))
        width = 0.84 / max(1, len(bars))
        middle = (len(bars) - 1) / 2
        for i, (color, heights) in enumerate(bars):
            place = at + (i - middle) * width
            axis.bar(place, 100 * heights, width * 0.94, color=color, linewidth=0)
        _candidate_ticks(axis, score_range)
        axis.tick_params(axis="x", length=0)
        axis.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        sizes = sorted({len(part) for part in parts.values()})
        notes = ["n = " + " to ".join(dict.fromkeys((str(sizes[0]), str(sizes[-1]))))]
        notes += _settings(part, index, looks)
        style.label(axis, f"range {score_range}", " · ".join(notes), "score", "texts (%)")

    legend = []
    for series, mark in looks.items():
        label = style.series_label(series, titles, index.settings[series])
        legend.append((mark.color, label))
    if bias.spans(scale):
        legend.append((HUMANS, "humans"))
    note = bias.mapping_note(scale)
    if scale is not None:
        note = note.replace("the range", f"the range from their scale {scale[0]:g}-{scale[1]:g}")
    spare = len(discrete) - len(looks)
    caption = [
        f"Share of texts that get each score; {split} split{condition}. n: texts. {note}",
        f"{spare} further decodings are not drawn." if spare else "",
    ]
    counts = {len(score_range.values) for score_range, _ in ranges}
    return style.small_multiples(
        ranges,
        draw,
        f"Scores given, {dimension}",
        caption,
        legend,
        height=2.3,
        columns=1 if max(counts) > _WIDE else 2,
        # shares fall as scores get more numerous: heights compare between equally many
        share_y=len(counts) == 1,
    )


def _settings(part: pd.DataFrame, index: SeriesIndex, looks: Collection[Series]) -> list[str]:
    """Lambda and t of a range, where the legend cannot say them as ranges differ; of several, whose
    they are."""
    settings = {}
    names = ["judge", "decoding", "lambda", "temperature", *cells.CELL]
    for row in cells.distinct(part, names):
        series = index.of(row)
        text = cells.setting(row)
        known = series.setting or (series in looks and index.settings[series])
        if series in looks and text and not known:
            settings[series] = text
    several = len(settings) > 1
    return [f"{s.decoding} {text}" if several else text for s, text in settings.items()]


def _shown(rows: pd.DataFrame, dimension: str) -> tuple[pd.DataFrame, str, str]:
    """A dimension's rows of the reported split without attack and defense; the split; the condition
    for a caption."""
    rows = rows[rows["dimension"] == dimension]
    split = shown_split(rows["split"])
    rows, condition = cells.first_condition(rows[rows["split"] == split])
    return rows, split, f", {condition}" if condition else ""


def _candidate_ticks(axis: Axes, score_range: ScoreRange) -> None:
    count = len(score_range.values)
    every = -(-count // _MOST_TICKS)
    axis.set_xticks(np.arange(count)[::every], score_range.candidates[::every])
    axis.set_xlim(-0.6, count - 0.4)


_LEAST = float(np.log(np.finfo(np.float32).tiny))
"""The log-probability that stands for a probability of 0."""

_LOGPROBS = (
    "Mean log P(score as the next text), natural logarithm, over the whole vocabulary at t = 1. "
    "Whiskers: ±1 standard deviation over texts. n: texts."
)


@style.house_style()
def logprob_figure(results: Results, dimension: str) -> Figure | None:
    """Mean log-probability of each score as the next text, a line a model and a panel a range
    (after figure 3 of the contrastive-decoding paper); a band marks the score that the humans give
    most often. None where the readings hold no log-probabilities of scores (free generation, texts
    compared)."""
    # 1. the readings that are shown, and the models that they know
    readings = results.readings[results.readings["main_logprobs"].notna()]
    if results.compares or dimension not in set(readings["dimension"]):
        return None
    rows, split, condition = _shown(readings, dimension)
    models = [model for model in ("main", "assistant") if rows[f"{model}_logprobs"].notna().any()]
    marks = style.marks([Series(model, "greedy") for model in models]).values()
    looks = dict(zip(models, marks, strict=True))
    humans = bias.human_scores(_shown(results.scores, dimension)[0])
    scale = results.scale[dimension]

    # 2. a panel a range
    def draw(axis: Axes, panel: tuple[ScoreRange, pd.DataFrame]) -> None:
        score_range, part = panel
        at = np.arange(len(score_range.values))
        for model, look in looks.items():
            logprobs = np.array(part[f"{model}_logprobs"].dropna().tolist(), dtype=np.float64)
            drawn = np.maximum(logprobs, _LEAST)  # [texts, scores]
            style.line(axis, at, drawn.mean(axis=0), look)
            axis.errorbar(
                at,
                drawn.mean(axis=0),
                yerr=drawn.std(axis=0),
                color=look.color,
                fmt="none",
                capsize=2,
            )
        for most in bias.most_frequent(
            bias.shares(bias.to_range(humans, scale, score_range), score_range)
        ):
            axis.axvspan(most - 0.5, most + 0.5, color=_BAND, linewidth=0, zorder=0)
        _candidate_ticks(axis, score_range)
        style.label(axis, f"range {score_range}", f"n = {len(part)}", "score", "mean log P")

    # 3. the words
    titles = results.titles
    legend: list[Any] = [
        (look, f"{model} ({style.shorten(titles.get(model) or model)})")
        for model, look in looks.items()
    ]
    legend += [(_BAND, "humans' most frequent score")] if bias.spans(scale) else []
    caption = f"{_LOGPROBS} {split.capitalize()} split{condition}. {bias.mapping_note(scale)}"
    title = f"Log-probability of each score, {dimension}"
    return style.small_multiples(cells.ranges_of(rows), draw, title, caption, legend, height=2.45)


# --- range's share of variance ------------------------------------------------------------------


_PARTS = (
    ("texts_share", "texts: the same in every range", "#0072B2", "#fefefe"),
    ("range_interactions", "range x text: their order changes", "#E69F00", "#212121"),
    ("range_own", "range: all texts are moved", "#D55E00", "#fefefe"),
)  # Okabe and Ito's palette
_LEAST_WRITTEN = 0.06  # of a bar


@style.house_style()
def variance_figure(results: Results) -> Figure | None:
    """A stacked bar a series as given and calibrated, a panel a dimension; None without several
    ranges. The rows are those of the sentences."""
    rows = variance_frame(results)
    rows = reported_rows(rows[rows["texts_share"].notna()]) if len(rows) else rows
    if not len(rows):
        return None

    def draw(axis: Axes, part: pd.DataFrame) -> None:
        for place, row in enumerate(part.to_dict("records")):
            start = 0.0
            for name, _, color, ink in _PARTS:
                share = float(row[name])
                axis.barh(
                    place,
                    share,
                    left=start,
                    height=0.72,
                    color=color,
                    alpha=0.72 if row["calibrated"] else 1.0,
                )
                if share >= _LEAST_WRITTEN:
                    axis.text(
                        start + share / 2,
                        place,
                        points(share),
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=ink,
                    )
                start += share
        axis.set_yticks(range(len(part)), [style.shorten(name, 34) for name in part["who"]])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_color(style.MUTED)
        size = (
            f"{part['texts'].iloc[0]} {results.examples_word}, {part['ranges'].iloc[0]:.0f} ranges"
        )
        style.label(axis, part["condition"].iloc[0], size, grid="")

    parts = [part for _, part in rows.groupby("condition", sort=False)]
    caption = (
        "Share of the variance of scores in per cent, each a part of the way from the lowest to "
        "the highest score of its range: what is not blue is score range bias. Calibrated: each "
        f"range's scores mapped to the humans' scale by what other {results.groups} teach. "
        "Intervals stand in the table."
    )
    return style.small_multiples(
        parts,
        draw,
        "Score range bias as variance",
        caption,
        [(color, text) for _, text, color, _ in _PARTS],
        height=0.75 + 0.26 * max(map(len, parts)),
        share_y=False,
    )


# --- rankings -----------------------------------------------------------------------------------


_MOST_DRAWN = 60


def pairwise_figures(results: Results) -> dict[str, Figure]:
    """`ranking_<dimension>`, of clean texts without a defense where there are such."""
    leads = [record for record in ranking_records(results) if record["lead"]]
    figures: dict[str, Figure] = {}
    for dimension in dict.fromkeys(record["dimension"] for record in leads):
        blocks = [record for record in leads if record["dimension"] == dimension]
        shown = next(
            (block["condition"] for block in blocks if block["attack"] == CLEAN),
            blocks[0]["condition"],
        )
        blocks = [
            block
            for block in blocks
            if block["condition"] == shown and 1 < len(block["ranking"]) <= _MOST_DRAWN
        ]
        if blocks and any(system["elo"] is not None for system in blocks[0]["ranking"]):
            figures[f"ranking_{style.file_name(dimension)}"] = ranking_figure(
                blocks, results.titles
            )
    return figures


@style.house_style()
def ranking_figure(blocks: Records, titles: Titles) -> Figure:
    """Elo with its interval, a row a system, judges (a block each) on the left and humans on the
    right; the first block's strongest on top."""
    order = [system["system"] for system in blocks[0]["ranking"]]
    looks = style.marks([block["series_id"] for block in blocks])
    # a lane is one who ranks: its name, its look, the record, and the beginning of the record's
    # columns
    judges = [
        (style.series_label(block["series_id"], titles), looks[block["series_id"]], block, "")
        for block in blocks
    ]
    humans = [("humans", Mark(HUMANS, "s", "-"), blocks[0], "human_")]
    sides = [("judge", judges), ("humans", humans)]
    if all(system["human_elo"] is None for system in blocks[0]["ranking"]):
        sides = sides[:1]

    def draw(axis: Axes, side: tuple[str, list[Any]]) -> None:
        name, lanes = side
        axis.axvline(ELO_MEAN, color=MUTED, linewidth=0.8, zorder=1)
        for number, (_, look, block, start) in enumerate(lanes):
            shift = 0.5 * (number - (len(lanes) - 1) / 2) / max(1, len(lanes) - 1)
            systems = {system["system"]: system for system in block["ranking"]}
            for row, system in enumerate(order):
                value, low, high = (
                    systems[system][f"{start}elo{end}"] for end in ("", "_low", "_high")
                )
                if value is None:
                    continue
                at = [row + shift]
                if low is not None and high is not None:
                    axis.plot([low, high], at * 2, color=look.color, linewidth=1.6, zorder=2)
                axis.plot([value], at, look.marker, color=look.color, markersize=5, zorder=3)
        names = [style.shorten(system, 28) if name == "judge" else "" for system in order]
        axis.set_yticks(range(len(order)), names)
        axis.set_ylim(len(order) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        for line in range(1, len(order)):
            axis.axhline(line - 0.5, color="#e2e2e2", linewidth=0.6, zorder=0)
        style.label(axis, name, x="Elo", grid="x")

    lanes = [lane for _, side in sides for lane in side]
    bounded = any(
        system[f"{start}elo_low"] is not None
        for _, _, block, start in lanes
        for system in block["ranking"]
    )
    caption = say(
        "caption_ranking",
        size=blocks[0]["size"],
        bounded=bounded,
        groups=titles.get("groups") or "articles",
        notes=blocks[0]["notes"],
    )
    return style.small_multiples(
        sides,
        draw,
        f"Systems ranked: {blocks[0]['condition']}",
        caption,
        [(Mark(look.color, look.marker), name) for name, look, _, _ in lanes],
        height=0.7 + 0.2 * max(1.2, len(judges)) * len(order),
        share_y=False,
    )
