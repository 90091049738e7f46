"""Parts of the sentences of a verdict, and the articles that would tell."""

from __future__ import annotations

import math

from judgebench.stats.clusters import Estimate


def subtracted(top: float, estimate: Estimate) -> Estimate:
    """A number less an estimate.

    Example:
        >>> subtracted(1.0, Estimate(0.75, 0.5, 1.0))
        Estimate(value=0.25, low=0.0, high=0.5)
    """
    high, low = (None if end is None else top - end for end in estimate[1:])
    return Estimate(top - estimate.value, low, high)


def articles_needed(groups: int, width: float, distance: float) -> int | None:
    """Articles, more than these, of which an interval as wide as this one is no wider than a
    distance; None where there is no distance, or no width is known."""
    if distance <= 0 or math.isinf(width):
        return None
    return max(math.ceil(groups * (width / distance) ** 2), groups + 1)


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def may_tell(needed: int | None) -> str:
    return f"; {needed} articles may tell" if needed else ""


def percents(share: Estimate) -> str:
    percent = f"{percent_of(share.value)} %"
    if share.low is None or share.high is None:
        return percent
    return f"{percent} [{percent_of(share.low)}, {percent_of(share.high)}]"


def percent_of(share: float) -> str:
    return f"{100 * share:.0f}"


def two_decimals(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
