"""conf/data: each file makes the DataModule that it names, and explains every key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from judgebench.config.command import known_to_hydra
from judgebench.data.benchmarks import Mini, SummEval, TopicalChat
from judgebench.data.jsonl import JsonLines
from judgebench.data.judge_bench import JudgeBench
from judgebench.data.module import JudgeDataModule
from judgebench.data.pairs import JsonPairs
from judgebench.runtime.errors import UserError

CONF = Path(__file__).resolve().parents[2] / "conf"
CLASSES = {"summeval": SummEval, "topicalchat": TopicalChat, "jsonl": JsonLines, "jsonl_pairs": JsonPairs, "mini": Mini}
CLASSES |= dict.fromkeys(
    ("conala", "conala_sample", "mohler", "ghosts", "mlqe", "grade", "openmeva", "lens"), JsonLines
)
CLASSES |= dict.fromkeys(("pandalm", "llmbar", "judgebench_pairs"), JsonPairs) | {"judge_bench": JudgeBench}
RUBRICS = {"topicalchat": "dialogue", "conala": "code", "mohler": "grading", "ghosts": "maths", "mlqe": "translation"}
RUBRICS["conala_sample"] = "code"
RUBRICS |= {"grade": "reply", "openmeva": "story", "lens": "simplification", "judge_bench": "translation"}
RUBRICS |= dict.fromkeys(("jsonl_pairs", "pandalm", "llmbar", "judgebench_pairs"), "answer")
GROUPS = {"topicalchat": "dialogues", "jsonl": "groups", "jsonl_pairs": "groups", "conala": "intents"}
GROUPS["conala_sample"] = "intents"
GROUPS |= {
    "mohler": "questions",
    "ghosts": "prompts",
    "mlqe": "sentences",
    "grade": "dialogues",
    "openmeva": "openings",
}
GROUPS |= {"lens": "sentences", "pandalm": "instructions", "llmbar": "instructions", "judgebench_pairs": "questions"}
GROUPS |= {"judge_bench": "instances"}


@pytest.fixture(autouse=True)
def _conf():
    with initialize_config_dir(str(CONF), version_base=None):
        yield


def composed(name, *overrides):
    return compose(f"data/{name}", list(overrides)).data


def test_each_file_is_known_here():
    assert {path.stem for path in (CONF / "data").glob("*.yaml")} == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_the_defaults_make_the_class(name):
    config = composed(name)
    data = instantiate(config)
    assert type(data) is CLASSES[name]
    assert isinstance(data, JudgeDataModule)
    assert data.name == name
    assert data.rubrics == config.rubrics == RUBRICS.get(name, "summary")
    assert data.groups_are == GROUPS.get(name, "articles")
    share = 0 if name in ("jsonl", "judge_bench") else 0.1
    assert (data.limit_groups, data.dev_share, data.seed) == (None, share, 0)


@pytest.mark.parametrize(
    ("share", "overrides"),
    [
        (0, []),
        (0, ["tune=published", "attacks=[none,dsi]", "defenses=[none,sandwich,./mine.txt]"]),
        (0.1, ["tune=dev"]),
        (0.1, ["tune=exact"]),
        (0.1, ["tune=shared"]),
        (0.1, ["attack=adv_suffix"]),
        (0.1, ["attack=phrase"]),
        (0.1, ["defenses=[none,cap]"]),
        (0.1, ["defenses=[none,perplexity]"]),
        (0.1, ["defenses=[none,{_target_: mine.Defense}]"]),
        (0.1, ["prompt=comparative"]),
        (0.4, ["tune=dev", "data.dev_share=0.4"]),
        (0, ["tune=dev", "data.dev_share=0"]),
        (0.3, ["+exp=calibrate"]),
    ],
)
def test_of_own_data_all_is_reported_unless_something_is_chosen(share, overrides):
    config = compose("config", ["data=jsonl", *overrides])
    assert instantiate(config.data).dev_share == share


def test_a_job_of_a_sweep_chooses_by_its_dev_split():
    config = compose("config", ["data=jsonl"], return_hydra_config=True)
    config.hydra.mode = "MULTIRUN"
    with known_to_hydra(config):
        assert instantiate(config.data).dev_share == 0.1


@pytest.mark.parametrize("name", CLASSES)
def test_each_key_and_the_file_say_what_they_are_for(name):
    lines = (CONF / "data" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert lines[1].startswith("_target_: ")
    assert [line for line in lines[2:] if " # " not in line] == []
    assert [line for line in lines if len(line) > 120] == []


def test_fields_and_scale_come_from_the_command_line(tmp_path):
    row = {"article": "An article.", "output": "A summary.", "coh": 3}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row), encoding="utf-8")
    config = composed(
        "jsonl",
        f"data.path={tmp_path / 'mine.jsonl'}",
        "data.fields.source=article",
        "data.fields.human={coherence: coh}",
        "data.scale=[1,5]",
    )
    data = instantiate(config)
    data.setup()
    assert data.examples[0].human == {"coherence": 3.0}
    assert data.scale == {"coherence": (1.0, 5.0)}


def test_a_scale_by_dimension_comes_from_the_command_line(tmp_path):
    row = {"source": "An article.", "output": "A summary.", "human": {"coherence": 3}}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row), encoding="utf-8")
    config = composed("jsonl", f"data.path={tmp_path / 'mine.jsonl'}", "data.scale={coherence: [0, 4]}")
    data = instantiate(config)
    data.setup()
    assert data.scale == {"coherence": (0.0, 4.0)}


@pytest.mark.parametrize("given", ["data.scale=5", "data.scale=abc", "data.scale=[1]", "data.scale='[1,5]'"])
def test_a_scale_of_another_form_is_told(given):
    with pytest.raises(InstantiationException) as told:
        instantiate(composed("jsonl", given))
    assert isinstance(told.value.__cause__, UserError)
    assert str(told.value.__cause__).startswith("data.scale must be the lowest and the highest human score")


@pytest.mark.parametrize("given", ["data.fields=abc", "data.fields=5"])
def test_fields_of_another_form_are_told(given):
    with pytest.raises(InstantiationException) as told:
        instantiate(composed("jsonl", given))
    assert isinstance(told.value.__cause__, UserError)
    assert str(told.value.__cause__).startswith("data.fields must be a mapping")
