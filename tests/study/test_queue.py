"""Who runs what, whichever way several workers' steps interleave and wherever they die."""

from collections import Counter

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from judgebench.study.queue import DUPLICATE, ENDED, FAILED, LOST, Queue, count, failed
from judgebench.study.space import Space

SPACE = Space.parse({"x": "1,2,3", "y": "a,b"})
SAMPLES = {f"sample {number}": {} for number in range(6)}


def crew(workers, tasks):
    storage = InMemoryStorage()
    study = optuna.create_study(storage=storage, direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    return [Queue(study, storage, SPACE, tasks) for _ in range(workers)]


def finish(queue, trial):
    queue.study.tell(trial.number, 1.0)


@given(st.data(), st.booleans())
def test_every_task_is_completed_once_whoever_dies(data, grid):
    queues = crew(3, SPACE.grid() if grid else SAMPLES)
    queues[0].fill()
    ran, at_work = Counter(), {}

    def done(queue, trial):
        ran[tuple(trial.params.items()) if grid else trial.user_attrs["point"]] += 1
        finish(queue, trial)

    # 1. workers take, finish and die by turns
    for _ in range(30):
        place = data.draw(st.sampled_from(range(3)))
        if place not in at_work:
            trial = queues[place].take()
            if trial is not None:
                at_work[place] = trial
            continue
        trial = at_work.pop(place)
        if data.draw(st.sampled_from(["done", "done", "died"])) == "done":
            done(queues[place], trial)
    # 2. all stop; one that starts again runs what is left
    queues[0].fill(retry=True)
    while (trial := queues[0].take()) is not None:
        done(queues[0], trial)
    assert set(ran.values()) == {1}
    assert len(ran) == 6
    assert count(queues[0].trials(), TrialState.COMPLETE) == 6
    assert not count(queues[0].trials(), TrialState.RUNNING, TrialState.WAITING)


def test_of_two_workers_that_fill_the_queue_at_once_each_task_is_run_by_one():
    one, two = crew(2, SPACE.grid())
    study = one.study
    for _ in range(2):  # what two see that both find an empty study
        for task, point in SPACE.grid().items():
            study.enqueue_trial(point, user_attrs={"point": task})
    taken = []
    while (trial := (one, two)[len(taken) % 2].take()) is not None:
        taken.append(tuple(trial.params.items()))
        finish(one, trial)
    assert len(taken) == len(set(taken)) == 6
    waiting = [trial for trial in one.trials() if trial.state == TrialState.WAITING]
    assert len(waiting) == 6  # the study is complete, so nobody asks for them


def test_a_trial_for_a_task_that_another_runs_is_closed():
    one, two = crew(2, dict(list(SPACE.grid().items())[:2]))
    first = next(iter(one.tasks))
    for _ in range(2):
        one.study.enqueue_trial(one.tasks[first], user_attrs={"point": first})
    assert one.take().number == 0
    assert two.take() is None
    closed = one.trials()[1]
    assert (closed.state, closed.user_attrs[ENDED]) == (TrialState.FAIL, DUPLICATE)
    assert not failed(closed)


@pytest.mark.parametrize(("how", "again"), [(FAILED, False), (LOST, True)])
def test_a_lost_trial_is_run_again_and_a_failed_one_if_that_is_asked_for(how, again):
    queue = crew(1, SPACE.grid())[0]
    queue.fill()
    trial = queue.take()
    queue.close(trial.number, how, "it did")
    queue.fill()
    waiting = [other for other in queue.trials() if other.user_attrs.get("retry_of") == trial.number]
    assert bool(waiting) == again
    queue.fill(retry=True)
    queue.fill(retry=True)
    while (other := queue.take()) is not None:
        repeated = other
        finish(queue, other)
    assert repeated.params == trial.params
    assert count(queue.trials(), TrialState.COMPLETE) == 6


def test_a_sample_that_was_lost_is_repeated_with_its_own_point():
    queue = crew(1, SAMPLES)[0]
    queue.fill()
    trial = queue.take()
    queue.fill(retry=True)
    taken = []
    while (other := queue.take()) is not None:
        taken.append(other)
        finish(queue, other)
    assert len(taken) == 6
    assert taken[-1].params == trial.params
    assert taken[-1].user_attrs["retry_of"] == trial.number


def test_who_lost_a_trial_cannot_end_it():
    queue = crew(1, SPACE.grid())[0]
    queue.fill()
    trial = queue.take()
    queue.fill(retry=True)
    assert not queue.close(trial.number, FAILED, "too late")
    with pytest.raises(ValueError):
        queue.study.tell(trial.number, 1.0)
