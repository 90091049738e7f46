"""Defenses side by side: their numbers are those of the single tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from judgebench.metrics.evaluation import evaluate
from judgebench.report.defended import (
    DefenseBlock,
    DefenseRow,
    DefenseSection,
    arrange_defenses,
    defense_sentences,
)
from judgebench.report.results import Estimate
from judgebench.report.robustness import AttackRow, arrange_attacks
from tests.report.conftest import columns
from tests.report.test_html import page
from tests.report.test_printed import printed


@pytest.fixture(scope="module")
def defended(builder):
    """Clean texts, an attack that raises by one, and a defense under which it raises by a quarter."""
    run = builder(articles=6, systems=4, decodings=("greedy", "expectation"))
    parts = []
    for defense, gain in (("none", 1), ("sandwich", 0.25)):
        clean = run.scores.assign(defense=defense)
        for attack in ("dsi", "bed"):
            up = clean.assign(attack=attack, score=np.minimum(clean["score"] + gain, clean["range_max"]))
            parts += [clean, up] if attack == "dsi" else [up]
    scores = pd.concat(parts, ignore_index=True)
    records = evaluate(columns(scores), "summeval", ["dataset"], resamples=50, scale=run.scale)
    return replace(run, scores=scores, records=records)


def test_a_section_has_every_defense_of_one_attack_range_and_judge(defended):
    (block,) = arrange_defenses(defended.records)
    assert block.condition == "coherence"
    single = {one.condition: one for one in arrange_attacks(defended.records)}
    assert set(single) == {"coherence", "coherence, defense sandwich"}
    plain = {(one.place, one.series): one for one in single["coherence"].sections}
    assert len(block.sections) == 2 * len(plain)
    for section in block.sections:
        none, sandwich = section.rows
        assert (none.defense, sandwich.defense) == ("none", "sandwich")
        assert none.attacked in plain[section.place, section.series].rows
        assert none.attacked.attack == sandwich.attacked.attack == section.attack
        assert none.clean.mean == pytest.approx(sandwich.clean.mean)
        assert 0 < sandwich.attacked.change.value < none.attacked.change.value


def test_one_defense_has_nothing_beside_it(defended):
    assert arrange_defenses([r for r in defended.records if r["defense"] == "sandwich"]) == []
    assert arrange_defenses([r for r in defended.records if r["attack"] == "none"]) == []


def test_table_and_page_show_them(defended):
    text = printed(defended)
    assert "coherence: defenses side by side" in text
    assert max(map(len, text.splitlines())) <= 100
    html = page(defended)
    assert "<h3>Defenses</h3>" in html
    assert html.count('<th scope="row">sandwich</th>') == len(arrange_defenses(defended.records)[0].sections)


def row(defense, change, ends, spearman):
    clean = AttackRow("clean", 3.0, 0.0, 0.0, spearman)
    return DefenseRow(defense, clean, AttackRow("dsi", 3.0, 0.0, 0.0, 0.1, Estimate(change, *ends)), defense)


def block(*rows):
    return [DefenseBlock("coherence", [DefenseSection("dsi", "1-5", "main, greedy", rows)])]


BARE = row("none", 0.8, (0.6, 1.0), 0.4)


def test_the_defense_that_keeps_scores_nearest_to_clean_ones_is_named_with_its_cost():
    far = row("overdone", -0.9, (-1.2, -0.5), 0.4)
    near = row("cap", 0.1, (-0.1, 0.3), 0.35)
    (told,) = defense_sentences(block(BARE, far, near))
    assert told == (
        "coherence: dsi changes the mean score of main, greedy in range 1-5 by +0.80 [+0.60, +1.00] without a defense; "
        "least of 2 defenses under cap, by +0.10 [-0.10, +0.30]. What that costs where nobody attacks: Spearman 0.350 "
        "instead of 0.400."
    )
    assert defense_sentences(block(BARE, far))[0].endswith(
        "; overdone does not keep it nearer to what it gives clean texts."
    )


def test_an_attack_that_gains_nothing_needs_no_defense():
    (told,) = defense_sentences(block(row("none", 0.1, (-0.1, 0.3), 0.4), row("cap", 0.0, (-0.2, 0.2), 0.4)))
    assert told.endswith("which is no gain beyond chance, so there is nothing to defend against.")
    assert defense_sentences(block(row("cap", 0.1, (0.0, 0.2), 0.4), row("w_cap", 0.2, (0.1, 0.3), 0.4))) == []
