"""Whether the parts of a served judge fit each other."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.decoding.protocol import Decoding
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import check_vocabularies
from judgebench.runtime.errors import UserError


def check_served(judge: ApiSpec, assistant: Assistant, decodings: Mapping[str, Decoding]) -> None:
    """Whether the parts of a served judge fit each other.

    Raises:
        UserError: a decoding or an assistant that cannot be had of what a server gives.
    """
    if assistant.kind in ("model", "early_exit"):
        raise UserError(
            f"assistant={assistant.kind}: the judge is served, and its layers and a model here cannot be read beside "
            "it; take assistant=api, a second model behind a URL, assistant=null_context or assistant=none."
        )
    for name, decoding in decodings.items():
        if decoding.needs_assistant and assistant.kind == "none":
            raise UserError(
                f"decoding {name}: it needs an assistant; choose one with assistant=api or assistant=null_context."
            )
        if judge.scores_from == "text" and decoding.kind != "greedy":
            raise UserError(
                f"decoding {name}: it reads the candidates' probabilities, which judge.scores_from=text does not give; "
                "choose decoding=[greedy], or judge.scores_from=logprobs or samples."
            )
        if judge.scores_from == "samples" and decoding.needs_assistant:
            raise UserError(
                f"decoding {name}: shares of {judge.samples} samples are 0 for most candidates, and their logarithms "
                "are nothing to contrast; take judge.scores_from=logprobs, or decoding=[greedy,expectation]."
            )
    if judge.scores_from == "text" and len(decodings) > 1:
        raise UserError(
            f"decoding: {', '.join(decodings)} would all read the same answers of judge.scores_from=text; take "
            "decoding=[greedy]."
        )
    if judge.scores_from != "logprobs" and assistant.kind == "null_context":
        raise UserError(
            "assistant=null_context: it is asked for log-probabilities, so it needs judge.scores_from=logprobs."
        )
    if assistant.served is not None:
        other = assistant.served.spec(judge)
        if judge.protocol == "completions":
            ours, theirs = judge.own_tokenizer, other.own_tokenizer
            assert ours is not None
            assert theirs is not None
            # what is sent are the judge's tokens
            check_vocabularies(ours.tokenizer(), theirs.tokenizer())
