"""Judge cards: what calibration leaves, and the judge that a card describes.

Example:
    from judgebench.cards import Judge

    judge = Judge.from_card("judge_card.yaml")
    print(judge.score("The article ...", "Its summary ..."))
"""

from judgebench.cards.card import JudgeCard
from judgebench.cards.judge import Judge, Judged

__all__ = ["Judge", "JudgeCard", "Judged"]
