"""More keys of each request to a server, as the user gives them: none that says what judgebench says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from judgebench.runtime.errors import UserError, shown
from judgebench.runtime.parsing import parse_json

_PROMPT = "the prompt is what judgebench asks, and another would be judged in its place"
_LISTS = "which lists are asked for follows from {role}.scores_from, {role}.explicit and {role}.top_logprobs"
_ONE = "one answer a request is read and paid for; see {role}.samples"
_OWN_BODY = {
    **dict.fromkeys(("messages", "prompt", "input_ids", "text", "input", "input_embeds", "suffix", "echo"), _PROMPT),
    **dict.fromkeys(("logprobs", "top_logprobs", "logprob_token_ids", "return_tokens_as_token_ids"), _LISTS),
    **dict.fromkeys(("return_logprob", "top_logprobs_num", "token_ids_logprob"), _LISTS),
    **dict.fromkeys(("n", "best_of", "stream"), _ONE),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "sampling_params"),
        "how long an answer may be, and so what it may cost, is {role}.max_new_tokens",
    ),
    "model": "the model is {role}.model",
    "temperature": "the temperature is {role}.temperature",
    "seed": "the seed is {role}.seed",
}
"""Keys of a request that have another place, and which."""


def parse_extra(given: Any, role: str) -> dict[str, Any]:
    """The config key `<role>.extra_body`, as plain JSON.

    Raises:
        UserError: no mapping, nothing that JSON can hold, or a key that has another place.
    """
    key = f"{role}.extra_body"
    if not isinstance(given, Mapping):
        raise UserError(f"{key}: must be a mapping, got {shown(given)}.")
    for name in given:
        if name in _OWN_BODY:
            raise UserError(f"{key}.{name}: {_OWN_BODY[name].format(role=role)}; leave it out of extra_body.")
    try:
        text = json.dumps(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{key}: cannot be written as JSON ({error}).") from None
    plain: dict[str, Any] = parse_json(text, key)
    return plain
