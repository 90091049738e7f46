"""What asking served models will take, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judgebench.decoding.rules import Decoding
from judgebench.judges.api.passes import ApiPass
from judgebench.judges.api.reader import ApiReader
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.readings.store import ReadingStore
from judgebench.types import Condition, Prompt

_NOWHERE = Path(":memory:")
"""A store that is no file: a dry run leaves none."""


def served_estimate(
    judge: ApiSpec,
    assistant: Assistant,
    decodings: Mapping[str, Decoding],
    prompts: Sequence[Prompt],
    null: Callable[[Condition], Prompt],
    worded: Mapping[str, int],
) -> str:
    """Requests, tokens and money that all prompts would take where nothing is stored: a line for each model, and one
    for their cost together where there are two.

    Args:
        judge, assistant, decodings, prompts, null, worded: as `ApiReader` takes them.
    """
    store = ReadingStore(_NOWHERE)
    reader = ApiReader(judge, assistant, decodings, prompts, null, store, worded)
    store.close()
    lines: list[str] = []
    costs: list[float | None] = []
    for spec in reader.sides.values():
        asked, cost = _of([one for one in reader.passes if one.spec.role == spec.role], spec)
        money = f"{spec.role}.price is not given" if cost is None else f"about ${cost:.6g} at most"
        model = f" for {spec.model}" if len(reader.sides) > 1 else ""
        lines.append(f"Requests to {spec.url}{model}: {asked} Cost: {money}.")
        costs.append(cost)
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs) > 1:
        lines.append(f"Together: about ${sum(known):.6g} at most.")
    if judge.max_cost is not None and sum(known) > judge.max_cost:
        lines.append(f"That may be more than judge.max_cost=${judge.max_cost:g}, at which a run ends.")
    return "\n".join(lines)


def _of(passes: Sequence[ApiPass], spec: ApiSpec) -> tuple[str, float | None]:
    """What one model is asked, in words, and what that costs at most in USD."""
    requests = follow = tokens = cost_tokens = answers = 0
    for one in passes:
        asked = {key: prompt for prompt in one.prompts for key in one.keys(prompt)}  # what is asked alike is asked once
        for prompt in asked.values():
            first, after = one.expected(prompt)
            requests += 1
            follow += after
            tokens += first.prompt_tokens
            cost_tokens += (1 + after) * first.prompt_tokens
            answers += (1 + after) * first.most_tokens
    chat, longer = spec.protocol == "chat", " or lengthen lists" if spec.explicit == "llama_cpp" else ""
    told = f"{requests:,}, with {'about ' if chat else ''}{tokens:,} prompt tokens"
    told += " (estimated: four characters each, and some for the frame; the server counts its own)" if chat else ""
    told += f", and up to {follow:,} more that follow scores of several tokens{longer}" if follow else ""
    return f"{told}.", spec.priced.of(cost_tokens, 0, answers)
