"""Systems beside humans in tables and sentences: real records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judgebench.report.views.systems import RANKED, SYSTEM_TESTS, SYSTEMS, system_sentences, systems_frame
from judgebench.results.results import Results
from judgebench.stats.systems import system_records
from tests.stats.test_systems import crossed, of_systems
from tests.stats.test_variance import side


def results(*sides, **titles):
    return Results(systems=system_records(sides), about={"titles": titles})


def rows_of(table):
    return [[str(cell) for cell in row] for section in table.sections for row in section.rows]


def test_a_row_a_range_and_series_with_accuracies_clusters_and_means():
    one = crossed()
    strict = replace(one, scores=1 + (one.scores - 1) / 4)
    made = results(one, replace(strict, cell=one.cell._replace(judge="pair", decoding="contrastive")), groups="topics")
    (table,) = SYSTEMS.tables(made)
    assert (table.title, table.size) == ("quality", "48 examples of 4 systems, 12 topics")
    main, pair = rows_of(table)
    assert main[:2] == ["1-5", "main, greedy"]
    assert pair[:2] == ["", "pair, contrastive"]
    record = made.systems[0]
    assert main[4].startswith(f"{100 * record['pairwise_accuracy']:.0f} % [")
    assert main[3].startswith("[")
    assert main[6] == f"{record['clusters']} / {record['human_clusters']}"
    strict_record = made.systems[1]
    assert pair[7].startswith(f"{strict_record['error']:.2f} [")
    assert f" {strict_record['error_largest']:.2f}: {strict_record['error_system']}" in pair[7]
    assert "systems resampled as well" in table.note
    assert "tied" in main[5]


@pytest.mark.parametrize(
    ("sides", "sentence"),
    [
        (
            [crossed(noise=0.0)],
            "quality: main, greedy orders 100 % [100, 100] of pairs of systems as humans do; its means of systems are "
            "off by 0.00 points on average, by 0.00 for the worst.",
        ),
        (
            [replace(crossed(noise=0.0), scores=1 + (crossed(noise=0.0).scores - 1) / 4)],
            "quality: main, greedy orders 100 % [100, 100] of pairs of systems as humans do; its means of systems are "
            "off by 1.48 points on average, by 2.31 for the worst: do not report them as human scores.",
        ),
        (
            [crossed(noise=0.0, scale=None)],
            "quality: main, greedy orders 100 % [100, 100] of pairs of systems as humans do.",
        ),
        (
            [of_systems([1, 2], [1, 3], [0, 0], ["a", "b"])],
            "quality: main, greedy orders 100 % of pairs of systems as humans do, over too few articles to tell that "
            "from chance.",
        ),
    ],
)
def test_the_sentence_is_true_with_and_without_intervals_and_scale(sides, sentence):
    assert system_sentences(results(*sides)) == [sentence]


def test_of_several_judges_and_ranges_the_best_is_told_and_called_so():
    good, bad = crossed(noise=0.0), crossed(noise=3.0)
    low = replace(good, cell=good.cell._replace(range_min=0.0, range_max=4.0), scores=bad.scores - 1)
    (sentence,) = system_sentences(results(low, good))
    assert sentence.startswith("quality: main, greedy in range 1-5 orders 100 %")
    assert sentence.endswith("It is the best of 2 ranges, so this share is optimistic.")
    (table,) = RANKED.tables(results(low, good))
    assert table.title == "quality, main, greedy, range 1-5"
    assert table.folded
    assert {row[-1] for row in rows_of(table)} == {"0.00 [0.00,0.00]"}


def test_two_judges_stand_with_their_interval_and_p():
    made = results(crossed(1), crossed(2, judge="pair", decoding="contrastive"))
    (table,) = SYSTEM_TESTS.tables(made)
    ((where, who, difference, p, corrected),) = rows_of(table)
    assert (where, who) == ("1-5", "pair, contrastive less main, greedy")
    assert p == corrected
    assert "[" in difference
    few = [of_systems([1, 2] * 3, [1, 3] * 3, [0, 0, 1, 1, 2, 2], ["a", "b"] * 3, **more)
           for more in ({}, {"judge": "pair", "decoding": "contrastive"})]  # fmt: skip
    (table,) = SYSTEM_TESTS.tables(results(*few))
    assert "take 3" in table.sections[0].notes[0]


def test_what_is_missing_is_told_below_its_row():
    made = results(of_systems(np.arange(4) + 1, np.arange(4) + 1, np.arange(4), ["a", "a", "b", "b"]))
    (table,) = SYSTEMS.tables(made)
    assert "No pairwise accuracy" in table.sections[0].notes[0]
    assert system_sentences(made) == []
    assert RANKED(made) == SYSTEM_TESTS(made) == []


def test_nothing_stands_there_where_no_two_systems_are_known():
    made = results(side([0.1, 0.2], ratings=[[1.0], [2.0]], groups=["g", "g"]))
    assert not len(systems_frame(made))
    for view in (SYSTEMS, RANKED, SYSTEM_TESTS):
        assert view(made) == view(Results()) == []
    assert system_sentences(made) == system_sentences(Results()) == []
