"""The chart of range bias as variance: its bars are the records."""

from itertools import accumulate

import pytest

from judgebench.report.figures.charts import variance_chart
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
    chart = variance_chart(made, "quality")
    assert [label for label, _ in chart.lines] == ["greedy", "expectation", "contrastive"]
    record = made.variance[0]
    ends = [mark.value for mark in chart.lines[0][1]]
    names = ("texts_share", "range_interactions", "range_own")
    assert ends == pytest.approx(list(accumulate(record[name] for name in names)))
    assert ends[-1] == pytest.approx(1.0)
    assert len(variance_chart(made, "style").lines) == 1


def test_there_is_no_chart_without_components():
    for sides in ([], [sample_of([0.1, 0.2])], [sample_of([0.5] * 3, *ends) for ends in ((0, 4), (1, 5))]):
        assert variance_chart(results(sides), "quality").lines == []
