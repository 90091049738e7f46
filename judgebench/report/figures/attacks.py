"""Figures of attacks: scores by the words of a learned phrase, absolute against comparative
assessment."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from judgebench.report.figures import style
from judgebench.report.figures.style import INK, MUTED, shorten
from judgebench.report.views.defenses import FREE_TEXT_NOTE
from judgebench.report.views.phrases import PHRASE, drawn_rows, phrase_frame, silent_note
from judgebench.results.results import NO_DEFENSE, Results, Series, Titles, number, range_of
from judgebench.stats.correlation import shown_level
from judgebench.studies.scores import CLEAN, shown_split
from judgebench.types import LABELS, RANGE, Key, Record, Records, Row, Rows
from judgebench.words.formats import say

_MOST_PANELS = 8
_FLAT = (0, (1, 2))
"""The line of clean scores."""


def phrase_figures(results: Results) -> dict[str, Figure | None]:
    """`suffix_<attack>_<dimension>`, and the range where there are several -> mean score by words
    of a learned phrase (after figures 6 and 7 of the CAP paper); None where no judge's scores
    move."""
    rows = phrase_frame(results)
    figures: dict[str, Figure | None] = {}
    if not len(rows):
        return figures
    for _, part in rows.groupby(PHRASE[:2], sort=False):
        ranges = [of_range for _, of_range in part.groupby(PHRASE[2], sort=False)]
        keys = PHRASE if len(ranges) > 1 else PHRASE[:2]
        for of_range in ranges:
            words = [style.file_name(str(of_range[key].iloc[0])) for key in keys]
            name = "_".join(["suffix", *words])
            figures[name] = phrase_figure(of_range, results.titles)
    return figures


@style.house_style()
def phrase_figure(rows: pd.DataFrame, titles: Titles) -> Figure | None:
    """A line a judge and decoding, with its clean mean as a flat line and 95 % bands; a panel a
    kind of texts, those that the phrase never saw first. Where a run has several defenses, these
    are the lines, and each judge and decoding has panels of its own; of many of these, only the
    texts that the phrase never saw are shown. The rows are of one phrase of `phrase_frame`; None
    where no score moves."""
    moving = drawn_rows(rows)
    if not len(moving):
        return None
    groups = titles.get("groups") or "articles"
    by_defense = moving["shown_defense"].nunique() > 1
    judges = _series(moving, "base")
    series = _series(moving, "series")
    parts = [part for _, part in moving.groupby(["split", "contexts", "systems"], sort=False)]
    if by_defense:
        column = "shown_defense"
        names = sorted(dict.fromkeys(moving[column]), key=lambda name: name != NO_DEFENSE)
        looks = style.defense_marks(names)
        if len(judges) * len(parts) > _MOST_PANELS:
            parts = parts[:1]
        of_judges = [part[part["base"] == base] for base in judges for part in parts]
        parts = [part for part in of_judges if len(part)]
    else:
        column = "series"
        names = list(series)
        looks = {str(key): look for key, look in style.marks(list(series.values())).items()}

    def draw(axis: Axes, part: pd.DataFrame) -> None:
        most = int(part["words"].iloc[0])
        for name, look in looks.items():
            _draw_means(axis, part[part[column] == name], look)
        axis.set_xticks(range(most + 1))
        axis.set_xlim(-0.2, most + 0.2)
        head = part.iloc[0]
        lines = [head["panel"]]
        if by_defense and len(judges) > 1:
            lines.append(shorten(style.series_label(judges[head["base"]], titles), 52))
        texts = f"n = {head['texts']} of {head['sources']} {groups}"
        size = f"words appended; {head['split']} split, {texts}"
        style.label(axis, "\n".join(filter(None, lines)), x=size, y="mean score")

    labels = {name: style.series_label(key, titles) for name, key in series.items()}
    labels[NO_DEFENSE] = "no defense"
    legend: list[Any] = [(look, labels.get(name, name)) for name, look in looks.items()]
    legend.append((style.Mark(MUTED, "", _FLAT), "clean, without the phrase"))
    alone = by_defense and len(judges) == 1
    in_words = (moving["shown_defense"] != moving["defense"]).any()
    caption = say(
        "caption_phrase",
        judge=style.series_label(next(iter(judges.values())), titles) if alone else "",
        objective=rows["objective"].iloc[0],
        phrase=shorten(str(rows["whole"].iloc[0]), 160),
        bounded=moving["mean_score_low"].notna().any(),
        groups=groups,
        silent=silent_note(rows),
        note=FREE_TEXT_NOTE if in_words else "",
        spare=len(names) - len(looks),
        kind="defenses" if by_defense else "decodings",
    )
    suffix, dimension, score_range = [str(rows[name].iloc[0]) for name in PHRASE]
    title = f"Mean score by words of {shorten(suffix, 30)}: {shorten(dimension, 24)}, {score_range}"
    return style.small_multiples(parts, draw, title, caption, legend, height=2.6)


def _draw_means(axis: Axes, rows: pd.DataFrame, look: style.Mark) -> None:
    """Mean scores by words with their band, and the clean mean as a flat line."""
    means = rows[rows["mean_score"].notna()]
    x = means["length"]
    y = means["mean_score"]
    style.line(
        axis,
        x,
        y,
        look,
        means["mean_score_low"],
        means["mean_score_high"],
        linewidth=1.3,
        zorder=3,
    )
    for clean in y[x == 0]:
        axis.axhline(clean, color=look.color, linestyle=_FLAT, linewidth=1.2, zorder=2)


def _series(rows: pd.DataFrame, name: str) -> dict[str, Series]:
    """Name -> the series behind a column of their names, in order of appearance."""
    distinct = rows.drop_duplicates(name)
    columns = (distinct[column] for column in ("judge", "decoding", "who", name))
    return {
        text: Series(judge, decoding, text[len(who) + 2 :])
        for judge, decoding, who, text in zip(*columns, strict=True)
    }


# --- absolute against comparative assessment ----------------------------------------------------

# Okabe and Ito's palette
_CLEAN = "#56B4E9"
_ATTACKED = "#D55E00"
_INCREASE = "#009E73"
_WIDTH = 0.26
_HALF = 0.36
_MOST_BARS = 10
_SETTING = ("dimension", *RANGE[:2], LABELS, "decoding", "lambda", "temperature")


def is_win_probability(record: Row) -> bool:
    """True where scores are probabilities of winning: they lie between 0 and 1."""
    ends = (float(record["range_min"]), float(record["range_max"]))
    return ends == (0.0, 1.0) and not record.get(LABELS)


@style.house_style()
def assessment_figure(
    absolute: Records,
    comparative: Records,
    titles: Titles,
) -> Figure | None:
    """Clean, attacked and increase of mean scores in the middle, of mean probabilities of winning
    on the left; on the right both increases as shares of their scales, which alone compare (after
    figure 2 of the CAP paper).

    `absolute` and `comparative` are records of metrics.json, of one run or of several (several data
    sets), see `is_win_probability`; of the main model's decodings the first by expectation counts,
    else its first. None unless both hold an attack.
    """
    sides = [_attacked(records) for records in (comparative, absolute)]
    if not all(sides):
        return None
    parts = (
        ("clean_mean_score", _CLEAN, "clean"),
        ("attacked_mean_score", _ATTACKED, "attacked"),
        ("change", _INCREASE, "increase (right: comparative)"),
    )
    comparative_bars: list[Any] = []
    absolute_bars: list[Any] = []
    for bars, side in ((comparative_bars, sides[0]), (absolute_bars, sides[1])):
        for shift, (column, color, _) in enumerate(parts, -1):
            bars.append((side, column, shift * _WIDTH, _WIDTH, color, None))
    shares = [
        (sides[0], "share", -0.5 * _HALF, _HALF, _INCREASE, None),
        (sides[1], "share", 0.5 * _HALF, _HALF, _INCREASE, "////"),
    ]
    panels = [
        ("comparative", "probability of winning", comparative_bars),
        ("absolute", "mean score", absolute_bars),
        ("increase compared", "increase, % of the scale", shares),
    ]
    legend: list[Any] = [(color, name) for _, color, name in parts]
    legend.append((Patch(facecolor=_INCREASE, hatch="////", edgecolor="white"), "right: absolute"))
    records = [record for side in sides for record in side]
    labels = {record["label"] for record in records}
    draw = partial(_draw_bars, turned=len(labels) > 2)
    caption = say(
        "caption_assessment",
        ranges=dict.fromkeys(str(range_of(record)) for record in sides[1]),
        bounded=any(number(record.get("change_low")) is not None for record in records),
        groups=titles.get("groups") or "articles",
    )
    title = f"Attacks on comparative and absolute assessment, {titles.get('main') or 'main'}"
    return style.small_multiples(
        panels, draw, title, caption, legend, height=3.0, columns=3, share_y=False
    )


def _draw_bars(axis: Axes, panel: tuple[str, str, Sequence[Key]], turned: bool) -> None:
    """A panel: its title, the name of its y axis, and groups of bars (records, their column, their
    shift from the tick, width, color and hatch). `turned` turns the names of attacks."""
    title, name, groups = panel
    ticks = list(dict.fromkeys(record["label"] for records, *_ in groups for record in records))
    for records, column, shift, width, color, hatch in groups:
        for record in records:
            x = ticks.index(record["label"]) + shift
            y = float(record[column])
            axis.bar(
                x,
                y,
                width * 0.94,
                color=color,
                hatch=hatch,
                edgecolor="white",
                linewidth=0,
            )
            if (bars := style.record_bars(record, column)) is not None:
                axis.errorbar(
                    x, y, yerr=bars, color=INK, linestyle="none", elinewidth=1.0, capsize=2.0
                )
    axis.set_xticks(range(len(ticks)), ticks)
    size = ""
    if title != "increase compared":  # there both sides stand, each with an n of its own
        axis.set_xlim(-0.6, len(ticks) - 0.4)
        size = f"n = {max(int(record['paired']) for record in groups[0][0])}"
    if title == "comparative":
        axis.set_ylim(min(0.0, axis.get_ylim()[0]), 1)
    axis.axhline(0, color=MUTED, linewidth=0.8)
    axis.tick_params(axis="x", length=0)
    for text in axis.get_xticklabels() if turned else ():
        text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    style.label(axis, title, size, y=name)


def _attacked(metrics: Records) -> Rows:
    """A record an attack and data set, with its label and with the increase as per cent of the
    scale; of the first dimension, range, decoding and setting alone."""
    records: dict[str, Record] = {}
    datasets = list(dict.fromkeys(row["dataset"] for row in metrics))
    for dataset in datasets:
        rows = [row for row in metrics if (row["dataset"], row["judge"]) == (dataset, "main")]
        for row in _of_one_setting(rows):
            name = row["attack"]
            if len(datasets) > 1:
                name = f"{dataset}, {name}"
            record = {**row, "label": name}
            scale = 100 / (float(row["range_max"]) - float(row["range_min"]))
            for end in ("", "_low", "_high"):
                value = number(row.get(f"change{end}"))
                record[f"share{end}"] = None if value is None else scale * value
            records.setdefault(name, record)
    return list(records.values())[:_MOST_BARS]


def _of_one_setting(rows: Records) -> list[Row]:
    """The changes by attacks without a defense, of the first dimension, range and decoding, by
    expectation where there is one."""
    # 1. the changes
    split = shown_split(row["split"] for row in rows)
    level = shown_level(row["level"] for row in rows)
    place = (split, level, NO_DEFENSE)
    changed = []
    for row in rows:
        known = row["attack"] != CLEAN and number(row.get("change")) is not None
        if known and (row["split"], row["level"], row["defense"]) == place:
            changed.append(row)
    # 2. those like the first
    changed = [row for row in changed if row.get("rule") == "expectation"] or changed
    alike = []
    for row in changed:
        if all(row.get(name) == changed[0].get(name) for name in _SETTING):
            alike.append(row)
    return alike
