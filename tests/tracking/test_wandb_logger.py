import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from PIL import Image

from judgebench.results.folder import RunFolder, masked
from judgebench.results.results import Results
from judgebench.tracking.content import differences, scalars
from judgebench.tracking.loggers import check_loggers, log_run
from tests.report.defended_records import defense_records
from tests.tracking.wandb_file import read_finished, the_file

CONF = Path(__file__).parents[2] / "conf"
SECRET = "sk-0123456789abcdefghijklmnop"
KEY = "0123456789abcdef0123456789abcdef01234567"


def cell(**more):
    base = {"split": "test", "dimension": "coherence", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0}
    return base | {"attack": "none", "defense": "none", "lambda": np.nan, "temperature": np.nan} | more


def record(**more):
    base = {"dataset": "mini", "level": "dataset", "judge": "main", "decoding": "greedy", "n": 3, "groups": 2}
    base |= cell(**{"lambda": None, "temperature": None}) | {"pearson": 0.5, "spearman": 0.25, "kendall": 0.2}
    return base | {"spearman_low": None, "spearman_high": None, "failed_share": 0.0, "flags": []} | more


def example(i, **more):
    return {"example_id": f"e{i}", "group_id": f"g{i // 2}", "system_id": "s", **cell(**more)}


RECORDS = [
    record(),
    record(judge="pair", decoding="contrastive", spearman=0.375, **{"lambda": 0.5, "temperature": 2.0}),
    record(split="dev", spearman=0.9, flags=["inverted", "constant"]),
    record(level="system", spearman=-1.0),
]
SCORES = pd.DataFrame(
    [
        example(i) | {"judge": judge, "decoding": "greedy", "score": float(1 + i), "status": status, "human": 2.5}
        for i in range(3)
        for judge, status in (("main", "parsed"), ("assistant", "failed"))
    ]
)
READINGS = pd.DataFrame(
    [
        example(i, judge=None, decoding=None)
        | {"candidates": list("12345"), "main_logprobs": None, "assistant_logprobs": None, "text": None}
        | {"prompt": f"Rate text {i}.", "prompt_tokens": 4, "source_tokens_cut": 0, "control_tokens": 0, "seconds": 0.1}
        for i in range(3)
    ]
)


def difference(**more):
    base = {"dataset": "mini", "level": "dataset", **cell(), "ranges": 1, "statistic": "spearman", "n": 3, "groups": 2}
    base |= {"first_judge": "pair", "first_decoding": "contrastive", "first_lambda": 0.5, "first_temperature": 2.0}
    base |= {"second_judge": "main", "second_decoding": "greedy", "second_lambda": None, "second_temperature": None}
    return base | {"difference": 0.125, "low": None, "high": None, "p": 0.5, "p_holm": 1.0, "says": "better"} | more


COMPARISONS = [
    difference(),
    difference(range_min=None, range_max=None, range_step=None, difference=0.0625),
    difference(statistic="pearson", difference=0.75),
    difference(level="system", difference=0.875),
]
DEFENSE = ("standards", "strengths", "costs", "references")


def results_of(**more):
    return Results(**{"readings": READINGS, "scores": SCORES, "metrics": RECORDS} | more)


def figure():
    drawn = Figure(figsize=(4, 3))
    drawn.subplots().plot([1, 2])
    drawn.set_label("What is to be seen.")
    return drawn


def logger_for(run_dir, *names, **more):
    """What makes the loggers of some choices of conf/logger, W&B's unless others are named."""
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("config", [f"logger=[{','.join(names or ('wandb',))}]", f"run_dir={run_dir}"])
    return check_loggers(OmegaConf.merge(config, {"logger": more}).logger)


def logged_files(run_dir):
    (folder,) = (Path(run_dir) / "wandb").glob("offline-run-*")
    return folder, read_finished(the_file(folder))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own for W&B, so that what it leaves there can be seen."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory, home):
    """One real offline run, logged as the pipeline does it."""
    path = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("WANDB_API_KEY", KEY)
        patch.setattr(sys, "argv", ["judgebench", f"judge.api_key={SECRET}"])
        config = masked({"judge": {"name": "smol", "api_key": SECRET}, "ranges": [[1, 5]]})
        found = {name: getattr(defense_records(), name) for name in DEFENSE}
        files = [RunFolder(path).write(name, value) for name, value in found.items()]
        results = results_of(config=config, comparisons=COMPARISONS, **found)
        log_run(logger_for(path), results, {"scores_coherence": figure()}, files)
    return path


@pytest.fixture(scope="module")
def logged(run_dir):
    return logged_files(run_dir)[1]


def test_config_and_numbers_are_logged_and_the_run_is_finished(logged):
    assert logged.config["judge"] == {"name": "smol", "api_key": "***"}
    assert logged.config["ranges"] == [[1, 5]]
    assert logged.exit_code == 0
    expected = {
        "test/coherence/1-5/main/greedy/spearman": 0.25,
        "test/coherence/1-5/pair/contrastive/spearman": 0.375,
        "test/coherence/1-5/pair/contrastive/lambda": 0.5,
        "dev/coherence/1-5/main/greedy/spearman": 0.9,
        "test/coherence/1-5/pair contrastive minus/main greedy/difference": 0.125,
        "test/coherence/mean/pair contrastive minus/main greedy/difference": 0.0625,
        "test/coherence/1-5/pair contrastive minus/main greedy/p_holm": 1.0,
        "coherence/spearman": 0.25,
        "coherence/failed_share": 0.0,
    }
    assert {name: logged.summary[name] for name in expected} == expected
    assert not any("low" in name for name in logged.summary)  # which are null
    assert not any(value in (-1.0, 0.75, 0.875) for value in logged.summary.values())  # of other levels and statistics


def test_lambdas_compared_side_by_side_keep_names_of_their_own():
    found = differences([difference(), difference(first_lambda=0.1), difference(split="dev", difference=0.5)])
    assert {name for name in found if name.endswith("difference")} == {
        f"test/coherence/1-5/pair contrastive minus/main greedy lambda={value} t=2/difference" for value in (0.5, 0.1)
    }


def test_tables_hold_records(run_dir, logged):
    assert [row["difference"] for row in table(run_dir, logged, "comparisons")] == [0.125, 0.0625, 0.75, 0.875]
    rows = table(run_dir, logged, "metrics")
    assert [row["spearman"] for row in rows] == [0.25, 0.375, 0.9, -1.0]
    assert (rows[0]["lambda"], rows[1]["lambda"], rows[2]["flags"]) == (None, 0.5, "inverted, constant")


def table(run_dir, logged, name):
    told = logged.history[name]
    assert told["_type"] == "table-file"
    content = json.loads((logged_files(run_dir)[0] / "files" / told["path"]).read_text())
    return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def test_what_defenses_found_is_in_the_artifact(logged):
    assert logged.artifacts == [("results", {"standards.json", "strengths.json", "costs.json", "references.parquet"})]


def test_figures_are_images(run_dir, logged):
    told = logged.history["figures"]["scores_coherence"] if "figures" in logged.history else None
    told = told or logged.history["figures/scores_coherence"]
    assert told["_type"] == "image-file"
    assert told["caption"] == "What is to be seen."
    with Image.open(logged_files(run_dir)[0] / "files" / told["path"]) as image:
        assert image.size == (800, 600)


def test_nothing_leaks(run_dir):
    folder, logged = logged_files(run_dir)
    text = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for secret in (SECRET, KEY, "judge.api_key="):
        assert secret.encode() not in text
    assert "environment" not in logged.kinds  # host, user, command line
    assert not (folder / "files" / "wandb-metadata.json").exists()
    assert getpass.getuser() not in str(logged.config)


def test_files_stay_in_the_run_folder(run_dir, home):
    left = [path for path in home.rglob("*") if path.is_file() and "matplotlib" not in str(path)]
    assert [path for path in left if "logs" not in path.parts] == []
    assert os.environ.get("WANDB_DATA_DIR") is None


def test_jobs_of_a_multirun_do_not_mix(tmp_path):
    for name in ("a", "b"):
        log_run(logger_for(tmp_path / name), results_of(config={"name": name}, metrics=[record(dataset=name)]), {})
    for name in ("a", "b"):
        assert logged_files(tmp_path / name)[1].config["name"] == name


def test_failed_logging_still_ends_the_run(tmp_path):
    with pytest.raises(KeyError):
        log_run(logger_for(tmp_path), results_of(metrics=[{"no": "record"}]), {})
    assert logged_files(tmp_path)[1].exit_code == 1
    import wandb

    assert wandb.run is None


def test_scalar_names_tell_settings_and_attacks_apart():
    grid = [record(judge="pair", decoding="contrastive", **{"lambda": x, "temperature": 1.0}) for x in (0.1, 0.5)]
    names = [name for name in scalars(grid) if name.endswith("/spearman")]
    assert names == [f"test/coherence/1-5/pair/contrastive lambda={x} t=1/spearman" for x in (0.1, 0.5)]
    half = [record(judge="pair", decoding="mine", **{"lambda": x}) for x in (0.1, 0.5)]
    assert "test/coherence/1-5/pair/mine lambda=0.1/spearman" in scalars(half)
    (name,) = [name for name in scalars([record(attack="dsi", defense="cap")]) if name.endswith("/failed_share")]
    assert name == "test/coherence/attack=dsi/defense=cap/1-5/main/greedy/failed_share"
    assert "test/coherence/1.0-5.0 by 0.5/main/greedy/spearman" in scalars([record(range_step=0.5)])
    assert "test/coherence/level=system/1-5/main/greedy/spearman" in scalars(
        [record(level="system"), record(level="document")]
    )


def test_mode_comes_from_the_environment_and_config_wins(monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_MODE", raising=False)

    def mode(**more):
        (make,) = logger_for(tmp_path, **more)
        return make()._init["mode"]

    assert mode() == "offline"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert mode() == "disabled"
    assert mode(mode="online") == "online"


SCRIPT = """
import sys
from tests.tracking.test_wandb_logger import figure, log_run, logger_for, results_of
log_run(logger_for(sys.argv[1]), results_of(), {"a": figure()})
"""


def test_offline_is_silent_and_never_turns_to_the_network(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    trace = tmp_path / "trace.txt"
    if shutil.which("strace"):
        command = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=connect,sendto", "-o", str(trace), *command]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "wandb" not in done.stderr
    assert list(tmp_path.rglob("*.wandb"))
    if trace.exists():
        assert "AF_UNIX" in trace.read_text()  # the trace sees W&B's background service
        assert "AF_INET" not in trace.read_text()
