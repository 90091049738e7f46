"""A configuration that is checked stays as it is: its parts hold a complete one."""

import copy
from dataclasses import dataclass

import pytest
from hydra import compose, initialize_config_dir

from judgebench.config.check import check_config
from judgebench.config.choices import FOLDER
from judgebench.judges.precomputed.replay import ReplaySpec
from judgebench.prompts.rubrics import UNASKED
from judgebench.runtime.values import carry
from judgebench.words.errors import UserError
from tests.conftest import write_rows


@dataclass(frozen=True, kw_only=True)
class Sheet(ReplaySpec):
    """Answers of one's own format: of a kind that is asked nothing."""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Composes and checks a configuration -> itself, a copy from before, and its parts."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "source": "Rain.",
            "output": f"Rain {i}.",
            "group_id": f"g{i % 3}",
            "id": f"{i}",
            "human": {"politeness": i % 5},
        }
        for i in range(6)
    ]
    write_rows("own.jsonl", rows)
    write_rows("answers.jsonl", [{"id": row["id"], "text": "3"} for row in rows])

    def check(*overrides):
        usual = ("data=jsonl", "data.path=own.jsonl", "data.fields.example_id=id", "data.fields.group_id=group_id")
        usual += ("judge=replay", "judge.path=answers.jsonl", "assistant=none", "decoding=[greedy]", "logger=none")
        with initialize_config_dir(str(FOLDER), version_base="1.3"):
            config = compose("config", [*usual, "ranges=[[0,4]]", *overrides])
        before = copy.deepcopy(config)
        return config, before, check_config(config)

    return check


def test_what_is_checked_is_not_written_and_its_parts_have_what_the_data_say(checked):
    config, before, parts = checked()
    assert config == before
    assert (config.dimensions, config.data.dev_share) == (None, None)
    assert (list(parts.config.dimensions), parts.config.data.dev_share) == (["politeness"], 0.0)
    assert parts.dimensions == ["politeness"]
    assert parts.config.prompt.rubrics.politeness.startswith(UNASKED[:10])
    assert parts.data.dev_share == 0.0


def test_values_that_a_command_carries_are_set_in_the_complete_one_alone(checked):
    config, before, parts = checked(*carry([], {"rubric": "Is ${it} polite?"}))
    assert config == before
    assert parts.config.rubric == "Is ${it} polite?"
    assert "Is ${it} polite?" in parts.config.prompt.rubrics.politeness


def test_a_judge_is_known_by_what_it_can_and_not_by_its_name(checked):
    parts = checked(f"judge._target_={__name__}.Sheet")[2]
    assert type(parts.judge) is Sheet
    assert parts.config.prompt.rubrics.politeness.startswith(UNASKED[:10]), "a subclass is asked nothing either"
    with pytest.raises(UserError, match="tune=dev: lambda and t are chosen by probabilities, and judge=replay"):
        checked(f"judge._target_={__name__}.Sheet", "tune=dev")
