from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judgebench.report.choices import arrange_tuning

from judgebench.report.figures.draw import draw_all
from judgebench.report.figures.style import save_figures
from judgebench.report.figures.tuning import HeatMap, grid_figure, heat_map_figure, path_figure
from judgebench.results.schema import FIGURE
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
        told = ["–" if p["constant"] else f"{p['dev']:.3f}" for p in row["grid"]]
        assert sorted(text.get_text() for text in axis.texts) == sorted(told)
        assert len(axis.patches) == 1


def test_points_without_a_correlation_are_no_zeros(run, choices):
    # as where a judge says one thing until it is contrasted: all 0 by convention, and what can be chosen is negative
    first = choices.rows[0]
    grid = [point | {"constant": i > 0, "dev": -0.1 if i == 0 else 0.0} for i, point in enumerate(first["grid"])]
    kept = first["grid"][0]
    own = first | {"grid": grid, "lambda": kept["lambda"], "temperature": kept["temperature"]}
    blank = replace(choices, rows=[own])
    varied = replace(choices, rows=[first | {"grid": [point | {"constant": False} for point in first["grid"]]}])
    figure = grid_figure(blank)
    panel = figure.axes[0]
    assert sorted(text.get_text() for text in panel.texts) == ["-0.100", *["–"] * (len(grid) - 1)]
    assert np.ma.count(np.ma.masked_invalid(panel.images[0].get_array())) == 1
    assert "–: every dev text gets the same score" in figure.get_label()
    assert "–" not in grid_figure(varied).get_label()

    dots = [line for line in path_figure(run.readings, run.scores, blank).axes[0].lines if line.get_markersize() == 3.5]
    assert [(len(one.get_xdata()), one.get_markerfacecolor() == "white") for one in dots] == [
        (len(grid) - 1, True),
        (1, False),
    ]
    assert "Hollow" in path_figure(run.readings, run.scores, blank).get_label()
    assert "Hollow" not in path_figure(run.readings, run.scores, varied).get_label()


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
