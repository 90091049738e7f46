"""Steps of generation in shapes that stay, so that a GPU repeats them as one graph of kernels.

A step of free answers launches some 900 kernels, one by one from Python: seven times as long as the
GPU works on them. CUDA records them once and launches them together from then on (CUDA graphs),
with the same numbers, as long as all shapes and addresses stay. So room for the keys of a whole
`Stage` of steps is there beforehand, a bound stands for the longest answer, and what differs from
step to step are tensors that are changed in place.

Nothing here is trusted before it was tried. The first steps of a stage run as they are: once to
warm up, and once with an error in place of each wait for the GPU, which a graph cannot hold. An
engine's first graph is compared with the same step as it is, bit for bit. Where anything fails, the
steps go on as they are, and `Hardware.steps` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from judgebench.judges.engine.attention import GROWTH, Cache, NotStatic, Step
from judgebench.judges.engine.generate import Pace
from judgebench.judges.engine.hardware import hardware, out_of_memory
from judgebench.judges.engine.layers import in_shards

LATER = 4 * GROWTH
"""Steps that room is made for at once, once the first `GROWTH` have been taken."""

GPU_PACE = Pace(look=4, share=0.5, fewest=32)
"""A look at the ends waits for the GPU, and to leave costs a graph: a tenth of a second. A step of
24 answers takes as long as one of 12, for the weights are read once."""

Work = Callable[[], None]
GoOn = Callable[[Tensor, Step], list[Tensor]]
"""New tokens [prompts] -> [prompts, vocabulary] logits behind them, of each exit."""


class Stage:
    """Steps of the same shapes, so many of them `left`; `logits` hold the result of the last."""

    def __init__(self, cache: Cache, go_on: GoOn, logits: list[Tensor], left: int):
        device = logits[0].device
        self.step = Step.of(cache, device, left)
        self.tokens = torch.zeros_like(self.step.at)  # [prompts]
        # outside of the memory that graphs share: each uses it as if it were alone
        self.logits = [torch.empty_like(of_exit) for of_exit in logits]
        self.left = left
        self.warm = False
        self.refused: str | None = None
        self.replay: Work | None = None
        self.go_on = go_on

    def work(self) -> None:
        """One step, and on to the next place."""
        for kept, new in zip(self.logits, self.go_on(self.tokens, self.step), strict=True):
            kept.copy_(new)
        self.step.move()


class Steps:
    """The way in which the answers of a model go on.

    Attributes:
        pace: see `Pace`.
        stay: steps keep their shapes.
        refused: why they are no graphs.
        recorder: `Graphs`, or whatever makes the like of them; None runs steps as they are.
    """

    def __init__(self, model: nn.Module, device: torch.device):
        self.stay = device.type == "cuda"
        self.pace = GPU_PACE if self.stay else Pace()
        self.recorder: Any = Graphs(device) if self.stay else None
        self.refused: str | None = None
        if self.stay and in_shards(model):
            self.refused = "as they are: the model is split among processes"

    def stage(
        self, cache: Cache, go_on: GoOn, logits: list[Tensor], last: Stage | None
    ) -> Stage | None:
        """The stage that goes on after `last`, with results like `logits`; None where shapes do not
        stay."""
        if not self.stay or self.refused is not None:
            return None
        return Stage(cache, go_on, logits, GROWTH if last is None else LATER)

    def run(self, stage: Stage | None, tokens: Tensor) -> list[Tensor] | None:
        """The logits behind new tokens [prompts], until the next step; None where this batch has to
        go on as it is."""
        way = self.refused if stage is None else stage.refused
        logits = None
        if stage is not None and way is None:
            try:
                way = self._run(stage, tokens)
                logits = stage.logits
            except (NotStatic, RuntimeError) as error:
                if out_of_memory(error):
                    raise
                way = stage.refused = f"as they are: {error}".partition("\n")[0]
                # masks depend on how long prompts are; any other reason stays
                if not isinstance(error, NotStatic):
                    self.refused = way
        if way is not None:
            hardware().steps[way] += 1
        return logits

    def _run(self, stage: Stage, tokens: Tensor) -> str | None:
        """Takes a step; the way it went, or None where there are no graphs."""
        stage.tokens.copy_(tokens)
        stage.left -= 1
        if self.recorder is None:
            stage.work()
            return None
        if stage.replay is None and not stage.warm:
            stage.warm = self.recorder.warm(stage.work)
            return "as they are, to warm up"
        if stage.replay is None:
            stage.replay = self.recorder.record(stage.work)
            stage.replay()
        elif self.recorder.trusted:
            stage.replay()
        else:
            self._try(stage, stage.replay)
        return "as graphs"

    def _try(self, stage: Stage, replay: Work) -> None:
        """Compares a step by a graph with the step as it is: not the one that was recorded, for
        what stands still would not show there."""
        cache, device = stage.step.cache, stage.tokens.device
        # a graph that is wrong may write anywhere among the keys
        kept = {layer: (key.clone(), value.clone()) for layer, (key, value) in cache.tails.items()}
        replay()
        expected = stage.go_on(stage.tokens, Step.of(cache, device, stage.left + 1))
        if not all(map(torch.equal, stage.logits, expected)):
            cache.tails.update(kept)
            raise RuntimeError("a step gives other numbers as a graph")
        self.recorder.trusted = True


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
        watched, self._warm = self._warm, True
        with self._aside():
            torch.cuda.set_sync_debug_mode("error" if watched else "default")
            try:
                work()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return watched

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        pool = None if self._last is None else self._last.pool()
        with self._aside():
            # other threads may load or pack what they like
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
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
