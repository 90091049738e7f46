"""Files that an earlier crash has cut off, or that hold something else: a sentence names the file and what to do."""

import json
import struct
from pathlib import Path

import gguf
import numpy as np
import optuna
import pytest
from safetensors.numpy import load_file, save_file

from judgebench.judges.local.loading import ModelSource
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.report.paper.__main__ import main as tables
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError
from judgebench.study.storage import open_storage
from judgebench.tutor.spec import Sizes
from judgebench.tutor.vectors import load_vectors
from tests.conftest import tiny_llama
from tests.faults.conftest import QUICK, told
from tests.test_reference_runs import ASKED, TUTOR


def cut(path, share=0.5):
    """Leaves so much of a file."""
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: int(len(data) * share)])


def test_a_run_folders_files(judgebench, tiny_pair):
    judgebench("judge=local", f"judge.path={tiny_pair[0]}", *QUICK)
    run = RunFolder.open("run")
    for name in ("readings", "scores", "metrics", "environment"):
        path = next(Path("run").glob(f"{name}.*"))
        data = path.read_bytes()
        run.read(name)
        noise = data[:50] + np.random.default_rng(0).bytes(len(data) // 2) + data[50 + len(data) // 2 :]
        for damaged in (b"", data[:100], data[: len(data) // 2], data[:-9], noise):
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=rf"{path}: cannot be read \(.*\); restore the file or run again"):
                run.read(name)


@pytest.mark.parametrize("name", ["metrics.json", "config.yaml", "defense/references.parquet", "defense/costs.json"])
def test_tables_of_a_run_that_is_damaged(judgebench, tiny_pair, capfd, name):
    model = ("judge=local", f"judge.path={tiny_pair[0]}", "judge.dtype=float32", *ASKED, *TUTOR)
    judgebench(*model, "decoding=[expectation]", "defenses=[none,random_reference]")
    path = Path("run", name)
    if name == "config.yaml":
        path.write_text("judge: [1\n")
    else:
        cut(path)
    assert tables(["run"]) == 2
    out, err = capfd.readouterr()
    assert err.startswith(f"judgebench: {path}: cannot be read (")
    assert err.endswith("; restore the file or run again.\n")
    assert not out


def test_standard_vectors(tmp_path):
    file = tmp_path / "vectors_joint.safetensors"
    save_file({"high": np.zeros((2, 4), np.float32)}, file)
    for share in (0.9, 0.5, 0.01):
        cut(file, share)
        with pytest.raises(UserError, match=rf"tutor.vectors={file}: cannot be read as safetensors"):
            load_vectors(file, "", Sizes(2, 4, 0))


@pytest.mark.parametrize("share", [0.9, 0.0001])
def test_a_models_weights(judgebench, tmp_path, smollm2_tokenizer, share):
    folder = tmp_path / "cut"
    tiny_llama(1).save_pretrained(folder)
    smollm2_tokenizer.save_pretrained(folder)
    cut(folder / "model.safetensors", share)
    result = judgebench("judge=local", f"judge.path={folder}", *QUICK, mistaken=True)
    told(result, f"judge.path={folder}: its model cannot be loaded (", "fetch it again")
    assert not Path("run").exists()


def test_a_models_weights_of_another_shape(judgebench, tmp_path, smollm2_tokenizer):
    folder = tmp_path / "other"
    tiny_llama(1).save_pretrained(folder)
    smollm2_tokenizer.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.2.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    result = judgebench("judge=local", f"judge.path={folder}", *QUICK, mistaken=True)
    told(result, f"judge.path={folder}", "model.layers.2.mlp.up_proj.weight")


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory):
    """A tiny Llama as GGUF."""
    path = tmp_path_factory.mktemp("gguf") / "judge.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    size, vocabulary, draw = 32, 64, np.random.default_rng(0)
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(size)
    writer.add_feed_forward_length(2 * size)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(vocabulary)
    shapes = {"token_embd": (vocabulary, size), "output": (vocabulary, size), "output_norm": (size,)}
    shapes |= {f"blk.0.attn_{name}": (size, size) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (2 * size, size), "blk.0.ffn_up": (2 * size, size), "blk.0.ffn_down": (size, 2 * size)}
    shapes |= {"blk.0.attn_norm": (size,), "blk.0.ffn_norm": (size,)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file(tmp_path, gguf_file):
    data = gguf_file.read_bytes()
    assert ModelSource(str(gguf_file)).model().config.hidden_size == 32  # whole, it is a model
    name = b"blk.0.ffn_up.weight"
    at = data.index(name) + len(name)
    (dimensions,) = struct.unpack_from("<I", data, at)
    offset = at + 4 + 8 * dimensions + 4  # where the header says at which byte the tensor begins
    faults = {
        "cut in its tensors": data[: len(data) // 2],
        "cut in its header": data[:400],
        "another magic number": b"GGML" + data[4:],
        "noise": data[:4] + np.random.default_rng(0).bytes(20_000),
        "empty": b"",
        "a tensor outside": data[:offset] + struct.pack("<Q", 2**50) + data[offset + 8 :],
        "a tensor of another name": data.replace(name, b"blk.0.ffn_XX.weight"),
    }
    for fault, damaged in faults.items():
        path = tmp_path / f"{fault.replace(' ', '-')}.gguf"
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"^judge.path={path}: its .*fetch it again") as told:
            ModelSource(str(path)).model()
        assert ("lacks 1 of its weights" in str(told.value)) == (fault == "a tensor of another name")


@pytest.mark.parametrize("share", [0.6, 0.01])
def test_a_store(judgebench, tiny_pair, share):
    store = ReadingStore(Path("a.sqlite"))
    store.put([ModelReading(f"{i:064d}", np.zeros(300, np.float32), None, 0.1) for i in range(300)])
    store._db.execute("PRAGMA journal_mode=DELETE")
    store.close()
    cut("a.sqlite", share)
    data = Path("a.sqlite").read_bytes()
    result = judgebench("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "store=a.sqlite", mistaken=True)
    told(result, "store=a.sqlite", "name a")
    assert not Path("run").exists()
    assert Path("a.sqlite").read_bytes()[: len(data) // 2] == data[: len(data) // 2]


def test_a_studys_journal(tmp_path):
    path = tmp_path / "a.journal"
    storage = open_storage(f"journal:{path}")
    for name in "abc":
        storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], name)
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])
    with pytest.raises(
        UserError, match=rf"hydra.sweeper.storage: {path} is no journal of Optuna's; choose another file"
    ):
        open_storage(f"journal:{path}")


@pytest.mark.parametrize("text", ['{"phrase": "a', "", '{"phrase": ', "[" * 5000, '{"phrase": 1}', "\x00"])
def test_a_phrase(judgebench, tiny_pair, text):
    Path("phrase.json").write_text(text)
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "attack=phrase", "attack.phrase_file=phrase.json", *QUICK)
    told(judgebench(*given, mistaken=True), "attack.phrase_file", "phrase.json")


@pytest.mark.parametrize("text", ['[{"defense": "perplexity"', "", "[" * 5000, "{}", '[{"defense": "perplexity"}]'])
def test_detectors(judgebench, tiny_pair, text):
    Path("detectors.json").write_text(text)
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "defenses=[none,perplexity]", "attacks=[dsi]", *QUICK)
    told(judgebench(*given, "defense.detectors=detectors.json", mistaken=True), "defense.detectors: detectors.json")


@pytest.mark.parametrize("kind", ["tokenizer.json", "config.json"])
def test_a_tokenizer_and_a_configuration(judgebench, tmp_path, smollm2_tokenizer, kind):
    folder = tmp_path / "cut"
    tiny_llama(1).save_pretrained(folder)
    smollm2_tokenizer.save_pretrained(folder)
    cut(folder / kind)
    result = judgebench("judge=local", f"judge.path={folder}", *QUICK, mistaken=True)
    told(result, f"judge.path={folder}: its", "cannot be loaded")


def test_a_search_whose_steps_are_cut_off_is_done_again(tmp_path):
    import pandas as pd

    from judgebench.attacks.adv_suffix import Journal

    journal = Journal(tmp_path, {"words": 3})
    journal.put("word_1", pd.DataFrame({"score": [1.0] * 50}))
    (path,) = tmp_path.glob("*/word_1.parquet")
    cut(path)
    assert journal.get("word_1") is None
    journal.put("word_1", pd.DataFrame({"score": [2.0]}))
    assert journal.get("word_1")["score"].tolist() == [2.0]


def test_a_sweeps_study_file_is_written_anew(judgebench, tiny_pair):
    Path("run").mkdir()
    Path("run/study.json").write_text('{"trials": [')
    swept = ("decoding.lambda=0.1,0.5", "decoding.temperature=1", "+sweeps=cd_lambda_t")
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "assistant=null_context", *QUICK, "data.dev_share=0.5")
    judgebench("-m", *given, "decoding=[contrastive]", *swept)
    assert len(json.loads(Path("run/study.json").read_text())["trials"]) == 2
