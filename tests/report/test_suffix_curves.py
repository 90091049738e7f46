from __future__ import annotations

from dataclasses import replace

import pytest
from markupsafe import escape

from judgebench.metrics.suffix import Suffix, suffix_records
from judgebench.report.figures import draw_all
from judgebench.report.suffix_curves import arrange_suffix, constant_note, suffix_note
from judgebench.report.suffix_figure import suffix_figure
from judgebench.results.schema import FIGURE
from judgebench.types import ScoreRange
from tests.report.attacked import PHRASES, attacked_run
from tests.report.conftest import columns
from tests.report.test_html import HOSTILE, Tags, page, scripts_of
from tests.report.test_printed import printed, told

ONE = [ScoreRange(1, 5)]


@pytest.fixture(scope="module")
def attacked(builder):
    return attacked_run(builder(ranges=ONE, articles=8, systems=4, dev_articles=3), objective="expected score")


@pytest.fixture(scope="module")
def learned(attacked):
    (found,) = arrange_suffix(attacked.suffix)
    return found


def test_what_the_phrase_never_saw_comes_first(learned):
    assert [(panel.split, panel.contexts, panel.systems) for panel in learned.panels] == [
        ("test", "unseen", "unseen"),
        ("test", "unseen", "seen"),
        ("test", "unseen", "all"),
        ("dev", "seen", "unseen"),
        ("dev", "seen", "seen"),
        ("dev", "seen", "all"),
    ]
    assert [panel.systems for panel in learned.apart] == ["unseen", "seen"] * 2
    assert [(panel.texts, panel.groups) for panel in learned.apart] == [(10, 5), (10, 5), (6, 3), (6, 3)]
    assert learned.title == "coherence, range 1-5: adv_suffix (learned for: expected score)"
    assert (learned.phrase, learned.words, learned.phrases) == (PHRASES[-1], 3, list(PHRASES))


def test_points_are_those_of_the_records(attacked, learned):
    records = {
        (r["split"], r["contexts"], r["systems"], f"{r['judge']}, {r['decoding']}", r["length"]): r
        for r in attacked.suffix
    }
    points = 0
    for panel in learned.panels:
        for curve in panel.curves:
            assert [point.length for point in curve.points] == [0, 1, 2, 3]
            assert curve.clean is curve.points[0]
            for point in curve.points:
                record = records.pop((panel.split, panel.contexts, panel.systems, str(curve.series), point.length))
                assert (point.mean, point.mean_low) == (record["mean_score"], record["mean_score_low"])
                assert point.phrase == record["phrase"]
                if point.length:
                    assert (point.change.value, point.change.high) == (record["change"], record["change_high"])
                    assert point.mean == pytest.approx(curve.clean.mean + point.change.value)
                else:
                    assert point.change is None
                points += 1
    assert records == {}
    assert points == 6 * 5 * 4


def test_all_systems_are_told_only_where_there_are_seen_and_unseen_ones(attacked):
    given = columns(attacked.run.scores)
    nowhere = Suffix("adv_suffix", PHRASES, frozenset(), frozenset())
    (one,) = arrange_suffix(suffix_records(given, [nowhere], "summeval", 5))
    assert [(panel.split, panel.contexts, panel.systems) for panel in one.panels] == [
        ("test", "unseen", "unseen"),
        ("dev", "unseen", "unseen"),
    ]
    assert one.title == "coherence, range 1-5: adv_suffix"


def test_the_figure_draws_lines_bands_and_the_clean_scores(attacked, learned):
    figure = suffix_figure(learned, attacked.run.titles | {"groups": "dialogues"})
    titles = [axis.get_title("left") for axis in figure.axes]
    assert titles[0] == "unseen dialogues, unseen systems"
    assert titles[3] == "seen dialogues, seen systems"
    assert "test split, n = 10 of 5 dialogues" in figure.axes[0].get_xlabel()
    for axis, panel in zip(figure.axes, learned.apart, strict=True):
        lines = axis.get_lines()
        assert len(lines) == 2 * len(panel.curves)
        assert len(axis.collections) == len(panel.curves)
        for curve, line, flat, band in zip(panel.curves, lines[::2], lines[1::2], axis.collections, strict=True):
            assert list(line.get_xdata()) == [0, 1, 2, 3]
            assert list(line.get_ydata()) == [point.mean for point in curve.points]
            assert set(flat.get_ydata()) == {curve.clean.mean}
            heights = band.get_paths()[0].vertices[:, 1]
            assert heights.min() == min(point.mean_low for point in curve.points)
            assert heights.max() == max(point.mean_high for point in curve.points)
    assert f"Phrase, learned for expected score: “{PHRASES[-1]}”" in figure.get_label()
    assert "95 % interval, dialogues resampled" in figure.get_label()


def test_curves_that_never_move_are_left_out_and_named(attacked):
    flat = attacked.run.scores.assign(score=2.0)
    scores = attacked.run.scores.where(attacked.run.scores["judge"] != "assistant", flat)
    records = suffix_records(columns(scores), [attacked.learned], "summeval", 20)
    (one,) = arrange_suffix(records)
    assert not any(curve.series.judge == "assistant" for panel in one.panels for curve in panel.curves)
    assert constant_note(one).endswith("assistant, greedy; assistant, expectation.")
    assert "assistant" in suffix_figure(one, attacked.run.titles).get_label()
    nothing = suffix_records(columns(flat), [attacked.learned], "summeval", 20)
    (one,) = arrange_suffix(nothing)
    assert one.panels == []
    assert suffix_figure(one, attacked.run.titles) is None
    assert page(attacked.run, suffix=nothing)
    assert "never saw them" in told(printed(attacked.run, suffix=nothing))


def test_defenses_are_lines_of_one_panel(attacked):
    defended = [record | {"defense": "cap"} for record in attacked.suffix]
    (one,) = arrange_suffix([*attacked.suffix, *defended])
    names = [str(curve.series) for curve in one.panels[0].curves]
    assert names[:2] == ["main, greedy, no defense", "main, greedy, defense cap"]
    assert len(names) == len(set(names)) == 10
    figure = suffix_figure(one, attacked.run.titles)
    assert len(figure.axes) == 5  # of many, what the phrase never saw: a panel a judge and decoding
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["no defense", "cap", "clean, without the phrase"]
    panel = one.panels[0]
    for axis, base in zip(figure.axes, dict.fromkeys(curve.base for curve in panel.curves), strict=True):
        assert axis.get_title("left").splitlines()[1].startswith(str(base))
        none, cap = (curve for curve in panel.curves if curve.base == base)
        assert (none.defense, cap.defense) == ("none", "cap")
        lines, flat = axis.get_lines()[::2], axis.get_lines()[1::2]
        for curve, line, level in zip((none, cap), lines, flat, strict=True):
            assert list(line.get_ydata()) == [point.mean for point in curve.points]
            assert set(level.get_ydata()) == {curve.clean.mean}
        assert lines[0].get_color() != lines[1].get_color()
    (one,) = arrange_suffix(defended)
    assert str(one.panels[0].curves[0].series) == "main, greedy"


def test_each_range_has_a_figure_of_a_name_that_a_run_folder_clears(builder):
    several = attacked_run(builder(ranges=[ScoreRange(1, 5), ScoreRange(0, 4)], articles=4, systems=3), resamples=5)
    run = several.run
    names = [
        name
        for name in draw_all(run.readings, run.scores, run.records, run.scale, run.titles, suffix=several.suffix)
        if name.startswith("suffix")
    ]
    assert names == ["suffix_adv_suffix_coherence_1-5", "suffix_adv_suffix_coherence_0-4"]
    assert all(FIGURE.fullmatch(f"{name}.svg") for name in names)


def test_the_page_and_the_tables_spell_the_phrase(attacked, learned):
    run = attacked.run
    html = page(run, suffix=attacked.suffix)
    assert "<h3>Learned phrases</h3>" in html
    assert f"<q>{PHRASES[-1]}</q>" in html
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    text = printed(run, suffix=attacked.suffix)
    assert max(len(line) for line in text.splitlines()) <= 100
    for point in learned.panels[0].curves[0].points:
        assert f"{point.mean:.2f} [{point.mean_low:.2f},{point.mean_high:.2f}]" in text
        assert f"{point.mean:.2f}" in html
        assert point.phrase in text
    assert "unseen articles, all systems (test)" in text
    assert "<h3>Learned phrases</h3>" not in page(run)
    assert "never saw" not in printed(run)


def test_nothing_of_a_phrase_becomes_markup(attacked):
    hostile = [record | {"phrase": HOSTILE, "suffix": HOSTILE, "objective": HOSTILE} for record in attacked.suffix]
    (one,) = arrange_suffix(hostile)
    figures = {"x": suffix_figure(one, attacked.run.titles)}
    text = page(attacked.run, suffix=hostile, figures=figures)
    assert scripts_of(text) == scripts_of(page(attacked.run))
    assert str(escape(HOSTILE)) in text
    marked = [record | {"phrase": "[bold]x[/bold]"} for record in attacked.suffix]
    assert "[bold]x[/bold]" in printed(attacked.run, suffix=marked)


def test_without_intervals_none_are_spoken_of(attacked):
    given = columns(attacked.run.scores)
    bare = suffix_records(given, [replace(attacked.learned, objective="")], "summeval", 0)
    found = arrange_suffix(bare)
    assert "95 %" not in suffix_note(found)
    figure = suffix_figure(found[0], attacked.run.titles)
    assert "95 %" not in figure.get_label()
    assert all(not axis.collections for axis in figure.axes)
