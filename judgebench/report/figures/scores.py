"""Figures of scores, log-probabilities of candidates, and agreement with the humans by range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from judgebench.report.figures import style
from judgebench.report.figures.style import HUMANS, MUTED
from judgebench.report.table import few_groups
from judgebench.report.table import records as table_records
from judgebench.report.views import bias
from judgebench.report.views.correlations import at_level, level_note, size_of
from judgebench.results import series as cells
from judgebench.results.series import Series, SeriesIndex
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.levels import shown_level
from judgebench.stats.scores import shown_split
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
