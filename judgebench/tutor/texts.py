"""Texts of a tutor, scored by the judge: candidates and their states (CAP, 4.2), references (4.3) and strengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import stats
from transformers import PreTrainedModel

from judgebench.decoding.rules import Decoding, Expectation, Greedy
from judgebench.decoding.scores import decode
from judgebench.judges.assistants import Assistant
from judgebench.judges.engine.hardware import out_of_memory
from judgebench.judges.engine.packing import Groups
from judgebench.judges.engine.plain import Engine
from judgebench.judges.passes import batch_tokens, engine_for
from judgebench.judges.planning import halves, plan
from judgebench.judges.reader import Reader, ReadingTask
from judgebench.judges.runner import PassRunner
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.errors import UserError
from judgebench.tutor.steering import HIGH, LOW, Standard, current, decoder_layers
from judgebench.tutor.tutor import GOOD, POOR, REFERENCE, SCORED, Tutor, written_example
from judgebench.tutor.writing import Sampling, Text, Written
from judgebench.types import FAILED, Condition, Example, Prompt, Reading

TextScorer = Callable[[Sequence[Example]], np.ndarray]
"""[examples] the judge's score of each, NaN where it gave none (see `JudgeScorer`)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate(Written):
    """One text for one context: the prompt that the tutor read, and which of the context's texts it is, from 0."""

    prompt: Prompt
    index: int

    @property
    def example(self) -> Example:
        """The candidate as a judged text."""
        return written_example(self.prompt.example, str(self.index), self.text)


def write_candidates(tutor: Tutor, contexts: Sequence[Example]) -> list[Candidate]:
    """`tutor.spec.candidates` sampled texts of each context, context by context.

    A text depends on the model, the seed, its context and its index alone: more candidates, or other contexts, leave
    those that are there as they are.
    """
    prompts = tutor.prompts(contexts)
    texts = [Text(prompt, index) for prompt in prompts for index in range(tutor.spec.candidates)]
    written = tutor.write(texts, tutor.sampling)
    return [
        Candidate(**vars(each), prompt=text.prompt, index=text.index) for text, each in zip(texts, written, strict=True)
    ]


@dataclass
class JudgeScorer:
    """Scores texts as the judge scores any other under one condition, clean and undefended.

    Args:
        judge: in `score_tokens` mode its expected score counts (as the paper scores), in `generate` mode the score that
            it writes.
        builder: builds the judge's prompts; knows the condition's rubric.
        runner: computes and keeps the readings; the tutor's, so that one model serves both.
    """

    judge: JudgeSpec
    builder: PromptBuilder
    condition: Condition
    runner: PassRunner

    def __call__(self, examples: Sequence[Example]) -> np.ndarray:
        """[examples] float64, in order; NaN where the judge's answer holds no score. Their ids differ."""
        unrated = [replace(example, human={self.condition.dimension: math.nan}) for example in examples]
        columns = decode(self.readings(unrated), {"score": self._decoding})
        scores = np.where(columns["status"] == FAILED, np.nan, columns["score"].astype(np.float64))
        by_example = dict(zip(columns["example_id"], scores, strict=True))
        return np.array([by_example[example.example_id] for example in examples])

    def readings(self, examples: Sequence[Example]) -> list[Reading]:
        """Readings of the judge, group by group."""
        task = ReadingTask(
            assistant=Assistant(),
            decodings={"score": self._decoding},
            prompts=self.builder.build(examples, [self.condition]),
            tokenizer=self.builder.tokenizer,
            null=self.builder.null,
            store=lambda: self.runner.store,
            models=self.runner.models,
        )
        reader = Reader(self.judge, task)
        reader.read(self.runner.trainer)
        return reader.readings({example.group_id: "" for example in examples})

    @property
    def _decoding(self) -> Decoding:
        return Greedy() if self.judge.mode == "generate" else Expectation()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the judge's content."""
        return self.judge.source.fingerprint(self.runner.store.file_digest)


def candidate_states(tutor: Tutor, candidates: Sequence[Candidate]) -> np.ndarray:
    """Hidden states of the tutor at the last token of each text that it wrote: [candidates, layers, hidden] float32,
    the output of every layer; the last layer's before the final norm. `UserError` where layers are not found, or a text
    does not fit into memory."""
    prompts = [
        replace(each.prompt, token_ids=np.concatenate([each.prompt.token_ids, each.tokens]).astype(np.int32))
        for each in candidates
    ]
    position = {id(prompt): i for i, prompt in enumerate(prompts)}
    order = {prompt.example.group_id: i for i, prompt in reversed(list(enumerate(prompts)))}
    prompts.sort(key=lambda prompt: order[prompt.example.group_id])
    runner = tutor.runner
    runner.models.make_room({tutor.spec.source})
    with torch.inference_mode():
        model: Any = runner.models.get(tutor.spec.source).to(runner.device)  # type: ignore[arg-type]
        engine = engine_for(model, [tutor.view])
        states: list[np.ndarray] = [np.zeros(0)] * len(prompts)
        pending = list(plan(prompts, tutor.spec.token_budget))
        while pending:
            batch = pending.pop(0)
            try:
                rows = list(final_states(engine, model, batch_tokens(batch)).numpy())
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not out_of_memory(error) or len(batch.prompts) == 1:
                    raise
                rows = []
            if not rows:  # outside of the handler, which would keep the failed pass's tensors alive
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                pending[:0] = halves(batch)
            for prompt, row in zip(batch.prompts, rows, strict=False):
                states[position[id(prompt)]] = row
    return np.stack(states)


def final_states(engine: Engine, model: PreTrainedModel, groups: Groups) -> torch.Tensor:
    """The output of every layer at the last token of each text: [texts, layers, hidden] float32 on the CPU.

    Args:
        groups: [tokens] token ids of each text, those that begin alike together.
    """
    kept: list[torch.Tensor] = []

    def hook(module: torch.nn.Module, inputs: object, output: Any) -> None:
        states = current(output)
        if len(states):
            kept.append(states.float().cpu())

    layers = decoder_layers(model)
    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_hook(hook).remove)
        engine.start(groups)
    # the plain engine reads texts one by one, so each pass over the layers is one text's
    passes = [kept[start : start + len(layers)] for start in range(0, len(kept), len(layers))]
    return torch.cat([torch.stack(states, dim=1) for states in passes])


@dataclass(frozen=True)
class Reference:
    """The two texts of one context. `high_cut` and `low_cut` are True where one ends at the most tokens; `seconds` is
    the time of both."""

    group_id: str
    high: str
    low: str
    high_cut: bool = False
    low_cut: bool = False
    seconds: float = 0.0


def steered_texts(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alphas: Sequence[float]
) -> dict[float, list[Written]]:
    """Texts of each context under several strengths, in the same batches: alpha -> a text a context, in order; a text
    may be empty.

    A text is stored under the model, the standard vectors with their layer, its alpha, its context, the longest length
    and, where tokens are drawn, the seed: a strength that was tried before costs nothing.

    Args:
        alphas: alpha_h of a text towards the high standard, -alpha_l of one towards the low standard; 0 is the plain
            tutor's text.
    """
    prompts = tutor.prompts(contexts, REFERENCE)
    alphas = list(dict.fromkeys(float(alpha) for alpha in alphas))
    texts = [Text(prompt, alpha=alpha) for prompt in prompts for alpha in alphas]
    written = tutor.write(texts, _sampling(tutor), standard)
    return {alpha: written[i :: len(alphas)] for i, alpha in enumerate(alphas)}


def steered_references(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alpha_high: float, alpha_low: float
) -> list[Reference]:
    """CAP's pairs, in order of the contexts: equations 4 and 5 with these strengths, each at least 0. `UserError` where
    the tutor wrote nothing."""
    texts = steered_texts(tutor, contexts, standard, [alpha_high, -alpha_low])
    remedy = {HIGH: f"lower tutor.alpha_high={alpha_high:g}", LOW: f"lower tutor.alpha_low={alpha_low:g}"}
    return _pairs(contexts, texts[float(alpha_high)], texts[-float(alpha_low)], remedy)


def asked_references(
    tutor: Tutor, contexts: Sequence[Example], scores: tuple[float, float] | None = None
) -> list[Reference]:
    """W-CAP's pairs, for which the tutor is asked for a good and for a bad text; or random references, for which it is
    asked for a text of each of two scores, the high one first (CAP, section 3.2). `UserError` where the tutor wrote
    nothing."""
    kinds = ((GOOD, None), (POOR, None)) if scores is None else tuple((SCORED, score) for score in scores)
    high, low = (
        tutor.write([Text(prompt) for prompt in tutor.prompts(contexts, kind, score)], _sampling(tutor))
        for kind, score in kinds
    )
    return _pairs(contexts, high, low, dict.fromkeys((HIGH, LOW), "choose another tutor"))


def _sampling(tutor: Tutor) -> Sampling | None:
    return tutor.sampling if tutor.spec.sample_references else None


def _pairs(
    contexts: Sequence[Example], high: Sequence[Written], low: Sequence[Written], remedy: dict[str, str]
) -> list[Reference]:
    pairs = []
    for context, good, bad in zip(contexts, high, low, strict=True):
        for side, each in ((HIGH, good), (LOW, bad)):
            if not each.text:
                raise UserError(
                    f"tutor: the {side} reference of group {context.group_id} is empty, and a judge cannot hold a text "
                    f"against nothing; {remedy[side]}."
                )
        seconds = good.seconds + bad.seconds
        pairs.append(Reference(context.group_id, good.text, bad.text, good.cut, bad.cut, seconds))
    return pairs


@dataclass(frozen=True)
class Strength:
    """The judge's scores of the texts that one strength steers.

    Attributes:
        side: `high` or `low`: to which standard.
        alpha: the strength as it acts, of equation 4 or 5.
        n, empty: texts with a score, and empty texts, which have none.
        mean, variance: of their scores; the variance over n - 1.
        low, high: 95 % interval of the mean, by Student's t over contexts.
        target: the score to be met, a threshold of the candidates'.
        chosen: True where its mean is the nearest to the target of all that were tried.
    """

    side: str
    alpha: float
    n: int
    empty: int
    mean: float | None
    variance: float | None
    low: float | None
    high: float | None
    target: float
    chosen: bool = False


def measure_strengths(
    tutor: Tutor,
    contexts: Sequence[Example],
    standard: Standard,
    alphas: Sequence[float],
    scorer: TextScorer,
    targets: tuple[float, float],
) -> list[Strength]:
    """Every strength towards both standards.

    Args:
        contexts: of training data, as all that something is chosen on.
        alphas: strengths as they act, each at least 0.
        targets: the low and the high score to be met.

    Raises:
        UserError: no text has a score.
    """
    signed = {HIGH: 1.0, LOW: -1.0}
    goals = {LOW: targets[0], HIGH: targets[1]}
    written = steered_texts(tutor, contexts, standard, [sign * alpha for sign in signed.values() for alpha in alphas])
    examples = {
        (alpha, i): written_example(context, f"steered/{alpha:g}", text.text)
        for alpha, texts in written.items()
        for i, (context, text) in enumerate(zip(contexts, texts, strict=True))
        if text.text
    }
    in_groups = sorted(examples, key=lambda key: key[1])  # the texts of a context together, which share its prompt
    if not in_groups:
        raise UserError("tutor.strengths: the tutor wrote nothing at any of them; choose others, or another tutor.")
    scores = dict(zip(in_groups, scorer([examples[key] for key in in_groups]), strict=True))
    strengths = []
    for side, sign in signed.items():
        tried = []
        for alpha in dict.fromkeys(map(float, alphas)):
            judged = [scores.get((sign * alpha, i)) for i in range(len(contexts))]
            numbers = np.array([score for score in judged if score is not None and not math.isnan(score)])
            n, mean, variance, half = numbers.size, None, None, None
            if n:
                mean = float(numbers.mean())
            if n > 1 and mean is not None:
                variance = float(numbers.var(ddof=1))
                half = float(stats.t.ppf(0.975, n - 1)) * math.sqrt(variance / n)
            low, high = (None, None) if mean is None or half is None else (mean - half, mean + half)
            empty = sum(score is None for score in judged)
            tried.append(Strength(side, alpha, n, empty, mean, variance, low, high, goals[side]))
        scored = [strength for strength in tried if strength.mean is not None]
        if not scored:
            raise UserError(f"tutor.strengths: the judge gave no {side} text a score; choose others, or another judge.")
        best = min(scored, key=lambda strength: (abs((strength.mean or 0.0) - strength.target), strength.alpha))
        strengths += [replace(strength, chosen=strength is best) for strength in tried]
    return strengths


def selected_strength(strengths: Sequence[Strength], side: str) -> float:
    """The chosen alpha of a side."""
    return next(strength.alpha for strength in strengths if strength.side == side and strength.chosen)
