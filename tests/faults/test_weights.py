"""Models that bring code of their own, and models that are sick: refused, and nothing of theirs is run or stored."""

import json
import os
import pickle

import pytest
import torch

from judgebench.judges.local.loading import ModelSource
from judgebench.results.folder import RunFolder
from tests.command.test_cli import sick_model
from tests.conftest import QUICK, told
from tests.faults.conftest import rows

CODE = """
from pathlib import Path
Path({marker!r}).touch()
from transformers import LlamaConfig, LlamaForCausalLM
class MyConfig(LlamaConfig):
    model_type = {kind!r}
class MyModel(LlamaForCausalLM):
    config_class = MyConfig
"""


class Touches:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mknod, (self.path,)


def test_pickled_weights_are_not_opened(judgebench, model_folder, tmp_path):
    folder = model_folder
    (folder / "model.safetensors").unlink()
    marker = tmp_path / "opened"
    torch.save({"x": Touches(marker)}, folder / "pytorch_model.bin")
    result = judgebench("judge=local", f"judge.path={folder}", *QUICK, mistaken=True)
    told(result, f"judge.path={folder}: its model cannot be loaded", "safetensors")
    assert not marker.exists()
    pickle.loads(pickle.dumps(Touches(marker)))
    assert marker.exists(), "the trap itself must work"


@pytest.mark.parametrize("kind", ["llama", "my_own"])
def test_code_beside_the_weights_is_not_run_unless_asked(judgebench, model_folder, tmp_path, kind):
    folder = model_folder
    marker = tmp_path / "ran"
    (folder / "mine.py").write_text(CODE.format(marker=str(marker), kind=kind))
    for name in ("config.json", "tokenizer_config.json"):
        config = json.loads((folder / name).read_text())
        config["auto_map"] = {"AutoConfig": "mine.MyConfig", "AutoModelForCausalLM": "mine.MyModel"}
        if name == "config.json":
            config["model_type"] = kind
        (folder / name).write_text(json.dumps(config))
    command = ("judge=local", f"judge.path={folder}", *QUICK)
    if kind == "llama":  # a kind that is known is read by the library's own code
        judgebench(*command)
        assert len(RunFolder.open("run").read("readings")) == 24
    else:
        told(judgebench(*command, mistaken=True), f"judge.path={folder}", "judge.trust_remote_code=true")
    assert not marker.exists()
    ModelSource(str(folder), trust_remote_code=True).config()
    assert marker.exists(), "the trap itself must work"


def test_nan_names_model_and_example_and_is_not_stored(judgebench, tmp_path, smollm2_tokenizer):
    folder = sick_model(tmp_path, smollm2_tokenizer)
    sentence = told(judgebench("judge=local", f"judge.path={folder}", *QUICK, mistaken=True), "with NaN")
    assert "sick answers to example mini-" in sentence
    assert rows("outputs/readings.sqlite") == {}
