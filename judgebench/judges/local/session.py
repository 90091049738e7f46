"""A pass under way in one process: its models in memory, its engines, and how much has room at
once. Lightning and Ray both read by it, and it knows nothing of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from judgebench.judges.engine.hardware import out_of_memory
from judgebench.judges.local.batches import Batch
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.models import Models
from judgebench.judges.local.passes import LocalPass
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Load = Callable[[ModelSource], "PreTrainedModel"]


class PassSession:
    """One pass under way: its models are loaded as it is made; then `begin`, `read` for each batch,
    and `end`.

    Args:
        models: those in memory, where its own stay.
        load: loads a model, of which this process may hold a part; None is `ModelSource.model`.
        turns: makes what has processes that share models take turns, as `sharding.Turns` does; None
            where each has its own.

    Attributes:
        too_many: a batch of so many tokens has had no room.

    Example:
        session = PassSession(pass_, Models()).to(device)
        session.begin(store)
        readings = [session.read(batch) for batch in batches]
        session.end()
    """

    def __init__(
        self,
        pass_: LocalPass,
        models: Models,
        load: Load | None = None,
        turns: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.pass_ = pass_
        self.models = [models.get(source, load) for source in pass_.sources]
        self._make_turns = turns
        self._turns: Any = None
        self.too_many = sys.maxsize

    @property
    def _split(self) -> bool:
        return self._make_turns is not None

    def to(self, device: torch.device) -> PassSession:
        """Moves the models to a device; where Lightning reads, that is its part."""
        for model in self.models:
            model.to(device)  # type: ignore[arg-type]  # of a decorated method
        return self

    def begin(self, store: ReadingStore | None = None) -> None:
        """Makes the engines, of models that are on their device; `store` holds what is proven."""
        if self._make_turns is not None:
            self._turns = self._make_turns(self.models)
        # inference mode refuses that parts of a split model are gathered into one place repeatedly
        mode = torch.no_grad() if self._split else torch.inference_mode()
        with mode:
            self.pass_.prepare(dict(zip(self.pass_.sources, self.models, strict=True)), store)

    def end(self) -> None:
        """Lets go of the models, once no other process needs this one's part: the next pass may
        need their room."""
        if self._turns is not None:
            self._turns.finish()
            self._turns = None
        self.pass_.release()
        self.models = []

    def read(self, batch: Batch, following: Batch | None = None) -> list[ModelReading]:
        """Reads one batch; an empty one stands in where a rank would have none. `UserError` where a
        single prompt does not fit into memory."""
        if not batch.groups:
            return []
        if following is not None and following.tokens() < self.too_many:
            self.pass_.following = following
        return self._within_memory(batch)

    def _within_memory(self, batch: Batch) -> list[ModelReading]:
        """Reads a batch, in halves where the whole has no room; what has had none once is not tried
        again."""
        tokens = batch.tokens()
        if tokens < self.too_many or len(batch.prompts) == 1:
            try:
                return self.pass_.read(batch)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                if self._split:  # the others are in the midst of the same pass
                    raise UserError(
                        f"trainer: {tokens} tokens at once do not fit into this process's memory; "
                        "take more processes, or a smaller judge.max_batch_tokens."
                    ) from error
                if len(batch.prompts) == 1:
                    raise UserError(
                        f"The prompt of example {batch.prompts[0].example.example_id} with its "
                        f"{tokens} tokens does not fit into memory; take a smaller model or dtype, "
                        "or set prompt.max_tokens and prompt.truncate=source."
                    ) from error
                self.too_many = min(self.too_many, tokens)
            finally:
                self.pass_.following = None
            # outside of the handler, which would keep the failed pass's tensors alive
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return [reading for half in batch.halves() for reading in self._within_memory(half)]
