"""conf/decoding: any list of decodings composes, and its knobs have one owner each."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from judgebench.decoding import Contrastive, Expectation, Greedy

CONF = Path(__file__).parents[2] / "conf"


def decodings(*overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(overrides=list(overrides)).decoding
    return {
        name: instantiate(entry) for name, entry in config.items() if OmegaConf.is_dict(entry) and "_target_" in entry
    }


def test_each_file_gives_one_named_decoding():
    assert decodings("+decoding=[greedy,expectation,contrastive]") == {
        "greedy": Greedy(),
        "expectation": Expectation(),
        "contrastive": Contrastive(0.5),
    }


@pytest.mark.parametrize("name", ["greedy", "expectation", "contrastive", "contrastive_expectation"])
def test_each_stands_alone(name):
    assert list(decodings(f"+decoding=[{name}]")) == [name]


def test_knobs_reach_the_decoding():
    knobs = ("decoding.lambda=0.1", "decoding.temperature=3", "decoding.alpha=0.2", "decoding.rule=expectation")
    assert decodings("+decoding=[greedy,contrastive]", *knobs)["contrastive"] == Contrastive(0.1, 3, 0.2, "expectation")


def test_the_expectation_of_the_pair_shares_its_knobs():
    knobs = ("decoding.lambda=0.1", "decoding.temperature=3", "decoding.alpha=0.2")
    found = decodings("+decoding=[contrastive,contrastive_expectation]", *knobs)
    assert found["contrastive"] == Contrastive(0.1, 3, 0.2)
    assert found["contrastive_expectation"] == Contrastive(0.1, 3, 0.2, "expectation")


def test_every_file_and_every_key_is_explained():
    for path in (CONF / "decoding").glob("*.yaml"):
        lines = path.read_text().splitlines()
        assert lines[0].startswith("# ")
        assert all("#" in line for line in lines if line and not line[0].isspace() and not line.endswith(":"))
