"""Chat templates and tokenizers of models that never end, or break down."""

import copy
import threading
import time

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime import timing
from judgebench.runtime.errors import UserError
from judgebench.runtime.timing import NeverEnds, within
from judgebench.types import Condition, Example, ScoreRange

CONDITION = Condition("engagingness", ScoreRange(1, 5))
RUBRICS = load_rubrics("dialogue", ["engagingness"])
ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{{ messages[0].content }}"


def build(tokenizer, text="They purr."):
    example = Example("a/0", "a", "0", "An article.", text, {}, "Cats purr.")
    return PromptBuilder(tokenizer, RUBRICS, 20_000).build([example], [CONDITION])


def with_pattern(pattern):
    plain = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(timing, "SECONDS", 1.0)


def test_a_template_that_loops_is_told_and_stopped(short, smollm2_tokenizer):
    tokenizer = copy.deepcopy(smollm2_tokenizer)
    tokenizer.chat_template = ENDLESS
    with pytest.raises(UserError, match=r"^The chat template of the tokenizer .* has not come to an end after"):
        build(tokenizer)
    assert build(smollm2_tokenizer)


def test_a_pattern_that_never_ends_is_told(short):
    tokenizer = with_pattern("(a|aa)+$")
    assert build(tokenizer)
    with pytest.raises(UserError, match=r"^The tokenizer .* has not come to an end after .* give another model"):
        build(tokenizer, ("a" * 28 + "! ") * 40)


def test_a_tokenizer_that_breaks_down_is_told(capfd):
    with pytest.raises(UserError, match=r"^The tokenizer .* breaks down on a text \(.*retry-limit.* another model"):
        build(with_pattern("(a+)+$"), "a" * 60 + "!")
    capfd.readouterr()


def test_calls_give_what_they_give_and_raise_what_they_raise():
    assert [within(lambda i=i: i) for i in range(3)] == [0, 1, 2]
    assert within(lambda: within(lambda: 5)) == 5
    with pytest.raises(KeyError):
        within(lambda: {}["a"])


def test_a_loop_that_was_left_ends():
    going = threading.Event()

    def loop():
        going.set()
        while True:
            time.sleep(0.01)

    before = threading.active_count()
    with pytest.raises(NeverEnds):
        within(loop, 0.5)
    assert going.is_set()
    for _ in range(1000):
        if threading.active_count() <= before:
            return
        time.sleep(0.01)
    raise AssertionError("the thread goes on")
