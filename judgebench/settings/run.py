"""Settings of a run as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgebench.settings.fields import Annotated, OneOf, check_fields

PAPERS = ("cd", "cap")
"""Values of `tables`: the tables of the contrastive-decoding paper, and of the CAP paper."""

LOGGER_MODES = ("offline", "online", "disabled")
"""Values of `logger.mode`: files that `wandb sync` can send later, at once, or nothing."""


@dataclass(frozen=True)
class RunSettings:
    """Keys of conf/config.yaml that are switches."""

    report: bool
    human_agreement: bool
    examples: bool
    dry_run: bool
    baseline: str | None
    print: Annotated[str, OneOf(("answer", "all", "none"))]
    figures: Annotated[str, OneOf(("png",))] | None = None
    compile: bool | None = None
    tables: Sequence[Annotated[str, OneOf(PAPERS)]] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "")
