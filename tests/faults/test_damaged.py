"""Files that an earlier crash has cut off, or that hold something else: a sentence names the file and what to do."""

import json
import struct
from pathlib import Path

import numpy as np
import optuna
import pytest
from safetensors.numpy import load_file, save_file

from judgebench.command.paper import main as tables
from judgebench.judges.local.loading import ModelSource
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.results.folder import RunFolder
from judgebench.study.storage import open_storage
from judgebench.tutor.spec import Sizes
from judgebench.tutor.vectors import load_vectors
from judgebench.words.errors import UserError
from tests.conftest import QUICK, told
from tests.models import tiny_llama, write_gguf
from tests.runs.test_reference import ASKED, TUTOR


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


def test_tables_of_a_run_that_is_damaged(judgebench, tiny_pair, capfd):
    model = ("judge=local", f"judge.path={tiny_pair[0]}", "judge.dtype=float32", *ASKED, *TUTOR)
    judgebench(*model, "decoding=[expectation]", "defenses=[none,random_reference]")
    capfd.readouterr()
    for name in ("metrics.json", "config.yaml", "defense/references.parquet", "defense/costs.json"):
        path = Path("run", name)
        whole = path.read_bytes()
        path.write_bytes(b"judge: [1\n" if name == "config.yaml" else whole[: len(whole) // 2])
        assert tables(["run"]) == 2
        out, err = capfd.readouterr()
        assert err.startswith(f"judgebench: {path}: cannot be read (")
        assert err.endswith("; restore the file or run again.\n")
        assert not out
        path.write_bytes(whole)


def test_standard_vectors(tmp_path):
    file = tmp_path / "vectors_joint.safetensors"
    save_file({"high": np.zeros((2, 4), np.float32)}, file)
    for share in (0.9, 0.5, 0.01):
        cut(file, share)
        with pytest.raises(UserError, match=rf"tutor.vectors={file}: cannot be read as safetensors"):
            load_vectors(file, "", Sizes(2, 4, 0))


@pytest.mark.parametrize(
    ("file", "share", "what"),
    [
        *(("model.safetensors", share, "model cannot be loaded (") for share in (0.9, 0.0001)),
        *((name, 0.5, "") for name in ("tokenizer.json", "config.json")),
    ],
)
def test_a_models_files(judgebench, model_folder, file, share, what):
    cut(model_folder / file, share)
    result = judgebench("judge=local", f"judge.path={model_folder}", *QUICK, mistaken=True)
    told(result, f"judge.path={model_folder}: its {what}", "cannot be loaded", "fetch it again" if what else "")


def test_a_models_weights_of_another_shape(judgebench, model_folder):
    weights = load_file(model_folder / "model.safetensors")
    del weights["model.layers.2.mlp.up_proj.weight"]
    save_file(weights, model_folder / "model.safetensors", {"format": "pt"})
    result = judgebench("judge=local", f"judge.path={model_folder}", *QUICK, mistaken=True)
    told(result, f"judge.path={model_folder}", "model.layers.2.mlp.up_proj.weight")


def test_a_gguf_file(tmp_path):
    whole = tmp_path / "judge.gguf"
    write_gguf(tiny_llama(1, layers=1), whole)
    data = whole.read_bytes()
    assert ModelSource(str(whole)).model().config.hidden_size == 32  # whole, it is a model
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


LEARNED = {
    "attacks: adv_suffix.phrase_file": (
        "attacks=[dsi,{name: adv_suffix, phrase_file: learned.json}]",
        ['{"phrase": "a', '{"phrase": ', '{"phrase": 1}', "\x00", "", "[" * 5000],
    ),
    "defenses: perplexity.detectors": (
        "defenses=[none,{name: perplexity, detectors: learned.json}]",
        ['[{"defense": "perplexity"', "{}", '[{"defense": "perplexity"}]', "", "[" * 5000],
    ),
}


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, (_, texts) in LEARNED.items() for text in texts])
def test_what_another_run_has_learned(judgebench, tiny_pair, key, text):
    Path("learned.json").write_text(text)
    given = ("judge=local", f"judge.path={tiny_pair[0]}", LEARNED[key][0], *QUICK)
    told(judgebench(*given, mistaken=True), key, "learned.json")


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
