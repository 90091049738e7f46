"""The figure of range bias as variance: its bars are the records."""

from __future__ import annotations

import pytest

from judgebench.report.figures.scores import variance_figure
from judgebench.results.results import Results
from judgebench.studies.variance import variance_records
from tests.stats.sides import FOUR, known_judge, sample_of


def results(sides, **titles):
    return Results(variance=variance_records(sides), about={"titles": titles})


def judges(*names, ratings=None, **more):
    values, groups = known_judge(0, 40)
    return [
        sample_of(values[:, i], *FOUR[i], groups=groups, ratings=ratings, judge=judge, decoding=decoding, **more)
        for judge, decoding in names
        for i in range(4)
    ]


THREE = ("main", "greedy"), ("main", "expectation"), ("pair", "contrastive")


def test_bars_are_the_shares_of_each_series_without_assistants():
    made = results([*judges(*THREE), *judges(("assistant", "greedy")), *judges(("main", "greedy"), dimension="style")])
    figure = variance_figure(made)
    quality, style = figure.axes
    assert [label.get_text() for label in quality.get_yticklabels()] == [f"{one}, {two}" for one, two in THREE]
    record = made.variance[0]
    first = [bar for bar in quality.patches if bar.get_y() < 0.5]
    names = ("texts_share", "range_interactions", "range_own")
    assert [bar.get_width() for bar in first] == pytest.approx([record[name] for name in names])
    assert first[-1].get_x() + first[-1].get_width() == pytest.approx(1.0)
    assert style.get_title(loc="left") == "style"


def test_there_is_no_figure_without_components():
    assert variance_figure(Results()) is None
    assert variance_figure(results([sample_of([0.1, 0.2])])) is None
    assert variance_figure(results([sample_of([0.5] * 3, *ends) for ends in ((0, 4), (1, 5))])) is None
