"""Names of earlier versions: a command or card that asks for one says what to use, and what changes nothing is read."""

import copy
import sys
from pathlib import Path

import pytest

from judgebench.cards.judge import parts_of
from judgebench.command.dispatch import main
from judgebench.runtime.dropped import DROPPED, dropped, up_to_date
from judgebench.words.errors import UserError
from tests.cards.test_card import PARTS, card

ASKED = {
    "judge.combine=rank": ["judge=panel", "judge.members=[a]", "judge.combine=rank"],
    "decoding=trimmed": ["decoding=[expectation,trimmed]"],
    "tune.metric=stability": ["tune=crossfit", "tune.metric=stability"],
    "judgebench.decoding.Plausible": ["+decoding.mine={_target_: judgebench.decoding.Plausible}"],
    "tune.metric=rps": ["tune=crossfit", "tune.metric=rps"],
    "judge.explicit=sglang": ["judge=vllm", "judge.explicit=sglang"],
    "dry_run=measure": ["dry_run=measure"],
    "trainer=tensor_parallel": ["trainer=tensor_parallel"],
    "tune=exact": ["tune=exact"],
    "judgebench.tuning.Exact": ["tune=dev", "tune._target_=judgebench.tuning.Exact"],
    "hydra.sweeper.heartbeat": ["+sweeps=cd_lambda_t", "hydra.sweeper.heartbeat=1"],
    "hydra.sweeper.retry_failed": ["+sweeps=cd_lambda_t", "hydra.sweeper.retry_failed=true"],
    "sweeps=cd_kappa_exact": ["+sweeps=cd_kappa_exact"],
    "defense.window": ["+defense.window=5"],
    "defenses=classifier": ["defenses=[none,classifier]"],
    "defenses=retokenization": ["defenses=[retokenization]"],
    "judge.engine=vllm": ["judge.engine=vllm"],
    "judge.engine_options": ["+judge.engine_options.quantization=awq"],
    "prompt.layout": ["+prompt.layout=text_first"],
}
"""Name of what was dropped -> overrides of a run that asks for it."""
PLAIN = {"judge.engine_options": ["judge.engine_options=1"], "prompt.layout": ["prompt.layout=1"]}
"""The same without a plus, which would be called unknown."""
CARDS = {
    "judge.engine_options": {"judge": {"engine_options": {"seed": 1}}},
    "prompt.layout": {"prompt": {"layout": "text_first"}},
}
"""Name of what was dropped -> settings of a card's parts that ask for it."""


@pytest.mark.parametrize(("name", "overrides"), [*ASKED.items(), *PLAIN.items()])
def test_a_run_that_asks_for_it_is_refused_in_one_sentence(judgebench, name, overrides):
    code, _, err = judgebench("data=conala_sample", "logger=none", *overrides, "run_dir=no", mistaken=True)
    assert (code, Path("no").exists()) == (2, False)
    assert err == f"judgebench: {name}: is dropped; {DROPPED[name]}.\n"


def test_a_command_that_is_gone_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["judgebench", "plan", "run", "within=0.2"])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, capsys.readouterr().err) == (2, f"judgebench: {dropped('judgebench plan')}\n")


def test_every_sentence_says_what_to_use():
    for name in DROPPED:
        assert str(dropped(name)).endswith(".")
        assert not DROPPED[name].endswith(".")
    assert dropped("judge.members[12].card") == f"judge.members[12].card: is dropped; {DROPPED['judge.members.card']}."
    assert dropped("judge.members") is None


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
    parts = parts_of(with_settings(changes), {"judge": {}})
    assert "engine_options" not in parts["judge"]
    assert "layout" not in parts["prompt"]
    assert "window" not in parts["defense"]


@pytest.mark.parametrize("name", CARDS)
def test_a_card_that_asks_for_it_says_what_to_use(name):
    with pytest.raises(UserError) as error:
        parts_of(with_settings(CARDS[name]))
    assert f"{name}: is dropped; {DROPPED[name]}." in str(error.value)
