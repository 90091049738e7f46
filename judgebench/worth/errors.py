"""Causes of a judge's errors: what it gives beyond the humans' mean, by the length, form and author of the text.

Two views of the same errors. A regression holds factors of the text beside each other: length, form and the judge's
own family. Slices compare the texts of one system, or of one third of lengths, with all others. Standard errors are
clustered by group (CR1), with Student's t of one degree of freedom less than there are groups.

There are no slices by the humans' score: a judge that is right on average gives less than the humans to the texts that
they scored highest, and more to the lowest, as soon as humans or judge err at all (regression to the mean).
Systems show it, too: a judge that tells texts apart poorly favors bad ones. So a slice has the humans' mean beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from judgebench.metrics.resampling import CONFIDENCE, FEWEST, holm
from judgebench.worth.judge_scores import JudgeScores

MOST_SYSTEMS = 100
"""More systems get no slice each."""

_NEAR = 1e-9

LEAST = {"length": 0.5, "format": 0.5}
"""How far texts must differ, from the 5th percentile to the 95th of lengths (in doublings), and from the least to the
most marked-up (share of lines), so that a coefficient is no extrapolation."""

_MARKED = re.compile(r"\s*(?:[-*+•–]\s|\d{1,3}[.)]\s|#{1,6}\s|```|~~~|>\s|\|.*\|)|.*\*\*[^*\s][^*]*\*\*")
"""A line of a list, a heading, a fence of code, a quotation or a table, or one with bold words."""

FAMILIES = (
    *("gpt", "claude", "gemini", "gemma", "llama", "mistral", "mixtral", "qwen", "qwq", "phi", "deepseek", "command"),
    *("falcon", "olmo", "vicuna", "alpaca", "yi", "glm", "granite", "nemotron", "smollm", "grok", "palm", "bard"),
    *("prometheus", "internlm", "baichuan", "zephyr", "kimi", "minimax", "dolly", "mpt", "opt", "bloom", "pythia"),
    *("stablelm", "starcoder", "nova", "jamba", "bart", "pegasus"),
)
"""Names of families of models, as they stand in the names of models and systems."""


class Regression(NamedTuple):
    """A least-squares regression with clustered errors.

    Attributes:
        estimates, errors: [k] coefficients and their standard errors; NaN with fewer than two groups.
        freedom: degrees of freedom of Student's t.
    """

    estimates: np.ndarray
    errors: np.ndarray
    freedom: int

    def record(self, at: int) -> dict[str, float | None]:
        """A coefficient with its 95 % interval and p; None where it has no error, as with one group or without any
        noise."""
        estimate, error = float(self.estimates[at]), float(self.errors[at])
        if not error > _NEAR:
            return {"estimate": estimate, "estimate_low": None, "estimate_high": None, "p": None}
        far = error * float(special.stdtrit(self.freedom, CONFIDENCE[1]))
        p = 2 * float(special.stdtr(self.freedom, -abs(estimate) / error))
        return {"estimate": estimate, "estimate_low": estimate - far, "estimate_high": estimate + far, "p": p}


def clustered_regression(factors: np.ndarray, outcome: np.ndarray, groups: np.ndarray) -> Regression:
    """The ordinary least-squares regression of outcome [n] on factors [n, k], with errors clustered by groups [n]
    (labels): the sandwich with the correction G / (G - 1) x (n - 1) / (n - k), known as CR1 and Stata's. Cameron and
    Miller, "A Practitioner's Guide to Cluster-Robust Inference" (2015).

    Raises:
        ValueError: factors that are not of full rank, or as many as texts.
    """
    n, k = factors.shape
    if n <= k or np.linalg.matrix_rank(factors) < k:
        raise ValueError(f"{k} factors of {n} texts do not have one solution")
    bread = np.linalg.inv(factors.T @ factors)
    estimates = bread @ (factors.T @ outcome)
    labels, group = np.unique(groups, return_inverse=True)
    count = len(labels)
    if count < 2:
        return Regression(estimates, np.full(k, np.nan), 0)
    shares = np.zeros((count, k))
    np.add.at(shares, group, factors * (outcome - factors @ estimates)[:, None])
    variance = bread @ (shares.T @ shares) @ bread * (count / (count - 1) * (n - 1) / (n - k))
    return Regression(estimates, np.sqrt(np.maximum(np.diag(variance), 0.0)), count - 1)


def doublings(texts: Sequence[str]) -> np.ndarray:
    """[N] log2 of the number of characters, 0 for an empty text: one more is twice as long."""
    return np.log2([max(1, len(text.strip())) for text in texts])


def marked_share(text: str) -> float:
    """The share of a text's lines that are marked up: of lists, headings, code, quotations and tables, or with bold
    words; 0 without lines.

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
    return next((family for family in FAMILIES if family in _words(model or "")), None)


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name.lower())


def error_records(sides: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """A record for each judge, decoding and range: its head; texts, groups; bias, the mean error with its interval, in
    points of the humans' scale; factors: of the regression, each with factor, estimate with its interval, p, and
    p_holm over these; slices: kind (system, length), slice, texts; human, the humans' mean; error, the mean, and
    apart, that less the mean of all other texts, both with intervals; p of apart, and p_holm over all slices; left_out:
    factor or slice -> the reason; reason: why nothing is known, else None."""
    measured: dict[Any, _Texts] = {}
    found = []
    for side in sides:
        key = (tuple(side.names.tolist()), side.model)
        if key not in measured:
            measured[key] = _Texts.of(side)
        found.append(side.head | _record(side, measured[key]))
    return found


class _Texts(NamedTuple):
    """Texts as they are, whatever the judge said of them."""

    factors: Mapping[str, np.ndarray]
    lengths: np.ndarray | None
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, side: JudgeScores) -> _Texts:
        factors: dict[str, np.ndarray] = {}
        left_out: dict[str, str] = {}
        if len(side.texts):
            factors["length"] = doublings(side.texts)
            factors["format"] = np.array([marked_share(text) for text in side.texts])
        else:
            left_out |= dict.fromkeys(("length", "format"), "the texts are not known")
        family = family_of(side.model)
        if family is None:
            left_out["family"] = "the judge's name tells no family of models"
        else:
            factors["family"] = np.array([family in _words(str(name)) for name in side.systems], dtype=np.float64)
        lengths = np.array([len(text.strip()) for text in side.texts]) if len(side.texts) else None
        return cls(factors, lengths, left_out)


_SAME = {
    "length": "texts differ little in length",
    "format": "texts differ little in marked-up lines",
    "family": "no system, or every one, is of the judge's family by its name",
}
_ENDS = ("estimate_low", "estimate_high")


def _record(side: JudgeScores, texts: _Texts) -> dict[str, Any]:
    errors = side.on_scale - side.human
    used = np.isfinite(errors)
    record: dict[str, Any] = {"texts": int(used.sum()), "groups": len(np.unique(side.groups[used]))}
    nothing: dict[str, Any] = {
        "bias": None,
        "bias_low": None,
        "bias_high": None,
        "factors": [],
        "slices": [],
        "left_out": {},
    }
    if side.scale is None or side.scale[0] >= side.scale[1]:
        return record | nothing | {"reason": "No errors: nobody knows the humans' scale."}
    if used.sum() < 2:
        return record | nothing | {"reason": "No errors: there are fewer than two texts with a score and a rating."}
    errors, groups = errors[used], side.groups[used]
    mean = clustered_regression(np.ones((len(errors), 1)), errors, groups).record(0)
    record |= {"bias": mean["estimate"], "bias_low": mean["estimate_low"], "bias_high": mean["estimate_high"]}
    factors, left_out = _factors(texts, used, errors, groups)
    slices, without = _slices(side.systems[used], None if texts.lengths is None else texts.lengths[used])
    one = None if record["groups"] > 1 else "No intervals: there is one group, and they take at least two."
    return record | {
        "factors": factors,
        "slices": _compared(slices, errors, side.human[used], groups),
        "left_out": left_out | without,
        "reason": one,
    }


def _factors(
    texts: _Texts, used: np.ndarray, errors: np.ndarray, groups: np.ndarray
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The regression's coefficients, and reasons for what is left out."""
    left_out, columns = dict(texts.left_out), [np.ones(len(errors))]
    names: list[str] = []
    for name, values in texts.factors.items():
        values = values[used]
        if _span(name, values) < LEAST.get(name, _NEAR):
            left_out[name] = _SAME[name]
        elif _differing(values, groups) < FEWEST <= len(np.unique(groups)):
            left_out[name] = f"fewer than {FEWEST} groups have texts that differ in it"
        elif len(errors) <= len(columns) + 1:
            left_out[name] = "there are too few texts"
        elif np.linalg.matrix_rank(np.column_stack([*columns, values - values.mean()])) <= len(columns):
            left_out[name] = "it goes with the other factors, so their shares cannot be told apart"
        else:
            names.append(name)
            columns.append(values - values.mean())
    if not names:
        return [], left_out
    fitted = clustered_regression(np.column_stack(columns), errors, groups)
    return _corrected([{"factor": name, **fitted.record(k)} for k, name in enumerate(names, start=1)]), left_out


def _span(name: str, values: np.ndarray) -> float:
    low, high = np.quantile(values, [0.05, 0.95] if name == "length" else [0.0, 1.0])
    return float(high - low)


def _differing(values: np.ndarray, groups: np.ndarray) -> int:
    """The number of groups with a text off the most frequent value: with few, clustered errors are too small."""
    kinds, counts = np.unique(values, return_counts=True)
    return len(np.unique(groups[values != kinds[counts.argmax()]]))


def _slices(
    systems: np.ndarray, lengths: np.ndarray | None
) -> tuple[dict[tuple[str, str], np.ndarray], dict[str, str]]:
    """(kind, slice) -> [n] which texts lie in it, and reasons for kinds that are left out."""
    found: dict[tuple[str, str], np.ndarray] = {}
    left_out: dict[str, str] = {}
    names, counts = np.unique(systems, return_counts=True)
    if not 2 <= len(names) <= MOST_SYSTEMS or counts.max() < 2:
        left_out["slices by system"] = (
            "there is one system"
            if len(names) < 2
            else "every system has one text"
            if counts.max() < 2
            else f"there are more than {MOST_SYSTEMS} systems"
        )
    else:
        found |= {("system", str(name)): systems == name for name in names}
    differ = lengths is not None and _span("length", np.log2(np.maximum(lengths, 1))) >= LEAST["length"]
    thirds = _thirds(lengths) if lengths is not None and differ else {}
    if thirds:
        found |= {("length", name): of for name, of in thirds.items()}
    else:
        left_out["slices by length"] = "the texts are not known" if lengths is None else "texts differ little in length"
    return found, left_out


def _thirds(lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Texts by thirds of their lengths [n], such as "up to 30 characters"; nothing where fewer than two hold any."""
    first, second = np.quantile(lengths, [1 / 3, 2 / 3], method="lower").astype(int).tolist()
    parts = {
        f"up to {first:,} characters": lengths <= first,
        f"{first + 1:,} to {second:,} characters": (lengths > first) & (lengths <= second),
        f"more than {second:,} characters": lengths > second,
    }
    held = {name: of for name, of in parts.items() if of.any()}
    return held if len(held) > 1 else {}


def _compared(
    slices: Mapping[tuple[str, str], np.ndarray], errors: np.ndarray, human: np.ndarray, groups: np.ndarray
) -> list[dict[str, Any]]:
    """The mean error in each slice, and how far that is from all other texts'."""
    records = []
    for (kind, name), of in slices.items():
        record: dict[str, Any] = {"kind": kind, "slice": name, "texts": int(of.sum()), "human": float(human[of].mean())}
        mean: dict[str, float | None] = dict.fromkeys(_ENDS)
        if of.sum() > 1:
            mean |= clustered_regression(np.ones((of.sum(), 1)), errors[of], groups[of]).record(0)
        record |= {"error": float(errors[of].mean()), "error_low": mean[_ENDS[0]], "error_high": mean[_ENDS[1]]}
        apart: dict[str, Any] = {"estimate": float(errors[of].mean() - errors[~of].mean()), **dict.fromkeys(_ENDS)}
        if len(errors) > 2 and len(np.unique(groups[of])) > 1:
            design = np.column_stack([np.ones(len(errors)), of])
            apart |= clustered_regression(design, errors, groups).record(1)
        record |= {"apart": apart["estimate"], "apart_low": apart[_ENDS[0]], "apart_high": apart[_ENDS[1]]}
        records.append(record | {"p": apart.get("p")})
    return _corrected(records)


def _corrected(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records with p corrected over all that have one, as p_holm."""
    known = [record["p"] for record in records if record["p"] is not None]
    found = iter(holm(np.array(known)).tolist())
    return [record | {"p_holm": None if record["p"] is None else next(found)} for record in records]
