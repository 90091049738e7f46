"""Defenses that must compute something before a prompt can be built under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import lightning as L

from judgebench.data.dataset import DEV, TEST
from judgebench.errors import UserError
from judgebench.judges.loop import Models, Trainers
from judgebench.judges.settings import JudgeSettings
from judgebench.prompts.builder import Defense, Judged, PromptBuilder
from judgebench.readings.store import ReadingStore
from judgebench.types import Condition, Example

if TYPE_CHECKING:
    from judgebench.tutor.vectors import StandardVectors

SOURCES, TEXTS = STAGES = ("sources", "texts")
"""What a defense must know to get ready: what the judged texts answer to, known before any attack is; or the judged
texts themselves, with all that attacks make of them."""


@dataclass(frozen=True)
class Means:
    """What a defense may use to get ready.

    Attributes:
        judge: the main model, as configured.
        builder: builds its prompts, under defenses that are ready.
        conditions: all of the run.
        examples: all of the run; `split` says which groups are for development.
        split: group_id -> dev or test.
        judged: the judged text of an example under a condition, attacked.
        dataset: its name.
        prompt: conf/prompt's truncate and template_options.
        store, data, trainer, models: see `judges.running.compute`; the judge's, so that one model serves all.
    """

    judge: JudgeSettings
    builder: PromptBuilder
    conditions: Sequence[Condition]
    examples: Sequence[Example]
    split: Mapping[str, str]
    judged: Judged
    dataset: str
    prompt: Mapping[str, Any]
    store: ReadingStore
    data: L.LightningDataModule
    trainer: Trainers
    models: Models = field(default_factory=Models)

    def training(self, defense: str, what: str) -> list[Example]:
        """The examples of the development split, on which alone a defense may choose anything.

        Args:
            defense, what: whose name, and what it chooses, for the error.

        Raises:
            UserError: there is none.
        """
        found = [example for example in self.examples if self.split[example.group_id] == DEV]
        if not found:
            raise UserError(
                f"defenses: {defense} needs a development split to find {what} on, so that nothing is chosen on what "
                "is evaluated; give it articles with data.dev_share=0.2."
            )
        return found

    def refuse_test(self, groups: Iterable[str], what: str) -> None:
        """Refuses what was found on texts that this run evaluates.

        Raises:
            UserError: one of `groups` is of the test split; names it.
        """
        if seen := sorted(group for group in groups if self.split.get(group) == TEST):
            raise UserError(
                f"{what} comes from {len(seen)} of the groups that this run tests on ({seen[0]}, for one), which would "
                "flatter the defense; take one from other texts, or the data.seed and data.dev_share of its run."
            )


@dataclass(frozen=True)
class Findings:
    """What defenses found while they got ready, as records of the files in a run folder's `defense/`.

    Attributes:
        standards: a record for each dimension whose standard vectors were found or loaded (standards.json).
        vectors: dimension -> those vectors (vectors_<dimension>.safetensors).
        references: a record for each pair of references (references.parquet).
        strengths: a record for each strength that was tried (strengths.json).
        detectors: a record for each detector (detectors.json): `defense`; `dataset`, on whose texts its threshold was
            found; `helper` and `helper_sha256`; `window`, or what a classifier has learned; `threshold`, above which a
            text is warned of; `training` and `test`, what it finds there (`thresholds.Found`), training also with its
            `groups` and `attacks`, test with its `dataset` and `recall_by_attack`; `curve`, at most 200 points of
            `thresholds.Curve` on training data.
        rewritings: a record for each defense that writes texts anew: `defense`, `dataset`, `helper`, `helper_sha256`,
            `max_new_tokens`; how many `texts` there are, of how many nothing was written (`empty`: they stay as they
            are), and how many end where the most tokens were reached (`cut`).
        costs: defense -> seconds of getting ready: `once`, whatever is judged; for each `context`; for each `text`.
    """

    standards: Sequence[Mapping[str, Any]] = ()
    vectors: Mapping[str, StandardVectors] = field(default_factory=dict)
    references: Sequence[Mapping[str, Any]] = ()
    strengths: Sequence[Mapping[str, Any]] = ()
    detectors: Sequence[Mapping[str, Any]] = ()
    rewritings: Sequence[Mapping[str, Any]] = ()
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Findings]) -> Findings:
        """All of several."""
        whole: dict[str, Any] = {}
        for part in parts:
            for one in fields(cls):
                value = getattr(part, one.name)
                held = whole.setdefault(one.name, {} if isinstance(value, Mapping) else [])
                if isinstance(value, Mapping):
                    held |= value
                else:
                    held += value
        return cls(**whole)


class Prepared(Defense):
    """A defense that has got ready, with what it has found."""

    findings: Findings = Findings()


class Planned(Defense):
    """A defense that is configured but not ready: nothing can be asked of it but its attributes.

    Attributes:
        stage: one of `STAGES`.
    """

    stage: ClassVar[str]

    def prepared(self, means: Means) -> Prepared:
        """The defense, ready.

        Raises:
            UserError: whatever the user can mend; see the defenses.
        """
        raise NotImplementedError
