"""Judge, assistant and decodings: whether they fit each other, and what a judge that is no model here can give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.asked.keys import listed
from judgebench.decoding.protocol import Decoding
from judgebench.defenses import Defense, Planned
from judgebench.defenses.detectors import DETECTORS
from judgebench.defenses.paraphrase import PARAPHRASE
from judgebench.defenses.references import REFERENCE_DEFENSES
from judgebench.errors import UserError
from judgebench.judges.api.fit import check_served
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.judges.reader import JudgeSpec, check_fit
from judgebench.judges.replay import ReplaySpec
from judgebench.judges.settings import JudgeSettings
from judgebench.own import built


def decodings_of(config: Mapping[Any, Any]) -> dict[str, Decoding]:
    """The entries of the decoding group that name a class; the knobs stand beside them."""
    found = {
        str(name): built(entry)
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


def check_elsewhere(config: DictConfig, judge: JudgeSettings) -> None:
    """Whether anything is asked for that needs a judge which is a model here.

    Raises:
        UserError: it is; names the key.
    """
    if isinstance(judge, ReplaySpec):
        check_replayed(config)
    if isinstance(judge, ApiSpec):
        check_away(config)


def check_away(config: DictConfig) -> None:
    """Whether anything is asked for that a judge behind a URL cannot give, be it asked or at hand.

    Raises:
        UserError: it is; names the key.
    """
    if config.get("tutor") is not None:
        raise UserError(
            "tutor: references are scored while they are made, which is not done with a served judge; take tutor=none."
        )
    for name in listed(config, "defenses"):
        if name in REFERENCE_DEFENSES:
            raise UserError(
                f"defenses: {name} needs references that are scored while they are made, which is not done with a "
                "served judge; leave it out."
            )
        if name == "retokenization" and OmegaConf.select(config, "judge.protocol") == "chat":
            raise UserError(
                "defenses: retokenization is a matter of tokens, and judge.protocol=chat sends text; leave it out, or "
                "take judge.protocol=completions with judge.tokenizer."
            )
        if name in (*DETECTORS, PARAPHRASE) and OmegaConf.select(config, "defense.helper.path") is None:
            raise UserError(
                f"defenses: {name} needs a model here, and the judge is served; name one with defense.helper.path=DIR "
                "(and defense.helper.gguf_file=), or leave it out."
            )


def check_replayed(config: DictConfig) -> None:
    """Whether anything is asked for that needs a model beside answers that were given earlier.

    Raises:
        UserError: it is; names the key.
    """
    if config.get("tutor") is not None:
        raise UserError("tutor: judge=replay computes nothing, so nobody needs references; take tutor=none.")
    if config.get("tune") is not None:
        raise UserError(
            "tune: judge=replay has answers and no probabilities, so there is no lambda or t to choose; take tune=none."
        )
    for name in listed(config, "defenses"):
        if name in REFERENCE_DEFENSES:
            raise _must_compute(str(name))


def check_ready(defenses: Sequence[Defense], judge: JudgeSettings) -> None:
    """Whether defenses need nothing computed; else `UserError`, for judge=replay."""
    if not isinstance(judge, ReplaySpec):
        return
    if planned := [defense.name for defense in defenses if isinstance(defense, Planned)]:
        raise _must_compute(planned[0])


def _must_compute(name: str) -> UserError:
    return UserError(
        f"defenses: {name} must compute something, and judge=replay has answers only; leave it out. Answers that were "
        "given under a defense of your own go by the name of its template, as in {template: FILE.txt, name: mine}."
    )


def most_tokens(config: Any) -> int:
    """Tokens that a model of this configuration can read."""
    text = config.get_text_config(decoder=True)
    return int(getattr(text, "max_position_embeddings", None) or 2**31)
