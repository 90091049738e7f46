"""Batch APIs, at half the price within a day: requests that a provider takes together and answers
later, each with the key of its reading. What was submitted is noted in a folder beside the store,
before and after: a killed command neither pays twice nor loses a batch."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from judgebench.judges.served.client import Client, Unclear
from judgebench.judges.served.passes import ApiPass, outer_loop_paused
from judgebench.judges.served.protocol import (
    Answer,
    BrokenAnswer,
    Request,
    answer_of,
    is_filtered,
    may_pass,
)
from judgebench.readings.claims import batch_name, holders_of, notes_of
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.files import Held, atomic, locked
from judgebench.runtime.parsing import parse_json, read_bytes
from judgebench.runtime.progress import Progressing
from judgebench.types import Record
from judgebench.words.errors import ComeBack, UserError
from judgebench.words.terminal import print_safely

_LONGEST_PAUSE = 60.0
"""Seconds between two looks at a batch."""
_SETTLED = 60.0
"""Seconds after which a batch that was submitted stands in its provider's list, if it arrived."""
_EARLIER = 3600.0
"""Seconds before its note at which a batch without a name may have been made, by the provider's
clock."""
_PASSING_TYPES = (None, "api_error", "overloaded_error", "rate_limit_error", "timeout_error")
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
"""Errors of reading an answer that is not what the protocol has."""
_LARGEST_NOTE = 2**28
_TWO_ANSWERS = "the results hold two different answers to it"
_NO_ANSWER = "no answer came back"
Result = TypeVar("Result")


@dataclass
class Note:
    """A batch that was submitted, or is about to be.

    Attributes:
        name: by which it is found at the provider.
        id: the provider's; None until it has answered.
        made: seconds since 1970.
        keys: of the readings that its requests are for, and that no answer is stored of.
        cost: USD that it was expected to cost at most.
        tries: times that some of its requests have failed in a batch before.
        refused: key -> reason, of the requests that failed for good.
        guessed: `id` was found by time and size alone.
        foreign: ids that were found so, and are of others' batches.
    """

    name: str
    id: str | None
    made: float
    url: str
    model: str
    keys: list[str]
    cost: float
    tries: int
    refused: dict[str, str] = field(default_factory=dict)
    guessed: bool = False
    foreign: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Note:
        """The note in a file; `UserError` where it is damaged."""
        remedy = (
            "it notes a batch that is paid for, so restore it; to give up its answers and to pay "
            "for its requests again, remove it and give the same command again"
        )
        content = parse_json(
            read_bytes(path, f"judge.batch: {path}", _LARGEST_NOTE, remedy),
            f"judge.batch: {path}",
            remedy=remedy,
        )
        try:
            mark = content.pop("checksum", None)
            note = cls(**content)
        except _MALFORMED:
            raise damaged(path, "it is not a note of a batch", remedy) from None
        if note.name != path.stem or mark != _checksum(content):
            raise damaged(path, "it does not match its checksum or its name", remedy)
        return note

    def save(self, folder: Path) -> None:
        content = asdict(self)
        content["checksum"] = _checksum(content)
        with atomic(folder / f"{self.name}.json") as temporary:
            temporary.write_text(json.dumps(content), "utf-8")


def damaged(path: Path, reason: str, remedy: str) -> UserError:
    return UserError(f"judge.batch: {path} is damaged ({reason}); {remedy}.")


def _checksum(content: Record) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Look:
    """The state of a batch.

    Attributes:
        over: nothing more comes.
        done: requests that are over.
        answered: requests that the provider says it has answered.
        record: all that it says.
        failure: the reason why none was carried out, if so.
    """

    over: bool
    done: int
    answered: int
    record: Record
    failure: str | None = None


class BatchOutcome(NamedTuple):
    """A line of a batch's results.

    Attributes:
        key: of the reading; anything else where the line is not what the protocol has.
        payload: the answer; None where the request failed.
        reason: of the failure.
        passing: another try may succeed.
    """

    key: Any
    payload: Any
    reason: str
    passing: bool

    @property
    def content(self) -> str:
        """The answer or the reason, without ids, times and counts, so that equal answers are
        equal."""
        if not isinstance(self.payload, dict):
            return self.reason
        said = {
            name: value
            for name, value in self.payload.items()
            if name not in ("id", "created", "usage")
        }
        return json.dumps(said, sort_keys=True)


class OpenAIBatches:
    """OpenAI's: a file of requests is uploaded, and files of answers and of errors come back."""

    most = 50_000
    most_bytes = 190_000_000
    address = "/batches"
    cursor = "after"
    named: ClassVar[bool] = True

    def __init__(self, client: Client):
        self._client = client

    async def _json(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        answer = await self._client.call(method, path, content, kind)
        try:
            return self._client.parsed(answer)
        except UserError as error:
            raise Unclear(error) from None

    def row(self, key: str, request: Request) -> Record:
        return {
            "custom_id": key,
            "method": "POST",
            "url": f"/v1{request.path}",
            "body": request.body,
        }

    async def submit(self, name: str, rows: Sequence[bytes]) -> str:
        """Sends the requests; gives the batch's id."""
        lines = ("requests.jsonl", b"\n".join(rows), "application/jsonl")
        form = httpx.Request(
            "POST", "http://form", data={"purpose": "batch"}, files={"file": lines}
        )
        file = await self._json("POST", "/files", form.read(), form.headers["Content-Type"])
        made = {
            "input_file_id": file["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"judgebench": name},
        }
        batch = await self._json("POST", self.address, made)
        return str(batch["id"])

    async def listed(self) -> AsyncIterator[Record]:
        """All batches of the account, page after page, each once."""
        seen: set[str] = set()
        after = ""
        while True:
            page = await self._json("GET", f"{self.address}?limit=100{after}")
            new = {str(row["id"]): row for row in page["data"] if str(row["id"]) not in seen}
            for row in new.values():
                yield row
            if not page.get("has_more"):
                return
            if not new:
                raise ValueError("its list of batches has no end, and repeats itself")
            seen.update(new)
            after = f"&{self.cursor}={quote(str(page['data'][-1]['id']), safe='')}"

    async def find(self, note: Note, known: set[str]) -> str | None:
        """The id of a batch whose submission was not answered; None where there is no such."""
        async for row in self.listed():
            if (row.get("metadata") or {}).get("judgebench") == note.name:
                return str(row["id"])
        return None

    async def look(self, number: str) -> Look:
        record = await self._json("GET", f"{self.address}/{number}")
        status = record["status"]
        counts = record.get("request_counts") or {}
        answered = counts.get("completed", 0)
        done = answered + counts.get("failed", 0)
        failure = None
        if status == "failed":
            errors = record.get("errors") or {}
            first = (errors.get("data") or [{}])[0]
            failure = str(first.get("message"))
        over = status in ("completed", "expired", "cancelled", "failed")
        return Look(over, done, answered, record, failure)

    async def outcomes(self, look: Look) -> list[BatchOutcome]:
        names = [look.record.get("output_file_id"), look.record.get("error_file_id")]
        return await self._lines(*(f"/files/{name}/content" for name in names if name))

    async def _lines(self, *paths: str) -> list[BatchOutcome]:
        """The outcomes in files of results, a line each."""
        outcomes = []
        for path in paths:
            content = await self._client.call("GET", path)
            outcomes += [self._outcome(line) for line in content.splitlines() if line.strip()]
        return outcomes

    def _outcome(self, line: bytes) -> BatchOutcome:
        """The outcome in a line of results; one that cannot be read has no key."""
        try:
            return self.outcome(self._client.parsed(line))
        except (UserError, *_MALFORMED):
            return BatchOutcome(None, None, "a line of its results cannot be read", False)

    def outcome(self, row: Any) -> BatchOutcome:
        response = row.get("response") or {}
        code = response.get("status_code")
        body = response.get("body") or {}
        error = row.get("error") or {}
        why = (body.get("error") or {}).get("message") or error.get("message") or f"HTTP {code}"
        passing = code is None or may_pass(code)
        answered = code == 200 or is_filtered(body)
        return BatchOutcome(row["custom_id"], body if answered else None, str(why), passing)


class AnthropicBatches(OpenAIBatches):
    """Anthropic's Message Batches, which have no names: one is found by its time and size."""

    most = 100_000
    most_bytes = 240_000_000
    address = "/messages/batches"
    cursor = "after_id"
    named = False

    def row(self, key: str, request: Request) -> Record:
        return {"custom_id": key, "params": request.body}

    async def submit(self, name: str, rows: Sequence[bytes]) -> str:
        body = b'{"requests": [' + b",".join(rows) + b"]}"
        return str((await self._json("POST", self.address, body))["id"])

    async def find(self, note: Note, known: set[str]) -> str | None:
        from datetime import datetime

        nearest: dict[float, str] = {}
        # of a note from a clock that was ahead it is not known when it was made
        earliest = -_EARLIER if note.made <= time.time() else -math.inf
        async for row in self.listed():
            since = datetime.fromisoformat(row["created_at"]).timestamp() - note.made
            size = sum(row["request_counts"].values())
            if row["id"] not in known and since > earliest and size == len(note.keys):
                nearest[abs(since)] = str(row["id"])
        return nearest[min(nearest)] if nearest else None

    async def look(self, number: str) -> Look:
        record = await self._json("GET", f"{self.address}/{number}")
        counts = record["request_counts"]
        done = sum(counts.values()) - counts["processing"]
        return Look(
            record["processing_status"] == "ended", done, counts.get("succeeded", 0), record
        )

    async def outcomes(self, look: Look) -> list[BatchOutcome]:
        return await self._lines(f"{self.address}/{look.record['id']}/results")

    def outcome(self, row: Any) -> BatchOutcome:
        result = row["result"]
        error = (result.get("error") or {}).get("error") or {}
        why = error.get("message") or result["type"]
        return BatchOutcome(
            row["custom_id"], result.get("message"), str(why), error.get("type") in _PASSING_TYPES
        )


def _outcome_of(lines: Sequence[BatchOutcome], key: str, look: Look) -> BatchOutcome:
    """The one outcome of a request, by the lines of results that name it."""
    if not lines:
        return BatchOutcome(key, None, look.failure or _NO_ANSWER, look.failure is None)
    if len({line.content for line in lines}) > 1:
        return BatchOutcome(key, None, _TWO_ANSWERS, False)
    return lines[0]


_PROVIDERS = {"chat": OpenAIBatches, "anthropic": AnthropicBatches}


class _Given:
    """Stands for a client, of whom one answer is known."""

    def __init__(self, answer: Answer):
        self._answer = answer

    async def send(self, request: Request, order: Sequence[int] = ()) -> Answer:
        return self._answer


@dataclass
class Standing:
    """The state of the missing readings of all passes.

    Attributes:
        missing: those that may come.
        done: of these, those that the provider says are done.
        batches: number of those under way.
        elsewhere: key -> holder, of those that other commands ask for now.
        refused: key -> reason, of those whose requests failed for good.
    """

    missing: int = 0
    done: int = 0
    batches: int = 0
    elsewhere: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class BatchedPass:
    """A pass whose requests go in batches."""

    def __init__(self, pass_: ApiPass, folder: Path):
        self._pass = pass_
        self._folder = folder
        self._spec = pass_.spec
        self._account = pass_.account
        self._bill = pass_.bill
        self._store = pass_.store
        self._client = Client(self._spec, self._bill, self._account)
        self._provider = _PROVIDERS[self._spec.protocol](self._client)
        self._wanted = {key: prompt for prompt in pass_.prompts for key in pass_.keys(prompt)}
        self._held: dict[str, float] = {}
        self._tries: dict[str, int] = {}

    async def close(self) -> None:
        await self._client.close()

    def forgive(self) -> None:
        """Forgets which requests were refused, so that they are sent again."""
        for note in self._notes():
            note.refused = {
                key: why for key, why in note.refused.items() if key not in self._wanted
            }
            self._keep(note)

    async def step(self, standing: Standing) -> None:
        """Stores what is answered and submits what was not, and says how far this pass is.
        `UserError` where the provider cannot be trusted or the money does not suffice."""
        missing = self._store.missing(self._wanted)
        away: set[str] = set()
        notes = self._notes()
        for note in notes:
            # 1. what is under way beside this store counts together, others' too
            self._hold(note.name, note.cost)
            if not missing.isdisjoint(note.keys):
                # 2. answers
                look = await self._looked(note, {other.id for other in notes if other.id})
                if look is not None and look.over:
                    await self._collect(note, look)
                elif look is not None:
                    standing.done += look.done
                    standing.batches += 1
                away |= missing.intersection(note.keys)
            standing.refused |= {key: why for key, why in note.refused.items() if key in missing}
        # 3. what nobody has been asked for
        missing = self._store.missing(self._wanted).difference(standing.refused)
        standing.missing += len(missing)
        asked = [key for key in self._wanted if key in missing and key not in away]
        await self._submit(asked, standing)

    def _notes(self) -> list[Note]:
        notes = []
        for path in sorted(self._folder.glob("*.json")):
            note = Note.load(path)
            if (note.url, note.model) == (self._spec.url, self._spec.model):
                notes.append(note)
            elif not self._wanted.keys().isdisjoint(note.keys):  # keys are made of both
                raise damaged(
                    path,
                    "its keys are of another judge",
                    f"see what became of batch {note.id}, and mend it",
                )
        return notes

    def _path(self, note: Note) -> Path:
        return self._folder / f"{note.name}.json"

    async def _trusted(self, asked: Coroutine[Any, Any, Result]) -> Result:
        """The provider's answer; `Unclear` where it is not what the protocol has."""
        try:
            return await asked
        except _MALFORMED as error:
            where = f"{self._spec.role}.url={self._spec.url}"
            raise Unclear(
                f"{where}: its answer about a batch is not what the protocol has ({error!r})."
            ) from None

    def _hold(self, name: str, amount: float) -> None:
        self._bill.hold(amount - self._held.get(name, 0.0))
        self._held[name] = amount

    def _keep(self, note: Note) -> None:
        """Saves a note of which something is still to be known, and removes any other."""
        self._store.claim(note.keys, note.name)
        if note.keys or note.refused:
            note.save(self._folder)
        else:
            self._hold(note.name, 0.0)
            self._path(note).unlink(missing_ok=True)

    async def _looked(self, note: Note, known: set[str]) -> Look | None:
        """The state of a batch; None where it has never arrived, or is found to be another's:
        `keys` are empty then, or it is looked for again."""
        try:
            if note.id is None and not await self._found(note, known):
                note.keys = []
                self._keep(note)
                return None
            return await self._trusted(self._provider.look(str(note.id)))
        except UserError as error:
            raise self._located(note, error) from None

    def _located(self, note: Note, error: UserError | str) -> UserError:
        return UserError(
            f"{str(error).rstrip('.')}. Batch {note.id or note.name} is noted in "
            f"{self._path(note)}: the same command looks again. Where the provider has lost the "
            "batch, remove that file; its requests are then sent, and paid for, again."
        )

    async def _found(self, note: Note, known: set[str]) -> bool:
        """Looks for a batch whose submission was cut off: did it arrive?"""
        rest = min(_SETTLED, note.made + _SETTLED - time.time())
        for wait in (0.0, max(0.0, rest)):
            if wait:
                print_safely(
                    f"judgebench: judge.batch: {self._spec.where} does not list batch {note.name}, "
                    f"whose submission was cut off; looking again in {math.ceil(wait)} s.",
                    error=True,
                )
            await asyncio.sleep(wait)
            note.id = await self._trusted(self._provider.find(note, known.union(note.foreign)))
            if note.id is not None:
                note.guessed = not self._provider.named
                note.save(self._folder)
                return True
        return False

    async def _collect(self, note: Note, look: Look) -> None:
        """Stores the answers of a batch that is over; its note stays while something of it is
        missing or refused."""
        # 1. lines of results by key
        try:
            outcomes = [] if look.failure else await self._trusted(self._provider.outcomes(look))
        except UserError as error:
            raise self._located(note, error) from None
        lines: dict[str, list[BatchOutcome]] = defaultdict(list)
        for outcome in outcomes:
            if isinstance(outcome.key, str):
                lines[outcome.key].append(outcome)
        if note.guessed and lines and lines.keys().isdisjoint(note.keys):
            note.foreign.append(str(note.id))
            note.id = None
            note.save(self._folder)
            return
        # 2. answers that were given, and are not among the results
        missing = self._store.missing(note.keys)
        lost = [key for key in note.keys if key in missing and key not in lines]
        submitted = {*note.keys, *note.refused, *(lines.keys() - self._store.missing(lines))}
        strays = [
            outcome
            for outcome in outcomes
            if not isinstance(outcome.key, str) or outcome.key not in submitted
        ]
        answered = sum(
            any(line.payload is not None for line in lines[key]) for key in submitted & lines.keys()
        )
        hidden = lost if strays or answered < look.answered else []
        # 3. answers to be stored, and requests that failed
        rest = list(hidden)
        readings = []
        for key in note.keys:
            if key not in missing or key in rest:
                continue
            outcome = _outcome_of(lines[key], key, look)
            if outcome.payload is not None and key not in self._wanted:
                rest.append(key)  # another command's
                continue
            try:
                if outcome.payload is not None:
                    readings.append(await self._reading(note, outcome))
            except BrokenAnswer as error:
                outcome = BatchOutcome(key, None, str(error), False)
            if outcome.payload is None:
                self._failed(note, outcome)
        # 4. store
        self._store.put(readings)
        note.keys = rest
        note.guessed = False
        note.cost = 0.0
        self._hold(note.name, 0.0)
        self._keep(note)
        if hidden:
            shown = f" and hold a line for {strays[0].key!r:.60}," if strays else ""
            raise self._located(
                note,
                f"{self._spec.role}.url={self._spec.url}: the results of batch {note.id} lack "
                f"{len(hidden):,} of its requests{shown} though {look.answered:,} were answered. "
                f"{len(readings):,} answers of it are stored",
            )

    def _failed(self, note: Note, outcome: BatchOutcome) -> None:
        """Counts a failure; what may pass is tried again, what does not is noted."""
        self._account.failures["in a batch"] += 1
        self._tries[outcome.key] = note.tries + 1
        if not outcome.passing or note.tries >= self._spec.retries:
            note.refused[outcome.key] = outcome.reason

    async def _reading(self, note: Note, outcome: BatchOutcome) -> ModelReading:
        prompt = self._wanted[outcome.key]
        answer = answer_of(outcome.payload, numbered=False)
        request = self._pass.expected(prompt, outcome.key)[0]
        self._bill.settle(self._account, 0.0, request.estimate, answer.usage)
        return await self._pass.taken(prompt, outcome.key, _Given(answer), batch=note.id)

    async def _submit(self, keys: Sequence[str], standing: Standing) -> None:
        """Sends requests in as many batches as they need, when there is money for all of them."""
        asked = [(key, self._pass.expected(self._wanted[key], key)[0]) for key in keys]
        costs: dict[str, float] = {}
        try:
            for key, request in asked:
                costs[key] = self._bill.reserve(self._account, request.estimate)
        finally:
            self._bill.hold(-sum(costs.values()))
        for chunk in self._chunks(asked):
            # 1. a note, by which others know that the claims are good
            names = [key for key, _ in chunk]
            tries = max(self._tries.get(key, 0) for key in names)
            name = batch_name()
            note = Note(
                name, None, time.time(), str(self._spec.url), self._spec.model, names, 0.0, tries
            )
            note.save(self._folder)
            # 2. what no other command asks for, or has stored since
            others = self._store.claim(names, name)
            standing.elsewhere |= others
            ours = self._store.missing(names).difference(others)
            note.keys = [key for key in names if key in ours]
            note.cost = sum(costs[key] for key in note.keys)
            self._keep(note)
            if not note.keys:
                continue
            # 3. the batch
            self._hold(name, note.cost)
            try:
                note.id = await self._trusted(
                    self._provider.submit(name, [row for key, row in chunk if key in ours])
                )
            except Unclear as error:
                raise UserError(
                    f"{error} The same command looks whether the batch has arrived."
                ) from None
            except UserError:
                note.keys = []
                self._keep(note)
                raise
            note.save(self._folder)
            standing.batches += 1

    def _chunks(self, asked: Iterable[tuple[str, Request]]) -> Iterator[list[tuple[str, bytes]]]:
        chunk: list[tuple[str, bytes]] = []
        size = 0
        for key, request in asked:
            row = json.dumps(self._provider.row(key, request)).encode()
            if chunk and (
                len(chunk) == self._provider.most or size + len(row) + 1 > self._provider.most_bytes
            ):
                yield chunk
                chunk = []
                size = 0
            chunk.append((key, row))
            size += len(row) + 1
        if chunk:
            yield chunk


def notes_folder(store: Path) -> Path:
    """The folder of the notes of batches beside a store: the same by whatever path, link or working
    directory the store is named."""
    if str(store) == ":memory:":
        raise UserError(
            "judge.batch: a later command finds its batches by notes beside the store; name one, "
            "as store=outputs/readings.sqlite."
        )
    return notes_of(store)


def claim_noted(store: ReadingStore) -> None:
    """Claims what is noted as under way in batches: the store may have been made anew since."""
    if str(store.path) != ":memory:":
        for path in notes_of(store.path).glob("*.json"):
            try:
                note = Note.load(path)
            except UserError:
                if path.is_file():
                    raise
                continue  # its batch is over by now
            store.claim(note.keys, note.name)


def read_in_batches(passes: Sequence[ApiPass], shown: bool) -> bool:
    """Asks for what is missing in batches; False where nothing was. `ComeBack` where it is
    submitted, and not to be waited for; `UserError` where requests were refused, or another command
    is at work with the same batches."""
    passes = [pass_ for pass_ in passes if pass_.missing()]
    if not passes:
        return False
    spec = passes[0].spec
    folder = notes_folder(passes[0].store.path)
    with ExitStack() as stack:
        # 1. one command at a time
        stack.enter_context(outer_loop_paused())
        try:
            stack.enter_context(locked(folder))
        except Held as error:
            raise UserError(
                f"judge.batch: {error} is at work with the batches in {folder}; wait for it."
            ) from None
        runner = stack.enter_context(asyncio.Runner())
        claim_noted(passes[0].store)
        work = [BatchedPass(pass_, folder) for pass_ in passes]
        stack.callback(lambda: [runner.run(each.close()) for each in work])
        if spec.retry_refused:
            for each in work:
                each.forgive()
        # 2. look again and again
        total = sum(len(pass_.missing()) for pass_ in passes)
        most = 0
        told = False
        pause = spec.backoff
        progress = stack.enter_context(
            Progressing("Waiting for batches", total, shown and spec.batch == "wait")
        )
        while True:
            standing = Standing()
            for each in work:
                runner.run(each.step(standing))
            missing = standing.missing
            refused = standing.refused
            now = total - missing - len(refused) + standing.done
            progress.advance(max(0, now - most), passes[0].bill.spent)
            most = max(most, now)
            if refused and not missing:
                raise UserError(_refusal(spec, refused, total))
            if not missing:
                return True
            asked = ""
            if elsewhere := standing.elsewhere:
                who = "; ".join(holders_of(passes[0].store.path, elsewhere.values()).values())
                asked = f" {len(elsewhere):,} requests are under way in another command ({who})."
            if spec.batch == "submit":
                more = f" {len(refused):,} were refused." if refused else ""
                raise ComeBack(
                    f"judge.batch: {missing - len(elsewhere):,} requests are with {spec.where} in "
                    f"{standing.batches:,} batches, which takes up to a day.{more}{asked} Give the same "
                    "command again to fetch the answers; judge.batch=wait waits for them."
                )
            if asked and not told:
                print_safely(
                    f"judgebench: judge.batch:{asked} Waiting for their answers.", error=True
                )
                told = True
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause)


def _refusal(spec: Any, refused: dict[str, str], total: int) -> str:
    reason = next(iter(refused.values()))
    return (
        f"{spec.role}.url={spec.url}: {len(refused):,} of the {total:,} requests that were missing "
        f"failed for good ({reason}). All other answers are stored, and these requests are not "
        f"sent again by themselves; {spec.role}.retry_refused=true sends them again."
    )
