"""The words that a phrase is made of, and what becomes of them in the place where they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from judgebench.attacks.search.gaps import PROBES, Gap, common_ends
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_text

TOKENIZER, FREQUENT = "tokenizer", "frequent"


def whole_words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The words of two letters or more that the tokenizer writes as one token behind a blank, by token id."""
    special = set(tokenizer.all_special_ids)
    tokens = sorted(set(tokenizer.get_vocab().values()) - special)
    texts = [str(tokenizer.decode([token])) for token in tokens]
    found = [text[1:] for text in texts if text[:1] == " " and text[1:].isalpha()]
    if not found:  # sentencepiece's tokenizers drop the first blank when they decode
        pieces = map(str, tokenizer.convert_ids_to_tokens(tokens))
        found = [piece[1:] for piece in pieces if piece[:1] == "\u2581" and piece[1:].isalpha()]
    return [word for word in found if len(word) > 1]


def frequent_words(count: int) -> list[str]:
    """The most frequent English words of letters alone, the most frequent first (`wordfreq`, its large list)."""
    import wordfreq

    frequent = wordfreq.top_n_list("en", 2 * count + 100)  # some are numbers, or have marks in them
    return [word for word in frequent if word.isalpha() and word.isascii()][:count]


def chosen_words(tokenizer: PreTrainedTokenizerBase, vocabulary: str, words: int | None) -> list[str]:
    """The words that configuration names, each once.

    Args:
        vocabulary: `tokenizer`, its whole words; `frequent`, the most frequent English words; or the path of a file
            with one word or phrase a line.
        words: how many of them: the first of a file, the most frequent, or the tokenizer's with the lowest ids are
            taken; None is all (of `frequent` 20 000).

    Raises:
        UserError: no such file, or nothing in it.
    """
    if vocabulary == TOKENIZER:
        found = whole_words(tokenizer)
    elif vocabulary == FREQUENT:
        found = frequent_words(words or 20_000)
    else:
        found = _of_file(vocabulary)
    found = list(dict.fromkeys(found))[:words]
    if not found:
        raise UserError(f"attack.vocabulary={vocabulary}: it holds no word; a phrase needs one at least.")
    return found


@dataclass(frozen=True)
class Fitting:
    """Words as they read behind a stem in a gap.

    Attributes:
        words: those that survive.
        tokens: of each the tokens that it adds.
        dropped: how many words do not survive: the tokenizer joins them with what stands around.
    """

    words: Sequence[str]
    tokens: Sequence[tuple[int, ...]]
    dropped: int


def fitting(
    tokenizer: PreTrainedTokenizerBase,
    gap: Gap,
    words: Sequence[str],
    before: Sequence[str],
    after: Sequence[str],
) -> Fitting:
    """The words that stay what they are between the words `before` and `after` of a phrase in a gap.

    A word's tokens are what it puts between tokens that are the same for other words; it survives if these same tokens
    stand there whatever stands next to it.
    """

    def encoded(inside: Sequence[str]) -> list[list[int]]:
        texts = [" ".join([gap.before, *before, word, *after]) + gap.after for word in inside]
        return [list(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    probes = encoded(PROBES)
    head, tail = common_ends(probes)
    first, last = probes[0][:head], probes[0][len(probes[0]) - tail :]
    kept, tokens = [], []
    for word, ids in zip(words, encoded(words), strict=True):
        if len(ids) > head + tail and ids[:head] == first and ids[len(ids) - tail :] == last:
            kept.append(word)
            tokens.append(tuple(ids[head : len(ids) - tail]))
    return Fitting(kept, tokens, len(words) - len(kept))


def _of_file(path: str) -> list[str]:
    remedy = f"give {TOKENIZER}, {FREQUENT}, or a UTF-8 file with one word a line"
    lines = read_text(Path(path).expanduser(), f"attack.vocabulary={path}: it", remedy=remedy).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]
