"""From a card to the experiment that scores with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard
from judgebench.configuration import FOLDER
from judgebench.errors import UserError

_TRAINER = {
    "_target_": "lightning.Trainer",
    "_partial_": True,
    "accelerator": "auto",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_model_summary": False,
    "inference_mode": True,
}


_REFERENCE = re.compile(r"(\\*)\$\{")


def composed(
    card: JudgeCard,
    data: Mapping[str, Any],
    *,
    store: str | Path,
    run_dir: str | Path = "outputs/score",
    judge: Mapping[str, Any] | None = None,
    assistant: Mapping[str, Any] | None = None,
    trainer: Any = None,
    dry_run: bool = False,
) -> DictConfig:
    """The configuration of a run in which the card's judge scores texts.

    Args:
        card: whose judge it is.
        data: arguments of `judgebench.data.unrated.Unrated`.
        store, run_dir, trainer, dry_run: as in conf/config.yaml; the trainer None is one process on the best device.
        judge, assistant: what differs here from the card, such as the folder where the model lies. A card never says
            by itself that code which comes with a model may run, nor where a key is sent.

    Raises:
        UserError: the card's judge is behind a URL that asks for a key, and nobody here has said that it may have it;
            or a file beside the card is missing or another.
    """
    parts = card.parts_here()
    for role, given in (("judge", judge), ("assistant", assistant)):
        _check_key(role, parts[role], given or {})
        safe = {"trust_remote_code": False} if "trust_remote_code" in parts[role] else {}
        parts[role] = {**parts[role], **safe, **(given or {})}
    helper = (parts["defense"] or {}).get("helper")
    for other in (helper, parts["tutor"]):
        if isinstance(other, dict):
            other["trust_remote_code"] = False
            if other.get("path") == card.parts["judge"]["path"]:  # the judge's own model, wherever it lies here
                other["path"] = parts["judge"]["path"]
    parts["prompt"] = {**parts["prompt"], "rubrics": dict(card.rubric), "variants": None}
    content = {
        **parts,
        "data": {"_target_": "judgebench.data.unrated.Unrated", "dimensions": [card.dimension], **data},
        "name": "score",
        "dimensions": [card.dimension],
        "ranges": [[card.range.minimum, card.range.maximum, card.range.step]],
        "attacks": ["none"],
        "attack": None,
        "search": None,
        "tune": None,
        "logger": None,
        "store": str(store),
        "run_dir": str(run_dir),
        "report": False,
        "examples": False,
        "tables": [],
        "dry_run": dry_run,
        "metrics": {"levels": ["dataset"], "resamples": 0, "seed": 0},
        "objective": None,
    }
    usual: Any = OmegaConf.to_container(OmegaConf.load(FOLDER / "config.yaml"))
    config = OmegaConf.create({**usual, "defaults": None, "hydra": None, **_literal(content)})
    # the trainer is this program's own, or comes from its command line: it may refer to other keys
    config.trainer = OmegaConf.create(_TRAINER) if trainer is None else trainer
    return config


def _check_key(role: str, part: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """A card comes from anybody: a variable of this environment goes to its address only where the user says so."""
    if part.get("key_variable") is not None and "key_variable" not in given:
        raise UserError(
            f"card: its {role} is at {given.get('url', part.get('url'))} and would be sent the key in the environment "
            f"variable {part['key_variable']}; if you trust that address, say so with +{role}.key_variable="
            f"{part['key_variable']} (in Python {role}={{'key_variable': ...}})."
        )


def _literal(node: Any) -> Any:
    """What a card or a row says is no reference to other values, nor to the environment's: `${...}` stays as it is."""
    if isinstance(node, Mapping):
        return {key: _literal(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_literal(value) for value in node]
    return _REFERENCE.sub(r"\1\1\\${", node) if isinstance(node, str) else node
