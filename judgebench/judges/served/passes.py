"""Passes of a served model over prompts: their requests, and the keys of the answers in the store,
where each is put at once: it was paid for.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.local.batches import Batch, Pass
from judgebench.judges.served.bounds import (
    Bounds,
    Listing,
    PathTree,
    TokenPath,
    candidate_bounds,
    unread,
)
from judgebench.judges.served.client import Client, OtherModel, Stopped
from judgebench.judges.served.fleet import homes
from judgebench.judges.served.protocol import Answer, Request, RequestPrompt, request
from judgebench.judges.served.settings import MOST_LISTED, Account, ApiSpec, Bill
from judgebench.prompts.thoughts import rating_place
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.readings.store import ReadingStore
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import Limits, parse_json
from judgebench.types import Prompt, ScoreRange

_HALF = re.compile("[\ud800-\udfff]")
_AT_ONCE = 4
"""Requests of a batch, for each that may be under way: at a batch's end some wait for its last
one."""
_WIDER = 8
"""Times as many tokens as in the list before, where llama.cpp's was too short for every
candidate."""
_STORED = Limits(loose=True)
_MOST_NAMED = 128
"""Tokens that vLLM takes by their numbers in one request."""
_MOST_CUT = 15
"""Characters of a label without a tokenizer: a text has 2 ** (n - 1) ways of being cut into
tokens."""


@contextmanager
def outer_loop_paused() -> Iterator[None]:
    """Lets another event loop run where one runs already, as in a notebook's cell."""
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)


@dataclass
class ApiPass(Pass):
    """Requests to one endpoint, one or several a prompt; a `Pass` that needs no model here."""

    spec: ApiSpec
    bill: Bill
    account: Account
    prompts: Sequence[Prompt]
    store: ReadingStore
    stored: Callable[[], None] | None = field(default=None, init=False)
    _runner: asyncio.Runner | None = field(default=None, init=False)
    _client: Client | None = field(default=None, init=False)
    _stored: int = field(default=0, init=False)
    _agreed: bool = field(default=False, init=False)

    @property
    def title(self) -> str:
        return self.spec.source.title

    def keys(self, prompt: Prompt) -> list[str]:
        raise NotImplementedError

    def answered(
        self, prompt: Prompt, key: str
    ) -> Coroutine[Any, Any, tuple[np.ndarray | None, dict[str, Any]]]:
        """Asks for one reading: its log-probabilities, if it has any, and the record of its
        answers."""
        raise NotImplementedError

    def expected(self, prompt: Prompt, key: str | None = None) -> tuple[Request, int]:
        """The first request for one of a prompt's keys, and the number of those that may follow."""
        raise NotImplementedError

    def batches(self, token_budget: int) -> list[Batch]:
        """The prompts in the order given, of each server's a few for each request that may be under
        way."""
        size = _AT_ONCE * self.spec.concurrency
        of_server = defaultdict[int, list[Prompt]](list)
        for prompt in self.prompts:
            of_server[self._homes[prompt.example.group_id][0]].append(prompt)
        longest = max(map(len, of_server.values()), default=0)
        batches = []
        for start in range(0, longest, size):
            turn: list[Prompt] = []
            for queue in of_server.values():
                turn += queue[start : start + size]
            batches.append(Batch((tuple(turn),)))
        return batches

    @cached_property
    def _homes(self) -> dict[str, tuple[int, ...]]:
        return homes((prompt.example.group_id for prompt in self.prompts), self.spec.urls)

    def prepare(self) -> None:
        """Opens what sends requests; `release` closes it."""
        identity = self._identity()
        self._agreed = identity is not None
        self.account.identity = self.account.identity or identity
        self._client = Client(self.spec, self.bill, self.account)
        self._runner = asyncio.Runner()

    def release(self) -> None:
        if self._runner is not None and self._client is not None:
            with outer_loop_paused():
                self._runner.run(self._client.close())
                self._runner.close()
        self._runner = self._client = None

    def read(self, batch: Batch) -> list[ModelReading]:
        """Asks for what is not stored; where a request fails for good, what others have brought is
        stored."""
        assert self._runner is not None
        with outer_loop_paused():
            return self._runner.run(self._all(batch))

    def missing(self) -> set[str]:
        """The keys of its readings that are not stored."""
        return self.store.missing(key for prompt in self.prompts for key in self.keys(prompt))

    async def taken(
        self, prompt: Prompt, key: str, client: Any, more: Mapping[str, Any]
    ) -> ModelReading:
        """The reading that a client's answer makes, with more in its record."""
        self._client, began = client, time.perf_counter()
        logprobs, record = await self.answered(prompt, key)
        return ModelReading(
            key, logprobs, json.dumps(record | dict(more)), time.perf_counter() - began
        )

    async def _all(self, batch: Batch) -> list[ModelReading]:
        wanted = {key: prompt for prompt in batch.prompts for key in self.keys(prompt)}
        missing = self.store.missing(wanted)
        keys = [key for key in wanted if key in missing]
        # 1. one answer of each of several servers, before any is stored: they must agree on the
        # model
        first = self._first_of_each(wanted, keys)
        outcomes = await self._gathered(wanted, first, self._asked)
        if not any(isinstance(outcome, OtherModel) for outcome in outcomes):
            for reading in outcomes:
                if isinstance(reading, ModelReading):
                    self._put(reading)
        # 2. all others, each stored at once
        if not any(isinstance(outcome, BaseException) for outcome in outcomes):
            outcomes += await self._gathered(
                wanted, [key for key in keys if key not in first], self._read
            )
        errors = [
            each
            for each in outcomes
            if isinstance(each, BaseException) and not isinstance(each, Stopped)
        ]
        if ours := [error for error in errors if not isinstance(error, UserError)]:
            raise ours[0]
        if errors:
            stored = (
                f" {self._stored:,} answers of this run are stored"
                if self._stored
                else " What was stored stays"
            )
            raise UserError(
                f"{str(errors[0]).rstrip('.')}.{stored}: the same command goes on from there."
            )
        return [each for each in outcomes if isinstance(each, ModelReading)]

    async def _gathered(
        self,
        wanted: Mapping[str, Prompt],
        keys: Iterable[str],
        read: Callable[[Prompt, str], Coroutine[Any, Any, ModelReading]],
    ) -> list[ModelReading | BaseException]:
        return await asyncio.gather(
            *(read(wanted[key], key) for key in keys), return_exceptions=True
        )

    def _first_of_each(self, wanted: Mapping[str, Prompt], keys: Iterable[str]) -> set[str]:
        """A key of each server, of several, that has not said yet what it answers as."""
        if len(self.spec.urls) == 1:
            return set()
        first: dict[str, str] = {}
        for key in keys:
            url = self.spec.urls[self._homes[wanted[key].example.group_id][0]]
            if not self.account.servers[url]["models"]:
                first.setdefault(url, key)
        return set(first.values())

    async def _asked(self, prompt: Prompt, key: str) -> ModelReading:
        assert self._client is not None
        try:
            return await self.taken(prompt, key, self._client, {})
        except UserError:
            # what is under way is waited for, what is not is not sent any more
            self._client.stopped = True
            raise

    async def _read(self, prompt: Prompt, key: str) -> ModelReading:
        reading = await self._asked(prompt, key)
        self._put(reading)
        return reading

    def _put(self, reading: ModelReading) -> None:
        """Stores a reading, and before the first one the model's name."""
        assert self._client is not None
        try:
            if not self._agreed and self.account.identity is not None:
                self._agree(self._client)
            self.store.put([reading])
        except UserError:
            self._client.stopped = True
            raise
        self._stored += 1
        if self.stored is not None:
            self.stored()

    def _agree(self, client: Client) -> None:
        """Keeps with the store which server told which name first; where another command was
        faster, its name holds."""
        key, (url, model) = self._identity_key, self.account.identity or ("", "")
        self.store.put([ModelReading(key, None, json.dumps({"url": url, "model": model}), 0.0)])
        self.account.identity = self._identity()
        client.agree(url, model)
        self._agreed = True

    @property
    def _identity_key(self) -> str:
        """The key under which the store keeps the name that the judge's first answer was given
        under."""
        identity = {"served as": {"url": self.spec.urls[0], "model": self.spec.model}}
        return reading_key(identity, np.array([], np.int32))

    def _identity(self) -> tuple[str, str] | None:
        key = self._identity_key
        if (reading := self.store.get([key]).get(key)) is None:
            return None
        record = answer_record(reading)
        return str(record["url"]), str(record["model"])

    async def _send(self, sent: RequestPrompt, max_tokens: int, **more: Any) -> Answer:
        assert self._client is not None
        return await self._client.send(
            request(self.spec, sent, max_tokens, **more), self._homes[sent.article]
        )

    def sent_prompt(self, prompt: Prompt) -> RequestPrompt:
        tokens = None if self.spec.framed else tuple(prompt.token_ids.tolist())
        return RequestPrompt(prompt.text, tokens, len(prompt.token_ids), prompt.example.group_id)

    def address(self, prompt: Prompt, **more: Any) -> str:
        """The key of an answer, which depends on the endpoint, the request and, by `more`, how it
        is read."""
        sent = self.sent_prompt(prompt)
        first = request(
            self.spec, sent, 0, listed=more.get("listed"), tokens=more.get("tokens", ())
        )
        body = {
            name: value for name, value in first.body.items() if name not in ("prompt", "input_ids")
        }
        identity = {
            "url": self.spec.urls[0],
            "to": first.path,
            "body": body,
            "explicit": self.spec.explicit,
            **more,
        }
        return reading_key({"api": identity}, np.array(sent.tokens or (), np.int32))


@dataclass
class ListedPass(ApiPass):
    """Candidate log-probabilities from lists of likely next tokens.

    Args:
        trees, node_tokens: see `endpoint_paths`.
        thinking: defense -> most tokens of the thoughts, of those under which an answer ends with
            the score: the lists at that place are read, and none where it is not reached.
    """

    trees: Mapping[ScoreRange, PathTree] = field(default_factory=dict)
    node_tokens: Mapping[ScoreRange, Mapping[TokenPath, Sequence[int]]] = field(
        default_factory=dict
    )
    thinking: Mapping[str, int] = field(default_factory=dict)

    def keys(self, prompt: Prompt) -> list[str]:
        digest = self.trees[prompt.condition.range].digest
        follow = self.spec.follow_above if self.spec.protocol == "completions" else None
        more = {"ways": digest, "follow_above": follow, "most": self._max_tokens(prompt)}
        return [self.address(prompt, listed=self.spec.top_logprobs, **more)]

    def expected(self, prompt: Prompt, key: str | None = None) -> tuple[Request, int]:
        nodes = (
            len(self.trees[prompt.condition.range].children)
            if self.spec.protocol == "completions"
            else 1
        )
        times = 1
        listed = self.spec.top_logprobs
        while self.spec.explicit == "llama_cpp" and listed < MOST_LISTED:  # see `_listed`
            times = times + 1
            listed = listed * _WIDER
        most = self._max_tokens(prompt)
        listed = self.spec.top_logprobs
        first = request(
            self.spec, self.sent_prompt(prompt), most, listed=listed, seed=self.spec.seed
        )
        return first, nodes * times - 1

    def _max_tokens(self, prompt: Prompt) -> int:
        """Tokens of the answer: with `chat` what follows its first token can be had with it
        alone."""
        if self.spec.protocol == "completions":
            return 1
        return (
            1
            + max(map(len, prompt.condition.range.candidates))
            + self.thinking.get(prompt.condition.defense, 0)
        )

    async def answered(self, prompt: Prompt, key: str) -> tuple[np.ndarray | None, dict[str, Any]]:
        tree = self.trees[prompt.condition.range]
        sent = self.sent_prompt(prompt)
        answers = [await self._listed(sent, self._max_tokens(prompt), tree, (), prompt)]
        listings: dict[TokenPath, Listing] = {}
        node: TokenPath = ()
        for token, listing in answers[0].lists or ():
            listings[node] = listing
            node = (*node, token)
        if self.spec.protocol == "completions":
            while nodes := unread(tree, listings, self.spec.follow_above):
                paths = self.node_tokens[prompt.condition.range]
                longer = [(*(sent.tokens or ()), *paths[node]) for node in nodes]
                followed = await asyncio.gather(
                    *(
                        self._listed(
                            replace(sent, tokens=tokens, count=len(tokens)), 1, tree, node, prompt
                        )
                        for tokens, node in zip(longer, nodes, strict=True)
                    )
                )
                answers += followed
                for node, answer in zip(nodes, followed, strict=True):
                    listings[node] = answer.lists[0][1] if answer.lists else Listing({})
        elif () in listings:
            tree = tree.given(listings[()].logprobs)
        read = candidate_bounds(tree, listings)
        # it may end at once: then nothing is known, so nothing is reckoned with
        value = read.value if listings else np.zeros_like(read.value)
        with np.errstate(divide="ignore"):
            logs = np.log(np.concatenate([value, read.lower, read.upper])).astype(np.float32)
        read = Bounds(read.lower, read.upper, value, read.unlisted)
        summary: dict[str, Any] = (
            {"text": answers[0].text} if prompt.condition.defense in self.thinking else {}
        )
        summary |= {
            "unlisted": round(read.unlisted, 9),
            "bounded": read.bounded,
            "undecided": read.undecided,
        }
        return logs, _record(answers) | summary

    async def _listed(
        self, sent: RequestPrompt, max_tokens: int, tree: PathTree, node: TokenPath, prompt: Prompt
    ) -> Answer:
        """One list of what follows a prompt, as long as it takes where the server gives any
        length."""
        tokens = [int(str(token)) for token in tree.children[node]] if self.spec.numbered else []
        if self.spec.explicit == "vllm" and len(tokens) > _MOST_NAMED:
            raise UserError(
                f"judge.explicit: {len(tokens)} tokens go on towards a score in "
                f"{prompt.condition}, and vLLM takes {_MOST_NAMED} at once; choose fewer scores, "
                "or judge.explicit=null."
            )
        listed = self.spec.top_logprobs
        while True:
            answer = await self._send(
                sent, max_tokens, listed=listed, tokens=tokens, seed=self.spec.seed
            )
            if answer.lists is None:
                raise UserError(
                    f"{self.spec.role}.scores_from: {self.spec.where} gives no log-probabilities "
                    "with its answers; take judge.scores_from=samples (shares of several answers) "
                    "or judge.scores_from=text (one answer)."
                )
            if self.spec.framed:
                led = prompt.condition.defense in self.thinking
                at = rating_place([str(token) for token, _ in answer.lists], led)
                answer = replace(answer, lists=[] if at is None else answer.lists[at:])
            logprobs = answer.lists[0][1].logprobs if answer.lists else {}
            if self.spec.explicit in ("vllm", "sglang") and (
                lacking := set(tokens) - set(logprobs)
            ):
                raise UserError(
                    f"judge.explicit: {self.spec.where} does not list the tokens that it was asked "
                    f"for ({len(lacking)} of {len(tokens)} lack), so it is not a "
                    f"{self.spec.explicit} that can; take judge.explicit=null."
                )
            whole = len(logprobs) < listed or listed >= MOST_LISTED
            if self.spec.explicit != "llama_cpp" or whole or not answer.lists:
                return answer
            # all children of the node are enough; by their texts, so is one token a candidate
            hidden = [token for token in tree.children[node] if token not in logprobs]
            reached = {
                tree.ends[(*node, token)] for token in logprobs if (*node, token) in tree.ends
            }
            if not hidden or (isinstance(hidden[0], str) and reached >= tree.below[node]):
                return answer
            listed *= _WIDER


@dataclass
class AnswerPass(ApiPass):
    """Free answers: one a prompt, or several that are drawn, each with a key of its own, so that
    more can be drawn later."""

    count: int = 1
    max_tokens: int = 16
    _draws: dict[str, int] = field(default_factory=dict, init=False)

    def keys(self, prompt: Prompt) -> list[str]:
        keys = [
            self.address(prompt, most=self.max_tokens, seed=self._seed(i), draw=i)
            for i in range(self.count)
        ]
        self._draws.update(zip(keys, range(self.count), strict=True))
        return keys

    def expected(self, prompt: Prompt, key: str | None = None) -> tuple[Request, int]:
        seed = None if key is None else self._seed(self._draws[key])
        return request(self.spec, self.sent_prompt(prompt), self.max_tokens, seed=seed), 0

    def _seed(self, draw: int) -> int | None:
        return None if self.spec.seed is None else self.spec.seed + draw

    async def answered(self, prompt: Prompt, key: str) -> tuple[np.ndarray | None, dict[str, Any]]:
        answer = await self._send(
            self.sent_prompt(prompt), self.max_tokens, seed=self._seed(self._draws[key])
        )
        return None, _record([answer]) | {"text": answer.text}


def unstacked(reading: ModelReading) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[candidates] each, log: what is reckoned with, the lower and the upper bound."""
    assert reading.logprobs is not None
    value, lower, upper = reading.logprobs.reshape(3, -1)
    return value, lower, upper


def answer_record(reading: ModelReading) -> dict[str, Any]:
    """The record of a reading besides its numbers, see `_record`."""
    record: dict[str, Any] = parse_json(reading.text or "{}", "store: an answer", limits=_STORED)
    # half a character, which earlier versions took and stored, can be written nowhere
    return {
        name: _HALF.sub("\ufffd", value) if isinstance(value, str) else value
        for name, value in record.items()
    }


def _record(answers: Sequence[Answer]) -> dict[str, Any]:
    counts = [astuple(answer.usage) for answer in answers if answer.usage is not None]
    return {
        "requests": len(answers),
        "model": answers[0].model,
        "fingerprint": answers[0].fingerprint,
        "usage": list(map(sum, zip(*counts, strict=True))) if counts else None,
    }


def endpoint_paths(
    spec: ApiSpec, ranges: Iterable[ScoreRange]
) -> tuple[dict[ScoreRange, PathTree], dict[ScoreRange, dict[TokenPath, tuple[int, ...]]]]:
    """Score range -> the paths that write its candidates, as the endpoint's lists name tokens; and
    -> inner node -> the numbers of its tokens, where the tokenizer is known."""
    trees: dict[ScoreRange, PathTree] = {}
    numbers: dict[ScoreRange, dict[TokenPath, tuple[int, ...]]] = {}
    tokenizer = None if spec.own_tokenizer is None else spec.own_tokenizer.tokenizer()
    for score_range in ranges:
        if tokenizer is None:
            if longest := [text for text in score_range.labels if len(text) > _MOST_CUT]:
                raise UserError(
                    f"ranges: {longest[0]!r} has {len(longest[0])} characters, too many to be "
                    "looked up in a server's lists of tokens; give judge.tokenizer, the model's, "
                    "or judge.scores_from=samples."
                )
            trees[score_range] = PathTree.of_texts(score_range.candidates)
            numbers[score_range] = {}
            continue
        paths = CandidateTrie.of(tokenizer, score_range.candidates).token_paths
        tokens = {token for written in paths for path in written for token in path}
        names = {
            token: token if spec.numbered else str(tokenizer.decode([token])) for token in tokens
        }
        by_name = [[tuple(names[token] for token in path) for path in written] for written in paths]
        trees[score_range] = PathTree(score_range.candidates, by_name)
        inner = [path[:n] for written in paths for path in written for n in range(len(path))]
        numbers[score_range] = {tuple(names[token] for token in path): path for path in inner}
    return trees, numbers
