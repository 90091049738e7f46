"""Tuned lambda and t: Spearman over kappa."""

from dataclasses import replace

import pytest

from judgebench.report.figures.charts import path_charts
from judgebench.report.views.tuning import tuning_blocks
from tests.report.conftest import results_of, tuning_of


@pytest.fixture(scope="module")
def tuned(run):
    """The results of a run that was tuned."""
    return results_of(run, tuning=tuning_of(run))


def test_a_chart_a_range_with_points_of_the_grid_and_the_choice(tuned):
    (rows,) = tuning_blocks(tuned.tuning)
    charts = path_charts(tuned).values()
    for chart, row in zip(charts, rows, strict=True):
        values = {point["kappa"]: [point["dev"], point["test"]] for point in row["grid"]}
        values[row["kappa"]] = [row["dev"], row["test"]]
        lines = {float(label.removesuffix(", selected")): marks for label, marks in chart.lines}
        assert [label for label, _ in chart.lines if label.endswith(", selected")] == [f"{row['kappa']:.4g}, selected"]
        assert len(lines) <= 13
        for kappa, marks in lines.items():
            whole = min(values, key=lambda known: abs(known - kappa))
            assert [mark.value for mark in marks] == values[whole]


def test_points_without_a_correlation_are_no_zeros(tuned):
    # as where a judge says one thing until it is contrasted: all 0 by convention, and what can be chosen is negative
    ((first, *_),) = tuning_blocks(tuned.tuning)
    grid = [point | {"constant": True, "dev": 0.0} for point in first["grid"]]
    (chart,) = path_charts(results_with(tuned, [first | {"grid": grid}])).values()
    assert [label for label, _ in chart.lines] == [f"{first['kappa']:.4g}, selected"]


def test_expectations_have_no_path(tuned):
    expectations = [record | {"rule": "expectation"} for record in tuned.tuning]
    assert path_charts(results_with(tuned, expectations)) == {}


def results_with(results, tuning):
    return replace(results, tuning=tuning)
