"""Attacked texts, defenses and learned phrases as a page shows them: their numbers are the records'."""

from dataclasses import replace

import pytest

from judgebench.report.figures.attacks import phrase_figure
from judgebench.report.layout import draw_all
from judgebench.report.render import to_html
from judgebench.report.views.attacks import GAPS
from judgebench.report.views.defenses import DETECTORS, standards
from judgebench.report.views.phrases import PANEL, drawn_rows, phrase_blocks, phrase_frame
from judgebench.results.schema import PLACES
from judgebench.types import ScoreRange
from tests.report.attacked import HOSTILE, PHRASES, attacked_run, results_of
from tests.report.conftest import in_terminal
from tests.report.defended_records import RECORD, standard

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


# --- defenses ---------------------------------------------------------------------------------------------------------


def test_nothing_that_others_named_becomes_markup(attacked):
    sides = {f"{side}_{name}": None for side in ("first", "second") for name in ("lambda", "temperature")}
    sides |= {"first_judge": "pair", "first_decoding": HOSTILE, "second_judge": "main", "second_decoding": "greedy"}
    gap = {"split": "test", "dimension": "joint", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "ranges": 1}
    gap |= {"defense": "none", "attack": HOSTILE, "statistic": "change", "groups": 18, "first": 0.53, "second": 0.5}
    gap |= {"difference": 0.03, "low": -0.01, "high": 0.08, "groups_needed": 71, "says": "not significant"} | sides
    phrases = [record | {"phrase": HOSTILE, "suffix": HOSTILE, "objective": HOSTILE} for record in attacked.suffix]
    made = [standard(tutor=HOSTILE, dimension=HOSTILE)], [RECORD | {"defense": HOSTILE}]
    hostile = results_of(attacked.run, suffix=phrases, attack_differences=[gap], standards=made[0], detectors=made[1])
    for blocks in (GAPS(hostile), phrase_blocks(hostile), standards(hostile), DETECTORS(hostile)):
        assert "<b>" not in to_html(blocks)
        assert "&lt;b&gt;" in to_html(blocks)
    marked = [record | {"phrase": "[bold]x[/bold]"} for record in attacked.suffix]
    assert "[bold]x[/bold]" in in_terminal(results_of(attacked.run, suffix=marked))
