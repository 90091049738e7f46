"""A pass under way in one process: its models in memory, its engines, and what has room at once. It
knows nothing of Lightning or Ray, which both read by it."""

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
    """One pass under way: `load`, `begin`, `read` for each batch, `end`.

    Args:
        load: loads a model, of which this process may hold a part; None is `ModelSource.model`.
        turns: makes what has processes that share models take turns; None where each has its own.
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
        self._too_many = sys.maxsize

    @property
    def _split(self) -> bool:
        return self._make_turns is not None

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
        if following is not None and following.tokens() < self._too_many:
            self.pass_.following = following
        return self._within_memory(batch)

    def _within_memory(self, batch: Batch) -> list[ModelReading]:
        """Reads a batch, in halves where the whole has no room; what has had none once is not tried
        again."""
        tokens = batch.tokens()
        if tokens < self._too_many or len(batch.prompts) == 1:
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
                self._too_many = min(self._too_many, tokens)
            finally:
                self.pass_.following = None
            # outside of the handler, which would keep the failed pass's tensors alive
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return [reading for half in batch.halves() for reading in self._within_memory(half)]
