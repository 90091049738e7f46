"""Figures of defenses: CAP's standards and strengths, detectors (after the CAP
paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.figures import style
from judgebench.report.figures.style import HUMANS, INK, MUTED, STANDARDS, shorten
from judgebench.results.results import Results, number
from judgebench.types import Record, Row
from judgebench.words.formats import percent, say, three, two

_MARKERS = {"high": "o", "low": "s"}


def defense_figures(results: Results) -> dict[str, Figure | None]:
    """Name -> figure; None where there is nothing to draw.

    Of CAP's standards `candidates_`, `embeddings_` and `separability_<dimension>`, and `strengths_`
    where strengths were tried. `detectors`: precision against recall.
    """
    figures: dict[str, Figure | None] = {}
    standards: dict[str, Row] = {}
    for standard in results.standards:
        name = style.file_name(standard["dimension"])
        standards.setdefault(name, standard)
    for name, standard in standards.items():
        figures |= {
            f"candidates_{name}": candidates_figure(results, standard),
            f"embeddings_{name}": embeddings_figure(results, standard),
            f"separability_{name}": separability_figure(results, standard),
            f"strengths_{name}": strengths_figure(results, standard),
        }
    figures["detectors"] = detector_figure(results)
    return figures


# --- standards ----------------------------------------------------------------------------------


def _of_standard(
    kind: str,
    title: str,
    results: Results,
    standard: Row,
    draw: Callable[[Axes, Any], None],
    legend: Sequence[tuple[Any, str]],
    height: float = 2.7,
    **facts: Any,
) -> Figure:
    """A finished figure of one panel about a standard, with the caption of its kind; `title` names
    the dimension by `{}`."""
    about = {"row": standard, "groups": results.groups, "tutor": shorten(standard["tutor"], 40)}
    caption = say(f"caption_{kind}", **about, **facts)
    title = title.format(shorten(standard["dimension"], 24))
    return style.small_multiples([None], draw, title, caption, legend, height=height)


@style.house_style()
def candidates_figure(results: Results, standard: Row) -> Figure | None:
    """A histogram of the candidates' scores, the bars of the high and of the low set colored, and
    both thresholds (after figure 4 of the CAP paper); None where no candidate has a score."""
    scores = np.array(
        [score for score in standard["scores"] if score is not None], dtype=np.float64
    )
    if not scores.size:
        return None
    low = float(standard["low_threshold"])
    high = float(standard["high_threshold"])
    colors = [STANDARDS["low"], "#c9cdd3", STANDARDS["high"]]
    parts = [
        scores[scores <= low],
        scores[(scores > low) & (scores < high)],
        scores[scores >= high],
    ]

    def draw(axis: Axes, _: None) -> None:
        edges = np.histogram_bin_edges(
            scores, bins=min(40, max(8, round(2 * np.sqrt(scores.size))))
        )
        axis.hist(
            parts, bins=edges.tolist(), stacked=True, color=colors, edgecolor="white", linewidth=0.5
        )
        for threshold, side, align in ((low, "low", "right"), (high, "high", "left")):
            color = STANDARDS[side]
            axis.axvline(threshold, color=color, linestyle="--", linewidth=1.3)
            axis.annotate(
                f" {two(threshold)} ",
                (threshold, 1.0),
                xycoords=("data", "axes fraction"),
                fontsize=8,
                ha=align,
                va="bottom",
                color=color,
            )
        ends = f"{standard['range_min']:g} to {standard['range_max']:g}"
        style.label(
            axis,
            note=f"n = {scores.size}",
            x=f"score by {shorten(str(standard['judge']), 30)}, range {ends}",
            y="candidates",
            pad=14,
        )

    texts = [f"low set, {standard['low_count']}", "neither", f"high set, {standard['high_count']}"]
    legend = list(zip(colors, texts, strict=True))
    title = "Scores of the tutor's candidates: {}"
    facts = {"scored": scores.size}
    return _of_standard("candidates", title, results, standard, draw, legend, **facts)


@style.house_style()
def embeddings_figure(results: Results, standard: Row) -> Figure | None:
    """A point a retained text, and the mean of each set, along the first two principal components
    at the layer steered (after figure 5 of the CAP paper); None where there are no points."""
    sides = {
        side: np.array(standard[f"{side}_points"], dtype=np.float64).reshape(-1, 2)
        for side in _MARKERS
    }
    if not all(map(len, sides.values())):
        return None
    shares = [float(share) for share in standard["shares"]]

    def draw(axis: Axes, _: None) -> None:
        for side, points in sides.items():
            how: Record = {"color": STANDARDS[side]}
            x, y = points.T
            axis.scatter(
                x,
                y,
                s=26,
                marker=_MARKERS[side],
                alpha=0.65,
                linewidth=0,
                **how,
            )
            how |= {"edgecolor": "white", "linewidth": 1.2}
            x, y = points.mean(axis=0)
            axis.scatter(
                x,
                y,
                s=150,
                marker="X",
                zorder=3,
                **how,
            )
        first = f"first principal component, {percent(shares[0])} of the variance"
        style.label(axis, x=first, y=f"second, {percent(shares[1])}", grid="both")

    legend = [
        (style.Mark(STANDARDS[side], _MARKERS[side]), f"{side} set, n = {len(points)}")
        for side, points in sides.items()
    ]
    legend.append((style.Mark(MUTED, "X"), "mean of a set"))
    title = f"States of the standards: {{}}, layer {standard['layer']}"
    return _of_standard("embeddings", title, results, standard, draw, legend, 3.4)


@style.house_style()
def separability_figure(results: Results, standard: Row) -> Figure | None:
    """Separability by layer with what chance seldom surpasses, and the layer that is steered (after
    figure 8 of the CAP paper); None where there are no layers."""
    values = np.array(standard["separability"], dtype=np.float64)
    chance = np.array(standard["chance"], dtype=np.float64)
    if not values.size:
        return None
    layers = np.arange(1, values.size + 1)
    layer = int(standard["layer"])
    steered = values[layer - 1]
    apart = style.Mark(STANDARDS["high"], "o", "-")
    by_chance = style.Mark(MUTED, "", "--")

    def draw(axis: Axes, _: None) -> None:
        axis.fill_between(
            layers,
            0,
            chance,
            color="#e9e9e9",
            linewidth=0,
        )
        style.line(axis, layers, chance, by_chance, linewidth=1.2)
        style.line(axis, layers, values, apart, linewidth=1.4, markersize=4)
        axis.plot([layer], [steered], markersize=10, **style.ring(INK, 1.4))
        axis.set_xlim(0.4, values.size + 0.6)
        axis.set_ylim(0, 1.12 * float(np.nanmax([values, chance])))
        tutor = shorten(standard["tutor"], 40)
        style.label(axis, x=f"layer of {tutor}", y="separability")

    chosen = f"steered: layer {layer}, {three(steered)} against {three(chance[layer - 1])}"
    legend = [
        (apart, "high against low texts"),
        (by_chance, "texts dealt to the sets at random: 95 % stay below"),
        (Line2D([], [], markersize=9, **style.ring(INK, 1.0)), chosen),
    ]
    title = "Separability by layer: {}"
    facts = {"above": int((values > chance).sum())}
    return _of_standard("separability", title, results, standard, draw, legend, **facts)


# --- strengths ----------------------------------------------------------------------------------


@style.house_style()
def strengths_figure(results: Results, standard: Row) -> Figure | None:
    """Mean score of steered texts and its interval against alpha, a line a side, with the targets
    and the nearest strengths (after figure 10 of the CAP paper); None where no strength has a
    mean."""
    dimension = standard["dimension"]
    tried = [strength for strength in results.strengths if strength["dimension"] == dimension]
    rows = pd.DataFrame([row for row in tried if number(row["mean"]) is not None])
    if not len(rows):
        return None
    parts = {side: rows[rows["side"] == side] for side in _MARKERS}
    sides = {side: part for side, part in parts.items() if len(part)}
    scale = float(tried[0]["scale"])
    low = float(standard["range_min"])
    high = float(standard["range_max"])
    margin = 0.03 * (high - low)
    looks = {side: style.Mark(STANDARDS[side], _MARKERS[side], "-") for side in sides}

    def draw(axis: Axes, _: None) -> None:
        for side, part in sides.items():
            look = looks[side]
            alpha = part["alpha"] / scale
            mean = part["mean"]
            style.line(axis, alpha, mean, look, part["low"], part["high"], linewidth=1.4, zorder=3)
            target = part["target"].iloc[0]
            axis.axhline(target, color=look.color, linestyle="--", linewidth=1.1)
            chosen = part["chosen"].astype(bool)
            axis.plot(
                alpha[chosen],
                mean[chosen],
                markersize=11,
                zorder=4,
                **style.ring(look.color, 1.6),
            )
        # within the score range, which intervals of few texts leave
        bottom, top = axis.get_ylim()
        axis.set_ylim(max(bottom, low - margin), min(top, high + margin))
        unit = ""
        if scale != 1:
            unit = f", in mean lengths of the states at the layer ({scale:.3g})"
        style.label(axis, x=f"strength alpha{unit}", y="mean score")

    legend: list[Any] = [(look, f"steered to the {side} standard") for side, look in looks.items()]
    legend.append((style.Mark(MUTED, "", "--"), "target: the candidates' threshold"))
    ring = Line2D([], [], markersize=9, **style.ring(MUTED, 1.0))
    legend.append((ring, "nearest to its target"))
    ends = rows[["low", "high"]].astype(float)
    written = results.references
    written = written[(written["defense"] == "cap") & (written["dimension"] == dimension)]
    steered = written[["alpha_high", "alpha_low"]].head(1).to_numpy(float) / scale
    up, down = steered[0] if len(steered) else (None, None)
    return _of_standard(
        "strengths",
        "Scores of steered texts by strength: {}",
        results,
        standard,
        draw,
        legend,
        3.0,
        counts=sorted({int(row["n"]) for row in tried}),
        bounded=ends.notna().any(axis=None),
        cut=((ends < low) | (ends > high)).any(axis=None),
        up=up,
        down=down,
    )


# --- detectors ----------------------------------------------------------------------------------

# Okabe and Ito's palette
_CURVE = style.Mark("#0072B2", "", "-")
_CHOSEN = style.Mark("#D55E00", "o")
_TESTED = style.Mark("#009E73", "D")
_CHANCE = style.Mark(HUMANS, "", (0, (1, 2)))


@style.house_style()
def detector_figure(results: Results) -> Figure | None:
    """A panel a detector: its curve on training texts with the threshold that was chosen, and what
    that threshold finds among the test texts (after figure 9 of the CAP paper); None where there is
    none."""
    detectors = results.detectors
    if not detectors:
        return None

    legend = [
        (_CURVE, "every threshold, training texts"),
        (_CHOSEN, "the one chosen: best F1"),
        (_TESTED, "the same on test texts"),
        (_CHANCE, "chance"),
    ]
    training = [detector["training"] for detector in detectors]
    attacks = dict.fromkeys(attack for part in training for attack in part["attacks"])
    caption = say(
        "caption_detectors",
        helpers=dict.fromkeys(shorten(detector["helper"], 40) for detector in detectors),
        attacks=[shorten(attack, 30) for attack in attacks],
        groups=[len(part["groups"]) for part in training],
    )
    title = "Detectors of attacked texts: precision and recall"
    return style.small_multiples(detectors, _draw_detector, title, caption, legend, height=2.9)


def _draw_detector(axis: Axes, detector: Row) -> None:
    curve = detector["curve"]
    training = detector["training"]
    test = detector["test"]
    axis.axhline(0.5, zorder=1, color=_CHANCE.color, linestyle=_CHANCE.line, linewidth=1.2)
    # above the highest threshold nothing is claimed: precision is taken as 1 there, as in the
    # literature
    recall = [*curve["recall"], 0.0]
    precision = [*curve["precision"], 1.0]
    style.line(axis, recall, precision, _CURVE, linewidth=1.4, zorder=2)
    for side, look, size in ((training, _CHOSEN, 6), (test, _TESTED, 5)):
        if None not in (side["recall"], side["precision"]):
            place = [side["recall"]], [side["precision"]]
            style.line(axis, *place, look, markersize=size, zorder=9 - size)
    lines = [
        f"best F1 {training['f1']:.3f}",
        f"precision {training['precision']:.3f}, recall {training['recall']:.3f}",
    ]
    if test["f1"] is not None:
        lines.append(f"test F1 {test['f1']:.3f}")
    if test["false_positive_rate"] is not None:
        share = percent(test["false_positive_rate"])
        lines.append(f"test, clean texts warned of: {share}")
    axis.text(
        0.03,
        0.04,
        "\n".join(lines),
        fontsize=8,
        color=INK,
        linespacing=1.35,
        transform=axis.transAxes,
        va="bottom",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
    axis.set_xlim(-0.03, 1.03)
    axis.set_ylim(0, 1.05)
    style.label(
        axis,
        shorten(detector["defense"], 40),
        x=f"recall; {training['n_attacked']} attacked, {training['n_clean']} clean texts",
        y="precision",
        grid="both",
    )
    axis.tick_params(colors=MUTED, labelcolor=INK)
