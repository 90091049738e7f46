"""The Pareto front of two objectives."""

import numpy as np
import optuna
from hypothesis import given
from hypothesis import strategies as st

from judgebench.study.figures import front_figure
from judgebench.study.storage import pareto_front

CELL = {"dimension": "joint", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "constant": False}
BOTH = ["maximize", "minimize"]


def trial(number, values, test=(0.1, 0.2)):
    cells = [
        {"objective": 0, "metric": "spearman", "attack": "none", "defense": "cap", "split": "dev", **CELL},
        {"objective": 1, "metric": "delta", "attack": "dsi, bed", "defense": "cap", "split": "dev", **CELL},
    ]
    held = [cell | {"dev": value, "test": on_test} for cell, value, on_test in zip(cells, values, test, strict=True)]
    state = {"number": number, "state": "complete", "values": list(values), "params": {"tutor.alpha_high": number / 10}}
    return state | {"attributes": {"cells": held, "run_dir": f"run/{number}"}}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=10))
def test_the_front_is_optunas(values):
    study = optuna.create_study(directions=BOTH)
    for pair in values:
        study.add_trial(optuna.trial.create_trial(values=[float(x) for x in pair]))
    assert pareto_front(values, BOTH) == [one.number for one in study.best_trials]


def test_the_figure_shows_trials_front_and_what_the_front_is_on_test():
    trials = [trial(0, (0.3, 0.2)), trial(1, (0.5, 0.4)), trial(2, (0.2, 0.5))]
    figure = front_figure([*trials, {**trial(3, (9, 9)), "state": "failed"}], BOTH)
    (axis,) = figure.axes
    drawn = [np.column_stack(line.get_data()).tolist() for line in axis.lines]
    assert drawn[0] == [[0.3, 0.2], [0.5, 0.4], [0.2, 0.5]]
    assert drawn[1] == [[0.3, 0.2], [0.5, 0.4]]
    assert drawn.count([[0.1, 0.2]]) == 2  # both of the front, on test
    assert axis.get_xlabel() == "Spearman on dev (more is better)"
    assert axis.get_ylabel() == "Score change on dev (less is better)"
    told = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "3 trials, 2 of them on the front" in told
    assert "Score change: attack dsi, bed, defense cap." in told


def test_one_objective_has_no_front():
    assert front_figure([trial(0, (0.3, 0.2))], ["maximize"]) is None
    assert front_figure([], BOTH) is None
