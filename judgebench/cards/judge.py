"""A calibrated judge: in a Python program, and for a file of texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
from lightning.pytorch.callbacks import Callback, ProgressBar
from omegaconf import DictConfig

from judgebench.cards.card import JudgeCard
from judgebench.cards.reading import check_models, check_settings, read, scored, scoring_config
from judgebench.config.fields import plain
from judgebench.config.keys import path_of
from judgebench.data.jsonl import Unrated
from judgebench.experiment import Experiment
from judgebench.job import show_dry_run, trainer_of
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.loop import Models
from judgebench.report.render import Terminal
from judgebench.report.views.run import served_lines
from judgebench.runtime.errors import UserError, escape_control, shown
from judgebench.runtime.files import as_csv, atomic
from judgebench.types import FAILED


@dataclass(frozen=True)
class Judged:
    """A judge's answer to a text.

    Attributes:
        score: in the card's range; NaN where the judge gave none.
        estimate: of a human's score, on the humans' scale; NaN where the card has no such map.
        status: `parsed`, `failed` or `clamped`, see `judgebench.types`.
    """

    score: float
    estimate: float
    status: str


class Judge:
    """The judge of a card, its models loaded at the first text and kept.

    Args:
        card: whose judge it is.
        store: file where readings are kept, so that no text is read twice, nor by another run.
        judge, assistant: what differs here from the card, as `{"path": "models/mine"}`.
        check_models: whether the models must be those that were calibrated, and read alike.
        send_to: the host, or hosts, of other machines that the card may send texts to.

    Raises:
        UserError: the card's parts do not fit what is installed here.

    Example:
        judge = Judge.from_card("judge_card.yaml")
        judge.score("The article ...", "Its summary ...").score
    """

    def __init__(
        self,
        card: JudgeCard,
        *,
        store: str | Path = "outputs/readings.sqlite",
        judge: Mapping[str, Any] | None = None,
        assistant: Mapping[str, Any] | None = None,
        check_models: bool = True,
        send_to: str | Sequence[str] | None = None,
    ) -> None:
        self.card = card
        self._check = check_models
        self._models = Models()
        given = {"judge": judge, "assistant": assistant}
        if check_models:
            check_settings(card, given)
        nothing = {"rows": [{"source": "a", "output": "a"}]}  # texts come later; what asks about them stays
        self._config = scoring_config(card, nothing, store=store, given=given, send_to=send_to)
        compute_on(trainer_of(self._config, []).strategy.root_device)
        self._experiment = Experiment.parse(self._config)

    @classmethod
    def from_card(cls, path: str | Path, **options: Any) -> Judge:
        """The judge of a card file; see `Judge` for options. `UserError` where there is no such card."""
        return cls(JudgeCard.read(path), **options)

    def check_estimate(self, wanted: bool = True) -> None:
        """Checks that the card has a map to the humans' scale, where that is wanted; else `UserError`."""
        if wanted and self.card.estimate is None:
            raise UserError("card: it has no map from its scores to the humans' scale; take its scores.")

    def score(self, source: str, output: str, context: str = "") -> Judged:
        """The judge's answer to one text; many at once (`score_all`) take less time each.

        Args:
            source: the article or dialogue that the text answers to.
            output: the judged text.
            context: further text that the judged one may draw on.
        """
        return self.score_all([{"source": source, "output": output, "context": context}])[0]

    def score_all(self, texts: Sequence[Mapping[str, str]]) -> list[Judged]:
        """The judge's answers to some texts: mappings with source, output and, or not, context. The shared part of
        texts of one source is computed once.

        Raises:
            UserError: a text is empty, has too many tokens or does not fit into memory; names it as `line-N`.
        """
        if not texts:
            return []
        rows = [{"context": "", **text} for text in texts]
        data = Unrated(rows=rows, fields={"context": "context"}, dimensions=[self.card.dimension])
        data.setup()
        ready = [one for one in self._experiment.conditions if one.defense not in self._experiment.planned]
        prompts = self._experiment.builder.build(data.examples, ready)
        experiment = replace(self._experiment, data=data, examples=data.examples, prompts=prompts)
        answers = read(experiment, self._models, partial(_quiet_trainer, self._config))
        assert answers is not None  # the trainer of `scoring_config` has one process
        if self._check:
            check_models(self.card, answers.fingerprints)
            self._check = answers.served is not None  # models in memory do not change; a server may change its own
        frame = scored(self.card, experiment, answers)
        columns = (frame["score"].astype(float), frame["estimate"].astype(float), frame["status"].astype(str))
        return [Judged(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _quiet_trainer(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    return trainer_of(
        config, [one for one in callbacks if not isinstance(one, ProgressBar)]
    )  # one bar a text is no news


def score_file(config: DictConfig, card: JudgeCard) -> Path | None:
    """Scores what conf/score.yaml describes, by the judge of a card.

    Returns:
        The file of scores; None after a dry run, and in a process that only helped to read.

    Raises:
        UserError: a mistake that the user can mend. Nothing is written then.
    """
    target = _target(config)
    given = {role: plain(config[role]) for role in _ROLES}
    if config.check_models:
        check_settings(card, given)
    settings = {"store": path_of(config, "store"), "trainer": config.trainer, "dry_run": config.dry_run}
    hosts = _hosts(config.get("send_to"))
    whole = scoring_config(card, plain(config.data), **settings, send_to=hosts, given=given)
    compute_on(trainer_of(whole, []).strategy.root_device)
    experiment, models, console = Experiment.parse(whole), Models(), Terminal()
    if config.dry_run:
        show_dry_run(experiment, console)
        return None
    if config.check_models:  # before hours are spent on reading with another model
        check_models(card, experiment.reader(models).fingerprints)
    answers = read(experiment, models, partial(trainer_of, whole))
    if answers is None:
        return None
    if config.check_models:  # a server says what it is with its answers
        check_models(card, answers.fingerprints)
    frame = scored(card, experiment, answers)
    _write(frame, target)
    failed = int((frame["status"] == FAILED).sum())
    lines = [f"{len(frame)} texts scored by {escape_control(card.title)}; {failed} without a score."]
    lines += [served_lines(answers.served)] if answers.served is not None else []
    for line in [*lines, *(f"  - {escape_control(limit)}" for limit in card.limits)]:
        console.print(line, highlight=False, markup=False, soft_wrap=line.startswith("  - "))
    return target


_ROLES = ("judge", "assistant")
_ENDINGS = (".jsonl", ".csv", ".parquet")


def _target(config: DictConfig) -> Path:
    target = path_of(config, "out")
    if target.suffix not in _ENDINGS:
        raise UserError(f"out={target}: the ending says what is written; it must be one of {', '.join(_ENDINGS)}.")
    if target.is_dir():
        raise UserError(f"out={target}: this is a folder; name a file.")
    return target


def _hosts(given: Any) -> list[str]:
    """The config key `send_to`, checked."""
    hosts = plain(given)
    hosts = [hosts] if isinstance(hosts, str) else [] if hosts is None else hosts
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise UserError(f"send_to: {shown(hosts)} is no host; name one, as send_to=api.openai.com, or a list of them.")
    return hosts


def _write(frame: pd.DataFrame, path: Path) -> None:
    import pyarrow as pa

    from judgebench.runtime.parquet import write_table  # pyarrow takes a while to import

    try:
        with atomic(path) as temporary:
            if path.suffix == ".parquet":
                write_table(temporary, pa.Table.from_pandas(frame, preserve_index=False))
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
