"""From prompts to readings where the models are served: which requests an experiment needs, and
what they bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.decoding.parser import parse_answer, parse_place, warn_of_cut
from judgebench.decoding.scores import key_columns
from judgebench.judges.judge import PromptSet, ReadingJudge
from judgebench.judges.local.batches import Tokens, pending, token_counts
from judgebench.judges.local.models import Models, Trainers
from judgebench.judges.reader import IN_STORE, BaseReader
from judgebench.judges.served.batch import claim_noted, read_in_batches
from judgebench.judges.served.bounds import on_scores
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
from judgebench.runtime.progress import Progressing
from judgebench.types import (
    FAILED,
    Array,
    Generation,
    Prompt,
    Reading,
    Record,
    Records,
    Rows,
    Split,
)
from judgebench.words.errors import UserError
from judgebench.words.formats import say

_GREEDY = "greedy"
_ROLES = {"judge": "main", "assistant": "assistant"}
"""Config key of a model's settings -> its role in files."""
_COUNTS = (
    *("unlisted", "bounded", "undecided"),
    *("on_scores", "without_score"),
    *("answers", "failed_answers"),
)
_MEANS = ("unlisted", "on_scores")
"""Numbers of a condition's record, sums over its readings; and those that are means."""


class ApiReader(BaseReader):
    """Asks a served judge, and its assistant; see `BaseReader`."""

    judge: ApiSpec

    def __init__(self, judge: ReadingJudge, questions: PromptSet, models: Models | None = None):
        super().__init__(judge, questions, models)
        self._bill = Bill(self.judge.max_cost, self.models.spent)
        self._facts: Rows = []  # the evidence behind each reading

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
    def fingerprints(self) -> dict[str, Record]:
        """Role -> title, address and name of each model; what the servers say they are is in
        `served`."""
        return {
            role: {
                "title": spec.source.title,
                "url": spec.where,
                "model": spec.model,
                "served_as": self._served_as(role),
            }
            for role, spec in self.sides.items()
        }

    def read(self, trainer: Trainers) -> Any:
        """Asks for what is missing, pass by pass, batch by batch, each answer stored at once; see
        `BaseReader.read`."""
        alone = trainer
        if alone.world_size > 1:
            raise UserError(
                f"trainer: {alone.world_size} processes would each have limits of their own, and "
                "a served judge is none the faster for it; take trainer.devices=1, and raise "
                "judge.concurrency."
            )
        shown = alone.progress_bar_callback is not None
        if self.judge.batch is not None:
            return alone if read_in_batches(self.passes, shown) else None
        # what is asked behind thoughts depends on them: no earlier than read
        asked = [self._read(pass_, shown) for pass_ in self._thoughts]
        asked += [self._read(pass_, shown) for pass_ in self.passes]
        return alone if any(asked) else None

    def _read(self, pass_: ApiPass, shown: bool) -> bool:
        """Asks for what a pass lacks; False where it lacks nothing."""
        batches = pending(pass_, 0, self.store)
        if not batches:
            return False
        claim_noted(self.store)
        pass_.prepare()
        before = self._bill.spent
        try:
            with Progressing(f"Asking {pass_.title}", len(pass_.missing()), shown) as progress:
                pass_.stored = lambda new: progress.advance(new, self._bill.spent - before)
                for batch in batches:
                    pass_.read(batch)
                pass_.read_left()
        finally:
            pass_.release()
        return True

    def device(self, trainer: Any) -> str:
        return IN_STORE if trainer is None else "served: the models are behind a URL"

    def readings(self, split: Split) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`."""
        stored = self.store.get(
            key for pass_ in self.passes for prompt in pass_.prompts for key in pass_.keys(prompt)
        )
        self._facts = []

        def noted(role: str, prompt: Prompt, pass_: ApiPass) -> Record:
            answers = [stored[key] for key in pass_.keys(prompt)]
            free = prompt.condition.defense in self.of.free_text
            fact = _fact(prompt, answers, free, self._floor(role))
            fact |= {"role": role, "split": split[prompt.example.group_id]}
            self._facts.append(fact)
            return fact

        # 1. log-probabilities, listed or those of shares of answers
        readings = []
        for prompt in self._scored:
            read, seconds = self._after[id(prompt)]
            facts = {role: noted(role, read, pass_) for role, pass_ in self._scoring.items()}
            main = facts["main"]
            other = facts["assistant"]["value"] if "assistant" in facts else None
            if self.nulls is not None and self.judge.scores_from == "logprobs":
                null, _ = self._after[id(self.nulls[prompt.condition])]
                (key,) = self._scoring["main"].keys(null)
                other, _ = _listed_scores(stored[key], 0.0)
            seconds += sum(fact["seconds"] for fact in facts.values())
            read = replace(read, tail=read.tail + main["thoughts"])
            reading = self._reading(read, main["split"], main["value"], other, seconds)
            readings.append(replace(reading, answers=tuple(main["texts"] or ())))
        if self.judge.scores_from == "samples":
            warn_of_cut(text for fact in self._facts for text in fact["texts"])
        # 2. free answers
        for how, role, pass_ in self._writing:
            for prompt in pass_.prompts:
                fact = noted(role, prompt, pass_)
                readings.append(
                    Reading(
                        prompt,
                        fact["split"],
                        generation=how,
                        text=fact["texts"][0],
                        seconds=fact["seconds"],
                    )
                )
        return readings

    @property
    def served(self) -> Record:
        """Requests, their outcome and their cost by role, for environment.json; once there are
        readings.

        Conditions count readings, those that are `bounded` and `undecided` (see `Bounds`), answers
        and `failed_answers`; `unlisted` is the probability that lists leave out in the mean,
        `on_scores` that on scores, and `without_score` the readings with less of it than the floor.
        """
        record: Record = {}
        for role, spec in self.sides.items():
            account = self._accounts[role]
            of_role: Record = {
                "model": spec.model,
                "protocol": spec.protocol,
                "scores_from": spec.scores_from,
                "explicit": spec.explicit,
                "url": spec.where,
            }
            if len(spec.urls) > 1:
                of_role |= {"concurrency": spec.concurrency, "servers": account.servers}
            of_role |= {
                name: getattr(spec, name) for name in ("batch", "effort") if getattr(spec, name)
            }
            record[role] = {
                **of_role,
                "samples": spec.samples if spec.scores_from == "samples" else None,
                "temperature": spec.degree(),
                "floor": self._floor(role),
                "served_as": self._served_as(role),
                "price": spec.price,
                **account.record(),
                "conditions": _by_condition(self._facts_of(role)),
            }
        priced = all(spec.priced.known for spec in self.sides.values())
        record["cost"] = self._bill.spent if priced else None
        return record | {"max_cost": self.judge.max_cost}

    def _floor(self, role: str) -> float:
        """The least probability on scores. An assistant has none: it is taken off among the scores,
        whatever else it would say."""
        return self.judge.floor if role == "main" else 0.0

    def _facts_of(self, role: str) -> Rows:
        return [fact for fact in self._facts if fact["role"] == role]

    @property
    def evidence(self) -> dict[str, list[Any]]:
        """The evidence behind each reading, as the columns of served.parquet; once there are
        readings."""
        facts = []
        for role in self.sides:
            facts += self._facts_of(role)
        readings = [Reading(fact["prompt"], fact["split"]) for fact in facts]
        ranges = [fact["prompt"].condition.range for fact in facts]
        names = ("lower", "upper", "unlisted", "texts")
        return {
            **key_columns(readings),
            "role": [fact["role"] for fact in facts],
            "candidates": [list(range_.candidates) for range_ in ranges],
            **{name: [fact[name] for fact in facts] for name in names},
        }

    def _served_as(self, role: str) -> Rows:
        names = Counter(name for fact in self._facts_of(role) for name in fact["as"])
        return [
            {"model": model, "fingerprint": mark, "answers": n}
            for (model, mark), n in names.most_common()
        ]

    @cached_property
    def _thoughts(self) -> list[AnswerPass]:
        """Of a server that goes on with a text; with `chat` thoughts and score are one answer."""
        thinking = [] if self.judge.framed else self._thinking()
        return [self._pass(AnswerPass, self.judge, prompts, 1, most) for prompts, most in thinking]

    @cached_property
    def _scoring(self) -> dict[str, ApiPass]:
        """Role -> the pass behind its candidates' probabilities."""
        passes: dict[str, ApiPass] = {}
        prompts = [prompt for prompt, _ in self._after.values()]
        ranges = dict.fromkeys(prompt.condition.range for prompt in prompts)
        for role, spec in self.sides.items() if self._scored else ():
            if spec.scores_from == "samples":
                passes[role] = self._pass(
                    AnswerPass,
                    spec,
                    self._scored,
                    spec.samples,
                    spec.max_new_tokens,
                )
            else:
                thinking = self.of.thinking if spec.framed else {}
                paths = endpoint_paths(spec, ranges)
                passes[role] = self._pass(ListedPass, spec, prompts, *paths, thinking)
        return passes

    def _pass(self, kind: Any, spec: ApiSpec, prompts: Sequence[Prompt], *more: Any) -> Any:
        return kind(spec, self._bill, self._accounts[_ROLES[spec.role]], prompts, self.store, *more)

    @cached_property
    def _writing(self) -> list[tuple[Generation, str, AnswerPass]]:
        """Generation, role and pass of free answers."""
        answers = []
        decodings = self.of.decodings.items()
        greedy = [name for name, decoding in decodings if decoding.kind == _GREEDY]
        name = (greedy or [_GREEDY])[0]
        for role, spec in self.sides.items():
            # one answer, the likeliest, also where scores are drawn otherwise
            sober = spec if spec.temperature is not None else replace(spec, temperature=0.0)
            for prompts, most, reasoned in self._asked:
                asked = sober if reasoned else spec
                way = Generation(role, name, reasoned=reasoned)
                pass_ = self._pass(AnswerPass, asked, prompts, 1, most)
                answers.append((way, role, pass_))
        return answers

    def estimate(self) -> str:
        """Requests, tokens and money that all prompts would take where nothing is stored: a line
        for each model, and one for their cost together where there are two."""
        store = ReadingStore(Path(":memory:"))
        passes = ApiReader(replace(self.of, store=lambda: store), PromptSet(self.prompts)).passes
        store.close()
        lines = []
        costs: list[float | None] = []
        several = len(self.sides) > 1
        for spec in self.sides.values():
            facts = _expected([pass_ for pass_ in passes if pass_.spec.role == spec.role], spec)
            lines.append(say("requests", part="side", spec=spec, several=several, **facts))
            costs.append(facts["cost"])
        total = sum(cost for cost in costs if cost is not None)
        most = self.judge.max_cost
        if several and None not in costs:
            lines.append(say("requests", part="together", total=total))
        if most is not None and total > most:
            lines.append(say("requests", part="more", most=most))
        return "\n".join(lines)


def _listed_scores(answer: ModelReading, floor: float) -> tuple[Array, float]:
    """[candidates] log-probabilities of a list, and the probability on all of them; -inf where that
    is below the floor, or none is listed: what is left of it would be a score that nobody gave."""
    value, lower, _ = unstacked(answer)
    unlisted = float(answer_record(answer)["unlisted"])
    share = on_scores(np.exp(value), np.exp(lower), unlisted)
    return (value if 0 < share >= floor else np.full_like(value, -np.inf)), share


def _fact(
    prompt: Prompt, answers: Sequence[ModelReading], free: bool, floor: float = 0.0
) -> Record:
    """The evidence behind a reading; None for what its way of reading does not have.

    `value` [candidates] are log-probabilities: those of a list, or the log of each candidate's
    share of all answers, of which some may name none. `on_scores` is their sum; below the floor all
    are -inf, for no answer.
    """
    records = [answer_record(answer) for answer in answers]
    first = records[0]
    fact = {
        **dict.fromkeys(("lower", "upper", "texts", "answers", "failed_answers")),
        "unlisted": first.get("unlisted"),
        "bounded": first.get("bounded"),
        "undecided": first.get("undecided"),
        "prompt": prompt,
        "seconds": sum(answer.seconds for answer in answers),
        "as": [(record["model"], record["fingerprint"]) for record in records],
    }
    # 1. of a list
    if answers[0].logprobs is not None:
        _, lower, upper = unstacked(answers[0])
        value, share = _listed_scores(answers[0], floor)
        fact |= {
            "lower": lower.tolist(),
            "upper": upper.tolist(),
            "thoughts": first.get("text", ""),
        }
    # 2. of answers
    else:
        texts = ["" if "refused" in record else record["text"] for record in records]
        scores = [candidate_of(prompt, text) for text in texts]
        counts = np.array([scores.count(value) for value in prompt.condition.range.values])
        share = float(counts.sum() / len(answers))
        with np.errstate(divide="ignore"):
            value = np.log(counts * (share >= floor) / len(answers))
        fact |= {
            "texts": texts,
            "answers": len(texts),
            "failed_answers": 0 if free else scores.count(None),
            "thoughts": "",
        }
    without = bool(np.isneginf(value).all())
    return fact | {"value": value, "on_scores": share, "without_score": without}


def candidate_of(prompt: Prompt, answer: str) -> float | None:
    """The score that an answer names, if it is one of the candidates."""
    scores = prompt.condition.range
    if prompt.condition.order:
        read = parse_place(answer, prompt.choices)
    else:
        read = parse_answer(answer, scores, prompt.choices)
    return read.value if read.status != FAILED and read.value in scores.values else None


def _by_condition(facts: Records) -> Rows:
    """Numbers of readings and of what they lack, a record a condition; None where there is nothing
    to count."""
    records = []
    for condition in dict.fromkeys(fact["prompt"].condition for fact in facts):
        readings = [fact for fact in facts if fact["prompt"].condition == condition]
        record = {
            "dimension": condition.dimension,
            "range": str(condition.range),
            "attack": condition.attack,
            "defense": condition.defense,
            "order": condition.order or None,
            "readings": len(readings),
        }
        for name in _COUNTS:
            numbers = [fact[name] for fact in readings if fact[name] is not None]
            record[name] = sum(numbers) if numbers else None
            if numbers and name in _MEANS:
                record[name] /= len(numbers)
        records.append(record)
    return records


def _expected(passes: Sequence[ApiPass], spec: ApiSpec) -> Record:
    """Requests to one model, those that may `follow` them, their prompts' tokens, and their cost in
    USD at most."""
    requests = follow = tokens = prompt_tokens = answer_tokens = 0
    for pass_ in passes:
        # equal requests are sent once
        distinct = {key: prompt for prompt in pass_.prompts for key in pass_.keys(prompt)}
        for prompt in distinct.values():
            first, after = pass_.expected(prompt)
            requests += 1
            follow += after
            tokens += first.estimate.prompt
            prompt_tokens += (1 + after) * first.estimate.prompt
            answer_tokens += (1 + after) * first.estimate.completion
    cost = spec.priced.of(prompt_tokens, 0, answer_tokens)
    return {"requests": requests, "follow": follow, "tokens": tokens, "cost": cost}
