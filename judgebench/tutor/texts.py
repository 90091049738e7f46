"""Texts of a tutor, scored by the judge: candidates and their states (CAP, 4.2), references (4.3)
and strengths."""

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

from judgebench.decoding.rules import Expectation, Greedy
from judgebench.judges import PassRunner
from judgebench.judges.assistants import Assistant
from judgebench.judges.engine.plain import Engine
from judgebench.judges.judge import ReadingJudge
from judgebench.judges.local.batches import Batch, Groups, plan
from judgebench.judges.local.passes import LocalPass, ModelView
from judgebench.judges.local.session import PassSession
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.tutor.steering import HIGH, LOW, Standard, current, decoder_layers, states_of
from judgebench.tutor.writing import (
    GOOD,
    POOR,
    REFERENCE,
    SCORED,
    Text,
    Tutor,
    Written,
    written_example,
)
from judgebench.types import FAILED, Array, Condition, Example, Prompt, Record
from judgebench.words.errors import UserError

TextScorer = Callable[[Sequence[Example]], np.ndarray]
"""[examples] the judge's score of each, NaN where it gave none (see `JudgeScorer`)."""


def write_candidates(tutor: Tutor, contexts: Sequence[Example]) -> list[Written]:
    """`tutor.spec.candidates` sampled texts of each context, context by context.

    A text depends on the model, the seed, its context and its index alone: more candidates, or
    other contexts, leave those that are there as they are.
    """
    prompts = tutor.prompts(contexts)
    texts = [Text(prompt, index) for prompt in prompts for index in range(tutor.spec.candidates)]
    return tutor.write(texts, tutor.sampling)


@dataclass
class JudgeScorer:
    """Scores texts as the judge scores any other under one condition, clean and undefended.

    Args:
        judge: in `score_tokens` mode its expected score counts (as the paper scores), in `generate`
            mode the score that it writes.
        builder: builds the judge's prompts; knows the condition's rubric.
        runner: computes and keeps the readings; the tutor's, so that one model serves both.
    """

    judge: JudgeSpec
    builder: PromptBuilder
    condition: Condition
    runner: PassRunner

    def __post_init__(self) -> None:
        self._decodings = {"score": Greedy() if self.judge.mode == "generate" else Expectation()}

    def __call__(self, examples: Sequence[Example]) -> Array:
        """[examples] float64, in order; NaN where the judge's answer holds no score. Their ids
        differ."""
        unrated = [
            replace(example, human={self.condition.dimension: math.nan}) for example in examples
        ]
        judge = ReadingJudge(
            settings=self.judge,
            assistant=Assistant(),
            decodings=self._decodings,
            builder=self.builder,
            store=lambda: self.runner.store,
        )
        split = dict.fromkeys((example.group_id for example in examples), "")
        runner = self.runner
        questions = judge.questions(unrated, [self.condition], split)
        read = judge.read(questions, split, runner.trainer, runner.models)
        columns = judge.scores(read.readings)
        scores = np.where(columns["status"] == FAILED, np.nan, columns["score"].astype(np.float64))
        by_example = dict(zip(columns["example_id"], scores, strict=True))
        return np.array([by_example[example.example_id] for example in examples])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the judge's content."""
        return self.judge.source.fingerprint(self.runner.store.file_digest)


@dataclass
class StatesPass(LocalPass):
    """The tutor's hidden states at the end of texts that it wrote; see `candidate_states`. They are
    not stored: a key says which prompt they are of."""

    view: ModelView
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self.views = [self.view]

    def keys(self, prompt: Prompt) -> list[str]:
        return [str(id(prompt))]

    def results(self, batch: Batch) -> Sequence[Sequence[Any]]:
        engine = self.engines[0]
        return [[states] for states in final_states(engine, engine.model, batch.token_ids).numpy()]


def candidate_states(tutor: Tutor, candidates: Sequence[Written]) -> Array:
    """Hidden states of the tutor at the last token of each text that it wrote: [candidates, layers,
    hidden] float32, the output of every layer; the last layer's before the final norm."""
    prompts = []
    for each in candidates:
        asked = each.asked.prompt
        prompts.append(
            replace(
                asked, token_ids=np.concatenate([asked.token_ids, each.tokens]).astype(np.int32)
            )
        )
    # 1. the tutor, in this process
    pass_ = StatesPass(tutor.view, prompts)
    models = tutor.runner.models
    models.make_room({tutor.spec.source})
    session = PassSession(pass_, models).to(tutor.runner.device)
    session.begin()
    # 2. its states, batch by batch
    states: Record = {}
    with torch.inference_mode():
        for batch in plan(prompts, tutor.spec.max_batch_tokens):
            readings = session.read(batch)
            states |= {reading.key: reading.logprobs for reading in readings}
    return np.stack([states[pass_.keys(prompt)[0]] for prompt in prompts])


def final_states(engine: Engine, model: PreTrainedModel, groups: Groups) -> torch.Tensor:
    """The output of every layer at the last token of each text: [texts, layers, hidden] float32 on
    the CPU.

    Args:
        groups: [tokens] token ids of each text, those that begin alike together.
    """
    outputs = []

    def hook(module: torch.nn.Module, inputs: object, output: Any) -> None:
        states = states_of(output)
        now = states[current(states)]
        if len(now):
            outputs.append(now.float().cpu())

    layers = decoder_layers(model)
    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_hook(hook).remove)
        engine.start(groups)
    # the plain engine reads texts one by one, so each pass over the layers is one text's
    passes = [outputs[start : start + len(layers)] for start in range(0, len(outputs), len(layers))]
    return torch.cat([torch.stack(states, dim=1) for states in passes])


@dataclass(frozen=True)
class Reference:
    """The two texts of one context. `high_cut` and `low_cut` are True where one ends at the most
    tokens; `seconds` is the time of both, `count` the tokens that were read and written for
    them."""

    group_id: str
    high: str
    low: str
    high_cut: bool = False
    low_cut: bool = False
    seconds: float = 0.0
    count: int = 0


def steered_texts(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alphas: Sequence[float]
) -> dict[float, list[Written]]:
    """Texts of each context under several strengths, in the same batches: alpha -> a text a
    context, in order; a text may be empty.

    A text is stored under the model, the standard vectors with their layer, its alpha, its context,
    the longest length and, where tokens are drawn, the seed: a strength that was tried before costs
    nothing.

    Args:
        alphas: alpha_h of a text towards the high standard, -alpha_l of one towards the low
            standard; 0 is the plain tutor's text.
    """
    alphas = list(dict.fromkeys(float(alpha) for alpha in alphas))
    texts = [
        Text(prompt, alpha=alpha)
        for prompt in tutor.prompts(contexts, REFERENCE)
        for alpha in alphas
    ]
    written = tutor.write(texts, tutor.reference_sampling, standard)
    return {alpha: written[i :: len(alphas)] for i, alpha in enumerate(alphas)}


def steered_references(
    tutor: Tutor,
    contexts: Sequence[Example],
    standard: Standard,
    alpha_high: float,
    alpha_low: float,
) -> list[Reference]:
    """CAP's pairs, in order of the contexts: equations 4 and 5 with these strengths, each at least
    0."""
    texts = steered_texts(tutor, contexts, standard, [alpha_high, -alpha_low])
    remedy = {
        HIGH: f"lower tutor.alpha_high={alpha_high:g}",
        LOW: f"lower tutor.alpha_low={alpha_low:g}",
    }
    return _pairs(contexts, texts[float(alpha_high)], texts[-float(alpha_low)], remedy)


def asked_references(
    tutor: Tutor, contexts: Sequence[Example], scores: tuple[float, float] | None = None
) -> list[Reference]:
    """W-CAP's pairs, for which the tutor is asked for a good and for a bad text; or random
    references, for which it is asked for a text of each of two scores, the high one first (CAP,
    section 3.2)."""
    kinds = (
        ((GOOD, None), (POOR, None))
        if scores is None
        else tuple((SCORED, score) for score in scores)
    )
    high, low = (
        tutor.write(
            [Text(prompt) for prompt in tutor.prompts(contexts, kind, score)],
            tutor.reference_sampling,
        )
        for kind, score in kinds
    )
    return _pairs(contexts, high, low, dict.fromkeys((HIGH, LOW), "choose another tutor"))


def _pairs(
    contexts: Sequence[Example],
    high: Sequence[Written],
    low: Sequence[Written],
    remedy: dict[str, str],
) -> list[Reference]:
    for side, texts in ((HIGH, high), (LOW, low)):
        for context, text in zip(contexts, texts, strict=True):
            if not text.text:
                raise UserError(
                    f"tutor: the {side} reference of group {context.group_id} is empty, and a "
                    f"judge cannot compare a text with nothing; {remedy[side]}."
                )
    return [
        Reference(
            context.group_id,
            good.text,
            bad.text,
            good.cut,
            bad.cut,
            good.seconds + bad.seconds,
            good.count + bad.count,
        )
        for context, good, bad in zip(contexts, high, low, strict=True)
    ]


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
    """
    # 1. the texts of all strengths, scored together; those of a context follow each other, for they
    # share its prompt
    signed = [sign * alpha for sign in (1.0, -1.0) for alpha in alphas]
    written = steered_texts(tutor, contexts, standard, signed)
    examples = {}
    for i, context in enumerate(contexts):
        for alpha, texts in written.items():
            if texts[i].text:
                name = f"steered/{alpha:g}"
                examples[alpha, i] = written_example(context, name, texts[i].text)
    if not examples:
        raise UserError(
            "tutor.strengths: the tutor wrote nothing at any of them; choose others, or another "
            "tutor."
        )
    scores = dict(zip(examples, scorer(list(examples.values())), strict=True))
    # 2. their statistics, and of each side the strength that meets its target best; of equals the
    # weakest
    strengths = []
    for side, sign, target in ((HIGH, 1.0, targets[1]), (LOW, -1.0, targets[0])):
        tried = []
        for alpha in dict.fromkeys(map(float, alphas)):
            own = [scores.get((sign * alpha, i), np.nan) for i in range(len(contexts))]
            empty = sum(not text.text for text in written[sign * alpha])
            tried.append(_strength(side, alpha, np.array(own), empty, target))
        distances = {s: (abs(s.mean - target), s.alpha) for s in tried if s.mean is not None}
        if not distances:
            raise UserError(
                f"tutor.strengths: the judge gave no {side} text a score; choose others, or "
                "another judge."
            )
        best = min(distances, key=distances.__getitem__)
        strengths += [replace(strength, chosen=strength is best) for strength in tried]
    return strengths


def _strength(side: str, alpha: float, scores: Array, empty: int, target: float) -> Strength:
    """The statistics of scores [contexts], NaN where there is none."""
    numbers = scores[~np.isnan(scores)]
    n = len(numbers)
    mean = None
    variance = None
    low = None
    high = None
    if n:
        mean = float(numbers.mean())
    if mean is not None and n > 1:
        variance = float(numbers.var(ddof=1))
        half = float(stats.t.ppf(0.975, n - 1)) * math.sqrt(variance / n)
        low = mean - half
        high = mean + half
    return Strength(side, alpha, n, empty, mean, variance, low, high, target)


def selected_strength(strengths: Sequence[Strength], side: str) -> float:
    """The chosen alpha of a side."""
    return next(
        strength.alpha for strength in strengths if strength.side == side and strength.chosen
    )
