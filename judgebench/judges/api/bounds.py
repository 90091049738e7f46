"""Probabilities of the candidate scores from a list of likely next tokens, as far as the list determines them.

A candidate is written by *paths* of tokens (see `engine.candidates`), and its probability is that of its paths, where
a path that another candidate goes on from ("1", before "10") must stop there. The probability of a listed token is
known, of another it is bounded, and so are the candidates'.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from judgebench.decoding.parser import parse_answer, parse_place
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.engine.candidates import LEADS, CandidateTrie
from judgebench.runtime.errors import UserError
from judgebench.types import FAILED, Prompt, ScoreRange

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TokenPath = tuple[Hashable, ...]
"""Tokens after the prompt, by their numbers or by their texts."""

_MOST_CUT = 15  # a text has 2 ** (n - 1) ways of being cut into tokens

_TIGHT = 1e-6
"""What differs by no more is one: servers give log-probabilities in a few digits."""


@dataclass(frozen=True)
class Listing:
    """Next-token probabilities that a server has listed at one place.

    Attributes:
        logprobs: token -> log-probability over the whole vocabulary, at temperature 1.
        last: the least log-probability of a list of the likeliest tokens: no other token has more. None for a list of
            tokens that were asked for.
    """

    logprobs: Mapping[Hashable, float]
    last: float | None = None

    @property
    def unlisted(self) -> float:
        """The probability of all that is not listed, at least 0."""
        return max(0.0, 1.0 - math.fsum(map(math.exp, self.logprobs.values())))

    @property
    def cap(self) -> float:
        """The most that one token which is not listed can have."""
        return self.unlisted if self.last is None else min(self.unlisted, math.exp(self.last))


class PathTree:
    """The paths that write each candidate, as a tree of tokens.

    Attributes:
        children: inner node -> the tokens that go on from it; a node is the tokens that lead to it.
        below: inner node -> candidates that are reached beyond it.
        ends: node -> the candidate that it writes.
    """

    def __init__(self, candidates: Sequence[str], paths: Sequence[Iterable[TokenPath]]):
        self.candidates = tuple(candidates)
        self.paths = tuple(tuple(sorted(set(own), key=repr)) for own in paths)
        self.children: dict[TokenPath, list[Hashable]] = {(): []}
        self.below: dict[TokenPath, set[int]] = {(): set()}
        self.ends: dict[TokenPath, int] = {}
        for candidate, own in enumerate(self.paths):
            for path in own:
                self.ends[path] = candidate
                for n, token in enumerate(path):
                    children = self.children.setdefault(path[:n], [])
                    self.below.setdefault(path[:n], set()).add(candidate)
                    if token not in children:
                        children.append(token)

    @classmethod
    def of_tokens(cls, trie: CandidateTrie, name: Callable[[int], Hashable] = lambda token: token) -> PathTree:
        """The local judges' own, with tokens by their numbers, or as `name` has them."""
        return cls(trie.candidates, [[tuple(map(name, path)) for path in own] for own in trie.token_paths])

    @classmethod
    def of_texts(cls, candidates: Sequence[str]) -> PathTree:
        """Every way of cutting each candidate, with or without a leading space, into tokens, which are texts; for want
        of a tokenizer."""
        return cls(candidates, [[path for lead in LEADS for path in _cut(lead + text)] for text in candidates])

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.paths).encode()).hexdigest()

    def given(self, single: Iterable[Hashable]) -> PathTree:
        """The same without paths of several tokens to a text that is a token by itself: where the server lists "10",
        its model does not write it as "1" and "0"."""
        whole = {token for token in single if isinstance(token, str)} & {
            path[0] for path in self.ends if len(path) == 1
        }
        return self._less(frozenset(whole)) if any(len(str(text)) > 1 for text in whole) else self

    @cache  # noqa: B019 - a range has few such lists, and lives as long as the run
    def _less(self, whole: frozenset[str]) -> PathTree:
        return PathTree(
            self.candidates,
            [[path for path in own if len(path) == 1 or "".join(map(str, path)) not in whole] for own in self.paths],
        )


@dataclass(frozen=True)
class Bounds:
    """The candidates' probabilities, as far as they are known.

    Attributes:
        lower, upper: [candidates] for every model with these lists, where one text is one token.
        value: [candidates] `lower` and a share of the undetermined probability in proportion to `upper - lower`, so
            that a candidate is never 0 for not being listed.
        unlisted: probability that the list of the answer's first token leaves out.
    """

    lower: np.ndarray
    upper: np.ndarray
    value: np.ndarray
    unlisted: float

    @property
    def bounded(self) -> bool:
        """True where a candidate is known within bounds only."""
        # contrastive decoding sees logarithms: a small candidate must be known as well as a large one
        return bool((self.upper - self.lower > _TIGHT * self.upper).any())

    @property
    def undecided(self) -> bool:
        """True where another candidate than the likeliest by `value` could be the likeliest."""
        best = int(self.value.argmax())
        others = np.delete(self.upper, best)
        return bool(len(others) and others.max() > self.lower[best] + _TIGHT)


def candidate_bounds(tree: PathTree, listings: Mapping[TokenPath, Listing]) -> Bounds:
    """Bounds of the candidates' probabilities from the lists that were read, by their nodes; the root is `()`.

    Where every token that goes on from an inner node is listed and every inner node was read, `lower` and `upper` are
    the same and equal `CandidateTrie.logprobs`.
    """
    count = len(tree.candidates)
    lower, upper, undecided = np.zeros(count), np.zeros(count), 0.0

    def walk(node: TokenPath, probability: float) -> None:
        nonlocal undecided
        listing = listings.get(node)
        if listing is None:
            upper[list(tree.below[node])] += probability
            undecided += probability
            return
        hidden = [token for token in tree.children[node] if token not in listing.logprobs]
        hidden_paths = np.zeros(count)
        for at in ((*node, token) for token in hidden):
            hidden_paths[list(tree.below.get(at, set()) | ({tree.ends[at]} if at in tree.ends else set()))] += 1
        upper[:] += probability * np.minimum(listing.unlisted, listing.cap * hidden_paths)
        undecided += probability * min(listing.unlisted, listing.cap * len(hidden))
        for token in tree.children[node]:
            if token not in listing.logprobs:
                continue
            at, here = (*node, token), probability * math.exp(listing.logprobs[token])
            ending = tree.ends.get(at)
            if ending is not None:
                # least and most probability that what is written goes on towards another candidate
                least, most, after = 0.0, float(at in tree.children), listings.get(at)
                if at in tree.children and after is not None:
                    children = tree.children[at]
                    least = min(1.0, math.fsum(math.exp(after.logprobs[t]) for t in children if t in after.logprobs))
                    unseen = sum(t not in after.logprobs for t in children)
                    most = min(1.0, least + min(after.unlisted, after.cap * unseen))
                lower[ending] += here * (1 - most)
                upper[ending] += here * (1 - least)
            if at in tree.children:
                walk(at, here)

    walk((), 1.0)
    np.minimum(upper, 1.0, out=upper)
    np.minimum(lower, upper, out=lower)
    width = upper - lower
    share = min(1.0, undecided / width.sum()) if width.sum() > 0 else 0.0
    root = listings.get(())
    return Bounds(lower, upper, lower + share * width, 1.0 if root is None else root.unlisted)


def unread(tree: PathTree, listings: Mapping[TokenPath, Listing], above: float) -> list[TokenPath]:
    """The inner nodes that were not read, though their parents were, of a probability above 0 and at least `above`."""
    nodes = []
    for node in sorted(tree.children, key=lambda node: (len(node), repr(node))):
        if node not in listings and node[:-1] in listings:
            probability = node_probability(node, listings)
            if probability > 0 and probability >= above:
                nodes.append(node)
    return nodes


def node_probability(node: TokenPath, listings: Mapping[TokenPath, Listing]) -> float:
    """The probability of a node's tokens after the prompt; 0 where one of them is not listed."""
    total = 0.0
    for n, token in enumerate(node):
        listing = listings.get(node[:n])
        if listing is None or token not in listing.logprobs:
            return 0.0
        total += listing.logprobs[token]
    return math.exp(total)


def _cut(text: str) -> list[TokenPath]:
    if len(text) <= 1:
        return [(text,)]
    return [(text,), *((text[:n], *rest) for n in range(1, len(text)) for rest in _cut(text[n:]))]


def sample_logprobs(prompt: Prompt, answers: Sequence[str]) -> tuple[float, ...]:
    """[candidates] log of each candidate's share of all answers, those that name no candidate among them; -inf for
    none."""
    named = [candidate_of(prompt, answer) for answer in answers]
    counts = np.array([named.count(value) for value in prompt.condition.range.values])
    with np.errstate(divide="ignore"):
        return tuple(np.log(counts / len(answers)).tolist())


def candidate_of(prompt: Prompt, answer: str) -> float | None:
    """The score that an answer names, if it is one of the candidates."""
    condition = prompt.condition
    read = (
        parse_place(answer, prompt.choices)
        if condition.order
        else parse_answer(answer, condition.range, prompt.choices)
    )
    return read.value if read.status != FAILED and read.value in condition.range.values else None


def endpoint_paths(
    spec: ApiSpec, ranges: Iterable[ScoreRange]
) -> tuple[dict[ScoreRange, PathTree], dict[ScoreRange, dict[TokenPath, tuple[int, ...]]]]:
    """Score range -> the paths that write its candidates, as the endpoint's lists name tokens; and -> inner node -> the
    numbers of its tokens, where the tokenizer is known."""
    trees: dict[ScoreRange, PathTree] = {}
    sent: dict[ScoreRange, dict[TokenPath, tuple[int, ...]]] = {}
    tokenizer: PreTrainedTokenizerBase | None = None if spec.own_tokenizer is None else spec.own_tokenizer.tokenizer()
    for each in ranges:
        if tokenizer is None:
            if longest := [text for text in each.labels if len(text) > _MOST_CUT]:
                raise UserError(
                    f"ranges: {longest[0]!r} has {len(longest[0])} characters, too many to be found in a server's "
                    "lists of tokens; give judge.tokenizer, the model's, or judge.scores_from=samples."
                )
            trees[each], sent[each] = PathTree.of_texts(each.candidates), {}
            continue
        trie = CandidateTrie.of(tokenizer, each.candidates)
        named = {
            token: token if spec.numbered else str(tokenizer.decode([token]))
            for paths in trie.token_paths
            for path in paths
            for token in path
        }
        trees[each] = PathTree.of_tokens(trie, named.__getitem__)
        inner = [path[:n] for paths in trie.token_paths for path in paths for n in range(len(path))]
        sent[each] = {tuple(named[token] for token in path): path for path in inner}
    return trees, sent
