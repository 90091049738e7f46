"""The one look of all figures, and how they become files and parts of pages, light and dark."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from judgebench.results.results import Series, Titles, number
from judgebench.runtime.files import atomic
from judgebench.types import Array, Record, Row
from judgebench.words.errors import escape_control

INK = "#222222"
MUTED = "#5f5f5f"
HUMANS = "#7a7a7a"

_STYLE = mpl.rc_params_from_file(
    Path(__file__).with_name("house.mplstyle"), use_default_template=False
)
"""The settings of matplotlib in which figures are drawn and saved."""

WIDTH = 8.0
"""Inches."""


@dataclass(frozen=True)
class Mark:
    """Color, marker and dashes of a series: "" is no marker, "none" no line."""

    color: str
    marker: str
    line: Any = "none"


_CONTRASTIVE = ("pair", "contrastive")
_FIXED = {  # Okabe and Ito's palette
    ("main", "greedy"): Mark("#0072B2", "o", "-"),
    ("assistant", "greedy"): Mark("#E69F00", "s", "-"),
    _CONTRASTIVE: Mark("#009E73", "D", "-"),
    ("main", "expectation"): Mark("#56B4E9", "o", "--"),
    ("assistant", "expectation"): Mark("#D55E00", "s", "--"),
}
_FREE = [
    Mark("#CC79A7", "^", "-."),
    Mark("#000000", "v", ":"),
    Mark("#D55E00", "P", "-."),
    Mark("#56B4E9", "X", ":"),
    Mark("#009E73", "*", "-."),
    Mark("#E69F00", ">", ":"),
    Mark("#0072B2", "<", "-."),
]
_DEFENSES = [
    Mark("#D55E00", "o", "-"),
    Mark("#0072B2", "s", "-"),
    Mark("#009E73", "D", "--"),
    Mark("#CC79A7", "^", "-."),
    Mark("#E69F00", "v", ":"),
    Mark("#56B4E9", "P", "--"),
    Mark("#000000", "X", ":"),
]

STANDARDS = {"high": "#0072B2", "low": "#D55E00"}
"""Colors of what is about the high and the low standard, of the same palette."""

MOST_SERIES = 7
"""More cannot be distinguished; captions say how many are left out."""


def marks(series: Sequence[Series]) -> dict[Series, Mark]:
    """A mark of its own color for each of the series, at most `MOST_SERIES`; the usual ones always
    look the same, and the first series of the pair contrastive, also under another name."""
    shown = series[:MOST_SERIES]
    looks: dict[Series, Mark] = {}
    keys = [((judged.judge, judged.decoding), judged) for judged in shown]
    for key, judged in [
        *keys,
        *((_CONTRASTIVE, judged) for judged in shown if judged.judge == "pair"),
    ]:
        fixed = _FIXED.get(key)
        if fixed and judged not in looks and fixed not in looks.values():
            looks[judged] = fixed
    taken = {mark.color for mark in looks.values()}
    free = iter([mark for mark in _FREE if mark.color not in taken])
    return {judged: looks.get(judged) or next(free) for judged in shown}


def defense_marks(defenses: Sequence[str]) -> dict[str, Mark]:
    """A mark of its own color for each defense, at most `MOST_SERIES`; no defense, which comes
    first, is always red."""
    first = 0 if "none" in defenses else 1
    return dict(zip(defenses[: len(_DEFENSES) - first], _DEFENSES[first:], strict=False))


@contextmanager
def house_style() -> Iterator[None]:
    """Draws and saves in the house style, and leaves the caller's settings as they were."""
    with mpl.rc_context():
        mpl.rcParams.update(mpl.rcParamsDefault)
        mpl.rcParams.update(_STYLE)
        yield


def small_multiples(
    parts: Sequence[Any],
    draw: Callable[[Axes, Any], None],
    title: str,
    caption: str | Sequence[str],
    legend: Sequence[tuple[Any, str]] = (),
    *,
    height: float,
    columns: int = 2,
    share_y: bool = True,
) -> Figure:
    """A finished figure with a panel of `height` inches a part, each filled by `draw(axis, part)`;
    title and legend stand above the panels, and the caption below, which is also
    `figure.get_label()`.

    The entries of a legend are a `Mark`, the color of bars, or an artist, each with its text; of a
    caption's sentences the empty ones are left out.
    """
    caption = caption if isinstance(caption, str) else " ".join(filter(None, caption))
    # 1. panels, without pyplot, which would keep every figure alive and open windows in notebooks
    columns = min(columns, len(parts))
    rows = -(-len(parts) // columns)
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, sharey=share_y, squeeze=False).flat)
    for spare in axes[len(parts) :]:
        spare.remove()
    for axis, part in zip(axes, parts, strict=False):
        axis.tick_params(labelleft=True)
        draw(axis, part)
    # 2. room for the words
    lines = textwrap.wrap(caption, 136)
    longest = max((len(text) for _, text in legend), default=1) + 7
    legend_columns = max(1, min(len(legend), 122 // longest))
    line = 0.17  # inches
    legend_height = line * 1.15 * -(-len(legend) // legend_columns)
    below = line * len(lines) + 0.16
    total = height * rows + 0.34 + legend_height + 0.08 + below
    figure.set_size_inches(WIDTH, total)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.005, below / total, 0.99, height * rows / total), h_pad=0.05, w_pad=0.06)
    # 3. the words
    figure.text(0.012, 1 - 0.1 / total, title, fontsize=11, fontweight="bold", va="top", color=INK)
    if legend:
        place: Record = {
            "loc": "upper left",
            "bbox_to_anchor": (0.004, 1 - 0.3 / total),
            "ncols": legend_columns,
            "borderaxespad": 0.1,
            "handlelength": 2.6,
            "columnspacing": 1.6,
        }
        handles = [handle(look) for look, _ in legend]
        texts = [text for _, text in legend]
        figure.legend(handles, texts, **place).set_in_layout(False)
    text = figure.text(
        0.012,
        0.08 / total,
        "\n".join(lines),
        fontsize=8,
        va="bottom",
        color=MUTED,
        linespacing=1.35,
    )
    text.set_gid("caption")
    text.set_in_layout(False)
    figure.set_label(caption)
    return figure


def label(
    axis: Axes,
    title: str = "",
    note: str = "",
    x: str = "",
    y: str = "",
    grid: str = "y",
    **how: Any,
) -> None:
    """The words around a panel: its title, a small note above it on the right (such as the number
    of texts), the names of its axes; and the lines of its grid, along `grid`: x, y, both, or "" for
    none."""
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if grid:
        axis.grid(axis=grid)  # type: ignore[arg-type]
    if title:
        axis.set_title(title)
    if note:
        axis.set_title(note, loc="right", fontweight="normal", fontsize=8, **how)


def handle(look: Any) -> Any:
    """An entry of a legend for a look: a `Mark`, the color of bars, or an artist."""
    if isinstance(look, Mark):
        return Line2D(
            [],
            [],
            color=look.color,
            marker=look.marker,
            linestyle=look.line,
            markersize=5.5,
        )
    return Patch(facecolor=look) if isinstance(look, str) else look


def ring(color: str, width: float) -> Record:
    """The look of an empty circle."""
    return {
        "linestyle": "none",
        "marker": "o",
        "markerfacecolor": "none",
        "markeredgecolor": color,
        "markeredgewidth": width,
    }


def line(
    axis: Axes, x: Any, y: Any, look: Mark, low: Any = None, high: Any = None, **how: Any
) -> None:
    """The mark of a series over numbers: a line through its points, and its interval as a band
    where it is known."""
    x, y, low, high = (
        pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(float)
        if values is not None
        else None
        for values in (x, y, low, high)
    )
    axis.plot(
        x, y, color=look.color, marker=look.marker, linestyle=look.line, **{"markersize": 4.5} | how
    )
    if low is not None and (bounded := ~np.isnan(low)).any():
        axis.fill_between(
            x[bounded],
            low[bounded],
            high[bounded],
            zorder=how.get("zorder", 2) - 2,
            color=look.color,
            alpha=0.13,
            linewidth=0,
        )


def error_bars(value: Any, low: Any, high: Any) -> list[Any]:
    """Lengths of error bars, numbers or [n]: an interval need not hold its value."""
    return [np.maximum(value - low, 0.0), np.maximum(high - value, 0.0)]


def record_bars(record: Row, name: str) -> Array | None:
    """[2, 1] lengths of the error bar of a record's number; None where it has no interval."""
    value = number(record.get(name))
    low = number(record.get(f"{name}_low"))
    high = number(record.get(f"{name}_high"))
    if value is None or low is None or high is None:
        return None
    return np.reshape(error_bars(value, low, high), (2, 1))


def shorten(name: str, most: int = 44) -> str:
    """A name cut in its middle to `most` characters: ends of model names tell more than middles."""
    if len(name) <= most:
        return name
    keep = (most - 1) // 2
    return f"{name[: most - 1 - keep]}…{name[-keep:]}"


def series_label(series: Series, titles: Titles, setting: str = "") -> str:
    """A legend's text: the series, lambda and t if given, and the model's name where one model is
    behind it."""
    name = titles.get(series.judge)
    label = f"{series}, {setting}" if setting else str(series)
    return f"{label} ({shorten(name)})" if name else label


NIGHT = {
    "#ffffff": "#1b1e24",
    "#222222": "#e4e6ea",
    "#000000": "#e4e6ea",
    "#5f5f5f": "#a9afb8",
    "#e2e2e2": "#343941",
    "#e9e9e9": "#2f343c",
    "#7a7a7a": "#9aa0a8",
    "#0072b2": "#3389d6",
    "#56b4e9": "#9ad6f7",
}
"""Ink, lines and paper by day and by night. Of the palette's colors all but its blues stand out on
both, and the two blues stay apart."""


def with_night(svg: bytes) -> bytes:
    """The figure with a style sheet that reads `NIGHT` where the page that shows it is dark.

    matplotlib writes every color into an element's own style, which only an important rule can
    overrule.
    """
    rules = ["svg{fill:#e4e6ea}"]  # text in plain black has no fill of its own
    for day, night in NIGHT.items():
        rules += [
            f'[style*="{kind}: {day}"]{{{kind}:{night}!important}}' for kind in ("fill", "stroke")
        ]
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>".encode()
    head, opened, rest = svg.partition(b"<defs>")
    return head + style + opened + rest


DPI = 200

_DRAWN: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()
"""Figures that live -> their SVG."""


def figure_files(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """The files of figures: `<name>.png` (200 dpi) and `<name>.svg` of each -> its content."""
    files: dict[str, bytes] = {}
    for name, figure in figures.items():
        with house_style():
            files |= {f"{name}.png": _saved(figure, format="png"), f"{name}.svg": _svg(figure)}
    return files


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    files = figure_files(figures)
    for name, content in files.items():
        with atomic(folder / name) as temporary:
            temporary.write_bytes(content)
    return [folder / name for name in files]


def svg_without_caption(figure: Figure) -> bytes:
    """A finished figure as SVG whose view ends above the caption, for a page that shows the caption
    as its own text."""
    with house_style():
        svg = _svg(figure)
    engine: Any = figure.get_layout_engine()
    # an SVG's units are points
    width, height = (72 * inches for inches in figure.get_size_inches())
    height *= 1 - engine.get()["rect"][1]
    size = f'width="{width:g}pt" height="{height:g}pt" viewBox="0 0 {width:g} {height:g}"'
    return re.sub(rb'width="[^"]*" height="[^"]*" viewBox="[^"]*"', size.encode(), svg, count=1)


def _svg(figure: Figure) -> bytes:
    """A finished figure as SVG, drawn once for file and page, without the control characters that
    XML forbids."""
    if figure not in _DRAWN:
        svg = _saved(figure, format="svg", metadata={"Date": None})  # equal data give equal bytes
        _DRAWN[figure] = escape_control(svg.decode()).encode()
    return _DRAWN[figure]


def _saved(figure: Figure, **how: Any) -> bytes:
    with warnings.catch_warnings(), io.BytesIO() as buffer:
        # no font draws a control character, and the warning would send it to the terminal
        warnings.filterwarnings(
            "ignore", r"Glyph ([0-9]|[12][0-9]|3[01]|12[789]|1[345][0-9]) \(", UserWarning
        )
        figure.savefig(buffer, dpi=DPI, **how)
        return buffer.getvalue()


def file_name(dimension: str) -> str:
    """A dimension's name as part of a file's name, as in `tone-style` of "tone / style"."""
    return re.sub(r"[^\w]+", "-", dimension).strip("-") or "dimension"
