"""Batch APIs, at half the price within a day: requests that a provider takes together and answers
later, each with the key of its reading. What was submitted is noted in a folder beside the store,
before and after: a killed command neither pays twice nor loses a batch."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from judgebench.judges.api.client import Client, Unclear
from judgebench.judges.api.passes import ApiPass, outer_loop_paused
from judgebench.judges.api.protocol import Answer, BrokenAnswer, Request, answer_of
from judgebench.runtime.errors import ComeBack, UserError
from judgebench.runtime.files import Held, atomic, locked
from judgebench.runtime.parsing import read_bytes
from judgebench.runtime.progress import Progressing

_LONGEST_PAUSE = 60.0
"""Seconds between two looks at a batch."""
_SETTLED = 60.0
"""Seconds after which a batch that was submitted stands in its provider's list, if it arrived."""
Told = TypeVar("Told")
_PASSING = (408, 409, 425, 429)


@dataclass
class Note:
    """A batch that was submitted, or is about to be.

    Attributes:
        name: by which it is found at the provider.
        id: the provider's; None until it has answered.
        made: seconds since 1970.
        keys: of the readings that its requests are for.
        cost: USD that it was expected to cost at most.
        tries: times that some of its requests have failed in a batch before.
    """

    name: str
    id: str | None
    made: float
    url: str
    model: str
    keys: list[str]
    cost: float
    tries: int

    def save(self, folder: Path) -> None:
        with atomic(folder / f"{self.name}.json") as temporary:
            temporary.write_text(json.dumps(asdict(self)), "utf-8")


@dataclass(frozen=True)
class Look:
    """The state of a batch: whether it is over, requests done, its record, and why none of it was
    done, if so."""

    over: bool
    done: int
    record: dict[str, Any]
    failure: str | None = None


Outcome = tuple[str, Any, str, bool]
"""Key, answer or None, a word on the failure, and whether another try may succeed."""


class OpenAIBatches:
    """OpenAI's: a file of requests is uploaded, and files of answers and of errors come back."""

    most = 50_000
    most_bytes = 190_000_000

    def __init__(self, client: Client, model: str):
        self._client = client
        self._model = model

    async def _json(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        answer = await self._client.call(method, path, content, kind)
        try:
            return self._client.parsed(answer)
        except UserError as error:
            raise Unclear(error) from None

    def row(self, key: str, request: Request) -> dict[str, Any]:
        return {
            "custom_id": key,
            "method": "POST",
            "url": f"/v1{request.path}",
            "body": request.body,
        }

    async def submit(self, name: str, rows: Sequence[bytes]) -> str:
        """Sends the requests; gives the batch's id."""
        line = f"--{name}\r\nContent-Disposition: form-data; name="
        head = f'{line}"purpose"\r\n\r\nbatch\r\n{line}"file"; filename="requests.jsonl"\r\n'
        form = (
            f"{head}Content-Type: application/jsonl\r\n\r\n".encode()
            + b"\n".join(rows)
            + f"\r\n--{name}--".encode()
        )
        file = await self._json(
            "POST", "/files", form + b"\r\n", f"multipart/form-data; boundary={name}"
        )
        made = {
            "input_file_id": file["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
        return str(
            (await self._json("POST", "/batches", {**made, "metadata": {"judgebench": name}}))["id"]
        )

    async def find(self, note: Note, known: set[str]) -> str | None:
        """The id of a batch whose submission was not answered; None where there is no such."""
        rows = (await self._json("GET", "/batches?limit=100"))["data"]
        return next(
            (
                row["id"]
                for row in rows
                if (row.get("metadata") or {}).get("judgebench") == note.name
            ),
            None,
        )

    async def look(self, number: str) -> Look:
        record = await self._json("GET", f"/batches/{number}")
        counts = record.get("request_counts") or {}
        errors = (record.get("errors") or {}).get("data") or [{}]
        done = counts.get("completed", 0) + counts.get("failed", 0)
        over = record["status"] in ("completed", "expired", "cancelled", "failed")
        return Look(
            over,
            done,
            record,
            str(errors[0].get("message")) if record["status"] == "failed" else None,
        )

    async def outcomes(self, look: Look) -> list[Outcome]:
        found: list[Outcome] = []
        for name in filter(
            None, (look.record.get("output_file_id"), look.record.get("error_file_id"))
        ):
            for row in self._rows(await self._client.call("GET", f"/files/{name}/content")):
                response = row.get("response") or {}
                code = response.get("status_code")
                body = response.get("body") or {}
                error = row.get("error") or {}
                why = (
                    (body.get("error") or {}).get("message")
                    or error.get("message")
                    or f"HTTP {code}"
                )
                passing = code is None or code in _PASSING or code >= 500
                found.append((row["custom_id"], body if code == 200 else None, str(why), passing))
        return found

    def _rows(self, content: bytes) -> Iterator[Any]:
        return (self._client.parsed(line) for line in content.splitlines() if line.strip())


class AnthropicBatches(OpenAIBatches):
    """Anthropic's Message Batches, which have no names: one is found by its time and size."""

    most = 100_000
    most_bytes = 240_000_000

    def row(self, key: str, request: Request) -> dict[str, Any]:
        return {"custom_id": key, "params": request.body}

    async def submit(self, name: str, rows: Sequence[bytes]) -> str:
        body = b'{"requests": [' + b",".join(rows) + b"]}"
        return str((await self._json("POST", "/messages/batches", body))["id"])

    async def find(self, note: Note, known: set[str]) -> str | None:
        from datetime import datetime

        for row in (await self._json("GET", "/messages/batches?limit=100"))["data"]:
            since = datetime.fromisoformat(row["created_at"]).timestamp() - note.made
            if (
                row["id"] not in known
                and since > -_SETTLED
                and sum(row["request_counts"].values()) == len(note.keys)
            ):
                return str(row["id"])
        return None

    async def look(self, number: str) -> Look:
        record = await self._json("GET", f"/messages/batches/{number}")
        counts = record["request_counts"]
        return Look(
            record["processing_status"] == "ended",
            sum(counts.values()) - counts["processing"],
            record,
        )

    async def outcomes(self, look: Look) -> list[Outcome]:
        found: list[Outcome] = []
        for row in self._rows(
            await self._client.call("GET", f"/messages/batches/{look.record['id']}/results")
        ):
            result = row["result"]
            error = (result.get("error") or {}).get("error") or {}
            why = error.get("message") or result["type"]
            passing = error.get("type") in (
                None,
                "api_error",
                "overloaded_error",
                "rate_limit_error",
                "timeout_error",
            )
            found.append((row["custom_id"], result.get("message"), str(why), passing))
        return found


class GeminiBatches(OpenAIBatches):
    """Gemini's batches of inline requests, of at most 20 MB."""

    most = 50_000
    most_bytes = 19_000_000

    def row(self, key: str, request: Request) -> dict[str, Any]:
        return {"request": request.body, "metadata": {"key": key}}

    async def submit(self, name: str, rows: Sequence[bytes]) -> str:
        head = f'{{"batch": {{"display_name": "{name}", "input_config": {{"requests": {{"requests": ['.encode()
        body = head + b",".join(rows) + b"]}}}}"
        return str(
            (await self._json("POST", f"/models/{self._model}:batchGenerateContent", body))["name"]
        )

    async def find(self, note: Note, known: set[str]) -> str | None:
        rows = (await self._json("GET", "/batches?pageSize=100")).get("operations") or []
        return next(
            (
                row["name"]
                for row in rows
                if (row["metadata"] or {}).get("displayName") == note.name
            ),
            None,
        )

    async def look(self, number: str) -> Look:
        record = await self._json("GET", f"/{number}")
        about = record.get("metadata") or {}
        state = str(about.get("state", "")).rpartition("STATE_")[2]
        stats = about.get("batchStats") or {}
        done = int(stats.get("requestCount") or 0) - int(stats.get("pendingRequestCount") or 0)
        failure = str((record.get("error") or {}).get("message")) if state == "FAILED" else None
        return Look(state in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"), done, record, failure)

    async def outcomes(self, look: Look) -> list[Outcome]:
        rows = ((look.record.get("response") or {}).get("inlinedResponses") or {}).get(
            "inlinedResponses"
        ) or []
        return [
            (
                row["metadata"]["key"],
                row.get("response"),
                str(error.get("message")),
                error.get("code") not in (3, 400),
            )
            for row in rows
            for error in [row.get("error") or {}]
        ]


_PROVIDERS = {"chat": OpenAIBatches, "anthropic": AnthropicBatches, "gemini": GeminiBatches}


class _Given:
    """Stands for a client, of whom one answer is known."""

    stopped: ClassVar[bool] = False

    def __init__(self, answer: Answer):
        self._answer = answer

    async def send(self, request: Request, order: Sequence[int] = ()) -> Answer:
        return self._answer


class BatchedPass:
    """A pass whose requests go in batches."""

    def __init__(self, pass_: ApiPass, folder: Path):
        self._pass = pass_
        self._folder = folder
        spec = pass_.spec
        self._spec = spec
        self._account = pass_.account
        self._bill = pass_.bill
        self._store = pass_.store
        self._client = Client(spec, self._bill, self._account)
        self._provider = _PROVIDERS[spec.protocol](self._client, spec.model)
        self._wanted = {key: prompt for prompt in pass_.prompts for key in pass_.keys(prompt)}
        self._held: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self.batches = 0  # under way

    async def close(self) -> None:
        await self._client.close()

    async def step(self) -> tuple[int, int]:
        """Stores what is answered and submits what was not: readings that are still missing, and
        how many of those the provider says are done. `UserError` where a request fails for good or
        the money does not suffice."""
        missing = self._store.missing(self._wanted)
        away = set[str]()
        done = 0
        self.batches = 0
        notes = self._notes()
        for note in notes:
            # others' too: what is under way beside this store counts together
            self._hold(note.name, note.cost)
            if missing.isdisjoint(note.keys):
                continue
            if note.id is None and not await self._found(
                note, {other.id for other in notes if other.id}
            ):
                self._forget(note)
                continue
            look = await self._told(self._provider.look(str(note.id)))
            if look.over:
                await self._collect(note, look)
                continue
            away |= missing.intersection(note.keys)
            done += look.done
            self.batches += 1
        missing = self._store.missing(self._wanted)
        await self._submit([key for key in self._wanted if key in missing and key not in away])
        return len(missing), done

    def _notes(self) -> list[Note]:
        notes = []
        for path in sorted(self._folder.glob("*.json")):
            remedy = (
                "it notes a batch that is paid for; see the provider's own list before you remove "
                "it"
            )
            try:
                note = Note(**json.loads(read_bytes(path, str(path), 2**28, remedy)))
            except (ValueError, TypeError):
                raise UserError(f"judge.batch: {path} cannot be read; {remedy}.") from None
            notes += [note] if (note.url, note.model) == (self._spec.url, self._spec.model) else []
        return notes

    async def _told(self, asked: Coroutine[Any, Any, Told]) -> Told:
        """The provider's answer; `Unclear` where it is not what the protocol has."""
        try:
            return await asked
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            where = f"{self._spec.role}.url={self._spec.url}"
            raise Unclear(
                f"{where}: its answer about a batch is not what the protocol has ({error!r})."
            ) from None

    def _hold(self, name: str, amount: float) -> None:
        self._bill.hold(amount - self._held.get(name, 0.0))
        self._held[name] = amount

    def _forget(self, note: Note) -> None:
        self._hold(note.name, 0.0)
        (self._folder / f"{note.name}.json").unlink(missing_ok=True)

    async def _found(self, note: Note, known: set[str]) -> bool:
        """Looks for a batch whose submission was cut off: did it arrive?"""
        for wait in (0.0, max(0.0, note.made + _SETTLED - time.time())):
            await asyncio.sleep(wait)
            note.id = await self._told(self._provider.find(note, known))
            if note.id is not None:
                note.save(self._folder)
                return True
        return False

    async def _collect(self, note: Note, look: Look) -> None:
        """Stores the answers of a batch that is over, and forgets it once all of them are
        stored."""
        outcomes = [] if look.failure else await self._told(self._provider.outcomes(look))
        missing = self._store.missing(note.keys)
        answered = set[str]()
        refused = list[str]()
        self._tries |= dict.fromkeys(note.keys, note.tries + 1)
        readings = []
        for key, payload, why, passing in outcomes:
            if key not in missing:
                continue
            try:
                if payload is not None and (prompt := self._wanted.get(key)) is not None:
                    answer = answer_of(payload, numbered=False)
                    request = self._pass.expected(prompt, key)[0]
                    self._bill.settle(self._account, 0.0, request.estimate, answer.usage)
                    readings.append(
                        await self._pass.taken(prompt, key, _Given(answer), {"batch": note.id})
                    )
            except BrokenAnswer as error:
                payload = None
                why = str(error)
            if payload is not None:
                answered.add(key)  # or it is another command's
                continue
            self._account.failures["in a batch"] += 1
            refused += [] if passing and note.tries < self._spec.retries else [why]
        # as those of a batch that has expired
        lost = missing.difference(answered, (key for key, *_ in outcomes))
        refused += ["no answer came back"] * len(lost) if note.tries >= self._spec.retries else []
        self._store.put(readings)
        if not self._store.missing(answered):
            self._forget(note)
        self._hold(note.name, 0.0)
        if look.failure or refused:
            count = len(note.keys) if look.failure else len(refused)
            raise UserError(
                f"{self._spec.role}.url={self._spec.url}: {count:,} of the {len(note.keys):,} "
                f"requests of batch {note.id} failed for good ({look.failure or refused[0]}). "
                f"{len(readings):,} answers of it are stored."
            )

    async def _submit(self, keys: Sequence[str]) -> None:
        """Sends requests in as many batches as they need, when there is money for all of them."""
        asked = [(key, self._pass.expected(self._wanted[key], key)[0]) for key in keys]
        costs: dict[str, float] = {}
        try:
            for key, request in asked:
                costs[key] = self._bill.reserve(self._account, request.estimate)
        finally:
            self._bill.hold(-sum(costs.values()))
        for chunk in self._chunks(asked):
            names = [key for key, _ in chunk]
            name = (
                f"judgebench-{hashlib.sha256(f'{time.time()} {names}'.encode()).hexdigest()[:32]}"
            )
            note = Note(
                name, None, time.time(), str(self._spec.url), self._spec.model, names, 0.0, 0
            )
            note.cost, note.tries = (
                sum(costs[key] for key in names),
                max(self._tries.get(key, 0) for key in names),
            )
            note.save(self._folder)
            self._hold(name, note.cost)
            try:
                note.id = await self._told(self._provider.submit(name, [row for _, row in chunk]))
            except Unclear as error:
                raise UserError(
                    f"{error} The same command looks whether the batch has arrived."
                ) from None
            except UserError:
                self._forget(note)
                raise
            note.save(self._folder)
            self.batches += 1

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


def read_in_batches(passes: Sequence[ApiPass], shown: bool) -> bool:
    """Asks for what is missing in batches; False where nothing was. `ComeBack` where it is
    submitted, and not to be waited for; `UserError` where another command is at work with the same
    batches."""
    passes = [pass_ for pass_ in passes if pass_.missing()]
    if not passes:
        return False
    spec = passes[0].spec
    folder = Path(f"{passes[0].store.path}.batches")
    with ExitStack() as stack:
        stack.enter_context(outer_loop_paused())
        try:
            stack.enter_context(locked(folder))
        except Held as error:
            raise UserError(
                f"judge.batch: {error} is at work with the batches in {folder}; wait for it."
            ) from None
        runner = stack.enter_context(asyncio.Runner())
        work = [BatchedPass(pass_, folder) for pass_ in passes]
        stack.callback(lambda: [runner.run(each.close()) for each in work])
        total = sum(len(pass_.missing()) for pass_ in passes)
        told = 0
        pause = spec.backoff
        progress = stack.enter_context(
            Progressing("Waiting for batches", total, shown and spec.batch == "wait")
        )
        while True:
            states = [runner.run(each.step()) for each in work]
            missing = sum(count for count, _ in states)
            now = total - missing + sum(done for _, done in states)
            progress.advance(max(0, now - told), passes[0].bill.spent)
            told = max(told, now)
            if not missing:
                return True
            if spec.batch == "submit":
                count = sum(each.batches for each in work)
                raise ComeBack(
                    f"judge.batch: {missing:,} requests are with {spec.where} in {count:,} "
                    "batches, which takes up to a day. Give the same command again to fetch the "
                    "answers; judge.batch=wait waits for them."
                )
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause)
