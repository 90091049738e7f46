"""The keys of a run that are no part of it: how it is measured, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgebench.config.fields import Annotated, Ge, NotBlank, OneOf, Wording, check_fields
from judgebench.runtime.errors import UserError

MEASURE = "measure"
"""The value of `dry_run` that reads a little, to tell how long the whole takes."""

LEVELS = ("dataset", "document", "system")
"""Over what is correlated: all pairs, within each article, the systems' means."""

MOST_RESAMPLES = 100_000
"""More would move no third digit of an interval, and fill the memory."""


@dataclass(frozen=True)
class MetricSettings:
    """conf/config.yaml's `metrics`.

    Args:
        levels: at least one of `LEVELS`, none twice.
        resamples: of the groups, behind each 95 % interval: 0 (no intervals), or 2 to `MOST_RESAMPLES`.
        seed: of the resampling.

    Raises:
        UserError: names what is none of these.
    """

    levels: Annotated[Sequence[str], NotBlank(), Wording(f"a list with at least one of {', '.join(LEVELS)}")]
    resamples: Annotated[int, Ge(0)]
    seed: Annotated[int, Ge(0)]

    def __post_init__(self) -> None:
        check_fields(self, "metrics")
        if unknown := [level for level in self.levels if level not in LEVELS]:
            raise UserError(f"metrics.levels: {unknown[0]!r} is not one of {', '.join(LEVELS)}.")
        if twice := [level for level in LEVELS if list(self.levels).count(level) > 1]:
            raise UserError(f"metrics.levels: {twice[0]!r} stands there twice; name each level once.")
        if self.resamples == 1:
            raise UserError(
                "metrics.resamples: a single resample does not vary, so it says nothing of uncertainty; take 0 (no "
                "intervals), or at least 2: 1000 is usual."
            )
        if self.resamples > MOST_RESAMPLES:
            raise UserError(
                f"metrics.resamples: {self.resamples} is more than {MOST_RESAMPLES}, beyond which intervals gain "
                "nothing; 1000 is usual, 10000 is plenty."
            )


@dataclass(frozen=True)
class RunSettings:
    """Keys of conf/config.yaml that are switches."""

    report: bool
    examples: bool
    dry_run: Annotated[bool | Annotated[str, OneOf((MEASURE,))], Wording(f"one of true, false and {MEASURE}")]

    def __post_init__(self) -> None:
        check_fields(self, "")
