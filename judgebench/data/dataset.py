"""A data set as its file has it, the checks after which all rooms trust it, and its split into dev and test groups."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from judgebench.runtime.errors import UserError
from judgebench.types import Example

DEV, TEST = "dev", "test"

JOINT = "joint"
"""The dimension that CAP's absolute scoring prompt for SummEval is about: its four criteria in one score."""

_ROUNDING = 1e-6
"""Means of ratings may overstep an end of the scale by rounding, as in 4.9999999 + 1e-7."""


@dataclass(frozen=True)
class Dataset:
    """A data set as its file has it.

    Attributes:
        examples: in file order.
        scale: dimension -> (lowest, highest) human score; a dimension without an entry is not checked.
        ratings: dimension -> [examples, raters] the single experts' scores, rows as in `examples`; empty where only
            means are known.
        places: for each example, where it stands ("mini.jsonl line 3"), for errors; or empty.
        rated: whether humans scored the texts; where they did not, the scores are NaN and go unchecked.
    """

    examples: list[Example]
    scale: Mapping[str, tuple[float, float]]
    ratings: Mapping[str, np.ndarray] = field(default_factory=dict)
    places: Sequence[str] = ()
    rated: bool = True


def group_hash(*texts: str) -> str:
    """A short stable name for a group that has none: the same for the same texts, on any machine."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def validate(loaded: Dataset) -> None:
    """Checks what all later rooms rely on.

    Raises:
        UserError: no example; an example_id used twice; a blank source or output; a group whose examples answer to
            different sources; a human score that is missing, not finite or outside the scale. Names the first such
            example and its place.
    """
    examples = loaded.examples
    if not examples:
        raise UserError("the data holds no example; it must hold at least one.")
    dimensions = tuple(examples[0].human)
    if not dimensions:
        raise UserError(f"{_where(loaded, 0)}: has no human score; at least one dimension must be scored.")
    for dimension in loaded.scale:
        if dimension not in dimensions:
            raise UserError(
                f"scale: '{dimension}' is no dimension with human scores; those of this data are {_listed(dimensions)}."
            )

    _check_ratings(loaded)
    seen: dict[str, int] = {}
    first_of_group: dict[str, int] = {}
    for i, example in enumerate(examples):
        where = _where(loaded, i)
        first = seen.setdefault(example.example_id, i)
        if first != i:
            raise UserError(f"{where}: this example_id is taken by {_where(loaded, first)}; each must be unique.")
        for what, text in (("judged text", example.output), ("source", example.source)):
            if not text.strip():
                raise UserError(f"{where}: the {what} is empty; write it, or remove the example.")
        first = first_of_group.setdefault(example.group_id, i)
        if (example.source, example.context) != (examples[first].source, examples[first].context):
            raise UserError(
                f"{where}: group '{example.group_id}' has another source or context here than for"
                f" {_where(loaded, first)}; a group is one article or dialogue, so give each its own group_id."
            )
        if loaded.rated:
            _check_human(example.human, dimensions, loaded.scale, where)


def _check_human(
    human: Mapping[str, float], dimensions: Sequence[str], scale: Mapping[str, tuple[float, float]], where: str
) -> None:
    if set(human) != set(dimensions):
        missing = [d for d in dimensions if d not in human]
        if missing:
            raise UserError(f"{where}: has no human score for {_listed(missing)}; every example needs one.")
        extra = [d for d in human if d not in dimensions]
        raise UserError(f"{where}: has a human score for {_listed(extra)}, which the first example lacks; all need it.")
    for dimension, value in human.items():
        problem = _problem(value, scale.get(dimension))
        if problem:
            raise UserError(f"{where}: the human score {value:g} for '{dimension}' {problem}.")


def _check_ratings(loaded: Dataset) -> None:
    for dimension, ratings in loaded.ratings.items():
        low, high = loaded.scale.get(dimension, (-math.inf, math.inf))
        good = np.isfinite(ratings) & (ratings >= low - _ROUNDING) & (ratings <= high + _ROUNDING)
        if not good.all():
            i, rater = (int(k) for k in np.argwhere(~good)[0])
            value = float(ratings[i, rater])
            problem = _problem(value, loaded.scale.get(dimension))
            raise UserError(
                f"{_where(loaded, i)}: the score {value:g} of expert {rater + 1} for '{dimension}' {problem}."
            )


def _problem(value: float, scale: tuple[float, float] | None) -> str:
    if not math.isfinite(value):
        return "is not a finite number; give one"
    if scale is not None and not scale[0] - _ROUNDING <= value <= scale[1] + _ROUNDING:
        return f"lies outside the data's own scale, {scale[0]:g} to {scale[1]:g}"
    return ""


def _where(loaded: Dataset, i: int) -> str:
    named = f"example '{loaded.examples[i].example_id}'"
    return f"{loaded.places[i]}, {named}" if loaded.places else named


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def with_joint(loaded: Dataset, of: Sequence[str]) -> Dataset:
    """`loaded` with the dimension `joint`: the mean of the human scores on the dimensions `of`, of one common scale.

    Where single experts' scores are known, an expert's joint score is the mean of their own.
    """
    examples = [
        replace(example, human={**example.human, JOINT: float(np.mean([example.human[d] for d in of]))})
        for example in loaded.examples
    ]
    ratings = dict(loaded.ratings)
    if all(dimension in ratings for dimension in of):
        ratings[JOINT] = np.mean([ratings[dimension] for dimension in of], axis=0)
    return replace(loaded, examples=examples, scale={**loaded.scale, JOINT: loaded.scale[of[0]]}, ratings=ratings)


def split_groups(group_ids: Iterable[str], dev_share: float, seed: int) -> dict[str, str]:
    """Splits whole groups into "dev" and "test".

    The dev set has `dev_share` of the groups, rounded half up; at least one if `dev_share` is above 0, and always
    leaves one group to test on. A single group is a test group. Which groups are drawn depends on `seed` and on the
    set of ids alone, not on their order; with a greater `dev_share` the dev set only grows.

    Args:
        group_ids: ids of the groups; repeats are allowed.
        dev_share: share of groups in [0, 1).
        seed: seed of the draw, 0 or above.

    Returns:
        group_id -> "dev" or "test", in the order of first appearance.

    Example:
        >>> split_groups(["b", "a", "b", "c"], dev_share=0.1, seed=0)
        {'b': 'test', 'a': 'test', 'c': 'dev'}
    """
    groups = list(dict.fromkeys(group_ids))
    # As a decimal, because 0.145 * 100 is 14.499999999999998 in binary and would round down.
    wanted = int((Decimal(repr(float(dev_share))) * len(groups)).to_integral_value(ROUND_HALF_UP))
    if dev_share > 0:
        wanted = max(wanted, 1)
    wanted = min(wanted, max(len(groups) - 1, 0))

    order = np.random.default_rng(seed).permutation(len(groups))
    ordered = sorted(groups)
    dev = {ordered[i] for i in order[:wanted]}
    return {group: DEV if group in dev else TEST for group in groups}
