"""Standard vectors: mean states at the end of well and of badly scored texts (CAP, 4.2), their
separation, the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from judgebench.judges.local.sharding import is_split
from judgebench.runtime.distributed import process_group
from judgebench.runtime.files import atomic, check_run_file, writing
from judgebench.runtime.parsing import parse_json
from judgebench.tutor.spec import Sizes
from judgebench.tutor.steering import Standard
from judgebench.tutor.texts import TextScorer, candidate_states, write_candidates
from judgebench.tutor.writing import Tutor
from judgebench.types import Array, Example
from judgebench.words.errors import UserError

MINIMUM_TEXTS = 4
"""Texts that a mean vector needs at least: the mean of fewer is hardly more than one text's own
state."""


class Retained(NamedTuple):
    """Indices [texts] of the candidates whose score is at most, or at least, a threshold."""

    low_threshold: float
    high_threshold: float
    low: Array
    high: Array


def retain(scores: Array, low_percentile: float = 20.0, high_percentile: float = 80.0) -> Retained:
    """The high and low sets of candidates by the judge's scores [candidates], NaN without one (CAP,
    section 4.2 and figure 4).

    The paper estimates the thresholds, percentiles interpolated linearly, on one set of candidates
    and keeps those of another; here one set serves both. `UserError` where the judge scores all
    alike, or a set is too small to average.
    """
    scores = np.asarray(scores, dtype=np.float64)
    numbers = scores[~np.isnan(scores)]
    more = "raise tutor.candidates, or take more contexts"
    if not numbers.size:
        raise UserError(
            f"tutor: none of {len(scores)} candidates has a score, so there are no standards; "
            f"{more}."
        )
    low_at, high_at = np.percentile(numbers, [low_percentile, high_percentile]).tolist()
    if low_at >= high_at:
        raise UserError(
            f"tutor: the judge gives {low_at:g} to the candidates from percentile "
            f"{low_percentile:g} to {high_percentile:g}, so high and low cannot be told apart; "
            f"score by decoding=expectation, choose another judge, or {more}."
        )
    # a comparison with NaN is false
    low = np.flatnonzero(scores <= low_at)
    high = np.flatnonzero(scores >= high_at)
    for name, texts, which in (
        ("high", high, f"at or above percentile {high_percentile:g} (score {high_at:.3g})"),
        ("low", low, f"at or below percentile {low_percentile:g} (score {low_at:.3g})"),
    ):
        if len(texts) < MINIMUM_TEXTS:
            raise UserError(
                f"tutor: {len(texts)} of {numbers.size} candidates scored {which}, too few to "
                f"average: the {name} set needs at least {MINIMUM_TEXTS}; {more}, or set "
                f"tutor.{name}_percentile nearer to 50."
            )
    return Retained(low_at, high_at, low, high)


def separability(high: Array, low: Array, components: int | None = None) -> Array:
    """Equation 3, layer by layer [layers]: |hv - lv| / (mean |h_i - hv| + mean |l_i - lv|), all L2,
    of states [texts, layers, hidden] of the high and the low set; infinite where two sets of equal
    states lie apart, 0 where they do not.

    Args:
        components: reduce each layer's states to so many principal components first, as the paper's
            text (not its equation) has it; None measures them as they are.
    """
    layers = high.shape[1]
    ratios = np.zeros(layers)
    for layer in range(layers):
        of_high = high[:, layer].astype(np.float64)
        of_low = low[:, layer].astype(np.float64)
        if components is not None:
            of_high, of_low, _ = project(of_high, of_low, components)
        between = np.linalg.norm(of_high.mean(axis=0) - of_low.mean(axis=0))
        within = _spread(of_high) + _spread(of_low)
        if within > 0:
            ratios[layer] = between / within
        elif between > 0:
            ratios[layer] = np.inf
    return ratios


def _spread(states: Array) -> float:
    """Mean distance of states [texts, hidden] from their mean."""
    return float(np.linalg.norm(states - states.mean(axis=0), axis=1).mean())


def chance_separability(
    high: Array,
    low: Array,
    components: int | None = None,
    seed: int = 0,
    shuffles: int = 100,
) -> Array:
    """Separability by chance: 95 % of random assignments of the states to the two sets stay below
    it, [layers] float64.

    Two small sets always lie apart a little: equation 3 is never 0, and larger the fewer texts
    there are. A layer separates high from low only as far as it surpasses this.
    """
    together = np.concatenate([high, low])
    draw = np.random.default_rng(seed)
    reached = []
    for _ in range(shuffles):
        shuffled = together[draw.permutation(len(together))]
        one_set, other_set = np.split(shuffled, [len(high)])
        reached.append(separability(one_set, other_set, components))
    return np.quantile(np.stack(reached), 0.95, axis=0)


def best_layer(separabilities: Array) -> int:
    """The layer that separates best, counted from 1; the first of several."""
    return int(np.argmax(separabilities)) + 1


def project(high: Array, low: Array, components: int = 2) -> tuple[Array, Array, Array]:
    """Principal components of the states [texts, hidden] of both sets together (figure 5); states
    that span fewer have 0 in the rest.

    Returns:
        [texts, components] of both sets, each axis turned so that the high mean lies at the higher
        end; and
            [components] the share of the variance along each.
    """
    # 1. the components of both sets, by singular values
    together = np.concatenate([high, low]).astype(np.float64)
    centered = together - together.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    spanned = min(components, len(sizes))
    left = left[:, :spanned]
    points = np.zeros((len(together), components))
    points[:, :spanned] = left * sizes[:spanned]
    # 2. the high mean at the higher end
    of_high, of_low = np.split(points, [len(high)])
    below = of_high.mean(axis=0) < of_low.mean(axis=0)
    turn = np.where(below, -1.0, 1.0)
    # 3. shares of the variance
    shares = np.zeros(components)
    variances = sizes**2
    total = float(variances.sum())
    if total > 0:
        shares[:spanned] = variances[:spanned] / total
    return of_high * turn, of_low * turn, shares


_FORMAT = "judgebench standard vectors 1"
_ARRAYS = (
    "high",
    "low",
    "separability",
    "chance",
    "norms",
    "scores",
    "low_points",
    "high_points",
    "shares",
)
_NUMBERS = {"layer": int, "low_threshold": float, "high_threshold": float}


@dataclass(frozen=True)
class Origin:
    """Model, judge and texts that standard vectors were made of.

    Attributes:
        tutor, tutor_fingerprint: the model's title, and SHA-256 of its content.
        judge, judge_fingerprint: the same of whoever scored the candidates.
        groups: group_ids of the texts' contexts.
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


@dataclass(frozen=True, eq=False)
class StandardVectors:
    """The vectors of every layer, and what figures 4, 5 and 8 of the paper show of them.

    Attributes:
        high, low: [layers, hidden] float32: hv and lv of each layer.
        layer: the chosen one, counted from 1.
        separability, chance: [layers] float64, see `separability` and `chance_separability`.
        norms: [layers] float64: mean length of the retained states, on whose scale alpha acts.
        scores: [candidates] float64: the judge's scores of all candidates that had one.
        low_points, high_points: [texts, 2] float64 the retained states in their chosen layer's
            plane.
        shares: [2] float64 share of the variance along its axes.
    """

    high: Array
    low: Array
    layer: int
    separability: Array
    chance: Array
    norms: Array
    scores: Array
    low_threshold: float
    high_threshold: float
    low_points: Array
    high_points: Array
    shares: Array
    origin: Origin

    def standard(self, layer: int | None = None) -> Standard:
        """The standard to steer to, at the chosen layer or another."""
        layer = checked_layer(
            self.layer if layer is None else layer, len(self.high), self.origin.tutor
        )
        return Standard(
            layer, torch.from_numpy(self.high[layer - 1]), torch.from_numpy(self.low[layer - 1])
        )


def find_vectors(
    tutor: Tutor,
    contexts: Sequence[Example],
    scorer: TextScorer,
    dataset: str,
    judge: str,
    judge_fingerprint: str,
) -> StandardVectors:
    """Candidates, their scores, and the standard vectors that follow, as the tutor's spec says.

    Args:
        contexts: of training data, so that no standard is drawn from what is evaluated.
        dataset, judge, judge_fingerprint: for `Origin`.
    """
    spec, title = tutor.spec, tutor.spec.source.title
    if is_split(tutor.runner.trainer.strategy):
        raise UserError(
            "tutor: standard vectors are found by a model that is whole in one process; find them "
            "by a run with trainer=auto or trainer=ddp, and give its tutor.vectors=RUN/defense."
        )
    # 1. candidates and their scores; a text of nothing has no final position, and nothing to judge
    candidates = write_candidates(tutor, contexts)
    written = [candidate for candidate in candidates if candidate.text]
    if not written:
        raise UserError(
            f"tutor: none of the {len(candidates)} candidates that {title} wrote holds any text; "
            "choose another tutor, or other tutor.prompts."
        )
    scores = np.asarray(scorer([candidate.example for candidate in written]), dtype=np.float64)
    groups = tuple(context.group_id for context in contexts)
    fingerprint = tutor.view.fingerprint
    origin = Origin(
        title, fingerprint, judge, judge_fingerprint, dataset, groups, spec.seed, spec.candidates
    )

    # 2. the states of the outer sets, and what follows from them
    def vectors() -> StandardVectors:
        retained = retain(scores, spec.low_percentile, spec.high_percentile)
        states = candidate_states(tutor, [written[i] for i in (*retained.high, *retained.low)])
        if not np.isfinite(states).all():
            raise UserError(
                f"tutor: {title} has hidden states that are not finite, so its weights or its "
                "dtype are not fit to be steered; float16 overflows in some models: try "
                "tutor.dtype=bfloat16."
            )
        high, low = states[: len(retained.high)], states[len(retained.high) :]
        apart = separability(high, low, spec.components)
        layer = (
            best_layer(apart)
            if spec.layer is None
            else checked_layer(spec.layer, len(apart), title)
        )
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

    # in one process: on another machine the last bits may be others, and what is steered by them
    # another text
    return process_group().agree(vectors)


def checked_layer(layer: int, layers: int, tutor: str) -> int:
    if not 1 <= layer <= layers:
        raise UserError(
            f"tutor.layer: {layer} is no layer of {tutor}; give a whole number from 1 to {layers}."
        )
    return layer


_ORIGIN = {
    **{field.name: str for field in fields(Origin)},
    "groups": [str],
    "seed": int,
    "candidates": int,
}
"""Name -> its shape, see `check_shape`."""


def save_vectors(vectors: StandardVectors, path: Path) -> None:
    """Writes the file, whole or not at all."""
    numbers = {
        **{name: getattr(vectors, name) for name in _NUMBERS},
        "high_count": len(vectors.high_points),
        "low_count": len(vectors.low_points),
    }
    metadata = {
        "format": _FORMAT,
        **{name: repr(value) for name, value in numbers.items()},
        **{name: json.dumps(value) for name, value in asdict(vectors.origin).items()},
    }
    arrays = {name: np.ascontiguousarray(getattr(vectors, name)) for name in _ARRAYS}
    with writing(f"tutor: the standard vectors in {path}"), atomic(path) as temporary:
        temporary.write_bytes(save(arrays, metadata))


def load_vectors(path: Path, tutor_fingerprint: str, sizes: Sizes) -> StandardVectors:
    """Vectors that another run has saved; `UserError` where they are not this tutor's, or the file
    is another kind."""
    where = f"tutor.vectors={path}"
    if not path.is_file():
        raise UserError(
            f"{where}: there is no such file; give one that a run with a tutor has saved, or null."
        )
    check_run_file(path, "tutor.vectors")
    # 1. the file
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise UserError(f"{where}: cannot be read as safetensors ({error}).") from error
    if metadata.get("format") != _FORMAT:
        raise UserError(
            f"{where}: holds no standard vectors that this version of judgebench reads; give a "
            "file that a run with a tutor has saved."
        )
    remedy = "find the vectors again"
    damaged = f"parts are damaged, so {remedy}"
    try:
        values = {}
        for name, kind in (_ORIGIN | _NUMBERS).items():
            place = f"{where}: {name}"
            values[name] = parse_json(metadata[name], place, shape=kind, remedy=damaged)
        values["groups"] = tuple(values["groups"])
        origin = Origin(**{name: values.pop(name) for name in _ORIGIN})
        wanted = {name: arrays[name] for name in _ARRAYS}
        vectors = StandardVectors(**wanted, **values, origin=origin)
        layers, hidden = vectors.high.shape
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{where}: parts of it are missing or damaged ({error!r}); {remedy}."
        ) from error
    # 2. whose they are
    if {vectors.high.shape, vectors.low.shape} != {(sizes.layers, sizes.hidden)}:
        raise UserError(
            f"{where}: its vectors are of {origin.tutor}, with {layers} layers of size {hidden}, "
            f"and the tutor has {sizes.layers} layers of size {sizes.hidden}; find vectors with "
            f"this tutor, or choose {origin.tutor}."
        )
    if origin.tutor_fingerprint != tutor_fingerprint:
        raise UserError(
            f"{where}: its vectors are of {origin.tutor} with the fingerprint "
            f"{origin.tutor_fingerprint[:12]}, and the tutor has {tutor_fingerprint[:12]}: another "
            "model, or the same in other files. Find vectors with this tutor."
        )
    return vectors
