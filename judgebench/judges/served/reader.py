"""From prompts to readings where the models are served: which requests an experiment needs, and
what they bring."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.decoding.parser import parse_answer, parse_place, warn_of_cut
from judgebench.decoding.scores import key_columns
from judgebench.judges.judge import Questions, ReadingJudge
from judgebench.judges.local.batches import Tokens, pending, token_counts
from judgebench.judges.local.models import Models, Trainers
from judgebench.judges.reader import IN_STORE, BaseReader
from judgebench.judges.served.batch import read_in_batches
from judgebench.judges.served.passes import (
    AnswerPass,
    ApiPass,
    ListedPass,
    answer_record,
    endpoint_paths,
    unstacked,
)
from judgebench.judges.served.settings import Account, ApiSpec, Bill
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.errors import UserError
from judgebench.runtime.progress import Progressing
from judgebench.types import FAILED, Generation, Prompt, Reading

_GREEDY = "greedy"
_SHORTEST = 1024
_STEP = 128
"""Tokens that a beginning must have to be cached, and steps in which it is: OpenAI's, others' are
alike."""


class ApiReader(BaseReader):
    """Asks a served judge, and its assistant; see `BaseReader`."""

    judge: ApiSpec

    def __init__(self, judge: ReadingJudge, questions: Questions, models: Models | None = None):
        super().__init__(judge, questions, models)
        self._bill = Bill(self.judge.max_cost, self.models.spent)
        self._facts: list[dict[str, Any]] = []  # the evidence behind each reading

    def tokens(self) -> Tokens:
        """Tokens as the server bills them: every prompt whole."""
        return token_counts(self.prompts)

    @cached_property
    def sides(self) -> dict[str, ApiSpec]:
        """`main`, and `assistant` where a second model is served -> its settings."""
        other = self.assistant.served
        return {
            "main": self.judge,
            **({} if other is None else {"assistant": other.spec(self.judge)}),
        }

    @cached_property
    def _accounts(self) -> dict[str, Account]:
        return {role: self._bill.account(spec.priced) for role, spec in self.sides.items()}

    @cached_property
    def passes(self) -> list[ApiPass]:
        """Every pass that the experiment needs, whether or not its answers are stored."""
        return [*self._thoughts, *self._scoring.values(), *(pass_ for _, _, pass_ in self._writing)]

    @property
    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """Role -> title, address and name of each model; what the servers say they are is in
        `served`."""
        return {
            role: {"title": spec.source.title, "url": spec.where}
            | {"model": spec.model, "served_as": self._served_as(role)}
            for role, spec in self.sides.items()
        }

    def read(self, trainer: Trainers) -> Any:
        """Asks for what is missing, pass by pass, batch by batch, each answer stored at once; see
        `BaseReader.read`."""
        alone = trainer([])
        asked = False
        if (count := alone.world_size) > 1:
            raise UserError(
                f"trainer: {count} processes would each have limits of their own, and a served "
                "judge is none the faster for it; take trainer.devices=1, and raise "
                "judge.concurrency."
            )
        shown = alone.progress_bar_callback is not None
        if self.judge.batch is not None:
            return alone if read_in_batches(self.passes, shown) else None
        # what is asked behind thoughts depends on them: no earlier than read
        for stage in ("_thoughts", "passes"):
            for pass_, batches in [
                (pass_, pending(pass_, 0, self.store)) for pass_ in getattr(self, stage)
            ]:
                if not batches:
                    continue
                pass_.prepare()
                before = self._bill.spent
                readings = len(pass_.missing())
                try:
                    with Progressing(f"Asking {pass_.title}", readings, shown) as progress:
                        pass_.stored = partial(self._advance, progress, before)
                        for batch in batches:
                            pass_.read(batch)
                finally:
                    pass_.release()
                asked = True
        return alone if asked else None

    def _advance(self, progress: Progressing, before: float) -> None:
        progress.advance(1, self._bill.spent - before)

    def device(self, trainer: Any) -> str:
        return IN_STORE if trainer is None else "served: the models are behind a URL"

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`."""
        stored = self.store.get(
            key for pass_ in self.passes for prompt in pass_.prompts for key in pass_.keys(prompt)
        )
        self._facts = []

        def noted(role: str, prompt: Prompt, pass_: ApiPass) -> dict[str, Any]:
            part = split[prompt.example.group_id]
            fact = _fact(prompt, [stored[key] for key in pass_.keys(prompt)], self.of.free_text)
            self._facts.append({"role": role, "split": part, **fact})
            return fact

        # 1. log-probabilities, listed or those of shares of answers
        readings = []
        for prompt in self._scored:
            read, thought = self._after[id(prompt)]
            facts = {role: noted(role, read, pass_) for role, pass_ in self._scoring.items()}
            logprobs = {role: fact["value"] for role, fact in facts.items()}
            if self.nulls is not None and self.judge.scores_from == "logprobs":
                key = self._scoring["main"].keys(self._after[id(self.nulls[prompt.condition])][0])[
                    0
                ]
                logprobs["assistant"] = unstacked(stored[key])[0]
            seconds = thought + sum(fact["seconds"] for fact in facts.values())
            part = split[prompt.example.group_id]
            read = replace(read, tail=read.tail + facts["main"]["thoughts"])
            readings.append(
                self._reading(read, part, logprobs["main"], logprobs.get("assistant"), seconds)
            )
        if self.judge.scores_from == "samples":
            warn_of_cut(text for fact in self._facts for text in fact["texts"])
        # 2. free answers
        for how, role, pass_ in self._writing:
            for prompt in pass_.prompts:
                fact = noted(role, prompt, pass_)
                part = split[prompt.example.group_id]
                text = fact["texts"][0]
                seconds = fact["seconds"]
                readings.append(Reading(prompt, part, text=text, generation=how, seconds=seconds))
        return readings

    @property
    def served(self) -> dict[str, Any]:
        """Requests, their outcome and their cost by role, for environment.json; once there are
        readings.

        Conditions count readings, those that are `bounded` and `undecided` (see `Bounds`), answers
        and `failed_answers`; `unlisted` is the probability that lists leave out in the mean.
        """
        record: dict[str, Any] = {}
        for role, spec in self.sides.items():
            record[role] = {
                **{
                    name: getattr(spec, name)
                    for name in ("model", "protocol", "scores_from", "explicit")
                },
                **({"url": spec.where} | self._by_server(role)),
                "samples": spec.samples if spec.scores_from == "samples" else None,
                "temperature": spec.degree(),
                "served_as": self._served_as(role),
                "price": spec.price,
                **self._accounts[role].record(),
                "conditions": _by_condition([fact for fact in self._facts if fact["role"] == role]),
            }
        priced = all(spec.priced.known for spec in self.sides.values())
        return record | {
            "cost": self._bill.spent if priced else None,
            "max_cost": self.judge.max_cost,
        }

    @property
    def evidence(self) -> dict[str, list[Any]]:
        """The evidence behind each reading, as the columns of served.parquet; once there are
        readings."""
        facts = []
        for role in self.sides:
            facts += [fact for fact in self._facts if fact["role"] == role]
        keys = [Reading(fact["prompt"], fact["split"]) for fact in facts]
        ranges = [fact["prompt"].condition.range for fact in facts]
        columns: dict[str, list[Any]] = dict(key_columns(keys))
        columns["role"] = [fact["role"] for fact in facts]
        columns["candidates"] = [list(range_.candidates) for range_ in ranges]
        for name in ("lower", "upper", "unlisted", "texts"):
            columns[name] = [fact[name] for fact in facts]
        return columns

    def _by_server(self, role: str) -> dict[str, Any]:
        spec = self.sides[role]
        record: dict[str, Any] = {}
        if len(spec.urls) > 1:
            record["concurrency"] = spec.concurrency
            record["servers"] = self._accounts[role].servers
        if spec.batch:
            record["batch"] = spec.batch
        return record

    def _served_as(self, role: str) -> list[dict[str, Any]]:
        names = Counter(name for fact in self._facts if fact["role"] == role for name in fact["as"])
        return [
            {"model": model, "fingerprint": mark, "answers": n}
            for (model, mark), n in names.most_common()
        ]

    @cached_property
    def _thoughts(self) -> list[AnswerPass]:
        """Of a server that goes on with a text; with `chat` thoughts and score are one answer."""
        thinking = self._thinking() if self.judge.protocol == "completions" else []
        parts = (self.judge, self._bill, self._accounts["main"])
        return [AnswerPass(*parts, prompts, self.store, 1, most) for prompts, most in thinking]

    @cached_property
    def _scoring(self) -> dict[str, ApiPass]:
        """Role -> the pass behind its candidates' probabilities."""
        passes: dict[str, ApiPass] = {}
        for role, spec in self.sides.items() if self._scored else ():
            parts = (spec, self._bill, self._accounts[role])
            if spec.scores_from == "samples":
                passes[role] = AnswerPass(
                    *parts, self._scored, self.store, spec.samples, spec.max_new_tokens
                )
                continue
            prompts = [prompt for prompt, _ in self._after.values()]
            paths = endpoint_paths(
                spec, dict.fromkeys(prompt.condition.range for prompt in prompts)
            )
            thinking = self.of.thinking if spec.framed else {}
            passes[role] = ListedPass(*parts, prompts, self.store, *paths, thinking)
        return passes

    @cached_property
    def _writing(self) -> list[tuple[Generation, str, AnswerPass]]:
        """Generation, role and pass of free answers."""
        answers = []
        name = next(
            (name for name, decoding in self.of.decodings.items() if decoding.kind == _GREEDY),
            _GREEDY,
        )
        for role, spec in self.sides.items():
            # one answer, the likeliest, also where scores are drawn otherwise
            sober = spec if spec.temperature is not None else replace(spec, temperature=0.0)
            for prompts, most, reasoned in self._asked:
                asked = sober if reasoned else spec
                parts = (asked, self._bill, self._accounts[role], prompts, self.store)
                answers.append(
                    (Generation(role, name, reasoned=reasoned), role, AnswerPass(*parts, 1, most))
                )
        return answers

    def estimate(self) -> str:
        """Requests, tokens and money that all prompts would take where nothing is stored: a line
        for each model, and one for their cost together where there are two."""
        store = ReadingStore(Path(":memory:"))
        passes = ApiReader(replace(self.of, store=lambda: store), Questions(self.prompts)).passes
        store.close()
        lines: list[str] = []
        costs: list[float | None] = []
        for spec in self.sides.values():
            requests, cost = _expected(
                [pass_ for pass_ in passes if pass_.spec.role == spec.role], spec
            )
            money = (
                f"{spec.role}.price is not given" if cost is None else f"about ${cost:.6g} at most"
            )
            model = f" for {spec.model}" if len(self.sides) > 1 else ""
            lines.append(f"Requests to {spec.where}{model}: {requests} Cost: {money}.")
            costs.append(cost)
        total = sum(cost for cost in costs if cost is not None)
        if len(costs) > 1 and None not in costs:
            lines.append(f"Together: about ${total:.6g} at most.")
        if self.judge.max_cost is not None and total > self.judge.max_cost:
            lines.append(
                f"That may be more than judge.max_cost=${self.judge.max_cost:g}, at which a run "
                "ends."
            )
        return "\n".join(lines)


def _fact(
    prompt: Prompt, answers: Sequence[ModelReading], free_text: Mapping[str, int]
) -> dict[str, Any]:
    """The evidence behind a reading; None for what its way of reading does not have.

    `value` [candidates] are log-probabilities: those of a list, or the log of each candidate's
    share of all answers, of which some may name none (-inf for no answer).
    """
    records = [answer_record(answer) for answer in answers]
    first = records[0]
    fact: dict[str, Any] = {
        **dict.fromkeys(("value", "lower", "upper", "texts", "failed")),
        **{name: first.get(name) for name in ("unlisted", "bounded", "undecided")},
        "thoughts": "",
        "prompt": prompt,
        "as": [(record["model"], record["fingerprint"]) for record in records],
        "seconds": sum(answer.seconds for answer in answers),
    }
    # 1. of a list
    if answers[0].logprobs is not None:
        fact["value"], lower, upper = unstacked(answers[0])
        fact["lower"] = lower.tolist()
        fact["upper"] = upper.tolist()
        fact["thoughts"] = first.get("text", "")
        return fact
    # 2. of answers
    fact["texts"] = [record["text"] for record in records]
    scores = [candidate_of(prompt, text) for text in fact["texts"]]
    free = prompt.condition.defense in free_text
    fact["failed"] = 0 if free else scores.count(None)
    counts = [scores.count(value) for value in prompt.condition.range.values]
    with np.errstate(divide="ignore"):
        fact["value"] = np.log(np.array(counts) / len(answers))
    return fact


def candidate_of(prompt: Prompt, answer: str) -> float | None:
    """The score that an answer names, if it is one of the candidates."""
    scores = prompt.condition.range
    choices = prompt.choices
    read = (
        parse_place(answer, choices)
        if prompt.condition.order
        else parse_answer(answer, scores, choices)
    )
    return read.value if read.status != FAILED and read.value in scores.values else None


def _by_condition(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of readings and of what they lack, a record a condition; None where there is nothing
    to count."""
    records: list[dict[str, Any]] = []
    for condition in dict.fromkeys(fact["prompt"].condition for fact in facts):
        readings = [fact for fact in facts if fact["prompt"].condition == condition]
        listed = [fact for fact in readings if fact["unlisted"] is not None]
        drawn = [fact for fact in readings if fact["texts"] is not None]
        records.append(
            {
                **{
                    name: str(getattr(condition, name))
                    for name in ("dimension", "range", "attack", "defense")
                },
                "order": condition.order or None,
                "readings": len(readings),
                "unlisted": sum(fact["unlisted"] for fact in listed) / len(listed)
                if listed
                else None,
                "bounded": sum(fact["bounded"] for fact in listed) if listed else None,
                "undecided": sum(fact["undecided"] for fact in listed) if listed else None,
                "answers": sum(len(fact["texts"]) for fact in drawn) if drawn else None,
                "failed_answers": sum(fact["failed"] for fact in drawn) if drawn else None,
            }
        )
    return records


def _expected(passes: Sequence[ApiPass], spec: ApiSpec) -> tuple[str, float | None]:
    """Requests to one model, in words, and their cost in USD at most."""
    requests = follow = tokens = cost_tokens = answers = cached = 0
    for pass_ in passes:
        # equal requests are sent once
        distinct = {key: prompt for prompt in pass_.prompts for key in pass_.keys(prompt)}
        cached += (
            0
            if spec.priced.cached_input is None
            else _repeated([prompt.text for prompt in distinct.values()])
        )
        for prompt in distinct.values():
            first, after = pass_.expected(prompt)
            requests += 1
            follow += after
            tokens += first.estimate.prompt
            cost_tokens += (1 + after) * first.estimate.prompt
            answers += (1 + after) * first.estimate.completion
    chat = spec.framed
    longer = " or lengthen lists" if spec.explicit == "llama_cpp" else ""
    text = f"{requests:,}, with {'about ' if chat else ''}{tokens:,} prompt tokens"
    text += (
        " (estimated: four characters each, and some for the frame; the server counts its own)"
        if chat
        else ""
    )
    text += (
        f", and up to {follow:,} more that follow scores of several tokens{longer}"
        if follow
        else ""
    )
    cost = spec.priced.of(cost_tokens, 0, answers)
    # which caches what a request marks, and ours mark nothing
    if cached and cost and spec.protocol != "anthropic":
        cheaper = spec.priced.of(cost_tokens, min(cached, cost_tokens), answers)
        text += (
            f". About {100 * cached / tokens:.0f} % of the prompt tokens repeat the beginning of "
            f"an earlier prompt (counted in steps of {_STEP} from {_SHORTEST:,}); were all of them "
            "found in the provider's cache, which nobody "
            f"promises{', least of all for batches' if spec.batch else ''}, it would cost about "
            f"${cheaper:.6g}"
        )
    return f"{text}.", cost


def _repeated(texts: Sequence[str]) -> int:
    """Tokens, at four characters each, with which texts repeat the beginning of another, as
    providers cache them."""
    total = 0
    codes = []  # of each text's characters
    for text in sorted(texts):
        codes.append(np.frombuffer(text.encode("utf-32-le"), np.uint32))
    for first, second in itertools.pairwise(codes):
        length = min(len(first), len(second))
        differs = np.flatnonzero(first[:length] != second[:length])
        characters = int(differs[0]) if len(differs) else length
        tokens = characters // 4
        if tokens >= _SHORTEST:
            total += tokens // _STEP * _STEP
    return total
