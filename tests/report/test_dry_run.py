from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from judgebench.report.views.run import dry_run_view
from judgebench.types import Condition, Example, Prompt, ScoreRange

EXACT = (
    "<|im_start|>user\nScore [1] it :smile: [bold]now[/bold].  \n"
    + "A sentence of the article. " * 30
    + "x" * 250
    + "\n\n\ttab, trailing blanks   \n全角文字 "
    + "字" * 90
    + "\nScore:"
)


def printed(prompts, tokens, width):
    file = io.StringIO()
    Console(file=file, width=width).print(dry_run_view(prompts, tokens, {"main": "m", "assistant": None}))
    return file.getvalue()


def prompt(condition, text, number=0):
    example = Example(f"e{number}", "g", "s", "", "", {"coherence": 1.0})
    return Prompt(example, condition, text[:5], text[5:], np.arange(7, dtype=np.int32))


@pytest.mark.parametrize("width", [40, 100, 2000])
def test_the_first_prompt_is_printed_to_the_letter(width):
    condition = Condition("coherence", ScoreRange(1, 5))
    text = printed([prompt(condition, EXACT)], {condition: (7, 5)}, width)
    assert text.endswith(f"\n{EXACT}\n")


def test_conditions_and_their_tokens_stand_above():
    conditions = [Condition("coherence", ScoreRange(1, top)) for top in (5, 10)]
    prompts = [prompt(condition, f"{condition}", i) for condition in conditions for i in range(2)]
    lines = printed(prompts, dict(zip(conditions, [(14, 9), (1400, 900)], strict=True)), 100).splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("coherence  ", "all"))]
    assert rows == [
        ["coherence", "1-5", "none", "none", "2", "14", "9", "7"],
        ["coherence", "1-10", "none", "none", "2", "1,400", "900", "7"],
        ["all", "4", "1,414", "909"],
    ]
    assert sum("first prompt" in line for line in lines) == 2
