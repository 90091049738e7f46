"""The judge as a LightningModule: `Trainer.predict` over planned batches, each stored the moment it is read."""

from __future__ import annotations

import gc
import hashlib
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import BasePredictionWriter, Callback, RichProgressBar
from torch.utils.data import DataLoader
from transformers import PreTrainedModel

from judgebench.judges.engine.hardware import free_memory, hardware, memory_of, out_of_memory, return_freed
from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import Pass, ScorePass
from judgebench.judges.planning import Batch, assigned, batch_costs, halves, remaining, unique_batches
from judgebench.judges.sharding import (
    FullySharded,
    Turns,
    check_split,
    delivers,
    group_size,
    is_split,
    load_split,
    reader_count,
)
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.distributed import here
from judgebench.runtime.errors import UserError

_RESERVE = 0.2
"""Share of a memory that is kept for what passes compute; models that nobody needs at the moment make room for it."""


class Models:
    """The models in memory: each is loaded once, and leaves when others need the room; `seconds` went into loading."""

    def __init__(self) -> None:
        self._loaded: dict[ModelSource, PreTrainedModel] = {}
        self.seconds = 0.0

    def get(self, source: ModelSource, load: Callable[[ModelSource], PreTrainedModel] | None = None) -> PreTrainedModel:
        """The model of a source; where it is not in memory, `load` loads it, or `ModelSource.model`."""
        if source not in self._loaded:
            began = time.perf_counter()
            with torch.inference_mode(False):  # whoever asks: a search for phrases may want gradients of it later
                self._loaded[source] = source.model() if load is None else load(source)
            self.seconds += time.perf_counter() - began
        return self._loaded[source]

    def make_room(self, sources: Collection[ModelSource]) -> None:
        """Lets go of all others where those that are needed, and what they compute, have no room beside them."""
        return_freed()
        needed = sum(source.weight_bytes() for source in sources if source not in self._loaded)
        device = hardware().device
        idle = {model.device for source, model in self._loaded.items() if source not in sources}

        def crowded() -> bool:
            devices = idle | ({device} if idle else set())
            room = {each: free_memory(each) - _RESERVE * memory_of(each) for each in devices}
            return any(room[each] < (needed if each == device else 0) for each in devices)

        # machines may differ in their memory, but models that are split are loaded by all processes or by none
        if here().agree(crowded):
            self._loaded = {source: model for source, model in self._loaded.items() if source in sources}
            gc.collect()  # a compiled block refers to itself, and would hold its weights until Python looks
        return_freed()


class JudgeModule(L.LightningModule):
    """Runs one pass; `predict` takes `Batch`es and gives the `ModelReading`s of their prompts."""

    def __init__(self, pass_: Pass, models: Models):
        super().__init__()
        self._pass = pass_
        self._models = models
        self._too_many = sys.maxsize
        self._split = False
        self._turns: Turns | None = None
        self._ddp_params_and_buffers_to_ignore: list[str] = []
        self.language_models: torch.nn.ModuleList | None = None

    def configure_model(self) -> None:
        """Loads the models, or this process's part of them; Lightning then moves them to its device."""
        if self.language_models is not None:
            return
        load, mesh = None, self.device_mesh
        if mesh is not None:  # which strategies have that split models
            self._split = True
            for source in self._pass.sources:
                here().agree(partial(check_split, source, self.trainer))
            load = partial(load_split, strategy=self.trainer.strategy, mesh=mesh)
        self.language_models = torch.nn.ModuleList(self._models.get(source, load) for source in self._pass.sources)
        # each process has loaded the same weights; Lightning's DDP would send all of them to all before each pass
        self._ddp_params_and_buffers_to_ignore = list(self.state_dict()) + [name for name, _ in self.named_buffers()]

    def on_predict_start(self) -> None:
        assert self.language_models is not None
        models: Any = dict(zip(self._pass.sources, self.language_models, strict=True))
        if self._split and isinstance(self.trainer.strategy, FullySharded):
            self._turns = Turns(list(models.values()))
        # what is gathered of a split model is written again and again, which inference mode would not have
        with torch.no_grad() if self._split else torch.inference_mode():
            self._pass.prepare(models)

    def on_predict_end(self) -> None:
        """Lets go of the models, once no other process needs this one's part: the next pass may need their room."""
        if self._turns is not None:
            self._turns.finish()
        self._pass.release()
        self.language_models = None

    def predict_step(self, batch: Batch, batch_idx: int) -> list[ModelReading]:
        """Reads one batch; an empty one stands in where a rank would have none.

        Raises:
            UserError: a single prompt does not fit into memory.
        """
        if not batch.groups:
            return []
        # the batch that this process reads next is made ready while a GPU is at work, if it is read whole
        following, trainer = None, getattr(self, "_trainer", None)
        batches = getattr(getattr(trainer, "datamodule", None), "batches", None)
        if batches is not None and trainer is not None and self.device.type != "cpu":
            at = (batch_idx + 1) * reader_count(trainer) + trainer.global_rank // group_size(trainer.strategy)
            if at < len(batches) and batches[at].groups and batches[at].tokens()[1] < self._too_many:
                following = batches[at]
        return self._within_memory(batch, following)

    def _within_memory(self, batch: Batch, following: Batch | None = None) -> list[ModelReading]:
        """Reads a batch, in halves where the whole has no room; what has had none once is not tried again."""
        tokens = batch.tokens()[1]
        if tokens < self._too_many or len(batch.prompts) == 1:
            try:
                if following is not None and isinstance(self._pass, ScorePass):
                    return self._pass.read(batch, following)
                return self._pass.read(batch)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                if self._split:  # the others are in the midst of the same pass
                    raise UserError(
                        f"trainer: {tokens} tokens at once do not fit into this process's memory; take more processes, "
                        "or a smaller judge.token_budget."
                    ) from error
                if len(batch.prompts) == 1:
                    raise UserError(
                        f"The prompt of example {batch.prompts[0].example.example_id} with its {tokens} tokens does "
                        "not fit into memory; take a smaller model or dtype, or set prompt.max_tokens and "
                        "prompt.truncate=source."
                    ) from error
                self._too_many = min(self._too_many, tokens)
            # outside of the handler, which would keep the failed pass's tensors alive
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return [reading for half in halves(batch) for reading in self._within_memory(half)]


class StoreWriter(BasePredictionWriter):
    """Stores every batch as soon as it is read, whole or not at all."""

    def __init__(self, store: ReadingStore):
        super().__init__(write_interval="batch")
        self._store = store

    def write_on_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, prediction: Sequence[ModelReading], *_: Any, **__: Any
    ) -> None:
        if delivers(trainer.strategy):
            self._store.put(prediction)


class SigtermEnds(L.Callback):
    """Gives SIGTERM its handler from before the trainer: Lightning's only notes the signal, and reading would go on."""

    def __init__(self) -> None:
        self._before = signal.getsignal(signal.SIGTERM)

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Takes Lightning's handler back, which sets one before the models are loaded."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
            if trainer.received_sigterm:
                signal.raise_signal(signal.SIGTERM)


class Batches(L.LightningDataModule):
    """Planned batches, which the predict loop gets as they are."""

    def __init__(self, batches: Sequence[Any]) -> None:
        super().__init__()
        self.batches = batches

    def predict_dataloader(self) -> DataLoader:
        # Under DDP, Lightning deals out the indices into `batches` itself: rank r of R reads r, r + R, r + 2R, ...
        # torch's default collate_fn would copy lists and turn arrays into tensors.
        return DataLoader(self.batches, batch_size=None, collate_fn=lambda batch: batch)  # type: ignore[arg-type]

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """The batch as it is: Lightning's own transfer would take prompts apart, and refuses frozen dataclasses."""
        return batch


Trainers = Callable[[list[Callback]], L.Trainer]
"""Makes a Trainer with these callbacks."""


def compute(
    passes: Sequence[Pass],
    token_budget: int,
    store: ReadingStore,
    models: Models,
    trainer: Trainers,
    doing: str = "Reading",
) -> L.Trainer | None:
    """Computes and stores what is missing of each pass, in batches of `token_budget`; see `compute_batches`."""
    todo = [(pass_, pending_batches(pass_, token_budget, store)) for pass_ in passes]
    return compute_batches(todo, store, models, trainer, doing)


def compute_batches(
    todo: Sequence[tuple[Pass, Sequence[Batch]]],
    store: ReadingStore,
    models: Models,
    trainer: Trainers,
    doing: str,
    judge: Callable[[Pass, Models], JudgeModule] = JudgeModule,
) -> L.Trainer | None:
    """Computes and stores batches.

    Args:
        todo: passes and their batches; a pass without batches takes no part.
        doing: a verb for the progress bar.
        judge: makes what runs a pass.

    Returns:
        The last trainer that ran; None if nothing was missing.

    Raises:
        UserError: a prompt does not fit into memory, another process has ended, or one would read something else.
    """
    last, processes = None, here()
    todo = [(pass_, pending) for pass_, pending in todo if pending]
    for i, (pass_, pending) in enumerate(todo):
        processes.join()  # only now, for what is stored needs no second process
        if processes.joined:
            processes.check_same(hardware().arithmetic(), "arithmetic (its processor, GPU or PyTorch)")
            digest = hashlib.sha256()
            for batch in pending:
                digest.update(b"batch" + "".join(key for p in batch.prompts for key in pass_.keys(p)).encode())
            processes.check_same(digest.hexdigest(), "prompts")
        models.make_room({source for later, _ in todo[i:] for source in later.sources})
        last = trainer([StoreWriter(store), ReadingBar(pass_.title, doing), SigtermEnds()])
        batches = Batches(assigned(pending, batch_costs(pass_.prompts, pending), reader_count(last)))
        with processes.watched() if is_split(last.strategy) else nullcontext():
            _predict(last, judge(pass_, models), batches, pass_.title)
            # another process may still be reading what this one is about to look up
            store.settle()
            last.strategy.barrier()
    return last


def _predict(trainer: L.Trainer, judge: JudgeModule, batches: Batches, title: str) -> None:
    """Lightning's predict loop, without its warnings about training."""
    with warnings.catch_warnings():
        # a batch knows its own prompts; their indices are of no use
        warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")
        # Lightning's own, about torch and about its recommended number of workers
        warnings.filterwarnings("ignore", message=".*LeafSpec|.*does not have many workers")
        try:
            trainer.predict(judge, datamodule=batches, return_predictions=False)
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
    """The batches of a pass that are not stored yet, planned over everything, so that a resumed run reads the same."""
    keys = {id(prompt): pass_.keys(prompt) for prompt in pass_.prompts}
    batches = unique_batches(pass_.batches(token_budget), lambda prompt: tuple(keys[id(prompt)]))
    missing = store.missing(key for own in keys.values() for key in own)
    pending = []
    for batch in batches:
        done = {i for i, prompt in enumerate(batch.prompts) if not missing.intersection(keys[id(prompt)])}
        if (left := remaining(batch, done)) is not None:
            pending.append(left)
    return pending


class ReadingBar(RichProgressBar):
    """Lightning's rich bar, with the model's name."""

    def __init__(self, title: str, doing: str = "Reading"):
        # a sweep keeps what its trials print in a file, but whoever sits before a terminal wants to see the reading
        super().__init__(leave=True, console_kwargs={"stderr": sys.stderr.isatty()})
        self._description = f"{doing} with {title}"

    @property
    def predict_description(self) -> str:
        return self._description
