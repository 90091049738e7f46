"""Files that commit 26d5f633 wrote: their classes are where the table says, and take the keys that are left."""

from __future__ import annotations

import inspect
import pydoc

import pytest

from judgebench.readings.reading import FOLDER, Recording
from judgebench.runtime.versions import GONE, MOVED, translate_settings

WRITTEN = {
    "reader.JudgeSpec": {"path": "a", "dtype": "auto", "draft_tokens": 0, "engine": "plain", "token_budget": 4096},
    "api.settings.ApiSpec": {"url": "http://a/v1", "model": "m", "path": None, "dtype": "auto", "engine": "prefix"},
    "panel.PanelSpec": {"members": ["a"], "path": None, "gguf_file": None, "trust_remote_code": False},
    "recorded.RecordedSpec": {"path": "a", "mode": "score_tokens", "gguf_file": None, "engine": "prefix"},
    "replay.ReplaySpec": {"path": "a", "fields": {"text": "dtype"}, "mode": "generate", "dtype": "auto"},
}
"""A judge's class as that commit named it -> some of the settings that it wrote."""


@pytest.mark.parametrize("old", WRITTEN)
def test_a_judge_that_was_written_then_can_be_made(old):
    written = {"_target_": f"judgebench.judges.{old}", **WRITTEN[old]}
    current = translate_settings({"judge": [written]})["judge"][0]
    target = current.pop("_target_")
    maker = pydoc.locate(target)
    assert f"{maker.__module__}.{maker.__qualname__}" == target
    written = {"max_batch_tokens" if key == "token_budget" else key for key in WRITTEN[old]}
    assert set(current) == written - GONE[target] <= set(inspect.signature(maker).parameters)


def test_keys_that_have_another_name_now_are_read():
    then = {
        "worth": False,
        "compare_with": "greedy",
        "costs": {"mark": 3},
        "data": {"fields": {"human": {"worth": "w"}}},
    }
    now = translate_settings(then)
    assert now == {
        "human_agreement": False,
        "baseline": "greedy",
        "costs": {"threshold": 3},
        "data": {"fields": {"human": {"worth": "w"}}},
    }  # a column's name is no key


def test_each_class_of_the_table_takes_none_of_the_keys_that_have_gone():
    assert set(MOVED.values()) == set(GONE)
    for target, gone in GONE.items():
        assert not gone & set(inspect.signature(pydoc.locate(target)).parameters)


def test_recordings_that_come_with_judgebench_name_classes_of_today():
    shipped = sorted(FOLDER.glob("*.parquet"))
    assert shipped
    for path in shipped:
        settings = Recording.open(path.stem).setting("judge")
        assert settings["_target_"] == "judgebench.judges.spec.JudgeSpec"
        assert "draft_tokens" not in settings
