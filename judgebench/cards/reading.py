"""From a card to the experiment that scores with it, and to its scores: texts in, scores out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard
from judgebench.cards.parts import NO_ASSISTANT, REPLAYED, check_arguments, check_consent
from judgebench.config.keys import FOLDER
from judgebench.decoding.scores import decode
from judgebench.defenses.prepared import SOURCES, TEXTS
from judgebench.experiment import Experiment
from judgebench.judges.loop import Models, Trainers
from judgebench.reuse import Read
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_bytes
from judgebench.types import FAILED

_TRAINER = {
    "_target_": "lightning.Trainer",
    "_partial_": True,
    "accelerator": "auto",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_model_summary": False,
    "enable_progress_bar": False,
    "inference_mode": True,
}

_REFERENCE = re.compile(r"(\\*)\$\{")


def scoring_config(
    card: JudgeCard,
    data: Mapping[str, Any],
    *,
    store: str | Path,
    given: Mapping[str, Mapping[str, Any] | None] | None = None,
    trainer: Any = None,
    dry_run: bool = False,
    send_to: str | Sequence[str] | None = None,
) -> DictConfig:
    """The configuration of a run in which the card's judge scores texts.

    Args:
        data: arguments of `judgebench.data.jsonl.Unrated`.
        store, trainer, dry_run: as in conf/config.yaml; the trainer None is one process on the best device.
        given: judge and assistant -> settings that differ here from the card, such as the folder of the model. A card
            never says by itself that code which comes with a model may run, nor where texts or a key are sent.
        send_to: hosts that texts may be sent to, if it is the card that names them.

    Raises:
        UserError: the user has not agreed to send texts or a key to another machine; a file is missing or another than
            the card states; or the card's parts do not fit this version.
    """
    parts = _parts_here(card, given or {}, [send_to] if isinstance(send_to, str) else list(send_to or ()))
    content = {
        **parts,
        "data": {"_target_": "judgebench.data.jsonl.Unrated", "dimensions": [card.dimension], **data},
        "name": "score",
        "dimensions": [card.dimension],
        "ranges": [card.range.given],
        "attacks": ["none"],
        **dict.fromkeys(("attack", "search", "tune", "logger", "objective")),
        "store": str(store),
        "run_dir": "outputs/score",
        "report": False,
        "examples": False,
        "tables": [],
        "dry_run": dry_run,
        "metrics": {"levels": ["dataset"], "resamples": 0, "seed": 0},
    }
    usual: Any = OmegaConf.to_container(OmegaConf.load(FOLDER / "config.yaml"))
    config = OmegaConf.create({**usual, "defaults": None, "hydra": None, **literal(content)})
    # the trainer is this program's own, or comes from its command line: it may refer to other keys
    config.trainer = OmegaConf.create(_TRAINER) if trainer is None else trainer
    return config


def _parts_here(card: JudgeCard, given: Mapping[str, Mapping[str, Any] | None], hosts: Sequence[str]) -> dict[str, Any]:
    """The card's parts as they are used here: checked, agreed to, with the user's settings."""
    parts = card.parts_here()
    if card.series["judge"] == "main":  # which needs no assistant
        parts["assistant"] = dict(NO_ASSISTANT)
    check_arguments(parts)
    if parts["judge"]["_target_"] == REPLAYED and "path" not in (given.get("judge") or {}):
        _check_answers(card)
    for role in ("judge", "assistant"):
        own = given.get(role) or {}
        check_consent(role, parts[role], own, hosts)
        safe = {"trust_remote_code": False} if "trust_remote_code" in parts[role] else {}
        parts[role] = {**parts[role], **safe, **own}
    helper = (parts["defense"] or {}).get("helper")
    for other in (helper, parts["tutor"]):
        if isinstance(other, dict):
            other["trust_remote_code"] = False
            if other.get("path") == card.parts["judge"].get("path"):  # the judge's own model, wherever it lies here
                other["path"] = parts["judge"].get("path")
    parts["prompt"] = {**parts["prompt"], "rubrics": dict(card.rubric), "variants": None}
    return parts


def _check_answers(card: JudgeCard) -> None:
    """Checks that a replayed judge's answers are those that were calibrated: its path could name any file here."""
    path = Path(str(card.parts["judge"].get("path"))).expanduser()
    digest = hashlib.sha256(read_bytes(path, f"card: {path}", 2**31, _ANSWERS)).hexdigest()
    if digest != card.models.get("main", {}).get("sha256"):
        raise UserError(f"card: {path} does not hold the answers that were calibrated; {_ANSWERS}.")


_ANSWERS = "name the file with the judge's answers to your texts, as +judge.path=FILE"


def literal(node: Any) -> Any:
    """A value in which `${...}` refers to nothing: it stays as it is."""
    if isinstance(node, Mapping):
        return {key: literal(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [literal(value) for value in node]
    return _REFERENCE.sub(r"\1\1\\${", node) if isinstance(node, str) else node


COLUMNS = ("example_id", "group_id", "system_id", "dimension", "score", "estimate", "status")
"""The columns of scored texts: `score`, in the card's range; `estimate` of a human's score, on the humans' scale, null
where the card has no such map; `status`, as in scores.parquet: a failed score is null."""


def read(experiment: Experiment, models: Models, trainer: Trainers) -> Read | None:
    """The judge's readings, after its defense is prepared; None in a process that only helped."""
    for stage in (SOURCES, TEXTS):
        experiment = experiment.prepared(stage, models, trainer)
    reader = experiment.reader(models)
    last = reader.read(trainer)
    if last is not None and not last.is_global_zero:
        return None
    readings = reader.readings(experiment.data.split)
    return Read(readings, reader.fingerprints, reader.device(last), reader.served)


def scored(card: JudgeCard, experiment: Experiment, found: Read) -> pd.DataFrame:
    """`COLUMNS`, one row a text, in the order of the data."""
    columns = decode(found.readings, experiment.decodings)
    frame = pd.DataFrame({name: list(column) for name, column in columns.items()})
    frame = frame[frame["judge"] == card.series["judge"]].reset_index(drop=True)
    if frame.empty:
        raise UserError(
            f"card: none of the {len(found.readings)} readings gives a score of its judge ({card.series['judge']}, "
            f"{card.series['decoding']}), so nothing is written; let `python -m judgebench.calibrate` write it anew."
        )
    order = {example.example_id: i for i, example in enumerate(experiment.examples)}
    frame = frame.iloc[np.argsort(frame["example_id"].map(order).to_numpy(), kind="stable")].reset_index(drop=True)
    frame.loc[frame["status"] == FAILED, "score"] = np.nan  # the range's minimum stands in where scores are counted
    scores = frame["score"].to_numpy(dtype=float)
    frame["estimate"] = card.estimate(scores) if card.estimate is not None else np.nan
    return frame[list(COLUMNS)]


def check_settings(card: JudgeCard, given: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Checks that settings which differ here from the card, by role, leave its scores the same; else `UserError`."""
    for role, keys in given.items():
        for key in _DECIDING:
            there = card.parts[role].get(key)
            if key in (keys or {}) and (here := (keys or {})[key]) != there:
                raise UserError(
                    f"card: its {role} was calibrated with {key}={there}, and +{role}.{key}={here} changes its scores; "
                    "leave that out, or give check_models=false to score so at your own risk: the card's figures say "
                    "nothing of it."
                )


def check_models(card: JudgeCard, fingerprints: Mapping[str, Mapping[str, Any]]) -> None:
    """Checks that the models are those that were calibrated, else `UserError`: by their content, or, where they are
    served, by their names and, once they have answered, by what their servers say they are."""
    if card.parts["judge"]["_target_"] == REPLAYED:  # answers to other texts are another file
        return
    risk = "check_models=false to score with another at your own risk: the card's figures say nothing of it."
    for role, model in card.models.items():
        here = fingerprints.get(role, {})
        name = _NAMES.get(role, role)
        if here.get("sha256") != model.get("sha256"):
            raise UserError(
                f"card: its {role} model is {model.get('title')} with SHA-256 {str(model.get('sha256'))[:12]}..., and "
                f"the one here is {here.get('title')} with {str(here.get('sha256'))[:12]}...; give the folder of the "
                f"model that was calibrated (+{name}.path=), or {risk}"
            )
        if here.get("model") != model.get("model"):
            raise UserError(
                f"card: its {role} model is called {model.get('model')}, and the one here {here.get('model')}; name "
                f"the one that was calibrated (+{name}.model=), or give {risk}"
            )
        known, now = (_said(one) for one in (model, here))
        if known and (others := sorted(now - known)):
            raise UserError(
                f"card: its {role} model was served as {', '.join(sorted(known))}, and {here.get('url')} now says that "
                f"it is {', '.join(others)}; have the one served that was calibrated, or give {risk} What it has "
                "answered is stored, and is not asked for again."
            )


_DECIDING = ("dtype", "mode", "max_new_tokens", "protocol", "scores_from", "samples")
"""Keys, besides the model, that change a judge's answers."""

_NAMES = {"main": "judge"}


def _said(model: Mapping[str, Any]) -> set[str]:
    """The names that servers gave a model, without folders."""
    said = [str(one["model"]) for one in model.get("served_as") or () if one.get("model") is not None]
    return {re.split(r"[/\\]", name.rstrip("/\\"))[-1] for name in said}
