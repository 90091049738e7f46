"""Reads judge prompts with vLLM, prefix caching on. Runs in .peers/vllm, or wherever vLLM is.

Usage: python vllm_peer.py WORK.json DTYPE      (WORK is written by bench_engine.py; prints a JSON line)
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time


def main() -> None:
    """Hands over an article's prompts at once, as vLLM likes it."""
    with open(sys.argv[1], encoding="utf-8") as file:
        work = json.load(file)
    if work["device"] == "cpu":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{work['threads'] - 1}")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from vllm import LLM, SamplingParams

    model = LLM(work["folder"], dtype=sys.argv[2], enable_prefix_caching=True, max_model_len=4096, seed=0)
    options = SamplingParams(temperature=0.0, max_tokens=1, logprobs=20)

    def read(group: list[list[int]]) -> list[dict[int, float]]:
        answers = model.generate([{"prompt_token_ids": ids} for ids in group], options, use_tqdm=False)
        return [{token: given.logprob for token, given in answer.outputs[0].logprobs[0].items()} for answer in answers]

    read(work["warmup"])
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, logprobs = [], []
    for group in work["groups"]:
        began = time.perf_counter()
        found = read(group)
        seconds.append(time.perf_counter() - began)
        logprobs += [[given.get(token) for token in work["tokens"]] for given in found]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
    print("RESULT " + json.dumps({"seconds": seconds, "logprobs": logprobs, "extra_mb": peak / 1024}))


if __name__ == "__main__":
    main()
