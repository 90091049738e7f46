"""The references of CAP and its variants, as a tutor writes them: asked for, or steered."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from judgebench.defenses.prepared import Findings, Resources
from judgebench.defenses.references import CAP, W_CAP, PlannedReferences, ReferenceDefense
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.rubrics import reference_score
from judgebench.runtime.distributed import here
from judgebench.tutor.steering import HIGH, LOW, Standard
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
from judgebench.tutor.vectors import best_layer, find_vectors, load_vectors
from judgebench.types import Condition


def written_references(planned: PlannedReferences, resources: Resources) -> ReferenceDefense:
    """The defense with the references of all dimensions."""
    first = {condition.dimension: condition for condition in reversed(resources.conditions)}
    dimensions = dict.fromkeys(condition.dimension for condition in resources.conditions)
    pairs: dict[str, dict[str, Reference]] = {}
    parts = []
    for dimension in dimensions:
        written, findings = _of_dimension(planned, resources, first[dimension])
        pairs[dimension] = {pair.group_id: pair for pair in written}
        parts.append(findings)
    costs = [findings.costs[planned.name] for findings in parts]
    mean = {key: math.fsum(cost[key] for cost in costs) / len(costs) for key in costs[0]}
    together = replace(Findings.together(parts), costs={planned.name: mean})
    return ReferenceDefense(planned.name, pairs, planned.swapped, together)


def _of_dimension(
    planned: PlannedReferences, resources: Resources, condition: Condition
) -> tuple[list[Reference], Findings]:
    """A pair a context, and what was found; `condition` is the dimension's first, in whose range the judge scores."""
    # 1. who writes, who scores, and for which contexts
    name, tutor = planned.name, Tutor(planned.spec, condition.range, resources, **resources.prompt)
    clean = Condition(condition.dimension, condition.range)
    assert isinstance(resources.judge, JudgeSpec)  # no other is asked while a defense gets ready
    scorer = JudgeScorer(resources.judge, resources.builder, clean, resources)
    contexts = contexts_of(resources.examples)
    # 2. the pairs
    findings, once = Findings(), 0.0
    alphas: tuple[float, float] | tuple[None, None] = (None, None)
    if name == CAP:
        began = time.perf_counter()
        standard, (high, low), findings = _strengths(planned, resources, tutor, scorer)
        alphas, once = (high, low), time.perf_counter() - began
        pairs = steered_references(tutor, contexts, standard, high, low)
    elif name == W_CAP:
        pairs = asked_references(tutor, contexts)
    else:
        scores = (reference_score(condition.range, HIGH), reference_score(condition.range, LOW))
        pairs = asked_references(tutor, contexts, scores)
    # 3. records, with the judge's score of each text by itself
    texts = [
        written_example(context, f"{name}/{side}", getattr(pair, side))
        for context, pair in zip(contexts, pairs, strict=True)
        for side in (HIGH, LOW)
    ]
    judged = iter([None if np.isnan(score) else score for score in scorer(texts).tolist()])
    records = [
        {
            **{"defense": name, "dimension": condition.dimension, "group_id": pair.group_id},
            **{"split": resources.split[pair.group_id], "high": pair.high, "low": pair.low},
            **{"score_high": next(judged), "score_low": next(judged)},
            **{"high_cut": pair.high_cut, "low_cut": pair.low_cut},
            **{"alpha_high": alphas[0], "alpha_low": alphas[1], "seconds": pair.seconds},
        }
        for pair in pairs
    ]
    seconds = math.fsum(pair.seconds for pair in pairs)
    cost = {"once": once, "context": seconds / len(pairs), "text": seconds / len(resources.examples)}
    return pairs, replace(findings, references=records, costs={name: cost})


def _strengths(
    planned: PlannedReferences, resources: Resources, tutor: Tutor, scorer: JudgeScorer
) -> tuple[Standard, tuple[float, float], Findings]:
    """CAP's standard, and the strengths towards its high and low side, as configured or chosen among those tried."""
    spec, dimension = planned.spec, scorer.condition.dimension
    # 1. standard vectors, found on the development split or read from a file
    if spec.vectors is None:
        training = contexts_of(resources.training(planned.name, "standard vectors"))
        judge = resources.judge.source.title
        vectors = find_vectors(tutor, training, scorer, resources.dataset, judge, scorer.fingerprint)
    else:
        path = Path(spec.vectors).expanduser()
        file = path / f"vectors_{dimension}.safetensors" if path.is_dir() else path
        vectors = load_vectors(file, tutor.view.fingerprint, tutor.spec.sizes)
        if vectors.origin.dataset == resources.dataset:
            resources.refuse_test(vectors.origin.groups, f"tutor.vectors: {file}")
    standard = vectors.standard(spec.layer)
    scale = float(vectors.norms[standard.layer - 1]) if spec.alpha_unit == "norm" else 1.0
    # 2. strengths
    tried: list[Strength] = []
    if spec.strengths:
        training = contexts_of(resources.training(planned.name, "strengths"))
        targets = (vectors.low_threshold, vectors.high_threshold)
        tried = measure_strengths(tutor, training, standard, [scale * x for x in spec.strengths], scorer, targets)
        tried = here().agree(lambda: tried)  # two that come equally near may differ in the last bit alone
    high, low = (
        selected_strength(tried, side) if alpha is None else scale * alpha
        for side, alpha in ((HIGH, spec.alpha_high), (LOW, spec.alpha_low))
    )
    # 3. records
    arrays = ("separability", "chance", "norms", "scores", "low_points", "high_points", "shares")
    record = {
        "dimension": dimension,
        **{name: value for name, value in scorer.condition.range.columns.items() if name != "range_step"},
        **asdict(vectors.origin),
        "groups": list(vectors.origin.groups),
        "best_layer": best_layer(vectors.separability),
        "layer": standard.layer,
        "low_threshold": vectors.low_threshold,
        "high_threshold": vectors.high_threshold,
        "high_count": len(vectors.high_points),
        "low_count": len(vectors.low_points),
        **{name: getattr(vectors, name).tolist() for name in arrays},
        "file": f"vectors_{dimension}.safetensors",
    }
    place = {"dataset": resources.dataset, "dimension": dimension, "scale": scale}
    strengths = [{**place, **asdict(strength)} for strength in tried]
    return standard, (high, low), Findings(standards=[record], vectors={dimension: vectors}, strengths=strengths)
