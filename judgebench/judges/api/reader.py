"""From prompts to readings where the models are served: which requests an experiment needs, and what they bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import lightning as L
from transformers import PreTrainedTokenizerBase

from judgebench.decoding.decode import key_columns
from judgebench.decoding.protocol import Decoding
from judgebench.judges.api.bill import Account, Bill
from judgebench.judges.api.bounds import Way, Ways
from judgebench.judges.api.passes import AnswerPass, ApiPass, ListedPass, told, unstacked
from judgebench.judges.api.samples import candidate_of, shares
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.judges.candidates import CandidateTrie
from judgebench.judges.judge import Models
from judgebench.judges.running import Trainers, compute
from judgebench.readings.checksum import check_shares
from judgebench.readings.store import ModelReading, ReadingStore
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Generation, Prompt, Reading, ScoreRange

_GREEDY = "greedy"


@dataclass
class ApiReader:
    """Asks a served judge, and its assistant, that keep `judgebench.config.rules.SETTINGS`.

    Args:
        judge, assistant: as configured.
        decodings: name -> decoding.
        prompts: what is asked.
        null: condition -> the prompt about nothing.
        store: where answers are kept.
        worded: see `Reader`.

    Attributes:
        models: none.
    """

    judge: ApiSpec
    assistant: Assistant
    decodings: Mapping[str, Decoding]
    prompts: Sequence[Prompt]
    null: Callable[[Condition], Prompt]
    store: ReadingStore
    worded: Mapping[str, int] = field(default_factory=dict)
    models: Models = field(default_factory=Models)
    _facts: dict[str, list[dict[str, Any]]] = field(default_factory=dict, init=False)
    _split: Mapping[str, str] = field(default_factory=dict, init=False)

    @cached_property
    def sides(self) -> dict[str, ApiSpec]:
        """`main`, and `assistant` where a second model is served -> how it is asked."""
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

    def read(self, data: L.LightningDataModule, trainer: Trainers) -> L.Trainer | None:
        """Asks and stores what is missing, see `Reader.read`.

        Raises:
            UserError: several processes, or whatever a request fails of.
        """
        if (count := trainer([]).world_size) > 1:
            raise UserError(
                f"trainer: {count} processes would each have limits of their own, and a served judge is none the "
                "faster for it; take trainer.devices=1, and raise judge.concurrency."
            )
        return compute(self.passes, self.judge.token_budget, self.store, self.models, data, trainer, "Asking")

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        """What computed, by name."""
        return "none: every reading was in the store" if trainer is None else "served: the models are behind a URL"

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`."""
        found = self.store.get(key for pass_ in self.passes for prompt in pass_.prompts for key in pass_.keys(prompt))
        self._facts, self._split = {role: [] for role in self.sides}, split
        given = self._listed(found, split) if self.judge.scores_from == "logprobs" else self._drawn(found, split)
        for how, role, pass_ in self._answering:
            if how is None:
                continue
            for prompt in pass_.prompts:
                held = found[pass_.keys(prompt)[0]]
                self._note(role, prompt, [held])
                given.append(
                    Reading(
                        prompt,
                        split[prompt.example.group_id],
                        text=told(held)["text"],
                        generation=how,
                        seconds=held.seconds,
                    )
                )
        return given

    @property
    def served(self) -> dict[str, Any]:
        """What was asked of whom, what came of it and what it cost, for environment.json; once there are readings.

        Of each role: where and as what it was asked, the counts of `Account.record`, what the server says it is, and
        for each condition how many readings there are, how much probability the lists leave out in the mean
        (`unlisted`), how many readings are `bounded` and `undecided` (see `Bounds`), and of how many answers there were
        how many `failed_answers`.
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
        """What each reading was made of, as the columns of served.parquet; once there are readings."""
        facts = [(role, fact) for role, held in self._facts.items() for fact in held]
        readings = [Reading(fact["prompt"], self._split[fact["prompt"].example.group_id]) for _, fact in facts]
        found: dict[str, list[Any]] = {**key_columns(readings), "role": [role for role, _ in facts]}
        found["candidates"] = [list(fact["condition"].range.candidates) for _, fact in facts]
        return found | {name: [fact.get(name) for _, fact in facts] for name in ("lower", "upper", "unlisted", "texts")}

    def _listed(self, found: Mapping[str, ModelReading], split: Mapping[str, str]) -> list[Reading]:
        main = self._scoring["main"] if self._scoring else None
        given = []
        for prompt in self._scored:
            assert main is not None
            ours = found[main.keys(prompt)[0]]
            self._note("main", prompt, [ours])
            theirs = None
            if self.assistant.kind == "api":
                theirs = found[self._scoring["assistant"].keys(prompt)[0]]
                self._note("assistant", prompt, [theirs])
            elif self.assistant.kind == "null_context":
                theirs = found[main.keys(self._nulls[prompt.condition])[0]]
            other = None if theirs is None else tuple(unstacked(theirs)[0].tolist())
            seconds = ours.seconds + (theirs.seconds if theirs is not None and self.assistant.kind == "api" else 0.0)
            split_, own = split[prompt.example.group_id], tuple(unstacked(ours)[0].tolist())
            for logprobs in (own, other or ()):
                check_shares(logprobs, prompt, self.store.path)
            given.append(Reading(prompt, split_, own, other, seconds=seconds))
        return given

    def _drawn(self, found: Mapping[str, ModelReading], split: Mapping[str, str]) -> list[Reading]:
        """Shares of samples as log-probabilities: what the parser reads counts for the candidate that it names."""
        given = []
        passes = {role: pass_ for how, role, pass_ in self._answering if how is None}
        for prompt in self._scored if passes else ():
            logprobs: dict[str, tuple[float, ...]] = {}
            seconds = 0.0
            for role, pass_ in passes.items():
                held = [found[key] for key in pass_.keys(prompt)]
                logprobs[role] = shares(prompt, [told(one)["text"] for one in held])
                seconds += sum(one.seconds for one in held)
                self._note(role, prompt, held)
            split_ = split[prompt.example.group_id]
            given.append(Reading(prompt, split_, logprobs["main"], logprobs.get("assistant"), seconds=seconds))
        return given

    def _note(self, role: str, prompt: Prompt, held: Sequence[ModelReading]) -> None:
        known = [told(one) for one in held]
        fact: dict[str, Any] = {"prompt": prompt, "condition": prompt.condition}
        fact |= {"as": [(k["model"], k["fingerprint"]) for k in known]}
        fact |= {name: known[0].get(name) for name in ("unlisted", "bounded", "undecided")}
        if held[0].logprobs is not None:
            _, lower, upper = unstacked(held[0])
            fact |= {"lower": lower.tolist(), "upper": upper.tolist()}
        if "text" in known[0]:
            reasoned = prompt.condition.defense in self.worded
            fact |= {"answers": len(known), "failed": 0, "texts": [one["text"] for one in known]}
            if not reasoned:
                fact["failed"] = sum(candidate_of(prompt, one["text"]) is None for one in known)
        self._facts[role].append(fact)

    def _served_as(self, role: str) -> list[dict[str, Any]]:
        """What the server said it was, and in how many answers."""
        seen = Counter(one for fact in self._facts.get(role, []) for one in fact["as"])
        return [{"model": model, "fingerprint": print_, "answers": n} for (model, print_), n in seen.most_common()]

    @cached_property
    def _scored(self) -> list[Prompt]:
        if self.judge.mode == "generate":
            return []
        return [prompt for prompt in self.prompts if prompt.condition.defense not in self.worded]

    @cached_property
    def _nulls(self) -> dict[Condition, Prompt]:
        conditions = dict.fromkeys(prompt.condition for prompt in self._scored)
        nothing = {clean: self.null(clean) for clean in dict.fromkeys(map(_clean, conditions))}
        return {condition: nothing[_clean(condition)] for condition in conditions}

    @cached_property
    def _scoring(self) -> dict[str, ListedPass]:
        """Role -> its lists."""
        if self.judge.scores_from != "logprobs" or not self._scored:
            return {}
        found = {}
        for role, spec in self.sides.items():
            prompts = list(self._scored)
            if role == "main" and self.assistant.kind == "null_context":
                prompts += {id(null): null for null in self._nulls.values()}.values()
            ranges = list(dict.fromkeys(prompt.condition.range for prompt in prompts))
            ways, sent = ways_of(spec, ranges)
            found[role] = ListedPass(spec, self._bill, self._accounts[role], prompts, self.store, ways, sent)
        return found

    @cached_property
    def _answering(self) -> list[tuple[Generation | None, str, AnswerPass]]:
        """How answers count, whose they are, and the pass; None for samples, whose shares count."""
        found: list[tuple[Generation | None, str, AnswerPass]] = []
        free = [prompt for prompt in self.prompts if prompt.condition.defense not in self.worded]
        name = next((name for name, one in self.decodings.items() if one.kind == _GREEDY), _GREEDY)
        for role, spec in self.sides.items():
            parts = (self._bill, self._accounts[role])
            if free and spec.scores_from == "samples":
                drawn = AnswerPass(spec, *parts, free, self.store, spec.samples, spec.max_new_tokens)
                found.append((None, role, drawn))
            if free and spec.scores_from == "text":
                one = AnswerPass(spec, *parts, free, self.store, 1, spec.max_new_tokens)
                found.append((Generation(role, name), role, one))
            for defense, most in self.worded.items():
                prompts = [prompt for prompt in self.prompts if prompt.condition.defense == defense]
                # one answer, the likeliest, also where scores are drawn otherwise
                sober = spec if spec.temperature is not None else replace(spec, temperature=0.0)
                if prompts:
                    reasoned = AnswerPass(sober, *parts, prompts, self.store, 1, most)
                    found.append((Generation(role, name, reasoned=True), role, reasoned))
        return found


def unpaid(served: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a run that asks nobody, for all readings are known."""
    nothing = dict.fromkeys(("requests", "retries", "uncounted_requests"), 0)
    nothing |= dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), 0)

    def idle(one: Mapping[str, Any]) -> dict[str, Any]:
        money = {name: None if one[name] is None else 0.0 for name in ("cost", "unconfirmed_cost")}
        return {**one, **nothing, **money, "failures": {}}

    return {
        name: idle(one) if name in ("main", "assistant") else (0.0 if name == "cost" and one is not None else one)
        for name, one in served.items()
    }


def ways_of(
    spec: ApiSpec, ranges: Iterable[ScoreRange]
) -> tuple[dict[ScoreRange, Ways], dict[ScoreRange, dict[Way, tuple[int, ...]]]]:
    """The ways of writing each range's candidates, as an endpoint's lists name tokens; and the numbers of the tokens
    that lead to each inner node, where the tokenizer is known."""
    ways: dict[ScoreRange, Ways] = {}
    sent: dict[ScoreRange, dict[Way, tuple[int, ...]]] = {}
    tokenizer: PreTrainedTokenizerBase | None = None if spec.own_tokenizer is None else spec.own_tokenizer.tokenizer()
    for one in ranges:
        if tokenizer is None:
            ways[one], sent[one] = Ways.of_texts(one.candidates), {}
            continue
        trie = CandidateTrie.of(tokenizer, one.candidates)
        numbered = spec.protocol == "completions" and spec.explicit is not None
        named = {
            token: token if numbered else str(tokenizer.decode([token]))
            for paths in trie.token_paths
            for path in paths
            for token in path
        }
        ways[one] = Ways.of_tokens(trie, named.__getitem__)
        inner = [path[:n] for paths in trie.token_paths for path in paths for n in range(len(path))]
        sent[one] = {tuple(named[token] for token in path): path for path in inner}
    return ways, sent


def _by_condition(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for condition in dict.fromkeys(fact["condition"] for fact in facts):
        held = [fact for fact in facts if fact["condition"] == condition]
        unlisted = [fact["unlisted"] for fact in held if fact["unlisted"] is not None]
        drawn = [fact for fact in held if "answers" in fact]
        found.append(
            {
                "dimension": condition.dimension,
                "range": str(condition.range),
                "attack": condition.attack,
                "defense": condition.defense,
                "order": condition.order or None,
                "readings": len(held),
                "unlisted": sum(unlisted) / len(unlisted) if unlisted else None,
                "bounded": sum(bool(fact["bounded"]) for fact in held) if unlisted else None,
                "undecided": sum(bool(fact["undecided"]) for fact in held) if unlisted else None,
                "answers": sum(fact["answers"] for fact in drawn) if drawn else None,
                "failed_answers": sum(fact["failed"] for fact in drawn) if drawn else None,
            }
        )
    return found


def _clean(condition: Condition) -> Condition:
    return replace(condition, attack="none")
