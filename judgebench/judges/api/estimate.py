"""What asking a served judge will take, before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judgebench.judges.api.settings import ApiSpec
from judgebench.types import Prompt


def served_estimate(judge: Any, prompts: Sequence[Prompt]) -> str | None:
    """Requests, tokens and money that all prompts would take where nothing is stored; None for a judge that is not
    served. An assistant's are not in it, nor requests that follow scores of several tokens."""
    if not isinstance(judge, ApiSpec):
        return None
    each = judge.samples if judge.scores_from == "samples" else 1
    tokens = each * sum(len(prompt.token_ids) for prompt in prompts)
    how = "" if judge.protocol == "completions" else "about "
    told = f"Requests to {judge.url}: {each * len(prompts):,}, with {how}{tokens:,} prompt tokens"
    told += "" if judge.protocol == "completions" else " (estimated: four characters each; the server counts its own)"
    answer = 1 + max((len(text) for p in prompts for text in p.condition.range.candidates), default=1)
    most = answer if judge.scores_from == "logprobs" else judge.max_new_tokens
    cost = judge.priced.of(tokens, 0, each * len(prompts) * most)
    return f"{told}. " + ("Cost: judge.price is not given." if cost is None else f"Cost: about ${cost:.6g} at most.")
