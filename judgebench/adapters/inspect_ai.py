"""A calibrated judge as an Inspect scorer (`pip install 'judgebench[inspect]'`).

Example:
    from inspect_ai import Task
    from judgebench.adapters.inspect_ai import judge_card

    Task(dataset=..., solver=..., scorer=judge_card("judge_card.yaml"))

A card that says pass or fail is `judge_decision("judge_card.yaml")`, too: C and I.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Score,
    Scorer,
    Target,
    accuracy,
    mean,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState

from judgebench.cards.card import ASK
from judgebench.cards.judge import Judge, Judged
from judgebench.types import FAILED
from judgebench.words.errors import UserError


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

    def value(judged: Judged) -> float | None:
        number = judged.estimate if estimate else judged.score
        return None if math.isnan(number) else number

    return _scoring(judge, source, value)


@scorer(metrics=[accuracy(), stderr()])
def judge_decision(card: str, source: str | None = None, **options: Any) -> Scorer:
    """C where the judge of a card passes what a model has written, and I where it fails it; a text
    that it leaves to a person is not scored, and has the decision `ask` in its metadata.

    Args:
        card, source, **options: see `judge_card`.

    Raises:
        UserError: no such card, or a card that does not say pass or fail.
    """
    judge = Judge.from_card(card, **options)
    decision = judge.card.decision
    if decision is None:
        raise UserError("card: it does not say pass or fail; take its scores, by judge_card.")
    values = {decision["pass"]: CORRECT, decision["fail"]: INCORRECT}
    return _scoring(judge, source, lambda judged: values.get(judged.decision))


def _scoring(
    judge: Judge, source: str | None, value_of: Callable[[Judged], float | str | None]
) -> Scorer:
    """A scorer by a judge; `value_of`: the value of its answer, None of one without."""
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
        value = value_of(judged)
        if value is None:
            asks = judged.decision == ASK
            return Score.unscored(
                explanation="A person is to see it." if asks else "The judge gave no score.",
                metadata={"status": judged.status, "decision": judged.decision},
            )
        return Score(
            value=value,
            answer=state.output.completion,
            explanation=f"{judge.card.title}: {judge.card.range.mirrored(judged.score):g}",
            metadata={
                name: one for name, one in vars(judged).items() if one is not None and one == one
            }
            | verdict,
        )

    return score
