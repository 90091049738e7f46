"""Who runs what, whichever way several workers' steps interleave and wherever they die."""

from collections import Counter

import optuna
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from judgebench.study.space import Space
from judgebench.study.storage import (
    DUPLICATE,
    ENDED,
    FAILED,
    LOST,
    SURPLUS,
    WORKER,
    Claims,
    Watch,
    count,
    failed,
    holders_of,
    lives,
    this_process,
)

SPACE = Space.parse({"x": "1,2,3", "y": "a,b"})


class Graves:
    """Knows the dead by name; a real watch takes as long as the dead worker's machine needs to be missed."""

    def __init__(self):
        self.names = set()

    def __call__(self, trial):
        return trial.user_attrs[WORKER]["host"] in self.names


def worker(host):
    return {"host": host, "pid": 1, "started": 0.0}


def crew(count, graves, grid=True, most=6):
    storage = InMemoryStorage()
    study = optuna.create_study(storage=storage, direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    points = SPACE.grid() if grid else None
    return [Claims(study, storage, SPACE, worker(f"w{i}"), points, most, graves) for i in range(count)]


def finish(claims, trial):
    claims.study.tell(trial.number, 1.0)


@given(st.data(), st.booleans())
def test_every_point_is_completed_once_whoever_dies(data, grid):
    graves = Graves()
    workers, at_work, ran = crew(3, graves, grid), {}, Counter()

    def done(claims, trial):
        ran[tuple(trial.params.items()) if grid else trial.number] += 1
        finish(claims, trial)

    for step in range(200):
        claims = data.draw(st.sampled_from(workers))
        host = claims.worker["host"]
        if host in at_work:
            trial = at_work.pop(host)
            how = data.draw(st.sampled_from(["done", "done", "done", "died", "lost while closing"]))
            if how == "done" or len(workers) == 1:
                done(claims, trial)
                continue
            # the dead one is replaced, as by starting the command again
            graves.names.add(host)
            workers.remove(claims)
            again = worker(f"n{step}")
            workers.append(Claims(claims.study, claims.storage, SPACE, again, claims.grid, 6, graves))
            if how == "lost while closing":  # whoever closed it died before its point was taken again
                workers[-1].close(trial.number, LOST, "its worker died")
        else:
            holders = claims.holders()
            if count(holders, TrialState.COMPLETE) >= 6:
                break
            if (trial := claims.take(holders)) is not None:
                at_work[host] = trial
    for claims in workers:
        if claims.worker["host"] in at_work:
            done(claims, at_work.pop(claims.worker["host"]))
    while (trial := workers[0].take(workers[0].holders())) is not None:
        done(workers[0], trial)
    assert len(ran) == sum(ran.values()) == 6
    if grid:
        assert {tuple(point.items()) for point in SPACE.grid().values()} == set(ran)


def test_of_two_that_take_one_point_at_once_the_first_runs_it():
    one, two = crew(2, Graves())
    looked = one.holders()
    first, second = one.take(looked), two.take(looked)
    assert first is not None
    assert second is None
    closed = one.trials()[1]
    assert (closed.state, closed.user_attrs[ENDED]) == (TrialState.FAIL, DUPLICATE)
    assert not failed(closed)


def test_a_study_gets_no_more_trials_than_it_asked_for():
    one, two = crew(2, Graves(), grid=False, most=1)
    looked = one.holders()
    assert one.take(looked) is not None
    assert two.take(looked) is None
    assert one.trials()[1].user_attrs[ENDED] == SURPLUS
    assert one.take(one.holders()) is None


def test_a_failed_point_is_run_again_only_if_it_is_forgiven():
    claims = crew(1, Graves())[0]
    trial = claims.take(claims.holders())
    claims.close(trial.number, FAILED, "it did")
    again = claims.take(claims.holders())
    assert again.params != trial.params
    finish(claims, again)
    claims.forgiven = frozenset([trial.number])
    assert claims.take(claims.holders()).params == trial.params


def test_who_was_taken_for_dead_cannot_end_the_trial():
    graves = Graves()
    one, two = crew(2, graves)
    trial = one.take(one.holders())
    graves.names.add("w0")
    taken = two.take(two.holders())
    assert taken.params == trial.params
    assert not one.close(trial.number, FAILED, "too late")
    assert holders_of(two.trials())[taken.user_attrs["point"]].number == taken.number


def test_a_process_that_is_gone_is_dead_at_once_and_one_elsewhere_when_its_beat_stops(monkeypatch):
    me = this_process()
    assert lives(me)
    assert lives({**me, "started": me["started"] - 100}) is False  # the number is another process's by now
    assert lives({**me, "host": "another machine"}) is None
    claims = crew(1, Watch(60))[0]
    claims.worker = worker("another machine")
    trial = claims.take(claims.holders())
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    watch = Watch(60)
    assert not watch(trial)
    clock[0] = 50
    claims.storage.set_trial_user_attr(claims.trial_id(trial.number), WORKER, {**claims.worker, "beat": 1})
    assert not watch(claims.trials()[0])
    clock[0] = 100
    assert not watch(claims.trials()[0])
    clock[0] = 111
    assert watch(claims.trials()[0])
