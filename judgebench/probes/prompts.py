"""Probes of the prompt: its criteria in another order, and the reference of another text."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from judgebench.defenses import Defense
from judgebench.types import Condition, Example, RatingKey, Rubric

if TYPE_CHECKING:
    from judgebench.data.dataset import RatingDataset

_ITEM = r"(?:[-*•]|\d{1,2}[.)]) [^\n]+"
_CRITERIA = re.compile(
    rf"(?<=\n)[^\n]*criteri[^\n]*:[^\n]*\n+(?P<items>{_ITEM}(?:\n+{_ITEM})+)", re.I
)
_WORDS = re.compile(r"(?<=^[-*•] )[^\n]+|(?<=^\d[.)] )[^\n]+|(?<=^\d\d[.)] )[^\n]+", re.M)

_FACT = "{{Fact}}"
_OTHER = "Other_reference"


def reversed_criteria(template: str) -> str:
    """A rubric's template whose list of criteria, the first below a line that names them, stands
    last item first; numbers count on from 1. As it was where it has no such list.

    Example:
        >>> reversed_criteria("Rate it.\\nCriteria:\\n- Truth: is it right?\\n- Style: is it clear?\\n\\nText:")
        'Rate it.\\nCriteria:\\n- Style: is it clear?\\n- Truth: is it right?\\n\\nText:'
    """
    match = _CRITERIA.search(template)
    if match is None:
        return template
    # the marks stay in their places, the words behind them change
    items = match["items"]
    words = _WORDS.findall(items)
    turned = _WORDS.sub(lambda _: words.pop(), items)
    start, end = match.span("items")
    return f"{template[:start]}{turned}{template[end:]}"


@dataclass(frozen=True)
class CriteriaReversed(Defense):
    """The rubric's criteria, last first."""

    name: str = "criteria_reversed"

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        return replace(rubric, template=reversed_criteria(rubric.template))


@dataclass(frozen=True)
class WrongReference(Defense):
    """Another reference (`Example.context`) in the place of a text's own, which a judge that goes by
    the reference must follow (arXiv 2601.07506)."""

    name: str = "wrong_reference"
    others: Mapping[str, str] = field(default_factory=dict)

    def fitted(self, data: RatingDataset, cells: Sequence[RatingKey]) -> WrongReference:
        """See `Defense.fitted`: the next reference, in an order that is drawn."""
        texts = sorted({example.context for example in data.examples} - {""})
        random.Random(0).shuffle(texts)
        others = zip(texts, texts[1:] + texts[:1], strict=True)
        return replace(self, others=dict(others))

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        return replace(rubric, template=rubric.template.replace(_FACT, f"{{{{{_OTHER}}}}}"))

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        return {_OTHER: self.others.get(example.context, example.context)}
