"""Texts in, scores out: what an experiment without humans and metrics comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from judgebench.cards.card import JudgeCard
from judgebench.cards.parts import REPLAYED
from judgebench.decoding.scores import decode
from judgebench.defenses.prepared import SOURCES, TEXTS
from judgebench.experiment import Experiment
from judgebench.judges.api.reader import ApiReader
from judgebench.judges.loop import Models, Trainers
from judgebench.reuse import Read
from judgebench.runtime.errors import UserError
from judgebench.types import FAILED

COLUMNS = ("example_id", "group_id", "system_id", "dimension", "score", "estimate", "status")
"""What is said of each text: `score`, in the card's range; `estimate`, what humans would have said, on their scale,
null where the card has no such map; `status`, as in scores.parquet: a failed score is null."""


def read(experiment: Experiment, models: Models, trainer: Trainers) -> Read | None:
    """What the judge says, with everything made ready that its defense needs; None in a process that only helped."""
    for stage in (SOURCES, TEXTS):
        experiment = experiment.prepared(stage, models, trainer)
    reader = experiment.reader(models)
    last = reader.read(experiment.data, trainer)
    if last is not None and not last.is_global_zero:
        return None
    found = reader.readings(experiment.data.split)
    served = reader.served if isinstance(reader, ApiReader) else None
    return Read(found, reader.fingerprints, reader.device(last), served)


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
    """Whether what differs here from the card leaves its scores what they were.

    Args:
        given: role, judge or assistant -> its keys that differ here.

    Raises:
        UserError: one is read otherwise than it was calibrated.
    """
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
    """Whether the models are those that were calibrated: by their content, or, where they are served, by what they are
    called and, once they have answered, by what their servers say they are.

    Raises:
        UserError: one differs.
    """
    if card.parts["judge"]["_target_"] == REPLAYED:  # answers to other texts are another file
        return
    for role, model in card.models.items():
        here = fingerprints.get(role, {})
        name = _NAMES.get(role, role)
        if here.get("sha256") != model.get("sha256"):
            raise UserError(
                f"card: its {role} model is {model.get('title')} with SHA-256 {str(model.get('sha256'))[:12]}..., and "
                f"the one here is {here.get('title')} with {str(here.get('sha256'))[:12]}...; give the folder of the "
                f"model that was calibrated (+{name}.path=), or check_models=false to score with another at your own "
                "risk: the card's figures say nothing of it."
            )
        if here.get("model") != model.get("model"):
            raise UserError(
                f"card: its {role} model is called {model.get('model')}, and the one here {here.get('model')}; name "
                f"the one that was calibrated (+{name}.model=), or give check_models=false to score with another at "
                "your own risk: the card's figures say nothing of it."
            )
        known, now = (_said(one) for one in (model, here))
        if known and (others := sorted(now - known)):
            raise UserError(
                f"card: its {role} model was served as {', '.join(sorted(known))}, and {here.get('url')} now says that "
                f"it is {', '.join(others)}; have the one served that was calibrated, or give check_models=false to "
                "score with another at your own risk: the card's figures say nothing of it. What it has answered is "
                "stored, and is not asked for again."
            )


_DECIDING = ("dtype", "mode", "max_new_tokens", "protocol", "scores_from", "samples")
"""Keys that decide what a judge says, besides its model."""

_NAMES = {"main": "judge"}


def _said(model: Mapping[str, Any]) -> set[str]:
    """What servers said that a model is, without the folders in which they have it."""
    said = [str(one["model"]) for one in model.get("served_as") or () if one.get("model") is not None]
    return {re.split(r"[/\\]", name.rstrip("/\\"))[-1] for name in said}
