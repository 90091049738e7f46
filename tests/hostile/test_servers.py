"""Servers that lie, send too much, send on or say the key: an answer, or one sentence, and the money holds."""

import gzip
import json
import sqlite3
import time
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgebench.cards import Judge
from judgebench.judges.served.protocol import Answer, BrokenAnswer, answer_of
from judgebench.judges.served.settings import ApiSpec
from judgebench.runtime.parsing import parse_json
from judgebench.words.errors import UserError
from tests.hostile.cards import served_card, written
from tests.hostile.test_cards import mutated
from tests.served import Handler, SmallServer, answer, garbage, send

PRICE = {"input": 1.0, "output": 2.0}
KEY = "sk-planted-0123456789"
ENTRY = {"token": "4", "logprob": -0.5}
PLACE = ENTRY | {"top_logprobs": [ENTRY, {"token": "3", "logprob": -1.5}]}
GOOD = {
    "model": "small-1", "system_fingerprint": "fp_1",
    "choices": [{"message": {"role": "assistant", "content": "4"}, "logprobs": {"content": [PLACE]}}],
    "usage": {"prompt_tokens": 26, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
}  # fmt: skip


def spec_of(url: str, **more: Any) -> ApiSpec:
    """Settings for requests one after the other; a prompt has 26 tokens at 1 and one at 2 USD per million."""
    usual = {"backoff": 0.01, "retries": 1, "timeout": 20, "price": PRICE, "concurrency": 1}
    return ApiSpec(url, "m", **{**usual, **more})


def raw(data: bytes, status: int = 200, **headers: str) -> Callable[[Handler, dict[str, Any]], None]:
    """An answer of these bytes."""

    def reply(handler: Handler, seen: dict[str, Any]) -> None:
        handler.send_response(status)
        for name, value in {"Content_Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def good(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def bomb(megabytes: int) -> bytes:
    """Spaces, a thousandth as many bytes."""
    return gzip.compress(b" " * (megabytes * 2**20))


BROKEN = {
    "64 MB out of 64 kB": raw(bomb(64), Content_Encoding="gzip"),
    "more than there may be": raw(b" " * 2**23),
    "another compression": raw(good(), Content_Encoding="br"),
    "half of gzip": raw(gzip.compress(good())[:-60], Content_Encoding="gzip"),
    "10**400": raw(good(usage={}).replace(b'"usage": {}', b'"usage": {"prompt_tokens": 1' + b"0" * 400 + b"}")),
    "1e999": raw(good().replace(b"-1.5", b"-1e999")),
    "nested 100,000 deep": raw(b"[" * 100_000 + b"]" * 100_000),
    "half a surrogate": raw(good().replace(b'"content": "4"', b'"content": "4\\ud800"')),
    "a text that is a list": raw(good(choices=[{"message": {"content": [{"type": "text"}]}}])),
    "shares that sum to 4": raw(good().replace(b"-0.5", b"0").replace(b"-1.5", b"0")),
    "-5 tokens": raw(good(usage={"prompt_tokens": -5, "completion_tokens": 1})),
    "a million million tokens": raw(good(usage={"prompt_tokens": 5, "completion_tokens": 10**12})),
    "-1 cached tokens": raw(good(usage={"prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": -1})),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_cannot_be_is_tried_again_and_told(small_server, name):
    small_server.otherwise = BROKEN[name]
    began = time.monotonic()
    (error,), account = send(spec_of(small_server.url))
    assert isinstance(error, UserError)
    assert str(error).startswith(f"judge.url={small_server.url}: ")
    assert len(str(error)) < 1000
    assert account.failures == {"broken answer": 2}
    # a server may bill what it has answered: the estimate of both tries stands
    assert (account.cost, account.unconfirmed) == (0, pytest.approx(2 * 28e-6))
    assert time.monotonic() - began < 20


def test_an_answer_that_is_compressed_as_asked_is_read(small_server):
    for coding, data in {"gzip": gzip.compress(good()), "deflate": zlib.compress(good()), "identity": good()}.items():
        small_server.otherwise = raw(data, Content_Encoding=coding)
        (found,), _ = send(spec_of(small_server.url))
        assert found.text == "4"
    assert small_server.seen[0]["headers"]["accept-encoding"] == "gzip, deflate"


def test_no_more_is_inflated_than_an_answer_may_have(small_server):
    small_server.otherwise = raw(bomb(64), Content_Encoding="gzip")
    tracemalloc.start()
    found, _ = send(spec_of(small_server.url, retries=0, concurrency=8), count=8)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all("its answer has more than 4 MiB" in str(error) for error in found)
    assert most < 100 * 2**20, "4 MiB for each of 8, and what was sent"


def test_bytes_behind_an_answer_are_no_answer_to_another_text(small_server):
    data, other = good(), good(model="another-text's")
    second = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(other) + other

    def two_answers(handler: Handler, seen: dict[str, Any]) -> None:
        raw(data + second, Content_Length=str(len(data)))(handler, seen)

    small_server.otherwise = raw(data, Set_Cookie="who=you; Path=/")
    small_server.replies = [two_answers]
    (broken, *rest), account = send(spec_of(small_server.url, retries=0), count=4)
    assert "it has sent more bytes than its answer says that it has" in str(broken)
    assert [found.model for found in rest] == ["small-1"] * 3
    assert account.failures == {"broken answer": 1}
    assert [seen["headers"].get("cookie") for seen in small_server.seen] == [None] * 4, "no cookie is sent back"
    ports = [seen["port"] for seen in small_server.seen]
    assert len(set(ports)) == 2, "a good connection carries further requests"


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -(10**6)}, {}, None,
                                   {"prompt_tokens": 26, "completion_tokens": 0}, {"prompt_tokens": 26}])  # fmt: skip
def test_max_cost_holds_whatever_the_server_counts(small_server, usage):
    small_server.otherwise = raw(good(usage=usage))
    found, account = send(spec_of(small_server.url, max_cost=10.5 * 28e-6), count=36)
    assert len(small_server.seen) == 10
    assert account.cost + account.unconfirmed == pytest.approx(10 * 28e-6)
    assert "judge.max_cost" in str(found[-1])


def test_texts_follow_no_redirect(small_server, monkeypatch):
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    other = SmallServer()
    host = f"{KEY}@127.0.0.1:{other.server_address[1]}"
    addresses = (f"http://{host}/v1/chat/completions", f"//{host}/", "/elsewhere", "", "http://[x")
    for status, there in zip((301, 302, 303, 307, 308), addresses, strict=True):
        small_server.otherwise = raw(b"{}", status, Location=there)
        (error,), _ = send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))
        assert f"(HTTP {status}), and the texts may not go there without your consent" in str(error)
        assert KEY not in str(error)
    assert (len(small_server.seen), other.seen) == (5, [])
    other.server_close()


def test_any_retry_after_is_a_wait_or_nothing(small_server):
    began = time.monotonic()
    for value in (
        *("Mon, 01 Jan 100000000000000000000 00:00:00 GMT", "Mon, 01 Jan 10000 00:00:00 GMT", "1e999", "nan", "-5"),
        *("9" * 5000, "soon", ""),
    ):
        small_server.otherwise = raw(b"{}", 429, Retry_After=value)
        (error,), _ = send(spec_of(small_server.url))
        assert isinstance(error, UserError)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "key", ["sk-planted\n0123456789", "sk planted", "sk-plantéd", "sk-\x1b[31mplanted", "sk-\x7f", "\u200bsk"]
)
def test_a_key_that_can_be_none_is_refused_and_not_shown(small_server, monkeypatch, key):
    monkeypatch.setenv("MY_JUDGE_KEY", key)
    with pytest.raises(UserError, match=r"environment variable MY_JUDGE_KEY holds cannot be a key") as told:
        send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))
    assert "plant" not in str(told.value)
    assert not small_server.seen
    monkeypatch.setenv("MY_JUDGE_KEY", f" {KEY}\n")  # an editor's line end is none of the key
    send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))
    assert small_server.seen[0]["headers"]["authorization"] == f"Bearer {KEY}"


def test_a_key_that_an_answer_repeats_is_stored_nowhere(small_server, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    place = {"token": "4", "logprob": -0.5, "top_logprobs": [{"token": KEY, "logprob": -1.5}]}
    choice = {"message": {"content": f"4 {KEY}"}, "logprobs": {"content": [place]}}
    escaped = json.dumps({**GOOD, "choices": [choice], "model": KEY, "system_fingerprint": f"fp {KEY}"})
    escaped = escaped.replace("sk-planted", "\\u0073k-planted")  # the key's own bytes are nowhere in the answer
    assert KEY not in escaped
    small_server.otherwise = garbage(escaped)
    for how in ("text", "logprobs"):
        content = served_card(small_server.url, scores_from=how, key_variable="MY_JUDGE_KEY")
        if how == "text":
            content["parts"]["decoding"] = {"greedy": {"_target_": "judgebench.decoding.Greedy"}}
            content["series"]["decoding"] = "greedy"
        judge = Judge.from_card(
            written(content, tmp_path), store=tmp_path / f"{how}.sqlite", judge={"key_variable": "MY_JUDGE_KEY"},
            check_models=False,
        )  # fmt: skip
        judge.score("An article.", "Its summary.")
        with sqlite3.connect(tmp_path / f"{how}.sqlite") as db:
            stored = "\n".join(db.iterdump())
        assert "***" in stored
        assert KEY not in stored
        assert KEY not in repr(judge.__dict__)
    for fault in ({"choices": [{"text": "4", "logprobs": {"content": KEY}}]}, {KEY: KEY}, {"choices": {KEY: 1}}):
        small_server.otherwise = garbage(json.dumps(fault))
        (error,), _ = send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))
        assert KEY not in str(error)


def test_a_broken_answer_does_not_stay_in_the_store(small_server, tmp_path):
    content = served_card(small_server.url, scores_from="text", retries=0)
    content["parts"]["decoding"] = {"greedy": {"_target_": "judgebench.decoding.Greedy"}}
    content["series"]["decoding"] = "greedy"
    judge = Judge.from_card(written(content, tmp_path), store=tmp_path / "s.sqlite")
    small_server.otherwise = garbage('{"choices": [{"message": {"content": "4\\ud800"}}]}')
    with pytest.raises(UserError, match="surrogates not allowed"):
        judge.score("An article.", "Its summary.")
    small_server.otherwise = answer("4")
    assert judge.score("An article.", "Its summary.").score == 4


def fuzzed(data: st.DataObject) -> Any:
    """A good answer of which something is otherwise."""
    content = json.loads(json.dumps(GOOD))
    if data.draw(st.booleans()):
        content["choices"][0] = {
            "text": "4",
            "logprobs": {"tokens": ["4"], "token_logprobs": [-0.5], "top_logprobs": [{"4": -0.5, "3": None}]},
        }
    return mutated(content, data, data.draw(st.integers(1, 4)))


def checked(found: Answer) -> None:
    """Whether an answer is one that can be reckoned with."""
    assert type(found.text) is str
    found.text.encode()
    for _, listing in found.lists or ():
        assert all(value <= 0 for value in listing.logprobs.values())
        assert 0 <= listing.unlisted <= 1
    if found.usage is not None:
        assert all(type(value) is int and value >= 0 for value in vars(found.usage).values())
        assert found.usage.prompt > 0


@given(data=st.data())
@settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_json_is_an_answer_or_broken(data):
    text = json.dumps(fuzzed(data))
    try:
        found = answer_of(parse_json(text, "its answer"), data.draw(st.booleans()))
    except (UserError, BrokenAnswer):
        return
    checked(found)


@given(data=st.data())
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_a_server_sends_is_an_answer_or_one_sentence(small_server, data):
    body = json.dumps(fuzzed(data)).encode()
    if data.draw(st.booleans()):
        body = data.draw(st.binary(max_size=30) | st.just(body[: len(body) // 2]) | st.just(gzip.compress(body)))
    code = data.draw(st.sampled_from([200, 200, 200, 201, 204, 206, 307, 400, 404, 418, 429, 500, 599]))
    known = [("Content-Encoding", "gzip"), ("Content-Type", "text/html; charset=x"), ("Retry-After", "0")]
    headers = dict(data.draw(st.lists(st.sampled_from([*known, ("Location", "http://[x")]), max_size=2)))
    small_server.otherwise = raw(body, code, **headers)
    (found,), _ = send(spec_of(small_server.url, retries=0))
    if not isinstance(found, UserError):
        checked(found)
