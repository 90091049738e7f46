"""Reads judge prompts with llama.cpp's server, over HTTP on loopback, prompt cache on. Runs in .peers/llama.

Usage: python llama_peer.py WORK.json      (written by bench_engine.py; prints a JSON line with the measurements)
"""

from __future__ import annotations

import json
import resource
import sys
import time
import urllib.request

import xllamacpp


def main() -> None:
    """Reads article by article; the server keeps the last prompt's keys and reads only what differs."""
    with open(sys.argv[1], encoding="utf-8") as file:
        work = json.load(file)
    params = xllamacpp.CommonParams()
    params.model.path = work["gguf"]
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = work["threads"]
    params.cpuparams_batch.n_threads = work["threads"]
    params.warmup = True
    server = xllamacpp.Server(params)

    def read(ids: list[int]) -> dict[int, float]:
        body = {"prompt": ids, "n_predict": 1, "n_probs": 200, "cache_prompt": True, "temperature": 0}
        request = urllib.request.Request(
            server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            given = json.load(answer)["completion_probabilities"][0]["top_logprobs"]
        return {entry["id"]: entry["logprob"] for entry in given}

    read(work["warmup"][0])
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, logprobs = [], []
    for group in work["groups"]:
        began = time.perf_counter()
        found = [read(ids) for ids in group]
        seconds.append(time.perf_counter() - began)
        logprobs += [[given.get(token) for token in work["tokens"]] for given in found]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
    print("RESULT " + json.dumps({"seconds": seconds, "logprobs": logprobs, "extra_mb": peak / 1024}))


if __name__ == "__main__":
    main()
