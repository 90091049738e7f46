"""A universal adversarial phrase, word by word (Raina et al. 2024), then each word once more (Zou
et al. 2023).

`learn` goes from a judge and texts to a phrase for each objective; a `Walk` is one of its searches.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from transformers import PreTrainedTokenizerBase

from judgebench.attacks.attack import ADV_SUFFIX, LearnedPhrase
from judgebench.attacks.gaps import fitting, gaps_of, in_place
from judgebench.attacks.scoring import EngineExit, Objective, PhraseScorer, worth
from judgebench.attacks.search import AdvSuffix, select_words
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.local.passes import ModelView, engine_for
from judgebench.judges.local.reader import Reader
from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.files import atomic, writing
from judgebench.runtime.parquet import read_table, write_table
from judgebench.types import Condition, Example, Record, Row
from judgebench.words.errors import UserError

ROOM = 4 * 2**30
"""Bytes that the keys and values of what stands before the gaps may take, in each model; beyond
them those that were used longest ago go, and are computed again."""

TRACE = (
    "step",
    "kind",
    "position",
    "phrase",
    "word",
    "score",
    "contexts",
    "estimate",
    "kept",
    "survives",
    "seconds",
    "forward_tokens",
    "dropped",
)
"""The columns of a trace: a row for each word that there was to choose from at each step.

step is `word_0` (clean texts, one row), `word_1`, ..., or `refine_<length>_<pass>_<position>`; kind
is clean, word or replace; position counts the phrase's words from 0; phrase is the whole with the
word in it. score is the mean objective over `contexts` prompts, NaN where the search left the word
out before it was scored; estimate is what the gradient said. kept ranks what the step kept, 0 the
best, -1 the rest; a replacement is taken only where its score is above the phrase's. survives is
False of a phrase that was best but reads otherwise in a whole prompt. seconds and forward_tokens
are the row's share of the step's cost; dropped is how many words did not survive tokenization.
"""


@dataclass(frozen=True)
class Lesson:
    """Texts that phrases are learned on; the objective is the mean over all conditions.

    Attributes:
        record: of the data and the prompt, for a phrase file.
    """

    examples: Sequence[Example]
    conditions: Sequence[Condition]
    builder: PromptBuilder
    record: Row


class Journal:
    """The steps of one search on disk: a file a word, whole or not there; a killed search goes on
    at the next word.

    Args:
        folder: under which journals are kept.
        identity: everything that the steps depend on, but how many there are; JSON-serialisable.
            `key` is its SHA-256.
    """

    def __init__(self, folder: Path, identity: Row):
        self.key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._folder = folder / self.key[:16]
        self._identity = identity

    def get(self, step: str) -> pd.DataFrame | None:
        """Rows that a step has written; None if it was never finished."""
        path = self._folder / f"{step}.parquet"
        if not path.is_file():
            return None
        try:
            return read_table(path).to_pandas()
        except Exception:  # a file that another program has cut: the step is done again
            return None

    def put(self, step: str, rows: pd.DataFrame) -> None:
        """Keeps the rows of a finished step; `UserError` where they cannot be written, as on a full
        disk."""
        described = self._folder / "search.json"
        place = f"store: the journal of the search in {self._folder}"
        remedy = "; the words before this one stay: run the same command again when there is room"
        with writing(place, remedy):
            if not described.is_file():
                with atomic(described) as temporary:
                    temporary.write_text(
                        json.dumps(self._identity, indent=1, sort_keys=True), "utf-8"
                    )
            with atomic(self._folder / f"{step}.parquet") as temporary:
                write_table(temporary, pa.Table.from_pandas(rows, preserve_index=False))


@dataclass(frozen=True)
class Phrase:
    """Words of a phrase, the tokens that each puts into a gap, and its mean objective over all
    gaps."""

    words: tuple[str, ...] = ()
    tokens: tuple[tuple[int, ...], ...] = ()
    score: float = float("nan")

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(itertools.chain(*self.tokens))


def spread(groups: Sequence[str], seed: Sequence[int]) -> list[int]:
    """Numbers of `groups` in a drawn order in which different ones take turns: the first few are of
    many groups."""
    drawn = np.random.default_rng(list(seed)).permutation(len(groups))
    in_order = pd.Series([groups[i] for i in drawn], dtype=object)
    turns = in_order.groupby(in_order).cumcount().to_numpy()
    return list(drawn[np.argsort(turns, kind="stable")].tolist())


@dataclass
class Walk:
    """One search: its steps' rows, and how many of them were in the journal.

    Attributes:
        words: the vocabulary.
        holds: True where a phrase's text gives these tokens in every whole prompt; called for the
            best alone.
        report: receives messages about progress.
        clean, by_length, refined: results of `walk`, None until then: the mean objective without a
            phrase; the best phrase of 1, 2, ... words; the longest after replacement of single
            words (None if none was asked for).
    """

    scorer: PhraseScorer
    tokenizer: PreTrainedTokenizerBase
    suffix: AdvSuffix
    words: Sequence[str]
    journal: Journal
    holds: Callable[[str, Sequence[int]], bool]
    report: Callable[[str], None] = lambda text: None
    rows: list[pd.DataFrame] = field(default_factory=list)
    resumed: int = 0
    clean: float = float("nan")
    by_length: list[Phrase] = field(default_factory=list)
    refined: Phrase | None = None

    @property
    def trace(self) -> pd.DataFrame:
        return pd.concat(self.rows, ignore_index=True)

    @property
    def best(self) -> list[Phrase]:
        """The best phrase of each length; the longest as refined."""
        return [*self.by_length[:-1], self.refined or self.by_length[-1]]

    def walk(self) -> Walk:
        """Finds the best phrase of every length.

        Greedy search (beam 1) adds to the phrase the word that maximizes the mean objective over
        all gaps; a beam keeps the best few. Refinement, afterwards, replaces single words of the
        longest phrase while that helps.
        """
        suffix = self.suffix
        gaps = len(self.scorer.gaps)
        before = self.scorer.tokens
        # 1. the texts as they are
        rows = self.journal.get("word_0")
        self.resumed += rows is not None
        if rows is None:
            row = {
                "step": "word_0",
                "kind": "clean",
                "position": -1,
                "phrase": "",
                "word": "",
                "score": float(self.scorer.values([()], range(gaps)).mean()),
                "contexts": gaps,
                "estimate": float("nan"),
                "kept": 0,
                "survives": True,
                "seconds": 0.0,
                "forward_tokens": float(self.scorer.tokens - before),
                "dropped": 0,
            }
            rows = pd.DataFrame([row])
            self.journal.put("word_0", rows)
        self.rows.append(rows)
        self.clean = float(rows["score"][0])
        # 2. word by word
        beam = [Phrase(score=self.clean)]
        for length in range(1, suffix.length + 1):
            beam = self.step(f"word_{length}", (length,), beam, length - 1, suffix.beam)
            self.by_length.append(beam[0])
        # 3. position by position
        for number, position in itertools.product(
            range(1, suffix.refine + 1), range(suffix.length)
        ):
            name = f"refine_{suffix.length}_{number}_{position + 1}"
            seed = (suffix.length, number, position)
            phrase = self.refined or beam[0]
            other = self.step(name, seed, [phrase], position, 1)[0]
            self.refined = other if other.score > phrase.score else phrase
        return self

    def step(
        self, name: str, seed: Sequence[int], stems: Sequence[Phrase], position: int, beam: int
    ) -> list[Phrase]:
        """The best phrases that a word at `position` makes of the stems, from the journal where it
        has them."""
        # 1. every surviving word behind every stem
        # by text: "a b" + "c" reads as "a" + "b c" does
        candidates: dict[str, tuple[Phrase, str, int]] = {}
        dropped = 0
        for number, stem in enumerate(stems):
            before = stem.words[:position]
            after = stem.words[position + 1 :]
            fit = fitting(self.tokenizer, self.scorer.gaps[0], self.words, before, after)
            dropped += len(self.words) - len(fit)
            for word, tokens in fit:
                around = (*stem.tokens[:position], tokens, *stem.tokens[position + 1 :])
                phrase = Phrase((*before, word, *after), around)
                candidates.setdefault(phrase.text, (phrase, word, number))
        if not candidates:
            raise UserError(
                f"attacks: adv_suffix.vocabulary: none of its {len(self.words)} words survives tokenization "
                f"behind {' '.join(stems[0].words[:position])!r}; choose another vocabulary."
            )
        phrases, words, numbers = map(list, zip(*candidates.values(), strict=True))
        # 2. their scores, and the best that read in whole prompts as they were scored
        rows = self.journal.get(name)
        if rows is not None and rows["phrase"].tolist() == list(candidates):
            self.resumed += 1
        else:
            rows, order = self.scores(
                name, [self.suffix.seed, *seed], phrases, numbers, position, beam
            )
            survives = np.ones(len(phrases), dtype=bool)
            ranks = np.full(len(phrases), -1)
            kept = itertools.count()
            for i in order:
                survives[i] = self.holds(phrases[i].text, phrases[i].ids)
                if survives[i]:
                    ranks[i] = next(kept)
                    if ranks[i] == beam - 1:
                        break
            if ranks.max() < 0:
                raise UserError(
                    "attacks: adv_suffix: no phrase reads the same in every prompt: the tokenizer joins words "
                    "with what stands around them; choose another vocabulary."
                )
            rows = rows.assign(
                step=name,
                kind="replace" if name.startswith("refine") else "word",
                position=position,
                phrase=list(candidates),
                word=words,
                kept=ranks,
                survives=survives,
                dropped=dropped,
            )[list(TRACE)]
            self.journal.put(name, rows)
        self.rows.append(rows)
        # 3. the phrases of the next step
        best = rows[rows["kept"] >= 0].sort_values("kept").index.tolist()
        return [replace(phrases[i], score=float(rows["score"][i])) for i in best]

    def scores(
        self,
        name: str,
        seed: Sequence[int],
        phrases: Sequence[Phrase],
        stems: Sequence[int],
        position: int,
        beam: int,
    ) -> tuple[pd.DataFrame, list[int]]:
        """Scores of phrases, a row each (`score`, `contexts`, `estimate`, `seconds`,
        `forward_tokens` of `TRACE`), and the numbers of those that were scored in every gap, the
        best first.

        Args:
            seed: of the order in which gaps are taken, and of the gradient's anchors.
            phrases: no two that read alike; they differ in the word at `position`.
            stems: [phrases] numbers of the phrases that they continue.
            beam: how many of them the step keeps.
        """
        search = self.suffix.search
        scorer = self.scorer
        stem_of = np.array(stems)
        count = len(phrases)
        gaps = len(scorer.gaps)
        title = name.replace("_", " ")
        score = np.full(count, np.nan)
        estimate = np.full(count, np.nan)
        contexts = np.zeros(count, dtype=np.int64)
        seconds = np.zeros(count)
        tokens = np.zeros(count)
        order = spread([gap.example.group_id for gap in scorer.gaps], seed)
        alive = np.arange(count)
        # 1. the gradient leaves a shortlist
        if search.takes_gradient:
            self.report(f"{title}: gradient over {count} words")
            began = time.perf_counter()
            before = scorer.tokens
            used = order[: max(1, int(np.ceil(search.gradient_contexts * gaps)))]
            for stem in dict.fromkeys(stems):
                members = np.flatnonzero(stem_of == stem).tolist()
                around = phrases[members[0]].tokens
                left = tuple(itertools.chain(*around[:position]))
                right = tuple(itertools.chain(*around[position + 1 :]))
                words = [phrases[i].tokens[position] for i in members]
                estimate[members] = scorer.estimates(
                    left, right, words, search.anchors, used, [*seed, stem]
                )
            alive = np.sort(np.argsort(-estimate, kind="stable")[: search.shortlisted(count, beam)])
            seconds += (time.perf_counter() - began) / count
            tokens += (scorer.tokens - before) / count
        # 2. rounds of exact scores, in ever more gaps for ever fewer words
        sums = np.zeros(count)
        ranked = alive
        for number, (wanted, survivors) in enumerate(search.rounds(gaps, len(alive), beam), 1):
            began = time.perf_counter()
            before = scorer.tokens
            for turn in range(int(contexts.max()), wanted):  # gap by gap: each is a sign of life
                self.report(
                    f"{title}: round {number}, {len(alive)} words, context {turn + 1} of {wanted}"
                )
                ids = [phrases[i].ids for i in alive.tolist()]
                sums[alive] += scorer.values(ids, [order[turn]])[:, 0]
            contexts[alive] = wanted
            score[alive] = sums[alive] / wanted
            seconds[alive] += (time.perf_counter() - began) / len(alive)
            tokens[alive] += (scorer.tokens - before) / len(alive)
            ranked = alive[np.argsort(-score[alive], kind="stable")]
            alive = np.sort(ranked[:survivors])
        columns = {
            "score": score,
            "contexts": contexts,
            "estimate": estimate,
            "seconds": seconds,
            "forward_tokens": tokens,
        }
        return pd.DataFrame(columns), ranked.tolist()


def learn(
    suffix: AdvSuffix,
    objectives: Sequence[Objective],
    lesson: Lesson,
    reader: Reader,
    device: torch.device,
    folder: Path,
    report: Callable[[str], None] = lambda text: None,
) -> tuple[list[LearnedPhrase], pd.DataFrame]:
    """A phrase for each objective, and the `TRACE` of all searches (column `against`: the
    objective's name).

    What an earlier, killed run has learned is taken from its journal in `folder`. The models of the
    judge that is attacked are moved to `device`.
    """
    builder, tokenizer = lesson.builder, lesson.builder.tokenizer
    words = select_words(tokenizer, suffix.vocabulary, suffix.words)
    gaps = gaps_of(builder, lesson.examples, lesson.conditions, suffix.length)
    tries = {
        gap.condition.range: CandidateTrie.of(tokenizer, gap.condition.range.candidates)
        for gap in gaps
    }
    main, assistant = exits_of(reader, objectives, device)
    groups, systems = (
        {getattr(example, key) for example in lesson.examples} for key in ("group_id", "system_id")
    )
    phrases = []
    traces = []
    for objective in objectives:
        other = assistant if objective.decoding.needs_assistant else None
        scorer = PhraseScorer(main, other, objective, tries, gaps, reader.judge.max_batch_tokens)
        began = time.perf_counter()
        journal = Journal(folder, identity_of(suffix, scorer, reader, words))
        holds = partial(in_place, builder, gaps)
        name = objective.name
        progress = partial(lambda name, text: report(f"{name}, {text}"), name)
        walk = Walk(scorer, tokenizer, suffix, words, journal, holds, progress).walk()
        record = record_of(walk, objective, reader, lesson)
        record |= {
            "seconds_now": round(time.perf_counter() - began, 3),
            "steps_resumed": walk.resumed,
            "journal": journal.key,
        }
        prefix = ADV_SUFFIX if len(objectives) == 1 else f"{ADV_SUFFIX}_{name}"
        best = [phrase.text for phrase in walk.best]
        phrases.append(
            LearnedPhrase(best, name, frozenset(groups), frozenset(systems), record, prefix)
        )
        traces.append(walk.trace.assign(against=name))
        scorer.forget()
    return phrases, pd.concat(traces, ignore_index=True)


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of a vocabulary, by which a phrase file identifies the tokenizer."""
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()


def exits_of(
    reader: Reader, objectives: Sequence[Objective], device: torch.device
) -> tuple[EngineExit, EngineExit | None]:
    """The exits of main model and assistant; None where no objective needs an assistant."""

    def engine(views: Sequence[ModelView]) -> Any:
        model = reader.models.get(views[0].source).to(device)  # type: ignore[arg-type]
        with torch.no_grad():
            return engine_for(model, views, ROOM)

    early = reader.assistant.kind == "early_exit"
    other = reader.other
    main = EngineExit(
        engine([reader.main, other] if early and other is not None else [reader.main])
    )
    if other is None or not any(objective.decoding.needs_assistant for objective in objectives):
        return main, None
    if early:
        return main, EngineExit(main.engine, 1)
    if reader.nulls is not None:
        nulls = {condition: null.token_ids for condition, null in reader.nulls.items()}
        return main, EngineExit(main.engine, 0, nulls)
    return main, EngineExit(engine([other]))


def identity_of(
    suffix: AdvSuffix, scorer: PhraseScorer, reader: Reader, words: Sequence[str]
) -> Record:
    """All that a search's steps depend on, by which its journal is known."""
    texts = hashlib.sha256()
    for gap in scorer.gaps:
        for part in (gap.head, gap.tail):
            texts.update(len(part).to_bytes(8, "little") + part.astype("<i4").tobytes())
        paths = scorer.tries[gap.condition.range].token_paths
        texts.update(json.dumps([worth(gap.condition), paths]).encode())
    other = reader.other if scorer.objective.decoding.needs_assistant else None
    nulls = None
    if other is not None and reader.nulls is not None:
        tokens = [reader.nulls[gap.condition].token_ids.tolist() for gap in scorer.gaps]
        nulls = hashlib.sha256(json.dumps(tokens).encode()).hexdigest()
    return {
        **suffix.settings(),
        "main": reader.main.identity(),
        "assistant": None if other is None else other.identity(),
        "nulls": nulls,
        "decoding": repr(scorer.objective.decoding),
        "gaps": texts.hexdigest(),
        "vocabulary": hashlib.sha256("\n".join(words).encode()).hexdigest(),
    }


def record_of(walk: Walk, objective: Objective, reader: Reader, lesson: Lesson) -> Record:
    """The record of a search in a phrase file."""
    trace = walk.trace
    suffix = walk.suffix
    return {
        **lesson.record,
        "judge": reader.judge.source.title,
        "judge_sha256": reader.main.fingerprint,
        "assistant": reader.assistant.title if objective.decoding.needs_assistant else None,
        "decoding": repr(objective.decoding),
        "tokenizer": tokenizer_digest(lesson.builder.tokenizer),
        "texts": len(lesson.examples),
        "clean_score": walk.clean,
        "scores": [phrase.score for phrase in walk.best],
        **suffix.settings(),
        "vocabulary": suffix.vocabulary,
        "refine": suffix.refine,
        "tried": int(trace["score"].notna().sum()) - 1,
        "dropped": {
            str(step): int(rows["dropped"].iloc[0])
            for step, rows in trace.groupby("step", sort=False)
        },
        "unstable": int((~trace["survives"].astype(bool)).sum()),
        "forward_tokens": round(float(trace["forward_tokens"].sum())),
        "seconds": round(float(trace["seconds"].sum()), 3),
    }
