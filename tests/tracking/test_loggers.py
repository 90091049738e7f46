"""Every logger of Lightning's interface is given the same run: settings without secrets, numbers, files."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from judgebench.results.folder import masked
from judgebench.results.results import Results
from judgebench.tracking import loggers
from judgebench.tracking.content import headlines
from judgebench.tracking.loggers import check_loggers, log_run
from judgebench.words.errors import UserError
from tests.tracking.test_wandb_logger import RECORDS, SECRET, figure, logger_for, results_of

SPEARMAN = "coherence/spearman"
CSV = {"_target_": "lightning.pytorch.loggers.CSVLogger", "save_dir": "x"}


def logged(folder, *names):
    """A run folder in which a run was logged by some choices of `logger`."""
    config = masked({"judge": {"api_key": SECRET}, "seed": 7})
    path = folder / "metrics.json"
    path.write_text("[]")
    verdict = [{"dimension": "coherence", "use": "order", "verdict": "yes"}]
    results = results_of(config=config, verdict=verdict, metrics=RECORDS[:1])
    log_run(logger_for(folder, *names), results, {"scores": figure()}, [path])
    return folder


def test_headlines_are_of_the_advised_setting_and_of_the_run():
    frozen = Path(__file__).parents[1] / "golden" / "expected" / "demo"
    paths = [*map(frozen.joinpath, ("metrics.json", "choice.json", "humans.json")), *frozen.glob("worth/*.json")]
    records = {path.stem: json.loads(path.read_text()) for path in paths}
    environment = {"tokens": {"main": 5, "assistant": 6}, "seconds": {"read": 1.5}, "served": {"cost": None}}
    found = headlines(Results(**records, environment=environment))
    assert (found.pop("tokens"), found.pop("seconds")) == (11.0, 1.5)
    (advised,) = [record for record in records["choice"] if record["taken"]]

    def of(name, **more):
        cell = {key: advised[key] for key in ("judge", "decoding", "range_min", "range_max")} | more
        return next(record for record in records[name] if cell.items() <= record.items())

    metrics = of("metrics", level="dataset", split="test")
    figures = {name: metrics[name] for name in ("spearman", "spearman_low", "spearman_high", "failed_share")}
    figures["spearman_within"] = of("metrics", level="document", split="test")["spearman"]
    figures["spearman_rater"] = records["humans"][0]["ceiling"]
    figures["pairs_of_systems"] = of("systems")["pairwise_others"]
    figures["error"] = of("beside_humans", scores="raw")["mae"]
    figures["error_calibrated"] = of("beside_humans", scores="calibrated")["mae"]
    assert 0 < found.pop("quality/range_share") < 1
    assert found == {f"quality/{name}": value for name, value in figures.items()}


def test_a_list_logs_to_each(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    logged(tmp_path, "csv", "wandb")
    (row,) = csv.DictReader((tmp_path / "csv" / "metrics.csv").open())
    assert float(row[SPEARMAN]) == 0.25
    settings = yaml.safe_load((tmp_path / "csv" / "hparams.yaml").read_text())
    assert settings == {"judge": {"api_key": "***"}, "seed": 7, "verdict/coherence/order": "yes"}
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(logged(tmp_path, "tensorboard") / "tensorboard"))
    read.Reload()
    assert read.Scalars(SPEARMAN)[0].value == 0.25
    assert read.Tags()["images"] == ["figures/scores"]


def test_mlflow(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    logged(tmp_path, "mlflow")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("judgebench").experiment_id])
    assert run.data.metrics[SPEARMAN] == 0.25
    assert run.data.params["judge/api_key"] == "***"
    assert run.info.status == "FINISHED"
    assert {each.path for each in client.list_artifacts(run.info.run_id)} == {"figures", "results"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"csv": CSV | {"nam": "x"}},
            "logger=csv: .*CSVLogger: got an unexpected keyword argument 'nam'",
        ),
        (
            {"mine": {"_target_": "nowhere.Logger"}},
            "logger=mine: nowhere.Logger: Error locating target 'nowhere.Logger'",
        ),
        ({"mlflow": CSV}, "logger=mlflow: it needs what is not installed; `pip install mlflow`"),
    ],
)
def test_what_cannot_log_is_a_sentence_before_anything_is_read(settings, said, monkeypatch):
    monkeypatch.setattr(loggers, "find_spec", lambda name: None if name == "mlflow" else name)
    with pytest.raises(UserError, match=said):
        check_loggers(settings)
