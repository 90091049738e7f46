"""Attacks beside defenses: one table of the advised setting, a column a defense, its numbers the records'."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judgebench.report.views.attacks import CLEAN
from judgebench.report.views.defenses import matrix, matrix_rows
from judgebench.studies.attacked import NO_MARK, NO_ORDER
from judgebench.studies.evaluate import CHANGES
from judgebench.studies.scores import CELL, ScoreSeries
from judgebench.types import ScoreRange
from tests.report.attacked import HOSTILE, attacks_on
from tests.report.conftest import in_terminal, on_page, texts_of

GAINS = {"none": {"dsi": 0.8, "key": 0.3}, "commit": {"dsi": 0.2, "key": 0.1}}
SHARES = {("none", "none"): 0.1, ("dsi", "none"): 0.6, ("key", "none"): 0.7}
SHARES |= {("none", "commit"): 0.05, ("dsi", "commit"): 0.2, ("key", "commit"): 0.25}


def false_passes(results, known=True):
    rows = []
    for record in results.shown:
        cell = ScoreSeries.of(record)
        share = SHARES[cell.attack, cell.defense] if known else None
        more = None if cell.attack == CLEAN or not known else share - SHARES["none", cell.defense]
        beyond = None if more is None else more > 0.3
        rows.append(
            {
                **cell.named,
                "dataset": "summeval",
                "mark": 3.0 if known else None,
                "replaces": cell.attack == "key",
                "texts": 40,
                "false_pass": share,
                "more": more,
                "more_low": None if beyond is None else (0.1 if beyond else -0.1),
                "more_high": None if more is None else more + 0.3,
                "reason": None if known else NO_MARK,
            }
        )
    return rows


@pytest.fixture(scope="module")
def results(builder):
    run = builder(ranges=[ScoreRange(1, 5)], articles=8, systems=4, dev_articles=0)
    bare = attacks_on(run, GAINS)
    costs = [{"defense": "none", "tokens": 41.4, "made_tokens": 0}, {"defense": "commit", "tokens": None}]
    return replace(bare, false_passes=false_passes(bare), costs=costs)


def section(results, begins):
    (table,) = [block for block in matrix(results) if hasattr(block, "sections")]
    (part,) = [part for part in table.sections if part.title.startswith(begins)]
    return {row[0].text: row[1:] for row in part.rows}


def test_the_figures_of_each_attack_stand_under_each_defense(results):
    (table,) = [block for block in matrix(results) if hasattr(block, "sections")]
    assert table.heads == ["attack", "none", "commit"]
    passes = section(results, "False passes")
    assert [[cell.text for cell in row] for row in passes.values()] == [
        ["10 %", "5 %"],
        ["60 %", "20 %"],
        ["70 %", "25 %"],
    ]
    assert list(passes) == ["clean", "dsi", "key"]
    assert [[cell.marked for cell in row] for row in passes.values()] == [[False, False], [True, False], [True, False]]
    # as metrics.json has them
    metrics = {(row["attack"], row["defense"], row["judge"], row["decoding"]): row for row in results.shown}
    head = tuple(table.title.split(": ")[1].split(", "))
    changes = section(results, "Change")
    assert list(changes) == ["dsi", "key"]
    for attack, cells in changes.items():
        for defense, cell in zip(table.heads[1:], cells, strict=True):
            assert float(cell.text) == pytest.approx(metrics[attack, defense, *head]["change"], abs=0.006)
    assert {"change"} < set(CHANGES)
    assert {"judge", "decoding"} < set(CELL)


def test_what_is_unknown_is_a_dash_with_a_reason(results):
    order = section(results, "Order kept")
    assert [cell.text for cell in order["key"]] == ["-", "-"]
    assert all(float(cell.text) > 0.5 for cell in order["dsi"])
    tokens = section(results, "Tokens")
    assert [cell.text for cell in tokens["clean"]] == ["41", "-"]
    assert NO_ORDER in " ".join(in_terminal(results).split())
    # without a mark no line of false passes, and the reason
    blind = replace(results, false_passes=false_passes(results, known=False))
    lines = [row["line"] for row in matrix_rows(blind)]
    assert not any(line.startswith("False passes") for line in lines)
    assert matrix_rows(blind)[-1]["reason"].startswith(NO_MARK)


def test_there_is_one_block_in_the_terminal_and_one_on_the_page(results):
    assert in_terminal(results).count("attacks beside defenses") == 1
    assert on_page(results).count("Tokens a text") == 1
    clean = replace(results, false_passes=[])
    assert matrix(clean) == []


def test_names_of_the_users_own_are_values(results):
    odd = f"{{a}}.{HOSTILE}"
    rows = [{**row, "defense": odd if row["defense"] == "commit" else row["defense"]} for row in results.false_passes]
    metrics = [{**row, "defense": odd if row["defense"] == "commit" else row["defense"]} for row in results.metrics]
    named = replace(results, false_passes=rows, metrics=metrics)
    (table,) = [block for block in matrix(named) if hasattr(block, "sections")]
    assert table.heads[2] == odd
    assert texts_of(table)
    assert "<b>'&" not in on_page(named)
