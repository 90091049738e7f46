"""Keys and values that outlive a pass: of a root, for the rows below it; of a batch, for generation."""

from __future__ import annotations

from dataclasses import dataclass, field

from judgebench.judges.kernels import KeysValues

GROWTH = 64
"""Tokens by which the room for generated keys grows."""


@dataclass
class Root:
    """The keys and values of tokens that many rows begin with, by layer."""

    layers: dict[int, KeysValues] = field(default_factory=dict)


@dataclass
class Cache:
    """Keys and values of a packed batch, kept for generation.

    Attributes:
        spans: for each group the prompts (first, last exclusive) below it.
        offset: [prompts] position of each prompt's first own token, on the host.
        lengths: [prompts] own tokens so far, on the host.
        shared: layer -> for each group what its prompts share, the root included.
        own: layer -> [prompts, kv heads, room, dim] each prompt's own.
    """

    spans: list[tuple[int, int]]
    offsets: list[int]
    lengths: list[int]
    shared: dict[int, list[KeysValues]] = field(default_factory=dict)
    own: dict[int, KeysValues] = field(default_factory=dict)
