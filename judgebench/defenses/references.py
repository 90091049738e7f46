"""Comparative augmented prompting (CAP): the judge compares the text with a poor and a good
reference, which a tutor writes, steered or asked."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from judgebench.defenses.prepared import SOURCES, Findings, Planned, Prepared, Resources, cost_of
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.rubrics import (
    REFERENCES,
    WITH_REFERENCES,
    before_judged,
    reference_score,
)
from judgebench.runtime.distributed import process_group
from judgebench.runtime.files import user_path
from judgebench.tutor.spec import TutorSpec
from judgebench.types import Condition, Example, Record, Rubric
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.tutor.steering import Standard
    from judgebench.tutor.texts import JudgeScorer, Reference
    from judgebench.tutor.vectors import StandardVectors
    from judgebench.tutor.writing import Tutor

CAP, W_CAP, RANDOM = REFERENCE_DEFENSES = ("cap", "w_cap", "random_reference")
"""References from a tutor that is steered; from one that is asked for a good and a poor text; from
one that is asked for texts of given scores."""

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
    """The rubric's own form with references where it has one, as the paper's prompts have; else
    words of ours before the heading of the judged text.

    Args:
        name: one of `REFERENCE_DEFENSES`.
        pairs: dimension -> group_id and question -> its references.
        swapped: True puts the good one under "lower" and the poor one under "higher".
    """

    name: str
    pairs: Mapping[str, Mapping[tuple[str, str], Reference]]
    swapped: bool = False
    findings: Findings = field(default_factory=Findings)
    compares: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = True

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        if WITH_REFERENCES in rubric.forms:
            return replace(rubric, template=rubric.forms[WITH_REFERENCES])
        head = before_judged(rubric)
        return replace(rubric, template=head + _BLOCK + rubric.template[len(head) :])

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        """See `Defense.more`; a prompt about nothing (group_id "") has references of nothing."""
        if not example.group_id:
            return dict.fromkeys(REFERENCES, "")
        pair = self.pairs[condition.dimension][example.group_id, example.question]
        texts = (pair.high, pair.low) if self.swapped else (pair.low, pair.high)
        return dict(zip(REFERENCES, texts, strict=True))


@dataclass(frozen=True, eq=False)
class PlannedReferences(Planned):
    """References that the tutor is to write: a pair for every context, the same for all that
    answers to it."""

    name: str
    spec: TutorSpec
    swapped: bool = False
    stage: ClassVar[str] = SOURCES
    compares: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = True

    def prepared(self, resources: Resources) -> ReferenceDefense:
        """Each dimension has standards of its own, chosen on the development split's contexts by
        the judge's scores in the run's first range."""
        first: dict[str, Condition] = {}
        for condition in resources.conditions:
            first.setdefault(condition.dimension, Condition(condition.dimension, condition.range))
        pairs = {}
        parts = []
        for dimension, condition in first.items():
            pairs[dimension], findings = self._written(resources, condition)
            parts.append(findings)
        costs = [findings.costs[self.name] for findings in parts]
        mean = {key: math.fsum(cost[key] for cost in costs) / len(costs) for key in costs[0]}
        return ReferenceDefense(
            self.name,
            pairs,
            self.swapped,
            replace(Findings.together(parts), costs={self.name: mean}),
        )

    def _written(
        self, resources: Resources, condition: Condition
    ) -> tuple[dict[tuple[str, str], Reference], Findings]:
        """The pairs of one dimension, and their records."""
        from judgebench.tutor import texts as tutor_texts  # they need torch
        from judgebench.tutor.writing import Tutor, contexts_of, written_example

        # 1. who writes, who scores, and for which contexts
        name = self.name
        tutor = Tutor(self.spec, condition.range, resources, **resources.prompt)
        # no other is asked while a defense gets ready
        assert isinstance(resources.judge, JudgeSpec)
        scorer = tutor_texts.JudgeScorer(resources.judge, resources.builder, condition, resources)
        contexts = contexts_of(resources.examples)
        # 2. the pairs
        findings = Findings()
        once = 0.0
        high = low = None
        if name == CAP:
            began = time.perf_counter()
            standard, (high, low), findings = self._steering(resources, tutor, scorer)
            once = time.perf_counter() - began
            pairs = tutor_texts.steered_references(tutor, contexts, standard, high, low)
        elif name == W_CAP:
            pairs = tutor_texts.asked_references(tutor, contexts)
        else:
            scores = (
                reference_score(condition.range, "high"),
                reference_score(condition.range, "low"),
            )
            pairs = tutor_texts.asked_references(tutor, contexts, scores)
        # 3. records, with the judge's score of each text by itself
        texts = [
            written_example(context, f"{name}/{side}", getattr(pair, side))
            for context, pair in zip(contexts, pairs, strict=True)
            for side in ("high", "low")
        ]
        judged = iter([None if np.isnan(score) else score for score in scorer(texts).tolist()])
        records = [
            {
                **{"defense": name, "dimension": condition.dimension, "group_id": pair.group_id},
                **{"split": resources.split[pair.group_id], "high": pair.high, "low": pair.low},
                **{"score_high": next(judged), "score_low": next(judged)},
                **{"high_cut": pair.high_cut, "low_cut": pair.low_cut},
                **{"alpha_high": high, "alpha_low": low, "seconds": pair.seconds},
            }
            for pair in pairs
        ]
        cost = cost_of(pairs, len(resources.examples), once)
        places = [(context.group_id, context.question) for context in contexts]
        found = replace(findings, references=records, costs={name: cost})
        return dict(zip(places, pairs, strict=True)), found

    def _steering(
        self, resources: Resources, tutor: Tutor, scorer: JudgeScorer
    ) -> tuple[Standard, tuple[float, float], Findings]:
        """CAP's standard, and the strengths towards its high and low side, as configured or chosen
        among several."""
        from judgebench.tutor.texts import measure_strengths, selected_strength
        from judgebench.tutor.vectors import find_vectors, load_vectors
        from judgebench.tutor.writing import contexts_of

        # 1. standard vectors, from candidates of the development split or read from a file
        spec = self.spec
        dimension = scorer.condition.dimension
        if spec.vectors is None:
            training = contexts_of(resources.training(self.name, "standard vectors"))
            vectors = find_vectors(
                tutor,
                training,
                scorer,
                resources.dataset,
                resources.judge.source.title,
                scorer.fingerprint,
            )
        else:
            path = user_path(spec.vectors)
            file = path / f"vectors_{dimension}.safetensors" if path.is_dir() else path
            vectors = load_vectors(file, tutor.view.fingerprint, tutor.spec.sizes)
            if vectors.origin.dataset == resources.dataset:
                resources.refuse_test(vectors.origin.groups, f"tutor.vectors: {file}")
        standard = vectors.standard(spec.layer)
        scale = float(vectors.norms[standard.layer - 1]) if spec.alpha_unit == "norm" else 1.0
        # 2. strengths
        tried = []
        if spec.strengths:
            training = contexts_of(resources.training(self.name, "strengths"))
            targets = (vectors.low_threshold, vectors.high_threshold)
            tried = measure_strengths(
                tutor, training, standard, [scale * x for x in spec.strengths], scorer, targets
            )
            # two that come equally near may differ in the last bit alone
            tried = process_group().agree(lambda: tried)
        high, low = (
            selected_strength(tried, side) if alpha is None else scale * alpha
            for side, alpha in (("high", spec.alpha_high), ("low", spec.alpha_low))
        )
        # 3. records
        place = {"dataset": resources.dataset, "dimension": dimension, "scale": scale}
        return (
            standard,
            (high, low),
            Findings(
                standards=[_standard_record(scorer.condition, vectors, standard.layer)],
                vectors={dimension: vectors},
                strengths=[{**place, **asdict(strength)} for strength in tried],
            ),
        )


def _standard_record(condition: Condition, vectors: StandardVectors, layer: int) -> Record:
    """The record of a dimension's standard vectors, which steer at `layer`."""
    from judgebench.tutor.vectors import best_layer

    return {
        "dimension": condition.dimension,
        **{name: value for name, value in condition.range.columns.items() if name != "range_step"},
        **asdict(vectors.origin),
        "groups": list(vectors.origin.groups),
        "best_layer": best_layer(vectors.separability),
        "layer": layer,
        "low_threshold": vectors.low_threshold,
        "high_threshold": vectors.high_threshold,
        "high_count": len(vectors.high_points),
        "low_count": len(vectors.low_points),
        **{
            name: getattr(vectors, name).tolist()
            for name in (
                "separability",
                "chance",
                "norms",
                "scores",
                "low_points",
                "high_points",
                "shares",
            )
        },
        "file": f"vectors_{condition.dimension}.safetensors",
    }


def planned_references(
    name: str, tutor: TutorSpec | None, swapped: bool = False
) -> PlannedReferences:
    """The defense of this name, `swapped` as the CAP paper's appendix prints it: the good text
    under "lower"; `UserError` where there is no tutor."""
    if tutor is None:
        raise UserError(
            f"defenses: {name} needs a tutor, who writes references; choose one with tutor=judge "
            "(the judge's own model), tutor=smollm2, or tutor=local tutor.path=DIR."
        )
    return PlannedReferences(name, tutor, swapped)
