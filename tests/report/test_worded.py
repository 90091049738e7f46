"""A defense in words stands beside the others, once for each of their decodings, with its own number."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from judgebench.metrics.evaluation import evaluate
from judgebench.report.defended import arrange_defenses, defended_note
from judgebench.report.robustness import arrange_attacks
from judgebench.report.worded import with_stand_ins
from judgebench.types import ScoreRange
from tests.report.conftest import RULES, columns
from tests.report.test_html import page
from tests.report.test_printed import printed, told


def with_cot(builder, decodings):
    """A judge that is read by probabilities without defense and under `words`, and answers in words under `cot`."""
    run = builder(
        ranges=[ScoreRange(1, 5)], articles=6, systems=4, assistant=False, decodings=("greedy", "expectation")
    )
    parts = []
    for defense, gain in (("cot", 0.5), ("none", 1.0), ("words", 0.25)):
        kept = ["greedy"] if defense == "cot" else decodings
        clean = run.scores[run.scores["decoding"].isin(kept)].assign(defense=defense)
        parts += [clean, clean.assign(attack="dsi", score=np.minimum(clean["score"] + gain, clean["range_max"]))]
    scores = pd.concat(parts, ignore_index=True)
    records = evaluate(columns(scores), "summeval", ["dataset"], resamples=20, scale=run.scale, rules=RULES)
    return replace(run, scores=scores, records=records)


@pytest.mark.parametrize(
    ("decodings", "sections"),
    [(["expectation"], ["expectation"]), (["greedy", "expectation"], ["greedy", "expectation"])],
)
def test_it_has_a_row_in_every_section_of_its_judge(builder, decodings, sections):
    run = with_cot(builder, decodings)
    (block,) = arrange_defenses(run.records)
    assert [section.series for section in block.sections] == [f"main, {name}" for name in sections]
    alone = {one.condition: one for one in arrange_attacks(run.records)}["coherence, defense cot"].sections[0]
    for section in block.sections:
        assert [row.name for row in section.rows] == ["none", "cot (its number)", "words"]
        assert [row.defense for row in section.rows] == ["none", "cot", "words"]
        assert section.rows[1].attacked == alone.rows[1]
        assert section.rows[1].clean == alone.rows[0]
    assert "its number" in defended_note([block])
    for text in (told(printed(run)), page(run)):
        assert "cot (its number)" in text
        assert "answers in words" in text


def test_nothing_changes_where_all_answer_alike(builder):
    run = with_cot(builder, ["greedy"])
    records, worded = with_stand_ins(run.records)
    assert (records, worded) == (run.records, set())
    (block,) = arrange_defenses(run.records)
    assert [row.name for row in block.sections[0].rows] == ["none", "cot", "words"]
    assert "its number" not in defended_note([block])


def test_each_setting_of_a_grid_gets_the_number():
    cell = {"split": "test", "level": "dataset", "dimension": "x", "range_min": 1, "range_max": 5, "range_step": 1}
    grid = [cell | {"judge": "main", "defense": "none", "decoding": "c", "lambda": x, "temperature": 1} for x in (0, 1)]
    words = cell | {
        "judge": "main",
        "defense": "cot",
        "decoding": "greedy",
        "lambda": None,
        "temperature": None,
        "v": 7,
    }
    records, worded = with_stand_ins([*grid, words])
    assert worded == {"cot"}
    assert records[:2] == grid
    assert [(r["decoding"], r["lambda"], r["v"]) for r in records[2:]] == [("c", 0, 7), ("c", 1, 7)]
