"""A calibrated judge as a DeepEval metric (`pip install deepeval`).

Example:
    from deepeval import evaluate
    from judgebench.adapters.deepeval import JudgeCardMetric

    evaluate(test_cases=[...], metrics=[JudgeCardMetric("judge_card.yaml")])
"""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

from judgebench.cards.card import ASK
from judgebench.cards.judge import Judge

_TURN = threading.Lock()  # a model reads one text at a time


class JudgeCardMetric(BaseMetric):
    """The score that the judge of a card gives a test case's `actual_output`, given its `input`,
    from 0 to 1.

    DeepEval makes a copy of a metric for each test case, of the attributes that its arguments are
    named after: `card` is the judge itself, so that all copies share one model, and `threshold`
    keeps what was given.

    Args:
        card: the judge card's file, or its judge; `UserError` where there is no such file.
        threshold: least share of the way from the card's lowest score to its highest at which a
            test case passes. None takes the card's own decisions, and shows its pass mark; 0.5
            where it has none.
        **options: see `judgebench.cards.Judge`; of a file.

    Attributes:
        score: share of that way; 0 where the judge gave no score or there is nothing to judge:
            `error` then says so.
        score_breakdown: the judge's answer, the fields of `judgebench.cards.judge.Judged`.
    """

    def __init__(self, card: str | Judge, threshold: float | None = None, **options: Any) -> None:
        self.card = card if isinstance(card, Judge) else Judge.from_card(card, **options)
        decision = self.card.card.decision
        self.passes = decision["pass"] if decision and threshold is None else None
        self.threshold = threshold
        self.score: float | None = None
        self.reason: str | None = None
        self.success: bool | None = None
        self.error: str | None = None
        self.evaluation_model = self.card.card.title

    @property
    def threshold(self) -> float:
        """The threshold that was given, else the pass mark's share of the way, else 0.5."""
        given: float | None = vars(self)["threshold"]
        decision = self.card.card.decision
        if given is not None:
            return given
        return self._share(decision["pass_mark"]) if decision else 0.5

    @threshold.setter
    def threshold(self, given: float | None) -> None:
        self.__dict__["threshold"] = given

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        """Judges one test case; see `score`."""
        if not (test_case.actual_output or "").strip():
            self.score = 0.0
            self.success = False
            self.reason = self.error = "There is no actual_output to judge."
            return self.score
        with _TURN:
            judged = self.card.score(str(test_case.input), str(test_case.actual_output))
        self.score_breakdown = vars(judged)
        score_range = self.card.card.range
        said, worst, best = map(
            score_range.mirrored, (judged.score, score_range.minimum, score_range.maximum)
        )
        failed = math.isnan(judged.score)
        self.score = 0.0 if failed else self._share(judged.score)
        self.error = "The judge gave no score." if failed else None
        self.reason = self.error or f"{self.card.card.title}: {said:g} of {worst:g} to {best:g}"
        self.success = not failed and self.score >= self.threshold
        if self.passes is not None:
            self.success = judged.decision == self.passes
        if judged.decision == ASK:
            self.reason += f"; {ASK}: a person is to see the text"
        return self.score

    def _share(self, score: float) -> float:
        """The share of the way from the card's lowest score to its highest."""
        low = self.card.card.range.minimum
        high = self.card.card.range.maximum
        return (score - low) / (high - low)

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        """The same, in a thread of its own."""
        return await asyncio.to_thread(self.measure, test_case)

    def is_successful(self) -> bool:
        return bool(self.success)

    @property
    def __name__(self) -> str:  # what DeepEval's tables call it
        return f"Judge card ({self.card.card.dimension})"
