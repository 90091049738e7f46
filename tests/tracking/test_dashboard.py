"""The workspaces show what runs have logged, under the names that it was logged by."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from judgebench.results.folder import RunFolder
from judgebench.studies.paired import compare, default_pairs
from judgebench.studies.scores import Scores
from judgebench.tracking.content import differences, scalars
from tests.report.attacked import attacked_run
from tests.report.conftest import RULES, build_run, columns

SCRIPT = Path(__file__).parents[2] / "scripts" / "wandb_dashboard.py"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("wandb_workspaces") is None, reason="pip install wandb-workspaces"
)


@pytest.fixture
def dashboard(capsys):
    """The script in this process: arguments -> (exit code, stdout, stderr)."""
    spec = importlib.util.spec_from_file_location("wandb_dashboard", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(*arguments) -> tuple[int, str, str]:
        code = script.main(list(map(str, arguments)))
        return code, *capsys.readouterr()

    return run


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
        "comparisons",
        compare(clean, default_pairs(Scores.of(clean).cells, rules), "summeval", ["dataset"], resamples=20, seed=0),
    )
    assert len(given["score"]) > len(clean["score"])
    (folder.path / "figures").mkdir()
    (folder.path / "figures" / "scores_coherence.png").write_bytes(b"")
    return folder


@pytest.mark.parametrize("kind", ["cd", "cap"])
def test_every_panel_is_of_something_that_was_logged(dashboard, folder, kind):
    code, out, err = dashboard(kind, folder.path, "--entity", "me", "--dry-run")
    assert code == 0, err
    spec = json.loads(out)
    logged = {*scalars(folder.read("metrics")), *differences(folder.read("comparisons"))}
    named = re.findall(r'"summary(?:_metrics\.|:)([^"]+)"', json.dumps(spec))
    assert named
    assert set(named) <= logged
    attacked = [name for name in named if "attack=" in name]
    assert bool(attacked) == (kind == "cap")
    assert "figures/scores_coherence" in out


def test_a_folder_that_no_run_wrote_is_a_sentence(dashboard, tmp_path):
    code, _, err = dashboard("cd", tmp_path, "--entity", "me", "--dry-run")
    assert code == 2
    assert "not a run folder" in err
