"""Systems ranked by comparisons, as a run prints, draws, shows, writes and logs them."""

from __future__ import annotations

import numpy as np
import pytest

from judgebench.decoding.scores import decode, win_probabilities
from judgebench.report.figures.rankings import pairwise_figures, shares_of
from judgebench.report.layout import draw_all
from judgebench.report.table import Paragraph, Table
from judgebench.report.views.pairwise import (
    PREFERENCES,
    RANKING,
    ranking_blocks,
    ranking_note,
    ranking_records,
    ranking_sentences,
)
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.stats.evaluate import evaluate
from judgebench.stats.rankings import Ranking, pairwise_records
from judgebench.tracking.records import rankings, tables_of
from tests.report.conftest import in_terminal, on_page, texts_of, words_of
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


def test_one_decoding_of_each_judge_leads(records):
    rows = ranking_records(of(records))
    assert [f"{row['condition']}: {row['name']}" for row in rows if row["lead"]] == [
        *("joint: main, expectation", "joint: pair, contrastive, λ 1, t 1"),
        *("joint, attack dsi: main, expectation", "joint, attack dsi: pair, contrastive, λ 1, t 1"),
    ]
    assert [row["name"] for row in rows[:4]] == [
        *("main, greedy", "main, expectation", "assistant, greedy", "assistant, expectation"),
    ]


def test_tables_hold_what_the_records_say(records):
    record = next(r for r in records if (r["judge"], r["decoding"], r["attack"]) == ("main", "expectation", "none"))
    table, *_ = RANKING.tables(of(records))
    assert (table.title, table.size) == ("joint: main, expectation", "36 pairs of 6 dialogues")
    first, line = record["ranking"][0], table.sections[0].rows[0]
    assert [row[0].text for row in table.sections[0].rows] == [one["system"] for one in record["ranking"]]
    assert str(line[2]) == f"{first['elo']:.0f} [{first['elo_low']:.0f},{first['elo_high']:.0f}]"
    assert line[5].text.split()[0] == str(first["human_rank"])
    assert line[7].text.split("/")[0] == f"{first['human_wins']:.1f}".removesuffix(".0")
    preferences, _ = PREFERENCES.tables(of(records))
    assert dict(zip(preferences.heads, texts_of(preferences)[1], strict=True))["AUC"].startswith(
        f"{100 * record['auc']:.0f} % ["
    )


def test_the_terminal_and_the_page_rank_every_system(records, columns):
    results = results_of(columns, evaluate(columns, "mini", resamples=20, scale={"joint": None}), pairwise=records)
    text = words_of(in_terminal(results))
    for part in (
        *("joint: main, expectation: systems ranked, 36 pairs of 6 dialogues", "humans'", "W/T/L", "calibrated"),
        "joint, attack dsi: preferences against the humans', 36 pairs of 6 dialogues",
        ranking_note(results),
    ):
        assert " ".join(part.split()) in text
    page = words_of(on_page(results))
    for part in ("Systems ranked", "joint: main, expectation"):
        assert part in page
    assert "Systems ranked" not in on_page(results_of(columns, results.metrics))


def test_texts_judged_alone_have_no_ranking():
    assert ranking_blocks(Results()) == ranking_sentences(Results()) == []
    assert pairwise_figures(Results()) == {}


def test_a_sentence_says_who_is_first_and_what_the_humans_say(records):
    sentences = ranking_sentences(of(records))
    assert len(sentences) == 2  # of clean texts
    best = next(row for row in ranking_records(of(records)) if row["lead"])["ranking"][0]["system"]
    assert sentences[0].startswith(f"joint: main, expectation ranks {best} first of 4 systems")
    assert "; the humans, " in sentences[0]
    assert "over systems its strengths have a Spearman correlation of " in sentences[0]


def test_what_is_missing_is_said_and_never_shown_as_a_number(columns):
    # a judge of places alone under plain maximum likelihood: no strengths, and no picture of any
    placing = dict(columns) | {
        "score_first": np.ones(len(columns["score"])),
        "score_second": np.zeros(len(columns["score"])),
    }
    results = of(pairwise_records(placing, "mini", Ranking(prior=0.0), resamples=20, rules=RULES))
    blocks = ranking_blocks(results)
    table = next(block for block in blocks if isinstance(block, Table))
    assert {row[1].text for row in table.sections[0].rows} == {"-"}
    note = next(block for block in blocks if isinstance(block, Paragraph))
    assert "Judge: no strengths, for the place decides every comparison" in note.text
    assert "ranks no systems: Judge: no strengths" in ranking_sentences(results)[0]
    assert set(pairwise_figures(results)) == {("wins", "joint")}


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
    folder.write_figures(dict.fromkeys(("ranking_joint.png", "ranking_joint.svg"), b""))
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
