"""Tables and figures of learned phrases: their numbers are the records'."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judgebench.report.figures.attacks import phrase_figure, phrase_figures
from judgebench.report.layout import draw_all
from judgebench.report.render import to_html
from judgebench.report.views.phrases import PANEL, WORDS, drawn_rows, phrase_blocks, phrase_frame
from judgebench.results.schema import PLACES
from judgebench.types import ScoreRange
from tests.report.attacked import HOSTILE, PHRASES, attacked_run, results_of
from tests.report.conftest import in_terminal, on_page, texts_of, words_of

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
    assert all(PLACES["figures"].fullmatch(f"{name}.svg") for name in names)


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
