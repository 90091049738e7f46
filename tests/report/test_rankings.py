"""Systems ranked by comparisons, as a run prints, draws, shows, writes and logs them."""

from __future__ import annotations

import numpy as np
import pytest

from judgebench.decoding.scores import decode, win_probabilities
from judgebench.report.figures.rankings import pairwise_figures, shares_of
from judgebench.report.layout import draw_all
from judgebench.report.views.pairwise import (
    RANKING,
    ranking_blocks,
    ranking_records,
)
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.stats.evaluate import evaluate
from judgebench.stats.rankings import pairwise_records
from judgebench.tracking.records import rankings, tables_of
from tests.report.test_pairs import DECODINGS, TITLES, read, results_of

RULES = {"greedy": "argmax", "expectation": "expectation", "contrastive": "argmax"}


@pytest.fixture(scope="module")
def columns():
    return win_probabilities(decode(read(attacks=("none", "dsi")), DECODINGS))


@pytest.fixture(scope="module")
def records(columns):
    return pairwise_records(columns, "mini", resamples=50, rules=RULES)


def of(records):
    return Results(pairwise=records, about={"titles": TITLES})


def test_only_the_strongest_of_many_systems_are_shown(records):
    many = [record | {"ranking": record["ranking"] * 20} for record in records]
    table, *_ = RANKING.tables(of(many))
    assert len(table.sections[0].rows) == 60
    assert "20 more systems are in pairwise.json." in [getattr(block, "text", "") for block in ranking_blocks(of(many))]


def test_figures_show_systems_beside_the_humans_and_who_beats_whom(records):
    figures = pairwise_figures(of(records))
    assert set(figures) == {("ranking", "joint"), ("wins", "joint")}
    first, second, *_ = (row for row in ranking_records(of(records)) if row["lead"])
    axes = figures["ranking", "joint"].axes
    order = [one["system"] for one in first["ranking"]]
    assert [text.get_text() for text in axes[0].get_yticklabels()] == order
    assert [axis.get_title(loc="left") for axis in axes] == ["judge", "humans"]
    lines = [line for axis in axes for line in axis.lines]
    points = [line for line in lines if line.get_marker() in ("o", "D", "s") and len(line.get_xdata()) == 1]
    drawn = sorted(float(line.get_xdata()[0]) for line in points)
    shown = [one["elo"] for row in (first, second) for one in row["ranking"]]
    assert drawn == pytest.approx(sorted([*shown, *(one["human_elo"] for one in first["ranking"])]))
    matrix = shares_of(first, order, 0)
    np.testing.assert_allclose(matrix + matrix.T, np.where(np.eye(4), np.nan, 1.0))
    assert [axis.get_title(loc="left") for axis in figures["wins", "joint"].axes] == [
        *("main, expectation", "pair, contrastive", "humans"),
    ]


def test_the_run_folder_keeps_and_clears_them(records, columns, tmp_path):
    metrics = evaluate(columns, "mini", resamples=0, scale={"joint": None})
    figures = draw_all(results_of(columns, metrics, read(attacks=("none", "dsi")), pairwise=records))
    assert {"ranking_joint", "wins_joint"} <= set(figures)
    folder = RunFolder(tmp_path / "run")
    folder.write("pairwise", records)
    for name in ("ranking_joint.png", "ranking_joint.svg"):
        folder.write_file(f"figures/{name}", b"")
    assert folder.read("pairwise") == records
    folder.clear()
    assert folder.read("pairwise") is None
    assert not list((folder.path / "figures").iterdir())


def test_tracking_has_every_systems_elo(records):
    found = rankings(records)
    record = records[0]
    name = f"test/joint/{record['judge']}/{record['decoding']}"
    assert found[f"{name}/elo/{record['ranking'][0]['system']}"] == record["ranking"][0]["elo"]
    assert found[f"{name}/auc"] == record["auc"]
    assert any(key.startswith("test/joint/attack=dsi/main/greedy/attack_effect") for key in found)
    rows = tables_of(Results(pairwise=records), 0)
    assert len(rows["pairwise"]) == len(records)
    assert len(rows["ranking"]) == 4 * len(records)
    assert "ranking" not in rows["pairwise"][0]
