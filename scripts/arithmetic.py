"""Arithmetic of large jobs: tokens, GPU hours, storage and the bottleneck of 10^6 to 10^9 judgments.

    python scripts/arithmetic.py                                  the table of docs/scale.md
    python scripts/arithmetic.py --judge 14e9 --assistant 3e9 --gpus 32 --texts 1

A judgment is one text in one score range, read by a judge and an assistant. What is measured says by which command;
what is assumed says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

TOKENS = {1: (792, 551), 3: (803, 258), 6: (800, 180), 16: (797, 141)}
"""Texts of an article -> tokens of a prompt, and those of them that are computed. SummEval's articles (2,069
characters) and summaries (315) in the paper's rubric, whose 246 tokens are read once; one score range, Qwen2.5's
tokenizer, batches of 4,096 tokens: `python -m judgebench data=summeval dry_run=true`."""

PEAK = 989e12
"""Dense bfloat16 operations a second of an H100 SXM, by its maker's data sheet."""
SHARE = 0.4
"""Share of the peak that reading attains: an assumption, for judgebench has not been timed on a GPU."""

PLANNED = {1: 737, 3: 3_095, 6: 3_095, 16: 3_095}
"""Texts of an article -> prompts of 854 tokens that are tokenized and put into batches in a CPU second, whole and in
parts, by `scripts/bench.py planning`."""
SCORED, CHECKED = 4_600, 23_000
"""Texts a second that an actor reads, parses, scores and writes, by `scripts/bench.py stream --texts 1000000`; and that
the command checks before any is read, which takes a fifth of that time."""
BYTES = {"text": 2_400, "SQLite": 122, "score": 4}
"""Bytes of a text with its article as JSON; of a reading of five candidates, and of a row of scores whose
names count up, by the same two commands."""


@dataclass(frozen=True)
class Job:
    """A job of so many judgments. `judge` and `assistant` are parameters, `gpus` work at once, each with an actor,
    `texts` are those of one article, `price` is in USD per million prompt tokens of a served judge."""

    judgments: float
    judge: float
    assistant: float
    gpus: int
    texts: int
    price: float

    def row(self) -> dict[str, str]:
        prompt, computed = TOKENS[self.texts]
        models = 2 if self.assistant else 1
        # 1. what is computed: two operations a parameter and token; attention over 800 tokens adds less than 2 %
        operations = 2 * computed * (self.judge + self.assistant) * self.judgments
        hours = operations / (PEAK * SHARE) / 3600
        # 2. wall hours of each stage, if it were alone
        planning = models * self.judgments / PLANNED[self.texts] / 3600 / self.gpus
        stages = {
            f"{self.gpus} GPUs": hours / self.gpus,
            "planning, by their actors": planning,
            "scores, by their actors": self.judgments / SCORED / 3600 / self.gpus,
            "checks, one process": self.judgments / CHECKED / 3600,
        }
        slowest = max(stages, key=lambda stage: stages[stage])
        # 3. what is kept
        return {
            "judgments": f"10^{len(str(int(self.judgments))) - 1}",
            "texts of an article": str(self.texts),
            "tokens of the prompts": _short(prompt * models * self.judgments),
            "tokens computed": _short(computed * models * self.judgments),
            "GPU hours": _figure(hours),
            **{f"alone: {stage}": _hours(wall) for stage, wall in stages.items()},
            "together, planning beside the GPUs": _hours(sum(stages.values()) - min(hours / self.gpus, planning)),
            "bottleneck": slowest,
            "readings in SQLite, if kept": f"{_short(models * self.judgments * BYTES['SQLite'])}B",
            "texts read": f"{_short(self.judgments * BYTES['text'])}B",
            "scores written": f"{_short(self.judgments * BYTES['score'])}B",
            "served instead, USD": _figure(prompt * self.judgments * self.price / 1e6),
            "the same as batches, USD": _figure(prompt * self.judgments * self.price / 2e6),
        }


def _short(number: float) -> str:
    for size, unit in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g} "


def _figure(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.10g}"


def _hours(hours: float) -> str:
    if hours < 1:
        return f"{60 * hours:.2g} min"
    return f"{hours:.2g} h" if hours < 100 else f"{_figure(hours / 24)} days"


def table(options: argparse.Namespace) -> str:
    """The table in Markdown, a column for each number of judgments and of texts of an article."""
    shared = {name: getattr(options, name) for name in ("judge", "assistant", "gpus", "price")}
    jobs = [Job(count, texts=texts, **shared).row() for count in options.judgments for texts in options.texts]
    lines = [[name, *(job[name] for job in jobs)] for name in jobs[0]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def main(arguments: Sequence[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgments", type=float, nargs="+", default=[1e6, 1e8, 1e9])
    parser.add_argument("--judge", type=float, default=7.6e9, help="parameters of the judge")
    parser.add_argument("--assistant", type=float, default=0.5e9, help="parameters of the assistant; 0 without one")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--texts", type=int, nargs="+", choices=sorted(TOKENS), default=[1, 16], help="of an article")
    parser.add_argument("--price", type=float, default=0.15, help="USD per million prompt tokens of a served judge")
    return table(parser.parse_args(arguments))


if __name__ == "__main__":
    print(main())
