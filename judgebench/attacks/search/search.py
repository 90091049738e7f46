"""The choice of the next word of a phrase: the words that are tried, in how many gaps, and which go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judgebench.attacks.search.scoring import PhraseScorer
from judgebench.runtime.errors import UserError

_FEWEST = 4
"""Words that a round leaves for each phrase of the beam, at least: what few gaps say is noisy."""


@dataclass(frozen=True)
class Search:
    """Rounds of exact scores, in ever more gaps for ever fewer words, if wanted behind a shortlist by the gradient.

    Args:
        shortlist: share of the words that the gradient leaves to be scored at all; 1 takes no gradient.
        anchors: words at which the objective is linearized for it.
        gradient_contexts: share of the gaps whose gradients are averaged.
        contexts: for each round the share of the gaps in which words are scored; ascending, the last is 1.
        survivors: for each round but the last the share of its words that go on to the next.

    Raises:
        UserError: anything else.

    Example:
        >>> Search(contexts=[0.25, 1], survivors=[0.1]).rounds(gaps=8, words=1000, beam=1)
        [(2, 100), (8, 1)]
    """

    shortlist: float = 1.0
    anchors: int = 4
    gradient_contexts: float = 1.0
    contexts: Sequence[float] = (1.0,)
    survivors: Sequence[float] = ()

    def __post_init__(self) -> None:
        for name in ("shortlist", "gradient_contexts"):
            if not _share(given := getattr(self, name)):
                raise UserError(f"search.{name}: {given!r} is not a share above 0 and at most 1.")
        for name in ("contexts", "survivors"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Sequence) or not all(map(_share, given)):
                raise UserError(f"search.{name}: {given!r} is not a list of shares above 0 and at most 1.")
        contexts = list(self.contexts)
        if not contexts or contexts != sorted(contexts) or contexts[-1] != 1:
            raise UserError(f"search.contexts: {contexts} must ascend to 1: what is kept is scored in every context.")
        if len(self.survivors) != len(contexts) - 1:
            raise UserError(
                f"search.survivors: it has {len(self.survivors)} entries and search.contexts {len(contexts)}; give one "
                "for each round but the last."
            )
        if not isinstance(self.anchors, int) or isinstance(self.anchors, bool) or self.anchors < 1:
            raise UserError(f"search.anchors: {self.anchors!r} is not a whole number of at least 1.")

    @property
    def takes_gradient(self) -> bool:
        """True where the gradient leaves some words out."""
        return self.shortlist < 1

    def rounds(self, gaps: int, words: int, beam: int) -> list[tuple[int, int]]:
        """For each round how many gaps words are scored in, and how many of them go on; of the last, how many are kept.

        Args:
            gaps, words: how many there are.
            beam: phrases that are kept in the end.
        """
        rounds = []
        for share, survivors in zip(self.contexts, [*self.survivors, 0.0], strict=True):
            words = min(words, max(int(np.ceil(survivors * words)), _FEWEST * beam)) if survivors else beam
            rounds.append((int(np.ceil(share * gaps)), words))
        return rounds

    def settings(self) -> dict[str, Any]:
        """All that its result depends on, plain."""
        return {
            "shortlist": float(self.shortlist),
            "anchors": self.anchors,
            "gradient_contexts": float(self.gradient_contexts),
            "contexts": [float(x) for x in self.contexts],
            "survivors": [float(x) for x in self.survivors],
        }


@dataclass(frozen=True)
class WordCandidate:
    """A word in its position of a phrase.

    Attributes:
        before, after: tokens of the phrase on its sides.
        tokens: its own.
        words: the phrase's words with it among them.
        stem: number of the phrase of the beam that it goes on from.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    tokens: tuple[int, ...]
    words: tuple[str, ...]
    word: str
    stem: int

    @property
    def phrase(self) -> tuple[int, ...]:
        """All tokens."""
        return (*self.before, *self.tokens, *self.after)


@dataclass
class Choice:
    """Result of one choice: the words that were tried, and those that were kept.

    Attributes:
        kept: numbers of the best candidates, the best first.
        scores: [candidates] mean objective over the gaps where each was scored; NaN of those that never were.
        gaps: [candidates] in how many gaps each was scored.
        estimates: [candidates] what the gradient said; NaN without.
        seconds, tokens: [candidates] each one's share of what it cost.
        unstable: candidates that were best but did not read the same in every whole prompt.
    """

    kept: list[int]
    scores: np.ndarray
    gaps: np.ndarray
    estimates: np.ndarray
    seconds: np.ndarray
    tokens: np.ndarray
    unstable: list[int] = field(default_factory=list)


def choose(
    search: Search,
    scorer: PhraseScorer,
    candidates: Sequence[WordCandidate],
    beam: int,
    seed: Sequence[int],
    holds: Callable[[WordCandidate], bool],
    report: Callable[[str], None] = lambda text: None,
) -> Choice:
    """The best candidates by the mean objective over all gaps, as `search` looks for them.

    Args:
        candidates: no two that read alike.
        beam: how many are kept.
        seed: of the order in which gaps are taken, and of the gradient's anchors.
        holds: whether a candidate reads in every whole prompt as it was scored; asked of the best alone.
        report: receives what is under way.
    """
    count, gaps = len(candidates), len(scorer.gaps)
    scores, counts, estimates, seconds, tokens = (np.full(count, fill) for fill in (np.nan, 0.0, np.nan, 0.0, 0.0))
    choice = Choice([], scores, counts, estimates, seconds, tokens)
    order = _spread(scorer, seed)
    alive = np.arange(count)
    if search.takes_gradient:
        report(f"gradient over {count} words")
        began, before = time.perf_counter(), scorer.tokens
        used = order[: max(1, int(np.ceil(search.gradient_contexts * gaps)))]
        choice.estimates = _estimated(search, scorer, candidates, used, seed)
        left = min(count, max(int(np.ceil(search.shortlist * count)), _FEWEST * beam))
        alive = np.sort(np.argsort(-choice.estimates, kind="stable")[:left])
        choice.seconds += (time.perf_counter() - began) / count
        choice.tokens += (scorer.tokens - before) / count
    sums = np.zeros(count)
    done = 0
    for number, (wanted, left) in enumerate(search.rounds(gaps, len(alive), beam), 1):
        began, before = time.perf_counter(), scorer.tokens
        for turn in range(done, wanted):  # gap by gap: each is a sign of life
            report(f"round {number}, {len(alive)} words, context {turn + 1} of {wanted}")
            sums[alive] += scorer.values([candidates[i].phrase for i in alive.tolist()], [order[turn]])[:, 0]
        done = wanted
        choice.gaps[alive] = done
        choice.scores[alive] = sums[alive] / done
        choice.seconds[alive] += (time.perf_counter() - began) / len(alive)
        choice.tokens[alive] += (scorer.tokens - before) / len(alive)
        ranked = alive[np.argsort(-choice.scores[alive], kind="stable")]
        if number == len(search.contexts):
            for i in ranked.tolist():
                if len(choice.kept) == left:
                    break
                (choice.kept if holds(candidates[i]) else choice.unstable).append(i)
        else:
            alive = np.sort(ranked[:left])
    return choice


def _estimated(
    search: Search, scorer: PhraseScorer, candidates: Sequence[WordCandidate], used: Sequence[int], seed: Sequence[int]
) -> np.ndarray:
    estimates = np.empty(len(candidates))
    for stem in dict.fromkeys(candidate.stem for candidate in candidates):
        members = [i for i, candidate in enumerate(candidates) if candidate.stem == stem]
        first = candidates[members[0]]
        words = [candidates[i].tokens for i in members]
        estimates[members] = scorer.estimates(first.before, first.after, words, search.anchors, used, [*seed, stem])
    return estimates


def _share(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= 1


def _spread(scorer: PhraseScorer, seed: Sequence[int]) -> list[int]:
    """The gaps in a drawn order in which their groups take turns: the first few already are of many groups."""
    turns: dict[str, int] = {}
    keyed: list[tuple[int, int, int]] = []
    for number in np.random.default_rng(list(seed)).permutation(len(scorer.gaps)).tolist():
        group = scorer.gaps[number].example.group_id
        turns[group] = turns.get(group, -1) + 1
        keyed.append((turns[group], len(keyed), number))
    return [number for _, _, number in sorted(keyed)]
