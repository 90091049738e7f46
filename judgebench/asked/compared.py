"""Texts that are compared: rivals, places, ties; all conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.attacks import Attack
from judgebench.config.keys import typed_overrides
from judgebench.data.module import JudgeDataModule
from judgebench.data.pairs import Rivals
from judgebench.defenses import Defense
from judgebench.metrics.ranking import Ranking
from judgebench.runtime.errors import UserError
from judgebench.types import ORDERS, PLACES, PLACES_OR_TIE, TIE, Condition, ScoreRange

_PAIRS = ("rivals", "rivals_seed")


def all_conditions(
    cells: Sequence[tuple[str, ScoreRange]], attacks: Sequence[Attack], defenses: Sequence[Defense], compared: bool
) -> list[Condition]:
    """Every cell under every attack and every defense, and where texts are compared in both orders."""
    orders = ORDERS if compared else ("",)
    return [
        Condition(dimension, score_range, attack.name, defense.name, order)
        for dimension, score_range in cells
        for attack in attacks
        for defense in defenses
        for order in orders
    ]


def rivals_of(prompt: Any) -> tuple[Any, Rivals | None]:
    """conf/prompt without its keys on rivals, and those."""
    if not isinstance(prompt, Mapping) or not set(_PAIRS) & set(prompt):
        return prompt, None
    rivals = Rivals.parse(prompt.get("rivals"), prompt.get("rivals_seed", 0))
    return {key: value for key, value in prompt.items() if key not in _PAIRS}, rivals


def ranking_of(config: DictConfig) -> Ranking:
    """How systems are ranked where texts are compared."""
    given = config.get("pairwise")
    return Ranking.parse(OmegaConf.to_container(given, resolve=True) if OmegaConf.is_config(given) else given)


def check_compared(
    comparative: bool, rivals: Rivals | None, ranges: list[ScoreRange], defenses: Sequence[Defense]
) -> None:
    """Whether rubrics, rivals, ranges and defenses speak of the same: of texts compared, or of texts judged alone."""
    if comparative and (alone := [defense.name for defense in defenses if not defense.compares]):
        raise UserError(
            f"defenses: {alone[0]} is for texts that are judged alone, and these rubrics compare two; leave it out, or "
            "choose prompt=cap or prompt=paper."
        )
    if comparative and rivals is None:
        raise UserError(
            "prompt.rivals is not given, and these rubrics compare two texts; choose prompt=comparative, with "
            "prompt.rubrics=FOLDER for rubrics of your own."
        )
    if rivals is not None and not comparative:
        raise UserError(
            "prompt.rivals: these rubrics judge one text alone, so there is nothing to compare it with; name rubrics "
            "with {{Summary_1}} and {{Summary_2}} in prompt.rubrics, or choose prompt=paper."
        )
    if comparative and ranges not in ([PLACES], [PLACES_OR_TIE]):
        raise UserError(
            f"ranges: {', '.join(map(str, ranges))} cannot be asked for where two texts are compared: the answer is "
            "the place of the better one; give 'ranges=[[1,2]]', as prompt=comparative does by itself, or "
            "'ranges=[[0,2]]' where 0 is a tie."
        )


def check_paired(data: JudgeDataModule, comparative: bool) -> None:
    """Whether data whose rows are pairs of texts is compared, just as it stands.

    Raises:
        UserError: it is not, or the command line asks for other pairs.
    """
    if not data.paired:
        return
    if not comparative:
        raise UserError(
            f"data: each row of {data.name} is two texts, and these rubrics judge one alone; choose prompt=comparative."
        )
    if given := [
        one for one in typed_overrides() if one.lstrip("+").startswith(("prompt.rivals=", "prompt.rivals_seed="))
    ]:
        raise UserError(
            f"{given[0]}: {data.name} says itself who meets whom, so this would change nothing; leave it out."
        )


def check_ties(tieless: Sequence[str], ranges: Sequence[ScoreRange]) -> None:
    """Whether every rubric says how a tie is answered, where the judge may find one; else `UserError`."""
    if PLACES_OR_TIE in ranges and tieless:
        raise UserError(
            f"ranges: {PLACES_OR_TIE} lets the judge find a tie, and the rubric for {tieless[0]!r} does not say that "
            f"this is answered with {TIE:g}; write so in it, as in {{ties:, or 0 if both are equally good}}, or give "
            "'ranges=[[1,2]]'."
        )
