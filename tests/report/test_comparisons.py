"""Paired differences between judges: tables, notes and sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.report.formats import p_value, rounded_up
from judgebench.report.views.comparisons import (
    COMPARISONS,
    change_sentences,
    comparison_frame,
    comparison_note,
    comparison_view,
    other_statistics,
)
from judgebench.results.results import Results
from judgebench.stats.paired import BETTER, NOT_SIGNIFICANT
from tests.report.conftest import comparisons_of, results_of, texts_of


def row(**changed):
    record = {
        **{"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"},
        **{"defense": "none", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "ranges": 1},
        **{"first_judge": "pair", "first_decoding": "contrastive", "first_lambda": 0.1, "first_temperature": 1.0},
        **{"second_judge": "main", "second_decoding": "greedy", "second_lambda": None, "second_temperature": None},
        **{"statistic": "spearman", "n": 90, "groups": 30, "first": 0.4, "second": 0.3, "difference": 0.1},
        **{"low": -0.02, "high": 0.2, "se": 0.05, "p": 0.08, "p_holm": 0.2},
        **{"comparisons": 3, "groups_needed": 61, "groups_needed_for_0.05": None, "says": NOT_SIGNIFICANT},
    }
    return record | changed


MEAN = {"range_min": None, "range_max": None, "range_step": None, "ranges": 2}
CLEAR = {"difference": 0.03, "low": 0.01, "high": 0.05, "says": BETTER}
UNCLEAR = {"difference": 0.01, "low": -0.02, "high": 0.04, "groups": 60, "groups_needed": 1234}
BARE = dict.fromkeys(("low", "high", "p", "p_holm"))
UNTESTED = {"p": None, "p_holm": None, "says": None, "groups_needed": None, "comparisons": 0}


def of(*records, groups="articles"):
    return Results(comparisons=records, about={"titles": {"groups": groups}})


def places(*records):
    return [line[0] for table in COMPARISONS.tables(of(*records)) for line in texts_of(table)]


def test_a_table_has_its_ranges_and_then_their_mean(run):
    (table,) = COMPARISONS.tables(results_of(run, comparisons=comparisons_of(run)))
    assert table.title == "coherence: pair, contrastive against main, greedy"
    assert [[line[0].text for line in section.rows] for section in table.sections] == [
        ["0-4", "1-5", "2-6", "3-7"],
        ["mean of 4 ranges"],
    ]


@pytest.mark.parametrize("statistic", ["pearson", "spearman", "kendall"])
def test_rows_are_the_records(run, statistic):
    records = comparisons_of(run)
    wanted = {"split": "test", "level": "dataset", "statistic": statistic}
    own = [r for r in records if all(r[name] == value for name, value in wanted.items())]
    frame = comparison_frame(records, "articles", statistic)
    for name in ("difference", "p_holm", "groups_needed", "comparisons"):
        assert frame[name].dropna().tolist() == [r[name] for r in own if r[name] is not None]
    for shown in frame.to_dict("records"):
        holds_zero = shown["low"] <= 0 <= shown["high"]
        assert (shown["needed"] == shown["groups_needed"]) == (holds_zero and bool(shown["groups_needed"] > 0))
    tables = comparison_view(statistic).tables(Results(comparisons=records))
    shown = [line[3].split()[0] for line in texts_of(tables[0])]
    assert [float(one) for one in shown] == pytest.approx([r["difference"] for r in own], abs=5.1e-4)


@pytest.mark.parametrize(
    ("changed", "remark", "needed", "verdict"),
    [
        ({}, "", {"needed": "61", "for 0.05": None}, NOT_SIGNIFICANT),
        ({"groups_needed_for_0.05": 244}, "", {"needed": "61", "for 0.05": "250"}, NOT_SIGNIFICANT),
        ({"difference": 0.0, "groups_needed": None}, "", {}, NOT_SIGNIFICANT),
        ({"low": 0.01}, "the interval leaves out 0, but p is above 0.05", {}, NOT_SIGNIFICANT),
        ({"low": 0.01, "p": 0.02}, "the interval leaves out 0, but p after Holm is above 0.05", {}, NOT_SIGNIFICANT),
        ({"low": 0.01, "says": BETTER}, "", {"needed": None}, BETTER),
        ({"low": 0.01, "groups": 5}, "a test needs at least 6 dialogues; here 5", {}, NOT_SIGNIFICANT),
        (BARE, "", {"needed": None}, "no interval"),
        (UNTESTED, "", {"needed": None}, "not tested: selected on these texts"),
        (UNTESTED | {"low": 0.02}, "", {"needed": None}, "not tested: selected on these texts"),
    ],
)
def test_verdicts_remarks_and_needed_groups_by_hand(changed, remark, needed, verdict):
    (table,) = COMPARISONS.tables(of(row(**changed), groups="dialogues"))
    (section,) = table.sections
    assert list(section.notes) == [remark]
    assert section.rows[0][-1].text == verdict
    shown = {column.title: cell.text for column, cell in zip(table.columns, section.rows[0], strict=True)}
    assert {title: shown.get(title) for title in needed} == needed
    assert table.is_marked == (verdict == BETTER)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([row(), row(first_lambda=0.5)], ["1-5, λ 0.1, t 1", "1-5, λ 0.5, t 1"]),
        (
            [
                row(range_min=-2.0, range_max=2.0),
                row(range_max=10.0),
                row(range_min=-5.0, range_max=-1.0),
                row(**MEAN),
            ],
            ["-5 to -1", "-2 to 2", "1-10", "mean of 2 ranges"],
        ),
        ([row(), row(split="dev")], ["1-5"]),
        ([row(split="dev")], ["1-5"]),
        ([], []),
    ],
    ids=["lambdas side by side", "ranges ascend", "test", "dev where there is no other", "nothing"],
)
def test_rows_are_named_by_range_and_setting(records, expected):
    assert places(*records) == expected


def test_attack_defense_and_level_are_named():
    (table,) = COMPARISONS.tables(of(row(attack="dsi", defense="cap", level="system")))
    assert table.title.startswith("coherence, attack dsi, defense cap, system level: pair, contrastive")


def note_of(*records, **how):
    return comparison_note(comparison_frame(records, "articles"), "articles", **how)


def test_the_note_speaks_of_intervals_and_tests_only_where_there_are_some():
    assert note_of(row(**BARE)) == "First - second: difference in Spearman."
    untested = note_of(row(**UNTESTED))
    assert "[95 % interval, articles resampled]" in untested
    assert "p: " not in untested
    assert "before Holm's correction; here 30." in note_of(row())


@pytest.mark.parametrize(
    ("records", "together", "over"),
    [
        ([row(comparisons=1)], False, "the one comparison of the dimension"),
        ([row()], False, "the 3 comparisons of the dimension"),
        (
            [row(), row(dimension="relevance", comparisons=5)],
            False,
            "the 3 to 5 comparisons of each dimension by itself",
        ),
        (
            [row(comparisons=8), row(dimension="relevance", comparisons=8)],
            True,
            "all the 8 comparisons of this page",
        ),
    ],
)
def test_the_note_says_over_what_holms_correction_is(records, together, over):
    assert f"Holm: corrected over {over}." in note_of(*records, together=together)


def test_the_other_correlations_are_folded(run):
    tables = other_statistics(results_of(run, comparisons=comparisons_of(run)))
    assert [table.folded for table in tables] == ["coherence: the same in Pearson", "coherence: the same in Kendall"]


# --- sentences --------------------------------------------------------------------------------------------------------


def sentence_of(*changed, groups="articles"):
    """The sentence of differences, one a range."""
    ranges = [{"range_min": float(low), "range_max": low + 4.0} for low in range(len(changed))]
    given = [row(**({} if "ranges" in one else at) | one) for at, one in zip(ranges, changed, strict=True)]
    (sentence,) = change_sentences(of(*given, groups=groups))
    head, _, rest = sentence.partition(" changes Spearman ")
    assert head == "coherence: pair, contrastive, against main, greedy,"
    return rest.removeprefix("by ")


HOLM = {"difference": 0.03, "low": 0.01, "high": 0.05, "p": 0.02}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([UNCLEAR, CLEAR], "significantly in 1 of 2 ranges: +0.030 [+0.010, +0.050] in range 1-5."),
        (
            [UNCLEAR, UNCLEAR, MEAN | UNCLEAR | {"difference": 0.02, "low": -0.01, "high": 0.05}],
            "significantly in none of 2 ranges: the changes are +0.010 to +0.010. The mean over the ranges changes "
            "by +0.020 [-0.010, +0.050]: not significant.",
        ),
        ([CLEAR], "+0.030 [+0.010, +0.050] in range 0-4: significantly better."),
        ([HOLM, HOLM], "significantly in none of 2 ranges: the changes are +0.030 to +0.030."),
        (
            [HOLM],
            "+0.030 [+0.010, +0.050] in range 0-4: not significant (the interval leaves out 0, but p after Holm is "
            "above 0.05).",
        ),
        ([BARE], "+0.100 in range 0-4; without an interval, chance cannot be ruled out."),
        (
            [BARE, BARE | {"difference": 0.05}],
            "+0.050 to +0.100 over 2 ranges; without an interval, chance cannot be ruled out.",
        ),
    ],
)
def test_change_sentences_by_hand(changed, expected):
    assert sentence_of(*changed) == expected


def test_no_sentence_says_how_many_groups_would_make_chance_significant():
    assert sentence_of(UNCLEAR).endswith(": not significant.")


def test_changes_against_others_than_the_main_model_are_no_answer():
    assert change_sentences(of(row(**CLEAR, second_judge="pair", second_decoding="contrastive_per_range"))) == []
    assert change_sentences(of()) == []


@given(st.integers(2, 10**6))
def test_estimated_groups_are_rounded_up_to_two_digits(count):
    shown = int(rounded_up(count).replace(",", ""))
    assert count <= shown < 1.1 * count + 1
    assert len(str(shown).rstrip("0")) <= 2


def test_p_values_are_never_0():
    assert [p_value(value) for value in (0.0, 1.0, None)] == ["<.001", "1.000", "-"]
