"""Figures of attacks: scores by the words of a learned phrase, absolute against comparative assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report.figures.style import (
    INK,
    MUTED,
    Mark,
    defense_marks,
    error_bars,
    file_name,
    finish,
    handle,
    house_style,
    marks,
    panels,
    series_label,
    shorten,
    size_note,
)
from judgebench.report.views.defenses import FREE_TEXT_NOTE
from judgebench.report.views.phrases import PHRASE, drawn_rows, phrase_frame, silent_note
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, Series, number, range_of, shown_split
from judgebench.types import LABELS, RANGE

_MOST_PANELS = 8
_PANEL = ["split", "contexts", "systems"]
_FLAT = (0, (1, 2))
"""The line of clean scores."""


def phrase_figures(results: Results) -> dict[str, Figure | None]:
    """`suffix_<attack>_<dimension>`, and the range where there are several -> mean score by words of a learned phrase
    (after figures 6 and 7 of the CAP paper); None where no judge's scores move."""
    rows, figures = phrase_frame(results), {}
    for _, part in rows.groupby(PHRASE[:2], sort=False) if len(rows) else ():
        ranges = [own for _, own in part.groupby(PHRASE[2], sort=False)]
        for own in ranges:
            name = [str(own[key].iloc[0]) for key in (PHRASE if len(ranges) > 1 else PHRASE[:2])]
            figures["_".join(["suffix", *map(file_name, name)])] = phrase_figure(own, results.titles)
    return figures


def phrase_figure(rows: pd.DataFrame, titles: Mapping[str, str | None]) -> Figure | None:
    """A line a judge and decoding, with its clean mean as a flat line and 95 % bands; a panel a kind of texts, those
    that the phrase never saw first. Where a run has several defenses, these are the lines, and each judge and decoding
    has panels of its own; of many of these, only the texts that the phrase never saw are shown.

    Args:
        rows: of one phrase, see `phrase_frame`.
        titles: the models' names, and the word for groups.

    Returns:
        None where there is nothing to draw.
    """
    moving = drawn_rows(rows)
    if not len(moving):
        return None
    groups = titles.get("groups") or "articles"
    several = moving["shown_defense"].nunique() > 1
    lines = "shown_defense" if several else "series"
    looks, left_out = _looks(moving, several)
    judges = {str(one): series_label(one, titles) for one in _series(moving, "base")}
    named = {str(one): series_label(one, titles) for one in _series(moving, "series")} | {NO_DEFENSE: "no defense"}
    parts = _by_judge(moving) if several else [part for _, part in moving.groupby(_PANEL, sort=False)]
    with house_style():
        figure, axes = panels(len(parts), 1 if len(parts) == 1 else 2, 2.6)
        for axis, part in zip(axes, parts, strict=True):
            _draw_words(axis, part, looks, lines)
            head = part.iloc[0]
            axis.set_xlabel(f"words appended; {head['split']} split, n = {head['texts']} of {head['sources']} {groups}")
            judge = f"\n{shorten(judges[head['base']], 52)}" if several and len(judges) > 1 else ""
            axis.set_title(f"{head['panel']}{judge}")
        handles: list[Any] = [handle(look)
                              for look in looks.values()]  # fmt: skip
        handles.append(Line2D([], [], color=MUTED, linestyle=_FLAT, linewidth=1.2))
        labels = [*(named.get(name, name) for name in looks), "clean, without the phrase"]
        suffix, dimension, score_range = (str(rows[name].iloc[0]) for name in PHRASE)
        title = f"Mean score by words of {shorten(suffix, 30)}: {shorten(dimension, 24)}, {score_range}"
        caption = f"{_words_caption(rows, groups)}{left_out}"
        if several and len(judges) == 1:
            caption = f"{next(iter(judges.values()))}. {caption}"
        return finish(figure, title, caption, handles, labels)


def _series(rows: pd.DataFrame, name: str) -> list[Series]:
    """The series behind a column of their names, in order of appearance."""
    own = rows.drop_duplicates(name)
    columns = (own[column] for column in ("judge", "decoding", "who", name))
    return [Series(judge, decoding, text[len(who) + 2 :]) for judge, decoding, who, text in zip(*columns, strict=True)]


def _looks(rows: pd.DataFrame, by_defense: bool) -> tuple[dict[str, Mark], str]:
    """The looks of the lines by their names, and a sentence on those that are too many."""
    if by_defense:
        names = sorted(dict.fromkeys(rows["shown_defense"]), key=lambda name: name != NO_DEFENSE)
        looks, kind = defense_marks(names), "defenses"
    else:
        series = _series(rows, "series")
        names, kind = list(map(str, series)), "decodings"
        looks = {str(one): look for one, look in marks(series).items()}
    spare = len(names) - len(looks)
    return looks, f" {spare} further {kind} are not drawn." if spare else ""


def _by_judge(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The panels of each judge and decoding; the first kind of texts alone where they were too many."""
    bases, kinds = list(dict.fromkeys(rows["base"])), [part for _, part in rows.groupby(_PANEL, sort=False)]
    shown = kinds if len(bases) * len(kinds) <= _MOST_PANELS else kinds[:1]
    parts = [part[part["base"] == base] for base in bases for part in shown]
    return [part for part in parts if len(part)]


def _draw_words(axis: Axes, part: pd.DataFrame, looks: Mapping[str, Mark], lines: str) -> None:
    most = int(part["words"].iloc[0])
    for name, look in looks.items():
        curve = part[part[lines] == name]
        if not len(curve):
            continue
        known = curve[curve["mean_score"].notna()]
        axis.plot(known["length"], known["mean_score"], look.marker, color=look.color, linestyle=look.line,
                  linewidth=1.3, markersize=4.5, zorder=3)  # fmt: skip
        if len(bounded := curve[curve["mean_score_low"].notna()]):
            low, high = (bounded[f"mean_score_{end}"].astype(float) for end in ("low", "high"))
            axis.fill_between(bounded["length"], low, high, color=look.color, alpha=0.13, linewidth=0, zorder=1)
        for clean in known.loc[known["length"] == 0, "mean_score"]:
            axis.axhline(clean, color=look.color, linestyle=_FLAT, linewidth=1.2, zorder=2)
    axis.set_xticks(range(most + 1))
    axis.set_xlim(-0.2, most + 0.2)
    axis.set_ylabel("mean score")
    axis.grid(axis="y")


def _words_caption(rows: pd.DataFrame, groups: str) -> str:
    moving, objective = drawn_rows(rows), rows["objective"].iloc[0]
    whence = f", learned for {objective}" if objective else ""
    sentence = (
        f"Phrase{whence}: “{shorten(str(rows['whole'].iloc[0]), 160)}”. Mean of the scores, failed answers at the "
    )
    sentence += "lowest score. "
    sentence += f"Bands: 95 % interval, {groups} resampled. " if moving["mean_score_low"].notna().any() else ""
    sentence += (
        f"Seen: the phrase was learned on these {groups}, or on texts of these systems; unseen: it never saw them. "
    )
    sentence += "n: texts scored both clean and attacked."
    notes = [silent_note(rows), FREE_TEXT_NOTE if (moving["shown_defense"] != moving["defense"]).any() else ""]
    return " ".join([sentence, *filter(None, notes)])


# --- absolute against comparative assessment --------------------------------------------------------------------------

_CLEAN, _ATTACKED, _INCREASE = "#56B4E9", "#D55E00", "#009E73"  # Okabe and Ito's palette
_WIDTH = 0.26
_MOST_BARS = 10


def is_win_probability(record: Mapping[str, Any]) -> bool:
    """True where a record's scores are probabilities of winning: they lie between 0 and 1."""
    return (float(record["range_min"]), float(record["range_max"])) == (0.0, 1.0) and not record.get(LABELS)


def assessment_figure(
    absolute: Sequence[Mapping[str, Any]],
    comparative: Sequence[Mapping[str, Any]],
    titles: Mapping[str, str | None],
    judge: str = "main",
    rule: str = "expectation",
) -> Figure | None:
    """Clean, attacked and increase of mean scores in the middle, of mean probabilities of winning on the left; on the
    right both increases as shares of their scales, which alone compare (after figure 2 of the CAP paper).

    Args:
        absolute, comparative: records of metrics.json, of one run or of several (several data sets), those of attacks
            with their clean base; see `is_win_probability`. The shown split and level of each count.
        titles: `main`, the model's name; `groups`, the word for groups.
        judge: main, assistant or pair.
        rule: of its decodings the first by this rule counts, else its first.

    Returns:
        None unless both hold an attack.
    """
    sides = [_bars(records, judge, rule) for records in (comparative, absolute)]
    if not all(sides):
        return None
    with house_style():
        figure, axes = panels(3, 3, 3.0, share_y=False)
        for axis, bars, name in zip(axes[:2], sides, ("probability of winning", "mean score"), strict=True):
            for shift, color, part in (
                (-1, _CLEAN, "clean_mean_score"),
                (0, _ATTACKED, "attacked_mean_score"),
                (1, _INCREASE, "change"),
            ):
                _draw(axis, bars, part, [i + shift * _WIDTH for i in range(len(bars))], color, _WIDTH)
            axis.set_xticks(range(len(bars)), [one["label"] for one in bars])
            axis.set_xlim(-0.6, len(bars) - 0.4)
            n = max((int(one["paired"]), int(one["groups"])) for one in bars)[0]
            size_note(axis, f"n = {n}")
            axis.set_ylabel(name)
        axes[0].set_ylim(min(0.0, axes[0].get_ylim()[0]), 1)
        labels = list(dict.fromkeys(one["label"] for bars in sides for one in bars))
        for bars, side, hatch in zip(sides, (-0.5, 0.5), ("", "////"), strict=True):
            at = [labels.index(one["label"]) + side * 0.36 for one in bars]
            _draw(axes[2], bars, "share", at, _INCREASE, 0.36, hatch)
        axes[2].set_xticks(range(len(labels)), labels)
        axes[2].set_ylabel("increase, % of the scale")
        _dress(axes, several=len(labels) > 2)
        handles = [Patch(facecolor=color) for color in (_CLEAN, _ATTACKED, _INCREASE)]
        handles.append(Patch(facecolor=_INCREASE, hatch="////", edgecolor="white"))
        names = ["clean", "attacked", "increase (right: comparative)", "right: absolute"]
        return finish(figure, f"Attacks on comparative and absolute assessment, {titles.get('main') or 'main'}",
                      _caption(sides, titles.get("groups") or "articles"), handles, names)  # fmt: skip


def _dress(axes: Sequence[Axes], several: bool) -> None:
    for axis, title in zip(axes, ("comparative", "absolute", "increase compared"), strict=True):
        axis.set_title(title)
        axis.axhline(0, color=MUTED, linewidth=0.8)
        axis.grid(axis="y")
        axis.tick_params(axis="x", length=0)
        for text in axis.get_xticklabels() if several else ():
            text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")


def _bars(metrics: Sequence[Mapping[str, Any]], judge: str, rule: str) -> list[dict[str, Any]]:
    """A record an attack and data set, with its label and with the increase as per cent of the scale."""
    found: dict[str, dict[str, Any]] = {}
    datasets = list(dict.fromkeys(record["dataset"] for record in metrics))
    for dataset in datasets:
        own = [record for record in metrics if (record["dataset"], record["judge"]) == (dataset, judge)]
        split, level = shown_split(r["split"] for r in own), shown_level(r["level"] for r in own)
        own = [r for r in own if (r["split"], r["level"], r["defense"]) == (split, level, NO_DEFENSE)]
        own = [r for r in own if r["attack"] != CLEAN and number(r.get("change")) is not None]
        by_rule = [r for r in own if r.get("rule") == rule] or own
        for record in (r for r in by_rule if _setting(r) == _setting(by_rule[0])):
            label = record["attack"] if len(datasets) == 1 else f"{dataset}, {record['attack']}"
            scale = 100 / (float(record["range_max"]) - float(record["range_min"]))
            ends = {end: number(record.get(f"change{end}")) for end in ("", "_low", "_high")}
            shares = {f"share{end}": None if value is None else scale * value for end, value in ends.items()}
            found.setdefault(label, {**record, **shares, "label": label})
    return list(found.values())[:_MOST_BARS]


def _setting(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """A figure shows one of these: the first dimension, range, decoding and setting."""
    return tuple(record.get(name) for name in ("dimension", *RANGE[:2], LABELS, "decoding", "lambda", "temperature"))


def _draw(
    axis: Axes, bars: Sequence[Mapping[str, Any]], name: str, at: Sequence[float], color: str, width: float,
    hatch: str = "",
) -> None:  # fmt: skip
    """Bars at some places, each with its interval."""
    for record, x in zip(bars, at, strict=True):
        value, low, high = float(record[name]), number(record.get(f"{name}_low")), number(record.get(f"{name}_high"))
        axis.bar(x, value, width * 0.94, color=color, hatch=hatch or None, edgecolor="white", linewidth=0)
        if low is not None and high is not None:
            axis.errorbar(
                x,
                value,
                yerr=np.reshape(error_bars(value, low, high), (2, 1)),
                color=INK,
                linestyle="none",
                elinewidth=1.0,
                capsize=2.0,
            )


def _caption(sides: Sequence[Sequence[Mapping[str, Any]]], groups: str) -> str:
    ranges = ", ".join(dict.fromkeys(str(range_of(one)) for one in sides[1]))
    bounded = any(number(one.get("change_low")) is not None for bars in sides for one in bars)
    sentence = (
        f"Mean probability that the judge prefers the text to another system's, and mean score in range {ranges}, of "
    )
    sentence += "the same texts clean and attacked. Right: how much of its scale (0 to 1; the range) each rises. "
    sentence += f"Bars: 95 % interval, {groups} resampled, clean and attacked together. " if bounded else ""
    return f"{sentence}n: texts, or pairs of texts, scored both clean and attacked."
