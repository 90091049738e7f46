"""One endpoint over real HTTP: what is tried again, what is not, and what limits keep."""

import time
from email.utils import formatdate

import pytest

from judgebench.judges.served.settings import ApiSpec
from judgebench.words.errors import UserError
from tests.served import answer, drip, free_port, garbage, half, hangup, send, silence, status

PRICE = {"input": 1.0, "output": 2.0}


def spec_of(url, **more):
    return ApiSpec(**{"url": url, "model": "m", "backoff": 0.01, "price": PRICE, **more})


def the_error(outcomes):
    (error,) = outcomes
    assert isinstance(error, UserError), error
    return str(error)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(429), "429"),
        (status(500), "500"),
        (garbage(), "broken answer"),
        (garbage('{"choices": []}'), "broken answer"),
        (garbage("[1, 2]"), "broken answer"),
        (half, "broken connection"),
        (hangup, "broken connection"),
    ],
)
def test_a_fault_that_may_pass_is_tried_again_and_given_up_in_a_sentence(small_server, fault, kind):
    small_server.replies = [fault, fault]
    (reply,), account = send(spec_of(small_server.url, retries=2))
    assert reply.text == "4"
    assert (len(small_server.seen), account.requests, account.retries) == (3, 1, 2)
    assert account.failures == {kind: 2}
    small_server.otherwise = fault
    outcomes, account = send(spec_of(small_server.url, retries=1))
    sentence = the_error(outcomes)
    assert f"judge.url={small_server.url}" in sentence
    assert "tried 2 times" in sentence
    assert (len(small_server.seen), account.requests) == (3 + 2, 0)


@pytest.mark.parametrize("fault", [silence, drip])
def test_no_answer_in_time_is_a_fault_however_slowly_bytes_drip(small_server, fault):
    small_server.replies = [fault]
    began = time.monotonic()
    (found,), account = send(spec_of(small_server.url, timeout=0.4, retries=1))
    assert found.text == "4"
    assert account.failures == {"timeout": 1}
    assert time.monotonic() - began < 5
    # a server may bill what nobody received: 26 tokens at 1 and one at 2 USD per million
    assert account.unconfirmed == pytest.approx(28e-6)


def test_a_refused_connection_is_a_sentence():
    told = the_error(send(spec_of(f"http://127.0.0.1:{free_port()}/v1", retries=1))[0])
    assert "there is no connection" in told
    assert "see whether the server runs" in told


@pytest.mark.parametrize("header", ["1", "date"])
def test_retry_after_is_honored_in_seconds_and_as_a_date_by_all_that_wait(small_server, header):
    until = int(time.time()) + 2  # a date has whole seconds
    value = "1" if header == "1" else formatdate(until, usegmt=True)
    begun = time.monotonic()
    wait = 1 if header == "1" else until - time.time()
    small_server.replies = [status(429, Retry_After=value)]
    send(spec_of(small_server.url, concurrency=1), count=3)
    times = [seen["at"] for seen in small_server.seen]
    assert len(times) == 4
    assert min(times[1:]) - begun >= wait - 0.05


def test_a_wait_that_is_too_long_ends_the_run(small_server):
    small_server.replies = [status(429, Retry_After="3600")]
    told = the_error(send(spec_of(small_server.url))[0])
    assert "asks to wait 3,600 s" in told
    assert "judge.longest_wait=300" in told
    assert len(small_server.seen) == 1


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (status(400, "bad"), "HTTP 400: bad"),
        (status(400, "logprobs are not supported"), "judge.scores_from=samples"),
        (status(400, "use max_completion_tokens"), "take judge.length_name=max_completion_tokens."),
        (status(400, "max_tokens: 17 is too many"), "see judge.length_name and judge.max_new_tokens."),
        (status(400, "`temperature` is deprecated for this model."), "; judge.temperature=omit sends none."),
        (status(400, "Unsupported value: 'temperature' does not support 0"), "; judge.temperature=omit sends none."),
        (status(400, "Unsupported parameter: 'reasoning_effort'"), "; judge.effort=null sends none."),
        (status(400, "output_config.effort: 'none' is not one of them"), "; judge.effort=null sends none."),
        (status(400, "seed: Extra inputs are not permitted"), "; judge.seed=null sends none."),
        (status(422, "top_p is not taken"), "; leave top_p out of judge.extra_body."),
        (status(401, "who are you"), "no key, for judge.key_variable is null"),
        (status(403, "who are you"), "HTTP 403"),
        (status(404, "no such model"), "judge.model=m"),
        (status(429, "insufficient_quota"), "quota is used up"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(small_server, reply, words):
    small_server.otherwise = reply
    assert words in the_error(send(spec_of(small_server.url, extra_body={"top_p": 0.5}))[0])
    assert len(small_server.seen) == 1


def test_no_more_requests_are_under_way_than_concurrency_says(small_server):
    small_server.otherwise = answer(after=0.1)
    found, _ = send(spec_of(small_server.url, concurrency=3), count=9)
    assert [one.text for one in found] == ["4"] * 9
    assert small_server.most_under_way == 3


def test_requests_start_no_closer_than_the_limit_has_it(small_server):
    # five starts, a tenth of a second apart: by requests, then by tokens, of which each has 27
    for limit in ({"requests_per_minute": 600}, {"tokens_per_minute": 16_200}):
        del small_server.seen[:]
        began = time.monotonic()  # a first request may arrive late, so what is measured begins before it
        send(spec_of(small_server.url, **limit), count=5)
        assert max(one["at"] for one in small_server.seen) - began >= 0.4


def test_the_money_is_counted_from_what_the_server_says(small_server):
    small_server.otherwise = answer(usage=(1000, 10), cached=600)
    _, account = send(spec_of(small_server.url, price={"input": 1.0, "cached_input": 0.1, "output": 2.0}), count=2)
    assert (account.prompt_tokens, account.cached_tokens, account.completion_tokens) == (2000, 1200, 20)
    assert account.cost == pytest.approx(2 * (400 * 1.0 + 600 * 0.1 + 10 * 2.0) / 1e6)


def test_what_is_under_way_counts_against_max_cost(small_server):
    small_server.otherwise = answer(usage=(26, 1), after=0.2)
    found, _ = send(spec_of(small_server.url, max_cost=2.5 * 28e-6, concurrency=5), count=5)
    assert sum(isinstance(one, UserError) for one in found) == 3
    assert len(small_server.seen) == 2


def test_an_estimate_that_was_too_low_is_raised_by_what_the_server_counts(small_server):
    small_server.otherwise = answer(usage=(260, 1))  # ten times as many as were expected
    spec = spec_of(small_server.url, max_cost=600e-6, concurrency=1)
    found, account = send(spec, count=5)
    # 262 are spent after the first, 524 after the second; a third would pass 600, though 28 of its own would not
    assert sum(isinstance(one, UserError) for one in found) == 3
    assert account.cost == pytest.approx(2 * 262e-6)


def test_the_key_comes_from_the_environment_and_goes_to_the_server_alone(small_server, monkeypatch):
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-planted-0123456789")
    send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))
    assert small_server.seen[0]["headers"]["authorization"] == "Bearer sk-planted-0123456789"
    small_server.otherwise = status(400, "you sent sk-planted-0123456789, which is odd")
    told = the_error(send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))[0])
    assert "you sent ***, which is odd" in told
    monkeypatch.delenv("MY_JUDGE_KEY")
    with pytest.raises(UserError, match="environment variable MY_JUDGE_KEY is not set"):
        send(spec_of(small_server.url, key_variable="MY_JUDGE_KEY"))
