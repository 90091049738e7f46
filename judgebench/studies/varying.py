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
    """Something that varies.

    Attributes:
        name: as "length".
        levels: what each column is the effect of, as "twice the words"; empty where there are none.
        columns: [N, L].
        reason: why there is no column.
    """

    name: str
    levels: Sequence[str] = ()
    columns: Array = np.zeros((0, 0))
    reason: str | None = None


def factors_of(examples: Sequence[Example], places: Array, judge: str) -> list[Factor]:
    """All that varies in some texts.

    Args:
        places: [N] of the texts in their file, from 0.
        judge: the name of its model, by which it is known for one of a family.
    """
    texts = [example.output for example in examples]
    words = np.array([len(_WORD.findall(text)) for text in texts])
    marked = np.array([has_markdown(text) for text in texts])
    span = max(float(np.ptp(places)), 1.0)
    factors = [
        _number("length", "twice the words", np.log2(np.maximum(words, 1)), any(texts)),
        _number("format", "Markdown", 1.0 * marked, any(texts)),
        _number("place in the file", "from first to last", (places - places.min()) / span, True),
    ]
    # 2. segments
    names = list(dict.fromkeys(name for example in examples for name in example.segments))
    if "language" not in names:
        factors.append(Factor("language", reason="no language column: data.fields.segments"))
    for name in names:
        factors.append(_levels(name, [example.segments.get(name, "") for example in examples]))
    # 3. families
    if FAMILY in names:
        return factors
    return factors + _families([example.system_id for example in examples], judge)


def _number(name: str, level: str, values: Array, known: bool) -> Factor:
    if not known:
        return Factor(name, reason="the texts are not at hand")
    if np.ptp(values) == 0:
        none = {"format": "every text has Markdown" if values[0] else "no text has Markdown"}
        return Factor(name, reason=none.get(name, "all texts are alike in it"))
    return Factor(name, [level], values[:, None])


def _levels(name: str, labels: Sequence[str]) -> Factor:
    """A column a level, but for the commonest, with which the others are compared."""
    counts = Counter(labels)
    common = [label for label, _ in counts.most_common(MOST_LEVELS)]
    if len(counts) < 2:
        return Factor(name, reason=f"one {name} alone: {labels[0]}")
    base, *levels = common
    if len(counts) > len(common):
        levels.append(OTHERS)
        labels = [label if label in common else OTHERS for label in labels]
    columns = [[1.0 * (label == level) for label in labels] for level in levels]
    titles = [f"{level or 'none'}, not {base or 'none'}" for level in levels]
    return Factor(name, titles, np.array(columns).T)


def _families(systems: Sequence[str], judge: str) -> list[Factor]:
    """The systems' families, and the judge's own beside all others."""
    families = [family_of(system) for system in systems]
    own = family_of(judge)
    if not any(families):
        reason = "no system's name tells its family: data.fields.segments with a column family"
        return [Factor(FAMILY, reason=reason)]
    # 1. the judge's own beside all others
    mine = np.array([bool(own) and family == own for family in families])
    beside = Factor(OWN, [f"{own}, not others"], 1.0 * mine[:, None])
    if not own:
        beside = Factor(OWN, reason="the judge's name tells no family")
    elif mine.all() or not mine.any():
        beside = Factor(OWN, reason=f"no systems of its family, {own}, beside others")
    # 2. the others among themselves: nothing is said of its own twice
    others = ~mine if beside.levels else np.ones(len(mine), bool)
    names = [family or "unknown" for family in families]
    factor = _levels(FAMILY, [names[row] for row in np.flatnonzero(others)])
    if factor.levels:
        columns = np.zeros((len(names), len(factor.levels)))
        columns[others] = factor.columns - factor.columns.mean(axis=0)
        factor = factor._replace(columns=columns)
    return [beside, factor]


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
