"""Steps of generation in shapes that stay, so that a GPU repeats them as one graph of kernels.

A step of free answers launches some 900 kernels, one by one from Python: seven times as long as the
GPU works on them. CUDA records them once and launches them together from then on (CUDA graphs),
with the same numbers, as long as all shapes and addresses stay. So room for the keys of a whole
`Stage` of steps is there beforehand, a bound stands for the longest answer, and what differs from
step to step are tensors that are changed in place.

Nothing here is trusted before it was tried. The first steps of a stage run as they are: once to
warm up, and once with an error in place of each wait for the GPU, which a graph cannot hold. An
engine's first graph is compared with the same step as it is, bit for bit. Where anything fails, the
steps go on as they are, and `ways` says why.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from judgebench.judges.engine.attention import GROWTH, Cache, NotStatic, Step
from judgebench.judges.engine.generate import Pace
from judgebench.judges.engine.hardware import out_of_memory
from judgebench.types import Record

LONGEST_STAGE = 256
"""Most steps that room is made for at once; the first stage has `GROWTH`, each other twice as many
as the one before."""

GPU_PACE = Pace(look=4, share=0.5, fewest=32)
"""A look at the ends waits for the GPU, and to leave costs a graph: a tenth of a second. A step of
24 answers takes as long as one of 12, for the weights are read once."""

Work = Callable[[], None]
GoOn = Callable[[Tensor, Step], list[Tensor]]
"""New tokens [prompts] -> [prompts, vocabulary] logits behind them, of each exit."""

_steps: Counter[str] = Counter()
_reasons: dict[str, None] = {}


def ways() -> Record | None:
    """Steps of this process's free answers on a GPU, by the way they ran, and why not as graphs;
    None without any."""
    if not _steps:
        return None
    return {**_steps, "why_not_as_graphs": list(_reasons)}


class Recorder(Protocol):
    """A maker of graphs; `trusted`: one of them has been tried."""

    trusted: bool

    def warm(self, work: Work) -> bool:
        """Does the work as it is, where it will be recorded; True where that has shown that it
        waits for nothing."""

    def record(self, work: Work) -> Work:
        """The work as a graph, which does it anew at each call; recording it does nothing."""


class Stage:
    """Steps of the same shapes, `left` of `length`; `logits` hold the result of the last one."""

    def __init__(self, cache: Cache, go_on: GoOn, logits: list[Tensor], length: int):
        device = logits[0].device
        self.step = Step.of(cache, device, length)
        self.tokens = torch.zeros_like(self.step.at)  # [prompts]
        # outside of the memory that graphs share: each uses it as if it were alone
        self.logits = [torch.empty_like(of_exit) for of_exit in logits]
        self.left = self.length = length
        self.failed = self.warm = False
        self.replay: Work | None = None
        self._go_on = go_on

    def work(self) -> None:
        """One step, and on to the next place."""
        for kept, new in zip(self.logits, self._go_on(self.tokens, self.step), strict=True):
            kept.copy_(new)
        self.step.move()


class Steps:
    """The way in which the answers of a model go on.

    Attributes:
        pace: see `Pace`.
        stay: steps keep their shapes: on a GPU, unless the model is split among processes.
        recorder: makes graphs of them; None runs them as they are.
    """

    def __init__(self, model: nn.Module, device: torch.device):
        self._on_gpu = device.type == "cuda"
        split = any(isinstance(parameter, DTensor) for parameter in model.parameters())
        self.pace = GPU_PACE if self._on_gpu else Pace()
        self.stay = self._on_gpu and not split
        self.recorder: Recorder | None = Graphs(device) if self.stay else None
        if self._on_gpu and split:
            _reasons["the model is split among processes"] = None

    def stage(
        self, cache: Cache, go_on: GoOn, logits: list[Tensor], last: Stage | None
    ) -> Stage | None:
        """The stage that goes on after `last`, with results like `logits`; None where shapes do not
        stay."""
        if not self.stay:
            return None
        length = GROWTH if last is None else min(2 * last.length, LONGEST_STAGE)
        return Stage(cache, go_on, logits, length)

    def run(self, stage: Stage | None, tokens: Tensor) -> list[Tensor] | None:
        """The logits behind new tokens [prompts], until the next step; None where this batch has to
        go on as it is."""
        done = False
        if stage is not None and not stage.failed:
            try:
                done = self._run(stage, tokens)
            except (NotStatic, RuntimeError) as error:
                if out_of_memory(error):
                    raise
                stage.failed = True
                # masks depend on how long the prompts are; what fails for another reason fails
                # again
                self.stay = isinstance(error, NotStatic)
                first_line = str(error).partition("\n")[0]
                _reasons[first_line[:200]] = None
        if self._on_gpu:
            as_graph = done and stage is not None and stage.replay is not None
            _steps["as_graphs" if as_graph else "as_they_are"] += 1
        return stage.logits if done and stage is not None else None

    def _run(self, stage: Stage, tokens: Tensor) -> bool:
        stage.tokens.copy_(tokens)
        recorder = self.recorder
        if recorder is None:
            stage.work()
        elif stage.replay is not None and recorder.trusted:
            stage.replay()
        elif stage.replay is not None:
            self._try(stage, stage.replay, recorder)
        elif stage.warm:
            stage.replay = recorder.record(stage.work)
            stage.replay()
        else:
            stage.warm = recorder.warm(stage.work)
        stage.left -= 1
        return True

    def _try(self, stage: Stage, replay: Work, recorder: Recorder) -> None:
        """A step by a graph and as it is, of which the second counts: not the one that was
        recorded, for what stood still would not show there."""
        step, tails = stage.step, stage.step.cache.tails
        # a graph that is wrong may write anywhere
        kept = {layer: (keys.clone(), values.clone()) for layer, (keys, values) in tails.items()}
        moving = (step.at, step.used, step.live)
        here = [tensor.clone() for tensor in moving]
        replay()
        by_graph = [logits.clone() for logits in stage.logits]
        for tensor, before in zip(moving, here, strict=True):
            tensor.copy_(before)
        recorder.warm(stage.work)
        if not all(map(torch.equal, by_graph, stage.logits)):
            tails.update(kept)
            raise RuntimeError("a step gives other numbers as a graph")
        recorder.trusted = True


class Graphs:
    """CUDA graphs of one engine, on a stream of their own."""

    def __init__(self, device: torch.device):
        self.trusted = False
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        self._warm = False
        # the last graph keeps the memory that all of them share, one after the other
        self._last: torch.cuda.CUDAGraph | None = None

    def warm(self, work: Work) -> bool:
        # compilers wait as they like, but only the first time
        watched = self._warm
        before = torch.cuda.get_sync_debug_mode()
        with self._aside():
            torch.cuda.set_sync_debug_mode("error" if watched else before)
            try:
                work()
            finally:
                torch.cuda.set_sync_debug_mode(before)
        self._warm = True
        return watched

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        pool = None if self._last is None else self._last.pool()
        collecting = gc.isenabled()
        gc.disable()  # what it would free may call what CUDA refuses meanwhile
        try:
            with self._aside():
                # other threads may load or pack what they like
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    work()
                except Exception:
                    with suppress(RuntimeError):  # the first error says what it was
                        graph.capture_end()
                    raise
                graph.capture_end()
        finally:
            if collecting:
                gc.enable()
        self._last = graph
        return graph.replay

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Within it work goes to the graphs' own stream, after all that has been asked for; what is
        asked for later comes after it."""
        # a graph cannot be recorded from the usual stream, and libraries keep memory for each
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            usual.wait_stream(self._stream)
