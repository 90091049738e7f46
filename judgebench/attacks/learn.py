"""From a judge and the texts that may be learned on to learned phrases: one search for each objective."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from judgebench.attacks.attack import ADV_SUFFIX, LearnedPhrase
from judgebench.attacks.scoring import EngineExit, Objective, PhraseScorer, worth
from judgebench.attacks.search import AdvSuffix
from judgebench.attacks.vocabulary import Gap, gaps_of, in_place, select_words
from judgebench.attacks.walk import Journal, Walk, Walked, walk
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.passes import ModelView, engine_for
from judgebench.judges.reader import Reader
from judgebench.prompts.builder import PromptBuilder
from judgebench.types import Condition, Example, ScoreRange

ROOM = 4 * 2**30
"""Bytes that the keys and values of what stands before the gaps may take, in each model; beyond them those that were
used longest ago go, and are read anew."""


@dataclass(frozen=True)
class LearnedPhrases:
    """A phrase for each objective, and the trace of every word that was tried (column `against`: the objective)."""

    phrases: Sequence[LearnedPhrase]
    trace: pd.DataFrame


@dataclass(frozen=True)
class Lesson:
    """Texts that phrases are learned on.

    Attributes:
        conditions: under which they are judged; the objective is the mean over all.
        builder: of their prompts.
        known: of the data and the prompt, what a phrase file records.
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
) -> LearnedPhrases:
    """Learns a phrase for each objective; what an earlier, killed run has learned is taken from its journal in
    `folder`. The models of the judge that is attacked are moved to `device`. `UserError` where the vocabulary is empty,
    or no phrase can be placed."""
    builder, tokenizer = lesson.builder, lesson.builder.tokenizer
    words = select_words(tokenizer, suffix.vocabulary, suffix.words)
    gaps = gaps_of(builder, lesson.examples, lesson.conditions, suffix.length)
    tries = {gap.condition.range: CandidateTrie.of(tokenizer, gap.condition.range.candidates) for gap in gaps}
    main, assistant = _exits(reader, objectives, device)
    phrases, traces = [], []
    for objective in objectives:
        other = assistant if objective.decoding.needs_assistant else None
        scorer = PhraseScorer(main, other, objective, tries, gaps, reader.judge.token_budget)
        began = time.perf_counter()
        settings = Walk(
            search=suffix.search,
            words=words,
            length=suffix.length,
            beam=suffix.beam,
            refine=suffix.refine,
            seed=suffix.seed,
            journal=Journal(folder, _identity(suffix, objective, reader, gaps, tries, words)),
            holds=partial(in_place, builder, gaps),
            report=lambda text, name=objective.name: report(f"{name}, {text}"),  # type: ignore[misc]
        )
        walked = walk(scorer, tokenizer, settings)
        about = _about(walked, suffix, objective, reader, lesson)
        about |= {"seconds_now": round(time.perf_counter() - began, 3), "steps_resumed": walked.resumed}
        about |= {"journal": settings.journal.key}
        groups, systems = ({getattr(x, key) for x in lesson.examples} for key in ("group_id", "system_id"))
        prefix = ADV_SUFFIX if len(objectives) == 1 else f"{ADV_SUFFIX}_{objective.name}"
        best = [phrase.text for phrase in walked.best]
        phrases.append(LearnedPhrase(best, objective.name, frozenset(groups), frozenset(systems), about, prefix))
        traces.append(walked.trace.assign(against=objective.name))
        scorer.forget()
    return LearnedPhrases(phrases, pd.concat(traces, ignore_index=True))


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of a vocabulary, by which a phrase file identifies the tokenizer."""
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()


def _exits(
    reader: Reader, objectives: Sequence[Objective], device: torch.device
) -> tuple[EngineExit, EngineExit | None]:
    """The exits of main model and assistant; None where no objective needs an assistant."""

    def engine(views: Sequence[ModelView]) -> Any:
        model = reader.models.get(views[0].source).to(device)  # type: ignore[arg-type]
        with torch.no_grad():
            return engine_for(model, views, ROOM)

    early, other = reader.assistant.kind == "early_exit", reader.other
    main = EngineExit(engine([reader.main, other] if early and other is not None else [reader.main]))
    if other is None or not any(objective.decoding.needs_assistant for objective in objectives):
        return main, None
    if early:
        return main, EngineExit(main.engine, 1)
    if reader.nulls is not None:
        nulls = {condition: null.token_ids for condition, null in reader.nulls.items()}
        return main, EngineExit(main.engine, 0, nulls)
    return main, EngineExit(engine([other]))


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


def _about(walked: Walked, suffix: AdvSuffix, objective: Objective, reader: Reader, lesson: Lesson) -> dict[str, Any]:
    """The record of a search in a phrase file."""
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
        "scores": [phrase.score for phrase in walked.best],
        **suffix.settings(),
        "vocabulary": suffix.vocabulary,
        "refine": suffix.refine,
        "tried": int(trace["score"].notna().sum()) - 1,
        "dropped": {str(step): int(rows["dropped"].iloc[0]) for step, rows in trace.groupby("step", sort=False)},
        "unstable": int((~trace["survives"].astype(bool)).sum()),
        "forward_tokens": round(float(trace["forward_tokens"].sum())),
        "seconds": round(float(trace["seconds"].sum()), 3),
    }
