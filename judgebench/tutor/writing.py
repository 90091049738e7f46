"""The tutor at work: it is asked, and writes texts, sampled or not, each kept in the store and
never written twice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from judgebench.decoding.rules import Greedy, checked_logits
from judgebench.judges import PassRunner
from judgebench.judges.engine.generate import Chooser, PerAnswer
from judgebench.judges.engine.kernels import to_device
from judgebench.judges.local.batches import Batch, Groups
from judgebench.judges.local.passes import AnswersPass, ModelView
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import collection_folder
from judgebench.readings.reading import reading_key
from judgebench.readings.store import ReadingStore
from judgebench.runtime.parsing import read_text
from judgebench.tutor.spec import TutorSpec
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.types import Array, Condition, Example, Prompt, Record, Rubric, ScoreRange
from judgebench.words.errors import UserError

REFERENCE, GOOD, POOR, SCORED = KINDS = ("reference", "good", "poor", "scored")
"""A text, for CAP's candidates and steered references; a good and a bad one, for W-CAP; one of a
given score."""

_FIELD = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
_SOURCES = ("Document", "Dialogue")
_KNOWN = {*_SOURCES, "Fact", "score", "min_range", "max_range"}


@dataclass(frozen=True)
class Sampling:
    """Settings by which tokens are drawn: logits are divided by the temperature; of each
    distribution the likeliest tokens are kept that together have at least probability `top_p`; 1
    keeps all."""

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0


def stream(seed: int, index: int, prompt: Array) -> np.random.Generator:
    """The random numbers of one text, the index-th of its prompt [tokens].

    They depend on the arguments alone: not on the batch, not on how strongly the text is steered,
    so that texts of two strengths differ by the strength alone.
    """
    digest = hashlib.sha256(f"{seed} {index} ".encode())
    digest.update(np.ascontiguousarray(prompt, dtype=np.int32).tobytes())
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest()[:16])))


class Sampler:
    """Draws the next token of each text from the text's own stream; a `Chooser`, and one of the
    `others` of `generate`.

    Args:
        streams: [texts] of `stream`.
    """

    def __init__(self, sampling: Sampling, streams: Sequence[np.random.Generator]):
        self._sampling = sampling
        self._streams = list(streams)

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """See `Chooser.next_token`: the token at which the cumulated probability passes a uniform
        draw."""
        drawn = torch.tensor([each.random() for each in self._streams], dtype=torch.float64)
        uniform = to_device(drawn, main.device)
        return draw(main, uniform, self._sampling.temperature, self._sampling.top_p)

    def keep(self, which: torch.Tensor) -> None:
        self._streams = [self._streams[i] for i in which.tolist()]


def draw(
    logits: torch.Tensor, uniform: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0
) -> torch.Tensor:
    """One token a row [rows] of logits [rows, vocabulary], by inverting the cumulated distribution
    at `uniform` [rows] in [0, 1); a token of probability 0 is never drawn. See `Sampling` for
    temperature and top_p."""
    checked = checked_logits("main", logits)
    probabilities = torch.softmax(checked / temperature, dim=1)  # [rows, vocabulary]
    # 1. the fewest tokens that hold top_p
    if top_p < 1:
        ordered, order = probabilities.sort(dim=1, descending=True, stable=True)
        before = ordered.double().cumsum(dim=1) - ordered
        nucleus = ordered.masked_fill(before >= top_p, 0.0)
        probabilities = torch.zeros_like(ordered).scatter(1, order, nucleus)
    # 2. the first token whose bound the draw does not reach; the last possible token's bound is the
    # whole mass, so a draw below it stays among possible tokens
    bounds = probabilities.double().cumsum(dim=1)
    mass = bounds[:, -1:]
    passed = bounds <= uniform[:, None] * mass
    return passed.sum(dim=1)


@dataclass(frozen=True)
class Text:
    """A text that a tutor is to write.

    Attributes:
        index: which of the sampled texts of this prompt; where nothing is sampled all are the same.
        alpha: strength of steering: towards the high standard where above 0, towards the low one
            where below.
    """

    prompt: Prompt
    index: int = 0
    alpha: float = 0.0


@dataclass(frozen=True, eq=False)
class Written:
    """A text that a tutor has written, as `asked`: its tokens [tokens] int32, without what ended
    the text; the tokens as text, trimmed; True where it would have gone on (`cut`); its share of
    the wall time of its batch."""

    asked: Text
    tokens: Array
    text: str
    cut: bool
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """Tokens that were read and written for it."""
        return len(self.asked.prompt.token_ids) + len(self.tokens)

    @property
    def example(self) -> Example:
        """As a text to be judged."""
        return written_example(self.asked.prompt.example, str(self.asked.index), self.text)


@dataclass
class WritePass(AnswersPass):
    """Texts of one tutor, each different one written once; see `judges.local.passes.Pass`.

    Args:
        sampling: how tokens are drawn; None takes the likeliest.
        standard: where texts are steered to; None where no text is.
    """

    view: ModelView
    tokenizer: PreTrainedTokenizerBase
    texts: Sequence[Text]
    max_new_tokens: int
    sampling: Sampling | None = None
    standard: Standard | None = None
    prompts: Sequence[Prompt] = field(init=False)

    def __post_init__(self) -> None:
        different = {self.key(text): text for text in self.texts}
        self.views = [self.view]
        # every text has a prompt of its own, by which the pass knows it again in a batch
        self.prompts = [replace(text.prompt) for text in different.values()]
        self._text_of = dict(zip(map(id, self.prompts), different.values(), strict=True))

    def key(self, text: Text) -> str:
        """Key of a text in the store. A strength of 0 is the plain tutor's text under any
        standard."""
        steered = None
        if self.standard is not None and text.alpha != 0:
            steered = {"standard": self.standard.fingerprint, "alpha": float(text.alpha)}
        identity = {
            **self.view.identity(),
            "mode": "write",
            "max_new_tokens": self.max_new_tokens,
            "sampling": self.sampling and {**vars(self.sampling), "index": text.index},
            "steering": steered,
        }
        return reading_key(identity, text.prompt.token_ids)

    def keys(self, prompt: Prompt) -> list[str]:
        return [self.key(self._text_of[id(prompt)])]

    def written(self, store: ReadingStore) -> list[Written]:
        """The texts, in order, once they are in the store."""
        keys = [self.key(text) for text in self.texts]
        readings = store.get(keys)
        written = []
        for asked, reading in zip(self.texts, (readings[key] for key in keys), strict=True):
            assert reading.tokens is not None
            text = (reading.text or "").strip()
            cut = len(reading.tokens) >= self.max_new_tokens
            written.append(Written(asked, reading.tokens, text, cut, reading.seconds))
        return written

    def elsewhere(self) -> Self:
        other = super().elsewhere()
        other.texts = ()
        other._text_of = {}
        return other

    def marked(self, prompt: Prompt) -> tuple[int, float]:
        text = self._text_of[id(prompt)]
        return text.index, text.alpha

    def mark(self, prompt: Prompt, known: tuple[int, float]) -> None:
        self._text_of[id(prompt)] = Text(prompt, *known)

    def results(self, batch: Batch) -> Sequence[Sequence[Any]]:
        prompts = batch.prompts
        # which reads prompts one by one, so that a layer cannot tell whose turn it is
        if self.view.engine == "plain":
            answers = [self._written([prompt], [[prompt.token_ids]], None)[0] for prompt in prompts]
        else:
            answers = self._written(prompts, batch.token_ids, self.roots[prompts[0].alike])
        return [[tokens] for tokens in answers]

    def _written(
        self, prompts: Sequence[Prompt], ids: Groups, root: Array | None
    ) -> list[list[int]]:
        texts = [self._text_of[id(prompt)] for prompt in prompts]
        engine = self.engines[0]
        sides: list[PerAnswer] = []
        steer = None
        if self.standard is not None and any(text.alpha for text in texts):
            alphas = torch.tensor([text.alpha for text in texts])
            steer = Steer(self.standard, alphas, engine.model.device)
            sides.append(steer)
        chooser: Chooser = Greedy()
        if self.sampling is not None:
            seed = self.sampling.seed
            streams = [stream(seed, text.index, text.prompt.token_ids) for text in texts]
            chooser = Sampler(self.sampling, streams)
            sides.append(chooser)
        with steering(engine.model, steer):
            return self.answers(prompts, engine.start(ids, root), chooser, others=sides)


def contexts_of(examples: Iterable[Example]) -> list[Example]:
    """One example for each question of a group, in order, without anything that was judged: what a
    tutor writes must not depend on it. `UserError` where a group has several sources."""
    first: dict[tuple[str, str], Example] = {}
    for example in examples:
        group, question = place = (example.group_id, example.question)
        name = "/".join(filter(None, place))
        about = Example(name, group, "", example.source, "", {}, example.context, question=question)
        known = first.setdefault(place, about)
        if (known.source, known.context) != (about.source, about.context):
            raise UserError(
                f"The texts of group {group!r} have several sources, and one text is to be written "
                "about each group; name groups of one source, as by data.fields.group_id=null."
            )
    return list(first.values())


def written_example(context: Example, name: str, text: str) -> Example:
    """A text of the tutor's for a context, as a text to be judged; `name` is its own among those of
    the context."""
    return replace(
        context, example_id=f"{context.example_id}/{name}", system_id="tutor", output=text
    )


def load_templates(collection: str) -> dict[str, str]:
    """Kind -> template of a collection: `summary`, `dialogue`, or a folder with a `<kind>.txt` for
    each of `KINDS`.

    `reference`, `good` and `poor` are worded as in the CAP paper (its appendix B); `scored`, which
    the paper does not print, in words of our own.
    """
    folder = collection_folder("judgebench.tutor", "prompts", str(collection))
    if folder is None:
        raise UserError(
            f"tutor.prompts={collection}: there is no such collection; give summary, dialogue, "
            f"code, grading, or a folder with {', '.join(f'{kind}.txt' for kind in KINDS)}."
        )
    templates = {}
    for kind in KINDS:
        where = f"tutor.prompts={collection}: {kind}.txt"
        remedy = "it must be UTF-8 text with {{Document}} or {{Dialogue}}"
        text = read_text(folder / f"{kind}.txt", where, remedy=remedy).strip()
        fields = {doubled or single for doubled, single in _FIELD.findall(text)}
        fault = None
        if unknown := sorted(fields - _KNOWN):
            fault = f"has the unknown field {unknown[0]}; known are {', '.join(sorted(_KNOWN))}"
        elif not fields & set(_SOURCES):
            fault = "has no {{Document}} or {{Dialogue}}"
        elif ("score" in fields) != (kind == SCORED):
            fault = f"is wrong: {{score}} belongs into {SCORED}.txt and into no other file"
        if fault:
            raise UserError(f"{where} {fault}.")
        templates[kind] = text
    return templates


class Tutor:
    """Writes texts in batches; each is stored the moment its batch is done, and never written
    twice. Of the model only tokenizer and configuration are loaded until a text is to be written.

    Args:
        scale: the score range in which a text of a given score is asked for.
        runner: computes and keeps what it writes.
        options: truncate and template_options of conf/prompt: what the judge's prompts do, the
            tutor's do.
    """

    def __init__(
        self, spec: TutorSpec, scale: ScoreRange, runner: PassRunner, **options: Any
    ) -> None:
        room = spec.sizes.most - spec.most_tokens
        if room < 1:
            raise UserError(
                f"tutor.max_new_tokens: texts of {spec.most_tokens} tokens leave no room for a "
                f"prompt in the {spec.sizes.most} that {spec.source.title} can read; lower it."
            )
        self.spec = spec
        self.runner = runner
        self.sampling = Sampling(spec.seed, spec.temperature, spec.top_p)
        self.reference_sampling = self.sampling if spec.sample_references else None
        self._templates = load_templates(spec.prompts)
        self._scale = scale
        self._options: Record = {"max_tokens": room, **options}

    @cached_property
    def view(self) -> ModelView:
        return self.runner.view(self.spec.source, self.spec.engine)

    def prompts(
        self, contexts: Sequence[Example], kind: str = REFERENCE, score: float | None = None
    ) -> list[Prompt]:
        """The prompt of each context, in order, of one of `KINDS`; for `scored` with the score that
        the text should get. What a context says never becomes a control token (`ControlTokens`).
        `UserError` for a prompt that is too long."""
        # a score is ours, no text of the example's, so it may be filled before the rest
        template = self._templates[kind].replace("{score}", "" if score is None else f"{score:.3g}")
        builder = PromptBuilder(
            self.spec.source.tokenizer(), {kind: Rubric(kind, template)}, **self._options
        )
        return builder.build(contexts, [Condition(kind, self._scale)])

    def write(
        self,
        texts: Sequence[Text],
        sampling: Sampling | None = None,
        standard: Standard | None = None,
    ) -> list[Written]:
        """The texts, in order, by their likeliest tokens where nothing is sampled; those with an
        alpha are steered to a standard, else ValueError."""
        if standard is None and any(text.alpha for text in texts):
            raise ValueError("texts with an alpha need a standard to be steered to")
        spec = self.spec
        tokenizer = spec.source.tokenizer()
        pass_ = WritePass(self.view, tokenizer, texts, spec.most_tokens, sampling, standard)
        self.runner.run([pass_], spec.max_batch_tokens, "Writing")
        return pass_.written(self.runner.store)
