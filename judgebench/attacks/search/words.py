"""A universal phrase, word by word (Raina et al. 2024), by a beam if wanted, then place by place (Zou et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from judgebench.attacks.search.journal import Journal
from judgebench.attacks.search.scoring import PhraseScorer
from judgebench.attacks.search.search import Candidate, Search, choose
from judgebench.attacks.search.vocabulary import Fitting, fitting
from judgebench.runtime.errors import UserError

TRACE = (
    *("step", "kind", "position", "phrase", "word", "score", "contexts", "estimate", "kept", "survives", "seconds"),
    *("forward_tokens", "dropped"),
)
"""The columns of a trace: a row for each word that there was to choose from at each step.

step is `word_0` (clean texts, one row), `word_1`, ..., or `refine_<length>_<pass>_<place>`; kind is clean, word or
replace; position counts the phrase's words from 0; phrase is the whole with the word in place. score is the mean
objective over `contexts` prompts, NaN where the search left the word out before it was scored; estimate is what the
gradient said. kept ranks what the step kept, 0 the best, -1 the rest; a replacement is taken only where its score is
above the phrase's. survives is False of a phrase that was best but reads otherwise in a whole prompt. seconds and
forward_tokens are the row's share of the step's cost; dropped is how many words did not survive tokenization.
"""


@dataclass(frozen=True)
class Phrase:
    """A phrase on the way.

    Attributes:
        words: its words.
        tokens: of each word.
        score: its mean objective over all gaps.
    """

    words: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    score: float

    @property
    def text(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Walk:
    """How a phrase is looked for.

    Attributes:
        search: how each word is chosen.
        words: what there is to choose from.
        length: words of the phrase.
        beam: phrases that are kept from word to word.
        refine: how often each place of the finished phrase is tried with other words.
        seed: of all that is drawn.
        journal: where finished steps are kept.
        holds: whether a phrase's text gives these tokens in every whole prompt.
        report: told what is under way.
    """

    search: Search
    words: Sequence[str]
    length: int
    beam: int
    refine: int
    seed: int
    journal: Journal
    holds: Callable[[str, Sequence[int]], bool]
    report: Callable[[str], None]


@dataclass(frozen=True)
class Walked:
    """Where it has led.

    Attributes:
        clean: the mean objective without a phrase.
        by_length: the best phrase of 1, 2, ... words.
        refined: the phrase after replacement of single words; None if none was asked for.
        trace: `TRACE`.
        resumed: steps that were found in the journal.
    """

    clean: float
    by_length: Sequence[Phrase]
    refined: Phrase | None
    trace: pd.DataFrame
    resumed: int


def walk(scorer: PhraseScorer, tokenizer: PreTrainedTokenizerBase, how: Walk) -> Walked:
    """The best phrase of every length up to `how.length`.

    Greedy search (beam 1) adds to the phrase the word that maximizes the mean objective over all gaps; a beam keeps the
    best few. Refinement, afterwards, replaces single words of the longest phrase while that helps.

    Raises:
        UserError: no word survives where it goes.
    """
    # 1. the texts as they are
    clean = how.journal.get("word_0")
    resumed = 0 if clean is None else 1
    if clean is None:
        began = scorer.tokens
        value = float(scorer.values([()], range(len(scorer.gaps))).mean())
        clean = pd.DataFrame([_clean_row(value, len(scorer.gaps), scorer.tokens - began)], columns=TRACE)
        how.journal.put("word_0", clean)
    steps = [clean]
    # 2. word by word
    beam = [Phrase((), (), float(clean["score"][0]))]
    by_length = []
    for length in range(1, how.length + 1):
        places = [(phrase, phrase.words, ()) for phrase in beam]
        rows, found, beam = _step(
            scorer, tokenizer, how, f"word_{length}", "word", length - 1, places, how.beam, [length]
        )
        steps.append(rows)
        resumed += found
        by_length.append(beam[0])
    # 3. place by place
    refined = None
    if how.refine:
        refined = beam[0]
        for number in range(how.refine):
            for position in range(how.length):
                place = (refined, refined.words[:position], refined.words[position + 1 :])
                name = f"refine_{how.length}_{number + 1}_{position + 1}"
                seed = [how.length, number + 1, position]
                rows, found, best = _step(scorer, tokenizer, how, name, "replace", position, [place], 1, seed)
                steps.append(rows)
                resumed += found
                if best[0].score > refined.score:
                    refined = best[0]
    trace = pd.concat(steps, ignore_index=True)
    return Walked(float(clean["score"][0]), by_length, refined, trace, resumed)


Place = tuple[Phrase, Sequence[str], Sequence[str]]
"""A phrase of the beam, and its words before and after the place that a word goes to."""


def _step(
    scorer: PhraseScorer,
    tokenizer: PreTrainedTokenizerBase,
    how: Walk,
    name: str,
    kind: str,
    position: int,
    places: Sequence[Place],
    beam: int,
    seed: Sequence[int],
) -> tuple[pd.DataFrame, bool, list[Phrase]]:
    """One word chosen: the trace, whether it was in the journal, and the best phrases."""
    candidates, held, dropped = _candidates(scorer, tokenizer, how.words, places, position)
    if not candidates:
        raise UserError(
            f"attack.vocabulary: none of its {len(how.words)} words survives tokenization behind "
            f"{' '.join(places[0][1])!r}; choose another vocabulary."
        )
    phrases = [" ".join(candidate.words) for candidate in candidates]
    rows = how.journal.get(name)
    known = rows is not None and rows["phrase"].tolist() == phrases
    if not known:
        found = choose(
            how.search,
            scorer,
            candidates,
            min(beam, len(candidates)),
            [how.seed, *seed],
            lambda candidate: how.holds(" ".join(candidate.words), candidate.phrase),
            lambda text: how.report(f"{name.replace('_', ' ')}: {text}"),
        )
        if not found.kept:
            raise UserError(
                "attack: no phrase reads the same in every prompt: the tokenizer joins words with what stands around "
                "them; choose another vocabulary."
            )
        order = np.full(len(candidates), -1)
        order[found.kept] = np.arange(len(found.kept))
        survives = np.ones(len(candidates), dtype=bool)
        survives[found.unstable] = False
        rows = pd.DataFrame(
            {
                "step": name,
                "kind": kind,
                "position": position,
                "phrase": phrases,
                "word": [candidate.word for candidate in candidates],
                "score": found.scores,
                "contexts": found.gaps.astype(int),
                "estimate": found.estimates,
                "kept": order,
                "survives": survives,
                "seconds": found.seconds,
                "forward_tokens": found.tokens,
                "dropped": dropped,
            },
            columns=TRACE,
        )
        how.journal.put(name, rows)
    assert rows is not None
    ranked = np.argsort(rows["kept"].to_numpy(), kind="stable")
    best = [i for i in ranked.tolist() if rows["kept"][i] >= 0]
    return rows, known, [_phrase(candidates[i], held[i], position, float(rows["score"][i])) for i in best]


def _candidates(
    scorer: PhraseScorer,
    tokenizer: PreTrainedTokenizerBase,
    words: Sequence[str],
    places: Sequence[Place],
    position: int,
) -> tuple[list[Candidate], list[Phrase], int]:
    """Every surviving word in every place, the phrases that they go on from, and how many words did not survive."""
    candidates, held, dropped = [], [], 0
    seen: set[str] = set()  # texts: words of a file may be several, and "a b" + "c" reads as "a" + "b c" does
    for number, (phrase, before, after) in enumerate(places):
        fit: Fitting = fitting(tokenizer, scorer.gaps[0], words, before, after)
        dropped += fit.dropped
        own = phrase.tokens
        ahead = tuple(token for word in own[:position] for token in word)
        behind = tuple(token for word in own[position + 1 :] for token in word)
        for word, tokens in zip(fit.words, fit.tokens, strict=True):
            whole = (*before, word, *after)
            text = " ".join(whole)
            if text not in seen:
                seen.add(text)
                candidates.append(Candidate(ahead, behind, tokens, whole, word, number))
                held.append(phrase)
    return candidates, held, dropped


def _phrase(candidate: Candidate, stem: Phrase, position: int, score: float) -> Phrase:
    tokens = (*stem.tokens[:position], candidate.tokens, *stem.tokens[position + 1 :])
    return Phrase(candidate.words, tokens, score)


def _clean_row(value: float, gaps: int, tokens: int) -> list[object]:
    return ["word_0", "clean", -1, "", "", value, gaps, float("nan"), 0, True, 0.0, float(tokens), 0]
