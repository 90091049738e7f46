"""Precision against recall of a run's detectors (after figure 9 of the CAP paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.style import HUMANS, INK, MUTED, Mark, finish, house_style, panels, shorten

_CURVE = Mark("#0072B2", "o", "-")
_CHOSEN, _TESTED = "#D55E00", "#009E73"
_COLUMNS = 2


def detector_figure(records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """A panel a detector: its curve on training texts with the threshold that was chosen, and what that threshold finds
    among the test texts.

    Args:
        records: of defense/detectors.json (`defenses.Findings.detectors`).

    Returns:
        None where there is none.
    """
    if not records:
        return None
    with house_style():
        figure, axes = panels(len(records), _COLUMNS, 2.9)
        for axis, record in zip(axes, records, strict=True):
            _panel(axis, record)
        handles = [
            Line2D([], [], color=_CURVE.color, linewidth=1.4),
            Line2D([], [], color=_CHOSEN, marker="o", linestyle="", markersize=6),
            Line2D([], [], color=_TESTED, marker="D", linestyle="", markersize=5),
            Line2D([], [], color=HUMANS, linestyle=(0, (1, 2)), linewidth=1.2),
        ]
        labels = ["every threshold, training texts", "the one chosen: best F1", "the same on test texts", "chance"]
        return finish(figure, "Detectors of attacked texts: precision and recall", _caption(records), handles, labels)


def _panel(axis: Axes, record: Mapping[str, Any]) -> None:
    curve, training, test = record["curve"], record["training"], record["test"]
    axis.axhline(0.5, color=HUMANS, linestyle=(0, (1, 2)), linewidth=1.2, zorder=1)
    # above the highest threshold nothing is claimed: precision is taken as 1 there, as everywhere in the literature
    recall, precision = [*curve["recall"], 0.0], [*curve["precision"], 1.0]
    axis.plot(recall, precision, color=_CURVE.color, linewidth=1.4, zorder=2)
    axis.plot(training["recall"], training["precision"], "o", color=_CHOSEN, markersize=6, zorder=4)
    told = f"best F1 {training['f1']:.3f}\nprecision {training['precision']:.3f}, recall {training['recall']:.3f}"
    if test["precision"] is not None and test["recall"] is not None:
        axis.plot(test["recall"], test["precision"], "D", color=_TESTED, markersize=5, zorder=3)
    if test["f1"] is not None:
        told += f"\ntest F1 {test['f1']:.3f}"
    if test["false_positive_rate"] is not None:
        told += f"\ntest, clean texts warned of: {test['false_positive_rate']:.0%}"
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
    look: dict[str, Any] = {"fontsize": 8, "color": INK, "va": "bottom", "linespacing": 1.35, "bbox": paper}
    axis.text(0.03, 0.04, told, transform=axis.transAxes, **look)
    axis.set_xlim(-0.03, 1.03)
    axis.set_ylim(0, 1.05)
    axis.set_xlabel(f"recall; {training['n_attacked']} attacked, {training['n_clean']} clean texts")
    axis.set_ylabel("precision")
    axis.grid(color="#e2e2e2")
    axis.set_title(shorten(str(record["defense"]), 40))
    axis.tick_params(colors=MUTED, labelcolor=INK)


def _caption(records: Sequence[Mapping[str, Any]]) -> str:
    attacks = list(dict.fromkeys(attack for record in records for attack in record["training"]["attacks"]))
    helpers = list(dict.fromkeys(str(record["helper"]) for record in records))
    shown = ", ".join(shorten(attack, 30) for attack in attacks[:6]) + (", …" if len(attacks) > 6 else "")
    groups = sorted({len(record["training"]["groups"]) for record in records})
    count = f"{groups[0]}" if len(groups) == 1 else f"{groups[0]} to {groups[-1]}"
    return (
        f"Read by {', '.join(shorten(name, 40) for name in helpers)}. Positive: a text that an attack has changed "
        f"({shown}); both kinds of texts weigh the same, so that chance is a precision of 0.5. Thresholds were chosen "
        f"on the training texts, of {count} groups; what they find among test texts chose nothing."
    )
