"""Tables and sentences of attacks: their numbers are the records', and they claim no more than these."""

from __future__ import annotations

import pytest

from judgebench.report.render import to_html
from judgebench.report.views.attacks import (
    GAPS,
    attack_sentences,
)
from judgebench.results.results import Results
from tests.report.attacked import HOSTILE, attacks_on
from tests.report.conftest import in_terminal, on_page, words_of


@pytest.fixture(scope="module")
def attacked(builder):
    """An attack that raises by up to one, and one that leaves texts as they are."""
    return attacks_on(builder(articles=6, systems=4), {"none": {"dsi": 1, "bed": 0}})


def test_terminal_and_page_show_them_and_the_answer(attacked):
    (sentence,) = attack_sentences(attacked)
    assert sentence.startswith("coherence: dsi changes the mean score of ")
    assert sentence.endswith(", the most of 2 attacks.")
    text, page = in_terminal(attacked), on_page(attacked)
    assert "coherence: attacks" in text
    assert "coherence, attack dsi:" not in text
    assert "<h3>Attacks</h3>" in page
    assert sentence in words_of(page)


# --- which is easier to fool? -----------------------------------------------------------------------------------------


def record(statistic="change", **more):
    """A record of attack/differences.json."""
    base = {"dataset": "mini", "split": "test", "dimension": "joint", "range_min": 1.0, "range_max": 5.0}
    base |= {"range_step": 1.0, "ranges": 1, "attack": "dsi", "defense": "none"}
    for side, judge, decoding in (("first", "pair", "contrastive"), ("second", "main", "greedy")):
        base |= {f"{side}_judge": judge, f"{side}_decoding": decoding}
        base |= {f"{side}_lambda": None, f"{side}_temperature": None}
    base |= {"statistic": statistic, "n": 54, "groups": 18, "first": 0.53, "second": 0.5, "difference": 0.03}
    return base | {"low": -0.01, "high": 0.08, "se": 0.02, "groups_needed": 71, "says": "not significant"} | more


def test_nothing_that_others_named_becomes_markup():
    hostile = Results(attack_differences=[record(attack=HOSTILE, first_decoding=HOSTILE)])
    assert "<b>" not in to_html(GAPS(hostile))
    assert "&lt;b&gt;" in to_html(GAPS(hostile))
