"""The references of CAP and its variants, as a tutor writes them: asked for, or steered."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.defenses.prepared import Findings, Resources
from judgebench.defenses.references import CAP, W_CAP, PlannedReferences, ReferenceDefense
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.rubrics import reference_score
from judgebench.runtime.distributed import here
from judgebench.tutor.steering import HIGH, LOW
from judgebench.tutor.texts import (
    JudgeScorer,
    Reference,
    Strength,
    asked_references,
    measure_strengths,
    selected_strength,
    steered_references,
)
from judgebench.tutor.tutor import Tutor, contexts_of, written_example
from judgebench.tutor.vectors import StandardVectors, best_layer, find_vectors, load_vectors
from judgebench.types import Condition, Example


@dataclass(frozen=True)
class Written:
    """The references that a tutor writes for a planned defense, with what a run lends."""

    planned: PlannedReferences
    resources: Resources

    def defense(self) -> ReferenceDefense:
        """The defense with the references of all dimensions."""
        first = {condition.dimension: condition for condition in reversed(self.resources.conditions)}
        dimensions = dict.fromkeys(condition.dimension for condition in self.resources.conditions)
        parts = {dimension: self._of_dimension(first[dimension]) for dimension in dimensions}
        pairs = {dimension: {pair.group_id: pair for pair in written} for dimension, (written, _) in parts.items()}
        together = Findings.together(findings for _, findings in parts.values())
        costs = [part.costs[self.planned.name] for _, part in parts.values()]
        mean = {key: math.fsum(cost[key] for cost in costs) / len(costs) for key in costs[0]}
        findings = replace(together, costs={self.planned.name: mean})
        return ReferenceDefense(self.planned.name, pairs, self.planned.swapped, findings)

    def _of_dimension(self, condition: Condition) -> tuple[list[Reference], Findings]:
        tutor = Tutor(self.planned.spec, condition.range, self.resources, **self.resources.prompt)
        clean = Condition(condition.dimension, condition.range)
        assert isinstance(self.resources.judge, JudgeSpec)  # no other is asked while a defense gets ready
        scorer = JudgeScorer(self.resources.judge, self.resources.builder, clean, self.resources)
        contexts = contexts_of(self.resources.examples)
        findings = Findings()
        alphas: tuple[float, float] | None = None
        if self.planned.name == CAP:
            pairs, alphas, findings = self._steered(tutor, scorer, contexts)
        elif self.planned.name == W_CAP:
            pairs = asked_references(tutor, contexts)
        else:
            scores = (reference_score(condition.range, HIGH), reference_score(condition.range, LOW))
            pairs = asked_references(tutor, contexts, scores)
        records = self._records(scorer, contexts, pairs, alphas)
        written = math.fsum(pair.seconds for pair in pairs)
        cost = {"once": findings.costs.get(self.planned.name, {}).get("once", 0.0), "context": written / len(pairs)}
        cost["text"] = written / len(self.resources.examples)
        return pairs, replace(findings, references=records, costs={self.planned.name: cost})

    def _steered(
        self, tutor: Tutor, scorer: JudgeScorer, contexts: Sequence[Example]
    ) -> tuple[list[Reference], tuple[float, float], Findings]:
        began, dimension = time.perf_counter(), scorer.condition.dimension
        vectors = self._vectors(tutor, scorer)
        standard = vectors.standard(self.planned.spec.layer)
        scale = float(vectors.norms[standard.layer - 1]) if self.planned.spec.alpha_unit == "norm" else 1.0
        tried: list[Strength] = []
        if self.planned.spec.strengths:
            training = contexts_of(self.resources.training(self.planned.name, "strengths"))
            targets = (vectors.low_threshold, vectors.high_threshold)
            strengths = [scale * strength for strength in self.planned.spec.strengths]
            tried = measure_strengths(tutor, training, standard, strengths, scorer, targets)
            tried = here().agree(lambda: tried)  # two that come equally near may be told apart by the last bit
        high, low = (
            selected_strength(tried, side) if given is None else scale * given
            for side, given in ((HIGH, self.planned.spec.alpha_high), (LOW, self.planned.spec.alpha_low))
        )
        once = time.perf_counter() - began
        pairs = steered_references(tutor, contexts, standard, high, low)
        known = {"dataset": self.resources.dataset, "dimension": dimension, "scale": scale}
        findings = Findings(
            standards=[_standard_record(vectors, standard.layer, scorer.condition)],
            vectors={dimension: vectors},
            strengths=[{**known, **asdict(strength)} for strength in tried],
            costs={self.planned.name: {"once": once}},
        )
        return pairs, (high, low), findings

    def _vectors(self, tutor: Tutor, scorer: JudgeScorer) -> StandardVectors:
        if self.planned.spec.vectors is None:
            training = contexts_of(self.resources.training(self.planned.name, "standard vectors"))
            judge = self.resources.judge.source.title
            return find_vectors(tutor, training, scorer, self.resources.dataset, judge, scorer.fingerprint)
        path = Path(self.planned.spec.vectors).expanduser()
        file = path / f"vectors_{scorer.condition.dimension}.safetensors" if path.is_dir() else path
        vectors = load_vectors(file, tutor.view.fingerprint, tutor.spec.sizes)
        if vectors.origin.dataset == self.resources.dataset:
            self.resources.refuse_test(vectors.origin.groups, f"tutor.vectors: {file}")
        return vectors

    def _records(
        self,
        scorer: JudgeScorer,
        contexts: Sequence[Example],
        pairs: Sequence[Reference],
        alphas: tuple[float, float] | None,
    ) -> list[dict[str, Any]]:
        """Records of what was written, with the judge's score of each text by itself."""
        texts = [
            written_example(context, f"{self.planned.name}/{side}", getattr(pair, side))
            for context, pair in zip(contexts, pairs, strict=True)
            for side in (HIGH, LOW)
        ]
        scores = [None if np.isnan(score) else score for score in scorer(texts).tolist()]
        return [
            {
                "defense": self.planned.name,
                "dimension": scorer.condition.dimension,
                "group_id": pair.group_id,
                "split": self.resources.split[pair.group_id],
                "high": pair.high,
                "low": pair.low,
                "score_high": scores[2 * i],
                "score_low": scores[2 * i + 1],
                "high_cut": pair.high_cut,
                "low_cut": pair.low_cut,
                "alpha_high": alphas[0] if alphas else None,
                "alpha_low": alphas[1] if alphas else None,
                "seconds": pair.seconds,
            }
            for i, pair in enumerate(pairs)
        ]


def _standard_record(vectors: StandardVectors, layer: int, condition: Condition) -> dict[str, Any]:
    arrays = ("separability", "chance", "norms", "scores", "low_points", "high_points", "shares")
    origin = asdict(vectors.origin)
    return {
        "dimension": condition.dimension,
        **{name: value for name, value in condition.range.columns.items() if name != "range_step"},
        **origin,
        "groups": list(vectors.origin.groups),
        "best_layer": best_layer(vectors.separability),
        "layer": layer,
        "low_threshold": vectors.low_threshold,
        "high_threshold": vectors.high_threshold,
        "high_count": len(vectors.high_points),
        "low_count": len(vectors.low_points),
        **{name: getattr(vectors, name).tolist() for name in arrays},
        "file": f"vectors_{condition.dimension}.safetensors",
    }
