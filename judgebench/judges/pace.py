"""The time that a run will take, from reading a little of it: what was read so is stored, and not read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lightning as L

from judgebench.judges.loop import Models, Trainers, compute_batches, pending_batches
from judgebench.judges.passes import Pass
from judgebench.judges.planning import batch_costs
from judgebench.readings.store import ReadingStore

BATCHES = 3
"""Read of each pass: the first warms up, the others count."""


@dataclass(frozen=True)
class Pace:
    """The speed of one pass of a run.

    Attributes:
        title: short names of its models.
        left: tokens that are still to be computed, after the trial.
        read: tokens of the trial that count.
        took: wall seconds of computing them.
    """

    title: str
    left: int
    read: int
    took: float

    @property
    def seconds(self) -> float | None:
        """Wall seconds of what is left; None where nothing was read to tell by."""
        if not self.left:
            return 0.0
        return self.left * self.took / self.read if self.read else None


def measure(
    passes: Sequence[Pass],
    token_budget: int,
    store: ReadingStore,
    models: Models,
    data: L.LightningDataModule,
    trainer: Trainers,
) -> list[Pace]:
    """Reads the first `BATCHES` of each pass and says how fast that was.

    Every batch of the run counts by the tokens that must be computed of it: what an attention over long articles, or
    answers of different lengths, add to that is not foreseen.
    """
    trials = [(pass_, pending_batches(pass_, token_budget, store)[:BATCHES]) for pass_ in passes]
    compute_batches(trials, store, models, data, trainer, "Measuring")
    paces = []
    for pass_, batches in trials:
        counted = batches[1:] if len(batches) > 1 else batches
        prompts = [prompt for batch in counted for prompt in batch.prompts]
        keys = {pass_.keys(prompt)[0] for prompt in prompts}
        paces.append(
            Pace(
                title=" and ".join(source.title for source in pass_.sources),
                left=sum(batch_costs(pass_.prompts, pending_batches(pass_, token_budget, store))),
                read=sum(batch_costs(pass_.prompts, counted)),
                took=sum(reading.seconds for reading in store.get(keys).values()),
            )
        )
    return paces
