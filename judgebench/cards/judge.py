"""A calibrated judge in a Python program."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
from hydra.utils import instantiate
from lightning.pytorch.callbacks import ProgressBar

from judgebench.cards.card import JudgeCard
from judgebench.cards.reading import check_models, check_settings, read, scored, scoring_config
from judgebench.data.jsonl import Unrated
from judgebench.experiment import Experiment
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.loop import Models
from judgebench.runtime.errors import UserError


@dataclass(frozen=True)
class Judged:
    """A judge's answer to a text.

    Attributes:
        score: in the card's range; NaN where the judge gave none.
        estimate: what humans would have said, on their scale; NaN where the card has no such map.
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
        compute_on(_trainer(self._config, []).strategy.root_device)
        self._experiment = Experiment.parse(self._config)

    @classmethod
    def from_card(cls, path: str | Path, **options: Any) -> Judge:
        """The judge of a card file; see `Judge` for options.

        Raises:
            UserError: no such file, or no card.
        """
        return cls(JudgeCard.read(path), **options)

    def check_estimate(self, wanted: bool = True) -> None:
        """Checks that its card has a map to the humans' scale, where that is wanted.

        Raises:
            UserError: it has none.
        """
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
        """The judge's answers to some texts: mappings with source, output and, or not, context. What texts of
        one source share is computed once.

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
        found = read(experiment, self._models, partial(_trainer, self._config))
        assert found is not None  # the trainer of `scoring_config` has one process
        if self._check:
            check_models(self.card, found.fingerprints)
            self._check = found.served is not None  # those that are held do not change; a server may change its own
        frame = scored(self.card, experiment, found)
        columns = (frame["score"].astype(float), frame["estimate"].astype(float), frame["status"].astype(str))
        return [Judged(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _trainer(config: Any, callbacks: list[Any]) -> L.Trainer:
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    quiet = [callback for callback in callbacks if not isinstance(callback, ProgressBar)]  # one bar a text is no news
    trainer: L.Trainer = instantiate(config.trainer)(callbacks=quiet, enable_progress_bar=False)
    return trainer
