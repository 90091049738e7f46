"""The prefix engine: reads whole groups of prompts in one forward pass over their unique tokens.

`read` gives candidate log-probabilities, `start` and `Answers.step` free generation over the same shared prefixes. Both
give at every wanted position what a plain forward pass over the full prompt gives (`plain.py` is that plain pass, with
the same interface); `check` proves it on the model at hand before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from transformers import PreTrainedModel

from judgebench.errors import UserError
from judgebench.judges.attention import NAME, Cache, Prefill, Step, attending
from judgebench.judges.candidates import CandidateTrie
from judgebench.judges.heads import Head
from judgebench.judges.packing import Packed, pack
from judgebench.judges.plain import PlainEngine

Groups = Sequence[Sequence[np.ndarray]]
"""Token ids of each prompt, prompts of one group together."""

_CHECK_TOLERANCE = 1e-3
"""Largest difference of a float32 log-probability from the plain pass that rounding explains."""

_CHECK_SHARE = 0.25
"""The same for half precision, where rounding is larger and depends on the model: mean difference from the plain pass
over mean difference between prompts. A wrong mask reads another prompt and comes near 1."""


class Answers(Protocol):
    """Free answers under way, one for each prompt."""

    logits: list[torch.Tensor]
    """For each exit [prompts, vocabulary] float32: of the next token."""

    def step(self, tokens: torch.Tensor) -> None:
        """Goes on by one token each: [prompts] int64."""

    def keep(self, which: torch.Tensor) -> None:
        """Goes on with the prompts at these ascending indices only."""


class Engine(Protocol):
    """What reads prompts: `PrefixEngine`, or `PlainEngine`, which is slow and obviously right."""

    head: Head

    def read(self, groups: Groups, trie: CandidateTrie) -> list[torch.Tensor]:
        """For each exit [prompts, candidates] float64 log-probabilities of the candidates as the next text."""

    def start(self, groups: Groups) -> Answers:
        """Reads the prompts and stands ready to generate."""


class PrefixEngine:
    """Reads packed rows through the model's own code with judgebench's attention in place of its own.

    Args:
        model: a decoder-only language model of transformers; its attention implementation is changed.
        exits: layers after which the head is applied; None is the full model. One forward pass serves all.

    Raises:
        UserError: the model's layers are not all plain or sliding-window attention.
    """

    def __init__(self, model: PreTrainedModel, exits: Sequence[int | None] = (None,)):
        refuse_unpackable(model)
        self.model = model
        self.head = Head(model, exits)
        model.set_attn_implementation(NAME)

    def read(self, groups: Groups, trie: CandidateTrie) -> list[torch.Tensor]:
        """See `Engine.read`."""
        packed = pack(groups, trie.branches).to(self.model.device)
        hidden = self._forward(packed.token_ids, packed.positions, Prefill(packed))
        prompts, branches = packed.reads.shape
        results = []
        for states in hidden:
            read = states[packed.reads.reshape(-1)].reshape(prompts, branches, -1)
            per_branch = [
                self.head.logprobs(read[:, b], torch.tensor(children, device=states.device))
                for b, children in enumerate(trie.children)
            ]
            results.append(trie.logprobs(torch.cat(per_branch, dim=1)))
        return results

    def start(self, groups: Groups) -> PackedAnswers:
        """See `Engine.start`."""
        return PackedAnswers(self, pack(groups).to(self.model.device))

    def _forward(self, token_ids: torch.Tensor, positions: torch.Tensor, pass_: Prefill | Step) -> list[torch.Tensor]:
        """[tokens, hidden] after each exit."""
        with attending(pass_), self.head.capturing() as captured:
            self.head.decoder(input_ids=token_ids[None], position_ids=positions[None], use_cache=False)
        return [states[0] for states in captured()]


class PackedAnswers:
    """Free answers over a packed batch. The shared stretches' keys stay shared; each prompt adds its own."""

    def __init__(self, engine: PrefixEngine, packed: Packed):
        self._engine = engine
        own = packed.leaves[:, 0]
        self._cache = Cache(
            spans=[(s.first_leaf, s.last_leaf) for s in packed.shared],
            shared_sizes=[s.end - s.start for s in packed.shared],
            sizes=packed.leaf_sizes.clone(),
            offsets=packed.positions[own],
        )
        hidden = engine._forward(packed.token_ids, packed.positions, Prefill(packed, self._cache))
        self.logits = [engine.head.logits(states[packed.reads[:, 0]]) for states in hidden]

    def step(self, tokens: torch.Tensor) -> None:
        """See `Answers.step`."""
        cache = self._cache
        positions = cache.offsets + cache.sizes
        cache.sizes = cache.sizes + 1
        hidden = self._engine._forward(tokens.to(positions.device), positions, Step(cache))
        self.logits = [self._engine.head.logits(states) for states in hidden]

    def keep(self, which: torch.Tensor) -> None:
        """See `Answers.keep`."""
        cache = self._cache
        which = which.to(cache.sizes.device)
        cache.sizes, cache.offsets = cache.sizes[which], cache.offsets[which]
        ends = torch.tensor([edge for span in cache.spans for edge in span])
        moved = torch.searchsorted(which.cpu(), ends).reshape(-1, 2).tolist()
        cache.spans = [(first, last) for first, last in moved]
        for layer in cache.layers.values():
            layer.keys, layer.values = layer.keys[which], layer.values[which]
        self.logits = [logits[which] for logits in self.logits]


def refuse_unpackable(model: PreTrainedModel) -> None:
    """Raises UserError where a model keeps state that a packed row cannot share."""
    config = model.config.get_text_config(decoder=True)
    remedy = "Set judge.engine=plain to read its prompts one by one."
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if odd := kinds - {"full_attention", "sliding_attention"}:
        raise UserError(
            f"{type(model).__name__} has layers of kind {', '.join(sorted(odd))}, whose state cannot be shared among "
            f"prompts. {remedy}"
        )
    if getattr(model, "_is_stateful", False) or not getattr(model, "_supports_attention_backend", False):
        raise UserError(f"{type(model).__name__} does not take an attention function of judgebench's. {remedy}")


@torch.inference_mode()
def check(engine: PrefixEngine) -> float:
    """Reads a few short prompts packed and plainly, with a generated token after each, and compares.

    Returns:
        The largest difference of a log-probability; NaN where the model itself gives NaN.

    Raises:
        UserError: they differ by more than rounding explains: this model does something that packing does not know.
    """
    model = engine.model
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
    plain = PlainEngine(model, engine.head.exits)
    ours, theirs = [], []
    packed_answers, plain_answers = engine.start(groups), plain.start(groups)
    for step in range(2):
        ours += [torch.log_softmax(logits, -1) for logits in packed_answers.logits]
        theirs += [torch.log_softmax(logits, -1) for logits in plain_answers.logits]
        if step == 0:
            packed_answers.step(following)
            plain_answers.step(following)
    if torch.stack(theirs).isnan().any():
        return float("nan")  # no fault of packing; whoever reads is told
    gap = (torch.stack(ours) - torch.stack(theirs)).abs()
    between = (torch.stack(theirs) - torch.stack(theirs).roll(1, dims=1)).abs()
    worst, share = float(gap.max()), float(gap.mean() / between.mean())
    if not (worst <= _CHECK_TOLERANCE if model.dtype == torch.float32 else share <= _CHECK_SHARE):
        raise UserError(
            f"{type(model).__name__} gives other log-probabilities for packed prompts than for plain ones (largest "
            f"difference {worst:.3g}). Set judge.engine=plain to read its prompts one by one."
        )
    return worst
