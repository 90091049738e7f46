"""Counts what the engine does on a GPU, without one: kernels, memory, and the least time that an H100 could take.

Usage: python scripts/bench_roofline.py [--models 7B 14B 3B] [--json FILE]

Shapes, kernels and bytes are those of the engine on CUDA tensors without numbers; the milliseconds are a roofline (640
TFLOP/s in bfloat16, 2.7 TB/s, 2.5 us a kernel), not timings. Standard case: 2 articles with 12 texts each, 250 tokens
of rubric, 550 of article, about 130 of each text, range 1 to 5. `scripts/gpu_check.py` measures on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from judgebench.judges.engine.prefix import PrefixEngine
from tests.judges.fake_cuda import fake_gpu
from tests.judges.test_fake_cuda import OWN, SHAPES, Device, qwen, qwen_trie, texts

CASES: dict[str, Any] = {
    "standard": (lambda: texts(250, 550, OWN, 2), qwen_trie(1, 5)),
    "range 1-100": (lambda: texts(250, 550, OWN, 2), qwen_trie(1, 100)),
    "30 single texts": (lambda: texts(250, 100, [130], 30), qwen_trie(1, 5)),
    "article of 12,000": (lambda: texts(250, 12000, OWN[:1], 1), qwen_trie(1, 5)),
}


def main() -> None:
    """Counts each case for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    table = Table("Qwen2.5", "case", "ms", "kernels", "attention calls", "peak GiB", title="Roofline of one H100")
    rows = []
    for name in given.models:
        with fake_gpu() as (fake, counted):
            device = Device(fake, counted)
            engine = PrefixEngine(device.model(qwen(name)))
            for case, (groups, trie) in CASES.items():
                device.reading(engine, groups(), trie)
                row = {
                    "model": name,
                    "case": case,
                    "ms": round(counted.seconds * 1e3, 1),
                    "kernels": sum(counted.kernels.values()),
                    "attention_calls": counted.kernels["_varlen_attn"],
                    "peak_gib": round(counted.peak / 2**30, 2),
                }
                rows.append(row)
                table.add_row(*map(str, row.values()))
    Console(width=100).print(table)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
