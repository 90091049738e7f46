"""The prefix engine: reads whole groups of prompts in one forward pass over their unique tokens.

Candidates and free answers get at every wanted position what a plain forward pass over the full prompt gives
(`PlainEngine`); `check_packing` proves it on the model at hand before anything is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from transformers import PreTrainedModel

from judgebench.judges.engine.attention import NAME, AttentionPass, Prefill, ReadRoot, attending, only_read
from judgebench.judges.engine.cache import Cache, Root, Roots, Step
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.hardware import hardware, keep_freed
from judgebench.judges.engine.kernels import Segments, to_device
from judgebench.judges.engine.layers import compiling, fuse, lay_out
from judgebench.judges.engine.packing import Groups, Packed, following_tokens, pack_prompts, root_of
from judgebench.judges.engine.plain import Continuations, Head, PlainEngine, Wanted, layers_of
from judgebench.runtime.errors import UserError

_CHECK_TOLERANCE = 1e-3
"""Largest difference of a float32 log-probability from the plain pass that rounding explains."""

_CHECK_FACTOR = 5.0
"""The same for half precision, where rounding depends on the model: a multiple of the difference of two correct ways of
reading. All of 17 models in three dtypes pass, a mixture of experts at 3.6 and the others below 1.7; with branches that
see each other none does."""


class PrefixEngine:
    """Reads packed rows through the model's own code with judgebench's attention in place of its own.

    Args:
        model: a decoder-only language model of transformers; its attention and its linear layers are changed for good.
        exits: see `Head`. One forward pass serves all.
        room: bytes that the keys and values of roots may take together; the last is always kept.

    Attributes:
        computed: tokens computed so far.

    Raises:
        UserError: the model's layers are not all plain or sliding-window attention.
    """

    def __init__(self, model: PreTrainedModel, exits: Sequence[int | None] = (None,), room: int = 0):
        refuse_unpackable(model)
        self.model = model
        self.head = Head(model, exits)
        self.roots = Roots(room)
        self.computed = 0
        self._ready: tuple[Groups, Packed] | None = None
        layers = layers_of(self.head.decoder)
        self._last = None if layers is None else layers[-1]
        model.set_attn_implementation(NAME)
        lay_out(model)
        if hardware().compiled:
            fuse(model)
        if model.device.type == "cpu":
            keep_freed()

    def read(
        self, groups: Groups, trie: CandidateTrie, root: np.ndarray | None = None, following: Wanted | None = None
    ) -> list[torch.Tensor]:
        packed, rooted = self._pack(groups, trie, root)
        exits = self._prefill(packed, rooted)
        if following is not None and self.model.device.type != "cpu":  # before anything waits for the results
            groups, branches, after = following[0], following[1].branches, following[2]
            self._ready = groups, pack_prompts(groups, branches, len(after))
        return self._candidates(exits, packed, trie)

    def gradient(
        self,
        prompts: Sequence[np.ndarray],
        trie: CandidateTrie,
        at: slice,
        value: Callable[[list[torch.Tensor]], torch.Tensor],
        root: np.ndarray,
    ) -> torch.Tensor:
        """The gradient of a number by the embeddings of some tokens, [prompts, places, hidden] float32.

        Args:
            prompts: each [tokens]; of several, no two have the same token at the first place of `at`.
            at: the same places of all prompts, behind the root.
            value: gives the number from the result of `read`.
            root: the tokens that all prompts begin with; nothing flows back into it.
        """
        packed, rooted = self._pack([prompts], trie, root)
        embedded: list[torch.Tensor] = []

        def watch(module: torch.nn.Module, given: object, output: torch.Tensor) -> torch.Tensor:
            embedded.append(output.detach().requires_grad_(True))
            return embedded[0]

        hook = self.model.get_input_embeddings().register_forward_hook(watch)
        try:
            with torch.enable_grad():
                number = value(self._candidates(self._prefill(packed, rooted, whole=True), packed, trie))
                (gradient,) = torch.autograd.grad(number, embedded[0])
        finally:
            hook.remove()
        shared = packed.groups[0].shared.stop  # the row begins with what the prompts share below the root
        rows = [
            place - len(root) if place - len(root) < shared else start + place - len(root) - shared
            for start, _ in packed.spans
            for place in range(at.start, at.stop)
        ]
        return gradient[0, torch.tensor(rows, device=gradient.device)].float().unflatten(0, (len(prompts), -1))

    def at_branches(self, groups: Groups, trie: CandidateTrie) -> torch.Tensor:
        """[exits, prompts, branches, vocabulary] log-probabilities at every branch of the trie."""
        packed, rooted = self._pack(groups, trie, None)
        exits = [self.head.logits(states).log_softmax(-1) for states in self._prefill(packed, rooted)]
        return torch.stack(exits).unflatten(1, tuple(packed.reads.shape))

    def _candidates(self, exits: list[torch.Tensor], packed: Packed, trie: CandidateTrie) -> list[torch.Tensor]:
        """For each exit [prompts, candidates] from the states of `packed.reads`."""
        every = sorted({token for children in trie.children for token in children})
        tokens = to_device(torch.tensor(every), self.head.weight.device)
        results = []
        for states in exits:
            # many small steps follow, which cost a GPU more than they are worth
            read = self.head.logprobs(states, tokens).cpu().unflatten(0, tuple(packed.reads.shape))
            per_branch = [
                read[:, branch, [bisect_left(every, token) for token in children]]
                for branch, children in enumerate(trie.children)
            ]
            results.append(trie.logprobs(torch.cat(per_branch, dim=1)))
        return results

    def start(self, groups: Groups, root: np.ndarray | None = None) -> PackedAnswers:
        return PackedAnswers(self, *self._pack(groups, None, root))

    def likelihoods(self, groups: Groups) -> list[list[torch.Tensor]]:
        packed, _ = self._pack(groups, None, np.zeros(0, np.int32))
        reads, following, prompts = following_tokens(packed)
        reads, following = reads.to(self.model.device), following.to(self.model.device)
        hidden = self._forward(packed.token_ids, packed.positions, Prefill(packed, None))
        exits = [self.head.each_logprob(states[reads], following) for states in hidden]
        return [[logprobs[at.to(logprobs.device)] for at in prompts] for logprobs in exits]

    def _pack(self, groups: Groups, trie: CandidateTrie | None, root: np.ndarray | None) -> tuple[Packed, Root | None]:
        root = root_of(groups) if root is None else root
        if self._ready is not None and self._ready[0] is groups:
            packed = self._ready[1]
        else:
            packed = pack_prompts(groups, () if trie is None else trie.branches, len(root))
        self._ready = None
        self.computed += len(packed.token_ids)
        return packed.to(self.model.device), self._rooted(root) if len(root) else None

    def _rooted(self, root: np.ndarray) -> Root:
        """The root's keys and values, read by themselves, so that they never depend on the batch."""

        def read() -> Root:
            kept = Root()
            ids = torch.as_tensor(root, dtype=torch.int64, device=self.model.device)
            segments = Segments.of([len(root)], [len(root)], causal=True).to(ids.device)
            with torch.no_grad():
                self._forward(ids, torch.arange(len(root), device=ids.device), ReadRoot(kept, segments))
            self.computed += len(root)
            return kept

        return self.roots.get(root, read)

    def _prefill(
        self, packed: Packed, root: Root | None, cache: Cache | None = None, whole: bool = False
    ) -> list[torch.Tensor]:
        """[prompts * branches, hidden] after each exit: the states of `packed.reads`; `whole` spares the last layer
        nothing."""
        prefill, rows = Prefill(packed, root, cache), packed.reads.flatten()
        sparing = only_read(self._last, prefill) if self._last and not whole else nullcontext()
        with sparing:
            hidden = self._forward(packed.token_ids, packed.positions, prefill)
        return [states[rows] for states in hidden]

    def _forward(self, token_ids: torch.Tensor, positions: torch.Tensor, pass_: AttentionPass) -> list[torch.Tensor]:
        with attending(pass_), compiling(hardware().compiled), self.head.capturing() as captured:
            self.head.decoder(input_ids=token_ids[None], position_ids=positions[None], use_cache=False)
        return [states[0] for states in captured()]


class PackedAnswers:
    """Free answers over a packed batch. What prompts share stays shared; each adds keys of its own."""

    def __init__(self, engine: PrefixEngine, packed: Packed, root: Root | None):
        self._engine = engine
        shared = [group.shared.stop - group.shared.start for group in packed.groups]
        self._cache = Cache(
            spans=[(group.prompts.start, group.prompts.stop) for group in packed.groups],
            article_ends=[0, *(group.shared.stop for group in packed.groups)],
            offsets=[
                packed.root + size
                for size, group in zip(shared, packed.groups, strict=True)
                for _ in range(group.prompts.start, group.prompts.stop)
            ],
            lengths=[end - start for start, end in packed.spans],
        )
        self.logits = [engine.head.logits(states) for states in engine._prefill(packed, root, self._cache)]

    def step(self, tokens: torch.Tensor) -> None:
        self.logits = [logits[:, 0] for logits in self.extend(tokens[:, None])]

    def extend(self, tokens: torch.Tensor) -> list[torch.Tensor]:
        """Goes on by several tokens each, [prompts, tokens] int64; gives for each exit their logits [prompts, tokens,
        vocabulary] float32."""
        cache, device = self._cache, self._engine.model.device
        count = tokens.shape[1]
        step = Step.of(cache, count, device)
        positions = step.at + to_device(torch.tensor(cache.offsets), device)[:, None]
        cache.lengths = [length + count for length in cache.lengths]
        hidden = self._engine._forward(tokens.to(device).reshape(-1), positions.reshape(-1), step)
        return [self._engine.head.logits(states).unflatten(0, tuple(tokens.shape)) for states in hidden]

    def rewind(self, counts: Sequence[int]) -> None:
        """Forgets the last so many tokens of each prompt; `logits` are stale until it goes on."""
        cache = self._cache
        cache.lengths = [length - count for length, count in zip(cache.lengths, counts, strict=True)]

    def keep(self, which: torch.Tensor) -> None:
        cache = self._cache
        kept = which.tolist()
        cache.lengths, cache.offsets = [cache.lengths[i] for i in kept], [cache.offsets[i] for i in kept]
        cache.spans = [(bisect_left(kept, first), bisect_left(kept, last)) for first, last in cache.spans]
        which = which.to(self.logits[0].device)
        cache.own = {layer: (keys[which], values[which]) for layer, (keys, values) in cache.own.items()}
        self.logits = [logits[which] for logits in self.logits]


def refuse_unpackable(model: PreTrainedModel) -> None:
    """Raises UserError where a model keeps state that a packed row cannot share."""
    config = model.config.get_text_config(decoder=True)
    remedy = "Set judge.engine=plain to read its prompts one by one."
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if unknown := kinds - {"full_attention", "sliding_attention"}:
        raise UserError(
            f"{type(model).__name__} has layers of kind {', '.join(sorted(unknown))}, whose state cannot be shared "
            f"among prompts. {remedy}"
        )
    if getattr(model, "_is_stateful", False) or not getattr(model, "_supports_attention_backend", False):
        raise UserError(f"{type(model).__name__} does not take an attention function of judgebench's. {remedy}")


@torch.no_grad()
def check_packing(engine: PrefixEngine) -> float:
    """Reads a few short prompts packed and plainly, at candidates' branches and with a generated token, and compares.

    In half precision packed reading must be about as near to attention in float32 as the model's own attention is: how
    far two correct ways of reading differ there depends on the model.

    Returns:
        The largest difference of a log-probability; NaN where the model itself gives NaN.

    Raises:
        UserError: they differ by more than rounding explains.
    """
    model, exits = engine.model, engine.head.exits
    size = engine.head.weight.shape[0]
    draw = np.random.default_rng(0)

    def tokens(count: int) -> list[int]:
        return draw.integers(size // 10, size // 2, count).tolist()

    rubric, first, second = tokens(20), tokens(9), tokens(5)
    groups = [
        [np.array(rubric + article + tokens(own)) for own in owns]
        for article, owns in ((first, (3, 6)), (second, (4,)))
    ]
    following = torch.tensor(tokens(3))
    short = [[ids[-12:] for ids in group] for group in groups]
    space, one, two, zero = tokens(4)
    tries = [  # inner branches in a chain, and in a fork
        CandidateTrie(("1", "2"), [[(one,), (space, one)], [(two,), (space, two)]]),
        CandidateTrie(("1", "10"), [[(one,), (space, one)], [(one, zero), (space, one, zero)]]),
    ]

    def read(reader: PrefixEngine | PlainEngine, generate: bool = True) -> list[torch.Tensor]:
        answers = reader.start(groups)
        seen = [_normalized(answers), *(reader.at_branches(short, trie) for trie in tries)]
        if generate:
            answers.step(following)
            seen.append(_normalized(answers))
        return seen

    ours, theirs = read(engine), read(PlainEngine(model, exits))
    if any(each.isnan().any() for each in theirs):
        return float("nan")  # no fault of packing; refuse_nan reports it
    worst = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    if model.dtype == torch.float32:
        fine = worst <= _CHECK_TOLERANCE
    else:
        right = read(PlainEngine(model, exits, exact=True), generate=False)  # it has no cache to generate with
        ours, theirs = ours[: len(right)], theirs[: len(right)]
        rounding = torch.stack([_typical(a, b).max() for a, b in zip(theirs, right, strict=True)]).median()
        gaps = [torch.minimum(_typical(a, b), _typical(a, c)) for a, b, c in zip(ours, theirs, right, strict=True)]
        fine = max(float(gap.max()) for gap in gaps) <= _CHECK_FACTOR * float(rounding)
    if not fine:
        raise UserError(
            f"{type(model).__name__} gives other log-probabilities for packed prompts than for plain ones (largest "
            f"difference {worst:.3g}). Set judge.engine=plain to read its prompts one by one."
        )
    return worst


def _normalized(answers: Continuations) -> torch.Tensor:
    return torch.stack(answers.logits).log_softmax(-1)[:, :, None]


def _typical(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """[exits, branches] mean difference of log-probabilities, of the median prompt: a single one may differ by more,
    where a model chooses among experts."""
    return (ours - theirs).abs().mean(-1).median(dim=1).values
