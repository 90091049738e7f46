"""Whoever wrote a run's references, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgebench.judges.loading import ModelSource


def tutor_title(config: Mapping[str, Any] | None) -> str | None:
    """The name of a tutor, as tables call it; None without one.

    Args:
        config: the run's key `tutor`.
    """
    if config is None or config.get("path") is None:
        return None
    return ModelSource(config["path"], config.get("gguf_file")).title
