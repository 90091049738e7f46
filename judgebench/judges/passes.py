"""Passes of a model over prompts: what each reads, under which keys the store holds it, and how it is computed;
and batches of prompts that are read together, their cost, and the process that reads each.

A batch is whole groups of one condition, as many as the token budget takes; under all attacks together, which share
the tokens before the judged text. The plan depends on the experiment alone, not on the store, so a resumed run reads
the same batches and gives the same numbers to the last bit.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.kernels import hardware, head_size
from judgebench.judges.engine.packing import root_of, unique_tokens
from judgebench.judges.engine.plain import (
    Chooser,
    EncoderDecoderEngine,
    Engine,
    Head,
    PlainEngine,
    Wanted,
    check_encoder_decoder,
    check_head,
    generate,
    stops_of,
)
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.judges.loading import ModelSource
from judgebench.prompts.thoughts import END_OF_THINK
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Prompt, ScoreRange

_SPLIT_ABOVE = 8
"""A single group may exceed the budget this many times before it is split: its prefix is shared as long as it is whole.
Only memory asks for the split."""

Tokens = dict[Condition, tuple[int, int]]
"""Condition -> tokens of its prompts together, and those of them that must be computed."""


@dataclass(frozen=True)
class Batch:
    """Prompts that are read in one forward pass: groups of one condition, but for the attack."""

    groups: tuple[tuple[Prompt, ...], ...]

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for group in self.groups for prompt in group]

    @property
    def token_ids(self) -> list[list[np.ndarray]]:
        """Of its prompts, group by group, as engines take them."""
        return [[prompt.token_ids for prompt in group] for group in self.groups]

    def tokens(self, root: int = 0) -> tuple[int, int]:
        """Tokens of its prompts together, and those of them that must be computed where `root` tokens are known."""
        return sum(len(prompt.token_ids) for prompt in self.prompts), unique_tokens(self.token_ids, root=root)

    def only(self, wanted: Callable[[Prompt], bool]) -> Batch | None:
        """The batch with the wanted prompts, each asked for once, in order; None if there are none."""
        groups = (tuple(prompt for prompt in group if wanted(prompt)) for group in self.groups)
        left = tuple(group for group in groups if group)
        return Batch(left) if left else None

    def halves(self) -> list[Batch]:
        """The batch in two: its groups, or the prompts of its only group."""
        if len(self.groups) > 1:
            middle = len(self.groups) // 2
            return [Batch(self.groups[:middle]), Batch(self.groups[middle:])]
        middle = len(self.groups[0]) // 2
        return [Batch((self.groups[0][:middle],)), Batch((self.groups[0][middle:],))]


def roots(prompts: Sequence[Prompt]) -> dict[tuple[Condition, str], np.ndarray]:
    """Condition and fold -> the tokens that all of their prompts begin with, read once for them all; attacked or not,
    the same."""
    shared = {
        alike: root_of([[prompt.token_ids for prompt in group] for group in groups.values()])
        for alike, groups in _by_condition(prompts).items()
    }
    every = dict.fromkeys(prompt.alike for prompt in prompts)
    return {(condition, fold): shared[replace(condition, attack=""), fold] for condition, fold in every}


def batch_costs(prompts: Sequence[Prompt], batches: Sequence[Batch]) -> list[int]:
    """Tokens to compute of each batch, where the roots of all `prompts` are known."""
    known = roots(prompts)
    return [batch.tokens(len(known[batch.prompts[0].alike]))[1] for batch in batches]


def plan(prompts: Sequence[Prompt], token_budget: int) -> list[Batch]:
    """Batches of whole groups with at most `token_budget` tokens to compute, where a single group has no more, in the
    order in which conditions and groups appear."""
    batches: list[Batch] = []
    known = roots(prompts)

    def split(group: Batch, root: int) -> list[Batch]:
        if len(group.prompts) == 1 or group.tokens(root)[1] <= token_budget * _SPLIT_ABOVE:
            return [group]
        return [part for half in group.halves() for part in split(half, root)]

    for groups in _by_condition(prompts).values():
        batch: list[tuple[Prompt, ...]] = []
        size = 0
        root = len(known[next(iter(groups.values()))[0].alike])
        for part in (part for members in groups.values() for part in split(Batch((tuple(members),)), root)):
            cost = part.tokens(root)[1]
            if batch and size + cost > token_budget:
                batches.append(Batch(tuple(batch)))
                batch, size = [], 0
            batch += part.groups
            size += cost
        batches.append(Batch(tuple(batch)))
    return batches


def _by_condition(prompts: Sequence[Prompt]) -> dict[tuple[Condition, str], dict[str, list[Prompt]]]:
    """Condition, but for the attack, and fold -> group_id -> prompts."""
    together: dict[tuple[Condition, str], dict[str, list[Prompt]]] = {}
    for prompt in prompts:
        groups = together.setdefault((replace(prompt.condition, attack=""), prompt.fold), {})
        groups.setdefault(prompt.example.group_id, []).append(prompt)
    return together


def unique_batches(batches: Sequence[Batch], identity: Callable[[Prompt], Hashable]) -> list[Batch]:
    """The batches without prompts of the same `identity` as an earlier one, as where two texts are compared and each is
    the other's rival."""
    seen: set[Hashable] = set()

    def first(prompt: Prompt) -> bool:
        name, before = identity(prompt), len(seen)
        seen.add(name)
        return len(seen) > before

    return [left for batch in batches if (left := batch.only(first)) is not None]


def token_counts(prompts: Sequence[Prompt], token_budget: int = 0, sharing: bool = True) -> Tokens:
    """Tokens by condition. Equal prompts are computed once; where prompts of a batch are `sharing` prefixes, a
    condition's root, an article, a judged text are too, and an attack's prompts count with the tokens that they add to
    those before them. Without a budget every prompt is computed, or billed, whole."""
    totals: Counter[Condition] = Counter()
    for prompt in prompts:
        totals[prompt.condition] += len(prompt.token_ids)
    if not token_budget:
        return {condition: (total, total) for condition, total in totals.items()}
    computed: Counter[Condition] = Counter()
    known = roots(prompts)
    begun: set[int] = set()
    batches = unique_batches(plan(prompts, token_budget), lambda p: (p.condition.range, p.token_ids.tobytes()))
    for batch in batches:
        conditions = list(dict.fromkeys(prompt.condition for prompt in batch.prompts))
        root, before = known[batch.prompts[0].alike], 0
        if sharing and id(root) not in begun:
            begun.add(id(root))
            computed[conditions[0]] += len(root)
        for i, condition in enumerate(conditions):
            part = batch.only(lambda prompt, counted=conditions[: i + 1]: prompt.condition in counted)  # type: ignore[misc]
            assert part is not None
            total, unique = part.tokens(len(root))
            now = unique if sharing else total
            computed[condition] += now - before
            before = now
    return {condition: (total, computed[condition]) for condition, total in totals.items()}


def assign(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Assigns whole batches to processes: the longest first, each to the rank that has least so far.

    No rank gets more than 4/3 of what the busiest has in the best assignment (Graham 1969, longest processing time).
    `costs` are [batches] tokens to compute of each; the result has for each rank the indices of its batches, ascending.

    Example:
        >>> assign([5, 1, 4, 4], 2)
        [[0, 1], [2, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    lightest = [(0, rank) for rank in range(ranks)]
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        total, rank = heapq.heappop(lightest)
        shares[rank].append(i)
        heapq.heappush(lightest, (total + costs[i], rank))
    return [sorted(share) for share in shares]


def assigned(batches: Sequence[Batch], costs: Sequence[int], ranks: int) -> list[Batch]:
    """The batches in the order in which Lightning's sampler, which gives rank r of R the places r, r + R, ..., hands
    them out as `assign` says. Where a rank has fewer than others, empty batches stand in."""
    rounds = zip_longest(*assign(costs, ranks))
    return [Batch(()) if i is None else batches[i] for turn in rounds for i in turn]


# --- passes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelView:
    """A model whose next-token distributions are read, at its end or at an earlier `exit` (layers before it).
    `fingerprint` is the SHA-256 of its content; results of `engine`s, `prefix` and `plain`, differ in the last bits."""

    source: ModelSource
    fingerprint: str
    engine: str = "prefix"
    exit: int | None = None

    def identity(self) -> dict[str, Any]:
        """All that its distributions depend on, but the prompt."""
        return {"model": self.fingerprint, "engine": self.engine, "exit": self.exit, **self.arithmetic()}

    def arithmetic(self) -> dict[str, str]:
        """The dtype and, in half precision on a GPU, the kernels: there each rounds in its own way."""
        dtype = self.source.effective_dtype()
        packed = self.engine == "prefix" and not self.source.encoder_decoder
        kernels = hardware().kernels(dtype, head_size(self.source.config()) if packed else None)
        return {"dtype": dtype, **({} if kernels is None else {"kernels": kernels})}


class Pass:
    """One forward pass, or one generation, over each prompt, by the models of its `views`; a subclass says what is read
    and under which keys the store holds it.

    Attributes:
        engines: of each source, once there are models; of exits of one model, one.
    """

    prompts: Sequence[Prompt]
    views: Sequence[ModelView]
    engines: Sequence[Engine]

    @property
    def sources(self) -> Sequence[ModelSource]:
        """The models that it needs in memory together."""
        return list(dict.fromkeys(view.source for view in self.views))

    @property
    def title(self) -> str:
        return " and ".join(source.title for source in self.sources)

    @cached_property
    def roots(self) -> dict[tuple[Condition, str], np.ndarray]:
        return roots(self.prompts)

    def batches(self, token_budget: int) -> list[Batch]:
        """All of its prompts, whether or not their readings are stored."""
        return plan(self.prompts, token_budget)

    def keys(self, prompt: Prompt) -> list[str]:
        """The keys under which the store holds what this pass computes for a prompt."""
        raise NotImplementedError

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        """Takes its models, once, and proves that they can be read."""
        views = {source: [view for view in self.views if view.source == source] for source in self.sources}
        self.engines = [engine_for(models[source], views[source]) for source in views]

    def release(self) -> None:
        """Lets go of its models."""
        self.engines = []

    def read(self, batch: Batch) -> list[ModelReading]:
        """Computes a batch; the readings stand in no particular order."""
        raise NotImplementedError


@dataclass
class ScorePass(Pass):
    """Candidate log-probabilities of one model, at one or several exits (`views`) in the same forward pass."""

    views: Sequence[ModelView]
    prompts: Sequence[Prompt]
    tries: Mapping[ScoreRange, CandidateTrie]
    _ready: tuple[Batch, Wanted] | None = field(default=None, init=False, repr=False)

    def key(self, view: ModelView, prompt: Prompt) -> str:
        paths = self.tries[prompt.condition.range].token_paths
        return reading_key({**view.identity(), "mode": "score_tokens", "paths": paths}, prompt.token_ids)

    def keys(self, prompt: Prompt) -> list[str]:
        return [self.key(view, prompt) for view in self.views]

    def release(self) -> None:
        super().release()
        self._ready = None

    def read(self, batch: Batch, following: Batch | None = None) -> list[ModelReading]:
        """Reads a batch; `following` is made ready while a GPU is at work."""

        def wanted(batch: Batch) -> Wanted:
            first = batch.prompts[0]
            return batch.token_ids, self.tries[first.condition.range], self.roots[first.alike]

        began = time.perf_counter()
        ready, prompts = self._ready, batch.prompts
        now = ready[1] if ready is not None and ready[0] is batch else wanted(batch)
        self._ready = None if following is None else (following, wanted(following))
        per_view = self.engines[0].read(*now, following=None if self._ready is None else self._ready[1])
        rows = [logprobs.float().cpu().numpy() for logprobs in per_view]
        seconds = (time.perf_counter() - began) / len(prompts)
        for view, values in zip(self.views, rows, strict=True):
            refuse_nan(values, prompts, view.source)
        return [
            ModelReading(self.key(view, prompt), row, None, seconds)
            for view, values in zip(self.views, rows, strict=True)
            for prompt, row in zip(prompts, values, strict=True)
        ]


@dataclass
class GeneratePass(Pass):
    """Free answers of one model, or of one less `minus`, which may read `nulls` instead (condition -> the prompt about
    nothing). `chooser` is the decoding that picks each token; its `repr` is part of the key. `thoughts` end at a
    closing think tag too, and their tokens are kept."""

    view: ModelView
    minus: ModelView | None
    nulls: Mapping[Condition, Prompt] | None
    chooser: Chooser
    prompts: Sequence[Prompt]
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int
    thoughts: bool = False

    def __post_init__(self) -> None:
        # the assistant is another exit of the same pass, the same model on other prompts, or a second model
        self.views = [self.view, *([self.minus] if self.minus is not None and self.nulls is None else [])]

    def keys(self, prompt: Prompt) -> list[str]:
        null = None if self.nulls is None else self.nulls[prompt.condition].token_ids.tolist()
        identity = {
            **self.view.identity(),
            "mode": "think" if self.thoughts else "generate",
            "minus": None if self.minus is None else {**self.minus.identity(), "prompt": null},
            "chooser": repr(self.chooser),
            "max_new_tokens": self.max_new_tokens,
            "draft": 0,  # as stores of earlier versions have it
        }
        return [reading_key(identity, prompt.token_ids)]

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        prompts, groups = batch.prompts, batch.token_ids
        condition, root = prompts[0].condition, self.roots[prompts[0].alike]
        main, assistant = self.engines[0].start(groups, root), None
        if self.nulls is not None:
            assistant = self.engines[0].start([[self.nulls[condition].token_ids] * len(prompts)])
        elif len(self.engines) > 1:
            assistant = self.engines[1].start(groups, root)

        def logits() -> tuple[Tensor, Tensor | None]:
            sides = [main.logits[0]]
            if assistant is not None or len(main.logits) > 1:
                sides.append(main.logits[1] if assistant is None else assistant.logits[0])
            for source, side in zip((self.view.source, (self.minus or self.view).source), sides, strict=False):
                refuse_nan(side.sum(dim=1, keepdim=True).cpu().numpy(), prompts, source)
            if len(sides) == 1:
                return sides[0], None
            # models of one family may pad their heads to different sizes behind the same vocabulary
            size = min(side.shape[1] for side in sides)
            return sides[0][:, :size], sides[1][:, :size].to(sides[0].device)

        sides = [main] if assistant is None else [main, assistant]
        stops = stops_of(self.engines[0].model, self.tokenizer)
        if self.thoughts and (end := self.tokenizer.get_vocab().get(END_OF_THINK)) is not None:
            stops |= {end}
        answers = generate(sides, logits, self.chooser, stops, self.max_new_tokens)
        seconds = (time.perf_counter() - began) / len(prompts)
        texts = [str(self.tokenizer.decode(tokens, skip_special_tokens=True)) for tokens in answers]
        kept = [np.array(tokens, np.int32) if self.thoughts else None for tokens in answers]
        parts = zip(prompts, texts, kept, strict=True)
        return [ModelReading(self.keys(prompt)[0], None, text, seconds, tokens) for prompt, text, tokens in parts]


def refuse_nan(values: np.ndarray, prompts: Sequence[Prompt], source: ModelSource) -> None:
    """Raises UserError for a NaN among values [rows, any], with its example where there are as many rows as prompts."""
    bad = np.isnan(values).any(axis=1)
    if not bad.any():
        return
    about = f" to example {prompts[int(bad.argmax())].example.example_id}" if len(values) == len(prompts) else ""
    hint = "; float16 overflows in some models: try dtype bfloat16" if source.effective_dtype() == "float16" else ""
    raise UserError(f"{source.title} answers{about} with NaN, so its weights or its dtype are not fit to judge{hint}.")


_tried: WeakKeyDictionary[PreTrainedModel, set[tuple[Any, ...]]] = WeakKeyDictionary()
"""Model -> ways of reading it that have passed their check, which takes longer than reading a text."""


def engine_for(model: PreTrainedModel, views: Sequence[ModelView], room: int = 0) -> Engine:
    """The engine that reads `views`, the exits of one model, tried on the model at hand; `UserError` where it cannot be
    read so. `room`: see `PrefixEngine`."""
    exits, alone = [view.exit for view in views], views[0].engine == "plain"
    way = (alone, *exits, model.device)
    tried = _tried.setdefault(model, set())
    engine: PrefixEngine | PlainEngine | EncoderDecoderEngine
    if model.config.is_encoder_decoder:
        assert exits == [None], "an encoder-decoder model is read at its end alone"
        engine = EncoderDecoderEngine(model, alone)
        if way not in tried:
            check_encoder_decoder(engine)
    else:
        if way not in tried:
            check_head(model, Head(model))
        engine = PlainEngine(model, exits) if alone else PrefixEngine(model, exits, room)
        if way not in tried and isinstance(engine, PrefixEngine):
            check_packing(engine)
    tried.add(way)
    return engine


@dataclass
class LikelihoodPass(Pass):
    """The log-probability of every token of a text after its first, given those before; not of encoder-decoder models,
    which predict an answer and not the text that they read.

    Prompts (`prompts.texts.text_prompts`) have two tokens at least, and begin with the tokenizer's BOS, if any, so that
    a text's first own token counts too. Texts that begin alike share what is computed where they are of one group.
    """

    view: ModelView
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self.view.source.check_decoder_only("say how likely a text is")
        self.views = [self.view]

    def keys(self, prompt: Prompt) -> list[str]:
        return [reading_key({**self.view.identity(), "mode": "likelihood"}, prompt.token_ids)]

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        rows = [row.cpu().numpy() for row in self.engines[0].likelihoods(batch.token_ids)[0]]
        seconds = (time.perf_counter() - began) / len(rows)
        for prompt, logprobs in zip(batch.prompts, rows, strict=True):
            refuse_nan(logprobs[None], [prompt], self.view.source)
        pairs = zip(batch.prompts, rows, strict=True)
        return [ModelReading(self.keys(prompt)[0], logprobs, None, seconds) for prompt, logprobs in pairs]
