import json
import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from judgebench.report.figures.style import figure_files
from judgebench.report.layout import draw_all
from judgebench.results.folder import RunFolder, masked
from judgebench.results.results import examples_frame, ratings_frame, texts_frame
from judgebench.results.schema import ARTIFACTS, FILES, READINGS_SCHEMA, SCORES_SCHEMA, SERVED_SCHEMA
from judgebench.types import Condition, Example, Prompt, ScoreRange
from judgebench.words.errors import UserError
from tests.report.conftest import results_of


def test_missing_logprobs_and_minus_infinity_survive(run, tmp_path):
    readings = run.readings.head(2).copy()
    readings["assistant_logprobs"] = [None, None]
    readings["main_logprobs"] = [[-np.inf, -1.0, -2.0, -3.0, -4.0], None]
    RunFolder(tmp_path).write("readings", readings)
    assert pq.read_schema(tmp_path / "readings.parquet").equals(READINGS_SCHEMA, check_metadata=False)
    back = RunFolder(tmp_path).read("readings")
    RunFolder(tmp_path).write("scores", run.scores)
    scores = run.scores[SCORES_SCHEMA.names]
    pd.testing.assert_frame_equal(RunFolder(tmp_path).read("scores"), scores, check_dtype=False)
    for name in ("example_id", "candidates", "prompt", "range_step", "prompt_tokens"):
        assert back[name].tolist() == readings[name].tolist()
    assert back["assistant_logprobs"].tolist() == [None, None]
    assert back["main_logprobs"].tolist() == [[-np.inf, -1.0, -2.0, -3.0, -4.0], None]


def test_repeated_prefixes_compress_away(run, tmp_path):
    readings = run.readings.copy()
    article = " ".join(str(x) for x in np.random.default_rng(0).integers(0, 10**6, 3000))
    readings["prompt"] = [f"{article} {i}" for i in range(len(readings))]
    RunFolder(tmp_path).write("readings", readings)
    assert (tmp_path / "readings.parquet").stat().st_size < readings["prompt"].str.len().sum() / 50


def test_unknown_or_missing_columns_are_refused(run, tmp_path):
    with pytest.raises(ValueError, match=r"\['human'\] are missing and \['humam'\] are unknown"):
        RunFolder(tmp_path).write("scores", run.scores.rename(columns={"human": "humam"}))


def test_metrics_come_back_and_are_strict_json(run, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write("metrics", [{**run.records[0], "pearson": float("nan"), "n": np.int64(7), "flags": ("constant",)}])
    text = (tmp_path / "metrics.json").read_text()
    record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))[0]
    assert record["pearson"] is None
    assert record["n"] == 7
    assert record["flags"] == ["constant"]
    assert folder.read("metrics") == [record]
    assert folder.read("suffix") is None


def test_config_is_resolved_and_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-0123456789abcdefghij")
    config = OmegaConf.create(
        {"judge": {"api_key": "${oc.env:MY_KEY}", "header": "Bearer ${judge.api_key}"}, "seed": 1, "again": "${seed}"}
    )
    written = masked(config)
    RunFolder(tmp_path).write("config", written)
    assert written == {"judge": {"api_key": "***", "header": "Bearer ***"}, "seed": 1, "again": 1}
    assert RunFolder.open(tmp_path).read("config") == written
    assert "sk-0123" not in (tmp_path / "config.yaml").read_text()
    assert config.judge.api_key == "sk-0123456789abcdefghij"


def test_what_is_no_run_folder_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("a file")
    for name in ("nowhere", "empty", "file", "x" * 300):
        with pytest.raises(UserError, match=str(tmp_path / name)):
            RunFolder.open(tmp_path / name)


def a_file(tmp_path):
    (tmp_path / "run").write_text("a file")
    return tmp_path / "run"


def under_a_file(tmp_path):
    return a_file(tmp_path) / "deeper" / "run"


def too_long(tmp_path):
    return tmp_path / "new" / ("x" * 300)


def a_link_to_nowhere(tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "nowhere")
    return tmp_path / "run"


def figures_is_a_file(tmp_path):
    (tmp_path / "figures").write_text("a file")
    return tmp_path


def a_name_is_taken_by_a_folder(tmp_path):
    (tmp_path / "scores.parquet").mkdir()
    return tmp_path


UNUSABLE = [a_file, under_a_file, too_long, a_link_to_nowhere, figures_is_a_file, a_name_is_taken_by_a_folder]


def everything(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize("make", UNUSABLE)
def test_what_cannot_be_a_run_folder_is_refused_before_anything_is_written(tmp_path, make):
    path = make(tmp_path)
    before = everything(tmp_path)
    with pytest.raises(UserError, match=f"run_dir: {path}"):
        RunFolder.check(path)
    assert everything(tmp_path) == before
    for nothing in ("", None, "a\0b"):
        with pytest.raises(UserError, match="run_dir: "):
            RunFolder.check(nothing)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    for path in (tmp_path, tmp_path / "new" / "run"):
        with pytest.raises(UserError, match="Permission denied"):
            RunFolder.check(path)


@pytest.mark.parametrize("path", ["run", "new/deep/run", "new/../other/../../work/run"])
def test_a_trial_leaves_nothing_behind(tmp_path, monkeypatch, path):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert str(RunFolder.check(path).path) == path
    assert everything(tmp_path) == [(tmp_path / "work").relative_to(tmp_path)]


@pytest.mark.parametrize("make", UNUSABLE[:4])
def test_every_write_that_fails_is_a_sentence(run, tmp_path, make):
    folder = RunFolder(make(tmp_path))
    for write in (
        lambda: folder.write("config", {}),
        lambda: folder.write("scores", run.scores),
        lambda: folder.write("metrics", []),
        lambda: folder.write_file("figures/logprobs_coherence.png", b""),
        lambda: folder.write_file("report.html", ""),
    ):
        with pytest.raises(UserError, match=f"run_dir: {folder.path}"):
            write()


def test_nothing_of_an_earlier_run_survives_and_nothing_else_goes(builder, tmp_path):
    run = builder(articles=3, dimensions=("tone / style", "coherence"), ranges=[ScoreRange(1, 5)])
    folder = RunFolder(tmp_path)
    example = Example("a", "g", "s", "source", "output", {"coherence": 1.0})
    prompt = Prompt(example, Condition("coherence", ScoreRange(1, 5), "dsi"), "", "", np.zeros(0, np.int32))
    nothing = dict.fromkeys(("role", "candidates", "lower", "upper", "unlisted", "texts"))
    frames = {
        "readings": run.readings,
        "scores": run.scores,
        "served": run.readings.assign(**nothing)[SERVED_SCHEMA.names],
        "examples": examples_frame([example], {"g": "dev"}),
        "ratings": ratings_frame([example], {"coherence": np.ones((1, 2))}, ("ann", "bob"), {"g": "dev"}),
        "texts": texts_frame([(prompt, "changed")]),
        "trace": pd.DataFrame({"word": ["superb"], "score": [1.5]}),
        "probes": run.scores,
    }
    for artifact in ARTIFACTS:
        folder.write(artifact.name, frames.get(artifact.name, [{"n": 1}])) if artifact.name != "references" else None
    for name, drawing in figure_files(draw_all(results_of(run))).items():
        folder.write_file(f"figures/{name}", drawing)
    assert pd.read_parquet(tmp_path / "attack/trace.parquet").equals(frames["trace"])
    names = ["report.html", "tables/table_1.txt", "tables/own_settings_coherence.tex", "tables/cap_own_mini_joint.md"]
    names += [f"attack/{name}.json" for name in ("phrase", "phrase_expectation", "phrase_contrastive")]
    names += [
        "run.log",
        "figures/suffix_adv_suffix_joint.png",
        ".scores.parquet.123.tmp",
        "attack/.suffix.json.123.tmp",
    ]
    for name in (*names, "figures/.logprobs_coherence.png.123.tmp"):
        folder.write_file(name, "of an earlier run")
    folder.write_digests()
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {*FILES, ".scores.parquet.123.tmp"}
    names = ["notes.md", "wandb", ".notes.md.1.tmp", "figures/mine.png", "figures/scores.txt", "tables/mine.txt"]
    kept = [folder.write_file(name, "mine") for name in (*names, "attack/a", "run.log")]  # of the run that begins
    folder.clear()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
