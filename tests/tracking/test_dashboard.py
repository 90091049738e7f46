"""The workspaces show what runs have logged, under the names that it was logged by."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from judgebench.metrics.paired import compare, default_pairs
from judgebench.results.folder import RunFolder
from judgebench.tracking.records import differences, scalars
from tests.report.attacked import attacked_run
from tests.report.conftest import RULES, build_run, columns

SCRIPT = Path(__file__).parents[2] / "scripts" / "wandb_dashboard.py"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("wandb_workspaces") is None, reason="pip install wandb-workspaces"
)


def dashboard(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> RunFolder:
    """A run folder with clean and attacked texts."""
    run = build_run(decodings=("greedy", "contrastive"), articles=6, systems=3)
    attacked = attacked_run(run)
    given = columns(attacked.run.scores)
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write("config", {"seed": 0})
    folder.write("metrics", attacked.run.records)
    rules = {name: RULES[name] for name in ("greedy", "contrastive")}
    clean = columns(run.scores)
    folder.write(
        "comparisons", compare(clean, default_pairs(clean, rules), "summeval", ["dataset"], resamples=20, seed=0)
    )
    assert len(given["score"]) > len(clean["score"])
    (folder.path / "figures").mkdir()
    (folder.path / "figures" / "scores_coherence.png").write_bytes(b"")
    return folder


@pytest.mark.parametrize("kind", ["cd", "cap"])
def test_every_panel_is_of_something_that_was_logged(folder, kind):
    done = dashboard(kind, folder.path, "--entity", "me", "--dry-run")
    assert done.returncode == 0, done.stderr
    spec = json.loads(done.stdout)
    logged = {*scalars(folder.read("metrics")), *differences(folder.read("comparisons"))}
    named = re.findall(r'"summary(?:_metrics\.|:)([^"]+)"', json.dumps(spec))
    assert named
    assert set(named) <= logged
    attacked = [name for name in named if "attack=" in name]
    assert bool(attacked) == (kind == "cap")
    assert "figures/scores_coherence" in done.stdout


def test_a_folder_that_no_run_wrote_is_a_sentence(tmp_path):
    done = dashboard("cd", tmp_path, "--entity", "me", "--dry-run")
    assert done.returncode == 2
    assert "not a run folder" in done.stderr
    assert "Traceback" not in done.stderr
