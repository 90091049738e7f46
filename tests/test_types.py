"""The nouns: score ranges, above all."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.types import Condition, ScoreRange
from judgebench.words.errors import UserError


@st.composite
def ranges(draw: st.DrawFn) -> ScoreRange:
    places = draw(st.integers(0, 6))
    step = Decimal(draw(st.integers(1, 10**6))).scaleb(-places)
    low = Decimal(draw(st.integers(-(10**6), 10**6))).scaleb(-places)
    high = low + step * draw(st.integers(1, 60))
    return ScoreRange(float(low), float(high), float(step))


@given(ranges())
def test_candidates_are_the_values_written_alike(score_range: ScoreRange) -> None:
    values, candidates = score_range.values, score_range.candidates
    assert [float(candidate) for candidate in candidates] == list(values)
    assert len({len(candidate.partition(".")[2]) for candidate in candidates}) == 1
    assert list(values) == sorted(set(values))
    assert (values[0], values[-1]) == (score_range.minimum, score_range.maximum)
    assert candidates == tuple(score_range.text(value) for value in values)
    exact = [Fraction(candidate) for candidate in candidates]
    assert {b - a for a, b in pairwise(exact)} == {Fraction(repr(score_range.step))}


@given(ranges())
def test_a_range_comes_back_from_its_own_numbers(score_range: ScoreRange) -> None:
    given = [score_range.minimum, score_range.maximum, score_range.step]
    assert ScoreRange.parse(given) == score_range


@pytest.mark.parametrize(
    ("numbers", "candidates", "shown"),
    [
        ((1, 5), "1 2 3 4 5", "1-5"),
        ((0, 1), "0 1", "0-1"),
        ((-1, 1, 0.5), "-1.0 -0.5 0.0 0.5 1.0", "-1.0 to 1.0 by 0.5"),
        ((-0.0, 1), "0 1", "0-1"),
        ((1, 2, 0.25), "1.00 1.25 1.50 1.75 2.00", "1.00-2.00 by 0.25"),
        ((0.1, 0.3, 0.1), "0.1 0.2 0.3", "0.1-0.3 by 0.1"),
        ((0, 100, 50), "0 50 100", "0-100 by 50"),
        ((0, 1e9, 1e9), "0 1000000000", "0-1000000000 by 1e+09"),
        ((0, 0.000002, 0.000001), "0.000000 0.000001 0.000002", "0.000000-0.000002 by 1e-06"),
    ],
)
def test_ranges_worked_out_by_hand(numbers: tuple[float, ...], candidates: str, shown: str) -> None:
    score_range = ScoreRange(*numbers)
    assert " ".join(score_range.candidates) == candidates
    assert str(score_range) == shown
    assert ScoreRange.parse(list(numbers)) == score_range


NINES = 10**400 - 1


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ((5, 5), r"range \[5, 5\] with step 1: the minimum must lie below the maximum, as in \[1, 5\], or \[5, 1\]"),
        ((0, 1001), r"that is 1002 scores; at most 1001"),
        ((1, 5, 0), "the step must be above 0"),
        ((1, 5, 3), "the step must lead from the minimum to the maximum in whole steps"),
        ((1, NINES), "a number of too many digits.*: minimum, maximum and step must be finite, at most"),
        ((1, 1e300), "must be finite, at most"),
        ((1, float("inf")), "must be finite, at most"),
        ((float("nan"), 5), "must be finite, at most"),
        ((1, 5, float("nan")), "must be finite, at most"),
        ((1e-320, 1), "scores may have at most 6 decimals"),
    ],
)
def test_what_is_no_range_is_told_however_it_is_made(numbers: tuple[float, ...], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ScoreRange(*numbers)
    with pytest.raises(UserError, match=sentence):
        ScoreRange.parse(numbers)


@pytest.mark.parametrize(
    "given", [5, "1-5", "15", None, [], [1], [1, 5, 1, 1], ["1", "5"], [True, 5], [[1, 5]], {"a": 1}, [10**5000]]
)
def test_what_does_not_look_like_a_range_is_told(given: Any) -> None:
    with pytest.raises(
        UserError, match=r"^ranges: .* is not a range; give \[minimum, maximum\] or .*'ranges=\[\[1,5\]\]'"
    ):
        ScoreRange.parse(given)


def test_nouns_name_themselves() -> None:
    assert [str(ScoreRange(*ends)) for ends in ((-5, -1), (-2, 2), (0, 4))] == ["-5 to -1", "-2 to 2", "0-4"]
    assert str(Condition("fluency", ScoreRange(1, 5))) == "fluency, 1-5"
    assert str(Condition("fluency", ScoreRange(1, 5), attack="phrase")) == "fluency, 1-5, attack phrase"


@pytest.mark.parametrize(
    ("given", "candidates", "values", "shown"),
    [
        ([5, 1], "5 4 3 2 1", [1, 2, 3, 4, 5], "5-1"),
        ([1, -1], "1 0 -1", [-1, 0, 1], "1 to -1"),
        ([1, 0, 0.5], "1.0 0.5 0.0", [0, 0.5, 1], "1.0-0.0 by 0.5"),
        (["E", "D", "C", "B", "A"], "E D C B A", [1, 2, 3, 4, 5], "E-A"),
        (["poor", "fair", "so-so"], "poor fair so-so", [1, 2, 3], "poor-so-so"),
    ],
)
def test_labels_stand_for_scores_that_count_from_the_worst(
    given: list[Any], candidates: str, values: list[float], shown: str
) -> None:
    score_range = ScoreRange.parse(given)
    assert " ".join(score_range.candidates) == candidates
    assert score_range.values == tuple(values)
    assert str(score_range) == shown
    assert [score_range.text(value) for value in values] == candidates.split()
    assert score_range != ScoreRange(score_range.minimum, score_range.maximum, score_range.step)
    assert ScoreRange.of(score_range.columns) == ScoreRange.parse(score_range.given) == score_range


def test_between_labels_numbers_are_mirrored_and_words_are_the_nearest() -> None:
    assert [ScoreRange.parse([10, 0]).mirrored(value) for value in (0, 2.5, 10)] == [10, 7.5, 0]
    assert ScoreRange(0, 10).mirrored(2.5) == 2.5
    letters = ScoreRange.parse(["C", "B", "A"])
    assert [letters.text(value) for value in (0, 1.5, 1.6, 2.5, 2.51, 9)] == ["C", "C", "B", "B", "A", "A"]


def test_a_range_without_labels_is_named_in_tables_as_ever() -> None:
    named = {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0}
    assert ScoreRange(1, 5).columns == named
    for empty in ({}, {"range_labels": ""}, {"range_labels": None}, {"range_labels": float("nan")}):
        assert ScoreRange.of(named | empty) == ScoreRange(1, 5)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["E", "e"], "names a label twice, which may not differ in capitals alone"),
        ([1, "B"], "mixes numbers and labels"),
        (["A"], "that is 1 label; give 2 to 26"),
        ([f"g{i}" for i in range(27)], "that is 27 labels; give 2 to 26"),
        ([" A", "B"], "the label ' A' must begin with a letter"),
        (["A, B", "C"], "and single spaces alone"),
    ],
)
def test_labels_that_cannot_be_are_told_with_what_can(given: list[Any], sentence: str) -> None:
    with pytest.raises(UserError, match=r"^ranges: \[.*'ranges=\[\[E,D,C,B,A\]\]'") as told:
        ScoreRange.parse(given)
    assert sentence in str(told.value)


def test_every_score_has_a_label_or_none_has() -> None:
    with pytest.raises(UserError, match="2 labels for 5 scores"):
        ScoreRange(1, 5, labels=("B", "A"))
