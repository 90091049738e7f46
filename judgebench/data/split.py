"""Which articles are for tuning (dev) and which for reporting (test)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

DEV, TEST = "dev", "test"


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
