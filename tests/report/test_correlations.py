"""Agreement with the humans as tables: at the reported level, within groups and over systems; and flags."""

from __future__ import annotations

import pytest

from judgebench.report.views.correlations import CORRELATION
from judgebench.results.results import Results
from judgebench.results.series import SeriesIndex
from tests.report.conftest import MIXED, in_terminal, results_of


def record(judge="main", decoding="greedy", low=1, high=5, spearman=0.5, **more):
    values = {}
    for name in ("pearson", "spearman", "kendall"):
        values |= {name: spearman, f"{name}_low": spearman - 0.1, f"{name}_high": spearman + 0.1}
    base = {"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"}
    base |= {"defense": "none", "range_min": low, "range_max": high, "range_step": 1, "judge": judge}
    base |= {"decoding": decoding, "lambda": None, "temperature": None, "n": 1440, "groups": 90, "failed_share": 0.0}
    return base | values | {"clamped_share": 0.0, "flags": []} | more


def of(*records, **titles):
    return Results(metrics=records, about={"titles": {"main": "SmolLM2", "assistant": "early exit", **titles}})


def only(*records, **titles):
    (table,) = CORRELATION.tables(of(*records, **titles))
    return table


def marked(table, column=2):
    return [[row[column].marked for row in section.rows] for section in table.sections]


@pytest.mark.parametrize(
    ("records", "best"),
    [
        ([record("main"), record("assistant")], [[True, True]]),
        ([record("main")], [[False]]),
        ([record("main", spearman=-0.1), record("assistant", spearman=0.0)], [[False, False]]),
    ],
    ids=["ties are all best", "a lone row is not", "nothing wins against inverted judges"],
)
def test_what_is_called_the_best(records, best):
    assert marked(only(*records)) == best


@pytest.mark.parametrize("ranges", MIXED)
def test_ranges_with_different_numbers_of_candidates(builder, ranges):
    results = results_of(builder(ranges=ranges, articles=4))
    in_order = [str(one) for one in sorted(ranges, key=lambda one: (one.minimum, one.maximum, one.step))]
    (table,) = CORRELATION.tables(results)
    assert [section.rows[0][0].text for section in table.sections] == [*in_order, "average"]
    assert {len(section.rows) for section in table.sections} == {5}
    unfolded = "".join(line[:9].strip() for line in in_terminal(results).splitlines()).replace(" ", "")
    assert all(str(score_range).replace(" ", "") in unfolded for score_range in ranges)


def test_series_are_ordered_as_people_read_them(run):
    names = [str(series) for series in SeriesIndex(run.records).all]
    assert names == [
        *("main, greedy", "main, expectation", "assistant, greedy", "assistant, expectation", "pair, contrastive"),
    ]


# --- within groups, and over systems ----------------------------------------------------------------------------------


# --- flags ------------------------------------------------------------------------------------------------------------
