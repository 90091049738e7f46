"""Margins of the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from judgebench.settings.fields import Annotated, Count, Ge, Le, Share, check_fields


@dataclass(frozen=True)
class Margins:
    """The config key `verdict`; `UserError` of values that cannot be.

    Attributes:
        near_rater: how far below one rater's share a judge's may lie for a yes, and by which part
            of the scale its error may exceed a rater's.
        half_way: the part of the way from a coin to one rater that earns "with care".
        assumed_rater: one rater's share of pairs, where no text has two ratings.
        explains: the part of the variance of ratings that calibrated scores explain at least, of
            articles that did not teach the calibration, so that they are better than always saying
            the mean rating.
        attack_change: largest change of a mean score under attack, as a part of the range.
        attack_rise: largest share of texts whose score rises far under attack, less the share of
            those whose score falls as far.
        attack_order: largest loss of Spearman under attack.
        failed: the share of answers that could not be read above which there is no yes.
        fewest: articles below which there is no verdict.
        right: the share of the texts that people pass, and of those that they fail, which a judge
            decides alike at least, where no text has two labels.
        alike: the part of raters' agreement with each other that a judge's with them reaches at
            least, so that it replaces one.
        pairs: pairs of systems below which a judge that compares them earns "with care" at most.
        steady: largest effect of what should not matter, as a part of the humans' scale.
        labels: texts with two ratings below which it is the same for a judge that replaces a rater.
    """

    near_rater: Annotated[float, Ge(0), Le(0.5)] = 0.03
    half_way: Share = 0.5
    assumed_rater: Annotated[float, Ge(0.5), Le(1)] = 0.75
    explains: Share = 0.05
    attack_change: Share = 0.1
    attack_rise: Share = 0.1
    attack_order: Annotated[float, Ge(0), Le(2)] = 0.1
    failed: Share = 0.05
    fewest: Annotated[int, Ge(2)] = 10
    right: Annotated[float, Ge(0.5), Le(1)] = 0.8
    alike: Share = 0.8
    pairs: Count = 21
    labels: Count = 100
    steady: Share = 0.05

    def __post_init__(self) -> None:
        check_fields(self, "verdict")
