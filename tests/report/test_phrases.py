"""Tables and figures of learned phrases: their numbers are the records'."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judgebench.report.figures.attacks import phrase_figure, phrase_figures
from judgebench.report.formats import change as change_text
from judgebench.report.formats import two
from judgebench.report.layout import draw_all
from judgebench.report.render import to_html
from judgebench.report.views.phrases import PANEL, SIDES, WORDS, drawn_rows, phrase_blocks, phrase_frame, silent_note
from judgebench.results.schema import FIGURE
from judgebench.stats.robustness import Suffix, suffix_records
from judgebench.types import ScoreRange
from tests.report.attacked import HOSTILE, PHRASES, attacked_run, results_of
from tests.report.conftest import columns, in_terminal, on_page, texts_of, words_of

ONE = [ScoreRange(1, 5)]


@pytest.fixture(scope="module")
def attacked(builder):
    return attacked_run(builder(ranges=ONE, articles=8, systems=4, dev_articles=3), objective="expected score")


@pytest.fixture(scope="module")
def results(attacked):
    return results_of(attacked.run, suffix=attacked.suffix)


@pytest.fixture(scope="module")
def rows(results):
    return phrase_frame(results)


def panels_of(rows):
    return list(rows[["split", "contexts", "systems"]].drop_duplicates().itertuples(index=False, name=None))


def test_what_the_phrase_never_saw_comes_first(rows):
    assert panels_of(rows) == [
        *(("test", "unseen", systems) for systems in ("unseen", "seen", "all")),
        *(("dev", "seen", systems) for systems in ("unseen", "seen", "all")),
    ]
    own = drawn_rows(rows)
    assert panels_of(own) == [panel for panel in panels_of(rows) if panel[2] != "all"]
    assert list(own[[*PANEL, "texts", "sources"]].drop_duplicates()[["texts", "sources"]].itertuples(index=False)) == [
        *[(10, 5)] * 2,
        *[(6, 3)] * 2,
    ]
    assert set(rows["title"]) == {"coherence, range 1-5: adv_suffix (learned for: expected score)"}
    assert (set(rows["whole"]), set(rows["words"])) == ({PHRASES[-1]}, {3})


def test_cells_are_those_of_the_records(attacked, results):
    """Words down on what the phrase never saw; the whole phrase on every kind of texts."""
    (words,), (sides,) = WORDS.tables(results), SIDES.tables(results)
    assert words.size == "unseen articles, unseen systems, test split, 10 texts of 5 articles"
    records = {
        (f"{r['judge']}, {r['decoding']}", f"{r['contexts']} articles, {r['systems']} systems ({r['split']})",
         r["length"]): r
        for r in attacked.suffix
    }  # fmt: skip
    assert len(words.sections) == len(sides.sections) == 5
    for section in words.sections:
        assert [cells[1].text for cells in section.rows] == ["0", "1", "2", "3"]
        for length, cells in enumerate(section.rows):
            record = records[section.title, "unseen articles, unseen systems (test)", length]
            assert cells[0].text == (record["phrase"] or "(none)")
            ends = f"[{two(record['mean_score_low'])},{two(record['mean_score_high'])}]"
            assert (cells[2].text, cells[2].interval) == (two(record["mean_score"]), ends)
            assert cells[3].text == (change_text(record["change"]) if length else "-")
    for section in sides.sections:
        assert len(section.rows) == 6
        for panel, n, clean, mean, change in section.rows:
            record, base = (records[section.title, panel.text, length] for length in (3, 0))
            assert (int(n.text), mean.text) == (record["n"], two(record["mean_score"]))
            assert (clean.text, change.text) == (two(base["mean_score"]), change_text(record["change"]))
            assert change.interval.endswith(f"{change_text(record['change_high'])}]")


def test_all_systems_are_told_only_where_there_are_seen_and_unseen_ones(attacked):
    nowhere = Suffix("adv_suffix", PHRASES, frozenset(), frozenset())
    records = suffix_records(columns(attacked.run.scores), [nowhere], "summeval", 5)
    rows = phrase_frame(results_of(attacked.run, suffix=records))
    assert panels_of(rows) == [("test", "unseen", "unseen"), ("dev", "unseen", "unseen")]
    assert set(rows["title"]) == {"coherence, range 1-5: adv_suffix"}


def test_the_figure_draws_lines_bands_and_the_clean_scores(attacked):
    titles = attacked.run.titles | {"groups": "dialogues"}
    rows = phrase_frame(results_of(replace(attacked.run, titles=titles), suffix=attacked.suffix))
    figure = phrase_figure(rows, titles)
    heads = [axis.get_title("left") for axis in figure.axes]
    assert (heads[0], heads[3]) == ("unseen dialogues, unseen systems", "seen dialogues, seen systems")
    assert "test split, n = 10 of 5 dialogues" in figure.axes[0].get_xlabel()
    own = drawn_rows(rows)
    for axis, (_, panel) in zip(figure.axes, own.groupby(PANEL, sort=False), strict=True):
        lines, curves = axis.get_lines(), [curve for _, curve in panel.groupby("series", sort=False)]
        assert len(lines) == 2 * len(curves) == 10
        for curve, line, flat, band in zip(curves, lines[::2], lines[1::2], axis.collections, strict=True):
            assert list(line.get_xdata()) == [0, 1, 2, 3]
            assert list(line.get_ydata()) == list(curve["mean_score"])
            assert set(flat.get_ydata()) == {curve["mean_score"].iloc[0]}
            heights = band.get_paths()[0].vertices[:, 1]
            assert (heights.min(), heights.max()) == (curve["mean_score_low"].min(), curve["mean_score_high"].max())
    assert f"Phrase, learned for expected score: “{PHRASES[-1]}”" in figure.get_label()
    assert "95 % interval, dialogues resampled" in figure.get_label()


def test_curves_that_never_move_are_left_out_and_named(attacked):
    flat = attacked.run.scores.assign(score=2.0)
    scores = attacked.run.scores.where(attacked.run.scores["judge"] != "assistant", flat)
    records = suffix_records(columns(scores), [attacked.learned], "summeval", 20)
    some = results_of(attacked.run, suffix=records)
    assert not any("assistant" in section.title for table in WORDS.tables(some) for section in table.sections)
    assert silent_note(phrase_frame(some)).endswith("assistant, greedy; assistant, expectation.")
    (figure,) = phrase_figures(some).values()
    assert "assistant" in figure.get_label()
    nothing = results_of(attacked.run, suffix=suffix_records(columns(flat), [attacked.learned], "summeval", 20))
    assert WORDS.tables(nothing) == SIDES.tables(nothing) == []
    assert list(phrase_figures(nothing).values()) == [None]
    for text in (in_terminal(nothing), on_page(nothing)):
        assert "Left out, for they say the same of every text" in words_of(text)


def test_defenses_are_lines_of_one_panel(attacked):
    defended = [record | {"defense": "cap"} for record in attacked.suffix]
    both = phrase_frame(results_of(attacked.run, suffix=[*attacked.suffix, *defended]))
    names = list(dict.fromkeys(both["series"]))
    assert names[:2] == ["main, greedy, no defense", "main, greedy, defense cap"]
    assert len(names) == 10
    figure = phrase_figure(both, attacked.run.titles)
    assert len(figure.axes) == 5  # of many, what the phrase never saw: a panel a judge and decoding
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["no defense", "cap", "clean, without the phrase"]
    first = both[(both[PANEL] == both[PANEL].iloc[0]).all(axis=1)]
    for axis, (base, panel) in zip(figure.axes, first.groupby("base", sort=False), strict=True):
        assert axis.get_title("left").splitlines()[1].startswith(str(base))
        lines, flat = axis.get_lines()[::2], axis.get_lines()[1::2]
        for defense, line, level in zip(("none", "cap"), lines, flat, strict=True):
            means = list(panel.loc[panel["defense"] == defense, "mean_score"])
            assert list(line.get_ydata()) == means
            assert set(level.get_ydata()) == {means[0]}
        assert lines[0].get_color() != lines[1].get_color()
    alone = phrase_frame(results_of(attacked.run, suffix=defended))
    assert alone["series"].iloc[0] == "main, greedy"


def test_each_range_has_a_figure_of_a_name_that_a_run_folder_clears(builder):
    several = attacked_run(builder(ranges=[ScoreRange(1, 5), ScoreRange(0, 4)], articles=4, systems=3), resamples=5)
    drawn = draw_all(results_of(several.run, suffix=several.suffix, readings=several.run.readings))
    names = [name for name in drawn if name.startswith("suffix")]
    assert names == ["suffix_adv_suffix_coherence_0-4", "suffix_adv_suffix_coherence_1-5"]
    assert all(FIGURE.fullmatch(f"{name}.svg") for name in names)


def test_the_page_and_the_tables_spell_the_phrase(attacked, results):
    page, text = on_page(results), in_terminal(results)
    assert "<h3>Learned phrases</h3>" in page
    assert f"“{PHRASES[-1]}”" in page
    for cells in texts_of(WORDS.tables(results)[0])[:4]:
        assert cells[0] in text
        assert cells[2] in text
    assert "unseen articles, all systems (test)" in text
    bare = results_of(attacked.run)
    assert phrase_blocks(bare) == []
    assert phrase_figures(bare) == {}
    assert "never saw" not in words_of(on_page(bare) + in_terminal(bare))


def test_nothing_of_a_phrase_becomes_markup(attacked):
    hostile = [record | {"phrase": HOSTILE, "suffix": HOSTILE, "objective": HOSTILE} for record in attacked.suffix]
    blocks = phrase_blocks(results_of(attacked.run, suffix=hostile))
    assert "<b>" not in to_html(blocks)
    assert "&lt;b&gt;" in to_html(blocks)
    marked = [record | {"phrase": "[bold]x[/bold]"} for record in attacked.suffix]
    assert "[bold]x[/bold]" in in_terminal(results_of(attacked.run, suffix=marked))


def test_without_intervals_none_are_spoken_of(attacked):
    given = columns(attacked.run.scores)
    bare = suffix_records(given, [replace(attacked.learned, objective="")], "summeval", 0)
    results = results_of(attacked.run, suffix=bare)
    assert "95 %" not in WORDS.tables(results)[0].note
    (figure,) = phrase_figures(results).values()
    assert "95 %" not in figure.get_label()
    assert all(not axis.collections for axis in figure.axes)
