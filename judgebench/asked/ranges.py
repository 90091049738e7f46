"""The score ranges that are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from judgebench.runtime.errors import UserError
from judgebench.types import ScoreRange


def check_ranges(rangeless: Sequence[str], ranges: Sequence[ScoreRange]) -> None:
    """Whether every rubric says which range is meant, where there are several; else `UserError`.

    Args:
        rangeless: the dimensions whose rubrics do not.
    """
    if len(ranges) > 1 and rangeless:
        raise UserError(
            f"ranges: {', '.join(map(str, ranges))} would all be asked for in the same words, for the rubric for "
            f"{rangeless[0]!r} does not name the range; write {{min_range}} and {{max_range}} in it, or give the one "
            "range that it speaks of."
        )
