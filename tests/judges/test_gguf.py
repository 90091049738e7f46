import json
import shutil
from contextlib import nullcontext

import gguf as library
import pytest
import torch
import transformers

from judgebench.judges import model_files
from judgebench.judges.loading import ModelSource
from judgebench.runtime.errors import UserError
from tests.conftest import SMOLLM2, tiny_llama


@pytest.fixture
def file(tmp_path):
    copy = tmp_path / SMOLLM2.gguf_file
    shutil.copy(SMOLLM2.locate() / SMOLLM2.gguf_file, copy)
    return copy


@pytest.fixture
def parsings(monkeypatch):
    counted = []
    whole = model_files._reader_class().__init__

    def counting(self, path):
        counted.append(str(path))
        whole(self, path)

    monkeypatch.setattr(model_files._reader_class(), "__init__", counting)
    return counted


def test_tokenizer_configuration_and_weights_parse_a_file_once_between_them(file, parsings):
    source = ModelSource(str(file))
    source.tokenizer()
    source.config()
    source.model()
    assert parsings == [str(file)]
    assert not model_files._parsed.get(str(file)), "the file is held after its weights were read"


def test_a_file_that_has_changed_is_parsed_anew(file, parsings):
    assert ModelSource(str(file)).config().max_position_embeddings == 8192
    raw = file.read_bytes()
    key = b"llama.context_length" + (4).to_bytes(4, "little")  # a key, and the type of its value: uint32
    assert raw.count(key) == 1
    place = raw.index(key) + len(key)
    file.write_bytes(raw[:place] + (4096).to_bytes(4, "little") + raw[place + 4 :])
    assert ModelSource(str(file), dtype="float32").config().max_position_embeddings == 4096
    assert parsings == [str(file)] * 2


def test_a_file_that_was_cut_off_since_is_told(file):
    ModelSource(str(file)).tokenizer()
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="its tokenizer cannot be loaded"):
        ModelSource(str(file), dtype="float32").tokenizer()


def test_the_library_is_itself_again_afterwards(file):
    before = library.GGUFReader, library.get_tensor_name_map
    ModelSource(str(file)).config()
    assert (library.GGUFReader, library.get_tensor_name_map) == before


def test_what_is_loaded_is_what_transformers_loads_by_itself(tmp_path):
    """Weights of every kind of tensor, in a file small enough for the library's own pace."""
    written = tiny_llama(3, layers=2)
    writer = library.GGUFWriter(str(tmp_path / "tiny.gguf"), "llama")
    config = written.config
    writer.add_name("tiny")
    writer.add_context_length(4096)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    names = library.get_tensor_name_map(library.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in written.state_dict().items():
        stem = name.removesuffix(".weight")
        writer.add_tensor(names.get_name(stem) + ".weight", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    loaded = []
    for way in (nullcontext, model_files.parsed_once):
        with way():
            loaded.append(transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf"))
    theirs, ours = loaded
    assert json.loads(ours.config.to_json_string()) == json.loads(theirs.config.to_json_string())
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight), name
    assert torch.equal(ours.model.embed_tokens.weight, written.model.embed_tokens.weight)
