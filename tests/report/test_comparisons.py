"""Paired differences between judges: tables, notes and sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from judgebench.report.formats import p_value, rounded_up
from judgebench.report.views.comparisons import (
    other_statistics,
)
from tests.report.conftest import comparisons_of, results_of


def test_the_other_correlations_are_folded(run):
    tables = other_statistics(results_of(run, comparisons=comparisons_of(run)))
    assert [table.folded for table in tables] == ["coherence: the same in Pearson", "coherence: the same in Kendall"]


# --- sentences --------------------------------------------------------------------------------------------------------


@given(st.integers(2, 10**6))
def test_estimated_groups_are_rounded_up_to_two_digits(count):
    shown = int(rounded_up(count).replace(",", ""))
    assert count <= shown < 1.1 * count + 1
    assert len(str(shown).rstrip("0")) <= 2


def test_p_values_are_never_0():
    assert [p_value(value) for value in (0.0, 1.0, None)] == ["<.001", "1.000", "-"]
