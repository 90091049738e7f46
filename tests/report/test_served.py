"""What people read of judges behind a URL."""

from judgebench.judges.api.billing import unpaid
from judgebench.report.views.run import served_facts, served_notes, served_scalars

CONDITION = {"dimension": "coherence", "range": "1-5", "attack": "none", "defense": "none", "order": None}
CONDITION |= {"answers": None, "failed_answers": None}
MAIN = {
    "url": "http://host/v1",
    "model": "m",
    "protocol": "chat",
    "scores_from": "logprobs",
    "explicit": None,
    "samples": None,
    "temperature": 0.0,
    "served_as": [
        {"model": "m-1", "fingerprint": "a", "answers": 3},
        {"model": "m-2", "fingerprint": None, "answers": 1},
    ],
    "price": {"input": 1.0, "output": 2.0},
    "requests": 3,
    "retries": 2,
    "failures": {"429": 2},
    "uncounted_requests": 1,
    "prompt_tokens": 1200,
    "cached_tokens": 1000,
    "completion_tokens": 6,
    "cost": 0.25,
    "unconfirmed_cost": 0.05,
    "conditions": [
        {**CONDITION, "readings": 3, "unlisted": 0.1, "bounded": 3, "undecided": 1},
        {**CONDITION, "readings": 1, "unlisted": 0.5, "bounded": 0, "undecided": 0},
    ],
}
SERVED = {"main": MAIN, "cost": 0.3, "max_cost": 1.0}


def test_the_facts_say_where_scores_come_from_what_is_open_and_what_it_cost():
    facts = dict(served_facts(SERVED))
    assert facts["main asked"] == "m at http://host/v1, scores from listed log-probabilities (chat)"
    # 3 readings with 0.1 and one with 0.5: 0.2 in the mean
    assert "4, the lists leave out 20 % of probability in the mean; 3 are known within bounds" in facts["main readings"]
    assert facts["main served as"] == "m-1 (a), m-2: it changed while it was asked"
    assert "1,200 prompt tokens (1,000 of them cached) and 6 of answers" in facts["main requests"]
    assert "1 answers did not count their tokens" in facts["main requests"]
    assert "2 tries failed and were repeated (429 2x)" in facts["main requests"]
    assert facts["cost of this run"] == "$0.3 of $1 at most, $0.05 of it for answers that were lost"
    assert served_facts(None) == []
    assert dict(served_facts({**SERVED, "cost": None}))["cost of this run"].startswith("not counted")


def test_numbers_for_a_dashboard_and_notes_for_a_table():
    numbers = served_scalars(SERVED)
    assert (numbers["served/main/prompt_tokens"], numbers["served/cost"]) == (1200.0, 0.3)
    assert "served/assistant/cost" not in numbers
    assert served_scalars(None) == {}
    assert served_notes(SERVED) == {"judgebench.main.scores_from": "logprobs"}
    assert served_notes(None) is None


def test_a_run_that_uses_what_another_has_read_paid_nothing():
    told = unpaid(SERVED)
    assert (told["cost"], told["main"]["cost"], told["main"]["requests"], told["main"]["failures"]) == (0.0, 0.0, 0, {})
    assert told["main"]["conditions"] == MAIN["conditions"]
    assert told["max_cost"] == 1.0
