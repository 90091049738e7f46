"""Judge, assistant and decodings: whether they fit each other, and what a judge that is no model here can give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.config.keys import listed
from judgebench.defenses import Defense, Planned
from judgebench.defenses.detectors import DETECTORS
from judgebench.defenses.paraphrase import PARAPHRASE
from judgebench.defenses.references import REFERENCE_DEFENSES
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.replay import ReplaySpec
from judgebench.judges.settings import JudgeSettings
from judgebench.runtime.errors import UserError


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
