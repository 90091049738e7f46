from __future__ import annotations

import numpy as np
import pytest

from judgebench.report.choices import arrange_tuning
from judgebench.report.contract import FIGURE
from judgebench.report.figures import draw_all
from judgebench.report.heat_map import HeatMap, grid_figure, heat_map_figure
from judgebench.report.path_figure import path_figure
from judgebench.report.saved_figures import save_figures
from judgebench.tuning.curves import curves
from judgebench.tuning.tuners import Shared
from tests.report.conftest import tuning_of


@pytest.fixture(scope="module")
def choices(run):
    (found,) = arrange_tuning(tuning_of(run))
    return found


def steps(axis):
    return [line for line in axis.lines if line.get_drawstyle() == "steps-post"]


def test_a_panel_a_range_with_the_exact_curves(run, choices):
    figure = path_figure(run.readings, run.scores, choices)
    assert len(figure.axes) == 4
    for axis, row in zip(figure.axes, choices.rows, strict=True):
        for line, (_, curve) in zip(steps(axis), curves(run.readings, run.scores, row).items(), strict=True):
            drawn = np.asarray(line.get_ydata())[:-1]
            assert drawn.tolist() == curve.value[: len(drawn)].tolist()
            assert line.get_xdata()[0] == 0


def test_the_grid_and_the_choice_lie_on_the_dev_curve(run, choices):
    figure = path_figure(run.readings, run.scores, choices)
    for axis, row in zip(figure.axes, choices.rows, strict=True):
        dev = curves(run.readings, run.scores, row)["dev"]
        for point in row["grid"]:
            step = np.searchsorted(dev.start, point["kappa"], side="right") - 1
            assert point["dev"] == pytest.approx(dev.value[step], abs=1e-12)
        rings = [line for line in axis.lines if line.get_markersize() == 8]
        assert [ring.get_ydata()[0] for ring in rings] == [row["dev"], row["test"]]


def test_expectations_have_no_path_figure(run):
    (found,) = arrange_tuning(tuning_of(run, rule="expectation"))
    assert path_figure(run.readings, run.scores, found) is None
    assert grid_figure(found) is not None


def test_the_heat_map_writes_every_value_and_frames_the_choice(choices):
    figure = grid_figure(choices)
    for axis, row in zip(figure.axes, choices.rows, strict=True):
        assert sorted(text.get_text() for text in axis.texts) == sorted(f"{p['dev']:.3f}" for p in row["grid"])
        assert len(axis.patches) == 1


def test_a_heat_map_may_have_holes_and_equal_values():
    values = np.array([[0.5, np.nan], [0.5, 0.5]])
    figure = heat_map_figure([HeatMap("x", [0.1, 1], [1, 2], values)], ("λ", "t"), "title", "caption")
    assert len(figure.axes[0].texts) == 3
    nothing = HeatMap("x", [0.1], [1], np.full((1, 1), np.nan))
    assert heat_map_figure([nothing], ("λ", "t"), "title", "caption").axes[0].texts[:] == []


def test_a_tuned_run_draws_them_and_the_folder_knows_their_names(run, tmp_path):
    figures = draw_all(run.readings, run.scores, run.records, run.scale, run.titles, tuning_of(run, Shared()))
    assert {"path_coherence_contrastive", "grid_coherence_contrastive"} <= set(figures)
    assert not any("per_range" in name for name in figures)
    names = [path.name for path in save_figures({k: figures[k] for k in list(figures)[-2:]}, tmp_path)]
    assert all(FIGURE.fullmatch(name) for name in names)
