"""The engine on CUDA tensors that hold no numbers: what runs there, what waits, what memory it takes.

PyTorch's `FakeTensorMode` computes shapes, dtypes and devices only. `Counted` adds up kernels, bytes and floating-point
operations of what runs; its milliseconds are a roofline of an H100, not timings. A CPU build of PyTorch keeps CUDA
tensors once something answers for the device: a guard of two lines, compiled on first use.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import traceback
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from judgebench.judges.engine import hardware, kernels, layers

GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
static c10::impl::DeviceGuardImplRegistrar registrar(
    c10::DeviceType::CUDA, new c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>());
"""
MODE = FakeTensorMode(allow_non_fake_inputs=True)
WAITS = ("cpu", "item", "tolist", "__bool__", "__int__", "__float__", "numpy", "nonzero", "__index__")
PRODUCTS = ("linear", "mm", "addmm", "bmm", "_varlen_attn")
NO_KERNEL = ("empty", "empty_like", "new_empty", "empty_strided", "detach", "lift_fresh", "_unsafe_view")
HALF_RATE, FLASH_RATE, FLOAT_RATE, BANDWIDTH, LAUNCH = 640e12, 400e12, 48e12, 2.7e12, 2.5e-6


@cache
def guarded() -> None:
    """Lets this process keep fake CUDA tensors; skips the test where that cannot be."""
    if torch.cuda.is_available():
        return
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("fake CUDA tensors need g++ or a CUDA build of PyTorch")
    folder = Path(torch.__file__).parent
    built = Path(torch.hub.get_dir()).parent / f"judgebench_guard_{torch.__version__}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        part = built.with_name(f"{built.name}.part")
        flags = ["-O2", "-shared", "-fPIC", "-std=c++20", f"-I{folder / 'include'}", f"-L{folder / 'lib'}", "-lc10"]
        command = [compiler, "-x", "c++", "-", *flags, "-o", str(part)]
        done = subprocess.run(command, input=GUARD, text=True, capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"the guard of fake CUDA tensors does not compile: {done.stderr[-300:]}")
        part.replace(built)
    ctypes.CDLL(str(built))


def _on_cuda(x: object) -> bool:
    return (isinstance(x, torch.device) and x.type == "cuda") or (isinstance(x, str) and x.startswith("cuda"))


class FakeCuda(TorchFunctionMode):
    """Within it whatever asks for CUDA becomes fake; everything else stays real, on the CPU.

    Attributes:
        waits: place in judgebench and operation -> how often the host waited for the device, or sent it an index.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        fake = any(isinstance(x, FakeTensor) for x in leaves)
        name = getattr(func, "__name__", str(func))
        if name == "pin_memory":
            return args[0]
        if name in WAITS and any(isinstance(x, FakeTensor) and x.device.type == "cuda" for x in leaves):
            self.waits[place(), name] += 1
        fake = fake or any(map(_on_cuda, leaves))
        if not fake:
            return func(*args, **kwargs)
        if func in (torch.tensor, torch.as_tensor) and any(map(_on_cuda, leaves)):
            self.waits[place(), "host to device"] += 1
        if func is torch.tensor:
            device, real = kwargs.pop("device"), func(*args, **kwargs)
            func, args, kwargs = torch.empty, (real.shape,), {"dtype": real.dtype, "device": device}
        with MODE:
            if name in ("__getitem__", "__setitem__"):
                return self._indexed(name, *args)
            if name == "__invert__":
                return torch.ops.aten.bitwise_not.default(args[0])
            args, kwargs = tree_map(as_fake, (args, kwargs))
            return func(*args, **kwargs)

    def _indexed(self, name, x, key, value=None):
        """Indexing by plain operators: the binding's own asks a CUDA build."""
        aten = torch.ops.aten
        keys = key if isinstance(key, tuple) else (key,)
        used = sum(1 for k in keys if k is not None and k is not Ellipsis)
        view, dim, tensors = x, 0, []
        for k in keys:
            if k is None:
                view, dim = aten.unsqueeze.default(view, dim), dim + 1
                tensors.append(None)
            elif k is Ellipsis:
                tensors += [None] * (x.ndim - used)
                dim += x.ndim - used
            elif isinstance(k, int):
                view = aten.select.int(view, dim, k)
            elif isinstance(k, slice):
                if k != slice(None):
                    start, stop, step = k.indices(view.shape[dim])
                    view = aten.slice.Tensor(view, dim, start, max(start, stop), step)
                tensors.append(None)
                dim += 1
            else:
                if not isinstance(k, torch.Tensor):
                    self.waits[place(), "list as index"] += x.device.type == "cuda"
                    k = torch.tensor(list(k))
                if k.dtype == torch.bool:
                    self.waits[place(), "mask as index"] += 1
                if k.device != x.device:
                    self.waits[place(), "host tensor as index"] += 1
                k = as_fake(k)
                if k.device != x.device:
                    k = torch.empty(k.shape, dtype=k.dtype, device=x.device)
                tensors.append(k)
                dim += 1
        by_tensor = any(t is not None for t in tensors)
        if name == "__getitem__":
            if by_tensor:
                return aten.index.Tensor(view, tensors)
            return aten.alias.default(view) if view is x else view
        if not isinstance(value, torch.Tensor):
            value = torch.full((), value, dtype=x.dtype, device=x.device)
        value = as_fake(value)
        if by_tensor:
            return aten.index_put_.default(view, tensors, value)
        return aten.copy_.default(view, aten.expand.default(value, view.shape) if value.shape != view.shape else value)


def as_fake(x):
    return MODE.from_tensor(x) if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor) else x


def place() -> str:
    """The line of judgebench that is running."""
    frames = [f for f in traceback.extract_stack() if "/judgebench/judges/" in f.filename]
    return f"{frames[-1].filename.split('/judgebench/')[-1]}:{frames[-1].lineno}" if frames else "elsewhere"


class Counted(TorchDispatchMode):
    """Kernels, roofline seconds and peak memory of what runs on fake CUDA tensors within it.

    Attributes:
        kernels: operation -> how often.
        seconds: the larger of arithmetic and memory traffic of each kernel, 2.5 us at least, summed.
        peak: most bytes alive at once, of what was made within.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alive: dict[int, int] = {}
        self._segments: dict[int, kernels.Segments] = {}
        self.reset()

    def reset(self) -> None:
        """Counts from here; what is alive now is no longer followed."""
        self.kernels: Counter = Counter()
        self.seconds = 0.0
        self.peak = self._now = 0
        self._alive = dict.fromkeys(self._alive, 0)
        self._virtual: dict[int, dict[int, int]] | None = None  # what a region has made -> what it is made of, bytes

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        outs = [x for x in tree_leaves(out) if isinstance(x, FakeTensor) and x.device.type == "cuda"]
        ins = [x for x in tree_leaves((args, kwargs)) if isinstance(x, FakeTensor) and x.device.type == "cuda"]
        if not outs:
            return out
        self._follow(outs)
        name = func._schema.name.split("::")[1]
        if func.is_view or name in NO_KERNEL:
            return out
        if self._virtual is None:
            self._count(func, name, args, kwargs or {}, out, outs, ins)
        elif name in PRODUCTS:
            for x in ins:
                self._write(x)
            self._count(func, name, args, kwargs or {}, out, outs, ins)
        else:
            self._defer(outs, ins)
        return out

    def region(self, function, *args, **kwargs):
        """A function whose elementwise operations are compiled: each of its results, and of what its products take, is
        one kernel that reads what comes from outside of the region, or from a product."""
        if self._virtual is not None:
            return function(*args, **kwargs)
        self._virtual = {}
        out = function(*args, **kwargs)
        for x in tree_leaves(out):
            if isinstance(x, FakeTensor):
                self._write(x)
        self._virtual = None
        return out

    def _defer(self, outs, ins) -> None:
        sources: dict[int, int] = {}
        for x in ins:
            key = x.untyped_storage()._cdata
            sources |= self._virtual[key] if key in self._virtual else {key: _bytes(x)}
        written = {x.untyped_storage()._cdata for x in ins}
        for x in outs:
            key = x.untyped_storage()._cdata
            if key in written and key not in self._virtual:  # in place, into something from outside
                self._add("compiled", (sum(sources.values())) / BANDWIDTH)
            else:
                self._virtual[key] = sources

    def _write(self, x) -> None:
        sources = self._virtual.pop(x.untyped_storage()._cdata, None)
        if sources is not None:
            self._add("compiled", (sum(sources.values()) + _bytes(x)) / BANDWIDTH)

    def _count(self, func, name, args, kwargs, out, outs, ins) -> None:
        moved = sum(map(_bytes, outs)) + sum(map(_bytes, ins))
        if name in ("index", "embedding", "index_select", "gather"):
            moved = 2 * sum(map(_bytes, outs))
        if name in ("index_put_", "fill_", "zero_", "new_zeros", "zeros", "full", "arange"):
            moved = sum(map(_bytes, ins[-1:] or outs))
        known = {"linear": _linear_flops, "_varlen_attn": self._varlen_flops}
        flops_of = known.get(name) or flop_registry.get(func._overloadpacket)
        args = [x for x in args if not isinstance(x, torch.dtype)]  # what the product is summed in
        flops = flops_of(*args, **kwargs, out_val=out) if flops_of is not None else 0
        half = any(x.dtype in (torch.bfloat16, torch.float16) for x in ins)
        rate = FLOAT_RATE if not half else FLASH_RATE if "varlen" in name else HALF_RATE
        self._add(name, max(flops / rate, moved / BANDWIDTH))

    def sent(self, segments: kernels.Segments, ends: torch.Tensor) -> None:
        """Remembers how long the stretches are, which the ends on the device do not tell."""
        self._segments[ends.untyped_storage()._cdata] = segments

    def _varlen_flops(self, query, key, value, query_ends, *_, out_val):
        segments = self._segments.get(query_ends.untyped_storage()._cdata)
        if segments is None:  # a step of generation
            return 0
        pairs = sum(q * k - (q * (q - 1) // 2 if segments.causal else 0) for q, k in segments.sizes)
        return 4 * pairs * query.shape[1] * query.shape[2]

    def _add(self, name: str, seconds: float) -> None:
        self.kernels[name] += 1
        self.seconds += max(seconds, LAUNCH)

    def _follow(self, outs) -> None:
        for x in outs:
            storage = x.untyped_storage()
            if storage._cdata not in self._alive:
                self._alive[storage._cdata] = storage.nbytes()
                self._now += storage.nbytes()
                weakref.finalize(storage, self._gone, storage._cdata)
        self.peak = max(self.peak, self._now)

    def _gone(self, key: int) -> None:
        self._now -= self._alive.pop(key, 0)


def _linear_flops(states, weight, bias=None, *, out_val):
    return 2 * out_val.numel() * weight.shape[1]


def _bytes(x: torch.Tensor) -> int:
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())


@contextmanager
def fake_gpu(counting: bool = True) -> Iterator[tuple[FakeCuda, Counted]]:
    """A GPU with all kernels, of fake tensors; what `torch.compile` would compile counts as `Counted.region` says."""
    guarded()
    counted = Counted()

    def compiled(function, dynamic):
        return partial(counted.region, function) if counting else function

    to = kernels.Segments.to

    def sent(segments, device):
        moved = to(segments, device)
        counted.sent(segments, moved.ends)
        return moved

    caches = (kernels.varlen_fits, layers.compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
        patch.setattr(kernels, "_agrees", lambda *_: True)
        patch.setattr(kernels.Segments, "to", sent)
        patch.setattr(layers, "compiles", lambda device: device.type == "cuda")
        patch.setattr(torch, "compile", compiled)
        patch.setattr(hardware, "_here", hardware.Hardware(torch.device("cuda")))
        for cached in caches:
            cached.cache_clear()
        with torch.inference_mode(), counted if counting else nullcontext(), FakeCuda() as fake:
            yield fake, counted
    for cached in caches:
        cached.cache_clear()
    restore_rotary()


def restore_rotary() -> None:
    """Takes back what `layers.fuse` has changed in transformers' modules."""
    for name, module in list(sys.modules.items()):
        rotary = getattr(module, "apply_rotary_pos_emb", None) if name.startswith("transformers.models.") else None
        if hasattr(rotary, "uncompiled"):
            module.apply_rotary_pos_emb = rotary.uncompiled


def moved_to_fake_cuda(model: torch.nn.Module) -> torch.nn.Module:
    """A model of the meta device as fake CUDA tensors."""
    tied = model.config.tie_word_embeddings
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                fake = torch.empty(p.shape, dtype=p.dtype, device="cuda")
                module._parameters[name] = torch.nn.Parameter(fake, requires_grad=False)
        for name, b in list(module._buffers.items()):
            if b is not None:
                module._buffers[name] = torch.empty(b.shape, dtype=b.dtype, device="cuda")
    if tied:
        model.get_output_embeddings().weight = model.get_input_embeddings().weight
    return model
