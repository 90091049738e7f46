"""A judge card in some lines, for a terminal."""

from __future__ import annotations

from typing import Any

from judgebench.cards.card import JudgeCard
from judgebench.data.dataset import TEST
from judgebench.metrics.correlation import CORRELATIONS


def card_view(card: JudgeCard) -> str:
    """What was chosen, how well it does on the test split, and its limits."""
    lines = [f"Judge card: {card.title}"]
    test = card.figures.get(TEST, {})
    shown = [f"{name} {_figure(test, name)}" for name in CORRELATIONS if test.get(name) is not None]
    if shown:
        lines.append(f"  test split, {test['n']} texts: " + ", ".join(shown))
    if test.get("mean_absolute_error") is not None:
        lines.append(
            f"  estimates on the humans' scale are off by {_figure(test, 'mean_absolute_error')}; always saying the "
            f"mean: {_figure(test, 'guess_error')}"
        )
    return "\n".join([*lines, *(f"  - {limit}" for limit in card.limits)])


def _figure(figures: dict[str, Any] | Any, name: str) -> str:
    value, low, high = (figures.get(f"{name}{end}") for end in ("", "_low", "_high"))
    ends = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{value:.3f}{ends}"
