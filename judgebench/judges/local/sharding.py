"""Models larger than one device: each process of the run holds a share of every layer
(trainer=fsdp), gets the others' share while it runs the layer, and reads batches of its own.

Layers are split by PyTorch's own means (FSDP2, `fully_shard`), and so are embeddings unless they
are the head's too; the head, which is read in float32 from its weight (`Head`), and the final norm
stay whole on every process.

The first process alone loads the model, and hands its parameters out one by one: only the first
machine needs its files, and every form that transformers loads can be split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning as L
import torch
from accelerate import init_empty_weights
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from judgebench.judges.engine.attention import own_attention
from judgebench.judges.engine.plain import layers_of
from judgebench.judges.local.loading import ModelSource
from judgebench.runtime.distributed import process_group, watching
from judgebench.words.errors import UserError


class FullySharded(ModelParallelStrategy):
    """Every process of the run holds a share of each layer, and reads a share of the batches."""

    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        self._tensor_parallel_size = 1
        super().setup_environment()


def is_split(strategy: Any) -> bool:
    """True of a strategy that splits models."""
    return isinstance(strategy, ModelParallelStrategy)


def check_split(source: ModelSource, trainer: L.Trainer) -> None:
    """Raises UserError where a trainer cannot split a model, by its configuration."""
    if not is_split(trainer.strategy):
        return
    if not isinstance(trainer.strategy, FullySharded):
        raise UserError(
            f"trainer.strategy: {type(trainer.strategy).__name__} splits heads and features among "
            "processes, and judgebench splits layers alone; take trainer=fsdp."
        )
    if source.encoder_decoder:
        raise UserError(
            f"trainer: {source.title} is an encoder-decoder model, and only decoder-only ones are "
            "split among processes; take trainer=ddp, or trainer=auto."
        )


@torch.no_grad()
def load_split(source: ModelSource, strategy: Any, mesh: DeviceMesh) -> PreTrainedModel:
    """A model, of which this process holds its part; all processes call this together.

    `mesh` is the strategy's. `UserError` where the first process
    cannot load the model, or it cannot be split.
    """
    whole: list[PreTrainedModel] = []  # in the first process alone

    def described() -> tuple[Any, ...]:
        model = source.model()
        whole.append(model)
        return model.config, model.generation_config, model.dtype

    # 1. the model's shape, without its values
    config, generation_config, dtype = process_group().agree(described)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(
            config, dtype=dtype, trust_remote_code=source.trust_remote_code
        )
    model.generation_config = generation_config
    model.tie_weights()
    decoder = model.get_decoder()
    layers = layers_of(decoder)
    if layers is None:
        raise UserError(
            f"trainer: the layers of {type(model).__name__} were not found, so it cannot be split."
        )
    # 2. its parts
    parts = [*layers]
    embeddings = model.get_input_embeddings()
    if embeddings.weight is not model.get_output_embeddings().weight:
        parts.append(embeddings)
    whole_here = set(decoder.parameters()).difference(*(part.parameters() for part in parts))
    for part in parts:
        fully_shard(part, mesh=mesh["data_parallel"])
    fully_shard(decoder, mesh=mesh["data_parallel"], ignored_params=whole_here)
    # 3. its values: each tensor goes from the first process to all, and each keeps its part
    model.to_empty(device=strategy.root_device)
    model.tie_weights()
    values = {
        name: x for each in whole for name, x in [*each.named_parameters(), *each.named_buffers()]
    }
    for name, target in [*model.named_parameters(), *model.named_buffers()]:
        value = torch.empty(target.shape, dtype=target.dtype, device=strategy.root_device)
        if values:
            value.copy_(values[name])
        distributed.broadcast(value, src=0)
        if isinstance(target, DTensor):
            part = distribute_tensor(
                value, target.device_mesh, target.placements, src_data_rank=None
            )
            target.to_local().copy_(part.to_local())
        else:
            target.copy_(value)
    return model.eval().requires_grad_(False)


class Turns:
    """Takes turns with the other processes: until `finish`, the decoders of fully sharded models
    run in all of them at once. All processes make it at the same point, with the same models."""

    def __init__(self, models: Sequence[PreTrainedModel]):
        self._models = models
        self._group = distributed.new_group(backend="gloo")
        self._standing_in = False
        self._hooks = []
        for i, model in enumerate(models):

            def wait(module: torch.nn.Module, inputs: object, mine: int = i) -> None:
                while not self._standing_in and (turn := self._next(mine)) != mine:
                    assert turn is not None  # this process wants one
                    self._stand_in(turn)

            self._hooks.append(model.get_decoder().register_forward_pre_hook(wait, prepend=True))

    def finish(self) -> None:
        while (turn := self._next(None)) is not None:
            self._stand_in(turn)
        for hook in self._hooks:
            hook.remove()

    def _next(self, wanted: int | None) -> int | None:
        """The first model that any process wants, whose turn it is; None where none wants any."""
        votes = torch.zeros(len(self._models), dtype=torch.int64)
        if wanted is not None:
            votes[wanted] = 1
        with watching():
            distributed.all_reduce(votes, group=self._group)
        return next((i for i, count in enumerate(votes.tolist()) if count), None)

    def _stand_in(self, turn: int) -> None:
        model = self._models[turn]
        token = torch.zeros(1, 1, dtype=torch.int64, device=model.device)
        self._standing_in = True
        try:
            with own_attention(model):
                model.get_decoder()(input_ids=token, use_cache=False)
        finally:
            self._standing_in = False
