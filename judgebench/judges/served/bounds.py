"""Probabilities of the candidate scores from a list of likely next tokens, as far as the list
determines them.

A candidate is written by *paths* of tokens (see `engine.candidates`), and its probability is that
of its paths, where a path that another candidate goes on from ("1", before "10") must stop there.
The probability of a listed token is known, of another it is bounded, and so are the candidates'.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from judgebench.judges.engine.candidates import LEADS
from judgebench.types import Array

TokenPath = tuple[Hashable, ...]
"""Tokens after the prompt, by their numbers or by their texts."""

_TIGHT = 1e-6
"""What differs by no more is one: servers give log-probabilities in a few digits."""


@dataclass(frozen=True)
class Listing:
    """Next-token probabilities that a server has listed at one place.

    Attributes:
        logprobs: token -> log-probability over the whole vocabulary, at temperature 1.
        last: the least log-probability of a list of the likeliest tokens: no other token has more.
            None for a list of tokens that were asked for.
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
        self.paths = tuple(tuple(sorted(set(ways), key=repr)) for ways in paths)
        self.children: dict[TokenPath, list[Hashable]] = {(): []}
        self.below: dict[TokenPath, set[int]] = {(): set()}
        self.ends: dict[TokenPath, int] = {}
        self._less: dict[frozenset[Hashable], PathTree] = {}
        for candidate, ways in enumerate(self.paths):
            for path in ways:
                self.ends[path] = candidate
                for n, token in enumerate(path):
                    node = path[:n]
                    self.below.setdefault(node, set()).add(candidate)
                    children = self.children.setdefault(node, [])
                    if token not in children:
                        children.append(token)

    @classmethod
    def of_texts(cls, candidates: Sequence[str]) -> PathTree:
        """Every way of cutting each candidate, with or without a leading space, into tokens, which
        are texts; for want of a tokenizer."""

        def cuts(text: str) -> list[TokenPath]:
            return [
                (text,),
                *((text[:n], *rest) for n in range(1, len(text)) for rest in cuts(text[n:])),
            ]

        return cls(
            candidates,
            [[path for lead in LEADS for path in cuts(lead + text)] for text in candidates],
        )

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.paths).encode()).hexdigest()

    def lacks(self, node: TokenPath, listed: Collection[Hashable]) -> bool:
        """True where a list at a node may lack a candidate: all tokens that go on are enough; by
        their texts, so is one token a candidate."""
        hidden = [token for token in self.children[node] if token not in listed]
        reached = {self.ends.get((*node, token)) for token in listed}
        by_text = bool(hidden) and isinstance(hidden[0], str)
        return bool(hidden) and not (by_text and reached >= self.below[node])

    def given(self, listed: Iterable[Hashable]) -> PathTree:
        """The same without paths of several tokens to a text that is a token by itself: where the
        server lists "10", its model does not write it as "1" and "0"."""
        single = {path[0] for path in self.ends if len(path) == 1}
        whole = frozenset(token for token in single.intersection(listed) if len(str(token)) > 1)
        if not whole:
            return self
        if whole not in self._less:
            longer = {
                path for path in self.ends if len(path) > 1 and "".join(map(str, path)) in whole
            }
            self._less[whole] = PathTree(
                self.candidates, [set(paths) - longer for paths in self.paths]
            )
        return self._less[whole]


@dataclass(frozen=True)
class Bounds:
    """The candidates' probabilities, as far as they are known.

    Attributes:
        lower, upper: [candidates] for every model with these lists, where one text is one token.
        value: [candidates] `lower` and a share of the undetermined probability in proportion to
            `upper - lower`, so that a candidate is never 0 for not being listed.
        unlisted: probability that the list of the answer's first token leaves out.
    """

    lower: Array
    upper: Array
    value: Array
    unlisted: float

    @property
    def bounded(self) -> bool:
        """True where a candidate is known within bounds only."""
        # contrastive decoding sees logarithms: a small candidate must be known as well as a large
        # one
        return bool((self.upper - self.lower > _TIGHT * self.upper).any())

    @property
    def undecided(self) -> bool:
        """True where another candidate than the likeliest by `value` could be the likeliest."""
        best = int(self.value.argmax())
        others = np.delete(self.upper, best)
        return bool(len(others) and others.max() > self.lower[best] + _TIGHT)


def candidate_bounds(tree: PathTree, listings: Mapping[TokenPath, Listing]) -> Bounds:
    """Bounds of the candidates' probabilities from the lists that were read, by their nodes; the
    root is `()`.

    Where every token that goes on from an inner node is listed and every inner node was read,
    `lower` and `upper` are the same and equal `CandidateTrie.logprobs`.
    """
    count = len(tree.candidates)
    lower = np.zeros(count)
    upper = np.zeros(count)
    undecided = 0.0

    def walk(node: TokenPath, probability: float) -> None:
        nonlocal undecided
        listing = listings.get(node)
        if listing is None:
            upper[list(tree.below[node])] += probability
            undecided += probability
            return
        hidden = [token for token in tree.children[node] if token not in listing.logprobs]
        hidden_paths = np.zeros(count)
        for token in hidden:
            at = (*node, token)
            reached = set(tree.below.get(at, ()))
            if at in tree.ends:
                reached.add(tree.ends[at])
            hidden_paths[list(reached)] += 1
        upper[:] += probability * np.minimum(listing.unlisted, listing.cap * hidden_paths)
        undecided += probability * min(listing.unlisted, listing.cap * len(hidden))
        for token in tree.children[node]:
            if token not in listing.logprobs:
                continue
            at = (*node, token)
            here = probability * math.exp(listing.logprobs[token])
            ending = tree.ends.get(at)
            if ending is not None:
                # least and most probability that what is written goes on towards another candidate
                least = 0.0
                most = float(at in tree.children)
                after = listings.get(at)
                if at in tree.children and after is not None:
                    children = tree.children[at]
                    seen = [after.logprobs[t] for t in children if t in after.logprobs]
                    unseen = len(children) - len(seen)
                    least = min(1.0, math.fsum(map(math.exp, seen)))
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


def on_scores(value: Array, lower: Array, unlisted: float) -> float:
    """The probability on the candidates: what the lists show of it, and of what they leave out as
    large a share as of what they show; 0 where they show no candidate. To six digits.

    Args:
        value, lower, unlisted: see `Bounds`; [candidates] probabilities.

    Example:
        >>> on_scores(np.array([0.2, 0.3]), np.array([0.2, 0.0]), 0.5)
        0.32
    """
    total = float(value.sum())
    shown = max(float(lower.sum()), total - unlisted)
    if shown <= _TIGHT:
        return 0.0
    share = min(1.0, shown / max(1.0 - unlisted, shown))
    return round(shown + share * (total - shown), 6)


def unread(tree: PathTree, listings: Mapping[TokenPath, Listing], above: float) -> list[TokenPath]:
    """The inner nodes that were not read, though their parents were, of a probability above 0 and
    at least `above`."""
    nodes = []
    for node in sorted(tree.children, key=lambda node: (len(node), repr(node))):
        if node in listings or node[:-1] not in listings:
            continue
        # the probability of the node's tokens after the prompt; 0 where one of them is not listed
        lists = [
            (listings.get(node[:n], Listing({})).logprobs, token) for n, token in enumerate(node)
        ]
        probability = math.exp(sum(logprobs.get(token, -math.inf) for logprobs, token in lists))
        if probability > 0 and probability >= above:
            nodes.append(node)
    return nodes
