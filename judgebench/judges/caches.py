"""Keys and values that outlive a pass: of a root, for the rows below it; of a batch, for generation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from judgebench.judges.kernels import KeysValues

GROWTH = 64
"""Tokens by which the room for generated keys grows."""


@dataclass
class Root:
    """The keys and values of tokens that many rows begin with, by layer."""

    layers: dict[int, KeysValues] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Its tokens."""
        return next(iter(self.layers.values()))[0].shape[2]

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(x.nbytes for pair in self.layers.values() for x in pair)


class Roots:
    """The roots that were used last; the one in use is always kept.

    Args:
        room: bytes that they may take together.
    """

    def __init__(self, room: int = 0):
        self.room = room
        self._held: OrderedDict[bytes, Root] = OrderedDict()

    def get(self, root: np.ndarray, read: Callable[[], Root]) -> Root:
        """The keys and values of `root` [tokens], from `read` where they are not held."""
        name = root.tobytes()
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        self._held[name] = read()
        while len(self._held) > 1 and sum(held.bytes for held in self._held.values()) > self.room:
            self._held.popitem(last=False)
        return self._held[name]

    def clear(self) -> None:
        """Lets go of all."""
        self._held.clear()


@dataclass
class Cache:
    """Keys and values of a packed batch, kept for generation.

    Attributes:
        spans: for each group the prompts (first, last exclusive) below it.
        article_ends: for each group and one more, where what its prompts share begins among `articles`.
        offsets: [prompts] position of each prompt's first own token, on the host.
        lengths: [prompts] own tokens so far, on the host.
        root: what all prompts begin with, where it was read apart.
        articles: layer -> [1, kv heads, tokens, dim] what the prompts of each group share, group by group.
        own: layer -> [prompts, room, kv heads, dim] each prompt's own.
    """

    spans: list[tuple[int, int]]
    article_ends: list[int]
    offsets: list[int]
    lengths: list[int]
    root: Root | None = None
    articles: dict[int, KeysValues] = field(default_factory=dict)
    own: dict[int, KeysValues] = field(default_factory=dict)
