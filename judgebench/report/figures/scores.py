"""Figures of scores, log-probabilities of candidates, and agreement with the humans by range.

Further figures show score range bias as variance, distributions over scores as forecasts (reliability, and the error of
texts that are kept), and systems ranked by comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from judgebench.report.figures import style
from judgebench.report.figures.style import HUMANS, MOST_SERIES, MUTED, Mark
from judgebench.report.formats import points
from judgebench.report.table import few_groups, records
from judgebench.report.table import records as table_records
from judgebench.report.views import bias
from judgebench.report.views.bias import reported_rows, variance_frame
from judgebench.report.views.correlations import at_level, level_note, size_of
from judgebench.report.views.forecasts import forecast_frame
from judgebench.report.views.pairwise import ranking_records
from judgebench.results import results as cells
from judgebench.results.results import Results, Series, SeriesIndex, first_condition, ranges_of
from judgebench.stats.bradley_terry import ELO_MEAN
from judgebench.stats.clusters import FEWEST
from judgebench.stats.correlation import shown_level
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.scores import CLEAN, shown_split
from judgebench.types import ScoreRange

_BAND = "#e9e9e9"
_MOST_TICKS = 21
_WIDE, _WIDE_LOGPROBS = 11, 21
"""Candidates from which on a panel takes a row of its own: of grouped bars, and of lines."""


@style.house_style()
def score_figure(scores: pd.DataFrame, dimension: str, scale: bias.Scale, titles: Mapping[str, str | None]) -> Figure:
    """Share of texts per score: grouped bars for each judge with discrete scores, and for the humans; of the reported
    split, without attack and defense where there are such. Decodings whose scores mostly fall between the range's
    (expectation) are not drawn."""
    rows, split, condition = _shown(scores, dimension)
    index = SeriesIndex.from_frame(rows)
    discrete = [series for series, part in index.parts(rows).items() if bias.is_discrete(part)]
    looks = style.marks(discrete)
    ranges = cells.ranges_of(rows)

    def draw(axis: Axes, panel: tuple[ScoreRange, pd.DataFrame]) -> None:
        score_range, part = panel
        parts = index.parts(part)
        bars = [(looks[series].color, bias.shares(parts[series]["score"], score_range))
                for series in looks if series in parts]  # fmt: skip
        if bias.spans(scale):
            humans = bias.to_range(bias.human_scores(part), scale, score_range)
            bars.append((HUMANS, bias.shares(humans, score_range)))
        at = np.arange(len(score_range.values))
        width = 0.84 / max(1, len(bars))
        for i, (color, heights) in enumerate(bars):
            axis.bar(at + (i - (len(bars) - 1) / 2) * width, 100 * heights, width * 0.94, color=color, linewidth=0)
        _candidate_ticks(axis, score_range)
        axis.tick_params(axis="x", length=0)
        axis.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        # lambda and t of this range, where the legend cannot say them as ranges differ; of several, whose they are
        settings = {
            series: cells.setting(row)
            for row in cells.distinct(part, ["judge", "decoding", "lambda", "temperature", *cells.CELL])
            if (series := index.of(row)) in looks
            and not series.setting
            and not index.settings[series]
            and cells.setting(row)
        }
        texts = [f"{series.decoding} {text}" if len(settings) > 1 else text for series, text in settings.items()]
        sizes = sorted({len(part) for part in parts.values()})
        size = " to ".join(dict.fromkeys((str(sizes[0]), str(sizes[-1]))))
        style.label(axis, f"range {score_range}", " · ".join([f"n = {size}", *texts]), "score", "texts (%)")

    legend = [
        (mark.color, style.series_label(series, titles, index.settings[series])) for series, mark in looks.items()
    ]
    legend += [(HUMANS, "humans")] if bias.spans(scale) else []
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
        ranges, draw, f"Scores given, {dimension}", caption, legend,
        height=2.3, columns=1 if max(counts) > _WIDE else 2,
        share_y=len(counts) == 1,  # shares fall as scores get more numerous: heights compare between equally many
    )  # fmt: skip


def _shown(rows: pd.DataFrame, dimension: str) -> tuple[pd.DataFrame, str, str]:
    """A dimension's rows of the reported split without attack and defense; the split; the condition for a caption."""
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


@style.house_style()
def logprob_figure(
    readings: pd.DataFrame, scores: pd.DataFrame, dimension: str, scale: bias.Scale, titles: Mapping[str, str | None]
) -> Figure | None:
    """Mean log-probability of each candidate score, +-1 standard deviation over texts, a panel a range; a band marks
    the score that the humans give most often, where they can be mapped (see `to_range`). None where the readings of
    this dimension hold no log-probabilities (free generation)."""
    rows, split, condition = _shown(readings, dimension)
    rows = rows[rows["main_logprobs"].notna()]
    if rows.empty:
        return None
    judges = [judge for judge in ("main", "assistant") if rows[f"{judge}_logprobs"].notna().any()]
    looks = dict(zip(judges, style.marks([Series(judge, "greedy") for judge in judges]).values(), strict=True))
    humans = scores[(scores["dimension"] == dimension) & (scores["split"] == split)]
    ranges = cells.ranges_of(rows)

    def stack(part: pd.DataFrame, judge: str) -> np.ndarray:
        """[texts, candidates] log-probabilities; -inf where a probability is 0."""
        return np.array(part[f"{judge}_logprobs"].dropna().tolist(), dtype=np.float64)

    def draw(axis: Axes, panel: tuple[ScoreRange, pd.DataFrame]) -> None:
        score_range, part = panel
        at = np.arange(len(score_range.values))
        masses = []
        for i, (judge, look) in enumerate(looks.items()):
            values = stack(part, judge)
            drawable = np.maximum(values, _LEAST)
            axis.errorbar(
                at + 0.16 * (i - (len(looks) - 1) / 2), np.mean(drawable, axis=0), yerr=np.std(drawable, axis=0),
                color=look.color, marker=look.marker, linestyle=look.line, markersize=4.5, linewidth=1.1,
                elinewidth=1.1, capsize=2,
            )  # fmt: skip
            mass = 100 * float(np.mean(np.exp(values).sum(axis=1)))
            masses.append(f"{judge} {mass:.0f} %" if mass >= 10 else f"{judge} {mass:.2g} %")
        _candidate_ticks(axis, score_range)
        together = f"score (together: {', '.join(masses)})"
        style.label(axis, f"range {score_range}", f"n = {len(part)}", together, "mean log P")
        # the humans' most frequent score
        mapped = bias.to_range(bias.human_scores(humans), scale, score_range)
        for most in bias.most_frequent(bias.shares(mapped, score_range)):
            axis.axvspan(most - 0.5, most + 0.5, color=_BAND, linewidth=0, zorder=0)

    legend: list[Any] = [
        (look, f"{judge} ({style.shorten(titles.get(judge) or judge)})") for judge, look in looks.items()
    ]
    legend += [(_BAND, "humans' most frequent score")] if bias.spans(scale) else []
    caption = (
        f"Mean log P(score as the next text), natural logarithm, over the whole vocabulary at t = 1; {split} "
        f"split{condition}. Whiskers: ±1 standard deviation over texts (spread, not error of the mean). Together: the "
        "probability that all scores of the range hold, mean over texts. "
        f"n: texts. {bias.mapping_note(scale)}"
    )
    # range by range: ranges have different numbers of candidates
    if any(np.isneginf(stack(part, judge)).any() for _, part in ranges for judge in judges):
        caption += f" Probabilities of 0 are drawn as {np.exp(_LEAST):.0e}."
    wide = max(len(score_range.values) for score_range, _ in ranges) > _WIDE_LOGPROBS
    title = f"Log-probability of each score, {dimension}"
    return style.small_multiples(ranges, draw, title, caption, legend, height=2.45, columns=1 if wide else 2)


@style.house_style()
def correlation_figure(
    records: Sequence[Mapping[str, Any]],
    titles: Mapping[str, str | None],
    humans: Mapping[str, Mapping[str, Any]] | None = None,
    correlation: str = "spearman",
) -> Figure | None:
    """A correlation per range with its 95 % interval, a line a series, a panel a dimension (and attack and defense), of
    the reported split and level; None without records. A flat line is a judge without range bias. `humans` is dimension
    -> its record of humans.json: the ceiling is drawn with Spearman at dataset level."""
    split = shown_split(record["split"] for record in records)
    level = shown_level(record["level"] for record in records if record["split"] == split)
    rows = cells.labelled(record for record in records if (record["split"], record["level"]) == (split, level))
    if not len(rows):
        return None
    plain = table_records(rows)
    index = SeriesIndex(plain)
    rows["series_id"] = pd.Series([index.of(row) for row in plain], dtype=object)
    rows["undefined"] = [bool({CONSTANT, CONSTANT_HUMANS} & set(flags or ())) for flags in rows["flags"]]
    looks, groups = style.marks(index.all), titles.get("groups") or "articles"
    ceilings = humans if humans and (correlation, level) == ("spearman", "dataset") else {}
    ceilings = {name: ceilings[name] for name in dict.fromkeys(rows["dimension"]) if name in ceilings}

    def draw(axis: Axes, part: pd.DataFrame) -> None:
        _correlation_lines(axis, part, looks, correlation)
        if ceiling := ceilings.get(part["dimension"].iloc[0]):
            axis.axhline(ceiling["ceiling"], color=MUTED, linestyle="--", linewidth=1.2, zorder=1)
            if ceiling["ceiling_low"] is not None and ceiling["ceiling_high"] is not None:
                axis.axhspan(ceiling["ceiling_low"], ceiling["ceiling_high"], color=_BAND, linewidth=0, zorder=0)
        title = at_level(part["condition"].iloc[0], part["level"].iloc[0])
        style.label(axis, title, size_of(part, groups, "texts"), "score range", correlation.capitalize())

    legend: list[Any] = [
        (mark, style.series_label(series, titles, index.settings[series])) for series, mark in looks.items()
    ]
    spare = len(index.all) - len(looks)
    bounded = rows[f"{correlation}_low"].notna().any()
    sentences = [
        f"{correlation.capitalize()} correlation with the humans {level_note(level, groups)}, {split} split.",
        f"Bars: 95 % interval, {groups} resampled." if bounded else "",
        "The more a line moves, the more the judge depends on the range it is given.",
        few_groups(groups) if bounded and rows["groups"].min() < FEWEST else "",
        "Hollow: judge or humans give every text the same score; the correlation is undefined and shown as 0."
        if rows["undefined"].any() else "",
        "Dashed, with its 95 % interval: how one rater agrees with the mean of the others; judges meet the mean of all "
        "raters, which is easier to agree with." if ceilings else "",
        f"{spare} further decodings are not drawn." if spare else "",
    ]  # fmt: skip
    if ceilings:
        legend.append((Line2D([], [], color=MUTED, linestyle="--"), "one human rater with the mean of the others"))
    parts = [part for _, part in rows.groupby("condition", sort=False)]
    title = f"{correlation.capitalize()} correlation by score range"
    return style.small_multiples(parts, draw, title, sentences, legend, height=2.7)


def _correlation_lines(axis: Axes, rows: pd.DataFrame, looks: Mapping[Series, style.Mark], correlation: str) -> None:
    axis.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    step = min(0.1, 0.5 / max(1, len(looks)))
    ranges = list(dict.fromkeys(rows["range"]))
    for number, (series, mark) in enumerate(looks.items()):
        part = rows[(rows["series_id"] == series) & rows[correlation].notna()]
        at = [ranges.index(name) + step * (number - (len(looks) - 1) / 2) for name in part["range"]]
        values = part[correlation].astype(float).to_numpy()
        low, high = (part[f"{correlation}{end}"].astype(float).fillna(part[correlation]) for end in ("_low", "_high"))
        axis.plot(at, values, color=mark.color, linestyle=mark.line, linewidth=1.2, zorder=2)
        style.whiskers(axis, at, values, low, high, mark.color, 1.2, 2.5)
        for x, y, hollow in zip(at, values, part["undefined"], strict=True):
            face = "white" if hollow else mark.color
            axis.plot([x], [y], mark.marker, color=mark.color, markerfacecolor=face, markersize=5, zorder=3)
    axis.set_xticks(range(len(ranges)), ranges)
    axis.set_xlim(-0.5, len(ranges) - 0.5)


# --- range's share of variance ---------------------------------------------------------------------------------------


_PARTS = (
    ("texts_share", "texts: the same in every range", "#0072B2", "#fefefe"),
    ("range_interactions", "range x text: their order changes", "#E69F00", "#212121"),
    ("range_own", "range: all texts are moved", "#D55E00", "#fefefe"),
)  # Okabe and Ito's palette
_LEAST_WRITTEN = 0.06  # of a bar


@style.house_style()
def variance_figure(results: Results) -> Figure | None:
    """A stacked bar a series as given and calibrated, a panel a dimension; None without several ranges. The rows are
    those of the sentences."""
    rows = variance_frame(results)
    rows = reported_rows(rows[rows["texts_share"].notna()]) if len(rows) else rows
    if not len(rows):
        return None

    def draw(axis: Axes, part: pd.DataFrame) -> None:
        for place, row in enumerate(part.to_dict("records")):
            start = 0.0
            for name, _, color, ink in _PARTS:
                share = float(row[name])
                axis.barh(place, share, left=start, height=0.72, color=color, alpha=0.72 if row["calibrated"] else 1.0)
                if share >= _LEAST_WRITTEN:
                    axis.text(start + share / 2, place, points(share), ha="center", va="center", fontsize=7, color=ink)
                start += share
        axis.set_yticks(range(len(part)), [style.shorten(name, 34) for name in part["who"]])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_color(style.MUTED)
        size = f"{part['texts'].iloc[0]} {results.examples_word}, {part['ranges'].iloc[0]:.0f} ranges"
        style.label(axis, part["condition"].iloc[0], size, grid="")

    parts = [part for _, part in rows.groupby("condition", sort=False)]
    caption = (
        "Share of the variance of scores in per cent, each a part of the way from the lowest to the highest score "
        "of its range: what is not blue is score range bias. Calibrated: each range's scores mapped to the humans' "
        f"scale by what other {results.groups} teach. Intervals stand in the table."
    )
    legend = [(color, text) for _, text, color, _ in _PARTS]
    height = 0.75 + 0.26 * max(map(len, parts))
    title = "Score range bias as variance"
    return style.small_multiples(parts, draw, title, caption, legend, height=height, share_y=False)


# --- probabilities as forecasts --------------------------------------------------------------------------------------


Drawing = Sequence[tuple[Mark, Mapping[str, Any]]]
"""A look, and the record that is drawn in it."""

_LARGEST, _SMALLEST = 11.0, 2.5  # sizes of points, in points

_RELIABILITY = (
    "Each point: texts whose likeliest score has about this probability, and how often raters gave that score; larger "
    "points hold more texts. On the dashed line probabilities are true; below it the judge is overconfident."
)
_ABSTENTION = (
    "Texts are kept from those on which the judge is surest (least standard deviation of its probabilities). Error: "
    "mean distance of its expected score, mapped to the humans' scale, from the humans' mean. A curve that falls to "
    "the left: the judge knows where it errs, and a person should get the others."
)


def forecast_figures(results: Results) -> dict[str, Figure]:
    """`reliability_<dimension>` and `abstention_<dimension>`, a panel a range, as far as forecasts.json has them; of
    clean texts without a defense where there are such."""
    frame = forecast_frame(results)
    figures: dict[str, Figure] = {}
    for dimension, part in frame.groupby("dimension", sort=False) if len(frame) else ():
        clean, condition = first_condition(part)
        for kind, column, draw, title, caption, bars in (
            ("reliability", "diagram", _reliability, "Confidence and what came true", _RELIABILITY, "Bars"),
            ("abstention", "curve", _abstention, "Error where a person gets the unsure texts", _ABSTENTION, "Bands"),
        ):
            rows = clean[[isinstance(cell, list) and len(cell) > 0 for cell in clean.get(column, [None] * len(clean))]]
            if len(rows):
                text = f"{caption} {results.split.capitalize()} split{', ' + condition if condition else ''}."
                text += f" {bars}: 95 % interval, {results.groups} resampled." if rows["groups"].min() > 1 else ""
                name = f"{kind}_{style.file_name(str(dimension))}"
                figures[name] = _by_range(results, rows, draw, f"{title}, {dimension}", text)
    return figures


@style.house_style()
def _by_range(
    results: Results, rows: pd.DataFrame, draw: Callable[[Axes, Drawing], None], title: str, caption: str
) -> Figure:
    # the look of a distribution is that of its model's plain series
    several = {name for name, part in rows.groupby("judge") if part.groupby("range").size().max() > 1}
    drawn = [
        (Series(row["judge"], "contrastive" if row["judge"] == "pair" else "greedy",
                row["setting"] if row["judge"] in several else ""), row)
        for row in records(rows)
    ]  # fmt: skip
    looks = style.marks(list(dict.fromkeys(series for series, _ in drawn)))

    def panel(axis: Axes, part: tuple[ScoreRange, pd.DataFrame]) -> None:
        name = str(part[0])
        pairs = [(looks[series], row) for series, row in drawn if row["range"] == name and series in looks]
        draw(axis, pairs)
        size = f"n = {max(row['texts'] for _, row in pairs)}" if pairs else ""
        style.label(axis, f"range {name}", size, axis.get_xlabel(), axis.get_ylabel())

    left = len({series for series, _ in drawn}) - MOST_SERIES
    caption += f" {left} further distributions are not drawn." if left > 0 else ""
    legend = []
    for series, look in looks.items():
        name, model = ", ".join(filter(None, (series.judge, series.setting))), results.titles.get(series.judge)
        legend.append((look, f"{name} ({style.shorten(model)})" if model else name))
    return style.small_multiples(ranges_of(rows), panel, title, caption, legend, height=2.6)


def _reliability(axis: Axes, drawn: Drawing) -> None:
    axis.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1, zorder=1)
    for mark, row in drawn:
        bins = pd.DataFrame(row["diagram"]).astype(float)
        x, y, low, high = (bins[name].to_numpy() for name in ("forecast", "observed", "observed_low", "observed_high"))
        axis.plot(x, y, color=mark.color, linestyle=mark.line, linewidth=1.1, zorder=2)
        if not np.isnan(low).any():
            style.whiskers(axis, x, y, low, high, mark.color, 0.9, 1.5)
        sizes = _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(bins["share"].to_numpy())
        axis.scatter(x, y, s=sizes**2, color=mark.color, marker=mark.marker, linewidths=0, zorder=3, clip_on=False)
    axis.set(xlim=(0, 1), ylim=(-0.03, 1.04), xlabel="probability of the likeliest score", ylabel="share of raters")


def _abstention(axis: Axes, drawn: Drawing) -> None:
    for mark, row in drawn:
        curve = pd.DataFrame(row["curve"]).astype(float)
        style.line(axis, 100 * curve["kept"], curve["risk"], mark, curve["risk_low"], curve["risk_high"], markersize=4)
    axis.set(xlim=(0, 102), xlabel="texts kept (%)", ylabel="mean error (points)")
    axis.set_ylim(bottom=0)


# --- rankings --------------------------------------------------------------------------------------------------------


_COLORS = "PuOr_r"  # color-blind readers tell its ends apart
_MOST_WRITTEN = 16
_MOST_DRAWN = 60


def pairwise_figures(results: Results) -> dict[tuple[str, str], Figure]:
    """(`ranking` or `wins`, dimension) -> figure, of clean texts without a defense where there are such."""
    leads = [record for record in ranking_records(results) if record["lead"]]
    figures: dict[tuple[str, str], Figure] = {}
    for dimension in dict.fromkeys(str(record["dimension"]) for record in leads):
        blocks = [record for record in leads if record["dimension"] == dimension]
        shown = next((block["condition"] for block in blocks if block["attack"] == CLEAN), blocks[0]["condition"])
        blocks = [block for block in blocks if block["condition"] == shown and 1 < len(block["ranking"]) <= _MOST_DRAWN]
        if not blocks:
            continue
        if any(system["elo"] is not None for system in blocks[0]["ranking"]):
            figures["ranking", dimension] = ranking_figure(blocks, results.titles)
        figures["wins", dimension] = wins_figure(blocks, results.titles)
    return figures


@style.house_style()
def ranking_figure(blocks: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None]) -> Figure:
    """Elo with its interval, a row a system, judges (a block each) on the left and humans on the right; the first
    block's strongest on top."""
    order = [system["system"] for system in blocks[0]["ranking"]]
    looks = style.marks([block["series_id"] for block in blocks])
    # a lane is one who ranks: its name, its look, the record, and the beginning of the record's columns
    judges = [
        (style.series_label(block["series_id"], titles), looks[block["series_id"]], block, "") for block in blocks
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
                value, low, high = (systems[system][f"{start}elo{end}"] for end in ("", "_low", "_high"))
                if value is None:
                    continue
                if low is not None and high is not None:
                    axis.plot([low, high], [row + shift] * 2, color=look.color, linewidth=1.6, zorder=2)
                axis.plot([value], [row + shift], look.marker, color=look.color, markersize=5, zorder=3)
        names = [style.shorten(system, 28) for system in order] if name == "judge" else [""] * len(order)
        axis.set_yticks(range(len(order)), names)
        axis.set_ylim(len(order) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        for line in range(1, len(order)):
            axis.axhline(line - 0.5, color="#e2e2e2", linewidth=0.6, zorder=0)
        style.label(axis, name, x="Elo", grid="x")

    lanes = [lane for _, side in sides for lane in side]
    bounded = any(system[f"{start}elo_low"] is not None for _, _, block, start in lanes for system in block["ranking"])
    caption = [
        f"Strengths on the Elo scale from {blocks[0]['size']}: 400 points are odds of 10 to 1.",
        f"Bars: 95 % interval, {titles.get('groups') or 'articles'} resampled." if bounded else "",
        "Each side has a scale of its own: a judge that is sure of little stays near the mean.",
        "The humans' strengths follow from the same pairs.",
        *blocks[0]["notes"],
    ]
    legend = [(style.point(look.color, look.marker, 6), name) for name, look, _, _ in lanes]
    height = 0.7 + 0.2 * max(1.2, len(judges)) * len(order)
    title = f"Systems ranked: {blocks[0]['condition']}"
    return style.small_multiples(sides, draw, title, caption, legend, height=height, share_y=False)


@style.house_style()
def wins_figure(blocks: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None]) -> Figure:
    """Share of wins of the row's system against the column's, ties half: a panel a judge, and one for the humans."""
    order = [system["system"] for system in blocks[0]["ranking"]]
    maps = [(style.series_label(block["series_id"], {}), shares_of(block, order, 0)) for block in blocks]
    maps.append(("humans", shares_of(blocks[0], order, 1)))
    maps = [(name, values) for name, values in maps if np.isfinite(values).any()]
    names = [style.shorten(name, 18) for name in order]

    def draw(axis: Axes, panel: tuple[int, tuple[str, np.ndarray]]) -> None:
        place, (name, values) = panel
        form = points if len(order) <= _MOST_WRITTEN else None
        style.heat_map(axis, values, Normalize(0, 1), _COLORS, form, 6.5)
        axis.set_yticks(range(len(order)), names if place % 2 == 0 else [""] * len(order))
        axis.set_xticks(range(len(order)), names, rotation=60, horizontalalignment="right", rotation_mode="anchor")
        style.label(axis, name, grid="")

    caption = (
        f"Share of comparisons that the row's system wins against the column's, in per cent, ties half; from "
        f"{blocks[0]['size']}. Systems in the judge's order, the strongest first: "
        "where judge and model agree, what lies above the diagonal is above 50."
    )
    title, height = f"Who wins against whom: {blocks[0]['condition']}", 1.0 + 0.24 * len(order)
    return style.small_multiples(list(enumerate(maps)), draw, title, caption, height=height, share_y=False)


def shares_of(block: Mapping[str, Any], order: Sequence[str], side: int) -> np.ndarray:
    """[K, K] win shares of the row's system after the judge (0) or the humans (1); NaN where two did not meet."""
    number = {name: i for i, name in enumerate(order)}
    values = np.full((len(order), len(order)), np.nan)
    for met in block["system_pairs"]:
        share = met["human_win_share" if side else "win_share"]
        if share is not None:
            first, second = number[met["first"]], number[met["second"]]
            values[first, second], values[second, first] = share, 1 - share
    return values
