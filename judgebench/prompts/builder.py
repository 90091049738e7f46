"""From examples and conditions to the exact prompts that a judge reads: rubric, chat template, tokens, length."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from transformers import PreTrainedTokenizerBase

from judgebench.prompts.choices import choices_of
from judgebench.prompts.control import ControlTokens, Span
from judgebench.prompts.defended import Defense
from judgebench.prompts.rubrics import Filled, fill, is_comparative, load_rubrics, names_range, names_tie
from judgebench.prompts.tokens import AT_ONCE, token_ids, tokenized
from judgebench.runtime.errors import UserError
from judgebench.time_limit import SECONDS, NeverEnds, within
from judgebench.types import Condition, Example, Prompt, Rubric, ScoreRange

TRUNCATIONS = ("error", "source")
NO_DEFENSE = "none"
"""What a condition names that leaves the prompt as the rubric has it."""

Judged = Callable[[Example, Condition], str]
"""What stands in the place of an example's judged text under a condition: that text itself, unless it is attacked."""

_HARMLESS = "a"
_MOST_FRAMES = 1000
_NOTHING = Example(example_id="", group_id="", system_id="", source="", output="", human={})
_KEYS = ("rubrics", "variants", "max_tokens", "truncate", "template_options")


class PromptBuilder:
    """Builds prompts for one tokenizer. What an example says never becomes a control token; see ControlTokens.

    Args:
        tokenizer: the main model's; its chat template is applied once if it has one, else the text stands plain with
            the tokenizer's BOS before it.
        rubrics: dimension -> rubric.
        max_tokens: longest prompt that the judge can read.
        truncate: `error`, or `source`: shorten the article of a group until its longest prompt fits.
        template_options: passed to the chat template, as a fixed date for those that print today's.
        defenses: those that conditions may name, beside `none`.
        closed: whether a plain text ends with the tokenizer's EOS, where it would put one: what goes to an encoder is
            a whole, what a decoder goes on with is not.
        control: how names of control tokens are written; None: as `tokenizer` needs it.

    Attributes:
        comparative: whether the rubrics ask which of two texts is better; see `is_comparative`.
        tieless: the dimensions whose rubrics do not say how a tie is answered.
        rangeless: those whose rubrics do not say which scores there are.

    Raises:
        UserError: an unknown `truncate`; no room for a prompt; an option that is not the template's.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        rubrics: Mapping[str, Rubric],
        max_tokens: int,
        truncate: str = "error",
        template_options: Mapping[str, Any] | None = None,
        defenses: Sequence[Defense] = (),
        closed: bool = False,
        control: ControlTokens | None = None,
    ):
        if truncate not in TRUNCATIONS:
            raise UserError(f"prompt.truncate: {truncate!r} is not one of {', '.join(TRUNCATIONS)}.")
        if max_tokens < 1:
            raise UserError(
                f"judge.max_new_tokens and prompt.max_tokens leave {max_tokens} tokens for a prompt, which needs at "
                "least 1; lower judge.max_new_tokens, or raise prompt.max_tokens."
            )
        self.tokenizer = tokenizer
        self.comparative = is_comparative(rubrics)
        self.tieless = [dimension for dimension, rubric in rubrics.items() if not names_tie(rubric)]
        self.rangeless = [dimension for dimension, rubric in rubrics.items() if not names_range(rubric)]
        self._rubrics = rubrics
        self._max_tokens = max_tokens
        self._truncate = truncate
        self._options = _template_options(tokenizer, template_options)
        self._defenses = {defense.name: defense for defense in defenses}
        self._bos = plain_bos(tokenizer)
        self._eos = _plain_eos(tokenizer) if closed else ""
        self._choices: dict[tuple[str, ScoreRange], Mapping[str, float]] = {}
        self._control = control or ControlTokens(tokenizer)
        self._frames: dict[str, int] = {}

    @classmethod
    def from_config(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        config: Mapping[str, Any],
        dimensions: Sequence[str],
        limit: int,
        defenses: Sequence[Defense] = (),
        closed: bool = False,
        control: ControlTokens | None = None,
    ) -> PromptBuilder:
        """From conf/prompt.

        Args:
            tokenizer: the main model's.
            config: plain values: rubrics, variants, max_tokens, truncate, template_options.
            dimensions: what is judged.
            limit: tokens of a prompt that all models can read, room for the answer already taken off.
            defenses: those that conditions may name, beside `none`.
            closed, control: see `PromptBuilder`.

        Raises:
            UserError: a key that is unknown, missing or holds something else than it should.
        """
        if not isinstance(config, Mapping):
            raise UserError(f"prompt: {config!r} is no group of settings; conf/prompt/paper.yaml shows one.")
        if unknown := [key for key in config if key not in _KEYS]:
            raise UserError(f"prompt.{unknown[0]} is unknown; there are {', '.join(_KEYS)}.")
        if missing := [key for key in _KEYS if key not in config]:
            raise UserError(f"prompt.{missing[0]} is not given; conf/prompt/paper.yaml shows what it is.")
        most = config["max_tokens"]
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise UserError(f"prompt.max_tokens must be null or a whole number of at least 1, got {most!r}.")
        if limit < 1:
            raise UserError(
                f"judge.max_new_tokens: an answer that long leaves {limit} tokens for the prompt, of all that the "
                "models can read; lower it."
            )
        rubrics = load_rubrics(config["rubrics"], dimensions, config["variants"])
        limit = limit if most is None else min(limit, most)
        return cls(tokenizer, rubrics, limit, config["truncate"], config["template_options"], defenses, closed, control)

    def build(
        self, examples: Iterable[Example], conditions: Sequence[Condition], judged: Judged | None = None
    ) -> list[Prompt]:
        """The prompts, condition by condition, the examples of a group together.

        All conditions read the same article: where one must be shortened, it is cut once, for the longest prompt of
        its group under any of them.

        Args:
            judged: the judged text of each prompt; None takes the example's.

        Raises:
            UserError: a prompt is too long; names the example and both numbers of tokens.
        """
        if not conditions:  # as while no defense is ready yet
            return []
        groups: dict[str, list[Example]] = {}
        for example in examples:
            groups.setdefault(example.group_id, []).append(example)
        built = [self._of_group(group, conditions, judged or _as_it_is) for group in groups.values()]
        return [prompt for i in range(len(conditions)) for of_group in built for prompt in of_group[i]]

    def under(self, defenses: Sequence[Defense]) -> PromptBuilder:
        """The same with other defenses."""
        other = copy.copy(self)
        other._defenses = {defense.name: defense for defense in defenses}
        return other

    def null(self, condition: Condition) -> Prompt:
        """The prompt about nothing: the condition's rubric with an empty source and an empty judged text, defended as
        the condition is."""
        return self._of_group([_NOTHING], [condition], _as_it_is)[0][0]  # what is judged about nothing is not attacked

    def _of_group(
        self, group: Sequence[Example], conditions: Sequence[Condition], judged: Judged
    ) -> list[list[Prompt]]:
        """[conditions][examples of the group] prompts, all of them short enough."""
        built, longest = self._with_source(group, conditions, judged, None, 0)
        excess = len(longest.token_ids) - self._max_tokens
        if excess <= 0:
            return built
        if self._truncate == "error":
            raise _too_long(longest, self._max_tokens, "set prompt.truncate=source to shorten its article")
        if not self.tokenizer.is_fast:
            raise _too_long(longest, self._max_tokens, "only a fast tokenizer can shorten its article")
        source = group[0].source
        encoded = tokenized(self.tokenizer, [source], split_special_tokens=True, return_offsets_mapping=True)
        ends = [end for _, end in encoded["offset_mapping"][0]]
        cut = 0
        while excess > 0:
            if cut == len(ends):
                raise _too_long(longest, self._max_tokens, "it does not fit even without its article")
            cut = min(cut + excess, len(ends))
            kept = source[: ends[len(ends) - cut - 1]] if cut < len(ends) else ""
            built, longest = self._with_source(group, conditions, judged, kept, cut)
            excess = len(longest.token_ids) - self._max_tokens
        return built

    def _with_source(
        self,
        group: Sequence[Example],
        conditions: Sequence[Condition],
        judged: Judged,
        source: str | None,
        cut: int,
    ) -> tuple[list[list[Prompt]], Prompt]:
        """[conditions][examples of the group] prompts, and the longest of them."""
        built = [self._under(condition, group, judged, source, cut) for condition in conditions]
        return built, max((prompt for row in built for prompt in row), key=lambda prompt: len(prompt.token_ids))

    def _under(
        self, condition: Condition, group: Sequence[Example], judged: Judged, source: str | None, cut: int
    ) -> list[Prompt]:
        plain = self._filled(condition, group, judged, source)
        spelled = [self._control.broken(filled) for filled in self._chats(plain)]
        asked = [filled for filled, _ in spelled]
        encoded = token_ids(self.tokenizer, [filled.text for filled in asked])
        shared = asked[0].prefix
        choices = self._letters(condition.dimension, condition.range)
        prompts = []
        for example, frame, (filled, named), whole in zip(group, plain, spelled, encoded, strict=True):
            more = self._cuts(condition, example, filled)
            allowed, where = self._allowed(frame), f"example {example.example_id}"
            ids, broken = self._control.spell(filled.text, filled.said, allowed, where, more, whole)
            # one string object for the whole group: a run holds many thousands of prompts
            prefix = shared if filled.prefix == shared else filled.prefix
            prompts.append(Prompt(example, condition, prefix, filled.tail, ids, cut, broken + named, choices))
        return prompts

    def _allowed(self, filled: Filled) -> int:
        """How many control tokens the prompt would have about a harmless example: the template's, and the rubric's own.
        Prompts differ in what they say of their examples alone, so few are counted."""
        text, at, rubric = filled.text, 0, []
        for start, end in sorted(filled.said):
            rubric.append(text[at:start])
            at = max(at, end)
        frame = _HARMLESS.join([*rubric, text[at:]])
        if frame not in self._frames:
            if len(self._frames) >= _MOST_FRAMES:
                self._frames.clear()
            (ids,) = token_ids(self.tokenizer, [filled.text for filled in self._chats([Filled("", frame, ())])])
            self._frames[frame] = self._control.count(ids)
        return self._frames[frame]

    def _filled(
        self, condition: Condition, group: Sequence[Example], judged: Judged, source: str | None
    ) -> list[Filled]:
        """The rubric about each example of a group, as its defense has it."""
        rubric, defense = self._rubrics[condition.dimension], self._defense(condition)
        texts = [judged(example, condition) for example in group]
        if defense is not None:
            texts = [defense.text(text, example, condition) for text, example in zip(texts, group, strict=True)]
            if self.comparative:
                group = [replace(one, rival=defense.text(one.rival, one, condition)) for one in group]
            others = {text for one in group for text in (one.source, one.context, one.rival)}
            rubric = defense.rubric(rubric, [*texts, *sorted(others)])
        more = {} if defense is None else defense.more(group[0], condition)
        return [
            fill(rubric, condition.range, example, source, text, condition.order, more)
            for example, text in zip(group, texts, strict=True)
        ]

    def _cuts(self, condition: Condition, example: Example, filled: Filled) -> list[int]:
        """Where the condition's defense breaks tokens of the texts to be judged."""
        defense = self._defense(condition)
        if defense is None:
            return []
        return [
            first + place for first, last in filled.judged for place in defense.cuts(filled.text[first:last], example)
        ]

    def _letters(self, dimension: str, score_range: ScoreRange) -> Mapping[str, float]:
        """The rubric's multiple choice; see `Prompt.choices`."""
        cell = dimension, score_range
        if cell not in self._choices:
            self._choices[cell] = choices_of(fill(self._rubrics[dimension], score_range, _NOTHING).text, score_range)
        return self._choices[cell]

    def _defense(self, condition: Condition) -> Defense | None:
        return None if condition.defense == NO_DEFENSE else self._defenses[condition.defense]

    def _chats(self, filled: Sequence[Filled]) -> list[Filled]:
        """Each as the judge reads it."""
        try:
            parts = [filled[start : start + AT_ONCE] for start in range(0, len(filled), AT_ONCE)]
            return [one for part in parts for one in within(partial(self._all_in_chat, part))]
        except NeverEnds:
            raise UserError(
                f"The chat template of the tokenizer {self.tokenizer.name_or_path or 'without a name'} (judge.path) "
                f"has not come to an end after {SECONDS:g} seconds; mend it, or give another."
            ) from None

    def _all_in_chat(self, filled: Sequence[Filled]) -> list[Filled]:
        return [self._in_chat(one) for one in filled]

    def _in_chat(self, filled: Filled) -> Filled:
        # templates trim what they are given; trimmed beforehand, the text stands in the result as it is
        content = filled.text.strip()
        trimmed = len(filled.text) - len(filled.text.lstrip())
        if self.tokenizer.chat_template is None:
            text, places = self._bos + content + self._eos, [len(self._bos)]
        else:
            text = self._templated(content)
            places = _places(content, text)
        if not places:
            raise UserError(
                "The tokenizer's chat template changes the text that it is given, so that the judge would not read "
                "what is recorded; give another with judge.path of a tokenizer without a template, or mend it."
            )

        def moved(spans: Sequence[Span], at: int) -> list[Span]:
            shift, end = at - trimmed, at + len(content)
            return [(max(first + shift, at), min(last + shift, end)) for first, last in spans]

        # a template may give what it is told twice, and the example speaks in both places
        said = tuple(span for at in places for span in moved(filled.said, at))
        own = max(len(filled.prefix) + places[0] - trimmed, places[0])
        return Filled(text[:own], text[own:], said, tuple(moved(filled.judged, places[0])))

    def _templated(self, content: str) -> str:
        turn = [{"role": "user", "content": content}]
        try:
            return str(
                self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True, **self._options)
            )
        # a template is a program of its own, and raises what it likes
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(
                f"The chat template of the tokenizer {self.tokenizer.name_or_path or 'without a name'} (judge.path) "
                f"fails on one user turn ({type(error).__name__}: {reason.rstrip('.')}); mend it, or give another."
            ) from error


def _places(part: str, text: str) -> list[int]:
    """Where a part stands in a text, each time."""
    found, at = [], text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + len(part)) if part else -1
    return found


def _as_it_is(example: Example, condition: Condition) -> str:
    return example.output


def plain_bos(tokenizer: PreTrainedTokenizerBase) -> str:
    """The BOS that the tokenizer itself would put before a plain text, or nothing."""
    (ids,) = tokenized(tokenizer, ["a"], add_special_tokens=True)["input_ids"]
    starts = tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
    return str(tokenizer.bos_token) if starts else ""


def _plain_eos(tokenizer: PreTrainedTokenizerBase) -> str:
    """The EOS that the tokenizer itself would put after a plain text, or nothing."""
    (ids,) = tokenized(tokenizer, ["a"], add_special_tokens=True)["input_ids"]
    ends = tokenizer.eos_token_id is not None and ids[-1:] == [tokenizer.eos_token_id]
    return str(tokenizer.eos_token) if ends else ""


def _template_options(tokenizer: PreTrainedTokenizerBase, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UserError(
            "prompt.template_options must map names in the chat template to values, as in {enable_thinking: false}, "
            f"or be null, got {given!r}."
        )
    taken = {*inspect.signature(tokenizer.apply_chat_template).parameters, "messages"} - {"kwargs"}
    if clash := sorted(taken & set(given)):
        raise UserError(
            f"prompt.template_options.{clash[0]}: this is no option of a chat template; judgebench itself decides how "
            "the template is applied."
        )
    return dict(given)


def _too_long(longest: Prompt, limit: int, remedy: str) -> UserError:
    return UserError(
        f"The prompt of example {longest.example.example_id} ({longest.condition}) has {len(longest.token_ids)} "
        f"tokens, and the judge reads at most {limit}; {remedy}."
    )
