"""A judge that answers first: what it writes itself, from the source alone, stands beside the text
when it scores (arXiv 2607.05904).

A judge that has the text before it when it begins to reason finds reasons for what the text says;
one that has committed itself to an answer has something to compare it with. The answer is the same
for all texts of an article, whatever an attack makes of them, and stands before them: the prefix
that they share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from judgebench.decoding.thoughts import answer_in
from judgebench.defenses.prepared import SOURCES, Findings, Planned, Prepared, Resources, cost_of
from judgebench.defenses.settings import Helper
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import before_judged, task_before
from judgebench.settings.components import fill_fields
from judgebench.settings.fields import Count
from judgebench.types import Condition, Example, Record, Rubric, ScoreRange
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.tutor.writing import Written

COMMIT = "commit"
"""The name of the defense."""

OWN = "Own_answer"
"""The field of a rubric in which the judge's own answer stands."""

_BESIDE = f"""Before you saw the text to rate, you wrote one yourself for the same task:

{{{{{OWN}}}}}

Compare the text to rate with your own. Where the two differ, ask which of them is right; a text that says nothing of \
what yours says does not do the task.

"""
_ASKED = """Somebody will hand in a text, and it will be rated by these words:

{task}

You have not seen that text, and you do not rate anything now. Do the task yourself: write the text that would get \
{max_range}, from what follows alone, in a few sentences at most. Write nothing else: no rating, and no words about \
your text.

{sources}

Your own text:"""

_ABOUT = re.compile(r"\{\{(?:Document|Dialogue)\}\}")
_REFERENCE = re.compile(r"[^\n]*\{\{Fact\}\}[^\n]*")
_ASKED_IN = ScoreRange(1, 5)
"""The range in whose words answers are asked for, whatever a text is scored in."""


@dataclass(frozen=True, eq=False)
class Committed(Prepared):
    """The judge's own answer before the heading of the judged text; `answers`: dimension, group_id
    and question -> what it wrote."""

    answers: Mapping[tuple[str, str, str], str]
    findings: Findings = field(default_factory=Findings)
    note: str | None = None
    name = COMMIT
    compares: ClassVar[bool] = False

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        head = before_judged(rubric)
        return replace(rubric, template=head + _BESIDE + rubric.template[len(head) :])

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        """See `Defense.more`; a prompt about nothing (group_id "") has an answer of nothing."""
        place = (condition.dimension, example.group_id, example.question)
        return {OWN: self.answers[place] if example.group_id else ""}


@dataclass(frozen=True)
class PlannedCommit(Planned):
    """An answer that the judge is to write for every article, of `own_tokens` at most, by its
    likeliest tokens."""

    own_tokens: Count = 128
    name = COMMIT
    stage: ClassVar[str] = SOURCES
    compares: ClassVar[bool] = False
    needs_dev: ClassVar[bool] = False

    def prepared(self, resources: Resources) -> Committed:
        """The answers to each dimension's rubric, whatever the other dimensions and the ranges of
        the run are, so that a judge card that has one of them asks for the same."""
        return self.committed(self._written(resources), len(resources.examples))

    def committed(self, texts: Sequence[Written], count: int) -> Committed:
        """The defense of what was written, for `count` judged texts."""
        records = [_record(text) for text in texts]
        answers = {}
        empty = 0
        for record in records:
            place = (record["dimension"], record["group_id"], record["question"])
            answers[place] = record["answer"]
            empty += not record["answer"]
        dimensions = {record["dimension"] for record in records}
        cost = cost_of(texts, count * len(dimensions))
        findings = Findings(own_answers=records, costs={self.name: cost})
        note = f"Of its own {len(records)} answers under {self.name} the judge left {empty} empty."
        return Committed(answers, findings, note if empty else None)

    def _written(self, resources: Resources) -> list[Written]:
        from judgebench.tutor.writing import Text, WritePass, contexts_of  # torch with it

        # 1. the prompts: the article, and nothing that is judged
        judge: Any = resources.judge
        room = Helper.of(judge).longest - self.own_tokens
        if room < 1:
            raise UserError(
                f"defenses: {self.name}.own_tokens: {self.own_tokens} tokens leave no room for a "
                f"prompt in the {room + self.own_tokens} that {judge.source.title} can read; lower "
                "it."
            )
        tokenizer = resources.builder.tokenizer
        dimensions = dict.fromkeys(condition.dimension for condition in resources.conditions)
        rubrics = {name: own_rubric(resources.builder.rubrics[name]) for name in dimensions}
        conditions = [Condition(name, _ASKED_IN) for name in dimensions]
        builder = PromptBuilder(tokenizer, rubrics, room, **resources.prompt)
        prompts = builder.build(contexts_of(resources.examples), conditions)
        # 2. what the judge's own model writes
        texts = [Text(prompt) for prompt in prompts]
        view = resources.view(judge.source, judge.engine)
        pass_ = WritePass(view, tokenizer, texts, self.own_tokens)
        resources.run([pass_], judge.max_batch_tokens, "Answering first")
        return pass_.written(resources.store)


def own_rubric(rubric: Rubric) -> Rubric:
    """The words that ask for a judge's own answer: the rubric's task, and of what stands before the
    judged text the paragraphs with the source. Lines with a reference are left out; `UserError`
    where no source stands there, or no task.

    Example:
        >>> asked = own_rubric(Rubric("fluency", "Rate it.\\n\\nSource: {{Document}}\\n\\nText: {{Summary}}"))
        >>> "Rate it." in asked.template, "Source: {{Document}}" in asked.template, "Text:" in asked.template
        (True, True, False)
    """
    head = _REFERENCE.sub("", before_judged(rubric)).strip()
    sources = [part for part in re.split(r"\n\s*\n", head) if _ABOUT.search(part)]
    task = task_before(head)
    if not sources or not task:
        raise UserError(
            f"defenses: {COMMIT}: the rubric of {rubric.dimension!r} has no task and then "
            "{{Document}} or {{Dialogue}}, on a line without a reference, before the text that is "
            f"judged, so there is nothing to answer; put them there, or leave {COMMIT} out."
        )
    values = {"task": task, "sources": "\n\n".join(sources), "max_range": "{max_range}"}
    return Rubric(rubric.dimension, fill_fields(_ASKED, values))


def _record(written: Written) -> Record:
    """The record of an answer in defense/own_answers.json."""
    prompt = written.asked.prompt
    return {
        "defense": COMMIT,
        "dimension": prompt.condition.dimension,
        "group_id": prompt.example.group_id,
        "question": prompt.example.question,
        "answer": answer_in(written.text).strip(),
        "cut": written.cut,
        "read_tokens": len(prompt.token_ids),
        "written_tokens": len(written.tokens),
        "seconds": written.seconds,
    }
