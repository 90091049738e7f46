"""The models in memory, which need torch only once one is read."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from judgebench.judges.local.loading import ModelSource
from judgebench.runtime.distributed import process_group

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Trainers = Any
"""A Lightning Trainer, or what stands for one: a `NullTrainer` where no model is read here, a
`RayTrainer` where actors read."""

_RESERVE = 0.2
"""Share of a memory that is kept for what passes compute; models that no pass needs at the moment
make room for it."""


class Models:
    """The models in memory: each is loaded once, and leaves when others need the room; `seconds`
    went into loading. So many USD are `spent` on served ones by earlier parts of a command."""

    def __init__(self) -> None:
        self._loaded: dict[ModelSource, PreTrainedModel] = {}
        self.seconds = self.spent = 0.0

    def get(
        self, source: ModelSource, load: Callable[[ModelSource], PreTrainedModel] | None = None
    ) -> PreTrainedModel:
        """The model of a source; where it is not in memory, `load` loads it, or
        `ModelSource.model`."""
        if source not in self._loaded:
            import torch

            began = time.perf_counter()
            # whoever asks: a search for phrases may want gradients of it later
            with torch.inference_mode(False):
                self._loaded[source] = source.model() if load is None else load(source)
            self.seconds += time.perf_counter() - began
        return self._loaded[source]

    def make_room(self, sources: Collection[ModelSource]) -> None:
        """Lets go of all others where those that are needed, and what they compute, have no room
        with them."""
        # torch with it
        from judgebench.judges.engine.hardware import free_memory, hardware, memory_of, return_freed

        return_freed()
        needed = sum(source.weight_bytes() for source in sources if source not in self._loaded)
        device = hardware().device
        idle = {model.device for source, model in self._loaded.items() if source not in sources}

        def crowded() -> bool:
            for each in {device, *idle} if idle else ():
                room = free_memory(each) - _RESERVE * memory_of(each)
                if room < (needed if each == device else 0):
                    return True
            return False

        # machines may differ in their memory, but models that are split are loaded by all processes
        # or by none
        if process_group().agree(crowded):
            self._loaded = {
                source: model for source, model in self._loaded.items() if source in sources
            }
            # a compiled block refers to itself, and would hold its weights until Python looks
            gc.collect()
        return_freed()
