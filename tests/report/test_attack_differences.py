from __future__ import annotations

import pytest
from markupsafe import escape

from judgebench.report.attack_differences import (
    answers,
    arrange_attack_differences,
    differences_note,
    sentence,
    sentences,
)
from judgebench.types import ScoreRange
from tests.report.attacked import attacked_run
from tests.report.test_html import HOSTILE, Tags, page, scripts_of
from tests.report.test_printed import printed, told


@pytest.fixture(scope="module")
def attacked(builder):
    return attacked_run(builder(ranges=[ScoreRange(1, 5), ScoreRange(2, 6)], articles=8, systems=4))


@pytest.fixture(scope="module")
def block(attacked):
    (found,) = arrange_attack_differences(attacked.differences)
    return found


def record(statistic="change", **more):
    """A record of attack/differences.json."""
    base = {"dataset": "mini", "split": "test", "dimension": "joint", "range_min": 1.0, "range_max": 5.0}
    base |= {"range_step": 1.0, "ranges": 1, "attack": "dsi", "defense": "none"}
    for side, judge, decoding in (("first", "pair", "contrastive"), ("second", "main", "greedy")):
        base |= {f"{side}_judge": judge, f"{side}_decoding": decoding}
        base |= {f"{side}_lambda": None, f"{side}_temperature": None}
    base |= {"statistic": statistic, "n": 54, "groups": 18, "first": 0.53, "second": 0.5, "difference": 0.03}
    return base | {"low": -0.01, "high": 0.08, "se": 0.02, "groups_needed": 71, "says": "not told apart"} | more


def one_sentence(*records):
    (found,) = arrange_attack_differences(records)
    (row,) = found.rows
    return sentence(found, row, "articles", several=False)


def test_sentences_by_hand():
    start = "pair, contrastive changes how far dsi raises the mean score by "
    assert one_sentence(record()) == (
        f"{start}+0.03 [-0.01, +0.08], against main, greedy: no difference that 18 articles can tell (one so large "
        "needs about 71)."
    )
    clear = record(difference=0.2, low=0.1, high=0.3, says="more", groups_needed=9)
    spreads = record("standardized", difference=-0.04, low=-0.5, high=0.4, says="not told apart")
    assert one_sentence(clear, spreads) == (
        f"{start}+0.20 [+0.10, +0.30], against main, greedy: the attack gains more, and by more than chance. In "
        "spreads of their own clean scores by -0.04 [-0.50, +0.40]: no difference that 18 articles can tell."
    )
    bare = record(low=None, high=None, says=None, groups_needed=None)
    assert one_sentence(bare).endswith("against main, greedy: without an interval, nothing tells that from chance.")


def test_rows_are_those_of_the_records(attacked, block):
    shown = {(r["attack"], r["range_min"], r["statistic"]): r for r in attacked.differences if r["split"] == "test"}
    assert (block.condition, block.first, block.second) == ("coherence", "pair, contrastive", "main, greedy")
    assert len(block.rows) == 3 * 3  # attacks, and two ranges with their mean
    for row in block.rows:
        place = None if row.mean else float(row.place.split("-")[0])
        change, spreads = (shown[row.attack, place, name] for name in ("change", "standardized"))
        assert (row.gap.value, row.gap.low) == (change["difference"], change["low"])
        assert (row.standardized.value, row.standardized_says) == (spreads["difference"], spreads["says"])
        assert (row.first, row.second, row.says) == (change["first"], change["second"], change["says"])
    # a word raises the pair's scores by twice as much
    assert {row.says for row in block.rows} == {"more"}
    assert [row.place for row in block.rows[:3]] == ["1-5", "2-6", "mean of 2 ranges"]


def test_the_answer_is_of_the_attack_that_changes_most(block):
    (answer,) = answers([block])
    strongest = max((row for row in block.rows if not row.mean), key=lambda row: abs(row.second))
    assert strongest.attack == "adv_suffix_3"
    assert answer == f"coherence: {sentence(block, strongest, 'articles', several=True)}"
    assert f"in range {strongest.place} by" in answer


def test_a_verdict_names_both_where_points_and_spreads_disagree():
    spreads = record("standardized", says="not told apart")
    (found,) = arrange_attack_differences([record(says="more", low=0.01), spreads])
    assert found.rows[0].verdict == "more; in spreads not told apart"
    (found,) = arrange_attack_differences([record(), spreads])
    assert found.rows[0].verdict == "not told apart"


def test_pairs_of_which_nothing_changes_are_left_out():
    still = dict.fromkeys(("first", "second", "difference", "low", "high"), 0.0)
    unknown = dict.fromkeys(("first", "second", "difference", "low", "high", "se", "groups_needed", "says"))
    assert arrange_attack_differences([record(**still), record("standardized", **unknown)]) == []
    assert arrange_attack_differences([record(**unknown)]) == []
    (found,) = arrange_attack_differences([record(), record("standardized", **unknown)])
    assert found.rows[0].standardized.value is None
    assert "spreads" not in sentence(found, found.rows[0], "articles", several=False)


def test_settings_side_by_side_are_told_apart():
    several = [record(first_lambda=value, first_temperature=1.0) for value in (0.1, 1.0)]
    (found,) = arrange_attack_differences(several)
    assert [row.place for row in found.rows] == ["1-5, λ 0.1, t 1", "1-5, λ 1, t 1"]


def test_defenses_and_pairs_have_blocks_of_their_own():
    blocks = arrange_attack_differences(
        [record(), record(defense="cap"), record(first_decoding="other"), record(split="dev", attack="bed")]
    )
    assert [(one.condition, one.first) for one in blocks] == [
        ("joint", "pair, contrastive"),
        ("joint, defense cap", "pair, contrastive"),
        ("joint", "pair, other"),
    ]


def test_the_page_and_the_tables_tell_of_it(attacked, block):
    run = attacked.run
    html = page(run, attack_differences=attacked.differences)
    assert "<h3>Which is easier to fool?</h3>" in html
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    for text in [*sentences(block), *answers([block])]:
        assert str(escape(text)) in html
    text = printed(run, attack_differences=attacked.differences)
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "which is easier to fool? pair, contrastive against main, greedy" in told(text)
    assert "both sides together" in told(text)
    for absent in (page(run), printed(run)):
        assert "easier to fool" not in absent


def test_the_note_speaks_of_intervals_where_there_are_any():
    assert "95 %" in differences_note(arrange_attack_differences([record()]), "articles")
    assert "95 %" not in differences_note(arrange_attack_differences([record(low=None)]), "articles")


def test_nothing_that_others_named_becomes_markup(attacked):
    hostile = [one | {"attack": HOSTILE, "first_decoding": HOSTILE} for one in attacked.differences]
    text = page(attacked.run, attack_differences=hostile)
    assert scripts_of(text) == scripts_of(page(attacked.run))
    assert str(escape(HOSTILE)) in text
