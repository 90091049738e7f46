"""Answers that a judge gave earlier, matched with prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgebench.data.dataset import TEST
from judgebench.types import Condition, Prompt, Split
from judgebench.words.errors import UserError

Key = tuple[str, Condition]


_NAMED = 3


@dataclass(frozen=True)
class Answers:
    """The answers to some prompts, and what was left over on either side.

    Attributes:
        rows: number of rows of the file.
        given: (example_id, condition) -> answer.
        strays: a row each: names of examples that the data does not have.
        elsewhere: a row each: examples answered under conditions that are not judged.
        missing: prompts without a row.
        repeats: (example_id, condition) -> all answers of a text that was asked about again, the
            first of them the one that counts.
        in_order: neither rows nor texts have names, and they are about each other in their order.
    """

    file: str
    rows: int
    given: Mapping[Key, Any]
    strays: Sequence[str]
    elsewhere: Sequence[str]
    missing: Sequence[Prompt]
    in_order: bool = False
    repeats: Mapping[Key, Sequence[Any]] = field(default_factory=dict)

    def answered(self, prompts: Iterable[Prompt]) -> list[Prompt]:
        return [prompt for prompt in prompts if answer_key(prompt) in self.given]

    def to(self, prompt: Prompt) -> Any:
        return self.given[answer_key(prompt)]

    def all_to(self, prompt: Prompt) -> Sequence[Any]:
        """The answers to a prompt, the one that counts first."""
        key = answer_key(prompt)
        return self.repeats.get(key) or [self.given[key]]

    def check(self, prompts: Sequence[Prompt], split: Split) -> None:
        """Raises UserError where a condition has no answer, or none of the test split while others
        have some."""
        answered = self.answered(prompts)
        under = {prompt.condition for prompt in answered}
        tested = {prompt.condition for prompt in answered if split[prompt.example.group_id] == TEST}
        for condition in dict.fromkeys(prompt.condition for prompt in prompts):
            if condition not in under:
                others = [stray.rpartition(" under ")[2] for stray in self.elsewhere]
                listed = first_names(list(dict.fromkeys(others)), "; ")
                there = f"; {self.file} has answers under {listed}" if others else ""
                raise UserError(
                    f"judge.path: no row of {self.file} answers under {condition}, which is to be "
                    f"judged{there}."
                )
            if tested and condition not in tested:
                raise UserError(
                    f"judge.path: under {condition}, no row of {self.file} answers a text of the "
                    "test split, and under others some do; give such rows, leave the condition "
                    "out, or set data.dev_share=0."
                )

    @property
    def note(self) -> str:
        how = (
            " Rows and texts have no names, and are taken in their order." if self.in_order else ""
        )
        return f"Scored: {len(self.given):,} of the {self.rows:,} rows of {self.file}.{how} {self.left_out}".rstrip()

    @property
    def left_out(self) -> str:
        """Rows and texts that have no part in the run; empty where all have."""
        missing = [prompt.example.example_id for prompt in self.missing]
        joint = ", "
        if len({condition for _, condition in self.given}) > 1:
            joint = "; "
            missing = [f"{p.example.example_id} under {p.condition}" for p in self.missing]
        leftovers = (
            ("Rows whose example the data does not have", self.strays, ", "),
            ("Rows under conditions that are not judged", self.elsewhere, ", "),
            ("Examples without a row, left out", missing, joint),
        )
        return " ".join(
            f"{text}: {len(names):,} ({first_names(names, joint)})."
            for text, names, joint in leftovers
            if names
        )


def answer_key(prompt: Prompt) -> Key:
    """The example and the condition that a prompt is about."""
    return prompt.example.example_id, prompt.condition


def first_names(names: Sequence[str], joint: str = ", ") -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - _NAMED
    return joint.join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
