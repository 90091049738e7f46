"""The end of a sweep, from hand-made trials: summary and figures."""

from io import StringIO

import matplotlib as mpl
import numpy as np
import pytest
from rich.console import Console

from judgebench.report.render import to_terminal
from judgebench.study.summary import (
    jobs_as_trials,
    summarize,
    summary_blocks,
    sweep_figures,
)


def cell(dev, test, range_max=5.0, **more):
    where = {"objective": 0, "metric": "spearman", "dimension": "coherence", "range_min": 1.0, "range_max": range_max}
    return where | {"range_step": 1.0, "dev": dev, "test": test} | more


def trial(number, lambda_, t, *cells, state="complete"):
    params = {"decoding.lambda": lambda_, "decoding.temperature": t}
    attributes = {"run_dir": f"run/{number}", "cells": list(cells)} if cells else {}
    return {"number": number, "state": state, "params": params, "values": [0.0], "attributes": attributes}


def printed(summary):
    text = StringIO()
    Console(file=text, width=110).print(to_terminal(summary_blocks(summary)))
    return text.getvalue()


TRIALS = [
    trial(0, 0.1, 1, cell(0.2, 0.10), cell(0.5, 0.30, 9.0)),
    trial(1, 0.1, 2, cell(0.4, 0.15), cell(0.1, 0.35, 9.0)),
    trial(2, 0.5, 1, cell(0.4, 0.99), cell(0.2, 0.40, 9.0)),
    {**trial(3, 0.5, 2, state="fail"), "ended": "failed", "reason": "it did"},
]
CONSTANT = cell(0.0, 0.0, constant=True)


def on_test(trials):
    return [t | {"attributes": {"cells": [c | {"split": "test"} for c in t["attributes"]["cells"]]}} for t in trials]


def means(dev, test):
    return {"dev": pytest.approx(dev), "test": pytest.approx(test)}


SUMMARIES = {
    # trials, directions -> the best of each cell, the one setting that is best on average, a line
    "of equals the first, though another tests better": (TRIALS, (), [1, 0], 0, "best Spearman on dev of 3 trials"),
    "minimize": (TRIALS, ["minimize"], [0, 1], 1, "smallest Spearman on dev of 3 trials"),
    "test": (on_test(TRIALS[:3]), (), [2, 2], 2, "best Spearman on test of 3 trials; chosen on test itself"),
    "a constant one beats no negative one": (
        [trial(0, 0.1, 1, CONSTANT, cell(0.3, 0.3, 9.0)), trial(1, 0.5, 1, cell(-0.2, 0.1), cell(0.1, 0.2, 9.0))],
        *((), [1, 0], 1, "best Spearman on dev"),
    ),
    "unless all are": ([trial(0, 0.1, 1, CONSTANT)], (), [0], 0, "λ 0.1, t 1 ! constant"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_best_of_each_cell_and_the_best_single_setting(name):
    trials, directions, best, one, line = SUMMARIES[name]
    summary = summarize(trials, directions)
    assert [record["best"]["trial"] for record in summary["cells"]] == best
    assert summary["means"][0]["one_setting"]["trial"] == one
    assert line in " ".join(printed(summary).split())
    # neither order nor a trial that stored its cells and did not complete makes a difference
    killed = [trial(8 + i, 9, 9, cell(9, 9), cell(-9, 9, 9.0), state=s) for i, s in enumerate(("fail", "running"))]
    assert summarize([*killed, *trials[::-1]], directions) | {"params": None} == summary | {"params": None}


def test_what_the_summary_says_of_trials_by_hand():
    summary = summarize(TRIALS)
    assert (summary["trials"], summary["failed"]) == (3, 1)
    first = summary["cells"][0]["best"]
    assert first == {"trial": 1, "params": TRIALS[1]["params"], "dev": 0.4, "test": 0.15, "run_dir": "run/1"}
    (mean,) = summary["means"]
    assert mean["chosen_per_cell"] == means(0.45, 0.225)
    assert mean["one_setting"] == {"trial": 0, "params": TRIALS[0]["params"], **means(0.35, 0.2)}
    lines = printed(summary).splitlines()
    assert any("1-5" in line and "λ 0.1, t 2" in line and "0.400" in line and "0.150" in line for line in lines)
    assert any("chosen per cell" in line and "0.450" in line and "0.225" in line for line in lines)
    assert "1 trials failed" in printed(summary)


def test_without_a_dev_split_nothing_is_chosen():
    trials = [trial(0, 0.1, 1, cell(None, 0.3)), trial(1, 0.5, 1, cell(None, 0.4))]
    summary = summarize(trials)
    assert summary["cells"][0]["best"] is None
    assert summary["means"] == [{"objective": 0, "chosen_per_cell": None, "one_setting": None}]
    assert sweep_figures(trials) == {}


def test_figures_show_the_values_of_each_range_over_what_was_swept():
    figures = sweep_figures([*TRIALS[:3], trial(4, 0.5, 2, CONSTANT, cell(0.3, 0.1, 9.0))])
    assert list(figures) == ["dev_spearman_coherence_1-5", "dev_spearman_coherence_1-9"]
    for figure, count in zip(figures.values(), (3, 4), strict=True):  # a constant judge has no correlation
        axis, bar = figure.axes
        assert (axis.get_xlabel(), axis.get_ylabel(), bar.get_ylabel()) == ("t", "λ", "Spearman on dev")
        points = np.concatenate([dots.get_offsets() for dots in axis.collections if len(dots.get_offsets()) == count])
        assert sorted(map(tuple, points))[0] == (1, 0.1)
    assert "range 1-9" in figures["dev_spearman_coherence_1-9"].get_label()
    assert list(sweep_figures(on_test(TRIALS[:3]))) == ["test_spearman_coherence_1-5", "test_spearman_coherence_1-9"]
    assert sweep_figures(TRIALS[:1]) == {}


@pytest.mark.parametrize("values", [(1, 2, 4), ("x", "y", "z")], ids=["numbers", "words"])
def test_one_swept_key_makes_a_figure_of_dots(values):
    jobs = [
        {"number": i, "state": "complete", "params": {"a": value, "b": 1}, "attributes": {"cells": [cell(i, 0.1)]}}
        for i, value in enumerate(values)
    ]
    before = dict(mpl.rcParams)
    (figure,) = sweep_figures(jobs).values()
    dots = figure.axes[0].collections[0]
    assert dots.get_offsets()[:, 1].tolist() == [0, 1, 2]
    assert figure.axes[0].get_xlabel() == "a"
    assert dict(mpl.rcParams) == before


def test_jobs_are_told_apart_by_the_overrides_that_differ():
    jobs = [
        {"number": i, "state": "complete", "overrides": ["+exp=demo", f"x={x}", f"judge={judge}"]}
        for i, (x, judge) in enumerate([("0.1", "a"), ("1", "a"), ("0.1", "b")])
    ]
    expected = [{"x": 0.1, "judge": "a"}, {"x": 1, "judge": "a"}, {"x": 0.1, "judge": "b"}]
    assert [job["params"] for job in jobs_as_trials(jobs)] == expected
