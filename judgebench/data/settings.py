"""What configuration says of any data; neither torch nor a file is needed to check it."""

from __future__ import annotations

from typing import Any

from judgebench.runtime.errors import UserError


def check_common(path: Any = None, limit_groups: Any = None, dev_share: Any = 0.1, seed: Any = 0) -> None:
    """Refuses settings that no data can have; see `judgebench.data.module.JudgeDataModule` for what each means.

    Raises:
        UserError: one is of another kind, or out of its bounds.
    """
    if path is not None and not isinstance(path, str):
        raise UserError(f"data.path must be text, got {path!r}; put quotes around it.")
    if limit_groups is not None and (not _is_whole(limit_groups) or limit_groups < 1):
        raise UserError(f"data.limit_groups must be null or a whole number of at least 1, got {limit_groups!r}.")
    if not isinstance(dev_share, int | float) or isinstance(dev_share, bool) or not 0 <= dev_share < 1:
        raise UserError(f"data.dev_share must be at least 0 and below 1, got {dev_share!r}.")
    if not _is_whole(seed) or seed < 0:
        raise UserError(f"data.seed must be a whole number of at least 0, got {seed!r}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
