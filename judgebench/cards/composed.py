"""From a card to the experiment that scores with it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard
from judgebench.cards.consent import check_consent
from judgebench.cards.parts import NO_ASSISTANT, REPLAYED, check_arguments
from judgebench.config.groups import FOLDER
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_bytes

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
    send_to: str | Sequence[str] | None = None,
) -> DictConfig:
    """The configuration of a run in which the card's judge scores texts.

    Args:
        card: whose judge it is.
        data: arguments of `judgebench.data.jsonl.Unrated`.
        store, run_dir, trainer, dry_run: as in conf/config.yaml; the trainer None is one process on the best device.
        judge, assistant: what differs here from the card, such as the folder where the model lies. A card never says
            by itself that code which comes with a model may run, nor where texts or a key are sent.
        send_to: hosts that texts may be sent to, if it is the card that names them.

    Raises:
        UserError: the card's judge is on another machine, and nobody here has said that it may have the texts, or the
            key that it asks for; a file is missing or another than the card states; or the card's parts do not fit
            this version.
    """
    parts = card.parts_here()
    if card.series["judge"] == "main":  # which needs no assistant
        parts["assistant"] = dict(NO_ASSISTANT)
    check_arguments(parts)
    if parts["judge"]["_target_"] == REPLAYED and "path" not in (judge or {}):
        _check_answers(card)
    hosts = [send_to] if isinstance(send_to, str) else list(send_to or ())
    for role, given in (("judge", judge), ("assistant", assistant)):
        check_consent(role, parts[role], given or {}, hosts)
        safe = {"trust_remote_code": False} if "trust_remote_code" in parts[role] else {}
        parts[role] = {**parts[role], **safe, **(given or {})}
    helper = (parts["defense"] or {}).get("helper")
    for other in (helper, parts["tutor"]):
        if isinstance(other, dict):
            other["trust_remote_code"] = False
            if other.get("path") == card.parts["judge"].get("path"):  # the judge's own model, wherever it lies here
                other["path"] = parts["judge"].get("path")
    parts["prompt"] = {**parts["prompt"], "rubrics": dict(card.rubric), "variants": None}
    content = {
        **parts,
        "data": {"_target_": "judgebench.data.jsonl.Unrated", "dimensions": [card.dimension], **data},
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


def _check_answers(card: JudgeCard) -> None:
    """Checks that a replayed judge's answers are those that were calibrated: its path could name any file here."""
    path = Path(str(card.parts["judge"].get("path"))).expanduser()
    digest = hashlib.sha256(read_bytes(path, f"card: {path}", 2**31, _ANSWERS)).hexdigest()
    if digest != card.models.get("main", {}).get("sha256"):
        raise UserError(f"card: {path} does not hold the answers that were calibrated; {_ANSWERS}.")


_ANSWERS = "name the file with the judge's answers to your texts, as +judge.path=FILE"


def _literal(node: Any) -> Any:
    """What a card or a row says is no reference to other values, nor to the environment's: `${...}` stays as it is."""
    if isinstance(node, Mapping):
        return {key: _literal(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_literal(value) for value in node]
    return _REFERENCE.sub(r"\1\1\\${", node) if isinstance(node, str) else node
