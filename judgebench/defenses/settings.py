"""Settings of defenses beyond their names (conf/defense)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from judgebench.settings.fields import Count, Natural, Words, check_fields
from judgebench.tutor.spec import HelpingModel


@dataclass(frozen=True)
class Helper(HelpingModel):
    """The model that scores perplexity."""

    max_batch_tokens: Count = 4096
    role: ClassVar[str] = "defense.helper"

    def __post_init__(self) -> None:
        check_fields(self, self.role, of=("engine", "max_batch_tokens"))


@dataclass(frozen=True)
class DefenseSettings:
    """See conf/defense.

    Args:
        seed: of all that defenses draw but the tutor's texts.
        cot_tokens: longest answer under `cot`.
        thought_tokens: most tokens of the thoughts under `reasoning`.
        anchors, anchors_sources: texts a score that `anchors` shows, and whether with what they
            answer to.
        swap_references: put the good reference under "lower" and the poor one under "higher", as
            the CAP paper prints.
        detectors: file of detectors that an earlier run has fitted, to be used again; None fits
            them.
    """

    helper: Helper
    seed: Natural = 0
    cot_tokens: Count = 512
    thought_tokens: Count = 512
    anchors: Count = 1
    anchors_sources: bool = False
    swap_references: bool = False
    detectors: Words | None = None

    def __post_init__(self) -> None:
        check_fields(self, "defense")
