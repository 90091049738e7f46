"""What was dropped: a command that asks for it says what to use, and what earlier versions wrote is still read."""

import copy

import pytest

from judgebench.cards.judge import scoring_config
from judgebench.runtime.dropped import DROPPED, up_to_date
from judgebench.runtime.errors import UserError
from tests.cards.test_card import PARTS, card

COMMANDS = {
    "defense.window": ("+defense.window=5",),
    "defenses=classifier": ("defenses=[none,classifier]",),
    "defenses=retokenization": ("defenses=[retokenization]",),
    "judge.engine=vllm": ("judge.engine=vllm",),
    "judge.engine_options": ("+judge.engine_options.quantization=awq",),
    "prompt.layout": ("+prompt.layout=text_first",),
}
"""Name of what was dropped -> what a command said to have it."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_asks_for_it_gets_one_sentence(judgebench, tiny_pair, name):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "logger=none", "run_dir=run", "store=none.sqlite")
    code, _, said = judgebench(*given, *COMMANDS[name], mistaken=True)
    assert code == 2
    assert said.strip().removeprefix("judgebench: ") == f"{name}: is dropped; {DROPPED[name]}."


@pytest.mark.parametrize("key", ["judge.engine_options", "prompt.layout"])
def test_a_key_that_was_dropped_is_not_called_unknown_without_a_plus(judgebench, tiny_pair, key):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", f"{key}=1")
    assert f"{key}: is dropped; {DROPPED[key]}." in judgebench(*given, mistaken=True)[2]


EARLIER = {
    "defense": {"window": 7, "paraphrase_tokens": 192},
    "judge": {"draft_tokens": 0, "engine_options": {}},
    "prompt": {"layout": "paper"},
    "pairwise": {"outcome": "mean", "margins": 4},
}
"""Settings of earlier versions, at values that ask for what is done now."""


def test_settings_of_earlier_versions_that_change_nothing_are_left_out():
    current = {
        "defense": {"seed": 0},
        "judge": {"path": "a", "draft_tokens": 0},
        "prompt": {"rubrics": "summary"},
        "pairwise": {"position": True},
    }
    assert up_to_date({part: {**EARLIER[part], **current[part]} for part in current}) == current
    asked = {"judge": {"engine_options": {"quantization": "awq"}}, "pairwise": None}
    assert up_to_date(asked) == asked


def with_settings(changes):
    """A card whose parts have further settings: part -> settings."""
    parts = copy.deepcopy(PARTS)
    for part, settings in changes.items():
        parts[part] |= settings
    return card(parts=parts)


def test_a_card_of_an_earlier_version_scores():
    changes = {part: settings for part, settings in EARLIER.items() if part in PARTS}
    config = scoring_config(with_settings(changes), {}, store="readings.sqlite", overridden={"judge": {}})
    assert "engine_options" not in config.judge
    assert "layout" not in config.prompt
    assert "window" not in config.defense


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"judge": {"engine_options": {"seed": 1}}}, "judge.engine_options"),
        ({"prompt": {"layout": "text_first"}}, "prompt.layout"),
    ],
)
def test_a_card_that_asks_for_it_says_what_to_use(changes, name):
    with pytest.raises(UserError) as error:
        scoring_config(with_settings(changes), {}, store="readings.sqlite")
    assert f"{name}: is dropped; {DROPPED[name]}." in str(error.value)
