from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.metrics.paired import BETTER, NOT_TOLD_APART
from judgebench.report.differences import (
    about,
    arrange_comparisons,
    comparison_note,
    note,
    p_value,
    significance_note,
    verdict,
)
from tests.report.conftest import comparisons_of


@pytest.fixture(scope="module")
def records(run):
    return comparisons_of(run)


def test_a_block_has_its_ranges_and_then_their_mean(records):
    blocks = arrange_comparisons(records)
    assert [(one.first, one.second) for one in blocks] == [("pair, contrastive", "main, greedy")]
    assert [row.place for row in blocks[0].rows] == ["0-4", "1-5", "2-6", "3-7", "mean of 4 ranges"]
    assert [row.mean for row in blocks[0].rows] == [False] * 4 + [True]


@pytest.mark.parametrize("statistic", ["pearson", "spearman", "kendall"])
def test_rows_are_the_records(records, statistic):
    wanted = {"split": "test", "level": "dataset", "statistic": statistic}
    own = [r for r in records if all(r[name] == value for name, value in wanted.items())]
    (block,) = arrange_comparisons(records, statistic)
    assert [row.difference for row in block.rows] == [r["difference"] for r in own]
    assert [row.p_holm for row in block.rows] == [r["p_holm"] for r in own]
    assert [row.needed for row in block.rows] == [r["groups_needed"] for r in own]
    assert block.comparisons == own[0]["comparisons"]


def test_power_stands_beside_every_difference_whose_interval_holds_0_and_no_other(records):
    for row in arrange_comparisons(records)[0].rows:
        assert ("80 % power" in note(row, "articles")) == (row.low <= 0 <= row.high and row.needed is not None)
        assert f"here {row.groups}" in note(row) or not row.holds_zero


def row(**changed):
    record = {
        **{"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"},
        **{"defense": "none", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "ranges": 1},
        **{"first_judge": "pair", "first_decoding": "contrastive", "first_lambda": 0.1, "first_temperature": 1.0},
        **{"second_judge": "main", "second_decoding": "greedy", "second_lambda": None, "second_temperature": None},
        **{"statistic": "spearman", "n": 90, "groups": 30, "first": 0.4, "second": 0.3, "difference": 0.1},
        **{"low": -0.02, "high": 0.2, "bca_low": -0.01, "bca_high": 0.21, "se": 0.05, "p": 0.08, "p_holm": 0.2},
        **{"comparisons": 3, "groups_needed": 61, "groups_needed_for_0.05": 244, "says": NOT_TOLD_APART},
    }
    return record | changed


def only(**changed):
    return arrange_comparisons([row(**changed)])[0].rows[0]


def test_notes_by_hand():
    assert note(only()) == "needs about 61 articles for 80 % power before Holm; here 30"
    assert note(only(), "dialogues") == "needs about 61 dialogues for 80 % power before Holm; here 30"
    assert note(only(difference=0.0, groups_needed=None)) == "there is no difference to tell; here 30 articles"
    assert note(only(low=0.01)) == "its interval leaves out 0, but p is above 0.05"
    assert note(only(low=0.01, p=0.02)) == "its interval leaves out 0, but p after Holm is above 0.05"
    assert note(only(low=0.01, says=BETTER)) == ""
    assert note(only(low=0.01, groups=5), "dialogues") == "it takes at least 6 dialogues; here 5"
    assert note(only(low=None, high=None)) == ""
    assert verdict(only(low=None, high=None)) == "no interval"
    assert verdict(only(says=BETTER)) == BETTER


@pytest.mark.parametrize("ends", [(-0.02, 0.2), (0.02, 0.2)])
def test_what_was_not_tested_is_neither_told_apart_nor_noted(ends):
    untested = {"p": None, "p_holm": None, "says": None, "groups_needed": None, "comparisons": 0}
    records = [row(low=ends[0], high=ends[1], **untested)]
    (one,) = arrange_comparisons(records)[0].rows
    assert not one.told_apart
    assert note(one) == ""
    assert verdict(one) == "not tested: chosen on these texts"
    assert comparison_note(arrange_comparisons(records), "articles").endswith("[95 % interval, articles resampled].")


def test_lambdas_tried_side_by_side_are_told_apart():
    (block,) = arrange_comparisons([row(), row(first_lambda=0.5)])
    assert [one.place for one in block.rows] == ["1-5, λ 0.1, t 1", "1-5, λ 0.5, t 1"]


def test_ranges_ascend_as_in_all_tables_whatever_the_order_asked_for():
    mean = {"range_min": None, "range_max": None, "range_step": None, "ranges": 3}
    asked = [row(range_min=-2.0, range_max=2.0), row(range_max=10.0), row(range_min=-5.0, range_max=-1.0), row(**mean)]
    (block,) = arrange_comparisons(asked)
    assert [one.place for one in block.rows] == ["-5 to -1", "-2 to 2", "1-10", "mean of 3 ranges"]


def test_attack_defense_and_level_are_named():
    (block,) = arrange_comparisons([row(attack="dsi", defense="cap", level="system")])
    assert block.condition == "coherence, attack dsi, defense cap, system level"


def test_the_test_split_is_shown_and_dev_where_there_is_no_other():
    assert len(arrange_comparisons([row(), row(split="dev")])[0].rows) == 1
    assert len(arrange_comparisons([row(split="dev")])[0].rows) == 1
    assert arrange_comparisons([]) == []


def test_the_note_below_speaks_of_intervals_only_where_there_are_some():
    whole = comparison_note(arrange_comparisons([row()]), "articles")
    assert "3 comparisons" in whole
    assert "by itself, before Holm's correction" in whole
    bare = comparison_note(arrange_comparisons([row(low=None, high=None, p=None, p_holm=None)]), "articles")
    assert bare == "First - second: difference in Spearman."
    assert comparison_note([], "articles")


def test_the_notes_say_over_what_holms_correction_is():
    one, two = row(), row(dimension="relevance", comparisons=5)
    assert "Holm: corrected over the 3 comparisons of the dimension." in comparison_note(
        arrange_comparisons([one]), "a"
    )
    compared = arrange_comparisons([one, two])
    assert "over the 3 to 5 comparisons of each dimension by itself." in comparison_note(compared, "articles")
    assert significance_note(compared).endswith("the 3 to 5 comparisons of each dimension by itself considered.")
    page = arrange_comparisons([row(comparisons=8), row(dimension="relevance", comparisons=8)])
    assert "corrected over all the 8 comparisons of this page." in comparison_note(page, "articles", together=True)
    assert significance_note(arrange_comparisons([row(p=None, p_holm=None)])) == ""


@given(st.integers(2, 10**6))
def test_about_rounds_up_to_two_digits(count):
    told = int(about(count).removeprefix("about ").replace(",", ""))
    assert count <= told < 1.1 * count + 1
    assert len(str(told).rstrip("0")) <= 2


def test_p_values_are_never_0():
    assert p_value(0.0) == "<.001"
    assert p_value(1.0) == "1.000"
    assert p_value(None) == "-"
