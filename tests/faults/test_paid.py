"""kill -9 of batches and of fleets at random moments, with providers that list over pages, repeat, expire and lie:
nothing is paid twice, and no reading is another's."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgebench.results.folder import RunFolder
from tests.faults.conftest import Started, rows
from tests.served import BatchProvider, answer, hangup, running, status

QUICK = ("data=mini", "data.limit_groups=4", "ranges=[[1,5]]", "logger=none", "report=false", "metrics.resamples=20")
QUICK += ("metrics.levels=[dataset]", "decoding=[greedy]", "judge=api", "judge.scores_from=text", "run_dir=run")
QUICK += ("judge.backoff=0.01", "judge.longest_wait=0.1", "judge.concurrency=4")
SETTLED = {"judgebench.judges.served.batch._SETTLED": 0.3}
MOST_COMMANDS = 40


def said(prompt: str) -> str:
    """The answer to a prompt, in which its digest stands in letters."""
    digest = hashlib.sha256(prompt.encode()).digest()
    letters = "".join(chr(ord("a") + byte % 26) for byte in digest[:12])
    return f"Score: {1 + digest[0] % 5}\n\n{letters}"


def prompt_of(body: dict[str, Any]) -> str:
    return body["messages"][0]["content"]


def killed(run: Started, reached: Callable[[], bool], wait: float) -> bool:
    """kill -9 at a moment, if it comes before the end."""
    while not reached():
        if run.code is not None:
            return False
        time.sleep(0.002)
    time.sleep(wait)
    if run.code is None:
        os.kill(run.pid, signal.SIGKILL)
    return run.ends() == -signal.SIGKILL


def liar(draw: random.Random, provider: BatchProvider, contradicted: set[str]) -> Callable[[list[Any]], list[Any]]:
    """Results that are not what they should be, a few times."""
    left = draw.randrange(4)

    def lie(lines: list[Any]) -> list[Any]:
        nonlocal left
        if not left or not lines:
            return lines
        left -= 1
        at = draw.randrange(len(lines))
        others = [*lines[:at], *lines[at + 1 :]]
        name = draw.choice(["lack", "again", "junk", "stranger", "shuffled", "two answers"])
        if name == "lack":
            return others
        if name == "again":
            return [*lines, *draw.sample(lines, len(lines) // 2)]
        if name == "junk":
            junk = draw.choice(
                [[], 3, None, {"custom_id": [1]}, {**lines[at], "custom_id": draw.choice([[], 1, None])}]
            )
            return [*others, junk]
        if name == "stranger":
            return [*lines, {**lines[at], "custom_id": "another"}]
        if name == "shuffled":
            return draw.sample(lines, len(lines))
        second = json.loads(json.dumps(lines[at]).replace("Score: ", "Score: 1 or "))
        if second != lines[at]:
            contradicted.add(lines[at]["custom_id"])
        return [*lines, second]

    return lie


def flaky(draw: random.Random, provider: BatchProvider) -> Callable[[Any, Any], None]:
    """The provider, which now and then breaks off before it answers."""

    def reply(handler: Any, seen: dict[str, Any]) -> None:
        fault = draw.random()
        if seen["method"] == "GET" and fault < 0.1:
            draw.choice([hangup, status(503), status(429)])(handler, seen)
            return
        provider(handler, seen)

    return reply


def batches_with_kills(seed: int, way: str, started: Callable[..., Started]) -> int:
    """One judge in batches, killed up to three times and finished; the number of kills."""
    draw = random.Random(f"{seed} {way}")
    provider = BatchProvider(lambda body: said(prompt_of(body)))
    provider.looks, provider.cut = draw.randrange(4), draw.randrange(2)
    provider.others, provider.page, provider.again = draw.choice([0, 250]), draw.choice([7, 100]), draw.randrange(4)
    fault = draw.choice(["expired", "overloaded", "invalid"])
    provider.fate = lambda batch, number: fault if batch == 0 and number % 5 == 3 else "ok"
    contradicted: set[str] = set()
    provider.lie = liar(draw, provider, contradicted)
    kills = 0
    word: tuple[str, ...] = ()
    with running() as server:
        server.otherwise = flaky(draw, provider)
        at = (f"judge.url={server.url}", f"judge.protocol={way}", f"judge.model={way}-small")
        store = f"store={way}{seed}.sqlite"
        planned = draw.randrange(1, 4)
        for _ in range(MOST_COMMANDS):
            before = len(provider.batches)
            mode = draw.choice(["submit", "wait"])
            run = started(*QUICK, *at, store, f"judge.batch={mode}", *word, constants=SETTLED)
            if kills < planned:
                moment = len(server.seen) + draw.randrange(8)
                if killed(run, lambda moment=moment: len(server.seen) >= moment, draw.choice([0, 0.01, 0.1])):
                    kills += 1
                    continue
            code = run.ends()
            if code == 0:
                break
            assert code in (2, 75), run.said
            assert "judgebench: judge." in run.said
            assert "Traceback" not in run.said
            refused = "failed for good" in run.said
            # without the word nothing that was refused is sent again
            word = ("judge.retry_refused=true",) if refused and len(provider.batches) == before else ()
        assert code == 0, run.said
    twice = {key for key, times in provider.paid().items() if times > 1} - contradicted
    assert twice == set()
    readings = RunFolder.open("run").read("readings")
    assert readings["text"].tolist() == [said(prompt) for prompt in readings["prompt"]]
    assert [path for path in Path().glob("*.batches/*.json") if json.loads(path.read_text())["keys"]] == []
    return kills


def fleet_with_kills(seed: int, started: Callable[..., Started]) -> int:
    """Three servers, of which one is another model for a while and others fail, killed up to three times and finished;
    the number of kills."""
    draw = random.Random(seed)
    store = Path(f"fleet{seed}.sqlite")
    kills = 0

    def replying(model: str, faults: float) -> Callable[[Any, Any], None]:
        def reply(handler: Any, seen: dict[str, Any]) -> None:
            if draw.random() < faults:
                draw.choice([hangup, status(503), status(429)])(handler, seen)
                return
            answer(said(prompt_of(seen["body"])), model=model, after=0.01)(handler, seen)

        return reply

    def stored() -> dict[str, str]:
        records = [json.loads(text) for _, text, _ in rows(store).values()]
        return {record["text"]: record["model"] for record in records if "text" in record}

    with running() as one, running() as two, running() as three:
        servers = [one, two, three]
        at = (f"judge.url=[{one.url},{two.url},{three.url}]", "judge.model=small", f"store={store}")
        planned = draw.randrange(1, 4)
        for number in range(MOST_COMMANDS):
            changed = draw.randrange(6) if number < 6 else None
            for index, server in enumerate(servers):
                server.otherwise = replying("another" if index == changed else "small-1", draw.choice([0, 0.1]))
            paid = set(stored())
            seen = [len(server.seen) for server in servers]
            run = started(*QUICK, *at)
            moment = sum(seen) + draw.randrange(20)
            reached = lambda moment=moment: sum(len(server.seen) for server in servers) >= moment  # noqa: E731
            if kills < planned and killed(run, reached, draw.choice([0, 0.005, 0.02])):
                kills += 1
            code = run.ends()
            bodies = [each["body"] for server, n in zip(servers, seen, strict=True) for each in server.seen[n:]]
            asked = [prompt_of(body) for body in bodies if body]  # a killed command may send half of one
            assert paid.isdisjoint(map(said, asked)), "what is stored is not asked for again"
            assert len(set(stored().values())) <= 1, "readings of two models"
            if code == 0:
                break
            assert code in (2, -signal.SIGKILL), run.said
            assert code != 2 or "judgebench: judge.url=" in run.said
            assert "Traceback" not in run.said
            if len(set(stored().values())) == 1 and "another" in stored().values():
                store.unlink()  # it was the first to answer, alone: the sentence says to name another store
                for file in Path().glob(f"{store}-*"):
                    file.unlink()
        assert code == 0, run.said
    readings = RunFolder.open("run").read("readings")
    assert readings["text"].tolist() == [said(prompt) for prompt in readings["prompt"]]
    return kills


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", ["chat", "anthropic", "fleet"])
def test_nothing_is_paid_twice_and_nothing_in_silence(started, kind, count):
    kills = seed = 0
    while kills < count:
        seed += 1
        kills += fleet_with_kills(seed, started) if kind == "fleet" else batches_with_kills(seed, kind, started)
    print(f"{kind}: {kills} kills, {seed} seeds, paid twice 0, silent 0")
