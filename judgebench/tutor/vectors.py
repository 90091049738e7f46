"""Standard vectors: what a tutor's states look like at the end of a well and of a badly scored text (CAP, 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from judgebench.judges.sharding import is_split
from judgebench.runtime.distributed import here
from judgebench.runtime.errors import UserError
from judgebench.tutor.candidates import Candidate, write_candidates
from judgebench.tutor.standards import best_layer, chance_separability, project, retain, separability
from judgebench.tutor.states import candidate_states
from judgebench.tutor.steering import Standard
from judgebench.tutor.tutor import Tutor
from judgebench.types import Example

Scorer = Callable[[Sequence[Candidate]], np.ndarray]
"""[candidates] the judge's score of each, NaN where it gave none (see `scoring.JudgeScorer`)."""


@dataclass(frozen=True)
class Origin:
    """What standard vectors were made of.

    Attributes:
        tutor, tutor_fingerprint: the model's title, and SHA-256 of its content.
        judge, judge_fingerprint: of whoever scored the candidates.
        dataset: its name.
        groups: their group_ids; whoever evaluates on one of them should know.
        seed, candidates: of the sampling: its seed, and texts a context.
    """

    tutor: str
    tutor_fingerprint: str
    judge: str
    judge_fingerprint: str
    dataset: str
    groups: tuple[str, ...]
    seed: int
    candidates: int

    @property
    def contexts(self) -> int:
        return len(self.groups)


@dataclass(frozen=True, eq=False)
class StandardVectors:
    """The vectors of every layer, and what figures 4, 5 and 8 of the paper show of them.

    Attributes:
        high, low: [layers, hidden] float32: hv and lv of each layer.
        layer: the chosen one, counted from 1.
        separability: [layers] float64, equation 3.
        chance: [layers] float64: what separability seldom surpasses by chance (`standards.chance_separability`).
        norms: [layers] float64: mean length of the retained states, on whose scale alpha acts.
        scores: [candidates] float64: the judge's scores of all candidates that had one.
        low_threshold, high_threshold: scores.
        low_points, high_points: [texts, 2] float64 the retained states in their chosen layer's plane.
        shares: [2] float64 share of the variance along its axes.
        origin: what they were made of.
    """

    high: np.ndarray
    low: np.ndarray
    layer: int
    separability: np.ndarray
    chance: np.ndarray
    norms: np.ndarray
    scores: np.ndarray
    low_threshold: float
    high_threshold: float
    low_points: np.ndarray
    high_points: np.ndarray
    shares: np.ndarray
    origin: Origin

    def standard(self, layer: int | None = None) -> Standard:
        """Where texts are steered to, at the chosen layer or another.

        Raises:
            UserError: there is no such layer, or its vectors are the same.
        """
        layer = self.layer if layer is None else layer
        if not 1 <= layer <= len(self.high):
            raise _no_layer(layer, len(self.high), self.origin.tutor)
        return Standard(layer, torch.from_numpy(self.high[layer - 1]), torch.from_numpy(self.low[layer - 1]))


def find_vectors(
    tutor: Tutor, contexts: Sequence[Example], scorer: Scorer, dataset: str, judge: str, judge_fingerprint: str
) -> StandardVectors:
    """Candidates, their scores, and the standard vectors that follow, as the tutor's spec says.

    Args:
        tutor: writes the candidates.
        contexts: of `asking.contexts_of`; of training data, so that no standard is drawn from what is evaluated.
        scorer: the judge.
        dataset, judge, judge_fingerprint: for `Origin`.

    Raises:
        UserError: a set is too small, the judge tells nothing apart, the model cannot be read, or it is split among
            processes.
    """
    spec = tutor.spec
    if is_split(tutor.trainer([]).strategy):
        raise UserError(
            "tutor: standard vectors are found by a model that is whole in one process; find them by a run with "
            "trainer=auto or trainer=ddp, and give its tutor.vectors=RUN/defense."
        )
    candidates = write_candidates(tutor, contexts)
    shown = [each for each in candidates if each.text]  # a text of nothing has no final position, and nothing to judge
    if not shown:
        raise UserError(
            f"tutor: none of the {len(candidates)} candidates that {spec.source.title} wrote holds any text; choose "
            "another tutor, or other tutor.prompts."
        )
    origin = Origin(
        tutor=spec.source.title,
        tutor_fingerprint=tutor.voice.fingerprint,
        judge=judge,
        judge_fingerprint=judge_fingerprint,
        dataset=dataset,
        groups=tuple(context.group_id for context in contexts),
        seed=spec.seed,
        candidates=spec.candidates,
    )
    scores = np.asarray(scorer(shown), dtype=np.float64)
    # in one process: on another machine the last bits may be others, and what is steered by them another text
    return here().agree(lambda: _vectors_of(tutor, shown, scores, origin))


def _vectors_of(tutor: Tutor, shown: Sequence[Candidate], scores: np.ndarray, origin: Origin) -> StandardVectors:
    """The standard vectors that follow from the candidates' scores."""
    spec = tutor.spec
    retained = retain(scores, spec.low_percentile, spec.high_percentile)
    both = [shown[i] for i in (*retained.high, *retained.low)]
    states = candidate_states(tutor, both)
    if not np.isfinite(states).all():
        raise UserError(
            f"tutor: {origin.tutor} has hidden states that are not finite, so its weights or its dtype are not fit to "
            "be steered; float16 overflows in some models: try tutor.dtype=bfloat16."
        )
    high, low = states[: len(retained.high)], states[len(retained.high) :]
    apart = separability(high, low, spec.components)
    layer = best_layer(apart) if spec.layer is None else spec.layer
    if layer > len(apart):
        raise _no_layer(layer, len(apart), origin.tutor)
    high_points, low_points, shares = project(high[:, layer - 1], low[:, layer - 1])
    return StandardVectors(
        high=high.mean(axis=0, dtype=np.float64).astype(np.float32),
        low=low.mean(axis=0, dtype=np.float64).astype(np.float32),
        layer=layer,
        separability=apart,
        chance=chance_separability(high, low, spec.components, spec.seed),
        norms=np.linalg.norm(states.astype(np.float64), axis=2).mean(axis=0),
        scores=scores[~np.isnan(scores)],
        low_threshold=retained.low_threshold,
        high_threshold=retained.high_threshold,
        low_points=low_points,
        high_points=high_points,
        shares=shares,
        origin=origin,
    )


def _no_layer(layer: int, layers: int, tutor: str) -> UserError:
    return UserError(f"tutor.layer: {layer} is no layer of {tutor}; give a whole number from 1 to {layers}.")
