"""Mean score against the words of a learned phrase (after figures 6 and 7 of the CAP paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.style import (
    MUTED,
    Mark,
    defense_marks,
    finish,
    house_style,
    marks,
    panels,
    series_label,
    shorten,
)
from judgebench.report.suffix_curves import Curve, Learned, Panel, constant_note
from judgebench.report.worded import NOTE
from judgebench.results.series import NO_DEFENSE

_MOST_PANELS = 8


def suffix_figure(learned: Learned, titles: Mapping[str, str | None]) -> Figure | None:
    """A line a judge and decoding, with its clean mean as a flat line and 95 % bands; a panel a kind of texts, those
    that the phrase never saw first. Where a run has several defenses, these are the lines, and each judge and decoding
    has panels of its own.

    Of many of these, only the texts that the phrase never saw are shown.

    Args:
        learned: one phrase in one dimension and range.
        titles: `main` and `assistant`, the models' names; `groups`, what a group is ("articles").

    Returns:
        None where there is nothing to draw.
    """
    shown = learned.apart
    if not shown:
        return None
    groups = titles.get("groups") or "articles"
    curves = [curve for panel in shown for curve in panel.curves]
    defenses = list(dict.fromkeys(curve.defense for curve in curves))
    bases, several = list(dict.fromkeys(curve.base for curve in curves)), len(defenses) > 1
    if several:
        defenses.sort(key=lambda name: name != NO_DEFENSE)
        drawn, lines = defense_marks(defenses), len(defenses)
        labels = ["no defense" if name == NO_DEFENSE else name for name in drawn]
        shown = shown if len(bases) * len(shown) <= _MOST_PANELS else shown[:1]
        parts = [
            (
                panel,
                [curve for curve in panel.curves if curve.base == base],
                series_label(base, titles) if len(bases) > 1 else "",
            )
            for base in bases
            for panel in shown
            if any(curve.base == base for curve in panel.curves)
        ]
    else:
        series = list(dict.fromkeys(curve.series for curve in curves))
        found = marks(series)
        drawn, lines = {str(one): mark for one, mark in found.items()}, len(series)
        labels = [series_label(one, titles) for one in found]
        parts = [(panel, list(panel.curves), "") for panel in shown]
    with house_style():
        figure, axes = panels(len(parts), 1 if len(parts) == 1 else 2, 2.6)
        for axis, (panel, held, of) in zip(axes, parts, strict=True):
            named = [(curve, curve.defense if several else str(curve.series)) for curve in held]
            styled = [(curve, drawn[name]) for curve, name in named if name in drawn]
            _panel(axis, panel, styled, learned.words, groups)
            if of:
                axis.set_title(f"{panel.title(groups)}\n{shorten(of, 52)}")
        handles: list[Any] = [
            Line2D([], [], color=mark.color, marker=mark.marker, linestyle=mark.line, markersize=5)
            for mark in drawn.values()
        ]
        handles.append(Line2D([], [], color=MUTED, linestyle=(0, (1, 2)), linewidth=1.2))
        labels.append("clean, without the phrase")
        title = (
            f"Mean score by words of {shorten(learned.suffix, 30)}: {shorten(learned.dimension, 24)}, {learned.range}"
        )
        left_out = f"{lines - len(drawn)} further {'defenses' if several else 'decodings'}"
        caption = _caption(learned, groups, left_out if lines > len(drawn) else "")
        if several and len(bases) == 1:
            caption = f"{series_label(bases[0], titles)}. {caption}"
        return finish(figure, title, caption, handles, labels)


def _panel(axis: Axes, panel: Panel, drawn: Sequence[tuple[Curve, Mark]], most: int, groups: str) -> None:
    for curve, mark in drawn:
        known = [(point.length, point.mean) for point in curve.points if point.mean is not None]
        at, means = [length for length, _ in known], [mean for _, mean in known]
        axis.plot(
            at, means, mark.marker, color=mark.color, linestyle=mark.line, linewidth=1.3, markersize=4.5, zorder=3
        )
        bands = [
            (point.length, point.mean_low, point.mean_high)
            for point in curve.points
            if point.mean_low is not None and point.mean_high is not None
        ]
        if bands:
            places, low, high = (list(column) for column in zip(*bands, strict=True))
            axis.fill_between(places, low, high, color=mark.color, alpha=0.13, linewidth=0, zorder=1)
        if curve.clean is not None and curve.clean.mean is not None:
            axis.axhline(curve.clean.mean, color=mark.color, linestyle=(0, (1, 2)), linewidth=1.2, zorder=2)
    axis.set_xticks(range(most + 1))
    axis.set_xlim(-0.2, most + 0.2)
    axis.set_xlabel(f"words appended; {panel.split} split, n = {panel.texts} of {panel.groups} {groups}")
    axis.set_ylabel("mean score")
    axis.grid(axis="y")
    axis.set_title(panel.title(groups))


def _caption(learned: Learned, groups: str, left_out: str) -> str:
    bounded = any(point.mean_low is not None for panel in learned.apart for one in panel.curves for point in one.points)
    whence = f", learned for {learned.objective}" if learned.objective else ""
    told = f"Phrase{whence}: “{shorten(learned.phrase, 160)}”. Mean of the scores, failed answers at the lowest score. "
    told += f"Bands: 95 % interval, {groups} resampled. " if bounded else ""
    told += f"Seen: the phrase was learned on these {groups}, or on texts of these systems; unseen: it never saw them. "
    told += "n: texts scored both clean and attacked."
    if learned.constant:
        told += f" {constant_note(learned)}"
    if any("its number" in curve.defense for panel in learned.apart for curve in panel.curves):
        told += f" {NOTE}"
    return f"{told} {left_out} are not drawn." if left_out else told
