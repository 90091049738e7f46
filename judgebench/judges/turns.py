"""Keeps processes in step that hold a model together and read different batches.

Every forward pass of a fully sharded model needs all processes, for each has a share of every layer. But one reads more
batches than another, longer answers, a rubric once more. So before each pass they say which model each wants to run,
and whoever wants none, or another, takes part with a pass over a single token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed
from transformers import PreTrainedModel

from judgebench.judges.attention import own_attention
from judgebench.runtime.distributed import watching


class Turns:
    """Takes turns with the other processes; all make it at the same point, with the same models.

    Args:
        models: fully sharded; their decoders' passes wait for their turn until `finish`.
    """

    def __init__(self, models: Sequence[PreTrainedModel]):
        self._models = models
        self._group = distributed.new_group(backend="gloo")
        self._standing_in = False
        self._hooks = [
            model.get_decoder().register_forward_pre_hook(self._waiting(i), prepend=True)
            for i, model in enumerate(models)
        ]

    def finish(self) -> None:
        """Stands in until the others have finished too."""
        while (turn := self._next(None)) is not None:
            self._stand_in(turn)
        for hook in self._hooks:
            hook.remove()

    def _waiting(self, own: int) -> Any:
        def wait(module: torch.nn.Module, given: object) -> None:
            if self._standing_in:
                return
            while (turn := self._next(own)) != own:
                assert turn is not None  # this process wants one
                self._stand_in(turn)

        return wait

    def _next(self, wanted: int | None) -> int | None:
        """Whose turn it is: the first model that any process wants; None where none wants any."""
        votes = torch.zeros(len(self._models), dtype=torch.int64)
        if wanted is not None:
            votes[wanted] = 1
        with watching():
            distributed.all_reduce(votes, group=self._group)
        return next((i for i, count in enumerate(votes.tolist()) if count), None)

    def _stand_in(self, turn: int) -> None:
        model = self._models[turn]
        self._standing_in = True
        try:
            with own_attention(model):
                model.get_decoder()(
                    input_ids=torch.zeros(1, 1, dtype=torch.int64, device=model.device), use_cache=False
                )
        finally:
            self._standing_in = False
