"""Agreement with the humans as tables: at the reported level, within groups and over systems; and flags."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judgebench.report.render import to_markdown
from judgebench.report.views.answers import FLAGS, flags
from judgebench.report.views.correlations import CORRELATION, LEVELS, correlation_frame, other_levels
from judgebench.results.results import Results
from judgebench.results.series import SeriesIndex
from judgebench.stats.evaluate import evaluate
from judgebench.types import ScoreRange
from tests.report.conftest import MIXED, columns, in_terminal, on_page, results_of, texts_of, words_of


def record(judge="main", decoding="greedy", low=1, high=5, spearman=0.5, **more):
    values = {}
    for name in ("pearson", "spearman", "kendall"):
        values |= {name: spearman, f"{name}_low": spearman - 0.1, f"{name}_high": spearman + 0.1}
    base = {"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"}
    base |= {"defense": "none", "range_min": low, "range_max": high, "range_step": 1, "judge": judge}
    base |= {"decoding": decoding, "lambda": None, "temperature": None, "n": 1440, "groups": 90, "failed_share": 0.0}
    return base | values | {"clamped_share": 0.0, "flags": []} | more


def of(*records, **titles):
    return Results(metrics=records, about={"titles": {"main": "SmolLM2", "assistant": "early exit", **titles}})


def only(*records, **titles):
    (table,) = CORRELATION.tables(of(*records, **titles))
    return table


def marked(table, column=2):
    return [[row[column].marked for row in section.rows] for section in table.sections]


def test_best_of_each_range_and_of_the_averages_by_hand():
    table = only(
        record("main", low=0, high=4, spearman=0.4),
        record("assistant", low=0, high=4, spearman=0.1),
        record("main", low=1, high=5, spearman=0.2),
        record("assistant", low=1, high=5, spearman=0.3),
    )
    assert marked(table) == [[True, False], [False, True], [True, False]]
    assert [row[0].text for section in table.sections for row in section.rows] == ["0-4", "", "1-5", "", "average", ""]
    assert [row[2].text for row in table.sections[2].rows] == ["0.300", "0.200"]
    assert "best of its range" in table.marks


@pytest.mark.parametrize(
    ("records", "best"),
    [
        ([record("main"), record("assistant")], [[True, True]]),
        ([record("main")], [[False]]),
        ([record("main", spearman=-0.1), record("assistant", spearman=0.0)], [[False, False]]),
    ],
    ids=["ties are all best", "a lone row is not", "nothing wins against inverted judges"],
)
def test_what_is_called_the_best(records, best):
    assert marked(only(*records)) == best


def test_one_row_in_full():
    table = only(record(spearman=0.4126, failed_share=0.021, flags=["inverted"]), record("assistant", spearman=-0.2))
    first, second = texts_of(table)
    assert first == ["1-5", "main, greedy inverted", *["0.413 [.31,.51]"] * 3, "2.1 %"]
    assert second[1:3] == ["assistant, greedy", "-0.200 [-.30,-.10]"]
    assert table.size == "1440 examples of 90 articles"


@pytest.mark.parametrize(
    ("records", "titles", "told"),
    [
        ([record(), record("assistant", n=1400)], {}, "1400 to 1440 examples of 90 articles"),
        ([record()], {"groups": "dialogues", "examples": "pairs"}, "1440 pairs of 90 dialogues"),
        ([record(clamped_share=0.12)], {}, "Clamped: share of answers outside the range"),
        ([record(split="dev")], {}, "dev split."),
        ([record(), record(split="dev")], {}, "test split."),
        ([record(groups=5)], {}, "Fewer than 6 articles: the intervals are too narrow"),
        ([record(spearman_low=None, spearman_high=None, missing="one system")], {}, "one system"),
        ([record(human_agreement=0.5)], {}, "it counts as undecided"),
        ([record()], {"note": "A note."}, "A note."),
    ],
)
def test_sizes_and_notes(records, titles, told):
    assert told in to_markdown(only(*records, **titles))


def test_columns_and_sentences_that_say_nothing_are_left_out():
    text = to_markdown(only(record(spearman_low=None, spearman_high=None)))
    for word in ("lamped", "Average", "95 %", "Fewer", "Bold"):
        assert word not in text
    assert CORRELATION.tables(of()) == []


def test_null_correlations_are_a_dash():
    table = only(record(**dict.fromkeys(("pearson", "pearson_low", "pearson_high"))))
    assert texts_of(table)[0][2:4] == ["-", "0.500 [.40,.60]"]


def test_assistants_that_always_say_the_same_are_left_out_and_that_is_told():
    silent = [record("assistant", low=low, high=low + 4, flags=["constant"], spearman=0.0) for low in (0, 1)]
    table = only(record(), *silent)
    assert [row[1] for row in texts_of(table)] == ["main, greedy"]
    assert "The assistant is left out where it gives every text the same score." in table.note
    spoken = [silent[0], silent[1] | {"flags": []}]
    assert "left out" not in only(record(), *spoken).note
    assert "assistant" in set(correlation_frame(of(record(), *silent), silent=True)["judge"])


def test_ranges_and_judges_are_sorted_and_an_average_needs_every_range():
    pair = record("pair", "contrastive", low=3, high=7)
    table = only(pair, record(low=1, high=10), record(low=3, high=7), record(dimension="x", attack="dsi"))
    assert [[row[0].text, row[1].text] for section in table.sections for row in section.rows] == [
        *(["1-10", "main, greedy"], ["3-7", "main, greedy"], ["", "pair, contrastive"], ["average", "main, greedy"]),
    ]


def test_dimensions_have_tables_of_their_own_and_attacks_where_every_text_is_attacked():
    def titles(*records):
        return [table.title for table in CORRELATION.tables(of(*records))]

    assert titles(record(), record(attack="dsi"), record(dimension="tone")) == ["coherence", "tone"]
    assert titles(record(attack="dsi"), record(defense="cot", attack="bed")) == [
        *("coherence, attack dsi", "coherence, attack bed, defense cot"),
    ]


def test_settings_side_by_side_are_rows_of_their_own_and_tuned_ones_a_detail(builder, run):
    tried = builder(articles=4, ranges=[ScoreRange(1, 5)], grid=[(0.1, 1.0), (1.0, 2.0)])
    (table,) = CORRELATION.tables(results_of(tried))
    names = [str(row[1]) for row in table.sections[0].rows]
    assert names[-2:] == ["pair, contrastive λ 0.1, t 1", "pair, contrastive λ 1, t 2"]
    (table,) = CORRELATION.tables(results_of(run))
    assert [section.rows[-1][1].detail for section in table.sections] == [
        *("λ 0.5, t 1", "λ 0.1, t 0.5", "λ 1, t 2", "λ 0.5, t 5", "λ, t by range"),
    ]


@pytest.mark.parametrize("ranges", MIXED)
def test_ranges_with_different_numbers_of_candidates(builder, ranges):
    results = results_of(builder(ranges=ranges, articles=4))
    in_order = [str(one) for one in sorted(ranges, key=lambda one: (one.minimum, one.maximum, one.step))]
    (table,) = CORRELATION.tables(results)
    assert [section.rows[0][0].text for section in table.sections] == [*in_order, "average"]
    assert {len(section.rows) for section in table.sections} == {5}
    unfolded = "".join(line[:9].strip() for line in in_terminal(results).splitlines()).replace(" ", "")
    assert all(str(score_range).replace(" ", "") in unfolded for score_range in ranges)


@pytest.mark.parametrize(
    ("levels", "note", "size"),
    [
        (["system"], "over the systems' mean scores", "8 systems over 18 articles"),
        (["document", "system"], "within each of the articles", "18 articles"),
        (["system", "dataset"], "over all texts", "144 examples of 18 articles"),
    ],
)
def test_without_the_dataset_level_the_first_is_shown_and_named(run, levels, note, size):
    results = results_of(replace(run, records=evaluate(columns(run.scores), "mini", levels=levels, resamples=20)))
    (table,) = CORRELATION.tables(results)
    assert f"Correlation {note}" in table.note
    title = "coherence" if results.level == "dataset" else f"coherence, {results.level} level"
    assert (table.title, table.size) == (title, size)
    shown = [one for one in results.metrics if (one["split"], one["level"]) == ("test", results.level)]
    rows = [row for section in table.sections[:-1] for row in section.rows]
    assert sorted(row[3].text for row in rows) == sorted(f"{round(one['spearman'], 3) + 0:.3f}" for one in shown)


def test_series_are_ordered_as_people_read_them(run):
    names = [str(series) for series in SeriesIndex(run.records).all]
    assert names == [
        *("main, greedy", "main, expectation", "assistant, greedy", "assistant, expectation", "pair, contrastive"),
    ]


# --- within groups, and over systems ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(builder):
    run = builder(ranges=[ScoreRange(1, 5)], articles=14, systems=5)
    silent = run.scores["group_id"].isin(["article-3", "article-4"])
    scores = run.scores.assign(human=np.where(silent, 3.0, run.scores["human"]))
    return results_of(replace(run, scores=scores, records=evaluate(columns(scores), "mini", resamples=60)))


def test_levels_are_those_of_the_records(measured):
    (table,) = LEVELS.tables(measured)
    assert table.size == "5 systems over 12 articles"
    within, over = (
        next(
            one
            for one in measured.metrics
            if (one["split"], one["level"], one["judge"], one["decoding"]) == ("test", level, "main", "greedy")
        )
        for level in ("document", "system")
    )
    row = dict(zip(table.heads, texts_of(table)[0], strict=True))
    assert row["within"].startswith(f"{within['spearman']:.3f} [")
    assert row["without"] == f"{within['spearman'] * 12 / 10:.3f} (2)"
    assert row["systems"] == f"{over['spearman']:.3f}"
    assert row["these"] != row["others"]
    assert over["spearman_systems_low"] < over["spearman_low"]
    for shown in (words_of(in_terminal(measured)), words_of(on_page(measured))):
        assert "Others: for systems like these, systems and articles resampled." in shown
        assert row["without"] in shown


def test_records_of_earlier_versions_know_neither_silent_groups_nor_other_systems(measured):
    new = ("varied", "systems_low", "systems_high", "missing", "human_constant_groups")
    old = [{name: value for name, value in one.items() if not name.endswith(new)} for one in measured.metrics]
    (table,) = LEVELS.tables(replace(measured, metrics=old))
    assert table.heads == ["range", "judge, decoding", "within", "systems", "these"]
    assert in_terminal(replace(measured, metrics=old))
    assert on_page(replace(measured, metrics=old))


def test_one_system_has_a_reason_and_no_number(measured):
    records = evaluate(columns(measured.scores.assign(system_id="system")), "mini", resamples=60)
    (table,) = LEVELS.tables(replace(measured, metrics=records))
    assert "systems" not in table.heads
    assert table.size == "12 articles"
    assert "all texts are of one system" in table.note
    system = [one for one in records if one["level"] == "system"]
    for name, value in {"n": 1, "pearson": None, "spearman_low": None, "flags": []}.items():
        assert all(one[name] == value for one in system)


def test_one_system_of_one_group_has_no_table_of_levels(measured):
    scores = measured.scores[measured.scores["group_id"] == measured.scores["group_id"].iloc[-1]]
    records = evaluate(columns(scores.assign(system_id="system")), "mini", resamples=20)
    results = replace(measured, metrics=records)
    assert LEVELS.tables(results) == []
    assert [block.title for block in other_levels(results)] == ["coherence, document level"]


# --- flags ------------------------------------------------------------------------------------------------------------


def test_flags_are_explained_and_say_where(run):
    pair = [one | {"flags": ["edge", "mine"]} for one in run.records if one["judge"] == "pair"]
    edge, mine = flags(results_of(run, metrics=pair))
    where = "coherence, ranges 0-4, 1-5, 2-6, 3-7: pair, contrastive."
    assert edge.examples == "#filter=1&flags=edge"
    assert (edge.warning, edge.text) == ("edge", f"{FLAGS['edge']}. {where}")
    assert (mine.warning, mine.text) == ("mine", where)


def test_at_another_level_flags_say_what_every_text_is(run):
    document = [one | {"flags": ["constant"], "level": "document"} for one in run.records]
    *_, note = flags(results_of(run, metrics=document))
    assert note.text == "Here “every text” means: all texts of each of the articles."


@pytest.mark.parametrize(
    ("kept", "more", "end"),
    [
        (lambda one: True, {}, "against the humans or depends on the score range by more than noise."),
        (lambda one: one["range_min"] == 1, {}, "takes several ranges; here is one."),
        (lambda one: True, {"groups": 5}, "says the same of every text. More takes intervals over at least 6 groups."),
    ],
)
def test_where_no_flag_is_raised_only_what_was_looked_for_is_named(run, kept, more, end):
    (told,) = flags(results_of(run, metrics=[one | {"flags": []} | more for one in run.records if kept(one)]))
    assert told.text.endswith(end)
    assert flags(Results()) == []


def test_constant_humans_are_flagged(run):
    records = evaluate(columns(run.scores.assign(human=3.0)), "mini", levels=["dataset"], resamples=20)
    assert flags(results_of(run, metrics=records))[0].warning == "constant humans"
