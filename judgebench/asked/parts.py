"""Judge, assistant and decodings: whether they fit each other; torch is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig

from judgebench.components import build_component
from judgebench.decoding.protocol import Decoding
from judgebench.errors import UserError
from judgebench.judges.api.fit import check_served
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.judges.settings import JudgeSettings
from judgebench.judges.spec import JudgeSpec, check_fit


def decodings_of(config: Mapping[Any, Any]) -> dict[str, Decoding]:
    """The entries of the decoding group that name a class; the knobs stand beside them."""
    found = {
        str(name): build_component(entry)
        for name, entry in config.items()
        if isinstance(entry, DictConfig) and "_target_" in entry
    }
    if not found:
        raise UserError("decoding: none is chosen; give at least one, as decoding=[greedy,contrastive].")
    for name, one in found.items():
        if not isinstance(one, Decoding):
            raise UserError(
                f"decoding.{name}: {type(one).__name__} is no decoding, for it lacks some of what "
                "judgebench.decoding.protocol asks for; begin with a subclass of Greedy, Expectation or Contrastive of "
                "judgebench.decoding."
            )
    return found


def check_parts(judge: JudgeSettings, assistant: Assistant, decodings: Mapping[str, Decoding]) -> None:
    """Whether the parts of a judge fit each other; see `check_fit` for one that is a model, `check_served` for one
    behind a URL.

    Raises:
        UserError: they do not, or answers that were given earlier are to be decoded otherwise or contrasted.
    """
    if isinstance(judge, ApiSpec):
        check_served(judge, assistant, decodings)
        return
    if assistant.kind == "api":
        raise UserError(
            "assistant=api: a served assistant goes with a served judge; take judge=api, or a model here with "
            "assistant=model."
        )
    if isinstance(judge, JudgeSpec):
        check_fit(judge, assistant, decodings)
        return
    if assistant.kind != "none":
        raise UserError(
            f"assistant={assistant.kind}: judge=replay has answers and no probabilities to contrast with; take "
            "assistant=none."
        )
    if other := [name for name, one in decodings.items() if one.kind != "greedy"]:
        raise UserError(
            f"decoding {other[0]}: judge=replay has answers and no probabilities to decode; take decoding=[greedy]."
        )
    if len(decodings) > 1:
        raise UserError(
            f"decoding: {', '.join(decodings)} would all read the same answers of judge=replay; take decoding=[greedy]."
        )
