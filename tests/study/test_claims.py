"""Who runs what, whichever way several workers' steps interleave and wherever they die."""

from collections import Counter

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from judgebench.study.claims import (
    DUPLICATE,
    ENDED,
    FAILED,
    LOST,
    SURPLUS,
    WORKER,
    Claims,
    Standing,
    Watch,
    Worker,
    failed,
)
from judgebench.study.space import Space

SPACE = Space.parse({"x": "1,2,3", "y": "a,b"})


class Graves:
    """Knows the dead by name; a real watch takes as long as the dead worker's machine needs to be missed."""

    def __init__(self):
        self.names = set()

    def dead(self, trial):
        return trial.user_attrs[WORKER]["host"] in self.names


def crew(count, graves, grid=True, most=6):
    storage = InMemoryStorage()
    study = optuna.create_study(storage=storage, direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    points = SPACE.grid() if grid else None
    return [Claims(study, storage, SPACE, Worker(f"w{i}", i, 0.0), points, most, graves) for i in range(count)]


def finish(claims, trial):
    claims.study.tell(trial.number, 1.0)


@given(st.data(), st.booleans())
def test_every_point_is_completed_once_whoever_dies(data, grid):
    graves = Graves()
    workers = crew(3, graves, grid)
    held, ran = {}, Counter()
    for step in range(200):
        living = [w for w in workers if w.me.host not in graves.names]
        claims = data.draw(st.sampled_from(living))
        if claims.me.host in held:
            trial = held.pop(claims.me.host)
            how = data.draw(st.sampled_from(["done", "done", "done", "died", "lost while closing"]))
            if how == "done" or len(living) == 1:
                ran[tuple(trial.params.items()) if grid else trial.number] += 1
                finish(claims, trial)
            else:
                graves.names.add(claims.me.host)
                # the dead one is replaced, as by starting the command again
                workers.append(
                    Claims(claims.study, claims.storage, SPACE, Worker(f"n{step}", 1, 0.0), claims.grid, 6, graves)
                )
                if how == "lost while closing":  # whoever closed it died before its point was taken again
                    workers[-1].close(trial.number, LOST, "its worker died")
        else:
            standing = claims.standing()
            if standing.count(TrialState.COMPLETE) >= 6:
                break
            trial = claims.take(standing)
            if trial is not None:
                held[claims.me.host] = trial
    for claims in [w for w in workers if w.me.host not in graves.names]:
        if claims.me.host in held:
            trial = held.pop(claims.me.host)
            ran[tuple(trial.params.items()) if grid else trial.number] += 1
            finish(claims, trial)
    claims = next(w for w in workers if w.me.host not in graves.names)
    while (trial := claims.take(claims.standing())) is not None:
        ran[tuple(trial.params.items()) if grid else trial.number] += 1
        finish(claims, trial)
    assert len(ran) == sum(ran.values()) == 6
    if grid:
        assert {tuple(point.items()) for point in SPACE.grid().values()} == set(ran)


def test_of_two_that_take_one_point_at_once_the_first_runs_it():
    one, two = crew(2, Graves())
    looked = one.standing()
    first, second = one.take(looked), two.take(looked)
    assert first is not None
    assert second is None
    closed = one.trials()[1]
    assert (closed.state, closed.user_attrs[ENDED]) == (TrialState.FAIL, DUPLICATE)
    assert not failed(closed)


def test_a_study_gets_no_more_trials_than_it_asked_for():
    one, two = crew(2, Graves(), grid=False, most=1)
    looked = one.standing()
    assert one.take(looked) is not None
    assert two.take(looked) is None
    assert one.trials()[1].user_attrs[ENDED] == SURPLUS
    assert one.take(one.standing()) is None


def test_a_failed_point_is_run_again_only_if_it_is_forgiven():
    claims = crew(1, Graves())[0]
    trial = claims.take(claims.standing())
    claims.close(trial.number, FAILED, "it did")
    again = claims.take(claims.standing())
    assert again.params != trial.params
    finish(claims, again)
    claims.forgiven = frozenset([trial.number])
    assert claims.take(claims.standing()).params == trial.params


def test_who_was_taken_for_dead_cannot_end_the_trial():
    graves = Graves()
    one, two = crew(2, graves)
    trial = one.take(one.standing())
    graves.names.add("w0")
    taken = two.take(two.standing())
    assert taken.params == trial.params
    assert not one.close(trial.number, FAILED, "too late")
    assert Standing.of(two.trials()).holders[taken.user_attrs["point"]].number == taken.number


def test_a_process_that_is_gone_is_dead_at_once_and_one_elsewhere_when_its_beat_stops(monkeypatch):
    me = Worker.me()
    assert me.lives()
    assert Worker(me.host, me.pid, me.started - 100).lives() is False  # the number is another process's by now
    assert Worker("another machine", me.pid, me.started).lives() is None
    claims = crew(1, Watch(60))[0]
    claims.me = Worker("another machine", 1, 0.0)
    trial = claims.take(claims.standing())
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    watch = Watch(60)
    assert not watch.dead(trial)
    clock[0] = 50
    claims.storage.set_trial_user_attr(claims.trial_id(trial.number), WORKER, claims.me.attribute(1))
    assert not watch.dead(claims.trials()[0])
    clock[0] = 100
    assert not watch.dead(claims.trials()[0])
    clock[0] = 111
    assert watch.dead(claims.trials()[0])


@pytest.mark.parametrize("states", [[], ["complete"], ["failed", "complete"], ["lost", "running"]])
def test_the_lowest_living_number_holds_a_point(states):
    claims = crew(1, Graves())[0]
    for state in states:
        number = claims._make({"x": 1, "y": "a"}, {"point": "p"})
        if state == "complete":
            claims.study.tell(number, 0.0)
        elif state != "running":
            claims.close(number, {"failed": FAILED, "lost": LOST}[state], "why")
    holders = Standing.of(claims.trials()).holders
    expected = {(): None, ("complete",): 0, ("failed", "complete"): 0, ("lost", "running"): 1}[tuple(states)]
    assert (holders["p"].number if holders else None) == expected
