"""The joint human score: the mean over dimensions that one prompt asks about together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from judgebench.data.loaded import Loaded

JOINT = "joint"
"""The dimension that CAP's absolute scoring prompt for SummEval is about: its four criteria in one score."""


def with_joint(loaded: Loaded, of: Sequence[str]) -> Loaded:
    """`loaded` with the dimension `joint`: the mean of the human scores on the dimensions `of`, of one common scale.

    Where single experts' scores are known, an expert's joint score is the mean of their own.
    """
    examples = [
        replace(one, human={**one.human, JOINT: float(np.mean([one.human[d] for d in of]))}) for one in loaded.examples
    ]
    ratings = dict(loaded.ratings)
    if all(dimension in ratings for dimension in of):
        ratings[JOINT] = np.mean([ratings[dimension] for dimension in of], axis=0)
    return replace(loaded, examples=examples, scale={**loaded.scale, JOINT: loaded.scale[of[0]]}, ratings=ratings)
