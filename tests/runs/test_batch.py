"""judge.batch end to end, against a provider that follows the documented protocols of two: whole batches, commands
that are cut off, what expires or fails, money, and a planted key."""

import contextlib
import json
import re
import time
from pathlib import Path

import pytest

from judgebench.cards.card import NO_ASSISTANT, JudgeCard
from judgebench.command.score import main as score_main
from judgebench.judges.served import batch
from judgebench.results.folder import RunFolder
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError
from tests.cards.test_card import PARTS, card
from tests.conftest import read_rows, write_rows
from tests.served import BatchProvider, garbage

QUICK = ("data=mini", "data.limit_groups=2", "ranges=[[1,5]]", "logger=none", "report=false")
QUICK += ("metrics.resamples=20", "metrics.levels=[dataset]", "human_agreement=false", "decoding=[greedy]")
WAYS = {
    "chat": ("judge.model=small",),
    "anthropic": ("judge.model=anthropic-small", "judge.scores_from=text"),
}


@pytest.fixture
def provider(small_server):
    small_server.otherwise = provider = BatchProvider()
    return provider


@pytest.fixture
def run(judgebench, small_server, provider):
    """`judgebench` with a judge that is asked in batches, into the folder `run`."""

    def call(way, *arguments, code=0):
        at = ("judge=api", f"judge.url={small_server.url}", f"judge.protocol={way}", "judge.backoff=0.01", *WAYS[way])
        said = judgebench(*at, "judge.batch=wait", *QUICK, "run_dir=run", *arguments, mistaken=bool(code))
        assert said[0] == code
        return said[2] if code else said[1]

    return call


def notes():
    return sorted(Path("outputs").rglob("*.batches/*.json"))


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_brings_the_readings_that_single_requests_bring(run, provider, small_server, way):
    run(way, "judge.price={input: 2.0, cached_input: 1.0, output: 4.0}")
    readings, served = (RunFolder.open("run").read("readings"), RunFolder.open("run").read("environment")["served"])
    assert [len(requests) for requests in provider.batches.values()] == [len(readings)]
    assert served["main"]["requests"] == len(readings)
    assert (served["main"]["prompt_tokens"], served["main"]["cached_tokens"]) == (
        100 * len(readings),
        60 * len(readings),
    )
    assert served["cost"] == pytest.approx(0.5 * len(readings) * (40 * 2 + 60 * 1 + 4) / 1e6), "half the price"
    assert set(RunFolder.open("run").read("scores")["score"]) == {4.0}
    assert notes() == []
    asked = len(small_server.seen)
    run(way, "judge.batch=null")
    assert len(small_server.seen) == asked, "they have the keys of single requests"
    run(way, "judge.batch=null", "store=other.sqlite", "run_dir=single")
    single = RunFolder.open("single").read("readings")
    for column in ("prompt", "text", "main_logprobs"):
        assert single[column].tolist() == readings[column].tolist()


def test_a_command_ends_after_submission_and_the_same_command_fetches(run, provider):
    provider.looks = 2
    for _ in range(2):
        told = run("chat", "judge.batch=submit", code=75)
        assert re.search(r"\d+ requests are with http\S+ in 1 batches.*Give the same command again", told)
        assert not Path("run/scores.parquet").exists()
        assert len(notes()) == len(provider.batches) == 1
    run("chat", "judge.batch=submit")
    assert len(provider.batches) == 1
    assert notes() == []


@pytest.mark.parametrize(
    ("way", "arrived", "others"),
    [("anthropic", True, 0), ("chat", False, 0), ("chat", True, 250)],
)
def test_a_submission_that_was_cut_off_is_paid_once_and_not_lost(
    run, provider, small_server, way, arrived, others, monkeypatch
):
    monkeypatch.setattr(batch, "_SETTLED", 0.2 if arrived else 0.0)
    provider.others = others  # newer ones, on two pages and a half, each of which repeats some of the one before
    provider.again = 20
    if arrived:
        provider.cut = 1
        assert "The same command looks whether the batch has arrived" in run(way, code=2)
    else:
        small_server.replies = [provider, garbage()]  # of the file and of the batch
        assert "The same command looks" in run(way, code=2)
    assert [json.loads(note.read_text())["id"] for note in notes()] == [None]
    run(way)
    assert len(provider.batches) == 1
    assert notes() == []


def test_a_note_from_a_clock_that_is_days_ahead_is_looked_for_now(run, provider, monkeypatch):
    monkeypatch.setattr(batch, "_SETTLED", 0.3)
    provider.cut = 1
    run("anthropic", code=2)
    (path,) = notes()
    note = batch.Note.load(path)
    note.made += 3 * 86_400
    note.save(path.parent)
    began = time.monotonic()
    run("anthropic")
    assert time.monotonic() - began < 60
    assert len(provider.batches) == 1
    assert notes() == []


def test_a_batch_that_is_not_listed_yet_is_told(run, provider, small_server, monkeypatch):
    monkeypatch.setattr(batch, "_SETTLED", 0.7)
    small_server.replies = [garbage()]
    run("anthropic", code=2)
    told = run("anthropic", "judge.batch=submit", code=75)
    assert re.search(r"does not list batch judgebench-\w+, whose submission was cut off; looking again in \d s\.", told)


@pytest.mark.parametrize(("way", "fate"), [("chat", "overloaded"), ("anthropic", "expired")])
def test_what_expires_or_fails_for_now_goes_into_another_batch(run, provider, way, fate):
    provider.fate = lambda batch, number: fate if batch == 0 and number % 3 == 0 else "ok"
    run(way)
    first, second = map(len, provider.batches.values())
    assert second == -(-first // 3)
    main = RunFolder.open("run").read("environment")["served"]["main"]
    assert (main["requests"], main["failures"]) == (first, {"in a batch": second})


def test_a_batch_that_expires_whole_is_submitted_again_but_not_for_ever(run, provider):
    provider.fate = lambda batch, number: "expired"
    told = run("chat", "judge.retries=2", code=2)
    assert "failed for good (not in time)" in told
    assert len(provider.batches) == 3


def test_what_is_refused_for_good_is_a_sentence_and_sent_again_on_request(run, provider):
    provider.fate = lambda batch, number: "invalid" if number == 1 else "ok"
    told = run("anthropic", code=2)
    assert "1 of the" in told
    assert "1 of the 12 requests that were missing failed for good (invalid)" in told
    assert "All other answers are stored" in told
    first = len(provider.batches["batch_0"])
    provider.fate = lambda batch, number: "ok"
    for how in ("wait", "submit", "submit"):
        assert "judge.retry_refused=true" in run("anthropic", f"judge.batch={how}", code=2)
    assert len(provider.batches) == 1
    run("anthropic", "judge.retry_refused=true")
    assert [len(requests) for requests in provider.batches.values()] == [first, 1]
    assert notes() == []


def test_what_is_refused_again_is_asked_for_once_a_command(run, provider):
    provider.fate = lambda batch, number: "invalid" if number == 1 or batch else "ok"
    run("chat", code=2)
    for _ in range(2):
        assert "failed for good" in run("chat", "judge.retry_refused=true", code=2)
    assert [len(requests) for requests in provider.batches.values()] == [12, 1, 1]


def test_a_list_without_an_end_is_not_taken_for_one_without_the_batch(run, provider, monkeypatch):
    provider.cut = 1
    run("chat", code=2)
    whole = provider.listed
    monkeypatch.setattr(provider, "listed", lambda after, size: {"data": [{"id": "other_0"}], "has_more": True})
    assert "its list of batches has no end" in run("chat", code=2)
    monkeypatch.setattr(provider, "listed", whole)
    run("chat")
    assert len(provider.batches) == 1


def test_anothers_batch_of_the_same_size_is_found_out_and_the_own_one_taken(run, provider, monkeypatch):
    monkeypatch.setattr(batch, "_SETTLED", 0.2)
    provider.cut = 1
    run("anthropic", code=2)
    (mine,) = provider.batches.values()
    provider.made({f"another-{number}": body for number, body in enumerate(mine.values())}, {})
    (note,) = [json.loads(path.read_text()) for path in notes()]
    provider.about["batch_0"]["at"] = note["made"] + 3
    provider.about["batch_1"]["at"] = note["made"] + 1  # so that it seems to be the one
    run("anthropic")
    assert len(provider.batches) == 2
    assert notes() == []


def two_answers(lines):
    other = json.loads(json.dumps(lines[:1]).replace('"4"', '"1"'))
    return [*lines, *other, *lines[3:6]]


def test_two_answers_to_one_request_are_told_and_neither_is_stored(run, provider):
    provider.lie = two_answers
    told = run("anthropic", code=2)
    assert "1 of the 12 requests that were missing failed for good (the results hold two different answers" in told
    run("anthropic", code=2)
    assert len(provider.batches) == 1
    provider.lie = lambda lines: lines
    run("anthropic", "judge.retry_refused=true")
    assert [len(requests) for requests in provider.batches.values()] == [12, 1]
    assert set(RunFolder.open("run").read("scores")["score"]) == {4.0}


@pytest.mark.parametrize(
    ("way", "custom_id"),
    [("chat", "left out"), ("anthropic", "another")],
)
def test_an_answer_that_names_no_request_is_told_and_not_paid_again(run, provider, way, custom_id):
    if custom_id == "left out":
        provider.lie = lambda lines: lines[1:]
    else:
        provider.lie = lambda lines: [*({**line, "custom_id": custom_id} for line in lines[:1]), *lines[1:]]
    for stored in ("11 answers of it are stored", "0 answers of it are stored"):
        told = run(way, code=2)
        assert "the results of batch batch_0 lack 1 of its requests" in told
        assert "though 12 were answered" in told
        assert stored in told
    provider.lie = lambda lines: lines
    run(way)
    assert len(provider.batches) == 1
    assert notes() == []


def test_a_damaged_note_is_told_and_nothing_is_paid_again(run, provider):
    provider.looks = 2
    run("chat", "judge.batch=submit", code=75)
    (note,) = notes()
    whole = note.read_bytes()
    note.write_bytes(b'{"keys": 3}')
    told = run("chat", "judge.batch=submit", code=2)
    assert note.name in told
    assert "to pay for its requests again, remove it" in told
    note.write_bytes(whole)
    run("chat", "judge.batch=wait")
    assert len(provider.batches) == 1


def test_any_flipped_bit_of_a_note_is_noticed(tmp_path):
    note = batch.Note("judgebench-1", "batch_1", 3.5, "http://127.0.0.1:8000/v1", "m", ["ab", "cd"], 0.25, 1)
    note.save(tmp_path)
    path = tmp_path / "judgebench-1.json"
    whole = path.read_bytes()
    assert batch.Note.load(path) == note
    silent = []
    for at in range(0, 8 * len(whole), 11):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        with contextlib.suppress(UserError):
            silent.append(batch.Note.load(path))
    assert [one for one in silent if one != note] == []


def test_notes_lie_beside_the_store_whatever_it_is_called(run, provider, tmp_path, monkeypatch):
    provider.looks = 2
    here, there = tmp_path / "work", tmp_path / "there"
    for folder in (here / "outputs", there):
        folder.mkdir(exist_ok=True)
    (there / "link.sqlite").symlink_to(here / "outputs" / "readings.sqlite")
    run("chat", "judge.batch=submit", f"store={there / 'link.sqlite'}", code=75)
    (note,) = tmp_path.rglob("*.batches/*.json")
    assert note.parent == here / "outputs" / "readings.sqlite.batches"
    monkeypatch.chdir(there)
    run("chat", "judge.batch=wait", "store=../work/outputs/readings.sqlite")
    assert len(provider.batches) == 1
    assert "name one, as store=outputs/readings.sqlite" in run("chat", "store=':memory:'", code=2)


def test_all_shards_of_a_scoring_are_submitted_before_any_is_waited_for(
    provider, small_server, called, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    judge = {"_target_": "judgebench.judges.served.settings.ApiSpec", "url": small_server.url, "model": "small"}
    judge |= {"scores_from": "text", "price": {"input": 1.0, "output": 2.0}}
    prompt = {**PARTS["prompt"], "truncate": "error", "template_options": None}
    parts = {**PARTS, "judge": judge, "prompt": prompt, "assistant": dict(NO_ASSISTANT)}
    models = {"main": {"title": "small", "model": "small"}}
    made = {**vars(card()), "parts": parts, "range": ScoreRange(1, 5), "models": models}
    JudgeCard(**made).write(Path("card.yaml"))
    rows = [{"source": f"Article {i}.", "output": f"Summary {i}."} for i in range(5)]
    write_rows("texts.jsonl", rows)
    command = ("card=card.yaml", "data.path=texts.jsonl", "out=scores.jsonl", "shard=2", "+judge.batch=submit")
    code, _, err = called(score_main, *command, mistaken=True)
    assert code == 75, err
    assert "3 of 3 shards are not answered yet" in err
    assert sorted(map(len, provider.batches.values())) == [1, 2, 2]
    called(score_main, *command)  # the first look at a batch finds it over
    assert [row["score"] for row in read_rows("scores.jsonl")] == [4.0] * 5
    assert len(provider.batches) == 3


def test_nothing_is_submitted_that_could_cost_too_much(run, provider):
    told = run("chat", "judge.price={input: 100.0, output: 100.0}", "judge.max_cost=0.01", code=2)
    assert "judge.max_cost" in told
    assert provider.batches == {}
    assert notes() == []


def test_many_requests_are_several_batches(run, provider, monkeypatch):
    monkeypatch.setattr(batch.OpenAIBatches, "most", 5)
    run("chat", "judge.scores_from=samples", "judge.samples=2", "judge.temperature=1", "decoding=[expectation]")
    sizes = [len(requests) for requests in provider.batches.values()]
    assert sum(sizes) == 2 * len(RunFolder.open("run").read("readings"))
    assert max(sizes) == 5
    monkeypatch.setattr(batch.OpenAIBatches, "most_bytes", 9000)
    run("chat", "store=other.sqlite")
    assert len(provider.batches) > len(sizes) + 1


def test_the_key_goes_to_the_provider_alone(run, provider, small_server, monkeypatch):
    key = "sk-planted-4711-0815-abcdef"
    monkeypatch.setenv("PLANTED_API_KEY", key)
    provider.looks = 10
    names = {"chat": "authorization", "anthropic": "x-api-key"}
    for way, name in names.items():
        del small_server.seen[:]
        out = run(way, "judge.batch=submit", "judge.key_variable=PLANTED_API_KEY", code=75)
        assert key not in out
        assert all(key in seen["headers"][name] for seen in small_server.seen)
    assert len(notes()) == 2
    assert not [path for path in Path().rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
