"""Candidate scores as token sequences: what a judge's next tokens must be for its answer to be "4",
or " 4", or "3.5".

A candidate is reached by *paths* of tokens. All paths of all candidates form one trie; the
log-probability of every candidate follows from the next-token distributions at the trie's inner
nodes, so one forward pass that reads the prompt and the inner nodes' tokens is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

LEADS = ("", " ")
"""What may stand before a candidate: both surface forms `4` and ` 4` count as the answer 4."""


class Branch(NamedTuple):
    """An inner node of the trie, at which a next-token distribution is needed: the `token` that
    leads to it, the index of the branch that it continues (both -1 at the root, which is the prompt
    itself), and tokens after the prompt."""

    token: int
    parent: int
    depth: int


class CandidateTrie:
    """The token paths of a range's candidates, and the law that turns next-token distributions into
    candidates'.

    Args:
        candidates: ascending.
        paths: for each candidate the token sequences that write it, each at least one token long.

    Attributes:
        branches: inner nodes, parents before children; the root is first.
        prefixes: for each branch, the tokens that lead to it from the root.
        children: for each branch, the tokens that go on from it, ascending.
    """

    def __init__(self, candidates: Sequence[str], paths: Sequence[Sequence[tuple[int, ...]]]):
        self.candidates = tuple(candidates)
        # a set, and sorted: the same trie whatever order the vocabulary comes in
        self.token_paths = tuple(tuple(sorted(set(ways))) for ways in paths)
        every = [path for ways in self.token_paths for path in ways]
        # every beginning of a path is an inner node, parents before children
        inner = sorted(
            {path[:n] for path in every for n in range(len(path))},
            key=lambda prefix: (len(prefix), prefix),
        )
        self._index = {prefix: i for i, prefix in enumerate(inner)}
        self.prefixes = tuple(inner)
        parents = [self._index[prefix[:-1]] if prefix else -1 for prefix in inner]
        self.branches = tuple(
            Branch(prefix[-1] if prefix else -1, parent, len(prefix))
            for prefix, parent in zip(inner, parents, strict=True)
        )
        # a path of n tokens asks n distributions: at the prompt, and behind each token but its last
        children: list[set[int]] = [set() for _ in inner]
        for path in every:
            for n, token in enumerate(path):
                children[self._index[path[:n]]].add(token)
        self.children = tuple(tuple(sorted(tokens)) for tokens in children)

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, candidates: Sequence[str]) -> CandidateTrie:
        """The trie of `candidates` for a tokenizer: every single token that reads as a candidate,
        with or without a leading space; where there is none, the tokenizer's own way of writing it,
        or `UserError`."""
        paths: list[list[tuple[int, ...]]] = []
        for candidate, single in zip(
            candidates, _single_tokens(tokenizer, tuple(candidates)), strict=True
        ):
            # single tokens, and the tokenizer's own way for each surface form that none of them is
            ways: list[tuple[int, ...]] = [(token,) for token in sorted(single)]
            written = {str(tokenizer.decode(list(path))) for path in ways}
            for text in (lead + candidate for lead in LEADS if lead + candidate not in written):
                path = tuple(tokenizer.encode(text, add_special_tokens=False))
                # some tokenizers cannot write a text, or write another: the path has to read as
                # what it is for
                if path and str(tokenizer.decode(list(path))) in (candidate, text):
                    ways.append(path)
            if not ways:
                raise UserError(
                    f"The tokenizer cannot write the score {candidate!r}; choose other ranges or "
                    "judge.mode=generate."
                )
            paths.append(ways)
        return cls(candidates, paths)

    def logprobs(self, branch_logprobs: Tensor) -> Tensor:
        """Log-probability of each candidate as the next text, [prompts, candidates] float64: of all
        of its paths.

        A path that ends on an inner node ("1", where "10" goes on from there) has to stop there:
        the probability of every continuation towards another candidate is taken off, so that two
        candidates never share mass. `branch_logprobs`: [prompts, sum of len(children)] log P(child
        token | branch), branches in order and each one's children in order, over the full
        vocabulary.
        """
        import torch  # here: paths of tokens are asked for of served models too, without torch

        steps = [(branch, token) for branch, tokens in enumerate(self.children) for token in tokens]
        column = {step: i for i, step in enumerate(steps)}
        logp = branch_logprobs.double()  # [prompts, all children]
        results = []
        for ways in self.token_paths:
            totals = []
            for path in ways:
                columns = [column[self._index[path[:n]], token] for n, token in enumerate(path)]
                # log P(path) = sum over its tokens of log P(token | what came before), [prompts]
                total = torch.stack([logp[:, i] for i in columns]).sum(0)
                branch = self._index.get(path)
                if branch is not None:
                    # log P(a token that leads to another candidate), [prompts]
                    onward = torch.logsumexp(
                        logp[:, [column[branch, token] for token in self.children[branch]]], dim=1
                    )
                    # rounding may leave a sum of probabilities above 1
                    onward = onward.clamp(max=0.0)
                    # log(1 - exp(onward)) without cancellation at either end (Maechler 2012)
                    near = torch.log(-torch.expm1(onward))
                    far = torch.log1p(-torch.exp(onward))
                    total = total + torch.where(onward > -math.log(2), near, far)
                totals.append(total)
            # surface forms exclude each other, so their probabilities add up, [prompts]
            results.append(torch.logsumexp(torch.stack(totals), dim=0))
        return torch.stack(results, dim=1)


# a vocabulary is large, and a judge that scores texts one by one asks for each
@lru_cache(maxsize=64)
def _single_tokens(
    tokenizer: PreTrainedTokenizerBase, candidates: tuple[str, ...]
) -> tuple[frozenset[int], ...]:
    """For each candidate the tokens that read as it, alone or after one leading space."""
    wanted = {lead + candidate: i for i, candidate in enumerate(candidates) for lead in LEADS}
    # a byte that has no piece of its own is written as <0x31>, which reads as "1"
    longest = max(map(len, candidates)) + len("<0x00>")
    special = set(tokenizer.all_special_ids)
    letters = {c for candidate in candidates for c in candidate if c.isalpha()}
    tokens: list[set[int]] = [set() for _ in candidates]
    for piece, token in tokenizer.get_vocab().items():
        # decoding is slow and the vocabulary large: only short pieces with a digit or a label's
        # letter can be a score
        if (
            len(piece) > longest
            or token in special
            or not any(c.isdigit() or c in letters for c in piece)
        ):
            continue
        candidate = wanted.get(str(tokenizer.decode([token])))
        if candidate is not None:
            tokens[candidate].add(token)
    return tuple(map(frozenset, tokens))
