"""Standard vectors: the tutor's mean states at the end of well and of badly scored texts (CAP, 4.2), and their file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from judgebench.judges.sharding import is_split
from judgebench.runtime.distributed import here
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic, check_run_file
from judgebench.runtime.parsing import parse_json
from judgebench.tutor.candidates import Candidate, TextScorer, candidate_states, write_candidates
from judgebench.tutor.spec import Sizes
from judgebench.tutor.standards import best_layer, chance_separability, project, retain, separability
from judgebench.tutor.steering import Standard
from judgebench.tutor.tutor import Tutor
from judgebench.types import Example

_FORMAT = "judgebench standard vectors 1"
_ARRAYS = ("high", "low", "separability", "chance", "norms", "scores", "low_points", "high_points", "shares")
_NUMBERS = {"layer": int, "low_threshold": float, "high_threshold": float}


@dataclass(frozen=True)
class Origin:
    """Model, judge and texts that standard vectors were made of.

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
        """The standard to steer to, at the chosen layer or another.

        Raises:
            UserError: there is no such layer, or its vectors are the same.
        """
        layer = self.layer if layer is None else layer
        if not 1 <= layer <= len(self.high):
            raise _no_layer(layer, len(self.high), self.origin.tutor)
        return Standard(layer, torch.from_numpy(self.high[layer - 1]), torch.from_numpy(self.low[layer - 1]))


def find_vectors(
    tutor: Tutor, contexts: Sequence[Example], scorer: TextScorer, dataset: str, judge: str, judge_fingerprint: str
) -> StandardVectors:
    """Candidates, their scores, and the standard vectors that follow, as the tutor's spec says.

    Args:
        tutor: writes the candidates.
        contexts: of `tutor.contexts_of`; of training data, so that no standard is drawn from what is evaluated.
        scorer: the judge.
        dataset, judge, judge_fingerprint: for `Origin`.

    Raises:
        UserError: a set is too small, the judge tells nothing apart, the model cannot be read, or it is split among
            processes.
    """
    spec = tutor.spec
    if is_split(tutor.runner.trainer([]).strategy):
        raise UserError(
            "tutor: standard vectors are found by a model that is whole in one process; find them by a run with "
            "trainer=auto or trainer=ddp, and give its tutor.vectors=RUN/defense."
        )
    candidates = write_candidates(tutor, contexts)
    shown = [
        candidate for candidate in candidates if candidate.text
    ]  # a text of nothing has no final position, and nothing to judge
    if not shown:
        raise UserError(
            f"tutor: none of the {len(candidates)} candidates that {spec.source.title} wrote holds any text; choose "
            "another tutor, or other tutor.prompts."
        )
    origin = Origin(
        tutor=spec.source.title,
        tutor_fingerprint=tutor.view.fingerprint,
        judge=judge,
        judge_fingerprint=judge_fingerprint,
        dataset=dataset,
        groups=tuple(context.group_id for context in contexts),
        seed=spec.seed,
        candidates=spec.candidates,
    )
    scores = np.asarray(scorer([candidate.example for candidate in shown]), dtype=np.float64)
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


_ORIGIN = {**{one.name: str for one in fields(Origin)}, "groups": [str], "seed": int, "candidates": int}
"""Name -> its shape, see `judgebench.runtime.parsing.check_shape`."""


def save_vectors(vectors: StandardVectors, path: Path) -> None:
    """Writes the file, whole or not at all.

    Raises:
        UserError: it cannot be written.
    """
    counts = {"high_count": len(vectors.high_points), "low_count": len(vectors.low_points)}
    numbers = {name: getattr(vectors, name) for name in _NUMBERS} | counts
    metadata = {"format": _FORMAT, **{name: repr(value) for name, value in numbers.items()}}
    metadata |= {name: json.dumps(value) for name, value in asdict(vectors.origin).items()}
    data = save({name: np.ascontiguousarray(getattr(vectors, name)) for name in _ARRAYS}, metadata)
    try:
        with atomic(path) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise UserError(f"tutor: the standard vectors cannot be written to {path} ({error}).") from error


def load_vectors(path: Path, tutor_fingerprint: str, sizes: Sizes) -> StandardVectors:
    """Vectors that another run has saved, if they are this tutor's.

    Args:
        tutor_fingerprint: SHA-256 of the tutor's content (`tutor.view.fingerprint`).
        sizes: the tutor's (`tutor.spec.sizes`).

    Raises:
        UserError: no such file, another kind of file, or vectors of another model.
    """
    where = f"tutor.vectors={path}"
    if not path.is_file():
        raise UserError(f"{where}: there is no such file; give one that a run with a tutor has saved, or null.")
    check_run_file(path, "tutor.vectors")
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise UserError(f"{where}: cannot be read as safetensors ({error}).") from error
    if metadata.get("format") != _FORMAT:
        raise UserError(
            f"{where}: holds no standard vectors that this version of judgebench reads; give a file that a run with a "
            "tutor has saved."
        )
    try:
        given = _read(metadata, _ORIGIN, where)
        origin = Origin(**given | {"groups": tuple(given["groups"])})
        numbers = _read(metadata, _NUMBERS, where)
        vectors = StandardVectors(**{name: arrays[name] for name in _ARRAYS}, **numbers, origin=origin)
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{where}: parts of it are missing or damaged ({error!r}); find the vectors again.") from error
    if {vectors.high.shape, vectors.low.shape} != {(sizes.layers, sizes.hidden)}:
        raise UserError(
            f"{where}: its vectors are of {origin.tutor}, with {_shape(vectors.high)}, and the tutor has "
            f"{sizes.layers} layers of size {sizes.hidden}; find vectors with this tutor, or choose {origin.tutor}."
        )
    if origin.tutor_fingerprint != tutor_fingerprint:
        raise UserError(
            f"{where}: its vectors are of {origin.tutor} with the fingerprint {origin.tutor_fingerprint[:12]}, and the "
            f"tutor has {tutor_fingerprint[:12]}: another model, or the same in other files. Find vectors with this "
            "tutor."
        )
    return vectors


def _read(metadata: dict[str, str], shapes: dict[str, Any], where: str) -> dict[str, Any]:
    remedy = "parts of it are damaged, so find the vectors again"
    return {
        name: parse_json(metadata[name], f"{where}: {name}", shape=shape, remedy=remedy)
        for name, shape in shapes.items()
    }


def _shape(array: np.ndarray) -> str:
    return f"{array.shape[0]} layers of size {array.shape[1]}" if array.ndim == 2 else f"shape {list(array.shape)}"
