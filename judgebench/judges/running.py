"""Runs passes as Lightning predict loops: what the store lacks, batch by batch, each stored the moment it is read."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from judgebench.judges.dealing import dealt
from judgebench.judges.hardware import hardware
from judgebench.judges.judge import Judge, Models, SigtermEnds, StoreWriter
from judgebench.judges.memory import out_of_memory
from judgebench.judges.passes import Pass
from judgebench.judges.planning import Batch, once, plan, roots, without
from judgebench.judges.progress import ReadingBar
from judgebench.judges.sharding import hands_of, is_split
from judgebench.processes import here
from judgebench.readings.store import ReadingStore
from judgebench.runtime.errors import UserError

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
    most: int | None = None,
) -> L.Trainer | None:
    """Computes and stores what is missing of each pass.

    Args:
        token_budget: groups are read together up to so many tokens to compute.
        models: where the models come from; see `Models.make_room`.
        data: its `batches` are set to what is to be read.
        doing: what the progress bar says.
        most: batches of each pass that are read; None reads all.

    Returns:
        The last trainer that ran; None if nothing was missing.

    Raises:
        UserError: a prompt does not fit into memory, another process has ended, or one would read something else.
    """
    last, processes = None, here()
    todo = [(pass_, pending[:most]) for pass_ in passes if (pending := pending_batches(pass_, token_budget, store))]
    for i, (pass_, pending) in enumerate(todo):
        processes.join()  # only now, for what is stored needs no second process
        if processes.joined:
            processes.check_same(hardware().arithmetic(), "arithmetic (its processor, GPU or PyTorch)")
            processes.check_same(_digest(pass_, pending), "prompts")
        models.make_room({source for later, _ in todo[i:] for source in later.sources})
        title = getattr(pass_, "title", None) or " and ".join(s.title for s in pass_.sources)
        last = trainer([StoreWriter(store), ReadingBar(title, doing), SigtermEnds()])
        data.batches = dealt(pending, _costs(pass_, pending), hands_of(last))  # type: ignore[attr-defined]
        with processes.watched() if is_split(last.strategy) else nullcontext():
            _predict(last, Judge(pass_, models), data, title)
            # another process may still be reading what this one is about to look up
            store.settle()
            last.strategy.barrier()
    return last


def _predict(trainer: L.Trainer, judge: Judge, data: L.LightningDataModule, title: str) -> None:
    """Lightning's predict loop; what it says about training stays unsaid."""
    with warnings.catch_warnings():
        # a batch knows its own prompts; their indices are of no use
        warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")
        # Lightning's own, about torch and about its recommended number of workers
        warnings.filterwarnings("ignore", message=".*LeafSpec|.*does not have many workers")
        try:
            trainer.predict(judge, datamodule=data, return_predictions=False)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise UserError(
                f"trainer: {title} does not fit into the memory of {trainer.strategy.root_device}; take a smaller "
                "model, a dtype of half the size (judge.dtype=bfloat16), or several GPUs with trainer=fsdp or "
                "trainer=tensor_parallel."
            ) from error
        except SystemExit as end:  # what Lightning makes of Ctrl-C; a sweep would take it for a failed job
            if isinstance(end.__context__, KeyboardInterrupt):
                raise end.__context__ from None
            raise


def pending_batches(pass_: Pass, token_budget: int, store: ReadingStore) -> list[Batch]:
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


def _costs(pass_: Pass, batches: Sequence[Batch]) -> list[int]:
    """Tokens to compute of each batch."""
    known = roots(pass_.prompts)
    return [batch.tokens(len(known[batch.prompts[0].condition]))[1] for batch in batches]


def _digest(pass_: Pass, batches: Sequence[Batch]) -> str:
    """Of all that is to be read, in order."""
    digest = hashlib.sha256()
    for batch in batches:
        digest.update(b"batch")
        for prompt in batch.prompts:
            digest.update("".join(pass_.keys(prompt)).encode())
    return digest.hexdigest()
