"""Bias and stability of judges, and how alike main and assistant are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judgebench.report.views.bias import DIAGNOSTICS, SIMILARITY
from tests.report.conftest import in_terminal, on_page, results_of, texts_of, words_of

KNOWN = {"bias_wasserstein": 0.12, "bias_kl": 0.34, "modal_score": 3.0, "modal_share": 0.625, "stability": 0.0789}
KNOWN |= {"self_agreement": 0.654, "bias_shift": -0.1}


@pytest.fixture(scope="module")
def known(run):
    return results_of(
        run,
        metrics=[
            record | {name: value + 0.01 * record["range_min"] for name, value in KNOWN.items()}
            for record in run.records
        ],
    )


def test_diagnostics_are_those_of_the_records(known):
    (table,) = DIAGNOSTICS.tables(known)
    first, *others = ([[cell.text for cell in row] for row in section.rows] for section in table.sections)
    assert first == [
        ["main, greedy", "0-4", "0.120", "-0.10", "0.34", "3 (62 %)", "0.079", "0.654"],
        ["", "1-5", "0.130", "-0.09", "0.35", "3.01 (64 %)", "0.089", "0.664"],
        ["", "2-6", "0.140", "-0.08", "0.36", "3.02 (64 %)", "0.099", "0.674"],
        ["", "3-7", "0.150", "-0.07", "0.37", "3.03 (66 %)", "0.109", "0.684"],
    ]
    assert len(others) == 4


def test_similarity_is_that_of_the_readings(known):
    (table,) = SIMILARITY.tables(known)
    expected = [one for one in known.similarity if one["split"] == "test"]
    rows = texts_of(table)
    assert [row[0] for row in rows] == ["0-4", "1-5", "2-6", "3-7"]
    assert [row[1] for row in rows] == [f"{one['logprob_correlation']:.2f}" for one in expected]
    assert [row[2] for row in rows] == [f"{100 * one['mode_agreement']:.0f} %" for one in expected]


def test_of_several_defenses_the_first_is_diagnosed_and_the_others_are_named(known):
    words = [record | {"defense": "cot", "bias_wasserstein": 0.9} for record in known.metrics]
    both = replace(known, metrics=[*words, *known.metrics])
    (table,) = DIAGNOSTICS.tables(both)
    assert table.title == "coherence"
    assert texts_of(table)[0][2] == "0.120"
    assert table.note.endswith("All without defense; metrics.json has the same of cot.")
    assert words_of(in_terminal(both)).count("bias and stability") == 1
    (alone,) = DIAGNOSTICS.tables(replace(known, metrics=words))
    assert alone.title == "coherence, defense cot"
    assert "metrics.json" not in alone.note


def test_records_that_know_nothing_of_bias_have_no_diagnostics(run):
    assert DIAGNOSTICS.tables(results_of(run)) == SIMILARITY.tables(results_of(run)) == []
    assert "Bias and stability" not in on_page(results_of(run))


def test_without_ranges_to_compare_there_is_no_stability(known):
    alone = [record | {"stability": None, "self_agreement": None} for record in known.metrics]
    (table,) = DIAGNOSTICS.tables(replace(known, metrics=alone))
    assert not {"SD", "self"} & set(table.heads)
