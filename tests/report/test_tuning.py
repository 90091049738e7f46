"""Tuned lambda and t: the table, Spearman over kappa."""

from __future__ import annotations

import numpy as np
import pytest

from judgebench.report.figures.tuning import HeatMap, heat_map_figure, path_figure
from judgebench.report.layout import draw_all
from judgebench.report.views.tuning import tuning_blocks
from judgebench.results.schema import PLACES
from tests.report.conftest import results_of, tuning_of


@pytest.fixture(scope="module")
def tuned(run):
    """The results of a run that was tuned."""
    return results_of(run, tuning=tuning_of(run))


@pytest.fixture(scope="module")
def rows(tuned):
    (found,) = tuning_blocks(tuned.tuning)
    return found


def test_a_panel_a_range_with_the_points_of_the_grid_and_the_choice(tuned, rows):
    figure = path_figure(tuned, rows)
    assert len(figure.axes) == 4
    for axis, row in zip(figure.axes, rows, strict=True):
        lines = [line for line in axis.lines if line.get_linewidth() == 1.2 and line.get_linestyle() == "-"]
        points = sorted(row["grid"], key=lambda point: point["kappa"])
        for split, line in zip(("dev", "test"), lines, strict=True):
            assert line.get_xdata().tolist() == [point["kappa"] for point in points]
            assert line.get_ydata().tolist() == [point[split] for point in points]
        rings = [line for line in axis.lines if line.get_markersize() == 8]
        assert [ring.get_ydata()[0] for ring in rings] == [row["dev"], row["test"]]


def test_points_without_a_correlation_are_no_zeros(tuned, rows):
    # as where a judge says one thing until it is contrasted: all 0 by convention, and what can be chosen is negative
    first = rows[0]
    grid = [point | {"constant": i > 0, "dev": -0.1 if i == 0 else 0.0} for i, point in enumerate(first["grid"])]
    kept = first["grid"][0]
    own = first | {"grid": grid, "lambda": kept["lambda"], "temperature": kept["temperature"]}
    blank = [own]
    varied = [first | {"grid": [point | {"constant": False} for point in first["grid"]]}]
    dots = [line for line in path_figure(tuned, blank).axes[0].lines if line.get_markersize() == 3.5]
    assert [(len(one.get_xdata()), one.get_markerfacecolor() == "white") for one in dots] == [
        (len(grid) - 1, True),
        (1, False),
    ]
    assert "Hollow" in path_figure(tuned, blank).get_label()
    assert "Hollow" not in path_figure(tuned, varied).get_label()


def test_a_heat_map_may_have_holes_and_equal_values():
    values = np.array([[0.5, np.nan], [0.5, 0.5]])
    figure = heat_map_figure([HeatMap("x", [0.1, 1], [1, 2], values)], ("λ", "t"), "title", "caption")
    assert len(figure.axes[0].texts) == 3
    nothing = HeatMap("x", [0.1], [1], np.full((1, 1), np.nan))
    assert heat_map_figure([nothing], ("λ", "t"), "title", "caption").axes[0].texts[:] == []


def test_a_tuned_run_draws_it_and_the_folder_knows_its_name(tuned):
    figures = draw_all(tuned)
    assert "path_coherence_contrastive" in figures
    assert all(PLACES["figures"].fullmatch(f"{name}.png") for name in figures)
