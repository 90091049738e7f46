"""Defenses that must compute something before a prompt can be built under them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from judgebench.data.dataset import DEV, TEST
from judgebench.judges import PassRunner
from judgebench.judges.spec import JudgeSettings
from judgebench.prompts.builder import Defense, Judged, PromptBuilder, as_written
from judgebench.runtime.log import StepLogger
from judgebench.types import Condition, Example, Record, Records, Row, Split
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.judges.judge import ReadingJudge
    from judgebench.tutor.vectors import StandardVectors

log = StepLogger(__name__)

SOURCES, TEXTS = STAGES = ("sources", "texts")
"""The stages of a run at which a defense can get ready: with what the judged texts answer to,
before any attack; or with the judged texts themselves and all that attacks make of them."""


@dataclass(frozen=True, kw_only=True)
class Resources(PassRunner):
    """The run and its models, as far as a defense may use them to get ready; its passes run in the
    judge's store and models (see `PassRunner`).

    Attributes:
        builder: builds the judge's prompts, under defenses that are ready.
        conditions, examples: all of the run.
        split: group_id -> dev or test.
        judged: gives the judged text of an example under a condition, attacked.
        prompt: conf/prompt's truncate and template_options.
    """

    judge: JudgeSettings
    builder: PromptBuilder
    conditions: Sequence[Condition]
    examples: Sequence[Example]
    split: Split
    judged: Judged
    dataset: str
    prompt: Row

    def training(self, defense: str, what: str) -> list[Example]:
        """The examples of the development split, on which alone a defense may choose anything
        (`what`)."""
        training = [example for example in self.examples if self.split[example.group_id] == DEV]
        if not training:
            raise UserError(
                f"defenses: {defense} needs a development split to find {what} on, so that nothing "
                "is chosen on what is evaluated; give it articles with data.dev_share=0.2."
            )
        return training

    def refuse_test(self, groups: Iterable[str], what: str) -> None:
        """Raises `UserError` where one of the groups on which something was chosen is of the test
        split."""
        if seen := sorted(group for group in groups if self.split.get(group) == TEST):
            raise UserError(
                f"{what} comes from {len(seen)} of the groups that this run tests on ({seen[0]}, "
                "for one), which would flatter the defense; take one from other texts, or the "
                "data.seed and data.dev_share of its run."
            )


@dataclass(frozen=True)
class Findings:
    """Findings of defenses while they got ready, as records of the files in a run folder's
    `defense/`.

    Attributes:
        standards: a record for each dimension whose standard vectors were made or loaded
            (standards.json).
        vectors: dimension -> those vectors (vectors_<dimension>.safetensors).
        references: a record for each pair of references (references.parquet).
        strengths: a record for each strength that was tried (strengths.json).
        detectors: a record for each detector (detectors.json): `defense`; `dataset`, on whose texts
            its threshold was chosen; `helper` and `helper_sha256`; `threshold`, above which a text
            is warned of; `training` and `test`, its `metrics_at` there, training also with its
            `groups` and `attacks`, test with its `dataset` and `recall_by_attack`; `curve`, at most
            200 points on training data.
        own_answers: a record for each answer that the judge wrote before it saw a text
            (own_answers.json).
        costs: defense -> seconds of getting ready: `once` a run; for each `context`; for each
            `text`; and the `tokens` that were read and written for it, a text.
    """

    standards: Records = ()
    vectors: Mapping[str, StandardVectors] = field(default_factory=dict)
    references: Records = ()
    strengths: Records = ()
    detectors: Records = ()
    own_answers: Records = ()
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Findings]) -> Findings:
        whole: Record = {}
        for part in parts:
            for name, value in vars(part).items():
                if isinstance(value, Mapping):
                    whole[name] = whole.get(name, {}) | value
                else:
                    whole[name] = [*whole.get(name, []), *value]
        return cls(**whole)


def cost_of(written: Sequence[Any], texts: int, once: float = 0.0) -> dict[str, float]:
    """The costs of `Findings`, of what was written for each context (its `seconds`, and the `count`
    of its tokens) in a run of so many texts."""
    seconds = math.fsum(each.seconds for each in written)
    return {
        "once": once,
        "context": seconds / len(written),
        "text": seconds / texts,
        "tokens": sum(each.count for each in written) / texts,
    }


class Prepared(Defense):
    """A defense that has got ready, with its findings."""

    findings: Findings = Findings()


@dataclass(frozen=True, eq=False)
class Rewritten(Prepared):
    """A defense that has another text for each of `texts`; any other stays as it is.

    A phrase cannot be learned under it: every phrase that a search tries would have to be read by
    the helper first.
    """

    name: str
    texts: Mapping[str, str]
    findings: Findings = field(default_factory=Findings)
    learnable: ClassVar[bool] = False

    def text(self, text: str, example: Example, condition: Condition) -> str:
        return self.texts.get(text, text)


class Planned(Defense):
    """A defense that is configured but not ready: only its attributes may be used; `stage` is one
    of `STAGES`."""

    stage: ClassVar[str]
    needs_dev: ClassVar[bool] = True

    def prepared(self, resources: Resources) -> Prepared:
        """The defense, ready; `UserError` for what the user can mend."""
        raise NotImplementedError


def planned(judge: ReadingJudge) -> list[str]:
    """Names of the defenses that are not ready."""
    return [defense.name for defense in judge.defenses if isinstance(defense, Planned)]


def prepare(
    judge: ReadingJudge,
    stage: str,
    conditions: Sequence[Condition],
    judged: Judged | None = None,
    **asked: Any,
) -> ReadingJudge:
    """The judge with those defenses prepared that needed a stage.

    Args:
        judged: gives the judged text of an example under a condition; None takes the example's.
        asked: what else `Resources` hold.
    """
    defenses = list(judge.defenses)
    due = {
        i: defense
        for i, defense in enumerate(defenses)
        if isinstance(defense, Planned) and defense.stage == stage
    }
    if not due:
        return judge
    resources = Resources(
        judge=judge.settings,
        builder=judge.builder,
        conditions=conditions,
        judged=judged or as_written,
        prompt=judge.builder.options,
        store=judge.store(),
        **asked,
    )
    for i, defense in due.items():
        defenses[i] = defense.prepared(resources)
        log.info("Prepared the defense %s.", defense.name)
    return judge.under(defenses)


class JudgedText(NamedTuple):
    """A text as the judge would read it undefended; `attack` is empty where none has changed it."""

    text: str
    group_id: str
    attack: str = ""


def judged_texts(resources: Resources, defense: str) -> tuple[list[JudgedText], list[Example]]:
    """The texts that are judged under one defense, clean and with all that the run's attacks make
    of them.

    Returns:
        Each text with each of its groups and attacks, once; where two texts are compared, the
        rivals are among them, as
        clean texts. And each different text once, to be read by itself: what was made of one text
            stands together as a
        group, for it begins alike. Texts of nothing but whitespace are left out: there is nothing
            to look at.
    """
    roles: dict[JudgedText, None] = {}
    groups: dict[str, list[Example]] = {}
    seen: set[str] = set()

    def take(text: str, text_id: str, of: Example, attack: str = "", name: str = "") -> None:
        roles.setdefault(JudgedText(text, of.group_id, attack))
        if text.strip() and text not in seen:
            seen.add(text)
            groups.setdefault(text_id, []).append(
                Example(name or text_id, text_id, "", "", text, {})
            )

    for example in resources.examples:
        take(example.output, example.text_id, example)
        if example.rival_id:
            take(example.rival, example.rival_id, example)
    conditions = [condition for condition in resources.conditions if condition.defense == defense]
    for example in resources.examples:
        for condition in conditions:
            if (text := resources.judged(example, condition)) != example.output:
                take(
                    text,
                    example.text_id,
                    example,
                    condition.attack,
                    f"{example.example_id} ({condition})",
                )
    return list(roles), [example for group in groups.values() for example in group]
