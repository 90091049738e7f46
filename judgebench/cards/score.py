"""Scores a file with the judge of a card."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard
from judgebench.cards.reading import check_models, check_settings, read, scored, scoring_config
from judgebench.config.keys import path_of
from judgebench.config.settings import MEASURE
from judgebench.experiment import Experiment
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.loop import Models
from judgebench.pipeline import measured, trainer_of
from judgebench.report.dry_run import dry_run_view
from judgebench.report.terminal import Terminal
from judgebench.report.views.served import served_lines
from judgebench.runtime.errors import UserError, escape_control
from judgebench.runtime.files import as_csv, atomic
from judgebench.runtime.shape import shown
from judgebench.types import FAILED

_ENDINGS = (".jsonl", ".csv", ".parquet")


def score(config: DictConfig) -> Path | None:
    """Scores what conf/score.yaml describes.

    Returns:
        The file of scores; None after a dry run, and in a process that only helped to read.

    Raises:
        UserError: whatever the user can mend. Nothing is written then.
    """
    if OmegaConf.is_missing(config, "card"):
        raise UserError("card: name a judge card, as card=judge_card.yaml; python -m judgebench.calibrate writes one.")
    card = JudgeCard.read(path_of(config, "card"))
    if not isinstance(config.get("check_models"), bool):
        raise UserError(f"check_models: {config.get('check_models')!r} is neither true nor false.")
    target = path_of(config, "out")
    if target.suffix not in _ENDINGS:
        raise UserError(f"out={target}: the ending says what is written; it must be one of {', '.join(_ENDINGS)}.")
    if target.is_dir():
        raise UserError(f"out={target}: this is a folder; name a file.")
    plain: dict[str, Any] = {name: OmegaConf.to_container(config[name], resolve=True) for name in ("data", *_ROLES)}
    given = {role: plain[role] for role in _ROLES}
    if config.check_models:
        check_settings(card, given)
    whole = scoring_config(
        card,
        plain["data"],
        store=path_of(config, "store"),
        trainer=config.trainer,
        dry_run=config.dry_run,
        send_to=_hosts(config.get("send_to")),
        given=given,
    )
    compute_on(trainer_of(whole, []).strategy.root_device)
    experiment = Experiment.parse(whole)
    console = Terminal()
    if config.dry_run:
        paces = measured(experiment) if config.dry_run == MEASURE else None
        console.print(dry_run_view(experiment.prompts, experiment.tokens, experiment.titles, experiment.planned, paces))
        if (expected := experiment.served_estimate()) is not None:
            console.print(expected, highlight=False, markup=False)
        return None
    models = Models()
    if config.check_models:  # before hours are spent on reading with another model
        check_models(card, experiment.reader(models).fingerprints)
    found = read(experiment, models, partial(trainer_of, whole))
    if found is None:
        return None
    if config.check_models:  # a server says what it is with its answers
        check_models(card, found.fingerprints)
    frame = scored(card, experiment, found)
    _write(frame, target)
    failed = int((frame["status"] == FAILED).sum())
    console.print(
        f"{len(frame)} texts scored by {escape_control(card.title)}; {failed} without a score.",
        highlight=False,
        markup=False,
    )
    if found.served is not None:
        console.print(served_lines(found.served), highlight=False, markup=False)
    for limit in card.limits:
        console.print(f"  - {escape_control(limit)}", highlight=False, markup=False, soft_wrap=True)
    return target


_ROLES = ("judge", "assistant")


def _hosts(given: Any) -> list[str]:
    """The config key `send_to`, checked."""
    hosts = OmegaConf.to_container(given, resolve=True) if OmegaConf.is_config(given) else given
    hosts = [hosts] if isinstance(hosts, str) else [] if hosts is None else hosts
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise UserError(f"send_to: {shown(hosts)} is no host; name one, as send_to=api.openai.com, or a list of them.")
    return hosts


def _write(frame: pd.DataFrame, path: Path) -> None:
    try:
        with atomic(path) as temporary:
            if path.suffix == ".parquet":
                frame.to_parquet(temporary, index=False)
            elif path.suffix == ".csv":
                cells = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
                temporary.write_text(as_csv(list(map(str, frame)), cells), encoding="utf-8", newline="")
            else:
                rows = frame.to_dict(orient="records")
                temporary.write_text(
                    "".join(f"{json.dumps(_plain(row), ensure_ascii=False)}\n" for row in rows), "utf-8"
                )
    except OSError as error:
        raise UserError(f"out={path}: cannot be written ({error.strerror or error}); name another file.") from error


def _plain(row: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
