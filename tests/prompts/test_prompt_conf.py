"""conf/prompt: its defaults make a builder, and the command lines that it documents work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from judgebench.prompts.builder import PromptBuilder
from judgebench.types import Condition, Example, ScoreRange

CONF = Path(__file__).resolve().parents[2] / "conf"
CONDITION = Condition("relevance", ScoreRange(1, 5))


@pytest.fixture(autouse=True)
def _conf():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


def composed(*overrides):
    prompt = OmegaConf.to_container(compose("config", list(overrides)).prompt, resolve=True)
    assert isinstance(prompt, dict)
    return prompt


def text(tokenizer, *overrides):
    maker = PromptBuilder.from_config(tokenizer, composed(*overrides), ["relevance"], 4000)
    return maker.build([Example("a", "a", "a", "The article.", "The summary.", {})], [CONDITION])[0].text


def test_the_defaults_make_a_builder(smollm2_tokenizer):
    assert "The article." in text(smollm2_tokenizer)
    assert composed("data=topicalchat")["rubrics"] == "dialogue"


def test_the_documented_command_line_for_variants_works(smollm2_tokenizer):
    line = (CONF / "prompt" / "paper.yaml").read_text(encoding="utf-8")
    documented = re.search(r"'(prompt\.variants=[^']+)'", line)
    assert documented is not None
    assert "The article." not in text(smollm2_tokenizer, documented[1])
    assert "The article." in text(smollm2_tokenizer, "prompt.variants=null")
    assert "The article." in text(smollm2_tokenizer, "prompt.variants={}")


@pytest.mark.parametrize("given", ["prompt.template_options=null", "+prompt.template_options.mood=kind"])
def test_template_options_may_be_none_or_more(smollm2_tokenizer, given):
    assert "The article." in text(smollm2_tokenizer, given)
