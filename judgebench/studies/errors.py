"""Texts on which a judge errs: what it gives beyond the humans' mean to the texts of one system, or
of one third of lengths, compared with all others.

Intervals are Student's over groups (`judgebench.stats.ratios`).

There are no slices by the humans' score: a judge that is right on average gives less than the
humans to the texts that they scored highest, and more to the lowest, as soon as humans or judge err
at all (regression to the mean). Systems show it, too: a judge that tells texts apart poorly favors
bad ones. So a slice comes with the humans' mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judgebench.stats.clusters import Estimate, keys_of, unknown
from judgebench.stats.ratios import clustered_estimate
from judgebench.studies.paired import correct
from judgebench.studies.scores import JudgeScores
from judgebench.types import Array, Record, Rows

MOST_SYSTEMS = 100
"""More systems get no slice each."""

LEAST_DOUBLINGS = 0.5
"""How far lengths must differ, from the 5th percentile to the 95th, for slices by length."""


def error_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/errors.json, one a judge, decoding and range: bias, the mean error, in
    points of the humans' scale; slices (systems, thirds of lengths) with the humans' mean, the mean
    error, and apart, that less the mean of all other texts, with p, and p_holm over all slices;
    left_out: kind of slices -> the reason."""
    return [sample.head | _record(sample) for sample in samples]


def _record(sample: JudgeScores) -> Record:
    # raw scores, for calibrated ones have lost the errors that are looked for
    errors = sample.on_scale - sample.human
    used = np.isfinite(errors)
    errors = errors[used]
    groups = sample.clusters.number[used]
    human = sample.human[used]
    record: Record = {
        "texts": len(errors),
        "groups": len(np.unique(groups)),
        **unknown(["bias"]),
        "slices": [],
        "left_out": {},
        "reason": None,
    }
    if sample.scale is None or sample.scale[0] >= sample.scale[1]:
        return record | {"reason": "No errors: the humans' scale is unknown."}
    if len(errors) < 2:
        return record | {
            "reason": "No errors: there are fewer than two texts with a score and a rating."
        }
    if record["groups"] < 2:
        record["reason"] = "No intervals: there is one group, and they take at least two."
    # 1. all texts
    record |= keys_of("bias", _mean(errors, groups))
    # 2. slices, each compared with all other texts
    lengths = None
    if len(sample.texts):
        lengths = np.array([len(text.strip()) for text in sample.texts])[used]
    slices, record["left_out"] = _slices(sample.systems[used], lengths)
    for (kind, name), inside in slices.items():
        row = {
            "kind": kind,
            "slice": name,
            "texts": int(inside.sum()),
            "human": float(human[inside].mean()),
        }
        record["slices"].append(row | _slice_record(errors, groups, inside) | {"p_holm": None})
    # one correction over all slices: of twenty, one is apart by chance
    correct(record["slices"])
    return record


def _mean(errors: Array, groups: Array) -> Estimate:
    """The mean error, without an interval where errors do not vary."""
    mean = float(errors.mean())
    estimate, p = clustered_estimate(mean, (errors - mean) / len(errors), groups)
    return Estimate(mean) if p is None else estimate


def _slice_record(errors: Array, groups: Array, inside: Array) -> Record:
    """The mean error of the texts inside, and apart, that less the mean of all others."""
    error = _mean(errors[inside], groups[inside])
    others = float(errors[~inside].mean())
    apart = Estimate(error.value - others)
    p = None
    if len(errors) > 2 and len(np.unique(groups[inside])) > 1:
        # as in a regression on being inside, whose coefficient is the difference of two means
        texts = inside.sum()
        left = (errors - error.value) / texts
        right = (errors - others) / (len(errors) - texts)
        # two means are two parameters: CR1's (n - 1) / (n - 2)
        small = np.sqrt((len(errors) - 1) / (len(errors) - 2))
        influence = small * np.where(inside, left, -right)
        difference, p = clustered_estimate(apart.value, influence, groups)
        apart = apart if p is None else difference
    return keys_of("error", error) | keys_of("apart", apart) | {"p": p}


def _slices(
    systems: Array, lengths: Array | None
) -> tuple[dict[tuple[str, str], Array], dict[str, str]]:
    """(kind, slice) -> [n] which texts lie in it: systems, and thirds of lengths such as "up to 30
    characters"; and reasons for kinds that are left out."""
    slices = dict[tuple[str, str], Array]()
    left_out = dict[str, str]()
    names, counts = np.unique(systems, return_counts=True)
    if len(names) < 2:
        left_out["slices by system"] = "there is one system"
    elif counts.max() < 2:
        left_out["slices by system"] = "every system has one text"
    elif len(names) > MOST_SYSTEMS:
        left_out["slices by system"] = f"there are more than {MOST_SYSTEMS} systems"
    else:
        for name in names:
            slices["system", str(name)] = systems == name
    if lengths is None:
        left_out["slices by length"] = "the texts are not known"
        return slices, left_out
    thirds = _thirds(lengths)
    if len(thirds) > 1:
        # thirds by lengths of these very texts, for what is long depends on the task
        slices |= {("length", name): inside for name, inside in thirds.items()}
    else:
        left_out["slices by length"] = "texts differ little in length"
    return slices, left_out


def _thirds(lengths: Array) -> dict[str, Array]:
    """Name -> [n] the texts of each third of the lengths that holds any; none where lengths differ
    little."""
    # in doublings: a hundred characters more are much for a sentence and nothing for an essay
    shortest, longest = np.quantile(np.log2(np.maximum(lengths, 1)), [0.05, 0.95]).tolist()
    if longest - shortest < LEAST_DOUBLINGS:
        return {}
    first, second = np.quantile(lengths, [1 / 3, 2 / 3], method="lower").tolist()
    short = lengths <= first
    long = lengths > second
    thirds = {
        f"up to {first:,} characters": short,
        f"{first + 1:,} to {second:,} characters": ~short & ~long,
        f"more than {second:,} characters": long,
    }
    return {name: inside for name, inside in thirds.items() if inside.any()}
