"""The Pareto front, without anything that takes long to import: sweeps need it at their start."""

from __future__ import annotations

from collections.abc import Sequence


def pareto_front(values: Sequence[Sequence[float]], directions: Sequence[str]) -> list[int]:
    """The positions of those values that no others beat: better in one and at least as good in all.

    Args:
        directions: maximize or minimize, one an objective.

    Example:
        >>> pareto_front([(1, 5), (2, 5), (2, 6), (0, 1)], ["maximize", "minimize"])
        [1, 3]
    """
    signs = [1.0 if direction == "minimize" else -1.0 for direction in directions]
    costs = [[sign * value for sign, value in zip(signs, point, strict=True)] for point in values]
    return [
        position
        for position, own in enumerate(costs)
        if not any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in costs)
    ]
