"""Speed of a run's passes, measured on a little of each (`dry_run=measure`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from judgebench.judges.engine.plain import layers_of
from judgebench.judges.loop import JudgeModule, Models, Trainers, compute_batches, pending_batches
from judgebench.judges.passes import Pass
from judgebench.judges.planning import Batch, batch_costs
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore

SECONDS = 30.0
"""Most seconds of reading, of all passes together. Loading the models and trying them come on top."""

BATCHES = 3
"""Most batches that are read of each pass: the first warms up, the others count."""


@dataclass(frozen=True)
class Pace:
    """The speed of one pass of a run.

    Attributes:
        left: tokens that are still to be computed, after the trial.
        read: tokens of the trial that count.
        took: wall seconds of computing them.
        finished: False where time was up within the first batch: `read` is what its layers had computed by then, and
            head and branches come on top.
    """

    title: str
    left: int
    read: int
    took: float
    finished: bool = True

    @property
    def seconds(self) -> float | None:
        """Wall seconds of what is left, at least so many where not `finished`; None where nothing was read."""
        if not self.left:
            return 0.0
        return self.left * self.took / self.read if self.read else None


class OutOfTime(Exception):
    """The time of a measurement is up; the batch under way is given up."""


class TimedJudge(JudgeModule):
    """Reads until its time is up, which it looks at after every layer: a batch of a large model may take minutes.

    A model that is split among processes reads all that it was given, for all of them must take the same steps.

    Attributes:
        tokens: computed so far; a token counts by the share of the layers that it has passed.
        took: wall seconds of that.
    """

    def __init__(self, pass_: Pass, models: Models, seconds: float):
        super().__init__(pass_, models)
        self.tokens, self.took = 0.0, 0.0
        self._most, self._began = seconds, 0.0
        self._hooks: list[Any] = []

    def on_predict_start(self) -> None:
        super().on_predict_start()
        for model in [] if self._split or self.language_models is None else self.language_models:
            stack: Any = model.get_encoder() if model.config.is_encoder_decoder else model.get_decoder()  # type: ignore[operator, union-attr]
            layers = list(layers_of(stack) or ())

            def count(module: object, given: object, output: Any, layers: int = len(layers)) -> None:
                states: torch.Tensor = output[0] if isinstance(output, tuple) else output
                self.tokens += states.shape[0] * states.shape[1] / layers
                self.took = time.perf_counter() - self._began
                if self.took > self._most:
                    raise OutOfTime

            self._hooks += [layer.register_forward_hook(count) for layer in layers]
        self._began = time.perf_counter()

    def on_predict_end(self) -> None:
        for hook in self._hooks:
            hook.remove()
        super().on_predict_end()

    def predict_step(self, batch: Batch, batch_idx: int) -> list[ModelReading]:
        if not self._split and time.perf_counter() - self._began > self._most:
            return []
        try:
            return super().predict_step(batch, batch_idx)
        except OutOfTime:
            return []


def measure(
    passes: Sequence[Pass],
    token_budget: int,
    store: ReadingStore,
    models: Models,
    trainer: Trainers,
) -> list[Pace]:
    """Reads the first `BATCHES` of each pass, for `SECONDS` at most, and says how fast that was; batches that are
    finished are stored, and not read again.

    Batches count by the tokens that must be computed, whatever attention over long articles adds.
    """
    trials = [(pass_, pending_batches(pass_, token_budget, store)[:BATCHES]) for pass_ in passes]
    share = SECONDS / max(1, sum(bool(batches) for _, batches in trials))
    judges: dict[int, TimedJudge] = {}

    def timed(pass_: Pass, models: Models) -> TimedJudge:
        return judges.setdefault(id(pass_), TimedJudge(pass_, models, share))

    compute_batches(trials, store, models, trainer, "Measuring", timed)
    paces = []
    for pass_, batches in trials:
        left = sum(batch_costs(pass_.prompts, pending_batches(pass_, token_budget, store)))
        seconds = [_seconds(pass_, batch, store) for batch in batches]
        done = [(batch, took) for batch, took in zip(batches, seconds, strict=True) if took is not None]
        if batches and not done:
            judge = judges[id(pass_)]
            paces.append(Pace(pass_.title, left, max(1, round(judge.tokens)), judge.took, finished=False))
            continue
        counted = done[1:] or done
        read = sum(batch_costs(pass_.prompts, [batch for batch, _ in counted]))
        paces.append(Pace(pass_.title, left, read, sum(took for _, took in counted)))
    return paces


def _seconds(pass_: Pass, batch: Batch, store: ReadingStore) -> float | None:
    """Wall seconds of computing a batch; None where it was not finished."""
    keys = {pass_.keys(prompt)[0] for prompt in batch.prompts}
    if store.missing(keys):
        return None
    return sum(reading.seconds for reading in store.get(keys).values())
