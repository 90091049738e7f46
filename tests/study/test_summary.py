"""The end of a sweep, from hand-made trials: summary, heat maps, and the front of two objectives."""

from __future__ import annotations

from io import StringIO

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from judgebench.report.figures.style import save_figures
from judgebench.report.render import to_terminal
from judgebench.study.figures import front_figure, heatmaps
from judgebench.study.storage import pareto_front
from judgebench.study.summary import cell_of, jobs_as_trials, summarize, summary_blocks


def cell(dev, test, range_max=5.0, dimension="coherence"):
    named = {"objective": 0, "metric": "spearman", "dimension": dimension, "range_min": 1.0, "range_max": range_max}
    return named | {"range_step": 1.0, "dev": dev, "test": test}


def trial(number, lambda_, t, *cells, state="complete"):
    params = {"decoding.lambda": lambda_, "decoding.temperature": t}
    attributes = {"run_dir": f"run/{number}", "cells": list(cells)} if cells else {}
    return {"number": number, "state": state, "params": params, "values": [0.0], "attributes": attributes}


def printed(summary):
    text = StringIO()
    Console(file=text, width=110).print(to_terminal(summary_blocks(summary)))
    return text.getvalue()


def framed(figure):
    """Row and column of the frame in the first panel."""
    x, y = figure.axes[0].patches[0].get_xy()
    return round(y + 0.45), round(x + 0.47)


TRIALS = [
    trial(0, 0.1, 1, cell(0.2, 0.10), cell(0.5, 0.30, 9.0)),
    trial(1, 0.1, 2, cell(0.4, 0.15), cell(0.1, 0.35, 9.0)),
    trial(2, 0.5, 1, cell(0.4, 0.99), cell(0.2, 0.40, 9.0)),
    {**trial(3, 0.5, 2, state="fail"), "ended": "failed", "reason": "it did"},
]


def test_the_best_of_each_cell_is_chosen_on_dev_and_told_on_test():
    summary = summarize(TRIALS)
    assert (summary["trials"], summary["failed"]) == (3, 1)
    first, second = (one["best"] for one in summary["cells"])
    assert (first["trial"], first["dev"], first["test"]) == (1, 0.4, 0.15)  # of equals the first, though 2 tests better
    assert (second["trial"], second["params"]) == (0, {"decoding.lambda": 0.1, "decoding.temperature": 1})
    (mean,) = summary["means"]
    assert mean["chosen_per_cell"] == {"dev": pytest.approx(0.45), "test": pytest.approx(0.225)}
    assert mean["one_setting"]["trial"] == 0  # 0.35 on dev, against 0.25 and 0.3
    assert mean["one_setting"]["test"] == pytest.approx(0.2)


def test_with_minimize_the_smallest_is_best():
    summary = summarize(TRIALS, ["minimize"])
    first, second = (one["best"] for one in summary["cells"])
    assert [first["trial"], second["trial"]] == [0, 1]
    assert summary["means"][0]["one_setting"]["trial"] == 1  # 0.25 on dev
    assert "smallest Spearman on dev of 3 trials" in " ".join(printed(summary).split())
    assert framed(heatmaps(TRIALS, ["minimize"])["dev_spearman_coherence"]) == (0, 0)  # lambda 0.1, t 1
    many = heatmaps([trial(i, 0.1 * (i + 1), 1 + i / 7, cell(i / 20, 0)) for i in range(15)], ["minimize"])
    (_, best) = many["dev_spearman_coherence"].axes[0].collections
    assert best.get_offsets()[0].tolist() == pytest.approx([1, 0.1])


def test_what_is_chosen_on_test_says_so():
    told = [
        {**t, "attributes": {"cells": [c | {"split": "test"} for c in t["attributes"]["cells"]]}} for t in TRIALS[:3]
    ]
    summary = summarize(told)
    assert [one["best"]["trial"] for one in summary["cells"]] == [2, 2]
    assert summary["means"][0]["one_setting"]["trial"] == 2
    assert "best Spearman on test of 3 trials; chosen on test itself" in " ".join(printed(summary).split())
    assert list(heatmaps(told)) == ["test_spearman_coherence"]


@pytest.mark.parametrize("state", ["fail", "running"])
def test_a_trial_that_did_not_complete_is_not_counted_though_it_stored_its_cells(state):
    killed = trial(4, 0.5, 2, cell(0.9, 0.9), cell(0.9, 0.9, 9.0), state=state)
    assert summarize([*TRIALS, killed]) == summarize(TRIALS)
    assert framed(heatmaps([*TRIALS, killed])["dev_spearman_coherence"]) == (0, 1)


def test_a_constant_judge_beats_no_negative_one_unless_all_are_constant():
    nothing = [cell(0.0, 0.0) | {"constant": True}, cell(0.3, 0.3, 9.0)]
    summary = summarize([trial(0, 0.1, 1, *nothing), trial(1, 0.5, 1, cell(-0.2, 0.1), cell(0.1, 0.2, 9.0))])
    assert summary["cells"][0]["best"]["trial"] == 1
    assert summary["means"][0]["one_setting"]["trial"] == 1
    alone = summarize([trial(0, 0.1, 1, *nothing)])
    assert alone["cells"][0]["best"]["constant"]
    assert "! constant" in printed(alone)


def test_the_best_is_held_against_the_exact_optimum():
    exact = {"kappa": 0.3, "dev": 0.45, "test": 0.2, "low": 0.29, "high": 0.31, "width": 0.02}
    keys = [cell_of(one) for one in TRIALS[0]["attributes"]["cells"]]
    whole = summarize(TRIALS, (), {keys[0]: exact, keys[1]: exact | {"dev": 0.5}})
    assert [one["below_exact"] for one in whole["cells"]] == [pytest.approx(0.05), 0.0]
    assert whole["means"][0]["exact"] == {"dev": pytest.approx(0.475), "test": pytest.approx(0.2)}
    lines = printed(whole).splitlines()
    assert any("1-5" in line and line.split()[-2:] == ["0.450", "0.050"] for line in lines)
    assert any("mean, exact optima" in line and "0.475" in line for line in lines)
    one = summarize(TRIALS, (), {keys[0]: exact})
    assert "exact" not in one["cells"][1]
    assert "exact" not in one["means"][0]


def test_the_order_of_trials_makes_no_difference():
    assert summarize(TRIALS[::-1]) | {"params": None} == summarize(TRIALS) | {"params": None}


def test_the_table_says_it():
    text = printed(summarize(TRIALS))
    lines = text.splitlines()
    assert any("1-5" in line and "λ 0.1, t 2" in line and "0.400" in line and "0.150" in line for line in lines)
    assert any("chosen per cell" in line and "0.450" in line and "0.225" in line for line in lines)
    assert "1 trials failed" in text
    assert "exact" not in text


def test_without_a_dev_split_nothing_is_chosen():
    summary = summarize([trial(0, 0.1, 1, cell(None, 0.3)), trial(1, 0.5, 1, cell(None, 0.4))])
    assert summary["cells"][0]["best"] is None
    assert summary["means"] == [{"objective": 0, "chosen_per_cell": None, "one_setting": None}]
    assert heatmaps([trial(0, 0.1, 1, cell(None, 0.3))]) == {}


def test_a_heat_map_has_every_value_in_its_place():
    figure = heatmaps(TRIALS)["dev_spearman_coherence"]
    panel = figure.axes[0]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["0.1", "0.5"]
    np.testing.assert_allclose(np.ma.filled(panel.images[0].get_array(), np.nan), [[0.2, 0.4], [0.4, np.nan]])
    assert framed(figure) == (0, 1)  # lambda 0.1, t 2


def test_a_constant_judge_is_not_framed_as_the_best():
    constant = cell(0.0, 0.0) | {"constant": True}
    trials = [trial(0, 0.1, 1, constant), trial(1, 0.1, 2, cell(-0.2, -0.3)), trial(2, 0.5, 1, cell(-0.1, -0.3))]
    figure = heatmaps(trials)["dev_spearman_coherence"]
    assert framed(figure) == (1, 0)  # as the summary chooses: lambda 0.5, t 1
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["-0.100", "-0.200", "–"]
    assert "no correlation" in figure.get_label()
    (alone,) = heatmaps([trial(0, 0.1, 1, constant)])["dev_spearman_coherence"].axes
    assert not alone.patches
    more = [trial(i, 0.01 * 1.5**i, 1 + i / 7, cell(-i / 20, 0) if i else constant) for i in range(15)]
    points, crosses, best = heatmaps(more)["dev_spearman_coherence"].axes[0].collections
    assert (len(points.get_offsets()), len(crosses.get_offsets())) == (14, 1)
    assert best.get_offsets()[0].tolist() == pytest.approx([1 + 1 / 7, 0.015])
    assert heatmaps([one | {"attributes": {"cells": [constant]}} for one in more])


def test_many_values_are_drawn_as_points(tmp_path):
    trials = [trial(i, 0.01 * 1.5**i, 1 + i / 7, cell(i / 20, 0)) for i in range(15)]
    figures = heatmaps(trials)
    (points, best) = figures["dev_spearman_coherence"].axes[0].collections
    assert len(points.get_offsets()) == 15
    assert best.get_offsets()[0].tolist() == pytest.approx([3, 0.01 * 1.5**14])
    names = {path.name for path in save_figures(figures, tmp_path)}
    assert names == {"dev_spearman_coherence.png", "dev_spearman_coherence.svg"}


def test_few_trials_of_a_sampler_are_points_too():
    # each with values of its own: a heat map would be a diagonal of cells, too narrow for their numbers
    for count in (3, 12):
        drawn = [trial(i, 0.01 * 1.5**i, 1 + i / 7, cell(i / 20, 0)) for i in range(count)]
        (points, _) = heatmaps(drawn)["dev_spearman_coherence"].axes[0].collections
        assert len(points.get_offsets()) == count


def test_only_two_numbers_make_a_heat_map():
    one = {"number": 0, "state": "complete", "params": {"a": 1}, "attributes": {"cells": [cell(0.1, 0.1)]}}
    assert heatmaps([one]) == {}
    assert heatmaps([{**one, "params": {"a": 1, "b": "x"}}]) == {}


def test_jobs_are_told_apart_by_the_overrides_that_differ():
    jobs = [
        {"number": i, "state": "complete", "overrides": ["+exp=demo", f"x={x}", f"judge={judge}"]}
        for i, (x, judge) in enumerate([("0.1", "a"), ("1", "a"), ("0.1", "b")])
    ]
    assert [one["params"] for one in jobs_as_trials(jobs)] == [
        {"x": 0.1, "judge": "a"},
        {"x": 1, "judge": "a"},
        {"x": 0.1, "judge": "b"},
    ]


CELL = {"dimension": "joint", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "constant": False}
BOTH = ["maximize", "minimize"]


def rated_trial(number, values, test=(0.1, 0.2)):
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
    trials = [rated_trial(0, (0.3, 0.2)), rated_trial(1, (0.5, 0.4)), rated_trial(2, (0.2, 0.5))]
    figure = front_figure([*trials, {**rated_trial(3, (9, 9)), "state": "failed"}], BOTH)
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
    assert front_figure([rated_trial(0, (0.3, 0.2))], ["maximize"]) is None
    assert front_figure([], BOTH) is None
