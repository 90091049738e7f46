"""The engine of encoder-decoder judges.

The encoder of an encoder-decoder judge (T5, FlanT5, mT5, BART) reads the prompt, and the answer is
the decoder's first text. Nothing is shared among prompts: an encoder attends both ways, so the
state of a prompt's first token depends on its last, and T5's position bias counts tokens between
two places. But a prompt is encoded once, the decoder's keys and values of it are computed once, and
every candidate is reached from them, candidates that begin alike along the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import EncoderDecoderCache, PreTrainedModel

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.hardware import keep_freed
from judgebench.judges.engine.plain import Head, about_equal
from judgebench.judges.local.batches import Groups
from judgebench.types import Array
from judgebench.words.errors import UserError

_AT_ONCE = 8192
"""Tokens that are encoded together, padding included; a longer prompt is encoded by itself."""


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
        # the first in which the model's settings have a number
        settings = [model.generation_config, model.config]
        start, forced = (
            [getattr(place, name) for place in settings if type(getattr(place, name, None)) is int]
            for name in ("decoder_start_token_id", "forced_bos_token_id")
        )
        if not start:
            raise UserError(
                f"{type(model).__name__} does not say which token its decoder starts with; set "
                "decoder_start_token_id in the model's generation_config.json (T5's is its padding "
                "token)."
            )
        self.start_tokens = [*start[:1], *forced[:1]]
        if model.device.type == "cpu":
            keep_freed()

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: Array | None = None,
        following: object | None = None,
    ) -> list[Tensor]:
        # [prompts, candidates]
        logprobs = torch.empty(sum(map(len, groups)), len(trie.candidates), dtype=torch.float64)
        # depth first: what a path begins with has just been read, and what lies beyond its parent
        # is forgotten
        order = sorted(range(len(trie.prefixes)), key=lambda branch: trie.prefixes[branch])
        for state in self._encoded(groups):
            columns: dict[int, Tensor] = {}
            for branch in order:
                prefix = trie.prefixes[branch]
                if prefix:
                    # the parent was read before, and nothing that it needs was forgotten since
                    state.back_to(len(self.start_tokens) + len(prefix) - 1)
                    # [prompts, hidden]
                    states = state.go_on(torch.full((len(state.rows), 1), prefix[-1]))
                else:
                    states = state.begin()
                tokens = torch.tensor(trie.children[branch], device=states.device)
                # [prompts, children]
                columns[branch] = self.head.logprobs(states, tokens).cpu()
            logprobs[state.rows] = trie.logprobs(
                # as the trie wants them: branches in order, [prompts, all children]
                torch.cat([columns[i] for i in range(len(columns))], dim=1)
            )
            del state  # its keys and values go before the next prompts are encoded
        return [logprobs]

    def start(self, groups: Groups, root: Array | None = None) -> EncoderDecoderAnswers:
        return EncoderDecoderAnswers(self, list(self._encoded(groups)))

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        """Not for these models, which `LikelihoodPass` refuses."""
        raise NotImplementedError

    def encode(self, prompts: Sequence[Array]) -> tuple[Tensor, Tensor]:
        """Encodes prompts together, each different one once: [prompts, longest, hidden] states, and
        [prompts, longest] int64, 1 where there is a token."""
        # equal prompts of a batch are one row of the encoder
        names = [ids.tobytes() for ids in prompts]
        different = dict(zip(names, prompts, strict=True))
        rows_of = [torch.as_tensor(ids, dtype=torch.int64) for ids in different.values()]
        token_ids = pad_sequence(rows_of, batch_first=True)  # [different, longest]
        # [different, longest]: what is padding is told from the lengths, for 0 may be a token of
        # its own
        mask = pad_sequence([torch.ones_like(row) for row in rows_of], batch_first=True)
        self.computed += int(mask.sum())
        token_ids = token_ids.to(self.model.device)
        mask = mask.to(self.model.device)
        # [different, longest, hidden]
        states = self._encoder(input_ids=token_ids, attention_mask=mask).last_hidden_state
        if len(different) == len(prompts):
            return states, mask
        place = {name: row for row, name in enumerate(different)}
        rows = torch.tensor([place[name] for name in names], device=states.device)  # [prompts]
        return states[rows], mask[rows]

    def _encoded(self, groups: Groups) -> Iterator[DecoderState]:
        """Prompts that are read together, the longest first: what has no room shows at once."""
        prompts = list(chain.from_iterable(groups))
        rows = sorted(range(len(prompts)), key=lambda row: -len(prompts[row]))
        while rows:
            # the longest first, so its length is what the others are padded to
            together = 1 if self._alone else max(1, _AT_ONCE // len(prompts[rows[0]]))
            part = rows[:together]
            rows = rows[together:]
            yield DecoderState(self, [prompts[row] for row in part], part)


class DecoderState:
    """Prompts that are encoded and answered together; `rows` are their indices in the batch."""

    def __init__(self, engine: EncoderDecoderEngine, prompts: Sequence[Array], rows: Sequence[int]):
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
        return captured()[0][:, -1]  # [prompts, hidden]

    def back_to(self, length: int) -> None:
        """Forgets what the decoder has read beyond its first `length` tokens, those of the start
        included."""
        assert self._cache is not None
        # by hand, for what the cache's own `crop` takes differs between releases; the prompt's
        # keys, of the cross attention, stay
        layers: Any = self._cache.self_attention_cache.layers
        for layer in layers:
            # [prompts, heads, length, dim]
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
                # both attentions' keys: of the answer so far, and of the prompt
                self._cache.batch_select_indices(which)
        # numbers count along the answers that are left, as the caller's tokens do
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
        # parts were made by length: argsort brings their rows back into the order of the batch
        rows = torch.tensor([row for part in self._parts for row in part.rows])
        return [self._head.logits(torch.cat(states)[rows.argsort().to(states[0].device)])]


@torch.inference_mode()
def check_encoder_decoder(engine: EncoderDecoderEngine) -> float:
    """Reads a few short prompts of different lengths as the engine does, with a token after each,
    and compares with the whole model on each prompt by itself; gives and raises what
    `check_packing` does."""
    model = engine.model
    size = engine.head.weight.shape[0]
    draw = np.random.default_rng(0)
    # of different lengths, so that padding is tried as well
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
            decoder_input_ids=torch.tensor([[*engine.start_tokens, token]], device=model.device),
            use_cache=False,
        ).logits[0, -2:]
        for ids, token in zip(prompts, following, strict=True)
    ]
    expected = torch.stack(whole).float().log_softmax(-1)  # [prompts, 2, vocabulary]
    if expected.isnan().any():
        return float("nan")  # no fault of the engine's; refuse_nan reports it
    found = torch.stack(logits, dim=1).log_softmax(-1)  # [prompts, 2, vocabulary]
    worst = float((found - expected).abs().max())
    if not about_equal(found, expected, model.dtype):
        raise UserError(
            f"{type(model).__name__} gives other log-probabilities as a whole than through its "
            f"encoder, decoder and head (largest difference {worst:.3g}): it does something that "
            "judgebench does not know, so it cannot be read."
        )
    return worst
