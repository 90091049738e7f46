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

TOKENIZED, PLANNED = 1.6e-3, 0.4e-3
"""CPU seconds of a prompt of 800 tokens: to tokenize it, which all cores of a machine share; and to build it, give it
its key and put it into a batch, in one process."""
PUT, SCORED = 25_000, 4_600
"""Readings a second that one process stores, and texts a second that it reads, parses, scores and writes, by
`scripts/bench.py store --readings 1000000` and `scripts/bench.py stream --texts 1000000`."""
BYTES = {"text": 2_400, "SQLite": 122, "score": 4}
"""Bytes of a text with its article as JSON; of a reading of five candidates, and of a row of scores whose
names count up, by the same two commands."""


@dataclass(frozen=True)
class Job:
    """A job of so many judgments. `judge` and `assistant` are parameters, `gpus` and `cores` work at once, `texts` are
    those of one article, `price` is in USD per million prompt tokens of a served judge."""

    judgments: float
    judge: float
    assistant: float
    gpus: int
    cores: int
    texts: int
    price: float

    def row(self) -> dict[str, str]:
        prompt, computed = TOKENS[self.texts]
        models = 2 if self.assistant else 1
        # 1. what is computed: two operations a parameter and token; attention over 800 tokens adds less than 2 %
        operations = 2 * computed * (self.judge + self.assistant) * self.judgments
        hours = operations / (PEAK * SHARE) / 3600
        # 2. wall hours of each stage, if it were alone
        stages = {
            f"{self.gpus} GPUs": hours / self.gpus,
            f"planning, {self.cores} cores": self.judgments * (TOKENIZED / self.cores + PLANNED) / 3600,
            "store, one process": models * self.judgments / PUT / 3600,
            "scores, one process": self.judgments / SCORED / 3600,
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
            "one after the other": _hours(sum(stages.values())),
            "bottleneck": slowest,
            "readings in SQLite": f"{_short(models * self.judgments * BYTES['SQLite'])}B",
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
    shared = {name: getattr(options, name) for name in ("judge", "assistant", "gpus", "cores", "price")}
    jobs = [Job(count, texts=texts, **shared).row() for count in options.judgments for texts in options.texts]
    lines = [[name, *(job[name] for job in jobs)] for name in jobs[0]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def main(arguments: Sequence[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgments", type=float, nargs="+", default=[1e6, 1e8, 1e9])
    parser.add_argument("--judge", type=float, default=7.6e9, help="parameters of the judge")
    parser.add_argument("--assistant", type=float, default=0.5e9, help="parameters of the assistant; 0 without one")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--cores", type=int, default=16, help="cores of the machine that plans")
    parser.add_argument("--texts", type=int, nargs="+", choices=sorted(TOKENS), default=[1, 16], help="of an article")
    parser.add_argument("--price", type=float, default=0.15, help="USD per million prompt tokens of a served judge")
    return table(parser.parse_args(arguments))


if __name__ == "__main__":
    print(main())
