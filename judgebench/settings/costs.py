"""Settings of decisions: what mistakes cost, which texts people see, and how wide an interval may be."""

from __future__ import annotations

from dataclasses import dataclass

from judgebench.settings.fields import Annotated, Gt, Le, Lt, OneOf, check_fields


@dataclass(frozen=True)
class Costs:
    """The config key `costs`: `false_pass` and `false_fail`, prices of two mistakes, of which the
    ratio counts: a text that people fail is passed, and a text that they pass is failed; `threshold`,
    the score from which a text passes, as the judge says it, where it is not to be chosen (see
    `ScoreRange.threshold`); `UserError` of values that cannot be."""

    false_pass: Annotated[float, Gt(0)] = 1.0
    false_fail: Annotated[float, Gt(0)] = 1.0
    threshold: float | str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "costs")


RATER = "rater"
"""The `error` of `Asking` that is one rater's."""


@dataclass(frozen=True)
class Asking:
    """The config key `ask`: `error`, the largest share of mistakes among the texts that a judge
    decides, so that people see the others, or `rater`: that which one rater makes; `UserError` of
    values that cannot be."""

    error: Annotated[float, Gt(0), Lt(0.5)] | Annotated[str, OneOf((RATER,))] = 0.05

    def __post_init__(self) -> None:
        check_fields(self, "ask")


@dataclass(frozen=True)
class IntervalSettings:
    """conf/score.yaml's `coverage`, the share of texts whose interval is to hold the humans' score,
    and `wide`, the share of the humans' scale beyond which an interval is too wide to use;
    `UserError` of values that cannot be."""

    coverage: Annotated[float, Gt(0), Lt(1)] = 0.9
    wide: Annotated[float, Gt(0), Le(1)] = 0.5

    def __post_init__(self) -> None:
        check_fields(self, "")
