"""A universal phrase, word by word (Raina et al. 2024), by a beam if wanted, then each word anew (Zou et al. 2023)."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from judgebench.attacks.scoring import PhraseScorer
from judgebench.attacks.search import Search, WordCandidate, choose
from judgebench.attacks.vocabulary import fitting
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic


class Journal:
    """The steps of one search on disk: a file a word, whole or not there; a killed search goes on at the next word.

    Args:
        folder: under which journals are kept.
        identity: everything that the steps depend on, but how many there are; JSON-serialisable. `key` is its SHA-256.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]):
        self.key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._folder = folder / self.key[:16]
        self._identity = identity

    def get(self, step: str) -> pd.DataFrame | None:
        """Rows that a step has written; None if it was never finished."""
        path = self._folder / f"{step}.parquet"
        if not path.is_file():
            return None
        try:
            return pd.read_parquet(path)
        except Exception:  # a file that another program has cut: the step is done again
            return None

    def put(self, step: str, rows: pd.DataFrame) -> None:
        """Keeps the rows of a finished step.

        Raises:
            UserError: they cannot be written, as on a full disk.
        """
        described = self._folder / "search.json"
        try:
            if not described.is_file():
                with atomic(described) as temporary:
                    temporary.write_text(json.dumps(self._identity, indent=1, sort_keys=True), "utf-8")
            with atomic(self._folder / f"{step}.parquet") as temporary:
                rows.to_parquet(temporary, index=False)
        except OSError as error:
            raise UserError(
                f"store: the journal of the search in {self._folder} cannot be written ({error.strerror or error}). "
                "The words before this one stay; run the same command again when there is room."
            ) from error


TRACE = (
    *("step", "kind", "position", "phrase", "word", "score", "contexts", "estimate", "kept", "survives", "seconds"),
    *("forward_tokens", "dropped"),
)
"""The columns of a trace: a row for each word that there was to choose from at each step.

step is `word_0` (clean texts, one row), `word_1`, ..., or `refine_<length>_<pass>_<position>`; kind is clean, word or
replace; position counts the phrase's words from 0; phrase is the whole with the word in it. score is the mean
objective over `contexts` prompts, NaN where the search left the word out before it was scored; estimate is what the
gradient said. kept ranks what the step kept, 0 the best, -1 the rest; a replacement is taken only where its score is
above the phrase's. survives is False of a phrase that was best but reads otherwise in a whole prompt. seconds and
forward_tokens are the row's share of the step's cost; dropped is how many words did not survive tokenization.
"""


@dataclass(frozen=True)
class Phrase:
    """Words of a phrase, the tokens of each, and its mean objective over all gaps."""

    words: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    score: float

    @property
    def text(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Walk:
    """Settings of one search for a phrase; see `AdvSuffix` for those of the same name.

    Attributes:
        words: the vocabulary.
        holds: True where a phrase's text gives these tokens in every whole prompt.
        report: receives messages about progress.
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
    """Result of a search: the mean objective without a phrase; the best phrase of 1, 2, ... words; the phrase after
    replacement of single words (None if none was asked for); the `TRACE`; the number of steps that were in the journal.
    """

    clean: float
    by_length: Sequence[Phrase]
    refined: Phrase | None
    trace: pd.DataFrame
    resumed: int

    @property
    def best(self) -> list[Phrase]:
        """The best phrase of each length; the longest as refined."""
        return [*self.by_length[:-1], self.refined or self.by_length[-1]]


def walk(scorer: PhraseScorer, tokenizer: PreTrainedTokenizerBase, settings: Walk) -> Walked:
    """The best phrase of every length up to `settings.length`; `UserError` where no word survives where it goes.

    Greedy search (beam 1) adds to the phrase the word that maximizes the mean objective over all gaps; a beam keeps the
    best few. Refinement, afterwards, replaces single words of the longest phrase while that helps.
    """
    steps = _Steps(scorer, tokenizer, settings)
    # 1. the texts as they are
    clean = steps.clean()
    # 2. word by word
    beam = [Phrase((), (), clean)]
    by_length = []
    for length in range(1, settings.length + 1):
        step = _Step(f"word_{length}", "word", length - 1, settings.beam, (length,))
        beam = steps.take(step, [(phrase, phrase.words, ()) for phrase in beam])
        by_length.append(beam[0])
    # 3. position by position
    refined = beam[0]
    for number, position in itertools.product(range(1, settings.refine + 1), range(settings.length)):
        name, seed = f"refine_{settings.length}_{number}_{position + 1}", (settings.length, number, position)
        stem = (refined, refined.words[:position], refined.words[position + 1 :])
        best = steps.take(_Step(name, "replace", position, 1, seed), [stem])[0]
        if best.score > refined.score:
            refined = best
    trace = pd.concat(steps.rows, ignore_index=True)
    return Walked(clean, by_length, refined if settings.refine else None, trace, steps.resumed)


Stem = tuple[Phrase, Sequence[str], Sequence[str]]
"""A phrase of the beam, and its words before and after the position that a word goes to."""


@dataclass(frozen=True)
class _Step:
    """The choice of one word; see `TRACE`. `beam` is how many phrases it keeps."""

    name: str
    kind: str
    position: int
    beam: int
    seed: tuple[int, ...]


@dataclass
class _Steps:
    """The steps of a search: their rows, and how many were in the journal."""

    scorer: PhraseScorer
    tokenizer: PreTrainedTokenizerBase
    settings: Walk
    rows: list[pd.DataFrame] = field(default_factory=list)
    resumed: int = 0

    def clean(self) -> float:
        """The mean objective of the texts as they are."""
        rows = self.settings.journal.get("word_0")
        if rows is None:
            began, gaps = self.scorer.tokens, len(self.scorer.gaps)
            value = float(self.scorer.values([()], range(gaps)).mean())
            tokens = float(self.scorer.tokens - began)
            row = ["word_0", "clean", -1, "", "", value, gaps, float("nan"), 0, True, 0.0, tokens, 0]
            rows = pd.DataFrame([row], columns=TRACE)
            self.settings.journal.put("word_0", rows)
        else:
            self.resumed += 1
        self.rows.append(rows)
        return float(rows["score"][0])

    def take(self, step: _Step, stems: Sequence[Stem]) -> list[Phrase]:
        """The best phrases that one more or another word makes of the stems."""
        candidates, phrases, dropped = self._candidates(stems, step.position)
        if not candidates:
            raise UserError(
                f"attack.vocabulary: none of its {len(self.settings.words)} words survives tokenization behind "
                f"{' '.join(stems[0][1])!r}; choose another vocabulary."
            )
        texts = [" ".join(candidate.words) for candidate in candidates]
        rows = self.settings.journal.get(step.name)
        if rows is not None and rows["phrase"].tolist() == texts:
            self.resumed += 1
        else:
            rows = self._choose(step, candidates, texts).assign(dropped=dropped)[list(TRACE)]
            self.settings.journal.put(step.name, rows)
        self.rows.append(rows)
        best = []
        for i in np.argsort(rows["kept"].to_numpy(), kind="stable").tolist():
            if rows["kept"][i] >= 0:
                before, after = phrases[i].tokens[: step.position], phrases[i].tokens[step.position + 1 :]
                tokens = (*before, candidates[i].tokens, *after)
                best.append(Phrase(candidates[i].words, tokens, float(rows["score"][i])))
        return best

    def _choose(self, step: _Step, candidates: Sequence[WordCandidate], texts: Sequence[str]) -> pd.DataFrame:
        """The trace of a step, but for the number of words that were dropped before."""
        settings = self.settings
        choice = choose(
            settings.search,
            self.scorer,
            candidates,
            min(step.beam, len(candidates)),
            [settings.seed, *step.seed],
            lambda candidate: settings.holds(" ".join(candidate.words), candidate.phrase),
            lambda text: settings.report(f"{step.name.replace('_', ' ')}: {text}"),
        )
        if not choice.kept:
            raise UserError(
                "attack: no phrase reads the same in every prompt: the tokenizer joins words with what stands around "
                "them; choose another vocabulary."
            )
        rank = np.full(len(candidates), -1)
        rank[choice.kept] = np.arange(len(choice.kept))
        survives = np.ones(len(candidates), dtype=bool)
        survives[choice.unstable] = False
        return pd.DataFrame(
            {
                "step": step.name,
                "kind": step.kind,
                "position": step.position,
                "phrase": texts,
                "word": [candidate.word for candidate in candidates],
                "score": choice.scores,
                "contexts": choice.gaps.astype(int),
                "estimate": choice.estimates,
                "kept": rank,
                "survives": survives,
                "seconds": choice.seconds,
                "forward_tokens": choice.tokens,
            }
        )

    def _candidates(self, stems: Sequence[Stem], position: int) -> tuple[list[WordCandidate], list[Phrase], int]:
        """Every surviving word behind every stem, the phrases that they go on from, and how many did not survive."""
        candidates, phrases, dropped = [], [], 0
        seen: set[str] = set()  # texts: words of a file may be several, and "a b" + "c" reads as "a" + "b c" does
        for number, (phrase, before, after) in enumerate(stems):
            fit = fitting(self.tokenizer, self.scorer.gaps[0], self.settings.words, before, after)
            dropped += fit.dropped
            ahead = tuple(itertools.chain(*phrase.tokens[:position]))
            behind = tuple(itertools.chain(*phrase.tokens[position + 1 :]))
            for word, tokens in zip(fit.words, fit.tokens, strict=True):
                whole = (*before, word, *after)
                text = " ".join(whole)
                if text not in seen:
                    seen.add(text)
                    candidates.append(WordCandidate(ahead, behind, tokens, whole, word, number))
                    phrases.append(phrase)
        return candidates, phrases, dropped
