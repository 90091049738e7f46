"""Several servers of one judge: whose an article is, and one that goes down."""

import pytest

from judgebench.judges.served.fleet import homes
from judgebench.judges.served.settings import ApiSpec
from judgebench.words.errors import UserError
from tests.served import free_port, garbage, send, status

URLS = [f"http://gpu{i}:8000/v1" for i in range(5)]
ARTICLES = [f"article {i % 100}" for i in range(1200)]


def spec_of(*servers, **more):
    urls = [server if isinstance(server, str) else server.url for server in servers]
    return ApiSpec(**{"url": urls, "model": "m", "backoff": 0.01, **more})


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_loads_are_even_and_a_server_more_moves_few_articles(count):
    before = homes(ARTICLES, URLS[:count])
    loads = [sum(before[article][0] == server for article in ARTICLES) for server in range(count)]
    assert max(loads) <= 1.05 * len(ARTICLES) / count + 12
    assert all(sorted(order) == list(range(count)) for order in before.values())
    after = homes(ARTICLES, [*URLS[:count], "http://new:8000/v1"])
    moved = sum(after[article][0] != before[article][0] for article in before)
    assert moved <= 100 / (count + 1) + 25, "those of the new server, and few that had not been at home"


def test_the_next_server_stands_in_for_one_that_is_down_and_gives_back(small_servers):
    first, second, _ = small_servers
    first.replies = [status(500)]
    found, account = send(spec_of(first, second, backoff=0.2), 6, order=(0, 1), pause=0.06)
    assert [one.text for one in found] == ["4"] * 6
    told = account.servers
    assert told[first.url]["failures"] == 1
    assert 1 <= told[second.url]["requests"] <= 4, "while the first was taken for down"
    assert told[first.url]["requests"] == 6 - told[second.url]["requests"], "it came back"


def test_a_server_that_is_gone_costs_a_refusal_and_no_answer(small_server):
    gone = f"http://127.0.0.1:{free_port()}/v1"
    found, account = send(spec_of(gone, small_server, backoff=5.0), 20, order=(0, 1))
    assert [one.text for one in found] == ["4"] * 20
    assert account.servers[gone]["failures"] <= 8, "those that were under way, and no more"


def test_servers_that_are_all_down_are_the_sentence_of_one(small_servers):
    for server in small_servers:
        server.otherwise = garbage()
    (error,), _ = send(spec_of(*small_servers, retries=2, backoff=5.0), order=(2, 0, 1))
    assert isinstance(error, UserError)
    assert "tried 3 times" in str(error)
    assert all(server.seen for server in small_servers)
