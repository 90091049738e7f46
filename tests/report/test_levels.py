"""Agreement within groups and over systems, as it is printed and shown."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from judgebench.report.levels import arrange_levels, levels_note
from rich.console import Console

from judgebench.metrics.evaluation import evaluate
from judgebench.report.layout import run_tables
from judgebench.types import ScoreRange
from tests.report.conftest import columns
from tests.report.test_html import page


@pytest.fixture(scope="module")
def measured(builder):
    run = builder(ranges=[ScoreRange(1, 5)], articles=14, systems=5)
    silent = run.scores["group_id"].isin(["article-3", "article-4"])
    scores = run.scores.assign(human=np.where(silent, 3.0, run.scores["human"]))
    return replace(run, scores=scores, records=evaluate(columns(scores), "mini", resamples=60))


def printed(run):
    file = io.StringIO()
    Console(file=file, width=100).print(run_tables(run.records, run.titles))
    return file.getvalue()


def test_rows_are_those_of_the_records(measured):
    (block,) = arrange_levels(measured.records, "test")
    assert block.title("articles") == "coherence: within articles and over systems, 5 systems over 12 articles"
    at = {
        record["level"]: record
        for record in measured.records
        if (record["split"], record["judge"], record["decoding"]) == ("test", "main", "greedy")
    }
    row = block.rows[0]
    assert (row.within.value, row.silent) == (at["document"]["spearman"], 2)
    assert row.varied == pytest.approx(at["document"]["spearman"] * 12 / 10)
    assert (row.systems.low, row.systems.high) == (at["system"]["spearman_low"], at["system"]["spearman_high"])
    assert row.over_systems.low == at["system"]["spearman_systems_low"] < at["system"]["spearman_low"]


def test_both_intervals_are_printed_and_shown_by_their_names(measured):
    (block,) = arrange_levels(measured.records, "test")
    note = "Others: for systems like these, systems and articles resampled."
    text = printed(measured)
    assert max(map(len, text.splitlines())) <= 100
    whole = page(measured)
    for shown in (" ".join(text.split()), " ".join(whole.split())):
        assert note in shown
        assert f"{block.rows[0].varied:.3f} (2)" in shown
        assert "these" in shown
        assert "others" in shown


def test_records_of_earlier_versions_have_neither(measured):
    new = ("varied", "systems_low", "systems_high", "missing", "human_constant_groups")
    old = [{name: value for name, value in one.items() if not name.endswith(new)} for one in measured.records]
    (block,) = arrange_levels(old, "test")
    assert block.rows[0].over_systems.low is None
    assert block.rows[0].silent is None
    assert "-" in printed(replace(measured, records=old))
    assert page(replace(measured, records=old))


def test_one_system_has_a_reason_and_no_number(measured):
    scores = measured.scores.assign(system_id="system")
    records = evaluate(columns(scores), "mini", resamples=60)
    (block,) = arrange_levels(records, "test")
    assert not block.has_systems
    assert "all texts are of one system" in levels_note([block])
    run = replace(measured, scores=scores, records=records)
    for shown in (" ".join(printed(run).split()), " ".join(page(run).split())):
        assert "all texts are of one system" in shown
    system = [one for one in records if one["level"] == "system"]
    assert system
    for name, value in {"n": 1, "pearson": None, "spearman_low": None, "flags": []}.items():
        assert all(one[name] == value for one in system)
