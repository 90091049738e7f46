"""Comparative augmented prompting (CAP): the judge holds the text against a poor and a good reference."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from judgebench.defenses.prepared import SOURCES, Findings, Planned, Prepared, Resources
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.rubrics import JUDGED_FIELD, REFERENCES, WITH_REFERENCES, reference_score
from judgebench.runtime.distributed import here
from judgebench.runtime.errors import UserError
from judgebench.tutor.spec import TutorSpec
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
from judgebench.types import Condition, Example, Rubric

CAP, W_CAP, RANDOM = REFERENCE_DEFENSES = ("cap", "w_cap", "random_reference")
"""References from a tutor that is steered; from one that is asked for a good and a poor text; from one that is asked
for texts of given scores."""

_HEADING = re.compile(r"[^\n]*:\s*\Z")
_BLOCK = """Two references, written for the same source, show what scores mean. Rate the text that follows them by \
comparing it with both.

Reference 1, of lower quality (typically scored {low_score} of {max_range}):

{{Reference_low}}

Reference 2, of higher quality (typically scored {high_score} of {max_range}):

{{Reference_high}}

The text to rate, which is neither of the references:

"""


@dataclass(frozen=True, eq=False)
class ReferenceDefense(Prepared):
    """The rubric's own form with references where it has one, as the paper's prompts have; else words of ours before
    the heading of the judged text.

    Args:
        name: one of `REFERENCE_DEFENSES`.
        pairs: dimension -> group_id -> its references.
        swapped: True puts the good one under "lower" and the poor one under "higher".
    """

    name: str
    pairs: Mapping[str, Mapping[str, Reference]]
    swapped: bool = False
    findings: Findings = field(default_factory=Findings)
    compares: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = True

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        if WITH_REFERENCES in rubric.forms:
            return replace(rubric, template=rubric.forms[WITH_REFERENCES])
        field_ = JUDGED_FIELD.search(rubric.template)
        assert field_ is not None  # a rubric has one
        heading = _HEADING.search(rubric.template[: field_.start()])
        at = heading.start() if heading else field_.start()
        return replace(rubric, template=rubric.template[:at] + _BLOCK + rubric.template[at:])

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        """See `Defense.more`; a prompt about nothing (group_id "") has references of nothing."""
        if not example.group_id:
            return dict.fromkeys(REFERENCES, "")
        pair = self.pairs[condition.dimension][example.group_id]
        texts = (pair.high, pair.low) if self.swapped else (pair.low, pair.high)
        return dict(zip(REFERENCES, texts, strict=True))


@dataclass(frozen=True, eq=False)
class PlannedReferences(Planned):
    """References that the tutor is to write: a pair for every context, the same for all that answers to it."""

    name: str
    spec: TutorSpec
    swapped: bool = False
    stage: ClassVar[str] = SOURCES
    compares: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = True

    def prepared(self, resources: Resources) -> ReferenceDefense:
        """See `Planned.prepared`. Each dimension has standards of its own; they are found on the development split's
        contexts, by the judge's scores in the run's first range."""
        first = {condition.dimension: condition for condition in reversed(resources.conditions)}
        dimensions = dict.fromkeys(condition.dimension for condition in resources.conditions)
        parts = {dimension: self._of_dimension(resources, first[dimension]) for dimension in dimensions}
        pairs = {dimension: {pair.group_id: pair for pair in written} for dimension, (written, _) in parts.items()}
        together = Findings.together(findings for _, findings in parts.values())
        costs = [part.costs[self.name] for _, part in parts.values()]
        mean = {key: math.fsum(cost[key] for cost in costs) / len(costs) for key in costs[0]}
        return ReferenceDefense(self.name, pairs, self.swapped, replace(together, costs={self.name: mean}))

    def _of_dimension(self, resources: Resources, condition: Condition) -> tuple[list[Reference], Findings]:
        tutor = Tutor(self.spec, condition.range, resources, **resources.prompt)
        clean = Condition(condition.dimension, condition.range)
        assert isinstance(resources.judge, JudgeSpec)  # no other is asked while a defense gets ready
        scorer = JudgeScorer(resources.judge, resources.builder, clean, resources)
        contexts = contexts_of(resources.examples)
        findings = Findings()
        alphas: tuple[float, float] | None = None
        if self.name == CAP:
            pairs, alphas, findings = self._steered(resources, tutor, scorer, contexts)
        elif self.name == W_CAP:
            pairs = asked_references(tutor, contexts)
        else:
            scores = (reference_score(condition.range, HIGH), reference_score(condition.range, LOW))
            pairs = asked_references(tutor, contexts, scores)
        records = self._records(resources, scorer, contexts, pairs, alphas)
        written = math.fsum(pair.seconds for pair in pairs)
        cost = {"once": findings.costs.get(self.name, {}).get("once", 0.0), "context": written / len(pairs)}
        cost["text"] = written / len(resources.examples)
        return pairs, replace(findings, references=records, costs={self.name: cost})

    def _steered(
        self, resources: Resources, tutor: Tutor, scorer: JudgeScorer, contexts: Sequence[Example]
    ) -> tuple[list[Reference], tuple[float, float], Findings]:
        began, dimension = time.perf_counter(), scorer.condition.dimension
        vectors = self._vectors(resources, tutor, scorer)
        standard = vectors.standard(self.spec.layer)
        scale = float(vectors.norms[standard.layer - 1]) if self.spec.alpha_unit == "norm" else 1.0
        tried: list[Strength] = []
        if self.spec.strengths:
            training = contexts_of(resources.training(self.name, "strengths"))
            targets = (vectors.low_threshold, vectors.high_threshold)
            strengths = [scale * strength for strength in self.spec.strengths]
            tried = measure_strengths(tutor, training, standard, strengths, scorer, targets)
            tried = here().agree(lambda: tried)  # two that come equally near may be told apart by the last bit
        high, low = (
            selected_strength(tried, side) if given is None else scale * given
            for side, given in ((HIGH, self.spec.alpha_high), (LOW, self.spec.alpha_low))
        )
        once = time.perf_counter() - began
        pairs = steered_references(tutor, contexts, standard, high, low)
        known = {"dataset": resources.dataset, "dimension": dimension, "scale": scale}
        findings = Findings(
            standards=[_standard_record(vectors, standard.layer, scorer.condition)],
            vectors={dimension: vectors},
            strengths=[{**known, **asdict(strength)} for strength in tried],
            costs={self.name: {"once": once}},
        )
        return pairs, (high, low), findings

    def _vectors(self, resources: Resources, tutor: Tutor, scorer: JudgeScorer) -> StandardVectors:
        if self.spec.vectors is None:
            training = contexts_of(resources.training(self.name, "standard vectors"))
            judge = resources.judge.source.title
            return find_vectors(tutor, training, scorer, resources.dataset, judge, scorer.fingerprint)
        path = Path(self.spec.vectors).expanduser()
        file = path / f"vectors_{scorer.condition.dimension}.safetensors" if path.is_dir() else path
        vectors = load_vectors(file, tutor.view.fingerprint, tutor.spec.sizes)
        if vectors.origin.dataset == resources.dataset:
            resources.refuse_test(vectors.origin.groups, f"tutor.vectors: {file}")
        return vectors

    def _records(
        self,
        resources: Resources,
        scorer: JudgeScorer,
        contexts: Sequence[Example],
        pairs: Sequence[Reference],
        alphas: tuple[float, float] | None,
    ) -> list[dict[str, Any]]:
        """Records of what was written, with the judge's score of each text by itself."""
        texts = [
            written_example(context, f"{self.name}/{side}", getattr(pair, side))
            for context, pair in zip(contexts, pairs, strict=True)
            for side in (HIGH, LOW)
        ]
        scores = [None if np.isnan(score) else score for score in scorer(texts).tolist()]
        return [
            {
                "defense": self.name,
                "dimension": scorer.condition.dimension,
                "group_id": pair.group_id,
                "split": resources.split[pair.group_id],
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


def planned_references(name: str, tutor: TutorSpec | None, swapped: bool) -> PlannedReferences:
    """The defense of this name; `UserError` where there is no tutor."""
    if tutor is None:
        raise UserError(
            f"defenses: {name} needs a tutor, who writes references; choose one with tutor=judge (the judge's own "
            "model), tutor=smollm2, or tutor=local tutor.path=DIR."
        )
    return PlannedReferences(name, tutor, swapped)


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
