"""kill -9 in the middle of a sweep: no point is lost, and none runs to its end twice."""

import json
import time
from pathlib import Path

import optuna
import pytest

from judgebench.study.storage import open_storage
from tests.study.conftest import GRID, noted, postgresql_server

POINTS = {(str(x), str(y)) for x in range(1, 5) for y in range(1, 4)}
SWEEP = (GRID, "x=1,2,3,4", "y=1,2,3", "seconds=0.25", "hydra.sweeper.study_name=killed")


@pytest.fixture(params=["postgresql", "journal", pytest.param("sqlite", marks=pytest.mark.exhaustive)])
def storage(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    return f"journal:{tmp_path}/study.journal" if request.param == "journal" else f"sqlite:///{tmp_path}/study.db"


def kill_at_work(process, note):
    """Kills a worker inside a job, which it has just begun."""
    seen = len(lines(note, process.pid))
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = lines(note, process.pid)
        if len(found) > max(seen, 2) and found[-1].startswith("begin"):
            process.kill()
            return tuple(found[-1].split()[1:3])
        assert process.code is None, process.said
        time.sleep(0.002)
    raise AssertionError(process.said)


def lines(note, pid):
    text = note.read_text() if note.is_file() else ""
    return [line for line in text.splitlines() if line.endswith(f" {pid}")]


def test_a_sweep_of_two_workers_that_are_both_killed_is_completed(worker, storage):
    note = Path("ran.txt")
    command = (*SWEEP, f"hydra.sweeper.storage='{storage}'")
    one, two = worker(*command), worker(*command)
    lost = [kill_at_work(one, note), kill_at_work(two, note)]
    assert not set(noted("end", note)) >= POINTS, "the kills must fall into the sweep"
    again = worker(*command)  # what was running may be another worker's
    assert again.ends() == 0, again.said
    assert "2 trials are running" in again.said
    assert POINTS - set(noted("end", note)) == set(lost)
    three, four = worker(*command, "hydra.sweeper.retry=true"), worker(*command)
    for process in (three, four):
        assert process.ends() == 0, process.said
    assert noted("end", note) == dict.fromkeys(POINTS, 1)
    begun = noted("begin", note)
    assert {point for point in POINTS if begun[point] > 1} <= set(lost)
    assert sum(begun.values()) == len(POINTS) + 2
    study = optuna.load_study(study_name="killed", storage=open_storage(storage))
    complete = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    assert sorted((str(t.params["x"]), str(t.params["y"])) for t in complete) == sorted(POINTS)
    assert not [trial for trial in study.trials if trial.state == optuna.trial.TrialState.RUNNING]
    assert [trial.user_attrs["ended"] for trial in study.trials if trial.state.name == "FAIL"].count("lost") == 2
    saved = json.loads(Path("sweep/study.json").read_text())
    assert saved["best"] == {"number": saved["best"]["number"], "params": {"x": 4, "y": 3}, "values": [34.0]}


def test_a_search_goes_on_where_it_was_killed(worker):
    note = Path("ran.txt")
    command = (
        *("x=interval(0.0,1.0)", "y=interval(0.0,1.0)", "seconds=0.1", "hydra.sweeper.n_trials=10"),
        *("hydra.sweeper.study_name=search", "hydra.sweeper.storage=journal:search.journal"),
        "hydra.sweeper.seed=3",
    )
    one, two = worker(*command), worker(*command)
    lost = [kill_at_work(one, note), kill_at_work(two, note)]
    three = worker(*command, "hydra.sweeper.retry=true")
    assert three.ends() == 0, three.said
    ended = noted("end", note)
    assert len(ended) == sum(ended.values()) == 10  # so many in all, and no two workers drew the same
    assert set(lost) <= set(ended)


def test_a_study_that_is_complete_is_left_as_it_is(app):
    command = (GRID, "x=1,2", "y=1,2", "hydra.sweeper.study_name=a", "hydra.sweeper.storage=journal:a.journal")
    assert app(*command)[0] == 0
    code, out, _ = app(*command)
    assert code == 0
    assert "4 trials, 4 of them there already" in out
    assert noted() == dict.fromkeys([("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")], 1)


def test_a_folder_is_of_one_stored_study(app):
    stored = "hydra.sweeper.storage=journal:a.journal"
    assert app(GRID, "x=1,2", "y=1,2", "hydra.sweeper.study_name=a", stored)[0] == 0
    for other in (("hydra.sweeper.study_name=b", stored), ()):
        code, _, err = app(GRID, "x=3,4", "y=1,2", *other)
        assert code == 2
        assert "run_dir: sweep holds the runs of study a in journal:a.journal; name another folder" in err
    assert app(GRID, "x=3,4", "y=1,2", "hydra.sweep.dir=elsewhere", "hydra.sweeper.study_name=b", stored)[0] == 0


def test_a_killed_writer_leaves_the_journal_readable(app):
    command = (GRID, "x=1,2", "y=1", "hydra.sweeper.study_name=a", "hydra.sweeper.storage=journal:a.journal")
    app(*command)
    whole = Path("a.journal").read_bytes()
    with Path("a.journal").open("ab") as file:
        file.write(b'{"op_code": 8, "worker')
    assert app(*command, "y=1", "hydra.sweeper.n_trials=2")[0] == 0
    storage = open_storage("journal:a.journal")
    assert len(optuna.load_study(study_name="a", storage=storage).trials) == 2
    storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], "b")
    assert Path("a.journal").read_bytes().startswith(whole)
    assert sorted(study.study_name for study in open_storage("journal:a.journal").get_all_studies()) == ["a", "b"]


def test_a_server_that_dies_under_way_is_told(worker):
    with postgresql_server() as (address, stop):
        process = worker(*SWEEP, f"hydra.sweeper.storage='{address}'")
        until = time.monotonic() + 120
        while len(noted("end")) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        stop()
        assert process.ends() == 2
    assert "failed under way" in process.said
    assert "start the same command again." in process.said
    assert "Traceback" not in process.said
