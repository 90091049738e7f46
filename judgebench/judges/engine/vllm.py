"""Reads models with vLLM, in this process: for architectures that the prefix engine does not pack,
and for quantized checkpoints (AWQ, GPTQ, FP8).

vLLM is given token ids and gives the log-probabilities of the tokens that are asked for, over the
full vocabulary. A candidate of several tokens is reached by prompts that end with its beginnings;
vLLM's prefix cache makes them cheap. Its head computes in float32, as half precision ties.

vLLM's own numbers depend on what it computes together and on what its cache holds. So its scheduler
runs in this process, where it does not depend on time, and its cache is emptied before each batch:
a batch gives the same numbers whatever was read before.
"""

from __future__ import annotations

import gc
import json
import os
import warnings
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import metadata
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from judgebench.judges.batches import Groups
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.kernels import hardware, out_of_memory
from judgebench.runtime.errors import UserError

if TYPE_CHECKING:
    from judgebench.judges.loading import ModelSource

_AT_ONCE = 128
"""Tokens whose log-probabilities vLLM gives in one answer at most."""

_CPU = {"enforce_eager": True, "block_size": 32, "kv_cache_memory_bytes": 2 * 2**30}
"""Options on a CPU: no compilation, which takes minutes; prefixes shared in steps of 32 tokens, not
128; 2 GiB for keys and values, for its own choice would be most of the machine's memory."""

_ROOM = ("gpu_memory_utilization", "kv_cache_memory_bytes", "max_model_len", "cpu_offload_gb")
"""Options that say where things lie, and change no number."""

_TOLERANCE = 1e-3
_SHARE = 0.25
"""Largest difference of a log-probability between two ways of reading in float32; in half precision
mean difference over mean difference between prompts."""

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the scheduler here
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the threads are torch's
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",  # it would report each start to its makers
}

_running: dict[int, Any] = {}
"""`id` of a `VllmModel` -> its `vllm.LLM`."""


class VllmModel(torch.nn.Module):
    """A model in vLLM, in the place of a module of transformers; it starts with the first
    prompt."""

    def __init__(self, source: ModelSource):
        super().__init__()
        from transformers import GenerationConfig

        self.source, self.config, self.device = source, source.config(), hardware().device
        self.generation_config: Any = self.config
        if (source.locate() / "generation_config.json").is_file():
            self.generation_config = GenerationConfig.from_pretrained(source.locate())
        weakref.finalize(self, stop)

    @property
    def llm(self) -> Any:
        if id(self) not in _running:
            _running[id(self)] = _start(self.source)
        return _running[id(self)]


def stop() -> None:
    """Ends all models in vLLM, for they share a process group, which goes with the first; those
    that are asked again start again."""
    while _running:
        with _silenced(), suppress(Exception):  # at the end of Python parts of it may be gone
            _running.popitem()[1].llm_engine.engine_core.shutdown()
    gc.collect()


@contextmanager
def _silenced() -> Iterator[None]:
    """Nothing is printed within it, by native code neither; what goes wrong comes as an
    exception."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.dup2(nowhere.fileno(), 2)
            with redirect_stderr(nowhere), redirect_stdout(nowhere):
                yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _start(source: ModelSource) -> Any:
    """vLLM's `LLM` of a source; `UserError` where vLLM does not take it."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    given: dict[str, Any] = json.loads(source.vllm or "{}")
    options: dict[str, Any] = {"enable_prefix_caching": True, "max_model_len": -1}
    options |= {**(_CPU if hardware().device.type == "cpu" else {}), **given}
    options["hf_overrides"] = {"head_dtype": "float32", **options.get("hf_overrides", {})}
    threads = torch.set_num_threads
    try:
        with _silenced(), torch.inference_mode(False):
            from vllm import LLM

            return LLM(
                **options,
                model=str(source.locate()),
                dtype=source.effective_dtype(),
                trust_remote_code=source.trust_remote_code,
                seed=0,
                skip_tokenizer_init=True,
                generation_config="vllm",
                load_format="safetensors",
                logprobs_mode="raw_logprobs",
                max_logprobs=_AT_ONCE,
                disable_log_stats=True,
            )
    except Exception as error:
        if out_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:400].rstrip(".")
        raise UserError(
            f"{source.role}.path={source.path}: vLLM {version()} does not take it with "
            f"judge.engine_options={given} ({type(error).__name__}: {reason}); judge.engine=prefix "
            "reads it through transformers."
        ) from error
    finally:
        torch.set_num_threads = threads  # which vLLM makes do nothing


@cache
def version() -> str:
    """The version of vLLM, whose builds have names of their own."""
    names = metadata.packages_distributions().get("vllm", [])
    return metadata.version(names[0]) if names else "none"


def arithmetic(source: ModelSource) -> dict[str, str]:
    """All that numbers depend on but model and dtype. The kind of attention is asked for, or vLLM's
    choice, which follows from its version, the device, the model, and the FlashInfer that is
    installed."""
    options = {
        name: value for name, value in json.loads(source.vllm or "{}").items() if name not in _ROOM
    }
    device = hardware().device
    flashinfer = "none"
    with suppress(metadata.PackageNotFoundError):
        flashinfer = metadata.version("flashinfer-python")
    attention = str(options.get("attention_backend") or f"by vLLM, FlashInfer {flashinfer}")
    on_gpu = device.type == "cuda"
    return {
        "vllm": version(),
        "device": torch.cuda.get_device_name(device) if on_gpu else device.type,
        "attention": attention if on_gpu else "CPU_ATTN",
        "engine_options": json.dumps(options, sort_keys=True),
    }


class VllmEngine:
    """Reads prompts with vLLM. `computed` counts the tokens that its cache did not have, `asked`
    all."""

    def __init__(self, model: VllmModel):
        self.model: Any = model
        model.llm  # noqa: B018 - starts it, before anything else of vLLM is imported, which then would print
        self.asked = self.computed = 0

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: np.ndarray | None = None,
        following: object | None = None,
    ) -> list[Tensor]:
        from vllm import SamplingParams

        how = {"max_tokens": 1, "temperature": 0.0, "flat_logprobs": True, "detokenize": False}
        # 1. each branch's children, in as many questions as they need
        parts = [
            (prefix, list(tokens[first : first + _AT_ONCE]))
            for prefix, tokens in zip(trie.prefixes, trie.children, strict=True)
            for first in range(0, len(tokens), _AT_ONCE)
        ]
        questions = [
            (prefix, tokens, SamplingParams(**how, logprob_token_ids=tokens))
            for prefix, tokens in parts
        ]
        # 2. all branches of a prompt behind each other, and the prompts of an article, which share
        # most in the cache
        prompts = list(chain.from_iterable(groups))
        asked = [([*ids.tolist(), *prefix], ask) for ids in prompts for prefix, _, ask in questions]
        values = []
        for (_, tokens, _), output in zip(questions * len(prompts), self._ask(asked), strict=True):
            answer = output.logprobs
            assert list(answer.token_ids[1 : 1 + len(tokens)]) == tokens  # behind the likeliest
            values += answer.logprobs[1 : 1 + len(tokens)]
        return [trie.logprobs(torch.tensor(values).view(len(prompts), -1))]

    def answers(
        self, groups: Groups, stops: Collection[int], max_new_tokens: int
    ) -> list[list[int]]:
        """The likeliest tokens of an answer to each prompt, without the one that ends it (`stops`);
        `UserError` for a NaN."""
        from vllm import SamplingParams

        ends = sorted(stops)
        how = {"temperature": 0.0, "logprobs": 0, "flat_logprobs": True, "detokenize": False}
        ask = SamplingParams(max_tokens=max_new_tokens, stop_token_ids=ends, **how)
        outputs = self._ask([(ids.tolist(), ask) for ids in chain.from_iterable(groups)])
        if any(np.isnan(output.logprobs.logprobs).any() for output in outputs):
            raise UserError(
                f"{self.model.source.title} answers with NaN, so its weights or dtype are not fit "
                "to judge."
            )
        return [[token for token in output.token_ids if token not in stops] for output in outputs]

    def start(self, groups: Groups, root: np.ndarray | None = None) -> Any:
        raise NotImplementedError  # free answers are written whole

    def likelihoods(self, groups: Groups) -> list[list[Tensor]]:
        # prompts' own tokens would be read past its cache; helpers take transformers
        raise NotImplementedError

    def _ask(self, asked: Sequence[tuple[list[int], Any]]) -> list[Any]:
        """vLLM's answers to token ids, with what each is asked for; `UserError` for what it does
        not take."""
        llm = self.model.llm
        llm.reset_prefix_cache()
        try:
            with _silenced():
                prompts = [{"prompt_token_ids": ids} for ids, _ in asked]
                asks = [ask for _, ask in asked]
                outputs = llm.generate(prompts, asks, use_tqdm=False)
        except Exception as error:
            if out_of_memory(error):
                raise
            raise UserError(
                "judge.engine=vllm: vLLM does not read prompts of up to "
                f"{max(len(ids) for ids, _ in asked)} tokens of this model here "
                f"({' '.join(str(error).split())[:300].rstrip('.')}). If they are too long, give "
                "it more memory with judge.engine_options.gpu_memory_utilization, on a CPU "
                "kv_cache_memory_bytes, or take prompt.max_tokens and prompt.truncate=source; else "
                "take judge.engine=prefix."
            ) from error
        self.asked += sum(len(ids) for ids, _ in asked)
        self.computed += sum(
            len(each.prompt_token_ids) - (each.num_cached_tokens or 0) for each in outputs
        )
        return [each.outputs[0] for each in outputs]


def check_vllm(engine: VllmEngine) -> float:
    """The largest difference of a log-probability between a few short prompts that are read
    together, with what they share from the cache, and the same one by one; NaN where the model
    gives NaN. `UserError` where it is more than rounding explains. It does not show an error that
    both ways of reading share."""
    config = engine.model.config.get_text_config(decoder=True)
    draw = np.random.default_rng(0)

    def tokens(count: int) -> list[int]:
        return draw.integers(config.vocab_size // 10, config.vocab_size // 2, count).tolist()

    shared, (one, two) = tokens(70), tokens(2)
    prompts = [
        np.array(shared + end + more) for end in map(tokens, (3, 9, 40)) for more in ([], [one])
    ]
    trie = CandidateTrie(("1", "2"), [[(one,)], [(two,)]])
    together = engine.read([prompts], trie)[0]
    apart = torch.cat([engine.read([[ids]], trie)[0] for ids in prompts])
    gap = (together - apart).abs()
    between = (apart - apart.roll(1, dims=0)).abs().mean()
    worst = float(gap.max())
    share = float(gap.mean() / between)
    exact = engine.model.source.effective_dtype() == "float32"
    if not gap.isnan().any() and not (worst <= _TOLERANCE if exact else share <= _SHARE):
        raise UserError(
            f"judge.engine=vllm: {engine.model.source.title} gives other log-probabilities for "
            f"prompts that are read together than one by one (largest difference {worst:.3g}); "
            "take judge.engine_options.enable_prefix_caching=false, or judge.engine=prefix."
        )
    return worst
