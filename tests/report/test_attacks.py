"""Tables and sentences of attacks: their numbers are the records', and they claim no more than these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judgebench.report.formats import change as change_text
from judgebench.report.formats import three, two
from judgebench.report.render import to_html
from judgebench.report.views.attacks import (
    ATTACKS,
    GAPS,
    attack_sentences,
    gap_frame,
    gap_sentence,
    gap_sentences,
)
from judgebench.results.results import Results
from judgebench.results.series import range_of
from judgebench.types import ScoreRange
from tests.report.attacked import HOSTILE, attacked_run, attacks_on, results_of
from tests.report.conftest import in_terminal, on_page, texts_of, words_of


@pytest.fixture(scope="module")
def attacked(builder):
    """An attack that raises by up to one, and one that leaves texts as they are."""
    return attacks_on(builder(articles=6, systems=4), {"none": {"dsi": 1, "bed": 0}})


def without(results, **changes):
    """The results with other values in every record."""
    return replace(results, metrics=[record | changes for record in results.metrics])


def test_each_judge_and_range_has_a_section_that_begins_with_the_clean_texts(attacked):
    (table,) = ATTACKS.tables(attacked)
    records = {
        (f"{range_of(r)}: {r['judge']}, {r['decoding']}", r["attack"]): r
        for r in attacked.metrics
        if r["split"] == "test"
    }
    assert {section.title for section in table.sections} == {title for title, _ in records}
    for section in table.sections:
        assert [row[0].text for row in section.rows] == ["clean", "dsi", "bed"]
        clean = records[section.title, "none"]
        assert str(section.rows[0][1]) == two(clean["mean_score"])
        assert [str(cell) for cell in section.rows[0][2:5]] == ["-"] * 3
        assert str(section.rows[0][-1]) == three(clean["spearman"])
        for row in section.rows[1:]:
            record = records[section.title, row[0].text]
            assert row[1].text == two(record["attacked_mean_score"])
            assert row[2].text == change_text(record["change"])
            assert row[2].interval == f"[{change_text(record['change_low'])},{change_text(record['change_high'])}]"
            assert row[2].marked == (record["change"] > 0)
            assert row[4].text == f"{100 * record['raised_share']:.0f} %"
            assert row[-1].text == three(record["spearman"])
    assert "articles resampled, clean and attacked together" in table.note
    assert table.marks


def test_terminal_and_page_show_them_and_the_answer(attacked):
    (sentence,) = attack_sentences(attacked)
    assert sentence.startswith("coherence: dsi changes the mean score of ")
    assert sentence.endswith(", the most of 2 attacks.")
    text, page = in_terminal(attacked), on_page(attacked)
    assert "coherence: attacks" in text
    assert "coherence, attack dsi:" not in text
    assert "<h3>Attacks</h3>" in page
    assert sentence in words_of(page)


def test_nothing_is_said_where_nothing_was_attacked(run):
    clean = results_of(run)
    assert ATTACKS(clean) == attack_sentences(clean) == GAPS(clean) == gap_sentences(clean) == []
    assert "attacks" not in in_terminal(clean)
    assert "<h3>Attacks</h3>" not in on_page(clean)


def test_a_sentence_claims_no_more_than_its_interval(attacked):
    still = replace(attacked, metrics=[record for record in attacked.metrics if record["attack"] != "dsi"])
    assert attack_sentences(still) == ["coherence: the attack does not raise a mean score significantly."]
    (bare,) = attack_sentences(without(attacked, change_low=None, change_high=None))
    assert bare.endswith(", the most of 2 attacks; without an interval, chance cannot be ruled out.")


def test_defenses_have_tables_of_their_own_and_unknown_numbers_a_dash(builder):
    both = attacks_on(builder(articles=4, systems=3), {"cap": {"dsi": 1}, "none": {"dsi": 1}})
    assert [table.title for table in ATTACKS.tables(both)] == ["coherence", "coherence, defense cap"]
    assert len(attack_sentences(both)) == 1  # of no defense
    alone = replace(both, metrics=[record for record in both.metrics if record["defense"] == "cap"])
    (sentence,) = attack_sentences(alone)
    assert sentence.startswith("coherence, defense cap: dsi ")
    (table,) = ATTACKS.tables(without(alone, mean_of_rates=None, change_low=None))
    assert table.sections[0].rows[1][3].text.endswith("/- %")
    assert "interval" not in table.note


# --- which is easier to fool? -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gaps(builder):
    run = attacked_run(builder(ranges=[ScoreRange(1, 5), ScoreRange(2, 6)], articles=8, systems=4))
    return results_of(run.run, attack_differences=run.differences)


def record(statistic="change", **more):
    """A record of attack/differences.json."""
    base = {"dataset": "mini", "split": "test", "dimension": "joint", "range_min": 1.0, "range_max": 5.0}
    base |= {"range_step": 1.0, "ranges": 1, "attack": "dsi", "defense": "none"}
    for side, judge, decoding in (("first", "pair", "contrastive"), ("second", "main", "greedy")):
        base |= {f"{side}_judge": judge, f"{side}_decoding": decoding}
        base |= {f"{side}_lambda": None, f"{side}_temperature": None}
    base |= {"statistic": statistic, "n": 54, "groups": 18, "first": 0.53, "second": 0.5, "difference": 0.03}
    return base | {"low": -0.01, "high": 0.08, "se": 0.02, "groups_needed": 71, "says": "not significant"} | more


def rows_of(*records):
    return gap_frame(Results(attack_differences=records)).to_dict("records")


CLEAR = record(difference=0.2, low=0.1, high=0.3, says="more", groups_needed=9)
SPREADS = record("standardized", difference=-0.04, low=-0.5, high=0.4)
BARE = record(low=None, high=None, says=None, groups_needed=None)
UNKNOWN = dict.fromkeys(("first", "second", "difference", "low", "high", "se", "groups_needed", "says"))


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (
            [record()],
            "+0.03 [-0.01,+0.08], against main, greedy: no significant difference over 18 articles.",
        ),
        (
            [CLEAR, SPREADS],
            "+0.20 [+0.10,+0.30], against main, greedy: the attack gains more, significantly. In spreads of "
            "their own clean scores by -0.04 [-0.50,+0.40]: no significant difference over 18 articles.",
        ),
        ([BARE], "+0.03, against main, greedy: without an interval, chance cannot be ruled out."),
    ],
)
def test_sentences_by_hand(records, told):
    assert gap_sentences(Results(attack_differences=records)) == [
        f"joint: pair, contrastive changes how far dsi raises the mean score by {told}"
    ]


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([record(says="more", low=0.01), SPREADS], "more; in spreads not significant"),
        ([record(), SPREADS], "not significant"),
        ([BARE], "no interval"),
    ],
)
def test_a_verdict_names_both_where_points_and_spreads_disagree(records, verdict):
    assert [row["verdict"] for row in rows_of(*records)] == [verdict]


def test_rows_are_those_of_the_records(gaps):
    (table,) = GAPS.tables(gaps)
    assert table.title == "coherence: pair, contrastive against main, greedy"
    shown = {
        (r["statistic"], r["attack"], None if r["range_min"] is None else str(range_of(r))): r
        for r in gaps.attack_differences
        if r["split"] == "test"
    }
    rows = gap_frame(gaps).to_dict("records")
    assert len(rows) == len(texts_of(table)) == 3 * 3  # attacks, and two ranges with their mean
    for row, cells in zip(rows, texts_of(table), strict=True):
        cell = row["attack"], None if row["mean"] else row["range"]
        change, spreads = shown["change", *cell], shown["standardized", *cell]
        assert cells[2:4] == [change_text(change[side]) for side in ("first", "second")]
        for number, own in zip(cells[4:6], (change, spreads), strict=True):
            assert number == f"{change_text(own['difference'])} [{change_text(own['low'])},{change_text(own['high'])}]"
        assert cells[-1].startswith("more")  # a word raises the pair's scores by twice as much
    assert [row["range"] for row in rows[:3]] == ["1-5", "2-6", "mean of 2 ranges"]


def test_the_answer_is_of_the_attack_that_changes_most(gaps):
    rows = [row for row in gap_frame(gaps).to_dict("records") if not row["mean"]]
    strongest = max(rows, key=lambda row: abs(row["second"]))
    assert strongest["attack"] == "adv_suffix_3"
    assert gap_sentences(gaps) == [f"coherence: {gap_sentence(strongest, several=True)}"]
    assert f"in range {strongest['range']} by" in gap_sentences(gaps)[0]
    assert gap_sentences(gaps)[0] in words_of(on_page(gaps))
    assert "which is easier to fool?" in words_of(in_terminal(gaps))


def test_pairs_of_which_nothing_changes_are_left_out():
    still = dict.fromkeys(("first", "second", "difference", "low", "high"), 0.0)
    assert rows_of(record(**still), record("standardized", **UNKNOWN)) == []
    assert rows_of(record(**UNKNOWN)) == []
    results = Results(attack_differences=[record(), record("standardized", **UNKNOWN)])
    assert texts_of(GAPS.tables(results)[0])[0][5] == "-"
    assert "spreads" not in gap_sentences(results)[0]


def test_settings_defenses_and_pairs_are_told_apart():
    several = [record(first_lambda=value, first_temperature=1.0) for value in (0.1, 1.0)]
    assert [row["range"] for row in rows_of(*several)] == ["1-5, λ 0.1, t 1", "1-5, λ 1, t 1"]
    others = [record(), record(defense="cap"), record(first_decoding="other"), record(split="dev", attack="bed")]
    assert [table.title.partition(" against")[0] for table in GAPS.tables(Results(attack_differences=others))] == [
        "joint: pair, contrastive",
        "joint, defense cap: pair, contrastive",
        "joint: pair, other",
    ]


def test_the_note_speaks_of_intervals_and_of_groups_where_there_are_any():
    (table,) = GAPS.tables(Results(attack_differences=[record()]))
    assert "95 %" in table.note
    assert texts_of(table)[0][-2] == "71"
    assert "articles for 80 % power; here 18." in table.note
    (table,) = GAPS.tables(Results(attack_differences=[BARE]))
    assert "95 %" not in table.note
    assert "needed" not in table.heads


def test_nothing_that_others_named_becomes_markup():
    hostile = Results(attack_differences=[record(attack=HOSTILE, first_decoding=HOSTILE)])
    assert "<b>" not in to_html(GAPS(hostile))
    assert "&lt;b&gt;" in to_html(GAPS(hostile))
