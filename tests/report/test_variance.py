"""Range bias as variance in tables and sentences: real records of judges whose components are known."""

from __future__ import annotations

from judgebench.results.results import Results
from judgebench.stats.variance import variance_records
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
