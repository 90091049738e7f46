"""The interface of engines, a model's head, and the plain engine: one prompt at a time through the
model's own attention, which is slow, and the measure of all else.

bfloat16 logits tie (near 20 their steps are 0.125), and ties move scores, so states and head rows
are upcast before the product (METHODS.md, part A, Numerics). An earlier exit applies the model's
own final norm and head to the output of an earlier layer (the logit lens), which makes a judge's
assistant of the judge itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from judgebench.judges.engine.attention import own_attention
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.generate import Continuations
from judgebench.judges.local.batches import Groups
from judgebench.types import Array
from judgebench.words.errors import UserError

_CHUNK_BYTES = 256 * 2**20
"""Most memory for the float32 rows of the head, and for the logits of the states taken at once."""

CHECK_TOLERANCE = 1e-3
"""Largest difference of a float32 log-probability from the model's own that rounding explains."""

_CHECK_SHARE = 0.25
"""The same for half precision: mean difference over mean difference between places."""

_NORMS = ("norm", "final_layernorm", "ln_f", "final_layer_norm", "norm_f")

Wanted = tuple[Groups, CandidateTrie, np.ndarray]
"""Groups, trie and root of `Engine.read`."""


class Engine(Protocol):
    """The interface of `PrefixEngine`, `PlainEngine` and, for encoder-decoder models,
    `EncoderDecoderEngine`.

    `root` is what all prompts begin with, if the caller knows of more prompts than these; None lets
    the engine look. `computed` counts tokens.
    """

    model: Any
    computed: int

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: Array | None = None,
        following: Wanted | None = None,
    ) -> list[Tensor]:
        """For each exit [prompts, candidates] float64 log-probabilities of the candidates as the
        next text, on the CPU.

        Args:
            following: the next arguments, with the same groups: packed while a GPU is at work.
        """

    def start(self, groups: Groups, root: Array | None = None) -> Continuations:
        """Reads the prompts and stands ready to generate."""

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        """For each exit and prompt [tokens - 1] float32: the log-probability of each of the
        prompt's tokens after its first, given those before. Prompts have two tokens at least."""


class Head:
    """A model's output head, at one or several `exits`: for each the number of layers before it,
    None is the full model; `UserError` for one that is not between 1 and the last layer but one, or
    where layers are not found. `decoder` is the model without its head."""

    def __init__(self, model: PreTrainedModel, exits: Sequence[int | None] = (None,)):
        # What a model does between its last layer and its logits differs by architecture: a norm, a
        # bias, a factor, a soft cap. `check_head` compares the whole with the model's own logits.
        self.exits = tuple(exits)
        self.decoder = model.get_decoder()
        linear = model.get_output_embeddings()
        self.weight: Tensor = linear.weight
        self.bias: Tensor | None = getattr(linear, "bias", None)
        config = model.config.get_text_config(decoder=True)
        self._softcap = getattr(config, "final_logit_softcapping", None)  # of Gemma 2
        # Cohere multiplies its logits, Granite divides them
        self._factor = (getattr(config, "logit_scale", None) or 1.0) / (
            getattr(config, "logits_scaling", None) or 1.0
        )
        if getattr(model.config, "scale_decoder_outputs", False):  # T5, but not T5 1.1 nor FlanT5
            self._factor *= model.config.d_model**-0.5
        # the logit lens needs the layers and the norm before the head, whose names differ
        early = [layer for layer in self.exits if layer is not None]
        if not early:
            return
        layers = layers_of(self.decoder)
        norm = next(
            (getattr(self.decoder, name) for name in _NORMS if hasattr(self.decoder, name)), None
        )
        if layers is None or norm is None:
            raise UserError(
                "assistant=early_exit: the layers and the final norm of "
                f"{type(self.decoder).__name__} were not found; use another assistant."
            )
        if wrong := [layer for layer in early if not 1 <= layer < len(layers)]:
            raise UserError(
                f"assistant.layer: {wrong[0]} is not between 1 and {len(layers) - 1}, the layers "
                f"of {type(model).__name__} before its last."
            )
        self._layers = layers
        self._norm = norm

    @contextmanager
    def capturing(self) -> Iterator[Callable[[], list[Tensor]]]:
        """Within it the decoder is run once; what it yields then gives [batch, tokens, hidden]
        normed, per exit."""
        seen: dict[int | None, Tensor] = {}

        def keep(exit_: int | None, module: object, inputs: object, output: object) -> None:
            # decoder layers return a tensor or a tuple that begins with it; the decoder an output
            # object
            states = getattr(output, "last_hidden_state", output)
            seen[exit_] = states[0] if isinstance(states, tuple) else states  # type: ignore[assignment]

        # hooks see the states in passing, so that one pass serves all exits
        with ExitStack() as hooks:
            for exit_ in self.exits:
                module = self.decoder if exit_ is None else self._layers[exit_ - 1]
                hooks.callback(module.register_forward_hook(partial(keep, exit_)).remove)

            def captured() -> list[Tensor]:
                # the decoder's own states are normed already
                return [seen[e] if e is None else self._norm(seen[e]) for e in self.exits]

            yield captured

    def logits(self, states: Tensor) -> Tensor:
        """[rows, hidden] -> [rows, vocabulary] float32."""
        if self.weight.dtype == torch.float32:
            # [rows, vocabulary]
            out = F.linear(states.float(), self.weight)
        elif (
            states.device.type == "cuda"
            and states.dtype == self.weight.dtype
            and not torch.is_grad_enabled()
        ):
            # tensor cores add up in float32: asked for, the sums are not rounded to half precision
            out = torch.mm(states, self.weight.t(), out_dtype=torch.float32)
        else:
            # elsewhere the head is upcast in pieces: a whole one takes gigabytes
            rows = max(1, _CHUNK_BYTES // (4 * self.weight.shape[1]))
            out = torch.cat(
                [F.linear(states.float(), part.float()) for part in self.weight.split(rows)], dim=1
            )
        if self.bias is not None:
            out = out + self.bias.float()
        if self._factor != 1.0:
            out = out * self._factor
        if self._softcap is not None:
            out = self._softcap * torch.tanh(out / self._softcap)
        return out

    def logprobs(self, states: Tensor, tokens: Tensor) -> Tensor:
        """[rows, hidden], [tokens] -> [rows, tokens] float32 log P(token), over the full
        vocabulary."""
        # over the full vocabulary: candidates compete with everything else that could be said
        return torch.cat([logits[:, tokens] - total for logits, total in self._in_parts(states)])

    def each_logprob(self, states: Tensor, tokens: Tensor) -> Tensor:
        """[rows, hidden], [rows] -> [rows] float32 log P(its own token) of each row, over the full
        vocabulary."""
        parts = []
        for logits, total in self._in_parts(states):
            own = tokens[:, None]  # [rows, 1]
            parts.append((logits.gather(1, own[: len(logits)]) - total)[:, 0])
            tokens = tokens[len(logits) :]
        return torch.cat(parts)

    def _in_parts(self, states: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits and the logarithm of their normalizer, [rows, vocabulary] and [rows, 1], some rows
        at a time."""
        # logits of 150,000 words take 0.6 MB a row, so not all rows have theirs at once
        for part in states.split(max(1, _CHUNK_BYTES // (4 * self.weight.shape[0]))):
            logits = self.logits(part)
            yield logits, torch.logsumexp(logits, dim=-1, keepdim=True)


def about_equal(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> bool:
    """True where log-probabilities [..., places, vocabulary] differ by no more than rounding
    explains: half precision rounds the model's own logits, by less than they differ from place to
    place."""
    gap = (ours - theirs).abs()
    if dtype == torch.float32:
        return bool(gap.max() <= CHECK_TOLERANCE)
    # How far log-probabilities differ from place to place is what a reading is about: rounding is
    # measured by it, for its size depends on the model.
    places = theirs.flatten(0, -2)
    between = (places - places.roll(1, dims=0)).abs().mean()
    return bool(gap.mean() <= _CHECK_SHARE * between)


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """Compares the head's logits with the model's own on a few tokens; `UserError` where they
    differ by more than rounding explains: the model does something to its logits that is not known
    here."""
    head = Head(model)
    size = head.weight.shape[0]
    # eight neighbors far from the beginning of the vocabulary, where special tokens stand
    ids = torch.arange(size // 10, size // 10 + 8, device=model.device)[None] % size
    with own_attention(model), head.capturing() as captured:
        expected = model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1)
    logprobs = head.logits(captured()[0][0]).log_softmax(-1)  # [tokens, vocabulary]
    if expected.isnan().any():
        return  # no fault of the head's; refuse_nan reports it
    if not about_equal(logprobs, expected, model.dtype):
        gap = float((logprobs - expected).abs().mean())
        raise UserError(
            f"{type(model).__name__} does something to its logits that judgebench does not know "
            f"(mean difference {gap:.3g} nats), so it cannot be read."
        )


def layers_of(decoder: torch.nn.Module) -> torch.nn.ModuleList | None:
    """The decoder's layers in order, where they are found."""
    return next((m for m in decoder.children() if isinstance(m, torch.nn.ModuleList)), None)


class PlainEngine:
    """Reads each prompt with a forward pass of its own, with the model's own attention or, `exact`
    and without generation, attention written out in float32."""

    def __init__(
        self, model: PreTrainedModel, exits: Sequence[int | None] = (None,), exact: bool = False
    ):
        self.model, self.head = model, Head(model, exits)
        self._exact = exact
        self.computed = 0

    def forward(
        self, rows: Sequence[Sequence[int]], cache: object | None = None
    ) -> tuple[list[Tensor], object]:
        """Rows of one length -> for each exit the tokens' states [rows, tokens, hidden]; and the
        model's own cache."""
        self.computed += sum(map(len, rows))
        ids = torch.tensor(rows, device=self.model.device)  # [rows, tokens]
        with own_attention(self.model, self._exact), self.head.capturing() as captured:
            output = self.head.decoder(
                input_ids=ids, past_key_values=cache, use_cache=not self._exact
            )
        return captured(), getattr(output, "past_key_values", None)

    def last_logits(self, rows: Sequence[list[int]]) -> Tensor:
        """[exits, rows, vocabulary] logits after each row's last token. Rows of one length are read
        together: between them there is no padding."""
        by_length: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            by_length.setdefault(len(row), []).append(place)
        # 1. [exits, rows, hidden] states, in the order in which they are read
        read = []
        for places in by_length.values():
            states, _ = self.forward([rows[place] for place in places])
            read.append(torch.stack([of_exit[:, -1] for of_exit in states]))
        # 2. the logits, in the order of the rows
        logits = torch.stack([self.head.logits(states) for states in torch.cat(read, dim=1)])
        # argsort of the order is its inverse: back to the order of the rows
        order = torch.tensor(list(chain.from_iterable(by_length.values())))
        return logits[:, order.argsort().to(logits.device)]

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: Array | None = None,
        following: object | None = None,
    ) -> list[Tensor]:
        # a prompt with each of its branches is read from its first token on: slow, and obviously
        # right
        rows = [self._children(ids.tolist(), trie) for ids in chain.from_iterable(groups)]
        return [trie.logprobs(torch.cat(of_exit)) for of_exit in zip(*rows, strict=True)]

    def _children(self, prompt: list[int], trie: CandidateTrie) -> list[Tensor]:
        """Of each exit the log-probabilities of all branches' children, [1, children]."""
        columns: list[list[Tensor]] = [[] for _ in self.head.exits]
        for prefix, children in zip(trie.prefixes, trie.children, strict=True):
            # 1. the prompt with one branch behind it: states [1, tokens, hidden] of each exit
            exits, _ = self.forward([[*prompt, *prefix]])
            tokens = torch.tensor(children, device=self.head.weight.device)
            # 2. log-probabilities of the branch's children, [1, children]
            for of_exit, states in zip(columns, exits, strict=True):
                of_exit.append(self.head.logprobs(states[:, -1], tokens).cpu())
        return [torch.cat(of_exit, dim=1) for of_exit in columns]

    def start(self, groups: Groups, root: Array | None = None) -> PlainAnswers:
        return PlainAnswers(self, list(chain.from_iterable(groups)))

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        per_exit: list[list[Tensor]] = [[] for _ in self.head.exits]
        for ids in chain.from_iterable(groups):
            following = torch.tensor(ids[1:].tolist(), device=self.model.device)
            # states [1, tokens - 1, hidden]: each predicts the token behind it
            exits, _ = self.forward([ids[:-1].tolist()])
            for rows, states in zip(per_exit, exits, strict=True):
                rows.append(self.head.each_logprob(states[0], following))
        return per_exit


class PlainAnswers:
    """Free answers, each prompt with the model's own cache."""

    def __init__(self, engine: PlainEngine, prompts: Sequence[Array]):
        self._engine = engine
        self._caches: list[object] = [None] * len(prompts)
        self.logits: list[Tensor] = []
        self._read([ids.tolist() for ids in prompts])

    def step(self, tokens: Tensor) -> None:
        self._read([[token] for token in tokens.tolist()])

    def keep(self, which: Tensor) -> None:
        self._caches = [self._caches[i] for i in which.tolist()]
        self.logits = [logits[which] for logits in self.logits]

    def _read(self, rows: list[list[int]]) -> None:
        head = self._engine.head
        # one prompt at a time: nothing is padded, so nothing needs a mask
        last = []
        for i, token_ids in enumerate(rows):
            states, self._caches[i] = self._engine.forward([token_ids], self._caches[i])
            last.append([exit_[:, -1] for exit_ in states])
        self.logits = [head.logits(torch.cat(exit_)) for exit_ in zip(*last, strict=True)]
