"""The engine on CUDA tensors that hold no numbers: what runs there, what waits, what memory it takes.

PyTorch's `FakeTensorMode` computes shapes, dtypes and devices only. `Counted` adds up kernels and bytes of what runs. A
CPU build of PyTorch keeps CUDA tensors once something answers for the device: a guard of two lines, compiled on first
use.
"""

import ctypes
import shutil
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from judgebench.judges.engine import fused, hardware, kernels, layers

GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
static c10::impl::DeviceGuardImplRegistrar registrar(
    c10::DeviceType::CUDA, new c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>());
"""
MODE = FakeTensorMode(allow_non_fake_inputs=True)
WAITS = ("cpu", "item", "tolist", "__bool__", "__int__", "__float__", "numpy", "nonzero", "__index__")
NO_KERNEL = ("empty", "empty_like", "new_empty", "empty_strided", "detach", "lift_fresh", "_unsafe_view")


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
    frame = sys._getframe()  # a traceback would look at every file of the stack
    while frame is not None and "/judgebench/judges/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.split('/judgebench/')[-1]}:{frame.f_lineno}" if frame else "elsewhere"


class Counted(TorchDispatchMode):
    """Kernels and peak memory of what runs on fake CUDA tensors within it.

    Attributes:
        kernels: operation -> how often.
        peak: most bytes alive at once, of what was made within.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alive: dict[int, int] = {}
        self.reset()

    def reset(self) -> None:
        """Counts from here; what is alive now is no longer followed."""
        self.kernels: Counter = Counter()
        self.peak = self._now = 0
        self._alive = dict.fromkeys(self._alive, 0)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        outs = [x for x in tree_leaves(out) if isinstance(x, FakeTensor) and x.device.type == "cuda"]
        self._follow(outs)
        name = func._schema.name.split("::")[1]
        if outs and not func.is_view and name not in NO_KERNEL:
            self.kernels[name] += 1
        return out

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


@contextmanager
def fake_gpu(counting: bool = True) -> Iterator[tuple[FakeCuda, Counted]]:
    """A GPU with all kernels, of fake tensors; those in Triton are counted and not run."""
    guarded()
    counted = Counted()

    triton_kernels = pytest.importorskip("judgebench.judges.engine.triton_kernels")

    def launch(kernel, *_, **__):
        counted.kernels[kernel.__name__] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
        patch.setattr(kernels, "_agrees", lambda *_: True)
        patch.setattr(fused, "fuses", lambda device, dtype: device.type == "cuda")
        patch.setattr(layers, "difference", lambda theirs, ours: 0.0)  # of tensors without numbers
        patch.setattr(triton_kernels, "launch", launch)
        patch.setattr(hardware, "_here", hardware.Hardware(torch.device("cuda")))
        kernels.varlen_fits.cache_clear()
        with torch.inference_mode(), counted if counting else nullcontext(), FakeCuda() as fake:
            yield fake, counted
    kernels.varlen_fits.cache_clear()
    restore_rotary()


def restore_rotary() -> None:
    """Takes back what `fused.fuse` has changed in transformers' modules."""
    for name, module in list(sys.modules.items()):
        rotary = getattr(module, "apply_rotary_pos_emb", None) if name.startswith("transformers.models.") else None
        if hasattr(rotary, "plain"):
            module.apply_rotary_pos_emb = rotary.plain


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
