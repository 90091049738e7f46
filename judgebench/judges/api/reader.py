"""From prompts to readings where the models are served: which requests an experiment needs, and what they bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np

from judgebench.decoding.numerals import warn_of_cut
from judgebench.decoding.parser import parse_answer, parse_place
from judgebench.decoding.scores import key_columns
from judgebench.judges.api.billing import Account, Bill
from judgebench.judges.api.passes import AnswerPass, ApiPass, ListedPass, answer_record, endpoint_paths, unstacked
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.loop import Trainers
from judgebench.judges.planning import Tokens, token_counts
from judgebench.judges.reader import IN_STORE, BaseReader, ReadingTask
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.errors import UserError
from judgebench.types import FAILED, Generation, Prompt, Reading

_GREEDY = "greedy"


class ApiReader(BaseReader):
    """Asks a served judge, and its assistant; see `BaseReader`."""

    judge: ApiSpec

    def __init__(self, judge: ApiSpec, task: ReadingTask):
        super().__init__(judge, task)
        self._facts: dict[str, list[dict[str, Any]]] = {}
        self._split: Mapping[str, str] = {}

    def tokens(self) -> Tokens:
        """Tokens as the server bills them: every prompt whole."""
        return token_counts(self.prompts)

    def estimate(self) -> str:
        return served_estimate(self.judge, self.task)

    @cached_property
    def sides(self) -> dict[str, ApiSpec]:
        """`main`, and `assistant` where a second model is served -> its settings."""
        served = {"main": self.judge}
        if self.assistant.served is not None:
            served["assistant"] = self.assistant.served.spec(self.judge)
        return served

    @cached_property
    def _bill(self) -> Bill:
        return Bill(self.judge.max_cost)

    @cached_property
    def _accounts(self) -> dict[str, Account]:
        return {role: self._bill.account(spec.priced) for role, spec in self.sides.items()}

    @cached_property
    def passes(self) -> list[ApiPass]:
        """Every pass that the experiment needs, whether or not its answers are stored."""
        return [*self._scoring.values(), *(pass_ for _, _, pass_ in self._answering)]

    @property
    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """Role -> title, address and name of each model; what the servers say they are is in `served`."""
        return {
            role: {"title": spec.source.title, "url": spec.url, "model": spec.model, "served_as": self._served_as(role)}
            for role, spec in self.sides.items()
        }

    def read(self, trainer: Trainers) -> L.Trainer | None:
        """Asks and stores what is missing, see `Reader.read`.

        Raises:
            UserError: several processes, or whatever a request fails of.
        """
        if (count := trainer([]).world_size) > 1:
            raise UserError(
                f"trainer: {count} processes would each have limits of their own, and a served judge is none the "
                "faster for it; take trainer.devices=1, and raise judge.concurrency."
            )
        return self.runner(trainer).run(self.passes, self.judge.token_budget, "Asking")

    def device(self, trainer: L.Trainer | None) -> str:
        return IN_STORE if trainer is None else "served: the models are behind a URL"

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`."""
        stored = self.store.get(key for pass_ in self.passes for prompt in pass_.prompts for key in pass_.keys(prompt))
        self._facts, self._split = {role: [] for role in self.sides}, split
        readings = self._listed(stored, split) if self.judge.scores_from == "logprobs" else self._drawn(stored, split)
        for how, role, pass_ in self._answering:
            for prompt in pass_.prompts if how is not None else ():
                answer = stored[pass_.keys(prompt)[0]]
                text = self._note(role, prompt, [answer])["texts"][0]
                part = split[prompt.example.group_id]
                readings.append(Reading(prompt, part, text=text, generation=how, seconds=answer.seconds))
        return readings

    @property
    def served(self) -> dict[str, Any]:
        """Requests, their outcome and their cost by role, for environment.json; once there are readings.

        Conditions count readings, those that are `bounded` and `undecided` (see `Bounds`), answers and
        `failed_answers`; `unlisted` is the probability that lists leave out in the mean.
        """
        record: dict[str, Any] = {}
        for role, spec in self.sides.items():
            record[role] = {
                "url": spec.url,
                "model": spec.model,
                "protocol": spec.protocol,
                "scores_from": spec.scores_from,
                "explicit": spec.explicit,
                "samples": spec.samples if spec.scores_from == "samples" else None,
                "temperature": spec.degree(),
                "served_as": self._served_as(role),
                "price": spec.price,
                **self._accounts[role].record(),
                "conditions": _by_condition(self._facts.get(role, [])),
            }
        known = all(spec.priced.known for spec in self.sides.values())
        return record | {"cost": self._bill.spent if known else None, "max_cost": self.judge.max_cost}

    @property
    def evidence(self) -> dict[str, list[Any]]:
        """The evidence behind each reading, as the columns of served.parquet; once there are readings."""
        facts = [(role, fact) for role, own in self._facts.items() for fact in own]
        readings = [Reading(fact["prompt"], self._split[fact["prompt"].example.group_id]) for _, fact in facts]
        columns: dict[str, list[Any]] = {**key_columns(readings), "role": [role for role, _ in facts]}
        columns["candidates"] = [list(fact["prompt"].condition.range.candidates) for _, fact in facts]
        return columns | {
            name: [fact.get(name) for _, fact in facts] for name in ("lower", "upper", "unlisted", "texts")
        }

    def _listed(self, stored: Mapping[str, ModelReading], split: Mapping[str, str]) -> list[Reading]:
        readings = []
        for prompt in self._scored:
            main = self._scoring["main"]
            ours = stored[main.keys(prompt)[0]]
            self._note("main", prompt, [ours])
            theirs, seconds = None, ours.seconds
            if self.assistant.kind == "api":
                theirs = stored[self._scoring["assistant"].keys(prompt)[0]]
                self._note("assistant", prompt, [theirs])
                seconds += theirs.seconds
            elif self.nulls is not None:
                theirs = stored[main.keys(self.nulls[prompt.condition])[0]]
            other = None if theirs is None else unstacked(theirs)[0]
            readings.append(self._reading(prompt, split[prompt.example.group_id], unstacked(ours)[0], other, seconds))
        return readings

    def _drawn(self, stored: Mapping[str, ModelReading], split: Mapping[str, str]) -> list[Reading]:
        """Shares of samples as log-probabilities: what the parser reads counts for the candidate that it names, and an
        answer that names none for the whole."""
        readings = []
        passes = {role: pass_ for how, role, pass_ in self._answering if how is None}
        for prompt in self._scored if passes else ():
            logprobs: dict[str, tuple[float, ...]] = {}
            seconds = 0.0
            for role, pass_ in passes.items():
                draws = [stored[key] for key in pass_.keys(prompt)]
                named = [candidate_of(prompt, text) for text in self._note(role, prompt, draws)["texts"]]
                counts = np.array([named.count(value) for value in prompt.condition.range.values])
                with np.errstate(divide="ignore"):
                    logprobs[role] = tuple(np.log(counts / len(draws)).tolist())
                seconds += sum(draw.seconds for draw in draws)
            part = split[prompt.example.group_id]
            readings.append(Reading(prompt, part, logprobs["main"], logprobs.get("assistant"), seconds=seconds))
        warn_of_cut(text for facts in self._facts.values() for fact in facts for text in fact.get("texts", ()))
        return readings

    def _note(self, role: str, prompt: Prompt, answers: Sequence[ModelReading]) -> dict[str, Any]:
        """Remembers the evidence behind a reading, and gives it."""
        records = [answer_record(answer) for answer in answers]
        fact: dict[str, Any] = {
            "prompt": prompt,
            "as": [(record["model"], record["fingerprint"]) for record in records],
        }
        fact |= {name: records[0].get(name) for name in ("unlisted", "bounded", "undecided")}
        if answers[0].logprobs is not None:
            _, lower, upper = unstacked(answers[0])
            fact |= {"lower": lower.tolist(), "upper": upper.tolist()}
        if "text" in records[0]:
            reasoned = prompt.condition.defense in self.task.free_text
            texts = [record["text"] for record in records]
            failed = 0 if reasoned else sum(candidate_of(prompt, text) is None for text in texts)
            fact |= {"answers": len(records), "failed": failed, "texts": texts}
        self._facts[role].append(fact)
        return fact

    def _served_as(self, role: str) -> list[dict[str, Any]]:
        seen = Counter(name for fact in self._facts.get(role, []) for name in fact["as"])
        return [{"model": model, "fingerprint": print_, "answers": n} for (model, print_), n in seen.most_common()]

    @cached_property
    def _scoring(self) -> dict[str, ListedPass]:
        if self.judge.scores_from != "logprobs" or not self._scored:
            return {}
        passes = {}
        for role, spec in self.sides.items():
            prompts = list(self._scored)
            if role == "main":
                prompts += self._scored_nulls()
            ranges = list(dict.fromkeys(prompt.condition.range for prompt in prompts))
            parts = (spec, self._bill, self._accounts[role], prompts, self.store)
            passes[role] = ListedPass(*parts, *endpoint_paths(spec, ranges))
        return passes

    @cached_property
    def _answering(self) -> list[tuple[Generation | None, str, AnswerPass]]:
        """Generation, role and pass of free answers; no generation for samples, whose shares count."""
        answers: list[tuple[Generation | None, str, AnswerPass]] = []
        name = next((name for name, decoding in self.task.decodings.items() if decoding.kind == _GREEDY), _GREEDY)

        def add(how: Generation | None, spec: ApiSpec, prompts: Sequence[Prompt], count: int, most: int) -> None:
            account = self._accounts[role]
            answers.append((how, role, AnswerPass(spec, self._bill, account, prompts, self.store, count, most)))

        for role, spec in self.sides.items():
            if self._free and spec.scores_from == "samples":
                add(None, spec, self._free, spec.samples, spec.max_new_tokens)
            if self._free and spec.scores_from == "text":
                add(Generation(role, name), spec, self._free, 1, spec.max_new_tokens)
            for prompts, max_tokens in self._worded:
                # one answer, the likeliest, also where scores are drawn otherwise
                sober = spec if spec.temperature is not None else replace(spec, temperature=0.0)
                add(Generation(role, name, reasoned=True), sober, prompts, 1, max_tokens)
        return answers


def candidate_of(prompt: Prompt, answer: str) -> float | None:
    """The score that an answer names, if it is one of the candidates."""
    scores, choices = prompt.condition.range, prompt.choices
    read = parse_place(answer, choices) if prompt.condition.order else parse_answer(answer, scores, choices)
    return read.value if read.status != FAILED and read.value in scores.values else None


def _by_condition(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of readings and of what they lack, a record a condition; None where there is nothing to count."""
    records: list[dict[str, Any]] = []
    for condition in dict.fromkeys(fact["prompt"].condition for fact in facts):
        own = [fact for fact in facts if fact["prompt"].condition == condition]
        listed = [fact for fact in own if fact["unlisted"] is not None]
        drawn = [fact for fact in own if "answers" in fact]
        record = {name: str(getattr(condition, name)) for name in ("dimension", "range", "attack", "defense")}
        records.append(
            {
                **record,
                "order": condition.order or None,
                "readings": len(own),
                "unlisted": sum(fact["unlisted"] for fact in listed) / len(listed) if listed else None,
                "bounded": sum(bool(fact["bounded"]) for fact in own) if listed else None,
                "undecided": sum(bool(fact["undecided"]) for fact in own) if listed else None,
                "answers": sum(fact["answers"] for fact in drawn) if drawn else None,
                "failed_answers": sum(fact["failed"] for fact in drawn) if drawn else None,
            }
        )
    return records


def served_estimate(judge: ApiSpec, task: ReadingTask) -> str:
    """Requests, tokens and money that all prompts would take where nothing is stored: a line for each model, and one
    for their cost together where there are two."""
    store = ReadingStore(Path(":memory:"))
    reader = ApiReader(judge, replace(task, store=lambda: store))
    store.close()
    lines: list[str] = []
    costs: list[float | None] = []
    for spec in reader.sides.values():
        requests, cost = _expected([pass_ for pass_ in reader.passes if pass_.spec.role == spec.role], spec)
        money = f"{spec.role}.price is not given" if cost is None else f"about ${cost:.6g} at most"
        model = f" for {spec.model}" if len(reader.sides) > 1 else ""
        lines.append(f"Requests to {spec.url}{model}: {requests} Cost: {money}.")
        costs.append(cost)
    total = sum(cost for cost in costs if cost is not None)
    if len(costs) > 1 and None not in costs:
        lines.append(f"Together: about ${total:.6g} at most.")
    if judge.max_cost is not None and total > judge.max_cost:
        lines.append(f"That may be more than judge.max_cost=${judge.max_cost:g}, at which a run ends.")
    return "\n".join(lines)


def _expected(passes: Sequence[ApiPass], spec: ApiSpec) -> tuple[str, float | None]:
    """Requests to one model, in words, and their cost in USD at most."""
    requests = follow = tokens = cost_tokens = answers = 0
    for pass_ in passes:
        # equal requests are sent once
        distinct = {key: prompt for prompt in pass_.prompts for key in pass_.keys(prompt)}
        for prompt in distinct.values():
            first, after = pass_.expected(prompt)
            requests += 1
            follow += after
            tokens += first.estimate.prompt
            cost_tokens += (1 + after) * first.estimate.prompt
            answers += (1 + after) * first.estimate.completion
    chat, longer = spec.protocol == "chat", " or lengthen lists" if spec.explicit == "llama_cpp" else ""
    text = f"{requests:,}, with {'about ' if chat else ''}{tokens:,} prompt tokens"
    text += " (estimated: four characters each, and some for the frame; the server counts its own)" if chat else ""
    text += f", and up to {follow:,} more that follow scores of several tokens{longer}" if follow else ""
    return f"{text}.", spec.priced.of(cost_tokens, 0, answers)
