"""How far attacks raise absolute scores and how far comparative ones (after figure 2 of the CAP paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report.style import INK, MUTED, finish, house_style, panels
from judgebench.results.series import number, range_of, shown_split
from judgebench.types import ScoreRange

_CLEAN, _ATTACKED, _INCREASE = "#56B4E9", "#D55E00", "#009E73"  # Okabe and Ito's palette
_WIDTH = 0.26
_MOST_BARS = 10


@dataclass(frozen=True)
class _Bars:
    """One attack on one data set: (value, low, high) of each bar; ends are None without intervals."""

    label: str
    clean: tuple[float, float | None, float | None]
    attacked: tuple[float, float | None, float | None]
    increase: tuple[float, float | None, float | None]
    range: ScoreRange
    texts: int
    groups: int


def is_comparative(record: Mapping[str, Any]) -> bool:
    """Whether a record's scores are probabilities of winning: they lie between 0 and 1."""
    return (float(record["range_min"]), float(record["range_max"])) == (0.0, 1.0)


def assessment_figure(
    absolute: Sequence[Mapping[str, Any]],
    comparative: Sequence[Mapping[str, Any]],
    titles: Mapping[str, str | None],
    judge: str = "main",
    rule: str = "expectation",
) -> Figure | None:
    """Clean, attacked and increase of mean scores on the left, of mean probabilities of winning in the middle; on the
    right both increases as shares of their scales, which alone compare.

    Args:
        absolute, comparative: records of metrics.json, of one run or of several (several data sets), those of attacks
            with their clean base; see `is_comparative`. The shown split and level of each count.
        titles: `main`, the model's name; `groups`, what a group is ("articles").
        judge: main, assistant or pair.
        rule: of its decodings the first by this rule counts, else its first.

    Returns:
        None unless both hold an attack.
    """
    sides = [_bars(records, judge, rule) for records in (comparative, absolute)]
    if not all(sides):
        return None
    groups = titles.get("groups") or "articles"
    with house_style():
        figure, axes = panels(3, 3, 3.0, share_y=False)
        for axis, bars, name in zip(axes[:2], sides, ("probability of winning", "mean score"), strict=True):
            for shift, color, part in ((-1, _CLEAN, "clean"), (0, _ATTACKED, "attacked"), (1, _INCREASE, "increase")):
                _draw(axis, [getattr(one, part) for one in bars], shift * _WIDTH, color, _WIDTH)
            _label(axis, bars)
            axis.set_ylabel(name)
        axes[0].set_ylim(min(0.0, axes[0].get_ylim()[0]), 1)
        axes[0].set_title("comparative")
        axes[1].set_title("absolute")
        shares = [[_share(one) for one in bars] for bars in sides]
        labels = list(dict.fromkeys(one.label for bars in sides for one in bars))
        for bars, found, side, hatch in zip(sides, shares, (-0.5, 0.5), ("", "////"), strict=True):
            places = [labels.index(one.label) for one in bars]
            _draw(axes[2], found, side * 0.36, _INCREASE, 0.36, places, hatch)
        axes[2].set_xticks(range(len(labels)), labels)
        axes[2].set_ylabel("increase, % of the scale")
        axes[2].set_title("increase compared")
        for axis in axes:
            axis.axhline(0, color=MUTED, linewidth=0.8)
            axis.grid(axis="y")
            axis.tick_params(axis="x", length=0)
            if len(labels) > 2:
                for text in axis.get_xticklabels():
                    text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
        handles = [Patch(facecolor=color) for color in (_CLEAN, _ATTACKED, _INCREASE)]
        handles.append(Patch(facecolor=_INCREASE, hatch="////", edgecolor="white"))
        names = ["clean", "attacked", "increase (right: comparative)", "right: absolute"]
        return finish(figure, f"Attacks on comparative and absolute assessment, {titles.get('main') or 'main'}",
                      _caption(sides, groups), handles, names)  # fmt: skip


def _bars(records: Sequence[Mapping[str, Any]], judge: str, rule: str) -> list[_Bars]:
    found: dict[str, _Bars] = {}
    datasets = list(dict.fromkeys(record["dataset"] for record in records))
    for dataset in datasets:
        own = [record for record in records if (record["dataset"], record["judge"]) == (dataset, judge)]
        split, level = shown_split(r["split"] for r in own), shown_level(r["level"] for r in own)
        own = [r for r in own if (r["split"], r["level"], r["defense"]) == (split, level, "none")]
        own = [r for r in own if r["attack"] != CLEAN and number(r.get("change")) is not None]
        by_rule = [r for r in own if r.get("rule") == rule] or own
        for record in (r for r in by_rule if _setting(r) == _setting(by_rule[0])):
            label = record["attack"] if len(datasets) == 1 else f"{dataset}, {record['attack']}"
            found.setdefault(label, _of(record, label))
    return list(found.values())[:_MOST_BARS]


def _setting(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a figure shows one of: the first dimension, range, decoding and setting."""
    return tuple(record[name] for name in ("dimension", "range_min", "range_max", "decoding", "lambda", "temperature"))


def _of(record: Mapping[str, Any], label: str) -> _Bars:
    return _Bars(
        label,
        _with_ends(record, "clean_mean_score"),
        _with_ends(record, "attacked_mean_score"),
        _with_ends(record, "change"),
        range_of(record),
        int(record["paired"]),
        int(record["groups"]),
    )


def _with_ends(record: Mapping[str, Any], name: str) -> tuple[float, float | None, float | None]:
    return float(record[name]), number(record.get(f"{name}_low")), number(record.get(f"{name}_high"))


def _share(one: _Bars) -> tuple[float, float | None, float | None]:
    """The increase as per cent of the scale."""
    scale = 100 / (one.range.maximum - one.range.minimum)
    value, low, high = one.increase
    return scale * value, None if low is None else scale * low, None if high is None else scale * high


def _draw(
    axis: Axes,
    bars: Sequence[tuple[float, float | None, float | None]],
    shift: float,
    color: str,
    width: float,
    places: Sequence[int] | None = None,
    hatch: str = "",
) -> None:
    for place, (value, low, high) in zip(places or range(len(bars)), bars, strict=True):
        at = place + shift
        axis.bar(at, value, width * 0.94, color=color, hatch=hatch or None, edgecolor="white", linewidth=0)
        if low is not None and high is not None:
            ends = [[max(0.0, value - low)], [max(0.0, high - value)]]
            axis.errorbar([at], [value], yerr=ends, color=INK, linestyle="none", elinewidth=1.0, capsize=2.0)


def _label(axis: Axes, bars: Sequence[_Bars]) -> None:
    axis.set_xticks(range(len(bars)), [one.label for one in bars])
    axis.set_xlim(-0.6, len(bars) - 0.4)
    sizes = {(one.texts, one.groups) for one in bars}
    axis.set_title(f"n = {max(sizes)[0]}", loc="right", fontweight="normal", fontsize=8)


def _caption(sides: Sequence[Sequence[_Bars]], groups: str) -> str:
    ranges = ", ".join(dict.fromkeys(str(one.range) for one in sides[1]))
    bounded = any(one.increase[1] is not None for bars in sides for one in bars)
    told = (
        f"Mean probability that the judge prefers the text to another system's, and mean score in range {ranges}, of "
    )
    told += "the same texts clean and attacked. Right: how much of its scale (0 to 1; the range) each rises. "
    told += f"Bars: 95 % interval, {groups} resampled, clean and attacked together. " if bounded else ""
    return told + "n: texts, or pairs of texts, scored both clean and attacked."
