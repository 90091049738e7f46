"""A calibrated judge as an Inspect scorer (`pip install 'judgebench[inspect]'`).

Example:
    from inspect_ai import Task
    from judgebench.adapters.inspect_ai import judge_card

    Task(dataset=..., solver=..., scorer=judge_card("judge_card.yaml"))
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from judgebench.cards.judge import Judge
from judgebench.runtime.errors import UserError
from judgebench.types import FAILED


@scorer(metrics=[mean(), stderr()])
def judge_card(
    card: str, source: str | None = None, estimate: bool = False, **options: Any
) -> Scorer:
    """Scores what a model has written with the judge of a card.

    Args:
        card: the judge card's file.
        source: the metadata entry of a sample that holds the article or dialogue; None takes the
            sample's input.
        estimate: whether the value is what humans would have said, on their scale, and not the
            judge's own score.
        **options: see `judgebench.cards.Judge`.

    Raises:
        UserError: no such card, or a card without a map to the humans' scale where `estimate` asks
            for it.
    """
    judge = Judge.from_card(card, **options)
    judge.check_estimate(estimate)
    verdict = {"verdict": {use["use"]: use["verdict"] for use in judge.card.uses}}
    turn = asyncio.Lock()  # a model reads one text at a time

    async def score(state: TaskState, target: Target) -> Score:
        if source is not None and not isinstance(state.metadata.get(source), str):
            raise UserError(
                f"source: sample {state.sample_id} has no text called {source!r} in its metadata."
            )
        text = state.input_text if source is None else str(state.metadata[source])
        # one model that says nothing ends no evaluation of many
        if not state.output.completion.strip():
            return Score.unscored(
                explanation="There is no answer to judge.", metadata={"status": FAILED}
            )
        async with turn:
            judged = await asyncio.to_thread(judge.score, text, state.output.completion)
        value = judged.estimate if estimate else judged.score
        if math.isnan(value):
            return Score.unscored(
                explanation="The judge gave no score.", metadata={"status": judged.status}
            )
        return Score(
            value=value,
            answer=state.output.completion,
            explanation=f"{judge.card.title}: {judged.score:g}",
            metadata={
                name: one for name, one in vars(judged).items() if one is not None and one == one
            }
            | verdict,
        )

    return score
