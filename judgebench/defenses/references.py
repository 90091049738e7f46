"""Comparative augmented prompting (CAP): the judge holds the text against a poor and a good reference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from judgebench.defenses.prepared import SOURCES, Findings, Planned, Prepared, Resources
from judgebench.prompts.rubrics import JUDGED_FIELD, REFERENCES, WITH_REFERENCES
from judgebench.runtime.errors import UserError
from judgebench.tutor.spec import TutorSpec
from judgebench.types import Condition, Example, Rubric

if TYPE_CHECKING:
    from judgebench.tutor.texts import Reference

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
        from judgebench.defenses.written import written_references  # it needs torch

        return written_references(self, resources)


def planned_references(name: str, tutor: TutorSpec | None, swapped: bool) -> PlannedReferences:
    """The defense of this name; `UserError` where there is no tutor."""
    if tutor is None:
        raise UserError(
            f"defenses: {name} needs a tutor, who writes references; choose one with tutor=judge (the judge's own "
            "model), tutor=smollm2, or tutor=local tutor.path=DIR."
        )
    return PlannedReferences(name, tutor, swapped)
