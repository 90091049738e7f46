"""The prefix engine: reads whole groups of prompts in one forward pass over their unique tokens.

Candidates and free answers get at every wanted position what a plain forward pass over the full
prompt gives (`PlainEngine`); `check_packing` proves it on the model at hand before anything is
read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from judgebench.judges.engine import attention
from judgebench.judges.engine.attention import AttentionPass, Cache, Prefill, Root
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.fused import fuse, fusing
from judgebench.judges.engine.hardware import hardware, keep_freed
from judgebench.judges.engine.kernels import Segments, to_device
from judgebench.judges.engine.layers import lay_out
from judgebench.judges.engine.packing import Packed, following_tokens, pack_prompts
from judgebench.judges.engine.plain import CHECK_TOLERANCE, Head, PlainEngine, Wanted, layers_of
from judgebench.judges.engine.steps import Stage, Steps
from judgebench.judges.local.batches import Groups, root_of
from judgebench.types import Array
from judgebench.words.errors import UserError

_CHECK_FACTOR = 5.0
"""Largest difference from the plain pass in half precision, where rounding depends on the model: a
multiple of the difference of two correct ways of reading. Of 17 models in bfloat16 and float16 all are
below 1.6 (on processors); with branches that see each other all are above 6."""


class PrefixEngine:
    """Reads packed rows through the model's own code with judgebench's attention in place of its
    own; `UserError` where its layers are not all plain or sliding-window attention, or it takes no
    other attention.

    Args:
        model: a decoder-only language model of transformers; its attention and its linear layers
            are changed for good.
        exits: see `Head`. One forward pass serves all.
        room: bytes that the keys and values of roots may take together; the last is always kept.
    """

    def __init__(
        self, model: PreTrainedModel, exits: Sequence[int | None] = (None,), room: int = 0
    ):
        # 1. models that keep state that a packed row cannot share
        # Keys and values can be shared, for each token has its own. A state that is updated token
        # by token (Mamba, linear attention) holds all that came before, and cannot.
        remedy = "Set judge.engine=plain to read its prompts one by one."
        kinds = set(
            getattr(model.config.get_text_config(decoder=True), "layer_types", None)
            or ["full_attention"]
        )
        if unknown := kinds - {"full_attention", "sliding_attention"}:
            raise UserError(
                f"{type(model).__name__} has layers of kind {', '.join(sorted(unknown))}, whose "
                f"state cannot be shared among prompts. {remedy}"
            )
        if getattr(model, "_is_stateful", False) or not getattr(
            model, "_supports_attention_backend", False
        ):
            raise UserError(
                f"{type(model).__name__} does not take an attention function of judgebench's. "
                f"{remedy}"
            )
        # 2. the model's parts
        self.model, self.head = model, Head(model, exits)
        self.roots = attention.Roots(room)
        self.computed = 0
        self.steps = Steps(model, model.device)
        self._ready: tuple[Groups, Packed] | None = None  # the next batch, packed ahead
        layers = layers_of(self.head.decoder)
        # without layers to be found the last one runs over the whole row, which is only slower
        self._last = None if layers is None else layers[-1]
        # 3. the model is changed for good
        model.set_attn_implementation(attention.NAME)
        lay_out(model)
        if hardware().compiled:
            fuse(model)
        if model.device.type == "cpu":
            keep_freed()

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: Array | None = None,
        following: Wanted | None = None,
    ) -> list[Tensor]:
        """See `Engine.read`."""
        # 1. the batch as one row of tokens, [tokens], without what is said twice
        packed, rooted = self._pack(groups, trie, root)
        # 2. one forward pass: of each exit the states where a next token is predicted, [prompts *
        # branches, hidden]
        exits = self._prefill(packed, rooted)
        # 3. while a GPU computes them, the row of the next batch
        if following is not None and self.model.device.type != "cpu":
            # calls return before a GPU is done with them, so this costs no time there
            next_groups, next_trie, next_root = following
            next_row = pack_prompts(next_groups, next_trie.branches, len(next_root))
            self._ready = next_groups, next_row
        # 4. log-probabilities of the candidates, [prompts, candidates]
        return self._candidates(exits, packed, trie)

    def gradient(
        self,
        prompts: Sequence[Array],
        trie: CandidateTrie,
        at: slice,
        value: Callable[[list[Tensor]], Tensor],
        root: Array,
    ) -> Tensor:
        """The gradient of a number, which `value` gives from the result of `read`, by the
        embeddings of some tokens, [prompts, places, hidden] float32: those `at` the same places of
        all prompts, behind the `root`, into which nothing flows back. Of several `prompts`,
        [tokens] each, no two have the same token at the first place."""
        packed, rooted = self._pack([prompts], trie, root)
        embedded: list[Tensor] = []

        def watch(module: torch.nn.Module, inputs: object, output: Tensor) -> Tensor:
            # the graph begins here: the gradient is by these states alone
            embedded.append(output.detach().requires_grad_(True))  # [1, tokens, hidden]
            return embedded[0]

        hook = self.model.get_input_embeddings().register_forward_hook(watch)
        try:
            # the last layer runs whole: one run of it is all that the graph holds
            with torch.enable_grad():
                number = value(
                    self._candidates(self._prefill(packed, rooted, whole=True), packed, trie)
                )
                (gradient,) = torch.autograd.grad(number, embedded[0])
        finally:
            hook.remove()
        # the row begins with what the prompts share below the root, their tails follow
        shared = packed.groups[0].shared.stop
        rows = [
            place - len(root) if place - len(root) < shared else start + place - len(root) - shared
            for start, _ in packed.spans
            for place in range(at.start, at.stop)
        ]
        return (
            gradient[0, torch.tensor(rows, device=gradient.device)]
            .float()
            .unflatten(0, (len(prompts), -1))
        )

    def at_branches(self, groups: Groups, trie: CandidateTrie) -> Tensor:
        """[exits, prompts, branches, vocabulary] log-probabilities at every branch of the trie."""
        packed, rooted = self._pack(groups, trie, None)
        exits = [
            self.head.logits(states).log_softmax(-1) for states in self._prefill(packed, rooted)
        ]
        # [exits, prompts * branches, vocabulary] -> [exits, prompts, branches, vocabulary]
        return torch.stack(exits).unflatten(1, tuple(packed.reads.shape))

    def start(self, groups: Groups, root: Array | None = None) -> PackedAnswers:
        return PackedAnswers(self, *self._pack(groups, None, root))

    def go_on(self, tokens: Tensor, step: attention.Step) -> list[Tensor]:
        """For each exit [prompts, vocabulary] logits behind new tokens [prompts], one of each
        prompt."""
        # a new token stands behind what its prompt has, shared or its own
        exits = self.forward(tokens, step.at + step.offsets, step)
        return [self.head.logits(states) for states in exits]

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        # without a root: its tokens are predicted, too
        packed, _ = self._pack(groups, None, np.zeros(0, np.int32))
        reads, following, prompts = following_tokens(packed)
        reads = reads.to(self.model.device)
        following = following.to(self.model.device)
        hidden = self.forward(packed.token_ids, packed.positions, Prefill(packed, None))
        exits = [self.head.each_logprob(states[reads], following) for states in hidden]
        return [[logprobs[at.to(logprobs.device)] for at in prompts] for logprobs in exits]

    def forward(self, token_ids: Tensor, positions: Tensor, pass_: AttentionPass) -> list[Tensor]:
        with (
            attention.attending(pass_),
            fusing(hardware().compiled),
            self.head.capturing() as captured,
        ):
            # no cache of transformers: keys and values are the attention's business
            self.head.decoder(
                input_ids=token_ids[None], position_ids=positions[None], use_cache=False
            )
        return [states[0] for states in captured()]  # [tokens, hidden] of each exit

    def _pack(
        self, groups: Groups, trie: CandidateTrie | None, root: Array | None
    ) -> tuple[Packed, Root | None]:
        root = root_of(groups) if root is None else root
        # the very object: what was packed ahead is for the batch that is being read
        if self._ready is not None and self._ready[0] is groups:
            packed = self._ready[1]
        else:
            branches = () if trie is None else trie.branches
            on_cpu = self.model.device.type == "cpu"
            packed = pack_prompts(groups, branches, len(root), join_root=on_cpu)
        self._ready = None
        self.computed += len(packed.token_ids)
        return packed.to(self.model.device), self.rooted(root) if len(root) else None

    def rooted(self, root: Array) -> Root:
        """The keys and values of a root, which is read by itself, so that they never depend on the
        batch."""

        def read() -> Root:
            keys = Root()
            ids = torch.as_tensor(root, dtype=torch.int64, device=self.model.device)  # [root]
            segments = Segments.of([len(root)], [len(root)], causal=True).to(ids.device)
            positions = torch.arange(len(root), device=ids.device)
            # kept for many batches: a graph would hold on to all of its activations
            with torch.no_grad():
                self.forward(ids, positions, attention.ReadRoot(keys, segments))
            self.computed += len(root)
            return keys

        return self.roots.get(root, read)

    def _prefill(
        self, packed: Packed, root: Root | None, cache: Cache | None = None, whole: bool = False
    ) -> list[Tensor]:
        """[prompts * branches, hidden] after each exit: the states of `packed.reads`; `whole`
        spares the last layer nothing."""
        prefill = Prefill(packed, root, cache)
        sparing = (
            attention.only_read(self._last, prefill) if self._last and not whole else nullcontext()
        )
        with sparing:
            hidden = self.forward(packed.token_ids, packed.positions, prefill)
        return [states[packed.reads.flatten()] for states in hidden]  # [prompts * branches, hidden]

    def _candidates(self, exits: list[Tensor], packed: Packed, trie: CandidateTrie) -> list[Tensor]:
        # 1. the tokens that go on from any branch, and for each branch's children where they stand
        every = sorted({token for children in trie.children for token in children})
        tokens = to_device(torch.tensor(every), self.head.weight.device)
        steps = [(b, token) for b, children in enumerate(trie.children) for token in children]
        branches = [branch for branch, _ in steps]
        columns = [bisect_left(every, token) for _, token in steps]
        results = []
        for states in exits:
            # 2. their log-probabilities, [prompts, branches, tokens]; many small steps follow,
            # which cost a GPU more than they are worth
            # the log-probabilities of few tokens: the vocabulary never leaves the device
            logprobs = self.head.logprobs(states, tokens).cpu()
            at_branches = logprobs.unflatten(0, tuple(packed.reads.shape))
            # 3. of the candidates, [prompts, candidates]
            results.append(trie.logprobs(at_branches[:, branches, columns]))
        return results


class PackedAnswers:
    """Free answers over a packed batch. What prompts share stays shared; each adds keys of its
    own. `logits` are those of the last step alone: the next one may write where they stand."""

    def __init__(self, engine: PrefixEngine, packed: Packed, root: Root | None):
        self._engine = engine
        self._stage: Stage | None = None
        self.pace = engine.steps.pace
        groups = packed.groups
        self._cache = Cache(
            counts=[group.prompts.stop - group.prompts.start for group in groups],
            shared=[group.shared.stop - group.shared.start for group in groups],
            # without a trie there are no branches: a span is the prompt's own tokens
            lengths=[end - start for start, end in packed.spans],
        )
        self.logits = [
            engine.head.logits(states) for states in engine._prefill(packed, root, self._cache)
        ]

    def step(self, tokens: Tensor) -> None:
        engine, cache = self._engine, self._cache
        tokens = tokens.to(engine.model.device)
        if self._stage is None or not self._stage.left:
            self._stage = engine.steps.stage(cache, engine.go_on, self.logits, self._stage)
        logits = engine.steps.run(self._stage, tokens)
        if logits is None:
            logits = engine.go_on(tokens, attention.Step.of(cache, tokens.device))
        cache.lengths = [length + 1 for length in cache.lengths]
        self.logits = logits

    def keep(self, which: Tensor) -> None:
        # groups stay: what they share is still seen by those of their prompts that go on
        self._cache.keep(which)
        self._stage = None
        which = to_device(which, self.logits[0].device)
        self.logits = [logits[which] for logits in self.logits]


@torch.no_grad()
def check_packing(engine: PrefixEngine) -> float:
    """The largest difference of a log-probability between a few short prompts read packed and
    plainly, at candidates' branches and with a generated token; NaN where the model itself gives
    NaN. `UserError` where it is more than rounding explains: in half precision packed reading must
    be about as near to attention in float32 as the model's own attention is, for how far two
    correct ways of reading differ there depends on the model."""
    model = engine.model
    # 1. what is read: also below a rubric of two tokens, which is short enough to be seen with the
    # article in one call
    groups, following, tries = _trial(engine.head.weight.shape[0])
    short = [[ids[12:] for ids in group] for group in groups]
    # 2. [exits, prompts, branches, vocabulary] packed: of the prompts, of the branches behind the
    # short ones, and of the prompts after a token more
    answers = engine.start(groups)
    starts = torch.stack(answers.logits)[:, :, None].log_softmax(-1)
    branches = [engine.at_branches(short, trie) for trie in tries]
    answers.step(torch.tensor(following))
    steps = torch.stack(answers.logits)[:, :, None].log_softmax(-1)
    ours = [starts, steps, *branches]
    # 3. the same plainly: every prompt with a branch or a token behind it is a row of its own, and
    # some branches are of both tries
    prefixes = [way for trie in tries for way in trie.prefixes]
    ways = list(dict.fromkeys(prefixes))
    prompts = [ids.tolist() for group in groups for ids in group]
    # plain rows know no branch and no step: all of them are prompts of some length
    longer = [[*ids, token] for ids, token in zip(prompts, following, strict=True)]
    behind = [[*ids, *way] for group in short for ids in group for way in ways]

    def plainly(exact: bool) -> list[Tensor]:
        # rows of one length together: a first start takes 12 CPU seconds in place of 13.4
        reader = PlainEngine(model, engine.head.exits, exact)
        logprobs = reader.last_logits([*prompts, *longer, *behind]).log_softmax(-1)
        *whole, at = logprobs.split([len(prompts), len(longer), len(behind)], dim=1)
        at = at.unflatten(1, (-1, len(ways)))
        places = [[ways.index(way) for way in trie.prefixes] for trie in tries]
        return [*(each[:, :, None] for each in whole), *(at[:, :, each] for each in places)]

    theirs = plainly(exact=False)
    if any(each.isnan().any() for each in theirs):
        return float("nan")  # no fault of packing; refuse_nan reports it
    # 4. float32 agrees to rounding; half precision as two correct ways do
    worst = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    if model.dtype == torch.float32:
        fine = worst <= CHECK_TOLERANCE
    else:
        # Three ways of reading: packed, the model's own, and exact. Packed may be near either of
        # the others, but no farther than some multiple of what these two differ by.
        triples = list(zip(ours, theirs, plainly(exact=True), strict=True))
        rounding = torch.stack([_typical(b, c).max() for _, b, c in triples]).median()
        gaps = [torch.minimum(_typical(a, b), _typical(a, c)) for a, b, c in triples]
        fine = max(float(gap.max()) for gap in gaps) <= _CHECK_FACTOR * float(rounding)
    if not fine:
        raise UserError(
            f"{type(model).__name__} gives other log-probabilities for packed prompts than for "
            f"plain ones (largest difference {worst:.3g}). Set judge.engine=plain to read its "
            "prompts one by one."
        )
    return worst


def _trial(size: int) -> tuple[Groups, list[int], list[CandidateTrie]]:
    """Three groups of prompts over a vocabulary of `size`, one without an article; a token behind
    each prompt; and tries whose inner branches are a chain, and a fork."""
    draw = np.random.default_rng(0)

    def tokens(count: int) -> list[int]:
        return draw.integers(size // 10, size // 2, count).tolist()

    rubric = tokens(14)
    first = tokens(9)
    second = tokens(5)
    none: list[int] = []
    articles = ((first, (3, 4)), (second, (7,)), (none, (12, 13)))
    groups = [
        [np.array(rubric + article + tokens(tail)) for tail in tails] for article, tails in articles
    ]
    following = tokens(5)
    space, one, two, zero = tokens(4)
    tries = [
        CandidateTrie(
            ("1", "2"),
            [[(one,), (space, one)], [(two,), (space, two)]],
        ),
        CandidateTrie(("1", "10"), [[(one,), (space, one)], [(one, zero), (space, one, zero)]]),
    ]
    return groups, following, tries


def _typical(ours: Tensor, theirs: Tensor) -> Tensor:
    """[exits, branches] mean difference of log-probabilities, of the median prompt: a single one
    may differ by more, where a model chooses among experts."""
    # [exits, prompts, branches, vocabulary] -> [exits, branches]
    return (ours - theirs).abs().mean(-1).median(dim=1).values
