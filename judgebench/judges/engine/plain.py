"""The interface of engines, a model's head, free generation, and two engines: the plain one, one
prompt at a time through the model's own attention, which is slow, and the measure of all else; and
that of encoder-decoder judges.

bfloat16 logits tie (near 20 their steps are 0.125), and ties move scores, so states and head rows
are upcast before the product (METHODS.md, part A, Numerics). An earlier exit applies the model's
own final norm and head to the output of an earlier layer (the logit lens), which makes a judge's
assistant of the judge itself.

The encoder of an encoder-decoder judge (T5, FlanT5, mT5, BART) reads the prompt, and the answer is
the decoder's first text. Nothing is shared among prompts: an encoder attends both ways, so the
state of a prompt's first token depends on its last, and T5's position bias counts tokens between
two places. But a prompt is encoded once, the decoder's keys and values of it are computed once, and
every candidate is reached from them, candidates that begin alike along the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import EncoderDecoderCache, PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.attention import own_attention
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.kernels import keep_freed
from judgebench.judges.local.batches import Groups
from judgebench.runtime.errors import UserError

_CHUNK_BYTES = 256 * 2**20
"""Most memory for the float32 rows of the head, and for the logits of the states taken at once."""

_NORMS = ("norm", "final_layernorm", "ln_f", "final_layer_norm", "norm_f")

Wanted = tuple[Groups, CandidateTrie, np.ndarray]
"""Groups, trie and root of `Engine.read`."""


class Side(Protocol):
    """Free answers under way, one for each prompt, or what else counts their tokens: `step` goes on
    by one token each, [prompts] int64; `keep` with the prompts at these ascending indices only."""

    def step(self, tokens: Tensor) -> None: ...
    def keep(self, which: Tensor) -> None: ...


class Continuations(Side, Protocol):
    """Free answers of a model; `logits`: for each exit [prompts, vocabulary] float32, of the next
    token."""

    logits: list[Tensor]


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
        root: np.ndarray | None = None,
        following: Wanted | None = None,
    ) -> list[Tensor]:
        """For each exit [prompts, candidates] float64 log-probabilities of the candidates as the
        next text, on the CPU.

        Args:
            following: the next arguments, with the same groups: packed while a GPU is at work.
        """

    def start(self, groups: Groups, root: np.ndarray | None = None) -> Continuations:
        """Reads the prompts and stands ready to generate."""

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        """For each exit and prompt [tokens - 1] float32: the log-probability of each of the
        prompt's tokens after its first, given those before. Prompts have two tokens at least."""


class Head:
    """A model's output head, at one or several `exits`: for each the number of layers before it,
    None is the full model; `UserError` for one that is not between 1 and the last layer but one, or
    where layers are not found. `decoder` is the model without its head."""

    def __init__(self, model: PreTrainedModel, exits: Sequence[int | None] = (None,)):
        self.exits = tuple(exits)
        self.decoder = model.get_decoder()
        linear = model.get_output_embeddings()
        self.weight: Tensor = linear.weight
        self.bias: Tensor | None = getattr(linear, "bias", None)
        config = model.config.get_text_config(decoder=True)
        self._softcap = getattr(config, "final_logit_softcapping", None)
        # Cohere multiplies its logits, Granite divides them
        self._factor = (getattr(config, "logit_scale", None) or 1.0) / (
            getattr(config, "logits_scaling", None) or 1.0
        )
        if getattr(model.config, "scale_decoder_outputs", False):  # T5, but not T5 1.1 nor FlanT5
            self._factor *= model.config.d_model**-0.5
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
        hooks = []
        try:
            for exit_ in self.exits:

                def keep(
                    module: object, inputs: object, output: object, exit_: int | None = exit_
                ) -> None:
                    # decoder layers return a tensor or a tuple that begins with it; the decoder an
                    # output object
                    states = getattr(output, "last_hidden_state", output)
                    seen[exit_] = states[0] if isinstance(states, tuple) else states  # type: ignore[assignment]

                module = self.decoder if exit_ is None else self._layers[exit_ - 1]
                hooks.append(module.register_forward_hook(keep))
            yield lambda: [seen[e] if e is None else self._norm(seen[e]) for e in self.exits]
        finally:
            for hook in hooks:
                hook.remove()

    def logits(self, states: Tensor) -> Tensor:
        """[rows, hidden] -> [rows, vocabulary] float32."""
        if self.weight.dtype == torch.float32:
            out = F.linear(states.float(), self.weight)
        elif (
            states.device.type == "cuda"
            and states.dtype == self.weight.dtype
            and not torch.is_grad_enabled()
        ):
            out = torch.mm(states, self.weight.t(), out_dtype=torch.float32)
        else:
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
        parts = []
        for part in states.split(max(1, _CHUNK_BYTES // (4 * self.weight.shape[0]))):
            logits = self.logits(part)
            parts.append(logits[:, tokens] - torch.logsumexp(logits, dim=-1, keepdim=True))
        return torch.cat(parts)

    def each_logprob(self, states: Tensor, tokens: Tensor) -> Tensor:
        """[rows, hidden], [rows] -> [rows] float32 log P(its own token) of each row, over the full
        vocabulary."""
        rows = max(1, _CHUNK_BYTES // (4 * self.weight.shape[0]))
        parts = []
        for part, wanted in zip(states.split(rows), tokens.split(rows), strict=True):
            logits = self.logits(part)
            parts.append(logits.gather(1, wanted[:, None])[:, 0] - torch.logsumexp(logits, dim=-1))
        return torch.cat(parts)


@torch.no_grad()
def check_head(model: PreTrainedModel, head: Head) -> None:
    """Compares the head's logits with the model's own on a few tokens; `UserError` where they
    differ by more than rounding explains: the model does something to its logits that is not known
    here."""
    size = head.weight.shape[0]
    ids = torch.arange(size // 10, size // 10 + 8, device=model.device)[None] % size
    with own_attention(model), head.capturing() as captured:
        expected = model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1)
    logprobs = head.logits(captured()[0][0]).log_softmax(-1)
    if expected.isnan().any():
        return  # no fault of the head's; refuse_nan reports it
    # half precision rounds the model's own logits, by less than they differ from place to place
    gap = (logprobs - expected).abs().mean()
    between = (expected - expected.roll(1, dims=0)).abs().mean()
    if not (gap <= 1e-4 if model.dtype == torch.float32 else gap <= 0.25 * between):
        raise UserError(
            f"{type(model).__name__} does something to its logits that judgebench does not know "
            f"(mean difference {float(gap):.3g} nats), so it cannot be read."
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
        self, token_ids: Sequence[int], cache: object | None = None
    ) -> tuple[list[Tensor], object]:
        """[tokens] -> for each exit the tokens' states [tokens, hidden]; and the model's own
        cache."""
        self.computed += len(token_ids)
        row = torch.tensor([token_ids], device=self.model.device)
        with own_attention(self.model, self._exact), self.head.capturing() as captured:
            output = self.head.decoder(
                input_ids=row, past_key_values=cache, use_cache=not self._exact
            )
        return [states[0] for states in captured()], getattr(output, "past_key_values", None)

    def _at_branches(self, groups: Groups, trie: CandidateTrie) -> Iterator[list[list[Tensor]]]:
        """For each prompt, exit and branch of the trie the last state [1, hidden]."""
        for ids in chain.from_iterable(groups):
            branches = [self.forward([*ids.tolist(), *prefix])[0] for prefix in trie.prefixes]
            yield [[states[-1:] for states in exit_] for exit_ in zip(*branches, strict=True)]

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: np.ndarray | None = None,
        following: object | None = None,
    ) -> list[Tensor]:
        per_exit: list[list[Tensor]] = [[] for _ in self.head.exits]
        children = [
            torch.tensor(tokens, device=self.head.weight.device) for tokens in trie.children
        ]
        for exits in self._at_branches(groups, trie):
            for rows, states in zip(per_exit, exits, strict=True):
                columns = [
                    self.head.logprobs(*pair).cpu() for pair in zip(states, children, strict=True)
                ]
                rows.append(torch.cat(columns, dim=1))
        return [trie.logprobs(torch.cat(rows)) for rows in per_exit]

    def at_branches(self, groups: Groups, trie: CandidateTrie) -> Tensor:
        """[exits, prompts, branches, vocabulary] log-probabilities at every branch of the trie."""
        prompts = self._at_branches(groups, trie)
        logits = [[self.head.logits(torch.cat(states)) for states in exits] for exits in prompts]
        return torch.stack([torch.stack(rows) for rows in zip(*logits, strict=True)]).log_softmax(
            -1
        )

    def start(self, groups: Groups, root: np.ndarray | None = None) -> PlainAnswers:
        return PlainAnswers(self, list(chain.from_iterable(groups)))

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        per_exit: list[list[Tensor]] = [[] for _ in self.head.exits]
        for ids in chain.from_iterable(groups):
            following = torch.tensor(ids[1:].tolist(), device=self.model.device)
            for rows, states in zip(per_exit, self.forward(ids[:-1].tolist())[0], strict=True):
                rows.append(self.head.each_logprob(states, following))
        return per_exit


class PlainAnswers:
    """Free answers, each prompt with the model's own cache."""

    def __init__(self, engine: PlainEngine, prompts: Sequence[np.ndarray]):
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
        last = []
        for i, token_ids in enumerate(rows):
            states, self._caches[i] = self._engine.forward(token_ids, self._caches[i])
            last.append([exit_[-1:] for exit_ in states])
        self.logits = [head.logits(torch.cat(exit_)) for exit_ in zip(*last, strict=True)]


class Chooser(Protocol):
    """Chooses the next token of each answer, [answers] int64, from logits [answers, vocabulary]:
    every decoding that can generate is one."""

    def next_token(self, main: Tensor, assistant: Tensor | None) -> Tensor: ...


def stops_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The tokens that end an answer of this model."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    return {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}


def generate(
    sides: Sequence[Side],
    logits: Callable[[], tuple[Tensor, Tensor | None]],
    chooser: Chooser,
    stops: Collection[int],
    max_new_tokens: int,
) -> list[list[int]]:
    """The tokens of each answer: main model and assistant go on in step until it stops or is full;
    finished answers leave the batch.

    Args:
        sides: the main model's answers, and the assistant's where it reads for itself.
        logits: gives both models' logits now, [answers, vocabulary] each.
        stops: tokens that end an answer; not part of it.
    """
    ours, theirs = logits()
    answers: list[list[int]] = [[] for _ in range(len(ours))]
    live = list(range(len(answers)))
    for count in range(1, max_new_tokens + 1):
        tokens = chooser.next_token(ours, theirs)
        chosen = tokens.tolist()
        for i, token in zip(live, chosen, strict=True):
            if token not in stops:
                answers[i].append(token)
        going = [n for n, token in enumerate(chosen) if token not in stops]
        if count == max_new_tokens or not going:
            break
        if len(going) < len(live):
            keep = torch.tensor(going)
            live = [live[n] for n in going]
            tokens = tokens[keep.to(tokens.device)]
            for side in sides:
                side.keep(keep)
        for side in sides:
            side.step(tokens)
        ours, theirs = logits()
    return answers


# --- encoder-decoder judges ---------------------------------------------------------------------


_AT_ONCE = 8192
"""Tokens that are encoded together, padding included; a longer prompt is encoded by itself."""

_CHECK_TOLERANCE = 1e-3
"""Largest difference of a float32 log-probability from the model's own that rounding explains."""

_CHECK_SHARE = 0.25
"""The same for bfloat16: mean difference from the model's own over mean difference between
places."""


class EncoderDecoderEngine:
    """Reads prompts through encoder and decoder; prompts of like length are padded to one another
    and masked, or each is read `alone`, without padding: slow, and obviously right. `UserError`
    where the model does not say what its decoder begins with: `start_tokens`, its start token, and
    the forced first one (BART's BOS).

    `computed` counts tokens of encoder and decoder, without padding.
    """

    def __init__(self, model: PreTrainedModel, alone: bool = False):
        self.model, self.head = model, Head(model)
        self.computed = 0
        self._alone = alone
        self._encoder: Any = model.get_encoder()
        tokens = []
        for name in ("decoder_start_token_id", "forced_bos_token_id"):
            settings = [
                getattr(place, name, None) for place in (model.generation_config, model.config)
            ]
            tokens.append(next((token for token in settings if type(token) is int), None))
        if tokens[0] is None:
            raise UserError(
                f"{type(model).__name__} does not say which token its decoder starts with; set "
                "decoder_start_token_id in the model's generation_config.json (T5's is its padding "
                "token)."
            )
        self.start_tokens = [token for token in tokens if token is not None]
        if model.device.type == "cpu":
            keep_freed()

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: np.ndarray | None = None,
        following: object | None = None,
    ) -> list[Tensor]:
        logprobs = torch.empty(sum(map(len, groups)), len(trie.candidates), dtype=torch.float64)
        # depth first: what a path begins with has just been read, and what lies beyond its parent
        # is forgotten
        order = sorted(range(len(trie.prefixes)), key=lambda branch: trie.prefixes[branch])
        for state in self._encoded(groups):
            columns: dict[int, Tensor] = {}
            for branch in order:
                prefix = trie.prefixes[branch]
                if prefix:
                    state.back_to(len(self.start_tokens) + len(prefix) - 1)
                    states = state.go_on(torch.full((len(state.rows), 1), prefix[-1]))
                else:
                    states = state.begin()
                tokens = torch.tensor(trie.children[branch], device=states.device)
                columns[branch] = self.head.logprobs(states, tokens).cpu()
            logprobs[state.rows] = trie.logprobs(
                torch.cat([columns[i] for i in range(len(columns))], dim=1)
            )
            del state  # its keys and values go before the next prompts are encoded
        return [logprobs]

    def start(self, groups: Groups, root: np.ndarray | None = None) -> EncoderDecoderAnswers:
        return EncoderDecoderAnswers(self, list(self._encoded(groups)))

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        """Not for these models, which `LikelihoodPass` refuses."""
        raise NotImplementedError

    def encode(self, prompts: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Encodes prompts together, each different one once: [prompts, longest, hidden] states, and
        [prompts, longest] int64, 1 where there is a token."""
        names = [ids.tobytes() for ids in prompts]
        different = dict(zip(names, prompts, strict=True))
        token_ids = torch.zeros(len(different), max(map(len, prompts)), dtype=torch.int64)
        mask = torch.zeros_like(token_ids)
        for row, ids in enumerate(different.values()):
            token_ids[row, : len(ids)] = torch.as_tensor(ids, dtype=torch.int64)
            mask[row, : len(ids)] = 1
        self.computed += int(mask.sum())
        token_ids = token_ids.to(self.model.device)
        mask = mask.to(self.model.device)
        states = self._encoder(input_ids=token_ids, attention_mask=mask).last_hidden_state
        if len(different) == len(prompts):
            return states, mask
        place = {name: row for row, name in enumerate(different)}
        rows = torch.tensor([place[name] for name in names], device=states.device)
        return states[rows], mask[rows]

    def _encoded(self, groups: Groups) -> Iterator[DecoderState]:
        """Prompts that are read together, the longest first: what has no room shows at once."""
        prompts = list(chain.from_iterable(groups))
        rows = sorted(range(len(prompts)), key=lambda row: -len(prompts[row]))
        while rows:
            together = 1 if self._alone else max(1, _AT_ONCE // len(prompts[rows[0]]))
            part = rows[:together]
            rows = rows[together:]
            yield DecoderState(self, [prompts[row] for row in part], part)


class DecoderState:
    """Prompts that are encoded and answered together; `rows` are their indices in the batch."""

    def __init__(
        self, engine: EncoderDecoderEngine, prompts: Sequence[np.ndarray], rows: Sequence[int]
    ):
        self.rows = list(rows)
        self._engine = engine
        self._states, self._mask = engine.encode(prompts)
        self._cache: EncoderDecoderCache | None = None

    def begin(self) -> Tensor:
        """[prompts, hidden]: the state at which the answer's first token is predicted."""
        return self.go_on(torch.tensor([self._engine.start_tokens]).expand(len(self.rows), -1))

    def go_on(self, tokens: Tensor) -> Tensor:
        """[prompts, tokens] int64 more of each answer -> [prompts, hidden]: the state after the
        last of them."""
        head = self._engine.head
        self._engine.computed += tokens.numel()
        with head.capturing() as captured:
            output = head.decoder(
                input_ids=tokens.to(self._states.device),
                encoder_hidden_states=self._states,
                encoder_attention_mask=self._mask,
                past_key_values=self._cache,
                use_cache=True,
            )
        self._cache = output.past_key_values
        return captured()[0][:, -1]

    def back_to(self, length: int) -> None:
        """Forgets what the decoder has read beyond its first `length` tokens, those of the start
        included."""
        assert self._cache is not None
        # by hand, for what the cache's own `crop` takes differs between releases; the prompt's
        # keys, of the cross attention, stay
        layers: Any = self._cache.self_attention_cache.layers
        for layer in layers:
            layer.keys = layer.keys[:, :, :length]
            layer.values = layer.values[:, :, :length]

    def keep(self, place: Mapping[int, int]) -> bool:
        """Goes on with the rows that `place` holds, under the numbers that it gives them; whether
        any are left."""
        live = [i for i, row in enumerate(self.rows) if row in place]
        if live and len(live) < len(self.rows):
            which = torch.tensor(live, device=self._states.device)
            self._states = self._states[which]
            self._mask = self._mask[which]
            if self._cache is not None:
                self._cache.batch_select_indices(which)
        self.rows = [place[self.rows[i]] for i in live]
        return bool(live)


class EncoderDecoderAnswers:
    """Free answers under way, each with the decoder's keys and values of its prompt and of
    itself."""

    def __init__(self, engine: EncoderDecoderEngine, parts: list[DecoderState]):
        self._head = engine.head
        self._parts = parts
        self.logits = self._logits([part.begin() for part in parts])

    def step(self, tokens: Tensor) -> None:
        self.logits = self._logits([part.go_on(tokens[part.rows][:, None]) for part in self._parts])

    def keep(self, which: Tensor) -> None:
        place = {row: i for i, row in enumerate(which.tolist())}
        self._parts = [part for part in self._parts if part.keep(place)]
        self.logits = [logits[which.to(logits.device)] for logits in self.logits]

    def _logits(self, states: list[Tensor]) -> list[Tensor]:
        rows = torch.tensor([row for part in self._parts for row in part.rows])
        return [self._head.logits(torch.cat(states)[rows.argsort().to(states[0].device)])]


@torch.inference_mode()
def check_encoder_decoder(engine: EncoderDecoderEngine) -> float:
    """Reads a few short prompts of different lengths as the engine does, with a token after each,
    and compares with the whole model on each prompt by itself; gives and raises what
    `check_packing` does."""
    model = engine.model
    start = engine.start_tokens
    size = engine.head.weight.shape[0]
    draw = np.random.default_rng(0)
    prompts = [draw.integers(size // 10, size // 2, count) for count in (9, 21, 14)]
    following = draw.integers(size // 10, size // 2, len(prompts)).tolist()
    # through the engine: the answer's first token, and the one after it
    answers = engine.start([prompts])
    logits = [answers.logits[0]]
    answers.step(torch.tensor(following))
    logits.append(answers.logits[0])
    # through the whole model
    whole = [
        model(
            input_ids=torch.as_tensor(ids, device=model.device)[None],
            decoder_input_ids=torch.tensor([[*start, token]], device=model.device),
            use_cache=False,
        ).logits[0, -2:]
        for ids, token in zip(prompts, following, strict=True)
    ]
    expected = torch.stack(whole).float().log_softmax(-1)
    if expected.isnan().any():
        return float("nan")  # no fault of the engine's; refuse_nan reports it
    gap = (torch.stack(logits, dim=1).log_softmax(-1) - expected).abs()
    places = expected.flatten(0, 1)
    worst = float(gap.max())
    share = float(gap.mean() / (places - places.roll(1, dims=0)).abs().mean())
    if not (worst <= _CHECK_TOLERANCE if model.dtype == torch.float32 else share <= _CHECK_SHARE):
        raise UserError(
            f"{type(model).__name__} gives other log-probabilities as a whole than through its "
            f"encoder, decoder and head (largest difference {worst:.3g}): it does something that "
            "judgebench does not know, so it cannot be read."
        )
    return worst
