"""Several data sets in one table: rows, humans, and what is not said."""

from __future__ import annotations

import pytest

from judgebench.report.views.tasks import TASKS_TABLE, tasks_frame
from judgebench.results.results import Results
from tests.report.test_correlations import of, record
from tests.report.test_humans import BESIDE, CEILING


def run(dataset, *records, humans=()):
    return Results(metrics=[{**one, "dataset": dataset} for one in records], about=of().about, humans=humans)


def cells(runs):
    (table,) = TASKS_TABLE.tables(runs)
    return table, {section.title: [[cell.text for cell in row] for row in section.rows] for section in table.sections}


def test_each_task_ends_with_its_humans():
    code = run("conala", record(**BESIDE), record("assistant"), humans=[CEILING])
    table, found = cells({"A": code, "B": run("mohler", record(spearman=0.3, n=20, groups=9))})
    assert table.heads == ["range", "judge, decoding", "Spearman", "beside humans", "favorite", "texts"]
    assert found == {
        "conala, coherence": [
            ["1-5", "main, greedy", "0.500", "0.450", "3 (61 %)", "1440"],
            ["humans", "one of 4, with the others", "0.620", "0.620", "", "1440"],
        ],
        "mohler, coherence": [
            ["1-5", "main, greedy", "0.300", "-", "", "20"],
            ["humans", "no ceiling", "-", "-", "", "20"],
        ],
    }
    details = [row[1].detail for section in table.sections for row in section.rows]
    assert details[-1] == "Single ratings are not known."
    assert "no difference between tasks is tested" in table.note


def test_a_reason_stands_where_there_is_no_ceiling():
    missing = CEILING | {"ceiling": None, "reason": "No human ceiling: no text has the ratings of two people."}
    table, _ = cells({"A": run("conala", record(), humans=[missing])})
    assert table.sections[0].rows[-1][1].detail == "no text has the ratings of two people."
    assert "difference between tasks" not in table.note


def test_runs_on_one_data_set_are_told_apart_by_their_letters():
    _, found = cells({"A": run("conala", record()), "B": run("conala", record(spearman=0.2))})
    (rows,) = found.values() if len(found) == 1 else [[row for rows in found.values() for row in rows]]
    assert {row[1] for row in rows if row[0] == "1-5"} <= {"A: main, greedy", "B: main, greedy"}


@pytest.mark.parametrize(("groups", "warned"), [(5, True), (6, False)])
def test_few_groups_are_warned_of(groups, warned):
    table, _ = cells({"A": run("conala", record(groups=groups))})
    assert ("intervals are too narrow" in table.note) == warned


def test_the_frame_holds_what_the_records_hold():
    (row,) = tasks_frame({"A": run("conala", record(**BESIDE), humans=[CEILING])}).to_dict("records")
    assert (row["task"], row["run"], row["main"], row["raters"]) == ("conala", "A", "SmolLM2", 4)
    assert {name: row[name] for name in BESIDE} == BESIDE
    assert row["ceiling_low"] == CEILING["ceiling_low"]
    assert row["no_ceiling"] is None
    assert row["seconds"] is None
    assert len(tasks_frame({"A": Results()})) == 0
    assert TASKS_TABLE({"A": Results()}) == []
