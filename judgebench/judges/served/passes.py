"""Passes of a served model over prompts: their requests, and the keys of the answers in the store,
where each is put at once: it was paid for.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.local.batches import Batch, Pass
from judgebench.judges.served.bounds import (
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
from judgebench.readings.claims import holders_of, holding, is_batch
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.readings.store import ReadingStore
from judgebench.runtime.parsing import Limits, parse_json
from judgebench.types import Array, Prompt, Record, ScoreRange
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

Wanted = Mapping[str, Prompt]
"""Key of a reading -> the prompt that it is about."""

_AT_ONCE = 4
"""Requests of a batch, for each that may be under way: at a batch's end some wait for its last
one."""
_WIDER = 8
"""Times as many tokens as in the list before, where llama.cpp's was too short for every
candidate."""
_LOOK = 0.5
"""Seconds between two looks whether another command has brought an answer."""
_IN_BATCH = (
    "judge.batch: {count:,} of the requests are under way in {who}, and would be paid for twice; add "
    "judge.batch=wait, which waits for the answers, or judge.batch=submit, which fetches those that "
    "are there (for a judge card: +judge.batch=wait)."
)
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
    stored: Callable[[int], None] | None = field(default=None, init=False)
    _runner: asyncio.Runner | None = field(default=None, init=False)
    _client: Client | None = field(default=None, init=False)
    _stored: int = field(default=0, init=False)
    _agreed: bool = field(default=False, init=False)
    _held: ExitStack = field(default_factory=ExitStack, init=False)
    _holder: str | None = field(default=None, init=False)
    _left: dict[str, Prompt] = field(default_factory=dict, init=False)
    _others: set[str] = field(default_factory=set, init=False)

    @property
    def title(self) -> str:
        return self.spec.source.title

    def keys(self, prompt: Prompt) -> list[str]:
        raise NotImplementedError

    def answered(
        self, client: Any, prompt: Prompt, key: str
    ) -> Coroutine[Any, Any, tuple[Array | None, Record]]:
        """Asks a client for one reading: its log-probabilities, if it has any, and the record of
        its answers."""
        raise NotImplementedError

    def expected(self, prompt: Prompt, key: str | None = None) -> tuple[Request, int]:
        """The first request for one of a prompt's keys, and the number of those that may follow."""
        raise NotImplementedError

    def batches(self, max_batch_tokens: int) -> list[Batch]:
        """The prompts in the order given, of each server's a few for each request that may be under
        way."""
        size = _AT_ONCE * self.spec.concurrency
        turns = defaultdict[int, list[Prompt]](list)
        asked = Counter[int]()  # of each server
        for prompt in self.prompts:
            server = self._home(prompt)
            turns[asked[server] // size].append(prompt)
            asked[server] += 1
        return [Batch((tuple(turn),)) for turn in turns.values()]

    def _home(self, prompt: Prompt) -> int:
        return self._homes[prompt.example.group_id][0]

    @cached_property
    def _homes(self) -> dict[str, tuple[int, ...]]:
        return homes((prompt.example.group_id for prompt in self.prompts), self.spec.urls)

    def prepare(self) -> None:
        """Opens what sends requests; `release` closes it."""
        identity = self._identity()
        self._agreed = identity is not None
        self.account.identity = self.account.identity or identity
        if str(self.store.path) != ":memory:":
            self._holder = self._held.enter_context(holding(self.store.path))
        self._client = Client(self.spec, self.bill, self.account)
        self._runner = asyncio.Runner()

    def release(self) -> None:
        with suppress(UserError), self._held:  # what is wrong with the store was said
            self._claimed(())
        self._holder = None
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

    def read_left(self) -> None:
        """Waits for the readings that other commands ask for, and asks for what these have not
        brought when they end. `UserError` of those that are in a batch."""
        told = False
        while self._left:
            left = self._left
            self._left = {}
            before = self._stored
            prompts = {id(prompt): prompt for prompt in left.values()}
            self.read(Batch((tuple(prompts.values()),)))
            if self.stored is not None:
                self.stored(len(left) - len(self._left) - self._stored + before)
            if not self._left:
                return
            holders = holders_of(self.store.path, self._others)
            who = "; ".join(holders.values())
            if any(map(is_batch, holders)):
                raise UserError(_IN_BATCH.format(count=len(self._left), who=who))
            if holders and not told:
                print_safely(
                    f"judgebench: {len(self._left):,} of the requests to {self.spec.where} are "
                    f"under way in another command with this store ({who}); waiting for their "
                    "answers.",
                    error=True,
                )
                told = True
            time.sleep(_LOOK)

    def _claimed(self, keys: Iterable[str]) -> set[str]:
        """The keys among these that are this pass's to ask for now, and no other command's."""
        mine = set(keys)
        if self._holder is None:
            return mine
        others = self.store.claim(mine, self._holder)
        self._others = set(others.values())
        # what another has stored since
        return self.store.missing(mine.difference(others))

    def missing(self) -> set[str]:
        """The keys of its readings that are not stored."""
        return self.store.missing(key for prompt in self.prompts for key in self.keys(prompt))

    async def taken(self, prompt: Prompt, key: str, client: Any, **more: Any) -> ModelReading:
        """The reading that a client's answer makes, with more in its record."""
        began = time.perf_counter()
        logprobs, record = await self.answered(client, prompt, key)
        return ModelReading(key, logprobs, json.dumps(record | more), time.perf_counter() - began)

    async def _all(self, batch: Batch) -> list[ModelReading]:
        wanted = {key: prompt for prompt in batch.prompts for key in self.keys(prompt)}
        lacking = self.store.missing(wanted)
        missing = self._claimed(lacking)
        elsewhere = self.store.missing(lacking - missing)
        self._left |= {key: wanted[key] for key in elsewhere}
        # 1. one answer of each of several servers, before any is stored: they must agree on the
        # model
        ours = {key: wanted[key] for key in wanted if key in missing}
        first = self._first_of_each(ours)
        outcomes = await self._gathered(self._asked, first)
        if not any(isinstance(outcome, OtherModel) for outcome in outcomes):
            for reading in outcomes:
                if isinstance(reading, ModelReading):
                    self._put(reading)
        # 2. all others, each stored at once
        if not any(isinstance(outcome, BaseException) for outcome in outcomes):
            rest = {key: ours[key] for key in ours if key not in first}
            outcomes += await self._gathered(self._read, rest)
        # 3. a fault of ours, or the first mistake
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        mistakes = [error for error in errors if isinstance(error, UserError)]
        for error in errors:
            if not isinstance(error, UserError | Stopped):
                raise error
        if mistakes:
            stored = " What was stored stays"
            if self._stored:
                stored = f" {self._stored:,} answers of this run are stored"
            reason = str(mistakes[0]).rstrip(".")
            raise UserError(f"{reason}.{stored}: the same command goes on from there.")
        return [outcome for outcome in outcomes if isinstance(outcome, ModelReading)]

    async def _gathered(
        self, read: Callable[[Prompt, str], Coroutine[Any, Any, ModelReading]], wanted: Wanted
    ) -> list[ModelReading | BaseException]:
        reading = [read(prompt, key) for key, prompt in wanted.items()]
        return await asyncio.gather(*reading, return_exceptions=True)

    def _first_of_each(self, wanted: Wanted) -> dict[str, Prompt]:
        """A reading of each server, of several, that has not said yet what it answers as."""
        first: dict[str, tuple[str, Prompt]] = {}
        for key, prompt in wanted.items() if len(self.spec.urls) > 1 else ():
            url = self.spec.urls[self._home(prompt)]
            if not self.account.servers[url]["models"]:
                first.setdefault(url, (key, prompt))
        return dict(first.values())

    async def _asked(self, prompt: Prompt, key: str) -> ModelReading:
        with self._stopping():
            return await self.taken(prompt, key, self._client)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """After a mistake, what is under way is waited for, and no more is sent."""
        assert self._client is not None
        try:
            yield
        except UserError:
            self._client.stopped = True
            raise

    async def _read(self, prompt: Prompt, key: str) -> ModelReading:
        reading = await self._asked(prompt, key)
        self._put(reading)
        return reading

    def _put(self, reading: ModelReading) -> None:
        """Stores a reading, and before the first one the model's name."""
        with self._stopping():
            if not self._agreed and self.account.identity is not None:
                self._agree(*self.account.identity)
            self.store.put([reading])
        self._stored += 1
        if self.stored is not None:
            self.stored(1)

    def _agree(self, url: str, model: str) -> None:
        """Keeps with the store which server told which name first; where another command was
        faster, its name holds."""
        assert self._client is not None
        record = json.dumps({"url": url, "model": model})
        self.store.put([ModelReading(self._identity_key, None, record, 0.0)])
        self.account.identity = self._identity()
        self._client.agree(url, model)
        self._agreed = True

    @property
    def _identity_key(self) -> str:
        """The key under which the store keeps the name that the judge's first answer was given
        under."""
        identity = {"served as": {"url": self.spec.urls[0], "model": self.spec.model}}
        return reading_key(identity, np.array([], np.int32))

    def _identity(self) -> tuple[str, str] | None:
        reading = self.store.get([self._identity_key]).get(self._identity_key)
        if reading is None:
            return None
        record = answer_record(reading)
        return str(record["url"]), str(record["model"])

    async def _send(self, client: Any, sent: RequestPrompt, max_tokens: int, **more: Any) -> Answer:
        asked = request(self.spec, sent, max_tokens, **more)
        answer: Answer = await client.send(asked, self._homes[sent.article])
        return answer

    def sent_prompt(self, prompt: Prompt) -> RequestPrompt:
        tokens = None if self.spec.framed else tuple(prompt.token_ids.tolist())
        return RequestPrompt(prompt.text, tokens, len(prompt.token_ids), prompt.example.group_id)

    def address(self, prompt: Prompt, **more: Any) -> str:
        """The key of an answer, which depends on the endpoint, the request and, by `more`, how it
        is read."""
        sent = self.sent_prompt(prompt)
        first = request(self.spec, sent, 0, listed=more.get("listed"))
        place = {"url": self.spec.urls[0], "to": first.path}
        identity = {
            **place,
            "body": {name: value for name, value in first.body.items() if name != "prompt"},
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
    node_tokens: Mapping[ScoreRange, Mapping[TokenPath, TokenPath]] = field(default_factory=dict)
    thinking: Mapping[str, int] = field(default_factory=dict)

    def keys(self, prompt: Prompt) -> list[str]:
        key = self.address(
            prompt,
            listed=self.spec.top_logprobs,
            ways=self._tree(prompt).digest,
            follow_above=None if self.spec.framed else self.spec.follow_above,
            most=self._max_tokens(prompt),
        )
        return [key]

    def _tree(self, prompt: Prompt) -> PathTree:
        return self.trees[prompt.condition.range]

    def expected(self, prompt: Prompt, key: str | None = None) -> tuple[Request, int]:
        listed = self.spec.top_logprobs
        nodes = 1 if self.spec.framed else len(self._tree(prompt).children)
        times = 1
        while self.spec.explicit == "llama_cpp" and listed * _WIDER ** (times - 1) < MOST_LISTED:
            times += 1  # see `_listed`
        first = request(
            self.spec,
            self.sent_prompt(prompt),
            self._max_tokens(prompt),
            listed=listed,
            seed=self.spec.seed,
        )
        return first, nodes * times - 1

    def _max_tokens(self, prompt: Prompt) -> int:
        """Tokens of the answer: of a message what follows its first token can be had with it
        alone."""
        if not self.spec.framed:
            return 1
        longest = max(map(len, prompt.condition.range.candidates))
        return 1 + longest + self.thinking.get(prompt.condition.defense, 0)

    async def answered(self, client: Any, prompt: Prompt, key: str) -> tuple[Array | None, Record]:
        tree = self._tree(prompt)
        sent = self.sent_prompt(prompt)
        # 1. the lists along the answer
        answers = [await self._listed(client, prompt, sent)]
        listings: dict[TokenPath, Listing] = {}
        node: TokenPath = ()
        for token, listing in answers[0].lists or ():
            listings[node] = listing
            node = (*node, token)
        # 2. those behind other beginnings of scores
        if self.spec.framed:
            tree = tree.given(listings[()].logprobs) if listings else tree
        while not self.spec.framed and (nodes := unread(tree, listings, self.spec.follow_above)):
            asked = []
            for node in nodes:
                path = self.node_tokens[prompt.condition.range][node]
                tokens: Any = (*(sent.tokens or ()), *path)
                longer = replace(sent, tokens=tokens, count=len(tokens))
                asked.append(self._listed(client, prompt, longer, node))
            for node, answer in zip(nodes, await asyncio.gather(*asked), strict=True):
                answers.append(answer)
                listings[node] = answer.lists[0][1] if answer.lists else Listing({})
        # 3. the candidates; where the answer ends at once nothing is known, nor reckoned with
        read = candidate_bounds(tree, listings)
        if not listings:
            read = replace(read, value=np.zeros_like(read.value))
        with np.errstate(divide="ignore"):
            logs = np.log(np.concatenate([read.value, read.lower, read.upper])).astype(np.float32)
        record = _record(answers)
        if prompt.condition.defense in self.thinking:
            record["text"] = answers[0].text
        record |= {
            "unlisted": round(read.unlisted, 9),
            "bounded": read.bounded,
            "undecided": read.undecided,
        }
        return logs, record

    async def _listed(
        self,
        client: Any,
        prompt: Prompt,
        sent: RequestPrompt,
        node: TokenPath = (),
        listed: int | None = None,
    ) -> Answer:
        """One list of what follows a prompt, as long as it takes where the server gives any
        length."""
        spec = self.spec
        tree = self._tree(prompt)
        listed = listed or spec.top_logprobs
        named: Any = tree.children[node] if spec.numbered else []
        # 1. ask
        if spec.explicit == "vllm" and len(named) > _MOST_NAMED:
            raise UserError(
                f"judge.explicit: {len(named)} tokens go on towards a score in "
                f"{prompt.condition}, and vLLM takes {_MOST_NAMED} at once; choose fewer scores, "
                "or judge.explicit=null."
            )
        answer = await self._send(
            client,
            sent,
            self._max_tokens(prompt),
            listed=listed,
            tokens=named,
            seed=spec.seed,
        )
        lists = answer.lists
        if answer.refused is not None:
            return replace(answer, lists=[])
        if lists is None:
            raise UserError(
                f"{spec.role}.scores_from: {spec.where} gives no log-probabilities with its "
                "answers; take judge.scores_from=samples (shares of several answers) or "
                "judge.scores_from=text (one answer)."
            )
        # 2. those of the score
        if spec.framed:
            thinking = prompt.condition.defense in self.thinking
            at = rating_place([str(token) for token, _ in lists], thinking)
            lists = [] if at is None else lists[at:]
        logprobs = lists[0][1].logprobs if lists else {}
        lacking = set(named).difference(logprobs)
        if lacking and spec.explicit != "llama_cpp":
            raise UserError(
                f"judge.explicit: {spec.where} does not list the tokens that it was asked for "
                f"({len(lacking)} of {len(named)} lack), so it is not a vLLM that can; "
                "take judge.explicit=null."
            )
        # 3. a longer list, if candidates may stand behind its end
        longer = bool(lists) and listed <= len(logprobs) and listed < MOST_LISTED
        if spec.explicit == "llama_cpp" and longer and tree.lacks(node, logprobs):
            return await self._listed(client, prompt, sent, node, listed * _WIDER)
        return replace(answer, lists=lists)


@dataclass
class AnswerPass(ApiPass):
    """Free answers: one a prompt, or several that are drawn, each with a key of its own, so that
    more can be drawn later."""

    count: int = 1
    max_tokens: int = 16
    _draws: dict[str, int] = field(default_factory=dict, init=False)

    def keys(self, prompt: Prompt) -> list[str]:
        keys = []
        for draw in range(self.count):
            key = self.address(prompt, most=self.max_tokens, seed=self._seed(draw), draw=draw)
            keys.append(key)
            self._draws[key] = draw
        return keys

    def expected(self, prompt: Prompt, key: str | None = None) -> tuple[Request, int]:
        seed = None if key is None else self._seed(self._draws[key])
        return request(self.spec, self.sent_prompt(prompt), self.max_tokens, seed=seed), 0

    def _seed(self, draw: int) -> int | None:
        return None if self.spec.seed is None else self.spec.seed + draw

    async def answered(self, client: Any, prompt: Prompt, key: str) -> tuple[Array | None, Record]:
        answer = await self._send(
            client, self.sent_prompt(prompt), self.max_tokens, seed=self._seed(self._draws[key])
        )
        return None, _record([answer]) | {"text": answer.text}


def unstacked(reading: ModelReading) -> tuple[Array, Array, Array]:
    """[candidates] each, log: what is reckoned with, the lower and the upper bound."""
    assert reading.logprobs is not None
    value, lower, upper = reading.logprobs.reshape(3, -1)
    return value, lower, upper


def answer_record(reading: ModelReading) -> Record:
    """The record of a reading besides its numbers, see `_record`."""
    record: Record = parse_json(reading.text or "{}", "store: an answer", limits=_STORED)
    return record


def _record(answers: Sequence[Answer]) -> Record:
    counts = [astuple(answer.usage) for answer in answers if answer.usage is not None]
    first = answers[0]
    record = {
        "requests": len(answers),
        "model": first.model,
        "fingerprint": first.fingerprint,
        "usage": np.sum(counts, axis=0).tolist() if counts else None,
    }
    return record if first.refused is None else record | {"refused": first.refused}


def endpoint_paths(
    spec: ApiSpec, ranges: Iterable[ScoreRange]
) -> tuple[dict[ScoreRange, PathTree], dict[ScoreRange, dict[TokenPath, TokenPath]]]:
    """Score range -> the paths that write its candidates, as the endpoint's lists name tokens; and
    -> inner node -> the numbers of its tokens, where the tokenizer is known."""
    trees: dict[ScoreRange, PathTree] = {}
    numbers: dict[ScoreRange, dict[TokenPath, TokenPath]] = {}
    tokenizer = None if spec.own_tokenizer is None else spec.own_tokenizer.tokenizer()

    def named(path: Sequence[int]) -> TokenPath:
        if tokenizer is None or spec.numbered:
            return tuple(path)
        return tuple(str(tokenizer.decode([token])) for token in path)

    for score_range in ranges:
        numbers[score_range] = {}
        if tokenizer is not None:
            ways = CandidateTrie.of(tokenizer, score_range.candidates).token_paths
            by_name = [list(map(named, written)) for written in ways]
            trees[score_range] = PathTree(score_range.candidates, by_name)
            for path in chain.from_iterable(ways):
                numbers[score_range] |= {named(path[:n]): path[:n] for n in range(len(path))}
            continue
        if longest := [text for text in score_range.labels if len(text) > _MOST_CUT]:
            raise UserError(
                f"ranges: {longest[0]!r} has {len(longest[0])} characters, too many to be looked "
                "up in a server's lists of tokens; give judge.tokenizer, the model's, or "
                "judge.scores_from=samples."
            )
        trees[score_range] = PathTree.of_texts(score_range.candidates)
    return trees, numbers
