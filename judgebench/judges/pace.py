"""How long a run will take, from reading a little of it: what was read so is stored, and not read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lightning as L

from judgebench.judges.loop import Models, Trainers, compute, pending_batches
from judgebench.judges.passes import Pass
from judgebench.judges.planning import Batch, roots
from judgebench.readings.store import ReadingStore

BATCHES = 3
"""Read of each pass: the first warms up, the others count."""


@dataclass(frozen=True)
class Pace:
    """How fast one pass of a run is.

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
    tried = {id(pass_): pending_batches(pass_, token_budget, store)[:BATCHES] for pass_ in passes}
    compute(passes, token_budget, store, models, data, trainer, "Measuring", most=BATCHES)
    found = []
    for pass_ in passes:
        counted = tried[id(pass_)]
        counted = counted[1:] if len(counted) > 1 else counted
        prompts = [prompt for batch in counted for prompt in batch.prompts]
        keys = {pass_.keys(prompt)[0] for prompt in prompts}
        found.append(
            Pace(
                title=" and ".join(source.title for source in pass_.sources),
                left=_tokens(pass_, pending_batches(pass_, token_budget, store)),
                read=_tokens(pass_, counted),
                took=sum(reading.seconds for reading in store.get(keys).values()),
            )
        )
    return found


def _tokens(pass_: Pass, batches: Sequence[Batch]) -> int:
    known = roots(pass_.prompts)
    return sum(batch.tokens(len(known[batch.prompts[0].condition]))[1] for batch in batches)
