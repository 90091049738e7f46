"""Systems ranked by comparisons, as a run prints, draws, shows, writes and logs them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from judgebench.report.pairwise import arrange_pairwise, leading, pairwise_note, pairwise_sentences
from judgebench.report.pairwise_printed import pairwise_tables

from judgebench.decoding.scores import decode, win_probabilities
from judgebench.metrics.comparisons import Ranking
from judgebench.metrics.evaluation import evaluate
from judgebench.metrics.pairwise import pairwise_records
from judgebench.readings.reading import reading_columns
from judgebench.report import pairwise
from judgebench.report.figures.draw import draw_all
from judgebench.report.figures.rankings import pairwise_figures, shares_of
from judgebench.report.html import render_report
from judgebench.report.layout import run_tables
from judgebench.report.results import Estimate
from judgebench.results.folder import RunFolder
from judgebench.tracking.summary import rankings
from judgebench.tracking.tables import pairwise_rows
from tests.report.test_comparative import DECODINGS, TITLES, printed, read, told

RULES = {"greedy": "argmax", "expectation": "expectation", "contrastive": "argmax"}


@pytest.fixture(scope="module")
def columns():
    return win_probabilities(decode(read(attacks=("none", "dsi")), DECODINGS))


@pytest.fixture(scope="module")
def records(columns):
    return pairwise_records(columns, "mini", resamples=50, rules=RULES)


def test_blocks_hold_what_the_records_say_and_one_decoding_of_each_judge_leads(records):
    blocks = arrange_pairwise(records)
    assert [block.title for block in leading(blocks)] == [
        *("joint: main, expectation", "joint: pair, contrastive, λ 1, t 1"),
        *("joint, attack dsi: main, expectation", "joint, attack dsi: pair, contrastive, λ 1, t 1"),
    ]
    assert [block.label for block in blocks[:4]] == [
        *("main, greedy", "main, expectation", "assistant, greedy", "assistant, expectation"),
    ]
    record = next(r for r in records if (r["judge"], r["decoding"], r["attack"]) == ("main", "expectation", "none"))
    (block, *_) = leading(blocks)
    assert [row.system for row in block.rows] == [row["system"] for row in record["ranking"]]
    best, first = block.rows[0], record["ranking"][0]
    assert best.judge.elo == Estimate(first["elo"], first["elo_low"], first["elo_high"])
    assert (best.humans.rank, best.humans.wins) == (first["human_rank"], first["human_wins"])
    assert block.estimates["auc"].value == record["auc"]
    assert block.size("dialogues") == "36 pairs of 6 dialogues"


def test_the_tables_fit_and_rank_every_system(records, columns):
    text = printed(run_tables(evaluate(columns, "mini", resamples=20, scale={"joint": None}), TITLES, pairwise=records))
    assert max(len(line) for line in text.splitlines()) <= 100
    for part in (
        *("joint: main, expectation: systems by 36 pairs of 6 dialogues", "humans", "W/T/L", "calibrated"),
        "joint, attack dsi: preferences against the humans', 36 pairs of 6 dialogues",
    ):
        assert part in text
    assert told(pairwise_note(records, "dialogues")) in told(text)
    (table, *_) = pairwise_tables(records, "dialogues")
    lines = [line.split() for line in printed(table).splitlines()]
    ranked = [line[0] for line in lines if line and line[0].isdigit()]
    assert ranked == sorted(ranked)
    assert len(ranked) == 4


def test_texts_judged_alone_have_no_ranking():
    assert (arrange_pairwise([]), pairwise_tables([], "articles"), pairwise_figures([], TITLES)) == ([], [], {})
    assert pairwise_note([], "articles") == ""


def test_a_sentence_says_who_is_first_and_what_the_humans_say(records):
    sentences = pairwise_sentences(arrange_pairwise(records))
    assert len(sentences) == 2  # of clean texts
    best = leading(arrange_pairwise(records))[0].rows[0].system
    assert sentences[0].startswith(f"joint: main, expectation ranks {best} first of 4 systems")
    assert "; the humans, " in sentences[0]
    assert "over systems its strengths have a Spearman correlation of " in sentences[0]


def test_what_is_missing_is_said_and_never_shown_as_a_number(columns):
    # a judge of places alone under plain maximum likelihood: no strengths, and no picture of any
    placing = dict(columns) | {
        "score_first": np.ones(len(columns["score"])),
        "score_second": np.zeros(len(columns["score"])),
    }
    found = pairwise_records(placing, "mini", Ranking(prior=0.0), resamples=20, rules=RULES)
    block = leading(arrange_pairwise(found))[0]
    assert "Judge: no strengths, for the place decides every comparison" in block.notes[0]
    assert {pairwise.rank(row.judge) for row in block.rows} == {"-"}
    assert "ranks no systems: Judge: no strengths" in pairwise_sentences([block])[0]
    assert set(pairwise_figures(found, TITLES)) == {("wins", "joint")}
    text = told(printed(pairwise_tables(found, "dialogues")[1]))
    assert text.startswith("! Judge: no strengths")


def test_figures_show_systems_beside_the_humans_and_who_beats_whom(records):
    figures = pairwise_figures(records, TITLES)
    assert set(figures) == {("ranking", "joint"), ("wins", "joint")}
    block = leading(arrange_pairwise(records))[0]
    axes = figures["ranking", "joint"].axes
    assert [text.get_text() for text in axes[0].get_yticklabels()] == [row.system for row in block.rows]
    assert [axis.get_title(loc="left") for axis in axes] == ["judge", "humans"]
    lines = [line for axis in axes for line in axis.lines]
    points = [line for line in lines if line.get_marker() in ("o", "D", "s") and len(line.get_xdata()) == 1]
    drawn = sorted(float(line.get_xdata()[0]) for line in points)
    shown = [
        placed.elo.value
        for one in leading(arrange_pairwise(records))[:2]
        for row in one.rows
        for placed in (row.judge,)
    ]
    assert drawn == pytest.approx(sorted([*shown, *(row.humans.elo.value for row in block.rows)]))
    order = [row.system for row in block.rows]
    matrix = shares_of(block, order, 0)
    np.testing.assert_allclose(matrix + matrix.T, np.where(np.eye(4), np.nan, 1.0))
    assert [axis.get_title(loc="left") for axis in figures["wins", "joint"].axes] == [
        *("main, expectation", "pair, contrastive", "humans"),
    ]


def test_the_report_and_the_figures_of_a_run_take_them(records, columns, tmp_path):
    scores = pd.DataFrame(columns)
    known = {"records": evaluate(columns, "mini", resamples=0, scale={"joint": None}), "scale": {"joint": None}}
    known |= {"scores": scores, "titles": TITLES, "pairwise": records}
    environment = {"device": "cpu", "git_commit": None, "git_changed": False, "python": "3", "platform": "x"}
    environment |= {"model_fingerprints": {}, "packages": {}}
    figures = draw_all(readings=pd.DataFrame(reading_columns(read(attacks=("none", "dsi")))), **known)
    assert {"ranking_joint", "wins_joint"} <= set(figures)
    page = render_report(config={}, environment=environment, figures=figures, **known)
    for part in ("Which system is best?", "joint: main, expectation", "humans’ difference", "judge sides with them"):
        assert part in page
    plain = render_report(config={}, environment=environment, figures={}, **(known | {"pairwise": []}))
    assert "Which system is best?" not in plain
    folder = RunFolder(tmp_path / "run")
    folder.write("pairwise", records)
    folder.write_figures({name: figures[name] for name in ("ranking_joint",)})
    assert folder.read("pairwise") == records
    folder.clear()
    assert folder.read("pairwise") == []
    assert not list((folder.path / "figures").iterdir())


def test_tracking_has_every_systems_elo(records):
    found = rankings(records)
    record = records[0]
    name = f"test/joint/{record['judge']}/{record['decoding']}"
    assert found[f"{name}/elo/{record['ranking'][0]['system']}"] == record["ranking"][0]["elo"]
    assert found[f"{name}/auc"] == record["auc"]
    assert any(key.startswith("test/joint/attack=dsi/main/greedy/attack_effect") for key in found)
    rows = pairwise_rows(records)
    assert len(rows["pairwise"]) == len(records)
    assert len(rows["ranking"]) == 4 * len(records)
    assert "ranking" not in rows["pairwise"][0]


def test_numbers_as_people_read_them():
    placed = pairwise.Placed(3, 3, 3, Estimate(None), 1, 2.64, 0, None)
    assert (pairwise.rank(placed), pairwise.ends(placed), pairwise.share(placed.win_share)) == ("3", "1/2.6/0", "-")
    assert pairwise.effect(Estimate(-0.004)) == "+0.00"
    assert pairwise.correlation(Estimate(0.51, -0.2, 1.0)) == ".51 [-.20,1.00]"
    assert pairwise.shares(Estimate(0.913, 0.83, 0.97)) == "91 % [83,97]"
