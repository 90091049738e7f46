"""CUDA graphs emulated on the processor: operations that are repeated over the same memory, whatever Python does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAITS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "item")


class Waits(RuntimeError):
    """An operation that would wait for a GPU."""


class Watched(TorchDispatchMode):
    """Refuses what would wait for a GPU: numbers that the host reads, results whose shape depends on numbers, copies
    from device to device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        masks = name in ("index", "index_put", "index_put_") and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        )
        if name in WAITS or name.startswith("unique") or masks:
            raise Waits(f"{name} would wait for the device")
        out = func(*args, **kwargs)
        devices = {x.device.type for x in tree_leaves((args, kwargs, out)) if isinstance(x, Tensor) and x.ndim}
        if len(devices) > 1:
            raise Waits(f"{name} copies from device to device")
        return out


class Tape(Watched):
    """What runs within it, to be repeated by `replay`: the same operations on the same tensors. As with a CUDA graph,
    nothing that Python decides then is decided anew, and recording leaves no mark on what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self._operations: list[tuple] = []
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for argument, value in [*zip(func._schema.arguments, args, strict=False), *self._named(func, kwargs)]:
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._before.setdefault(id(value), (value, value.clone()))
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self._operations.append((func, args, kwargs, out))
        return out

    def _named(self, func, kwargs):
        return [(each, kwargs[each.name]) for each in func._schema.arguments if each.name in kwargs]

    def __exit__(self, *exception):
        super().__exit__(*exception)
        for tensor, before in self._before.values():
            tensor.copy_(before)

    def replay(self) -> None:
        for func, args, kwargs, out in self._operations:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Taping:
    """A `steps.Recorder` that makes tapes; `recorded`: how many, and `repeated`: how often they were replayed."""

    def __init__(self) -> None:
        self.trusted = False
        self.recorded = self.repeated = 0
        self._warm = False

    def warm(self, work: Callable[[], None]) -> bool:
        was, self._warm = self._warm, True
        if not was:
            work()
        else:
            with Watched():
                work()
        return was

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1
        tape = Tape()
        with tape:
            work()

        def replay() -> None:
            self.repeated += 1
            tape.replay()

        return replay
