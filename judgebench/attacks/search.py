"""The search for a universal adversarial phrase: its settings, and the choice of each next word."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judgebench.attacks.scoring import Objective, PhraseScorer
from judgebench.config.fields import Annotated, Ge, Gt, Le, NotBlank, Wording, check_fields
from judgebench.decoding.rules import Decoding
from judgebench.runtime.errors import UserError
from judgebench.types import Example

_Share = Annotated[float, Gt(0), Le(1)]

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

    shortlist: _Share = 1.0
    anchors: Annotated[int, Ge(1)] = 4
    gradient_contexts: _Share = 1.0
    contexts: Annotated[Sequence[_Share], NotBlank()] = (1.0,)
    survivors: Sequence[_Share] = ()

    def __post_init__(self) -> None:
        check_fields(self, "search")
        contexts = list(self.contexts)
        if contexts != sorted(contexts) or contexts[-1] != 1:
            raise UserError(f"search.contexts: {contexts} must ascend to 1: what is kept is scored in every context.")
        if len(self.survivors) != len(contexts) - 1:
            raise UserError(
                f"search.survivors: it has {len(self.survivors)} entries and search.contexts {len(contexts)}; give one "
                "for each round but the last."
            )

    @property
    def takes_gradient(self) -> bool:
        return self.shortlist < 1

    def rounds(self, gaps: int, words: int, beam: int) -> list[tuple[int, int]]:
        """For each round how many gaps words are scored in, and how many of them go on; in the last round `beam`."""
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
        words: the whole phrase's.
        stem: number of the phrase of the beam that it continues.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    tokens: tuple[int, ...]
    words: tuple[str, ...]
    word: str
    stem: int

    @property
    def phrase(self) -> tuple[int, ...]:
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
        holds: True where a candidate reads in every whole prompt as it was scored; called for the best alone.
        report: receives messages about progress.
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


def _spread(scorer: PhraseScorer, seed: Sequence[int]) -> list[int]:
    """The gaps in a drawn order in which their groups take turns: the first few already are of many groups."""
    turns: dict[str, int] = {}
    keyed: list[tuple[int, int, int]] = []
    for number in np.random.default_rng(list(seed)).permutation(len(scorer.gaps)).tolist():
        group = scorer.gaps[number].example.group_id
        turns[group] = turns.get(group, -1) + 1
        keyed.append((turns[group], len(keyed), number))
    return [number for _, _, number in sorted(keyed)]


_Texts = Annotated[
    Annotated[int, Ge(1)] | Annotated[Sequence[str], NotBlank()],
    Wording("a whole number of at least 1, nor a list of names with at least one"),
]


@dataclass(frozen=True)
class AdvSuffix:
    """A universal adversarial phrase of the run's own judge (Raina et al. 2024), learned before the run judges with it.

    Args:
        length: words of the phrase; the best shorter ones are judged with as well.
        against: names of decodings whose expected score is raised, a phrase each.
        vocabulary, words: see `select_words`.
        contexts: group_ids to learn on, or how many of the development split's; None is all of these.
        systems: system_ids to learn on, or how many; None is all.
        search: how each word is chosen.
        beam: phrases that are kept from word to word; 1 is greedy.
        refine: how often each place of the finished phrase is tried with other words; 0 leaves it.
        seed: of all that is drawn.

    Raises:
        UserError: a value that is none of these.
    """

    length: Annotated[int, Ge(1), Le(20)] = 4
    against: Annotated[Sequence[str], NotBlank(), Wording("a list of different decodings, as [expectation] is")] = (
        "expectation",
    )
    vocabulary: Annotated[str, NotBlank(), Wording("tokenizer, frequent or the path of a file")] = "tokenizer"
    words: Annotated[int, Ge(1)] | None = None
    contexts: _Texts | None = None
    systems: _Texts | None = None
    search: Annotated[Search, Wording("a way of searching, as conf/search has them")] = field(default_factory=Search)
    beam: Annotated[int, Ge(1)] = 1
    refine: Annotated[int, Ge(0)] = 0
    seed: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        check_fields(self, "attack")
        if len(set(self.against)) < len(self.against):
            raise UserError(f"attack.against: {self.against!r} names a decoding twice; name each once.")

    def objectives(self, decodings: Mapping[str, Decoding], mode: str) -> list[Objective]:
        """The objectives that are maximized, a phrase each; `UserError` for a decoding that is not there or that no
        search can follow, or a judge without probabilities."""
        if mode != "score_tokens":
            raise UserError(
                f"attack=adv_suffix: it needs the judge's probabilities, which judge.mode={mode} does not give; set "
                "judge.mode=score_tokens, or try a phrase that was learned elsewhere with attack=phrase."
            )
        if missing := [name for name in self.against if name not in decodings]:
            raise UserError(
                f"attack.against: the run has no decoding {missing[0]!r}; it has {', '.join(decodings)}. Choose one of "
                f"these, or add it to decoding=[...]."
            )
        return [Objective(name, decodings[name]) for name in self.against]

    def examples(self, examples: Sequence[Example], split: Mapping[str, str], dev: str) -> list[Example]:
        """The texts that the phrase is learned on: of the development split alone, for it is tried on the rest.
        `UserError` for contexts or systems that are not there, or that the phrase is to be tried on.

        Args:
            split: group_id -> dev or test.
            dev: the name of the development split.
        """
        groups = sorted({example.group_id for example in examples})
        free = [group for group in groups if split[group] == dev]
        if not free:
            raise UserError(
                "attack=adv_suffix: it learns on the development split, and this data has none; set data.dev_share."
            )
        contexts = self._taken("contexts", free, groups)
        systems = self._taken("systems", sorted({example.system_id for example in examples}), None)
        chosen = [one for one in examples if one.group_id in contexts and one.system_id in systems]
        if not chosen:
            raise UserError("attack.contexts, attack.systems: none of these systems has a text in these contexts.")
        return chosen

    def _taken(self, name: str, free: Sequence[str], known: Sequence[str] | None) -> frozenset[str]:
        wanted = getattr(self, name)
        if wanted is None:
            return frozenset(free)
        if isinstance(wanted, int):
            if wanted > len(free):
                where = "the development split has" if known is not None else "the data has"
                more = "raise data.dev_share, or take fewer" if known is not None else "null takes all"
                raise UserError(f"attack.{name}: {wanted} are wanted, and {where} {len(free)}; {more}.")
            drawn = np.random.default_rng([self.seed, len(free)]).permutation(len(free))[:wanted]
            return frozenset(free[i] for i in drawn.tolist())
        wanted = frozenset(map(str, wanted))
        for given in sorted(wanted - set(free)):
            if known is not None and given in known:
                raise UserError(
                    f"attack.contexts: {given!r} is of the test split, on which the phrase is to be tried; contexts to "
                    "learn on and to try on must not overlap. Take it from the development split, or raise "
                    "data.dev_share."
                )
            raise UserError(f"attack.{name}: there is no {given!r} in the data.")
        return wanted

    def settings(self) -> dict[str, Any]:
        """All that its words depend on beside texts and judge, plain; not how many they are."""
        return {
            "vocabulary": self.vocabulary,
            "words": self.words,
            "search": self.search.settings(),
            "beam": self.beam,
            "seed": self.seed,
        }
