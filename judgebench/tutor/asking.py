"""What a tutor is asked: template files, filled with a context and put into its chat template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.errors import UserError
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
            example.group_id,
            Example(example.group_id, example.group_id, "", example.source, "", {}, example.context),
        )
    return list(first.values())


def load_templates(collection: str) -> dict[str, str]:
    """Kind -> template.

    `reference`, `good` and `poor` are worded as in the CAP paper (its appendix B); `scored`, which the paper does not
    print, in words of our own.

    Args:
        collection: `summary`, `dialogue`, or a folder with a `<kind>.txt` for each of `KINDS`.

    Raises:
        UserError: no such collection, a file that cannot be read, an unknown field, or no source in it.
    """
    folder = _folder(collection)
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


class Asking:
    """Builds the prompts of one tutor. What a context says never becomes a control token (see `ControlTokens`).

    Args:
        tokenizer: the tutor's.
        templates: of `load_templates`.
        max_tokens: longest prompt that the tutor can read, room for its text already taken off.
        scale: the score range that a text of a given score is asked in.
        truncate, template_options: see `PromptBuilder`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        templates: Mapping[str, str],
        max_tokens: int,
        scale: ScoreRange,
        truncate: str = "error",
        template_options: Mapping[str, Any] | None = None,
    ):
        self._tokenizer, self._templates, self._scale = tokenizer, templates, scale
        self._more: dict[str, Any] = {
            "max_tokens": max_tokens,
            "truncate": truncate,
            "template_options": template_options,
        }

    def prompts(self, contexts: Sequence[Example], kind: str = REFERENCE, score: float | None = None) -> list[Prompt]:
        """The prompt of each context, in order.

        Args:
            contexts: of `contexts_of`.
            kind: one of `KINDS`.
            score: for `scored`, the score that the text should get.

        Raises:
            UserError: a prompt is too long; names the context and both numbers of tokens.
        """
        # a score is ours, no text of the example's, so it may be filled before the rest
        template = self._templates[kind].replace("{score}", "" if score is None else f"{score:.3g}")
        builder = PromptBuilder(self._tokenizer, {kind: Rubric(kind, template)}, **self._more)
        return builder.build(contexts, [Condition(kind, self._scale)])


def _folder(collection: Any) -> Traversable | Path:
    if isinstance(collection, str) and collection.strip():
        shipped = files("judgebench.tutor") / "prompts" / collection
        if re.fullmatch(r"\w+", collection) and shipped.is_dir():
            return shipped
        own = Path(collection).expanduser()
        if own.is_dir():
            return own
    raise UserError(
        f"tutor.prompts={collection}: there is no such collection; give summary, dialogue, or a folder with "
        f"{', '.join(f'{kind}.txt' for kind in KINDS)}."
    )
