from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from judgebench.errors import UserError
from judgebench.report.run_folder import READINGS_SCHEMA, SCORES_SCHEMA, RunFolder


def test_readings_come_back_as_they_were_written(run, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_readings(run.readings)
    back = folder.readings()
    assert list(back.columns) == READINGS_SCHEMA.names
    assert back["candidates"].tolist() == run.readings["candidates"].tolist()
    given = np.array(run.readings["main_logprobs"].tolist(), dtype=np.float32)
    assert np.array_equal(np.array(back["main_logprobs"].tolist(), dtype=np.float32), given)
    assert back["text"].isna().all()
    assert back["judge"].isna().all()
    assert back["prompt"].tolist() == run.readings["prompt"].tolist()
    assert back["range_step"].dtype == np.float64
    assert back["prompt_tokens"].dtype == np.int64


def test_logprobs_are_lists_of_float32_on_disk(run, tmp_path):
    RunFolder(tmp_path).write_readings(run.readings)
    schema = pq.read_schema(tmp_path / "readings.parquet")
    assert str(schema.field("main_logprobs").type) == "list<element: float>"
    assert str(schema.field("candidates").type) == "list<element: string>"
    assert schema.equals(READINGS_SCHEMA, check_metadata=False)


def test_missing_logprobs_and_minus_infinity_survive(run, tmp_path):
    readings = run.readings.head(2).copy()
    readings["assistant_logprobs"] = [None, None]
    readings["main_logprobs"] = [[-np.inf, -1.0, -2.0, -3.0, -4.0], None]
    RunFolder(tmp_path).write_readings(readings)
    back = RunFolder(tmp_path).readings()
    assert back["assistant_logprobs"].tolist() == [None, None]
    assert back["main_logprobs"].tolist() == [[-np.inf, -1.0, -2.0, -3.0, -4.0], None]


def test_generated_readings_come_back(builder, tmp_path):
    run = builder(articles=3, generated=True)
    RunFolder(tmp_path).write_readings(run.readings)
    back = RunFolder(tmp_path).readings(["text", "judge", "main_logprobs"])
    assert back["text"].tolist() == run.readings["text"].tolist()
    assert set(back["judge"]) == {"main"}
    assert back["main_logprobs"].isna().all()


def test_empty_readings_keep_their_columns(run, tmp_path):
    RunFolder(tmp_path).write_readings(run.readings.head(0))
    assert list(RunFolder(tmp_path).readings().columns) == READINGS_SCHEMA.names


def test_scores_come_back_as_they_were_written(run, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_scores(run.scores)
    expected = run.scores[SCORES_SCHEMA.names]
    pd.testing.assert_frame_equal(folder.scores(), expected, check_dtype=False)
    assert folder.scores()["lambda"].isna().any()


def test_repeated_prefixes_compress_away(run, tmp_path):
    readings = run.readings.copy()
    article = " ".join(str(x) for x in np.random.default_rng(0).integers(0, 10**6, 3000))
    readings["prompt"] = [f"{article} {i}" for i in range(len(readings))]
    RunFolder(tmp_path).write_readings(readings)
    assert (tmp_path / "readings.parquet").stat().st_size < readings["prompt"].str.len().sum() / 50


def test_unknown_or_missing_columns_are_refused(run, tmp_path):
    with pytest.raises(ValueError, match=r"\['human'\] are missing and \['humam'\] are unknown"):
        RunFolder(tmp_path).write_scores(run.scores.rename(columns={"human": "humam"}))


def test_failing_write_leaves_the_old_file(run, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.write_scores(run.scores)

    def half(table, where, **_):
        where.write_bytes(b"PAR1 and no more")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="disk full"):
        folder.write_scores(run.scores.head(1))
    monkeypatch.undo()
    assert len(folder.scores()) == len(run.scores)
    assert os.listdir(tmp_path) == ["scores.parquet"]


def test_metrics_come_back_and_are_strict_json(run, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_metrics([{**run.records[0], "pearson": float("nan"), "n": np.int64(7), "flags": ("constant",)}])
    text = (tmp_path / "metrics.json").read_text()
    record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))[0]
    assert record["pearson"] is None
    assert record["n"] == 7
    assert record["flags"] == ["constant"]
    assert folder.metrics() == [record]


def test_config_is_resolved_and_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-0123456789abcdefghij")
    config = OmegaConf.create(
        {"judge": {"api_key": "${oc.env:MY_KEY}", "header": "Bearer ${judge.api_key}"}, "seed": 1, "again": "${seed}"}
    )
    written = RunFolder(tmp_path).write_config(config)
    assert written == {"judge": {"api_key": "***", "header": "Bearer ***"}, "seed": 1, "again": 1}
    assert RunFolder.open(tmp_path).config() == written
    assert "sk-0123" not in (tmp_path / "config.yaml").read_text()
    assert config.judge.api_key == "sk-0123456789abcdefghij"


def test_environment_comes_back(tmp_path):
    folder = RunFolder(tmp_path)
    given = folder.write_environment(
        device="cpu", model_fingerprints={"main": "abc"}, seconds={"read": 1.5}, tokens={"total": 10, "unique": 4}
    )
    assert folder.environment() == given
    assert given["seconds"] == {"read": 1.5}
    assert given["tokens"] == {"total": 10, "unique": 4}
    assert given["model_fingerprints"] == {"main": "abc"}


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("a file")])
def test_what_is_no_run_folder_is_refused_with_a_sentence(tmp_path, make):
    path = tmp_path / "run"
    make(path)
    with pytest.raises(UserError, match=str(path)):
        RunFolder.open(path)


def test_unfinished_run_is_told_from_a_damaged_one(tmp_path):
    RunFolder(tmp_path).write_config({"seed": 1})
    folder = RunFolder.open(tmp_path)
    with pytest.raises(UserError, match=r"scores.parquet: missing, so this run did not finish"):
        folder.scores()
    (tmp_path / "scores.parquet").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"scores.parquet: cannot be read"):
        folder.scores()
    (tmp_path / "metrics.json").write_text('[{"n": ')
    with pytest.raises(UserError, match=r"metrics.json: cannot be read"):
        folder.metrics()
