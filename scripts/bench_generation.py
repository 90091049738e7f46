"""Measures free contrastive generation token by token and by drafts, on a pair of models.

Usage: python scripts/bench_generation.py MAIN ASSISTANT [--gguf FILE] [--dtype bfloat16] [--prompts 4] [--tokens 96]

MAIN and ASSISTANT are what judge.path and assistant.path take. Each draft size must give the answers that going token
by token gives; in half precision a tie may fall otherwise, and the share of equal answers says how often.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from judgebench.data.benchmarks import Mini
from judgebench.decoding.rules import Contrastive
from judgebench.judges.engine.generation import generate, speculate
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.loading import ModelSource, check_vocabularies

QUESTION = "Explain step by step what is good and what is bad about this summary, then rate it.\n\n{source}\n\n{output}"


def prompts(tokenizer: object, count: int) -> list[list[np.ndarray]]:
    """The first article's summaries, each with a question that takes a long answer."""
    data = Mini()
    data.setup()
    texts = [
        tokenizer.apply_chat_template(  # type: ignore[attr-defined]
            [{"role": "user", "content": QUESTION.format(source=e.source, output=e.output)}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for e in data.examples[:count]
    ]
    return [[np.array(ids, np.int32) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]]  # type: ignore[operator]


def main() -> None:
    """Loads the pair once and times each way of answering."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("main")
    parser.add_argument("assistant")
    parser.add_argument("--gguf", help="the .gguf file inside both folders")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--lambda", dest="lambda_", type=float, default=0.1)
    parser.add_argument("--drafts", type=int, nargs="*", default=[2, 4, 8])
    given = parser.parse_args()
    sources = [ModelSource(path, given.gguf, dtype=given.dtype) for path in (given.main, given.assistant)]
    tokenizer = sources[0].tokenizer()
    check_vocabularies(tokenizer, sources[1].tokenizer())
    engines = [PrefixEngine(source.model()) for source in sources]
    groups, chooser, stops = prompts(tokenizer, given.prompts), Contrastive(given.lambda_), {tokenizer.eos_token_id}

    def matched(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = min(ours.shape[1], theirs.shape[1])
        return ours[:, :size], theirs[:, :size]

    def stepwise() -> list[list[int]]:
        ours, theirs = (engine.start(groups) for engine in engines)
        return generate([ours, theirs], lambda: matched(ours.logits[0], theirs.logits[0]), chooser, stops, given.tokens)

    def drafted(size: int) -> Callable[[], list[list[int]]]:
        def answer() -> list[list[int]]:
            ours, theirs = (engine.start(groups) for engine in engines)
            return speculate(ours, theirs, matched, chooser, size, stops, given.tokens)

        return answer

    table = Table(title=f"{given.prompts} prompts, up to {given.tokens} tokens each, lambda {given.lambda_:g}")
    for column in ("draft", "seconds", "tokens/s", "speed-up", "equal answers"):
        table.add_column(column, justify="right")
    expected: list[list[int]] = []
    first = 0.0
    with torch.inference_mode():
        for name, run in [("none", stepwise), *((str(size), drafted(size)) for size in given.drafts)]:
            began = time.perf_counter()
            answers = run()
            seconds = time.perf_counter() - began
            expected, first = expected or answers, first or seconds
            same = sum(a == b for a, b in zip(answers, expected, strict=True)) / len(answers)
            count = sum(map(len, answers))
            table.add_row(name, f"{seconds:.1f}", f"{count / seconds:.1f}", f"{first / seconds:.2f}x", f"{same:.0%}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
