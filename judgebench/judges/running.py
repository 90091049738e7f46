"""Runs passes as Lightning predict loops: what the store lacks, batch by batch, each stored the moment it is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import lightning as L
from lightning.pytorch.callbacks import Callback

from judgebench.judges.judge import Judge, Models, StoreWriter
from judgebench.judges.passes import Pass
from judgebench.judges.planning import Batch, once, plan, without
from judgebench.judges.progress import ReadingBar
from judgebench.readings.store import ReadingStore

Trainers = Callable[[list[Callback]], L.Trainer]
"""Makes a Trainer with the given callbacks."""


def compute(
    passes: Sequence[Pass],
    token_budget: int,
    store: ReadingStore,
    models: Models,
    data: L.LightningDataModule,
    trainer: Trainers,
    doing: str = "Reading",
) -> L.Trainer | None:
    """Computes and stores what is missing of each pass.

    Args:
        token_budget: groups are read together up to so many tokens to compute.
        models: where the models come from; see `Models.make_room`.
        data: its `batches` are set to what is to be read.
        doing: what the progress bar says.

    Returns:
        The last trainer that ran; None if nothing was missing.
    """
    last = None
    todo = [(pass_, pending) for pass_ in passes if (pending := _pending(pass_, token_budget, store))]
    for i, (pass_, pending) in enumerate(todo):
        models.make_room({source for later, _ in todo[i:] for source in later.sources})
        title = getattr(pass_, "title", None) or " and ".join(s.title for s in pass_.sources)
        last = trainer([StoreWriter(store), ReadingBar(title, doing)])
        # Lightning deals at least one batch to every rank
        data.batches = pending + [Batch(())] * (last.world_size - len(pending))  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            # a batch knows its own prompts; their indices are of no use
            warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")
            # Lightning's own, about torch and about its recommended number of workers
            warnings.filterwarnings("ignore", message=".*LeafSpec|.*does not have many workers")
            last.predict(Judge(pass_, models), datamodule=data, return_predictions=False)
        # another rank may still be writing what this one is about to look up
        last.strategy.barrier()
    return last


def _pending(pass_: Pass, token_budget: int, store: ReadingStore) -> list[Batch]:
    """What of a pass is not stored yet. Batches are planned over everything, so that a resumed run reads the same ones:
    a batch that was never finished is read whole."""
    keys = {id(prompt): pass_.keys(prompt) for prompt in pass_.prompts}
    planned = getattr(pass_, "batches", None)  # a pass that computes nothing here has reasons of its own
    batches = planned() if planned is not None else plan(pass_.prompts, token_budget)
    batches = once(batches, lambda prompt: tuple(keys[id(prompt)]))
    missing = store.missing(key for held in keys.values() for key in held)
    pending = []
    for batch in batches:
        done = {i for i, prompt in enumerate(batch.prompts) if not missing.intersection(keys[id(prompt)])}
        if (left := without(batch, done)) is not None:
            pending.append(left)
    return pending
