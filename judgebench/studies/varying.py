"""Factors that vary in the data by themselves, and may move a judge: length, format, place in the file, the
segments that the data names, the family of the system."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from judgebench.data.markdown import has_markdown
from judgebench.types import Array, Example

MOST_LEVELS = 8
"""Levels of a segment, or families, that have an effect each; rarer ones are taken together."""

OTHERS = "others"
FAMILY = "family"
OWN = "own family"

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^a-z0-9]+")


class Factor(NamedTuple):
    """Something that varies, or a value of it.

    Attributes:
        name: as "language".
        level: whose effect it is, as "de, not en"; None where there is none.
        values: [N].
        reason: why there is no effect.
    """

    name: str
    level: str | None = None
    values: Array = np.zeros(0)
    reason: str | None = None


def factors_of(examples: Sequence[Example], places: Array, judge: str) -> list[Factor]:
    """All that varies in some texts.

    Args:
        places: [N] of the texts in their file, from 0.
        judge: the name of its model, by which it is known for one of a family.
    """
    texts = [example.output for example in examples]
    words = np.array([len(_WORD.findall(text)) for text in texts])
    marked = np.array([1.0 * has_markdown(text) for text in texts])
    span = max(float(np.ptp(places)), 1.0)
    # 1. the text, and its place
    length = Factor("length", reason="the texts are not at hand")
    form = length._replace(name="format")
    if any(texts):
        length = Factor("length", "twice the words", np.log2(np.maximum(words, 1)))
        form = Factor("format", "Markdown", marked)
    place = Factor("place in the file", "from first to last", (places - places.min()) / span)
    factors = []
    for factor in (length, form, place):
        alike = factor.level and np.ptp(factor.values) == 0
        factors.append(Factor(factor.name, reason=_ALIKE[factor.name]) if alike else factor)
    # 2. segments
    names = list(dict.fromkeys(name for example in examples for name in example.segments))
    if "language" not in names:
        factors.append(Factor("language", reason="no language column: data.fields.segments"))
    for name in names:
        factors += _levels(name, [example.segments.get(name, "") for example in examples])
    # 3. families
    if FAMILY not in names:
        factors += _families([example.system_id for example in examples], judge)
    return factors


_ALIKE = {
    "length": "all texts are of one length",
    "format": "no text has Markdown, or all have",
    "place in the file": "there is one text",
}


def _levels(name: str, labels: Sequence[str]) -> list[Factor]:
    """A factor a level, but for the commonest, with which the others are compared."""
    counts = Counter(labels)
    if len(counts) < 2:
        return [Factor(name, reason=f"one {name} alone: {labels[0]}")]
    common = [label for label, _ in counts.most_common(MOST_LEVELS)]
    rare = [label if label in common else OTHERS for label in labels]
    base = common[0] or "none"
    factors = []
    for level in dict.fromkeys([*common[1:], *rare]):
        if level != common[0]:
            values = np.array([1.0 * (label == level) for label in rare])
            factors.append(Factor(name, f"{level or 'none'}, not {base}", values))
    return factors


def _families(systems: Sequence[str], judge: str) -> list[Factor]:
    """The systems' families, and the judge's own beside all others."""
    families = [family_of(system) for system in systems]
    own = family_of(judge)
    if not any(families):
        reason = "no system's name tells its family: data.fields.segments with a column family"
        return [Factor(FAMILY, reason=reason)]
    # 1. the judge's own beside all others
    mine = np.array([bool(own) and family == own for family in families])
    beside = Factor(OWN, f"{own}, not others", 1.0 * mine)
    if not own:
        beside = Factor(OWN, reason="the judge's name tells no family")
    elif mine.all() or not mine.any():
        beside = Factor(OWN, reason=f"no systems of its family, {own}, beside others")
    # 2. the others among themselves: nothing is said of its own twice
    others = np.ones(len(mine), bool) if beside.level is None else ~mine
    names = [families[row] or "unknown" for row in np.flatnonzero(others)]
    factors = [beside]
    for factor in _levels(FAMILY, names):
        if factor.level is not None:
            values = np.zeros(len(others))
            values[others] = factor.values - factor.values.mean()
            factor = factor._replace(values=values)
        factors.append(factor)
    return factors


def family_of(name: str) -> str:
    """The family of a model by the words of its name; empty where none is known.

    Example:
        >>> family_of("Qwen2.5-Coder-1.5B"), family_of("openai/gpt-4o"), family_of("snippet")
        ('qwen', 'gpt', '')
    """
    for word in filter(None, _NAME.split(name.lower())):
        for family, starts in _known_families().items():
            for start in starts:
                # a name and a number, as qwen2, and no other word that begins so
                if word.startswith(start) and not word[len(start) :][:1].isalpha():
                    return family
    return ""


@cache
def _known_families() -> dict[str, list[str]]:
    text = (files("judgebench.studies") / "families.txt").read_text("utf-8")
    lines = [line.partition(":") for line in text.splitlines()]
    return {family: starts.split() for family, _, starts in lines}
