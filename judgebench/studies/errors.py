"""Causes of a judge's errors: what it gives beyond the humans' mean, by the length, form and author
of the text.

Two views of the same errors. A regression has factors of the text together: length, form and the
judge's own family. Slices compare the texts of one system, or of one third of lengths, with all
others. Standard errors are clustered by group (CR1), with Student's t of one degree of freedom less
than there are groups.

There are no slices by the humans' score: a judge that is right on average gives less than the
humans to the texts that they scored highest, and more to the lowest, as soon as humans or judge err
at all (regression to the mean). Systems show it, too: a judge that tells texts apart poorly favors
bad ones. So a slice comes with the humans' mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import CONFIDENCE, FEWEST, Estimate, keys_of, unknown
from judgebench.studies.paired import correct
from judgebench.studies.scores import JudgeScores
from judgebench.types import Array, Record, Rows

MOST_SYSTEMS = 100
"""More systems get no slice each."""

LEAST = {"length": 0.5, "format": 0.5}
"""How far texts must differ, from the 5th percentile to the 95th of lengths (in doublings), and
from the least to the most marked-up (share of lines), so that a coefficient is no extrapolation."""

FAMILIES = (
    "gpt",
    "claude",
    "gemini",
    "gemma",
    "llama",
    "mistral",
    "mixtral",
    "qwen",
    "qwq",
    "phi",
    "deepseek",
    "command",
    "falcon",
    "olmo",
    "vicuna",
    "alpaca",
    "yi",
    "glm",
    "granite",
    "nemotron",
    "smollm",
    "grok",
    "palm",
    "bard",
    "prometheus",
    "internlm",
    "baichuan",
    "zephyr",
    "kimi",
    "minimax",
    "dolly",
    "mpt",
    "opt",
    "bloom",
    "pythia",
    "stablelm",
    "starcoder",
    "nova",
    "jamba",
    "bart",
    "pegasus",
)
"""Names of families of models, as they stand in the names of models and systems."""

_MARKED = re.compile(
    r"\s*(?:[-*+•–]\s|\d{1,3}[.)]\s|#{1,6}\s|```|~~~|>\s|\|.*\|)|.*\*\*[^*\s][^*]*\*\*"
)
"""A line of a list, a heading, a fence of code, a quotation or a table, or one with bold words."""

_SAME = {
    "length": "texts differ little in length",
    "format": "texts differ little in marked-up lines",
    "family": "no system, or every one, is of the judge's family by its name",
}
_UNKNOWN = "the texts are not known"
_NEAR = 1e-9


def clustered_regression(
    factors: Array, outcome: Array, groups: Array
) -> list[tuple[Estimate, float | None]]:
    """The ordinary least-squares regression of outcome [n] on factors [n, k] of full rank, with
    errors clustered by groups [n] (labels): CR1, Stata's, (X'X)^-1 (sum_g X_g'e_g e_g'X_g) (X'X)^-1
    G/(G-1) (n-1)/(n-k). Cameron and Miller, "A Practitioner's Guide to Cluster-Robust Inference"
    (2015).

    Returns:
        Of each factor its coefficient with a 95 % interval, and p; neither interval nor p where
            there is no error, as with one group or without any noise.
    """
    number = np.unique(groups, return_inverse=True)[1]
    freedom = int(number.max())
    if freedom < 1:
        estimates = np.linalg.lstsq(factors, outcome)[0]
        errors = np.zeros(factors.shape[1])
    else:
        n, k = factors.shape
        # the sandwich: bread (X'X)^-1 = pinv pinv', meat the outer products of the groups' sums
        inverse = np.linalg.pinv(factors)  # [k, n]
        estimates = inverse @ outcome
        rest = outcome - factors @ estimates
        sums = np.zeros((freedom + 1, k))
        np.add.at(sums, number, factors * rest[:, None])
        # where n = k there is no error at all
        small = (freedom + 1) / freedom * (n - 1) / max(n - k, 1)
        scattered = inverse @ inverse.T @ sums.T  # [k, G]
        errors = np.sqrt(small * (scattered**2).sum(axis=1))
    coefficients: list[tuple[Estimate, float | None]] = []
    for estimate, error in zip(estimates.tolist(), errors.tolist(), strict=True):
        # no error, no p: where there is no noise a test would divide by 0
        if error <= _NEAR:
            coefficients.append((Estimate(estimate), None))
            continue
        far = error * float(scipy.special.stdtrit(freedom, CONFIDENCE[1]))
        p = 2 * float(scipy.special.stdtr(freedom, -abs(estimate) / error))
        coefficients.append((Estimate(estimate, estimate - far, estimate + far), p))
    return coefficients


def marked_share(text: str) -> float:
    """The share of a text's lines that are marked up: of lists, headings, code, quotations and
    tables, or with bold words; 0 without lines.

    Example:
        >>> marked_share("Two reasons:\\n- speed\\n- **cost**\\n\\nThat is all.")
        0.5
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return sum(bool(_MARKED.match(line)) for line in lines) / len(lines) if lines else 0.0


def family_of(model: str | None) -> str | None:
    """The family of a model by its name, of `FAMILIES`; None where it names none.

    Example:
        >>> family_of("meta-llama/Llama-3.1-8B"), family_of("gpt-4o"), family_of("judge")
        ('llama', 'gpt', None)
    """
    # whole words of letters: "opt" is not found in "adopted"
    return next((family for family in FAMILIES if family in _words(model or "")), None)


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name.lower())


# --- the study ----------------------------------------------------------------------------------


def error_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/errors.json, one a judge, decoding and range: bias, the mean error, in
    points of the humans' scale; factors of the regression; slices (systems, thirds of lengths) with
    the humans' mean, the mean error, and apart, that less the mean of all other texts; left_out:
    factor or slice -> the reason; p_holm over all factors, and over all slices."""
    # for all samples that judged the same texts
    of_texts: dict[Any, dict[str, Array | str]] = {}
    records = []
    for sample in samples:
        key = (tuple(sample.names.tolist()), sample.model)
        if key not in of_texts:
            of_texts[key] = text_factors(sample)
        records.append(sample.head | _record(sample, of_texts[key]))
    return records


def text_factors(sample: JudgeScores) -> dict[str, Array | str]:
    """length (log2 of the characters: one more is twice as long), format, family -> [N] of the
    texts, independent of what the judge said; or why it is unknown."""
    factors: dict[str, Array | str] = {"length": _UNKNOWN, "format": _UNKNOWN}
    if len(sample.texts):
        lengths = [max(1, len(text.strip())) for text in sample.texts]
        # In doublings: a hundred characters more are much for a sentence and nothing for an essay.
        factors["length"] = np.log2(lengths)
        factors["format"] = np.array([marked_share(text) for text in sample.texts])
    family = family_of(sample.model)
    factors["family"] = "the judge's name tells no family of models"
    if family is not None:
        of_family = [float(family in _words(str(name))) for name in sample.systems]
        factors["family"] = np.array(of_family)
    return factors


def _record(sample: JudgeScores, of_texts: Mapping[str, Array | str]) -> Record:
    # raw scores, for calibrated ones have lost the errors that are looked for
    errors = sample.on_scale - sample.human
    used = np.isfinite(errors)
    errors = errors[used]
    groups = sample.groups[used]
    human = sample.human[used]
    systems = sample.systems[used]
    record: Record = {
        "texts": len(errors),
        "groups": len(np.unique(groups)),
        **unknown(["bias"]),
        "factors": [],
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
    ones = np.ones(len(errors))
    ((bias, _),) = clustered_regression(ones[:, None], errors, groups)
    record |= keys_of("bias", bias)
    # 2. factors together
    factors = {}
    for name, values in of_texts.items():
        factors[name] = values if isinstance(values, str) else values[used]
    columns, left_out = _columns(factors, groups)
    if columns:
        # together, or the length would take what belongs to the form of long texts
        design = np.column_stack([ones, *columns.values()])
        _, *fitted = clustered_regression(design, errors, groups)
        for name, (estimate, p) in zip(columns, fitted, strict=True):
            row = {"factor": name} | keys_of("estimate", estimate) | {"p": p, "p_holm": None}
            record["factors"].append(row)
        correct(record["factors"])
    # 3. slices, each compared with all other texts
    lengths = None
    if len(sample.texts):
        lengths = np.array([len(text.strip()) for text in sample.texts])[used]
    slices, without = _slices(systems, lengths)
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
    return record | {"left_out": left_out | without}


def _slice_record(errors: Array, groups: Array, inside: Array) -> Record:
    """The mean error of the texts inside, and apart, that less the mean of all others."""
    ones = np.ones(len(errors))
    own_errors = errors[inside]
    own_groups = groups[inside]
    mean = float(own_errors.mean())
    others = float(errors[~inside].mean())
    error = Estimate(mean)
    apart = Estimate(mean - others)
    p = None
    if len(own_errors) > 1:
        ((error, _),) = clustered_regression(ones[inside, None], own_errors, own_groups)
    if len(errors) > 2 and len(np.unique(own_groups)) > 1:
        # a regression on being inside: its coefficient is the difference of two means, with errors
        # by groups
        design = np.column_stack([ones, inside])
        _, (apart, p) = clustered_regression(design, errors, groups)
    return keys_of("error", error) | keys_of("apart", apart) | {"p": p}


def _columns(
    factors: Mapping[str, Array | str], groups: Array
) -> tuple[dict[str, Array], dict[str, str]]:
    """Centered columns [n] of the factors that can be told from each other and from chance; reasons
    for the others."""
    columns = dict[str, Array]()
    left_out = {n: values for n, values in factors.items() if isinstance(values, str)}
    for name, values in factors.items():
        if isinstance(values, str):
            continue
        # with few groups that have a text off the most frequent value, clustered errors are too
        # small
        kinds, counts = np.unique(values, return_counts=True)
        usual = kinds[counts.argmax()]
        differing = len(np.unique(groups[values != usual]))
        centered = values - values.mean()
        design = np.column_stack([np.ones(len(values)), *columns.values(), centered])
        if _span(name, values) < LEAST.get(name, _NEAR):
            left_out[name] = _SAME[name]
        elif differing < FEWEST <= len(np.unique(groups)):
            left_out[name] = f"fewer than {FEWEST} groups have texts that differ in it"
        elif len(values) <= design.shape[1]:
            left_out[name] = "there are too few texts"
        # in the order of the factors: the first of two that go together stays
        elif np.linalg.matrix_rank(design) < design.shape[1]:
            left_out[name] = "it goes with the other factors, so their shares cannot be separated"
        else:
            columns[name] = centered
    return columns, left_out


def _span(name: str, values: Array) -> float:
    low, high = np.quantile(values, [0.05, 0.95] if name == "length" else [0.0, 1.0])
    return float(high - low)


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
        left_out["slices by length"] = _UNKNOWN
        return slices, left_out
    thirds = _thirds(lengths)
    if len(thirds) > 1:
        # thirds by lengths of these very texts, for what is long depends on the task
        slices |= {("length", name): inside for name, inside in thirds.items()}
    else:
        left_out["slices by length"] = _SAME["length"]
    return slices, left_out


def _thirds(lengths: Array) -> dict[str, Array]:
    """Name -> [n] the texts of each third of the lengths that holds any; none where lengths differ
    little."""
    logarithms = np.log2(np.maximum(lengths, 1))
    if _span("length", logarithms) < LEAST["length"]:
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
