"""What each defense costs and what it gains: Spearman where nobody attacks against the score change under attack. The
CAP paper has both, in tables of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report.style import MUTED, Mark, defense_marks, finish, house_style, panels, series_label, shorten
from judgebench.report.worded import NOTE, marked, with_stand_ins
from judgebench.results.series import NO_DEFENSE, SeriesIndex, defenses_of, number, range_of, shown_split

_MOST_PANELS = 8


@dataclass(frozen=True)
class _Point:
    """One defense: (value, low, high) of both axes; ends are None without intervals."""

    defense: str
    change: tuple[float, float | None, float | None]
    spearman: tuple[float, float | None, float | None]
    texts: int


def front_figure(
    records: Sequence[Mapping[str, Any]], dimension: str, titles: Mapping[str, str | None]
) -> Figure | None:
    """A point a defense, a panel an attack and range: |score change| to the right, Spearman of the clean texts upwards.

    The staircase joins the defenses that no other one beats in both; the best place is the upper left. Of each judge
    the first counts, by expectation where it has such scores.

    Args:
        records: metrics.json; the shown split and level of it.
        dimension: one of theirs.
        titles: `main`, the model's name; `groups`, what a group is ("articles").

    Returns:
        None unless an attack was tried under two defenses.
    """
    split, level = shown_split(r["split"] for r in records), shown_level(r["level"] for r in records)
    own = [r for r in records if (r["dimension"], r["split"], r["level"]) == (dimension, split, level)]
    own, worded = with_stand_ins(own)
    index = SeriesIndex(own)
    scored = [r for r in own if r["judge"] == "main" and number(r.get("spearman")) is not None]
    if not scored:
        return None
    series = index.of(
        next((r for r in scored if r.get("rule") == "expectation" and r["defense"] == NO_DEFENSE), scored[0])
    )
    parts = _parts([r for r in scored if index.of(r) == series], worded)
    if not parts:
        return None
    shown = parts[:_MOST_PANELS]
    drawn = defense_marks([marked(name, worded) for name in defenses_of(own)])
    with house_style():
        figure, axes = panels(len(shown), 1 if len(shown) == 1 else 2, 2.8)
        for axis, (name, points) in zip(axes, shown, strict=True):
            _panel(axis, points, drawn)
            axis.set_title(shorten(name, 40))
            axis.set_title(f"n = {max(point.texts for point in points)}", loc="right", fontweight="normal", fontsize=8)
        handles: list[Any] = [
            Line2D([], [], linestyle="none", marker=mark.marker, color=mark.color, markersize=6)
            for mark in drawn.values()
        ]
        labels = ["no defense" if name == NO_DEFENSE else name for name in drawn]
        handles.append(Line2D([], [], color=MUTED, linewidth=1.0))
        title = f"Agreement against robustness, by defense: {shorten(dimension, 24)}"
        caption = _caption(
            series_label(series, titles),
            split,
            titles.get("groups") or "articles",
            shown,
            bool(worded & set(defenses_of(own))),
        )
        if len(parts) > len(shown):
            caption += f" {len(parts) - len(shown)} further attacks are not drawn."
        return finish(figure, title, caption, handles, [*labels, "beaten by no other in both"])


def _parts(records: Sequence[Mapping[str, Any]], worded: set[str]) -> list[tuple[str, list[_Point]]]:
    clean = {(range_of(r), r["defense"]): r for r in records if r["attack"] == CLEAN}
    several = len({range_of(r) for r in records}) > 1
    found: dict[tuple[str, Any], list[_Point]] = {}
    for record in records:
        base = clean.get((range_of(record), record["defense"]))
        if record["attack"] == CLEAN or base is None or number(record.get("delta")) is None:
            continue
        point = _Point(
            marked(str(record["defense"]), worded),
            _ends(record, "delta"),
            _ends(base, "spearman"),
            int(record["paired"]),
        )
        found.setdefault((str(record["attack"]), range_of(record)), []).append(point)
    return [
        (f"{attack}, range {score_range}" if several else attack, points)
        for (attack, score_range), points in found.items()
        if len(points) > 1
    ]


def unbeaten(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of those (change, Spearman) that no other one beats: none changes less and agrees more, by ascending
    change.

    Example:
        >>> unbeaten([(0.5, 0.3), (0.1, 0.2), (0.4, 0.1), (0.5, 0.3)])
        [1, 0]
    """
    best: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if not best or points[i][1] > points[best[-1]][1]:
            best.append(i)
    return best


def _panel(axis: Axes, points: Sequence[_Point], drawn: Mapping[str, Mark]) -> None:
    front = [points[i] for i in unbeaten([(point.change[0], point.spearman[0]) for point in points])]
    at, heights = [point.change[0] for point in front], [point.spearman[0] for point in front]
    axis.step(at, heights, where="post", color=MUTED, linewidth=1.4, zorder=1)
    for point in points:
        if point.defense not in drawn:
            continue
        mark = drawn[point.defense]
        errors = [_errors(point.change), _errors(point.spearman)]
        axis.errorbar(
            [point.change[0]], [point.spearman[0]], xerr=errors[0], yerr=errors[1], fmt=mark.marker, color=mark.color,
            markersize=6, elinewidth=0.9, capsize=2.0, alpha=0.9, zorder=2,
        )  # fmt: skip
    axis.set_xlabel("|score change| under attack")
    axis.set_ylabel("Spearman, clean")
    reach = 1.3 * max(point.change[0] for point in points) or 1.0  # one wide interval must not crush all the rest
    axis.set_xlim(-0.06 * reach, reach)
    axis.grid()


def _ends(record: Mapping[str, Any], name: str) -> tuple[float, float | None, float | None]:
    return float(record[name]), number(record.get(f"{name}_low")), number(record.get(f"{name}_high"))


def _errors(value: tuple[float, float | None, float | None]) -> list[list[float]] | None:
    middle, low, high = value
    return None if low is None or high is None else [[max(0.0, middle - low)], [max(0.0, high - middle)]]


def _caption(series: str, split: str, groups: str, parts: Sequence[tuple[str, Sequence[_Point]]], worded: bool) -> str:
    bounded = any(point.change[1] is not None for _, points in parts for point in points)
    told = (
        f"{series}, {split} split: how far the attack moves the mean score against the clean texts under the same "
        "defense, and how well the judge agrees with the humans on these clean texts. Upper left is best: it stays "
        "where it was, and agrees. A judge that says the same of everything stays too. "
    )
    told += f"Bars: 95 % intervals, {groups} resampled, cut at the frame. " if bounded else ""
    return f"{told}n: texts scored both clean and attacked.{f' {NOTE}' if worded else ''}"
