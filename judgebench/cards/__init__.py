"""Judge cards: what calibration leaves, and the judge that a card describes.

Example:
    from judgebench.cards import Judge

    judge = Judge.from_card("judge_card.yaml")
    print(judge.score("The article ...", "Its summary ..."))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from judgebench.cards.card import JudgeCard

if TYPE_CHECKING:
    from judgebench.cards.judge import Judge, Judged

__all__ = ["Judge", "JudgeCard", "Judged"]


def __getattr__(name: str) -> Any:
    """A judge needs torch, which takes seconds to import, and a card needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from judgebench.cards import judge

    return getattr(judge, name)
