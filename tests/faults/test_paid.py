"""kill -9 of batches and of fleets at random moments, with providers that list over pages, repeat, expire and lie:
nothing is paid twice, and no reading is another's."""

import hashlib
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgebench.results.folder import RunFolder
from tests.faults.conftest import rows
from tests.processes import Started
from tests.served import BatchProvider, answer, hangup, running, status

QUICK = ("data=mini", "data.limit_groups=4", "ranges=[[1,5]]", "logger=none", "report=false", "metrics.resamples=20")
QUICK += (
    "metrics.levels=[dataset]",
    "human_agreement=false",
    "decoding=[greedy]",
    "judge=api",
    "judge.scores_from=text",
    "run_dir=run",
)
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


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *(("chat", 1), ("fleet", 1)),
        *(pytest.param(kind, 20, marks=pytest.mark.exhaustive) for kind in ("chat", "anthropic", "fleet")),
    ],
)
def test_nothing_is_paid_twice_and_nothing_in_silence(started, kind, count):
    kills = seed = 0
    while kills < count:
        seed += 1
        kills += fleet_with_kills(seed, started) if kind == "fleet" else batches_with_kills(seed, kind, started)
    print(f"{kind}: {kills} kills, {seed} seeds, paid twice 0, silent 0")


TWO = (*QUICK[:1], "data.limit_groups=null", *QUICK[2:])


def asked(servers: Any) -> list[str]:
    """The prompts that were sent, as often as they were."""
    return [prompt_of(seen["body"]) for seen in servers.seen if "messages" in seen["body"]]


def telling(after: float = 0.0) -> Callable[[Any, Any], None]:
    return lambda handler, seen: answer(said(prompt_of(seen["body"])), after=after)(handler, seen)


def test_two_commands_with_one_store_share_the_requests_and_pay_for_each_once(started):
    with running() as server:
        server.otherwise = telling(after=0.05)
        at = (f"judge.url={server.url}", "judge.model=small", "judge.scores_from=samples", "judge.samples=3")
        runs = [started(*TWO, *at, f"run_dir={name}") for name in ("one", "two", "three")]
        assert [run.ends() for run in runs] == [0, 0, 0], [run.said for run in runs]
        first, *others = [RunFolder.open(name).read("readings") for name in ("one", "two", "three")]
        assert [first.equals(other) for other in others] == [True, True]
        assert sorted(asked(server)) == sorted([*first["prompt"]] * 3)
    assert "under way in another command with this store (process " in "".join(run.said for run in runs)
    with sqlite3.connect("outputs/readings.sqlite") as db:
        assert db.execute("SELECT * FROM claims").fetchall() == []
    assert not Path("outputs/readings.sqlite.asking").exists()


def test_what_a_killed_command_had_under_way_is_free_at_once_and_what_a_stopped_one_has_is_not(started):
    with running() as server:
        server.otherwise = telling(after=0.3)
        at = (*QUICK, f"judge.url={server.url}", "judge.model=small")
        first = started(*at, "run_dir=one")
        first.reaches(lambda: server.under_way == 4)
        os.kill(first.pid, signal.SIGSTOP)
        held = asked(server)
        second = started(*at, "run_dir=two")
        second.reaches(lambda: "under way in another command with this store" in second.said)
        assert f"(process {first.pid} on " in second.said
        count = len(asked(server))
        time.sleep(0.8)
        assert second.code is None
        assert len(asked(server)) == count, "it waits"
        os.kill(first.pid, signal.SIGKILL)
        began = time.monotonic()
        assert second.ends() == 0, second.said
        assert time.monotonic() - began < 30
        prompts = RunFolder.open("two").read("readings")["prompt"]
        # the killed one's answers never came: only they are paid for again
        again = len(asked(server)) - len(prompts)
        assert 0 < again <= len(held) + 4
        assert set(asked(server)) == set(prompts)
    assert not Path("outputs/readings.sqlite.asking").exists()


def test_what_is_under_way_in_a_batch_is_not_asked_for_one_by_one_and_the_other_way_round(started):
    provider = BatchProvider(lambda body: said(prompt_of(body)))
    provider.looks = 1
    with running() as server:
        server.otherwise = provider
        at = (*QUICK, f"judge.url={server.url}", "judge.model=chat-small")
        batch = started(*at, "judge.batch=submit", "run_dir=batch")
        assert batch.ends() == 75, batch.said
        with sqlite3.connect("outputs/readings.sqlite") as db:
            db.execute("DROP TABLE claims")  # as where the store was lost: the note is enough
        single = started(*at, "run_dir=single")
        assert single.ends() == 2, single.said
        (note,) = Path("outputs").glob("*.batches/*.json")
        assert "requests are under way in the batch that" in single.said
        assert f"{note.resolve()} notes, and would be paid for twice; add judge.batch=wait" in single.said
        assert asked(server) == []
        waits = started(*at, "judge.batch=wait", "run_dir=single")
        assert waits.ends() == 0, waits.said
        assert set(provider.paid().values()) == {1}
        # the other way round: a batch leaves out what another command asks for
        server.otherwise = telling(after=0.5)
        slow = started(*at, "judge.max_new_tokens=17", "run_dir=single")
        slow.reaches(lambda: server.under_way == 4)
        os.kill(slow.pid, signal.SIGSTOP)
        server.otherwise = provider
        batch = started(*at, "judge.max_new_tokens=17", "judge.batch=submit", "run_dir=batch")
        assert batch.ends() == 75, batch.said
        assert f"requests are under way in another command (process {slow.pid} on " in batch.said
        os.kill(slow.pid, signal.SIGCONT)
        assert slow.ends() == 2
        waits = started(*at, "judge.max_new_tokens=17", "judge.batch=wait", "run_dir=batch")
        assert waits.ends() == 0, waits.said
        readings = RunFolder.open("batch").read("readings")
        assert readings["text"].tolist() == [said(prompt) for prompt in readings["prompt"]]
        singly = asked(server)
        submitted = [prompt_of(body) for body in list(provider.batches.values())[-1].values()]
        assert sorted([*singly, *submitted]) == sorted(readings["prompt"]), "each was paid for once"
