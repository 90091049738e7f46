"""Retokenization (Jain et al. 2023): the judged text in other tokens than an attacker has learned on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from judgebench.prompts.builder import Defense
from judgebench.types import Example


@dataclass(frozen=True)
class Retokenization(Defense):
    """Breaks words of the judged text into more tokens, at random; not a character of it changes.

    Between two neighboring letters or digits a cut is drawn, and no token reaches over a cut: what lies between cuts is
    tokenized by itself. BPE dropout (Provilkov et al. 2020), which Jain et al. use, drops single merges instead, each
    with the same chance; that needs the tokenizer's own merges and draws of which the tokenizers of transformers take
    no seed, and this works with every tokenizer. Their chances do not compare: with a cut at one place in ten, a word
    of eight letters is broken with probability 1 - 0.9^7 = 0.52.

    Draws depend on the seed, the example and the place in the text alone: what an attack appends leaves the cuts before
    it as they are.

    Args:
        name: see `Defense`.
        seed: of the cuts.
        share: the chance of a cut at each place.

    Example:
        >>> example = Example("a/1", "a", "1", "", "", {})
        >>> Retokenization("all", share=1.0).cuts("A cat.", example)
        [3, 4]
    """

    name: str
    seed: int = 0
    share: float = 0.1
    learnable: ClassVar[bool] = False  # its words are other tokens in each text

    def cuts(self, text: str, example: Example) -> Sequence[int]:
        """See `Defense.cuts`."""
        digest = hashlib.sha256(f"{self.seed} {example.example_id}".encode()).digest()
        drawn = np.random.default_rng(int.from_bytes(digest[:8], "big")).random(len(text))
        inner = (place for place in range(1, len(text)) if text[place - 1].isalnum() and text[place].isalnum())
        return [place for place in inner if drawn[place] < self.share]
