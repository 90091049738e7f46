"""The plugin in a small Hydra application: samplers, objectives, failures, and users' mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import StorageInternalError

from judgebench.study.space import sampler_for
from judgebench.study.storage import open_storage
from tests.study.conftest import GRID, noted

STUDY, LOG = Path("sweep/study.json"), Path("sweep/trials.log")


def trials():
    return json.loads(STUDY.read_text())["trials"]


MORE = (pytest.param(name, marks=pytest.mark.exhaustive) for name in ("NSGAIISampler", "QMCSampler"))


@pytest.mark.parametrize("name", ["TPESampler", "GridSampler", "BruteForceSampler", *MORE])
def test_samplers_are_named_by_their_class(app, name):
    sampler = f"hydra.sweeper.sampler._target_=optuna.samplers.{name}"
    code, out, err = app(sampler, "x=1,2,3", "y=range(1,3)", "hydra.sweeper.n_trials=6", "hydra.sweeper.seed=1")
    assert code == 0, err
    assert len([line for line in out.splitlines() if line.startswith("trial ")]) == 6
    assert "printed by a job" not in out
    assert LOG.read_text().count("printed by a job") == 6
    saved = json.loads(STUDY.read_text())
    assert (saved["sampler"], len(saved["trials"])) == (name, 6)
    assert saved["best"]["values"] == [max(trial["values"][0] for trial in saved["trials"])]
    if name in ("GridSampler", "BruteForceSampler"):
        assert len(noted()) == sum(noted().values()) == 6


def test_the_points_of_a_grid_come_in_the_order_of_their_values_or_a_part_of_them(app):
    app(GRID, "x=3,1", "y=range(1,3)")
    assert list(noted()) == [("3", "1"), ("3", "2"), ("1", "1"), ("1", "2")]
    app(GRID, "x=1,2,3", "y=1,2", "hydra.sweeper.n_trials=4", "note=part.txt")
    assert sum(noted(path="part.txt").values()) == 4


def test_several_objectives_have_a_front_and_attributes_of_a_job_are_kept(app):
    directions = "hydra.sweeper.direction=[maximize,minimize]"
    _, out, _ = app(GRID, directions, "x=1,2", "y=1,2", "kind=list")
    assert "front of 1, this one among them" in out
    # the job gives x and -y
    assert [point["params"] for point in json.loads(STUDY.read_text())["front"]] == [{"x": 2, "y": 2}]
    app(GRID, "x=1,2", "kind=mapping")
    assert [trial["attributes"] for trial in trials()] == [{"where": "here"}] * 2


@pytest.mark.parametrize(("way", "reason"), [("raise", "ValueError: x is one"), ("refuse", "x: it is one.")])
def test_a_failed_job_is_recorded_and_the_sweep_goes_on(app, way, reason):
    code, out, err = app(GRID, "x=1,2,3,4", f"fail={way}")
    assert code == 0, err
    assert f"failed: {reason}" in out
    assert [trial["state"] for trial in trials()] == ["fail", *["complete"] * 3]
    assert (trials()[0]["reason"], trials()[0]["ended"]) == (reason, "failed")


@pytest.mark.parametrize(
    ("points", "how", "failures", "sentence"),
    [
        ("x=1,2", "kind=undefined", 1, "the objective is nan"),  # a value that is no number is a failure
        ("x=1,2,3,4,5,6,7,8", "fail=always", 3, "3 of 8 trials failed, more than hydra.sweeper.max_failure_rate=0.25"),
    ],
)
def test_too_many_failures_end_the_sweep(app, points, how, failures, sentence):
    code, out, err = app(GRID, points, how)
    assert (code, out.count("failed: ")) == (2, failures)
    assert sentence in err
    assert "Traceback" not in err
    assert len(trials()) == failures


def test_failed_points_are_tried_again_if_asked(app):
    command = (GRID, "x=1,2,3,4", *ONE, "hydra.sweeper.may_differ=[fail]")
    app(*command, "fail=raise")
    app(*command)
    assert sum(noted().values()) == 3
    app(*command, "hydra.sweeper.retry=true")
    assert sum(noted().values()) == 4


def test_a_seed_gives_the_same_study_again(app):
    drawn, few = [], "+hydra.sweeper.sampler.n_startup_trials=2"  # of its five trials, three are searched
    for _ in range(2):
        app("x=interval(0.0,1.0)", "y=1", "hydra.sweeper.n_trials=5", "hydra.sweeper.seed=5", few)
        drawn.append([trial["params"]["x"] for trial in trials()])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 5


def test_the_numbers_of_a_trial_depend_on_the_seed_and_its_number_alone():
    drawn = []
    for skipped in (0, 0, 1):
        study = optuna.create_study(sampler=sampler_for({"_target_": "optuna.samplers.RandomSampler"}, seed=0))
        for _ in range(skipped):
            study.ask()
        drawn.append([study.ask().suggest_float("x", 0, 1) for _ in range(2)])
    assert drawn[0] == drawn[1]
    assert drawn[0][1] == drawn[2][0] != drawn[0][0]


ONE = ("hydra.sweeper.study_name=a", "hydra.sweeper.storage=journal:a.journal")
MISTAKES = {
    "unknown sampler": (["x=1,2", "hydra.sweeper.sampler._target_=optuna.samplers.Oracle"], "optuna.samplers.Oracle"),
    "no sampler": (["x=1,2", "hydra.sweeper.sampler._target_=pathlib.Path"], "is no sampler"),
    "its arguments": (["x=1,2", "+hydra.sweeper.sampler.luck=7"], "luck"),
    "unreachable": (
        ["x=1,2", *ONE[:1], "hydra.sweeper.storage=postgresql://me:secret@127.0.0.1:1/a"],
        "cannot be used",
    ),
    "unknown database": (["x=1,2", *ONE[:1], "hydra.sweeper.storage=cuneiform://a"], "names no database"),
    "a number for a storage": (["x=1,2", *ONE[:1], "hydra.sweeper.storage=5"], "hydra.sweeper.storage: 5 should"),
    "not a storage": (["x=1,2", *ONE[:1], "hydra.sweeper.storage=somewhere"], "is no storage"),
    "no name": (["x=1,2", *ONE[1:]], "needs a name"),
    "no key": (["z=1,2"], "z"),
    "no key among the params": (
        ["x=1", "+hydra.sweeper.params={q: '1,2'}"],
        "hydra.sweeper.params: Could not override 'q'",
    ),
    "nothing swept": (["x=1"], "nothing is swept"),
    "endless grid": ([GRID, "x=interval(0.0,1.0)"], "a grid needs values"),
    "no value": (["x=1,2", "kind=nothing"], "returned None"),
    "two values": (["x=1,2", "kind=list"], "has 1 entries and a job returned 2 values"),
    "direction": (["x=1,2", "hydra.sweeper.direction=up"], "'up' is not one of maximize, minimize"),
    "no trials": (["x=1,2", "hydra.sweeper.n_trials=0"], "n_trials: 0"),
    "rate": (["x=1,2", "hydra.sweeper.max_failure_rate=2"], "max_failure_rate: 2"),
    "params": (["x=1,2", "hydra.sweeper.params=5"], "hydra.sweeper.params: 5 is no mapping"),
    "a number for a direction": (["x=1,2", "hydra.sweeper.direction=5"], "hydra.sweeper.direction: 5 is neither"),
    "a number for keys": (["x=1,2", "hydra.sweeper.may_differ=5"], "hydra.sweeper.may_differ: 5 is neither"),
    "unknown setting": (["x=1,2", "+hydra.sweeper.luck=7"], "luck"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence(app, mistake):
    arguments, expected = MISTAKES[mistake]
    code, out, err = app(*arguments)
    assert code == 2 or mistake == "no key", out + err
    assert expected in err
    assert "Traceback" not in err
    assert "secret" not in out + err
    if code == 2:
        sentences = [line for line in err.splitlines() if line.startswith("judgebench: ")]
        assert len(sentences) == 1
        assert sentences[0].endswith(".")


@pytest.mark.parametrize(
    "text", ["Dear diary,\nno journal of Optuna's.\n", "no line end", "[1, 2]\n", '{"op_code": 0}\n', "\n"]
)
def test_a_file_that_is_no_journal_is_left_as_it_is(app, text):
    Path("a.journal").write_text(text)
    code, _, err = app(GRID, "x=1,2", *ONE)
    assert code == 2
    assert "hydra.sweeper.storage: a.journal is no journal of Optuna's, and nothing was written to it;" in err
    assert Path("a.journal").read_text() == text
    assert sorted(path.name for path in Path().iterdir()) == ["a.journal"]


@pytest.mark.parametrize("text", ["", '{"op_code":0,"worker'])
def test_an_empty_journal_and_one_whose_first_line_is_half_are_taken(app, text):
    Path("a.journal").write_text(text)
    assert app(GRID, "x=1,2", *ONE)[0] == 0


def test_a_study_may_be_called_by_a_number(app):
    assert app(GRID, "x=1,2", "hydra.sweeper.study_name=7", "hydra.sweeper.storage=sqlite:///a.db")[0] == 0
    assert json.loads(STUDY.read_text())["study_name"] == "7"


@pytest.mark.parametrize("when", ["create_new_study", "get_all_trials"])
def test_a_storage_that_fails_before_the_first_trial_is_told_in_a_sentence(app, monkeypatch, when):
    def gone(*_, **__):
        raise StorageInternalError("the server has gone")

    monkeypatch.setattr(type(open_storage("sqlite:///a.db")), when, gone)
    code, _, err = app(GRID, "x=1,2", "hydra.sweeper.study_name=a", "hydra.sweeper.storage=sqlite:///a.db")
    assert code == 2
    assert "failed under way (the server has gone)" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["x=1,2,4"], "another search space"),
        (["x=1,2", "y=7"], "another set of overrides (y=1 instead of y=7)"),
        (["x=1,2", "hydra.sweeper.direction=minimize"], "maximize instead of minimize"),
    ],
)
def test_a_study_that_is_another_is_left_alone(app, changed, expected):
    assert app(GRID, *ONE, "x=1,2", "y=1")[0] == 0
    before = Path("a.journal").read_bytes()
    code, _, err = app(GRID, *ONE, "y=1", *changed)
    assert (code, expected in err) == (2, True), err
    after = optuna.load_study(study_name="a", storage=open_storage("journal:a.journal"))
    assert len(after.trials) == 2
    assert Path("a.journal").read_bytes().startswith(before)


def test_hydra_starts_without_importing_optuna():
    code = (
        "import sys; from hydra.core.plugins import Plugins; from hydra.plugins.sweeper import Sweeper\n"
        "assert any(kind.__name__ == 'OptunaSweeper' for kind in Plugins.instance().discover(Sweeper))\n"
        "assert not {'optuna', 'torch', 'pandas', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
