"""The tutor at work: it is asked, writes, and what it wrote is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from typing import Any

from judgebench.judges.passes import ModelView
from judgebench.judges.runner import PassRunner
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import collection_folder
from judgebench.runtime.errors import UserError
from judgebench.tutor.spec import TutorSpec
from judgebench.tutor.steering import Standard
from judgebench.tutor.writing import Sampling, Text, WritePass, Written, write
from judgebench.types import Condition, Example, Prompt, Rubric, ScoreRange

REFERENCE, GOOD, POOR, SCORED = "reference", "good", "poor", "scored"
KINDS = (REFERENCE, GOOD, POOR, SCORED)
"""A text, for CAP's candidates and steered references; a good and a bad one, for W-CAP; one of a given score."""

_FIELD = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
_SOURCES = ("Document", "Dialogue")
_KNOWN = {*_SOURCES, "Fact", "score", "min_range", "max_range"}


def contexts_of(examples: Iterable[Example]) -> list[Example]:
    """One example a group, in order, without anything that was judged: what a tutor writes must not depend on it."""
    first: dict[str, Example] = {}
    for example in examples:
        first.setdefault(
            example.group_id, Example(example.group_id, example.group_id, "", example.source, "", {}, example.context)
        )
    return list(first.values())


def written_example(context: Example, name: str, text: str) -> Example:
    """A text of the tutor's for a context, as a text to be judged; `name` is its own among those of the context."""
    return replace(context, example_id=f"{context.group_id}/{name}", system_id="tutor", output=text)


def load_templates(collection: str) -> dict[str, str]:
    """Kind -> template of a collection: `summary`, `dialogue`, or a folder with a `<kind>.txt` for each of `KINDS`;
    else `UserError`, as for an unknown field, or no source in it.

    `reference`, `good` and `poor` are worded as in the CAP paper (its appendix B); `scored`, which the paper does not
    print, in words of our own.
    """
    folder = collection_folder(files("judgebench.tutor") / "prompts", str(collection))
    if folder is None:
        raise UserError(
            f"tutor.prompts={collection}: there is no such collection; give summary, dialogue, or a folder with "
            f"{', '.join(f'{kind}.txt' for kind in KINDS)}."
        )
    templates = {}
    for kind in KINDS:
        try:
            text = (folder / f"{kind}.txt").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"tutor.prompts={collection}: {kind}.txt cannot be read ({error}); it must be UTF-8 text with "
                "{{Document}} or {{Dialogue}}."
            ) from error
        fields = {doubled or single for doubled, single in _FIELD.findall(text)}
        if unknown := sorted(fields - _KNOWN):
            raise UserError(
                f"tutor.prompts={collection}: {kind}.txt has the unknown field {unknown[0]}; known are "
                f"{', '.join(sorted(_KNOWN))}."
            )
        if not fields & set(_SOURCES):
            raise UserError(f"tutor.prompts={collection}: {kind}.txt has no {{{{Document}}}} or {{{{Dialogue}}}}.")
        if ("score" in fields) != (kind == SCORED):
            raise UserError(f"tutor.prompts={collection}: {{score}} belongs into {SCORED}.txt and into no other file.")
        templates[kind] = text
    return templates


class Tutor:
    """Writes texts in batches; each is stored the moment its batch is done, and never written twice. Of the model only
    tokenizer and configuration are loaded until a text is to be written.

    Args:
        scale: the score range in which a text of a given score is asked for.
        runner: computes and keeps what it writes.
        options: truncate and template_options of conf/prompt: what the judge's prompts do, the tutor's do.
    """

    def __init__(self, spec: TutorSpec, scale: ScoreRange, runner: PassRunner, **options: Any) -> None:
        room = spec.sizes.most - spec.most_tokens
        if room < 1:
            raise UserError(
                f"tutor.max_new_tokens: texts of {spec.most_tokens} tokens leave no room for a prompt in the "
                f"{spec.sizes.most} that {spec.source.title} can read; lower it."
            )
        self.spec, self.runner = spec, runner
        self.sampling = Sampling(spec.seed, spec.temperature, spec.top_p)
        self._templates, self._scale = load_templates(spec.prompts), scale
        self._options: dict[str, Any] = {"max_tokens": room, **options}

    @cached_property
    def view(self) -> ModelView:
        """The model, by content."""
        return self.runner.view(self.spec.source, self.spec.engine)

    def prompts(self, contexts: Sequence[Example], kind: str = REFERENCE, score: float | None = None) -> list[Prompt]:
        """The prompt of each context, in order, of one of `KINDS`; for `scored` with the score that the text should
        get. What a context says never becomes a control token (`ControlTokens`). `UserError` for a prompt that is too
        long."""
        # a score is ours, no text of the example's, so it may be filled before the rest
        template = self._templates[kind].replace("{score}", "" if score is None else f"{score:.3g}")
        builder = PromptBuilder(self.spec.source.tokenizer(), {kind: Rubric(kind, template)}, **self._options)
        return builder.build(contexts, [Condition(kind, self._scale)])

    def write(
        self, texts: Sequence[Text], sampling: Sampling | None = None, standard: Standard | None = None
    ) -> list[Written]:
        """The texts, in order.

        Args:
            sampling: how tokens are drawn; None takes the likeliest.
            standard: where texts with an alpha are steered to; else ValueError.
        """
        if standard is None and any(text.alpha for text in texts):
            raise ValueError("texts with an alpha need a standard to be steered to")
        tokenizer, longest = self.spec.source.tokenizer(), self.spec.most_tokens
        pass_ = WritePass(self.view, tokenizer, texts, longest, sampling, standard)
        return write(pass_, self.runner, self.spec.token_budget)
