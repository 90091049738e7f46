"""Candidate scores as token sequences: what a judge's next tokens must be for its answer to be "4", or " 4", or "3.5".

A candidate is reached by *paths* of tokens. All paths of all candidates form one trie; the log-probability of every
candidate follows from the next-token distributions at the trie's inner nodes, so one forward pass that reads the
prompt and the inner nodes' tokens is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from transformers import PreTrainedTokenizerBase

from judgebench.runtime.errors import UserError

LEADS = ("", " ")
"""What may stand before a candidate: both surface forms `4` and ` 4` count as the answer 4."""


@dataclass(frozen=True)
class Branch:
    """An inner node of the trie, at which a next-token distribution is needed.

    Attributes:
        token: the token that leads to it (-1 at the root, which is the prompt itself).
        parent: index of the branch it continues (-1 at the root).
        depth: tokens after the prompt; 0 at the root.
    """

    token: int
    parent: int
    depth: int


@dataclass(frozen=True)
class Path:
    """One way of writing a candidate: `steps` are (branch, token) pairs, `ends_at` the branch that it ends on, if any.

    A path that ends on an inner node ("1", where "10" goes on from there) has to stop there: the probability of every
    continuation towards another candidate is taken off, so that two candidates never share mass.
    """

    candidate: int
    steps: tuple[tuple[int, int], ...]
    ends_at: int | None


class CandidateTrie:
    """The token paths of a range's candidates, and the law that turns next-token distributions into candidates'.

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
        self.token_paths = tuple(tuple(sorted(set(own))) for own in paths)
        inner = sorted(
            {path[:n] for own in self.token_paths for path in own for n in range(len(path))},
            key=lambda prefix: (len(prefix), prefix),
        )
        index = {prefix: i for i, prefix in enumerate(inner)}
        self.prefixes = tuple(inner)
        self.branches = tuple(
            Branch(prefix[-1] if prefix else -1, index[prefix[:-1]] if prefix else -1, len(prefix)) for prefix in inner
        )
        next_tokens: list[set[int]] = [set() for _ in inner]
        for own in self.token_paths:
            for path in own:
                for n, token in enumerate(path):
                    next_tokens[index[path[:n]]].add(token)
        self.children = tuple(tuple(sorted(tokens)) for tokens in next_tokens)
        self._paths = tuple(
            Path(c, tuple((index[path[:n]], token) for n, token in enumerate(path)), index.get(path))
            for c, own in enumerate(self.token_paths)
            for path in own
        )

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, candidates: Sequence[str]) -> CandidateTrie:
        """The trie of `candidates` for a tokenizer: every single token that reads as a candidate, with or without a
        leading space; where there is none, the tokenizer's own way of writing it.

        Raises:
            UserError: the tokenizer cannot write a candidate.
        """
        paths: list[list[tuple[int, ...]]] = []
        for candidate, single in zip(candidates, _single_tokens(tokenizer, tuple(candidates)), strict=True):
            own: list[tuple[int, ...]] = [(token,) for token in sorted(single)]
            written = {_text(tokenizer, path) for path in own}
            for lead in LEADS:
                if lead + candidate not in written:
                    path = tuple(tokenizer.encode(lead + candidate, add_special_tokens=False))
                    if path and _text(tokenizer, path) in (candidate, lead + candidate):
                        own.append(path)
            if not own:
                raise UserError(
                    f"The tokenizer cannot write the score {candidate!r}; choose other ranges or judge.mode=generate."
                )
            paths.append(own)
        return cls(candidates, paths)

    def logprobs(self, branch_logprobs: torch.Tensor) -> torch.Tensor:
        """Log-probability of each candidate as the next text.

        Args:
            branch_logprobs: [prompts, sum of len(children)] log P(child token | branch), branches in order and each
                one's children in order, over the full vocabulary.

        Returns:
            [prompts, candidates] float64: log of the summed probability of each candidate's paths.
        """
        column = {
            (branch, token): i
            for i, (branch, token) in enumerate((b, t) for b, tokens in enumerate(self.children) for t in tokens)
        }
        logp = branch_logprobs.double()
        parts: list[list[torch.Tensor]] = [[] for _ in self.candidates]
        for path in self._paths:
            total = torch.stack([logp[:, column[step]] for step in path.steps]).sum(0)
            if path.ends_at is not None:
                onward = [column[path.ends_at, token] for token in self.children[path.ends_at]]
                total = total + _log1mexp(torch.logsumexp(logp[:, onward], dim=1))
            parts[path.candidate].append(total)
        return torch.stack([torch.logsumexp(torch.stack(part), dim=0) for part in parts], dim=1)


def _text(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens)))


def _log1mexp(log_p: torch.Tensor) -> torch.Tensor:
    """log(1 - exp(log_p)) for log_p <= 0, without cancellation at either end (Maechler 2012)."""
    log_p = log_p.clamp(max=0.0)
    return torch.where(log_p > -math.log(2), torch.log(-torch.expm1(log_p)), torch.log1p(-torch.exp(log_p)))


@lru_cache(maxsize=64)  # a vocabulary is large, and a judge that scores texts one by one asks for each
def _single_tokens(tokenizer: PreTrainedTokenizerBase, candidates: tuple[str, ...]) -> tuple[frozenset[int], ...]:
    """For each candidate the tokens that read as it, alone or after one leading space."""
    wanted = {lead + candidate: i for i, candidate in enumerate(candidates) for lead in LEADS}
    longest = max(map(len, candidates)) + len("<0x00>")
    special = set(tokenizer.all_special_ids)
    tokens: list[set[int]] = [set() for _ in candidates]
    letters = {c for candidate in candidates for c in candidate if c.isalpha()}
    for piece, token in tokenizer.get_vocab().items():
        # decoding is slow and the vocabulary large: only short pieces with a digit or a label's letter can be a score
        if len(piece) > longest or token in special or not any(c.isdigit() or c in letters for c in piece):
            continue
        candidate = wanted.get(_text(tokenizer, (token,)))
        if candidate is not None:
            tokens[candidate].add(token)
    return tuple(map(frozenset, tokens))
