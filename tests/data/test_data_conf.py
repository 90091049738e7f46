"""conf/data: each file makes the data set that it names, and explains every key."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from judgebench.config.check import check_config
from judgebench.config.choices import choices
from judgebench.config.keys import known_to_hydra
from judgebench.data.dataset import RatingDataset
from judgebench.prompts.builder import Defense
from judgebench.words.errors import UserError

CONF = Path(__file__).resolve().parents[2] / "conf"
KINDS = {  # rubrics and groups, where they are not those of summaries of articles
    "topicalchat": ("dialogue", "dialogues"), "conala": ("code", "intents"), "conala_sample": ("code", "intents"),
    "mohler": ("grading", "questions"), "ghosts": ("maths", "prompts"), "mlqe": ("translation", "sentences"),
    "grade": ("reply", "dialogues"), "openmeva": ("story", "openings"), "lens": ("simplification", "sentences"),
    "judge_bench": ("translation", "instances"), "jsonl": ("summary", "groups"), "jsonl_pairs": ("answer", "groups"),
    "pandalm": ("answer", "instructions"), "llmbar": ("answer", "instructions"),
    "judgebench_pairs": ("answer", "questions"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _conf():
    with initialize_config_dir(str(CONF), version_base=None):
        yield


def composed(name, *overrides):
    return compose(f"data/{name}", list(overrides)).data


@pytest.mark.parametrize("name", choices("data"))
def test_the_defaults_make_the_class(name):
    config = composed(name)
    data = instantiate(config)
    assert isinstance(data, RatingDataset)
    assert data.name == name
    assert (data.rubrics, data.groups_are) == KINDS.get(name, ("summary", "articles"))
    lines = (CONF / "data" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert lines[1].startswith("_target_: ")
    assert [line for line in lines[2:] if " # " not in line or len(line) > 120] == [], "each key says what it is for"
    assert (data.limit_groups, data.dev_share, data.seed) == (None, 0, 0)


class Mine(Defense):
    name = "mine"


class Learned(Mine):
    needs_dev = True


def share_of_a_run(*overrides, mode="RUN"):
    """The share that the checked configuration has, and its data."""
    config = compose("config", ["data=mini", "logger=none", *overrides], return_hydra_config=True)
    config.hydra.mode = mode
    with known_to_hydra(config):
        parts = check_config(config, here=False)
    assert parts.data.dev_share == instantiate(parts.config.data).dev_share == parts.config.data.dev_share
    return parts.config.data.dev_share


@pytest.mark.parametrize(
    ("share", "overrides"),
    [
        (0, []),
        (0, ["attacks=[none,dsi]", "defenses=[none,sandwich,cot,delimiters]"]),
        (0, [f"defenses=[none,{{_target_: {__name__}.Mine}}]"]),
        (0.1, ["assistant=null_context", "decoding=[greedy,contrastive]", "tune=dev"]),
        (0, ["assistant=null_context", "decoding=[greedy,contrastive]", "tune=crossfit"]),
        (0.1, ["attacks=[adv_suffix]"]),
        (0.1, ["defenses=[none,anchors_2]"]),
        (0.1, ["defenses=[none,perplexity]", "attacks=[none,dsi]"]),
        (0.1, [f"defenses=[none,{{_target_: {__name__}.Learned}}]"]),
        (0.1, ["prompt=comparative"]),
        (0.4, ["defenses=[none,anchors]", "data.dev_share=0.4"]),
        (0, ["defenses=[none,anchors]", "data.dev_share=0"]),
    ],
)
def test_all_is_reported_unless_something_is_chosen(share, overrides):
    assert share_of_a_run(*overrides) == share


def test_a_job_of_a_sweep_chooses_by_its_dev_split():
    assert share_of_a_run(mode="MULTIRUN") == 0.1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        *((f"data.scale={scale}", "data.scale must be the worst and the best") for scale in ("5", "abc", "'[1]'")),
        *(
            (f"data.fields={fields}", f"data.fields: {shown} should be a mapping")
            for fields, shown in (("abc", "'abc'"), ("5", "5"))
        ),
    ],
)
def test_settings_of_another_form_are_refused(given, sentence):
    with pytest.raises(InstantiationException) as error:
        instantiate(composed("jsonl", given))
    assert isinstance(error.value.__cause__, UserError)
    assert str(error.value.__cause__).startswith(sentence)
