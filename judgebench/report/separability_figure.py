"""How far the two standard sets lie apart in each layer (after figure 8 of the CAP paper), with what chance reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.style import INK, MUTED, finish, house_style, panels, shorten

_LINE = "#0072B2"  # of Okabe and Ito's palette


def separability_figure(standard: Mapping[str, Any]) -> Figure | None:
    """Separability by layer, what chance seldom surpasses beside it, and the layer that is steered.

    Args:
        standard: a record of defense/standards.json.

    Returns:
        None where there are no layers.
    """
    found, chance = (np.array(standard[name], dtype=np.float64) for name in ("separability", "chance"))
    if not found.size:
        return None
    layers = np.arange(1, found.size + 1)
    layer = int(standard["layer"])
    with house_style():
        figure, (axis,) = panels(1, 1, 2.7)
        axis.fill_between(layers, 0, chance, color="#e6e8eb", linewidth=0)
        axis.plot(layers, chance, color=MUTED, linestyle="--", linewidth=1.2)
        axis.plot(layers, found, "o-", color=_LINE, linewidth=1.4, markersize=4)
        axis.plot(
            [layer],
            [found[layer - 1]],
            "o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=1.4,
        )
        axis.set_xlim(0.4, found.size + 0.6)
        axis.set_ylim(0, 1.12 * float(np.nanmax([found, chance])))
        axis.set_xlabel(f"layer of {shorten(str(standard['tutor']), 40)}")
        axis.set_ylabel("separability")
        axis.grid(axis="y")
        handles = [
            Line2D([], [], color=_LINE, marker="o", markersize=4),
            Line2D([], [], color=MUTED, linestyle="--"),
            Line2D([], [], linestyle="none", marker="o", markersize=9, markerfacecolor="none", markeredgecolor=INK),
        ]
        labels = ["high against low texts", "texts dealt to the sets at random: 95 % stay below"]
        labels.append(f"steered: layer {layer}, {found[layer - 1]:.3f} against {chance[layer - 1]:.3f}")
        title = f"Separability by layer: {shorten(str(standard['dimension']), 24)}"
        return finish(figure, title, _caption(standard, found, chance), handles, labels)


def _caption(standard: Mapping[str, Any], found: np.ndarray, chance: np.ndarray) -> str:
    best = int(standard["best_layer"])
    above = int((found > chance).sum())
    told = "" if best == standard["layer"] else f" Layer {best} separates best; another was asked for."
    return (
        f"Distance of the mean states of the high ({standard['high_count']} texts) and the low set "
        f"({standard['low_count']}), over how far the texts of each lie from their mean. Small sets lie apart a little "
        f"whatever they hold: a layer tells high from low only as far as it surpasses chance, as {above} of "
        f"{found.size} do here; by chance, one in twenty would.{told}"
    )
