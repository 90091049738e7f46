"""From examples and conditions to the exact prompts that a judge reads: rubric, chat template,
tokens, length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from judgebench.prompts.rubrics import (
    Filled,
    are_comparative,
    choices_of,
    fill,
    load_rubrics,
)
from judgebench.prompts.tokens import (
    ChatFormat,
    ControlTokens,
    cuts_between_words,
    encode_groups,
    encode_texts,
    tokenized,
)
from judgebench.settings.fields import Annotated, Count, OneOf, Words, settings_of
from judgebench.types import Array, Condition, Example, Prompt, RatingKey, Row, Rubric, by_key
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from judgebench.data.dataset import RatingDataset

NO_DEFENSE = "none"
"""The defense of a condition that leaves the prompt as the rubric has it."""

Judged = Callable[[Example, Condition], str]
"""Gives an example's judged text under a condition: the text as it is, unless it is attacked."""


def as_written(example: Example, condition: Condition) -> str:
    """The judged text as it is."""
    return example.output


Built = TypeVar("Built")
Encoding = Generator[list[str], Sequence[Array], Built]
"""Asks for the tokens of texts, as often as it takes, until something is built."""

_AT_ONCE = 64
"""Groups whose texts go to the tokenizer together."""
_HARMLESS = "a"
_MOST_FRAMES = 1000
_NOTHING = Example(example_id="", group_id="", system_id="", source="", output="", human={})


class Defense:
    """A defense while a prompt is built: what is done about a judged text before the judge reads
    it.

    Each step leaves what it is given as it is, unless a defense says otherwise. All give the same
    for the same arguments.

    One of your own: subclass it in a file of yours, say mine.py, and name the class in the config
    key `defenses`, as in `'defenses=[none,{_target_: mine.Plain, most: 60}]'`, where mine.py lies
    in the folder in which the command is started (or on PYTHONPATH). The entry's other keys are
    passed to the class. One that must compute something before prompts can be built, such as a
    threshold chosen on development texts, is a `judgebench.defenses.Planned`.

    Attributes:
        name: in the column `defense` of every table.
        answer_tokens: where the judge answers in words, its number last, the most tokens of such an
            answer; None where it answers as `judge.mode` has it.
        thought_tokens: where the judge reasons before its scores' probabilities are read, the most
            tokens of that.
        note: a sentence that readers of the results must know.
        learnable: True where a phrase can be learned under it: its words must be the same tokens
            wherever they stand.
        compares: True where it can stand around two texts that are compared.
        needs_numbers: True where it speaks of scores between the ends, which letters and words do
            not have.
        needs_dev: True where it learns or chooses something on the development split.

    Example:
        >>> class Plain(Defense):
        ...     name = "plain"
        ...
        ...     def __init__(self, most: int = 1000):
        ...         self.most = most
        ...
        ...     def text(self, text: str, example: Example, condition: Condition) -> str:
        ...         return text.encode("ascii", "ignore").decode()[: self.most]
        >>> Plain(most=2).text("T\u200bext", None, None)
        'Te'
    """

    name: str
    answer_tokens: int | None = None
    thought_tokens: int | None = None
    note: str | None = None
    learnable: ClassVar[bool] = True
    compares: ClassVar[bool] = True
    needs_numbers: ClassVar[bool] = False
    needs_dev: ClassVar[bool] = False

    def text(self, text: str, example: Example, condition: Condition) -> str:
        """Gives the text that replaces one to be judged: the judged text after the attack, or its
        rival."""
        return text

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        """Gives the rubric around the texts of one group: one for all, so that prompts share what
        comes before them. `said` are all texts of the group that are the examples'."""
        return rubric

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        """Field -> text of the `{{fields}}` that `rubric` has added, alike for those texts of a
        group that answer one question; like the example's own texts they are never read as a
        template, nor as control tokens."""
        return {}

    def fitted(self, data: RatingDataset, cells: Sequence[RatingKey]) -> Defense:
        """Gives the defense with all that it takes from labelled data, for some dimensions and
        ranges."""
        return self

    def fold(self, example: Example, condition: Condition) -> str:
        """Names the groups that read the same `more`, which then is computed once for them all;
        empty for most."""
        return ""


@dataclass(frozen=True)
class PromptSettings:
    """conf/prompt, which says what each key is."""

    rubrics: Any
    variants: Mapping[str, Words] | None
    max_tokens: Count | None
    truncate: Annotated[str, OneOf(("error", "source"))]
    template_options: Row | None


class PromptBuilder:
    """Builds prompts for one tokenizer. What an example says never becomes a control token; see
    ControlTokens.

    Args:
        tokenizer: the main model's; its chat template is applied once if it has one, else the text
            stands plain with the tokenizer's BOS before it.
        rubrics: dimension -> rubric.
        max_tokens: longest prompt that the judge can read.
        truncate: `error`, or `source`: shorten the article of a group until its longest prompt
            fits.
        template_options: passed to the chat template, as a fixed date for those that print today's.
        closed: True ends a plain text with the tokenizer's EOS, where it would put one: what goes
            to an encoder is a whole, what a decoder goes on with is not.

    Attributes:
        comparative: see `are_comparative`.
        rubrics: dimension -> rubric.
        options: `truncate` and `template_options`, for the prompts of a model that helps.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        rubrics: Mapping[str, Rubric],
        max_tokens: int,
        truncate: str = "error",
        template_options: Row | None = None,
        closed: bool = False,
    ):
        if max_tokens < 1:
            raise UserError(
                f"judge.max_new_tokens and prompt.max_tokens leave {max_tokens} tokens for a "
                "prompt, of all that the models can read, and it needs at least 1; lower "
                "judge.max_new_tokens, or raise prompt.max_tokens."
            )
        self.tokenizer = tokenizer
        self.comparative = are_comparative(rubrics)
        self.rubrics = rubrics
        self._max_tokens = max_tokens
        self.options: Row = {"truncate": truncate, "template_options": template_options}
        self._truncate = truncate
        self._chat = ChatFormat(tokenizer, template_options, closed)
        self._defenses: dict[str, Defense] = {}
        self._choices: dict[RatingKey, Mapping[str, float]] = {}
        self._control = ControlTokens(tokenizer)
        self._frames: dict[str, int] = {}
        self._cuts = cuts_between_words(tokenizer)

    @classmethod
    def from_config(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        config: Row,
        dimensions: Sequence[str],
        limit: int,
        closed: bool = False,
    ) -> PromptBuilder:
        """From conf/prompt. `limit` is the tokens of a prompt that all models can read, room for
        the answer already taken off."""
        settings = settings_of(PromptSettings, config, "prompt")
        rubrics = load_rubrics(settings.rubrics, dimensions, settings.variants)
        limit = min(limit, settings.max_tokens or limit)
        return cls(tokenizer, rubrics, limit, settings.truncate, settings.template_options, closed)

    def build(
        self,
        examples: Iterable[Example],
        conditions: Sequence[Condition],
        judged: Judged | None = None,
    ) -> list[Prompt]:
        """The prompts, condition by condition, the examples of a group's source together.

        All conditions read the same article: where one must be shortened, it is cut once, for the
        longest prompt of its group under any of them. `judged` gives the judged text of each
        prompt; None takes the example's.
        """
        if not conditions:  # as while no defense is ready yet
            return []
        groups = by_key(examples, lambda example: (example.group_id, example.source))
        judged = judged or as_written
        built: dict[tuple[str, str], list[list[Prompt]]] = {name: [] for name in groups}
        for start in range(0, len(groups), _AT_ONCE):
            names = list(groups)[start : start + _AT_ONCE]
            under_way = {name: self._of_group(groups[name], conditions, judged) for name in names}
            asked = {name: next(of_group) for name, of_group in under_way.items()}
            # the texts of many groups in one call, which a fast tokenizer deals to all cores
            while asked:
                rows = encode_groups(self.tokenizer, [*asked.values()], self._cuts)
                answers = zip(asked, rows, strict=True)
                asked = {}
                for name, encoded in answers:
                    try:
                        asked[name] = under_way[name].send(encoded)
                    except StopIteration as end:
                        built[name] = end.value
        return [
            prompt
            for i in range(len(conditions))
            for of_group in built.values()
            for prompt in of_group[i]
        ]

    def null(self, condition: Condition) -> Prompt:
        """The prompt about nothing: the condition's rubric with an empty source and an empty judged
        text, defended as the condition is, and not attacked."""
        return self.build([_NOTHING], [condition])[0]

    def under(self, defenses: Sequence[Defense]) -> PromptBuilder:
        """The same with these defenses for conditions to name, besides `none`."""
        other = copy.copy(self)
        other._defenses = {defense.name: defense for defense in defenses}
        return other

    def spelling(self, control: ControlTokens | None) -> PromptBuilder:
        """The same with another way to write names of control tokens; None: as the tokenizer itself
        needs it."""
        other = copy.copy(self)
        other._control = control or ControlTokens(self.tokenizer)
        other._frames = {}
        return other

    def _of_group(
        self, group: Sequence[Example], conditions: Sequence[Condition], judged: Judged
    ) -> Encoding[list[list[Prompt]]]:
        """[conditions][examples of the group] prompts, all of them short enough."""
        source = group[0].source
        kept = None
        ends = None
        cut = 0
        while True:
            built = []
            for condition in conditions:
                built.append((yield from self._under(condition, group, judged, kept, cut)))
            longest = max(
                (prompt for row in built for prompt in row),
                key=lambda prompt: len(prompt.token_ids),
            )
            excess = len(longest.token_ids) - self._max_tokens
            if excess <= 0:
                return built
            # what is too long loses so many of the article's last tokens, until all prompts of the
            # group fit
            remedy = ""
            if self._truncate == "error":
                remedy = "set prompt.truncate=source to shorten its article"
            elif not self.tokenizer.is_fast:
                remedy = "only a fast tokenizer can shorten its article"
            elif ends is None:
                encoded = tokenized(
                    self.tokenizer, [source], split_special_tokens=True, return_offsets_mapping=True
                )
                ends = [end for _, end in encoded["offset_mapping"][0]]
            if ends is not None and cut == len(ends):
                remedy = "it does not fit even without its article"
            if ends is None or remedy:
                raise UserError(
                    f"The prompt of example {longest.example.example_id} ({longest.condition}) has "
                    f"{len(longest.token_ids)} tokens, and the judge reads at most "
                    f"{self._max_tokens}; {remedy}."
                )
            cut = min(cut + excess, len(ends))
            kept = source[: ends[len(ends) - cut - 1]] if cut < len(ends) else ""

    def _filled(
        self,
        condition: Condition,
        group: Sequence[Example],
        judged: Judged,
        source: str | None,
    ) -> tuple[list[Filled], str]:
        """The rubric about each example of a group, as the condition's defense has it; and the
        defense's fold of the group."""
        rubric = self.rubrics[condition.dimension]
        texts = [judged(example, condition) for example in group]
        asked = group
        fold = ""
        more: dict[str, Mapping[str, str]] = {}
        if condition.defense != NO_DEFENSE:
            defense = self._defenses[condition.defense]
            texts = [
                defense.text(text, example, condition)
                for text, example in zip(texts, group, strict=True)
            ]
            if self.comparative:
                asked = [
                    replace(text, rival=defense.text(text.rival, text, condition)) for text in group
                ]
            others = {
                text
                for example in asked
                for text in (example.source, example.question, example.context, example.rival)
            }
            rubric = defense.rubric(rubric, [*texts, *sorted(others)])
            by_question = {example.question: example for example in asked}
            for question, example in by_question.items():
                more[question] = defense.more(example, condition)
            fold = defense.fold(asked[0], condition)
        filled = []
        for example, text in zip(asked, texts, strict=True):
            added = more.get(example.question)
            about = fill(rubric, condition.range, example, source, text, condition.order, added)
            filled.append(about)
        return filled, fold

    def _under(
        self,
        condition: Condition,
        group: Sequence[Example],
        judged: Judged,
        source: str | None,
        cut: int,
    ) -> Encoding[list[Prompt]]:
        """The prompts of a group under one condition, with its article shortened to `source` by
        `cut` tokens."""
        plain, fold = self._filled(condition, group, judged, source)
        # in the chat template, then as tokens, of which none that the example says is a control
        # token
        spelled = [self._control.broken(self._chat(filled)) for filled in plain]
        encoded = yield [filled.text for filled, _ in spelled]
        shared = spelled[0][0].prefix
        cell = (condition.dimension, condition.range)
        if cell not in self._choices:
            about_nothing = fill(self.rubrics[condition.dimension], condition.range, _NOTHING).text
            self._choices[cell] = choices_of(about_nothing, condition.range)
        prompts = []
        for example, frame, (filled, names), whole in zip(
            group, plain, spelled, encoded, strict=True
        ):
            allowed = self._allowed(frame)
            where = f"example {example.example_id}"
            ids, broken = self._control.spell(filled.text, filled.said, allowed, where, whole)
            # one string object for the whole group: a run holds many thousands of prompts
            prompts.append(
                Prompt(
                    example,
                    condition,
                    shared if filled.prefix == shared else filled.prefix,
                    filled.tail,
                    ids,
                    cut,
                    broken + names,
                    self._choices[cell],
                    fold,
                )
            )
        return prompts

    def _allowed(self, filled: Filled) -> int:
        """Number of control tokens of the prompt about a harmless example: the template's, and the
        rubric's own. Prompts differ in what they say of their examples alone, so few are
        counted."""
        text = filled.text
        at = 0
        rubric = []
        for start, end in sorted(filled.said):
            rubric.append(text[at:start])
            at = max(at, end)
        frame = _HARMLESS.join([*rubric, text[at:]])
        if frame not in self._frames:
            if len(self._frames) >= _MOST_FRAMES:
                self._frames.clear()
            (ids,) = encode_texts(self.tokenizer, [self._chat(Filled("", frame, ())).text])
            self._frames[frame] = self._control.count(ids)
        return self._frames[frame]
