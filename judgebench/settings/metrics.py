"""Settings of correlations, their intervals, and of systems that are ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judgebench.settings.fields import (
    Annotated,
    Distinct,
    Ge,
    Le,
    Natural,
    NotBlank,
    OneOf,
    check_fields,
    settings_of,
)

LEVELS = ("dataset", "document", "system")
"""Levels of correlation: over all pairs, within each article, over the systems' means."""


MOST_RESAMPLES = 100_000
"""More would move no third digit of an interval, and fill the memory."""


@dataclass(frozen=True)
class MetricSettings:
    """conf/config.yaml's `metrics`; `UserError` of values that cannot be.

    Args:
        levels: at least one of `LEVELS`, none twice.
        resamples: of the groups, behind each 95 % interval: 0 (no intervals), or 2 to
            `MOST_RESAMPLES`.
    """

    levels: Annotated[Sequence[Annotated[str, OneOf(LEVELS)]], NotBlank(), Distinct()]
    resamples: Annotated[int, Ge(0), Le(MOST_RESAMPLES)]
    seed: Natural

    def __post_init__(self) -> None:
        check_fields(self, "metrics")

    def faults(self) -> Iterator[str]:
        if self.resamples == 1:
            yield (
                "metrics.resamples: a single resample does not vary, so it says nothing of "
                "uncertainty; take 0 (no intervals), or at least 2: 1000 is usual."
            )


@dataclass(frozen=True)
class Ranking:
    """conf/config.yaml's `pairwise`.

    Attributes:
        prior: comparisons given beforehand, see `bradley_terry.fit_strengths`.
    """

    prior: Annotated[float, Ge(0.001), Le(1000)] = 1.0

    @classmethod
    def parse(cls, given: Any) -> Ranking:
        """From the config key `pairwise`."""
        ranking = settings_of(cls, given, "pairwise")
        return replace(ranking, prior=float(ranking.prior))
