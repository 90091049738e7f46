"""From a judge and the texts that may be learned on to learned phrases: one search for each objective."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from judgebench.attacks.learned import ADV_SUFFIX, LearnedPhrase
from judgebench.attacks.search.gaps import Gap, gaps_of, in_place
from judgebench.attacks.search.journal import Journal
from judgebench.attacks.search.objective import Objective
from judgebench.attacks.search.scoring import Listener, PhraseScorer, worth
from judgebench.attacks.search.suffix import AdvSuffix
from judgebench.attacks.search.vocabulary import chosen_words
from judgebench.attacks.search.words import Walk, Walked, walk
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.passes import ModelView, engine_for
from judgebench.judges.reader import Reader
from judgebench.prompts.builder import PromptBuilder
from judgebench.types import Condition, Example, ScoreRange

ROOM = 4 * 2**30
"""Bytes that the keys and values of what stands before the gaps may take, in each model; beyond them those that were
used longest ago go, and are read anew."""


@dataclass(frozen=True)
class Learned:
    """What a search has found.

    Attributes:
        phrases: one an objective.
        trace: every word that was tried, of all objectives (column `against`).
    """

    phrases: Sequence[LearnedPhrase]
    trace: pd.DataFrame


@dataclass(frozen=True)
class Lesson:
    """What phrases are learned on.

    Attributes:
        examples: the texts.
        conditions: under which they are judged; the objective is the mean over all.
        builder: of their prompts.
        known: of the data and the prompt, what a phrase file tells.
    """

    examples: Sequence[Example]
    conditions: Sequence[Condition]
    builder: PromptBuilder
    known: Mapping[str, Any]


def learn(
    suffix: AdvSuffix,
    objectives: Sequence[Objective],
    lesson: Lesson,
    reader: Reader,
    device: torch.device,
    folder: Path,
    report: Callable[[str], None] = lambda text: None,
) -> Learned:
    """Learns a phrase for each objective; what an earlier, killed run has learned is taken from its journal.

    Args:
        reader: of the judge that is attacked; its models are moved to `device`.
        folder: where journals are kept.
        report: told what is under way.

    Raises:
        UserError: the vocabulary is empty, or no phrase can be placed.
    """
    builder = lesson.builder
    tokenizer = builder.tokenizer
    words = chosen_words(tokenizer, suffix.vocabulary, suffix.words)
    gaps = gaps_of(builder, lesson.examples, lesson.conditions, suffix.length)
    tries = {gap.condition.range: CandidateTrie.of(tokenizer, gap.condition.range.candidates) for gap in gaps}
    ears = _Ears(reader, device)
    phrases, traces = [], []
    for objective in objectives:

        def told(text: str, name: str = objective.name) -> None:
            report(f"{name}, {text}")

        main, assistant = ears.of(objective)
        scorer = PhraseScorer(main, assistant, objective, tries, gaps, reader.judge.token_budget)
        journal = Journal(folder, _identity(suffix, objective, reader, gaps, tries, words))
        began = time.perf_counter()
        how = Walk(
            suffix.search,
            words,
            suffix.length,
            suffix.beam,
            suffix.refine,
            suffix.seed,
            journal,
            lambda text, tokens: in_place(builder, gaps, text, tokens),
            told,
        )
        walked = walk(scorer, tokenizer, how)
        prefix = ADV_SUFFIX if len(objectives) == 1 else f"{ADV_SUFFIX}_{objective.name}"
        about = _about(walked, suffix, objective, reader, lesson, journal, time.perf_counter() - began)
        phrases.append(
            LearnedPhrase(
                _best(walked),
                objective.name,
                frozenset(example.group_id for example in lesson.examples),
                frozenset(example.system_id for example in lesson.examples),
                about,
                prefix,
            )
        )
        traces.append(walked.trace.assign(against=objective.name))
        scorer.forget()
    return Learned(phrases, pd.concat(traces, ignore_index=True))


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of a vocabulary: by it a phrase file tells whose tokens its words were."""
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()


class _Ears:
    """The judge's engines, each made once."""

    def __init__(self, reader: Reader, device: torch.device):
        self._reader, self._device = reader, device
        self._main: Listener | None = None
        self._other: Listener | None = None

    def of(self, objective: Objective) -> tuple[Listener, Listener | None]:
        """What an objective listens to."""
        reader = self._reader
        voices = [reader.main]
        other = reader.other if objective.decoding.needs_assistant else None
        if self._main is None:
            if reader.assistant.kind == "early_exit" and reader.other is not None:
                voices.append(reader.other)
            self._main = Listener(self._engine(voices))
        if other is None:
            return self._main, None
        if self._other is None:
            if reader.assistant.kind == "early_exit":
                self._other = Listener(self._main.engine, 1)
            elif reader.nulls is not None:
                self._other = Listener(self._main.engine, 0, {c: null.token_ids for c, null in reader.nulls.items()})
            else:
                self._other = Listener(self._engine([other]))
        return self._main, self._other

    def _engine(self, voices: Sequence[ModelView]) -> Any:
        model = self._reader.models.get(voices[0].source).to(self._device)  # type: ignore[arg-type]
        with torch.no_grad():
            return engine_for(model, voices, ROOM)


def _identity(
    suffix: AdvSuffix,
    objective: Objective,
    reader: Reader,
    gaps: Sequence[Gap],
    tries: Mapping[ScoreRange, CandidateTrie],
    words: Sequence[str],
) -> dict[str, Any]:
    """All that a search's steps depend on."""
    texts = hashlib.sha256()
    for gap in gaps:
        for part in (gap.head, gap.tail):
            texts.update(len(part).to_bytes(8, "little") + part.astype("<i4").tobytes())
        texts.update(json.dumps([worth(gap.condition), tries[gap.condition.range].token_paths]).encode())
    other = reader.other if objective.decoding.needs_assistant else None
    nulls = None
    if other is not None and reader.nulls is not None:
        nulls = [reader.nulls[gap.condition].token_ids.tolist() for gap in gaps]
    return {
        **suffix.settings(),
        "main": reader.main.identity(),
        "assistant": None if other is None else other.identity(),
        "nulls": None if nulls is None else hashlib.sha256(json.dumps(nulls).encode()).hexdigest(),
        "decoding": repr(objective.decoding),
        "gaps": texts.hexdigest(),
        "vocabulary": hashlib.sha256("\n".join(words).encode()).hexdigest(),
    }


def _best(walked: Walked) -> list[str]:
    """The best phrase of each length; the longest as refined."""
    texts = [phrase.text for phrase in walked.by_length]
    return texts if walked.refined is None else [*texts[:-1], walked.refined.text]


def _about(
    walked: Walked,
    suffix: AdvSuffix,
    objective: Objective,
    reader: Reader,
    lesson: Lesson,
    journal: Journal,
    seconds: float,
) -> dict[str, Any]:
    scores = [phrase.score for phrase in walked.by_length]
    if walked.refined is not None:
        scores[-1] = walked.refined.score
    trace = walked.trace
    return {
        **lesson.known,
        "judge": reader.judge.source.title,
        "judge_sha256": reader.main.fingerprint,
        "assistant": reader.assistant.title if objective.decoding.needs_assistant else None,
        "decoding": repr(objective.decoding),
        "tokenizer": tokenizer_digest(lesson.builder.tokenizer),
        "texts": len(lesson.examples),
        "clean_score": walked.clean,
        "scores": scores,
        **suffix.settings(),
        "vocabulary": suffix.vocabulary,
        "refine": suffix.refine,
        "tried": int(trace["score"].notna().sum()) - 1,
        "dropped": {str(step): int(rows["dropped"].iloc[0]) for step, rows in trace.groupby("step", sort=False)},
        "unstable": int((~trace["survives"].astype(bool)).sum()),
        "forward_tokens": round(float(trace["forward_tokens"].sum())),
        "seconds": round(float(trace["seconds"].sum()), 3),
        "seconds_now": round(seconds, 3),
        "steps_resumed": walked.resumed,
        "journal": journal.key,
    }
