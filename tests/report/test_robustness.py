from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from judgebench.metrics.evaluation import evaluate
from judgebench.report.results import arrange
from judgebench.report.robustness import arrange_attacks, attack_sentences, attacks_note, rates, share, unattacked
from tests.report.conftest import columns
from tests.report.test_html import page
from tests.report.test_printed import printed, told


@pytest.fixture(scope="module")
def attacked(builder):
    """Clean texts, texts that an attack raises by up to one, and texts that another leaves as they are."""
    run = builder(articles=6, systems=4, decodings=("greedy", "expectation"))
    up = run.scores.assign(attack="dsi", score=np.minimum(run.scores["score"] + 1, run.scores["range_max"]))
    run.readings["attack"] = "none"
    scores = pd.concat([run.scores, up, run.scores.assign(attack="bed")], ignore_index=True)
    records = evaluate(columns(scores), "summeval", resamples=100, scale=run.scale)
    return type(run)(run.readings, scores, records, run.scale, run.titles)


def test_each_judge_and_range_has_a_section_that_begins_with_the_clean_texts(attacked):
    (block,) = arrange_attacks(attacked.records)
    assert block.condition == "coherence"
    assert len({section.place for section in block.sections}) == 4
    clean = {
        (r["range_min"], r["judge"], r["decoding"]): r for r in unattacked(attacked.records) if r["split"] == "test"
    }
    assert len(block.sections) == len(clean)
    for section in block.sections:
        assert [row.attack for row in section.rows] == ["clean", "dsi", "bed"]
        base, up, same = section.rows
        assert base.change is None
        assert 0 < up.change.value <= 1
        assert up.mean == pytest.approx(base.mean + up.change.value)
        assert (same.change.value, same.told) == (0, False)
        assert (same.win_share, same.spearman) == (base.win_share, base.spearman)


def test_the_other_tables_are_of_clean_texts(attacked):
    text = printed(attacked)
    assert "coherence: attacks" in text
    assert "coherence, attack dsi:" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert {block.attack for block in arrange(unattacked(attacked.records))} == {"none"}
    assert "articles resampled, clean and attacked together" in told(text)


def test_the_page_has_the_attacks_and_their_answer(attacked):
    html = page(attacked)
    assert "<h3>Attacks</h3>" in html
    (sentence,) = attack_sentences(arrange_attacks(attacked.records))
    assert sentence.startswith("coherence: dsi changes the mean score of ")
    assert sentence.endswith(", the most of 2 attacks.")
    assert sentence in html


def test_no_attack_no_section(run):
    assert arrange_attacks(run.records) == []
    assert "<h3>Attacks</h3>" not in page(run)
    assert "attacks" not in printed(run)
    assert unattacked(run.records) == run.records


def test_an_attack_that_changes_nothing_is_told_so(attacked):
    without = [record for record in attacked.records if record["attack"] != "dsi"]
    (sentence,) = attack_sentences(arrange_attacks(without))
    assert sentence == "coherence: the attack does not raise a mean score by more than chance."


def test_records_of_attacks_alone_are_shown_as_they_are(attacked):
    alone = [record for record in attacked.records if record["attack"] == "dsi"]
    assert unattacked(alone) == alone


def test_defenses_have_blocks_of_their_own_and_unknown_numbers_a_dash(attacked):
    defended = [record | {"defense": "cap", "mean_of_rates": None, "change_low": None} for record in attacked.records]
    (block,) = arrange_attacks(defended)
    assert block.condition == "coherence, defense cap"
    assert rates(block.sections[0].rows[1]).endswith("/- %")
    assert share(None) == ""
    assert "interval" not in attacks_note(defended, "articles")
    (sentence,) = attack_sentences([block])
    assert sentence.endswith(", the most of 2 attacks; without an interval, nothing tells that from chance.")
