"""Figures of what defenses found: what is drawn are the records' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judgebench.report.defense_files import DefenseRecords

from judgebench.report.candidates_figure import candidates_figure
from judgebench.report.defense_figures import defense_figures
from judgebench.report.embeddings_figure import embeddings_figure
from judgebench.report.figures import draw_all
from judgebench.report.front_figure import front_figure, unbeaten
from judgebench.report.separability_figure import separability_figure
from judgebench.report.strengths_figure import strengths_figure
from judgebench.report.style import STANDARDS, defense_marks
from judgebench.results.schema import FIGURE
from tests.report.defended_records import STRENGTHS, defense_records, standard, strength
from tests.report.test_worded import with_cot


def lines_of(axis, color):
    return [line for line in axis.get_lines() if line.get_color() == color]


def legend(figure):
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def test_bars_hold_every_candidate_and_the_thresholds_part_them():
    figure = candidates_figure(standard(), "dialogues")
    (axis,) = figure.axes
    counts = [sum(bar.get_height() for bar in bars) for bars in axis.containers]
    assert counts == [2, 1, 2]
    assert {line.get_xdata()[0] for line in axis.get_lines()} == {1.5, 3.5}
    assert legend(figure) == ["low set, 2", "neither", "high set, 2"]
    assert "6 texts that Some-Tutor-1B wrote, 3 for each of 2 dialogues of mini, n = 5" in figure.get_label()
    assert candidates_figure(standard(scores=[])) is None


def test_points_are_those_of_the_sets_and_the_crosses_their_means():
    figure = embeddings_figure(standard())
    (axis,) = figure.axes
    drawn = [points.get_offsets().tolist() for points in axis.collections]
    assert drawn == [[[1, 0], [3, 2]], [[2, 1]], [[-1, 0], [-3, 2]], [[-2, 1]]]
    assert "50 % of the variance" in axis.get_xlabel()
    assert "25 %" in axis.get_ylabel()
    assert "hold 75 % of their variance" in figure.get_label()
    assert embeddings_figure(standard(low_points=[])) is None


def test_separability_stands_beside_chance_and_the_layer_is_marked():
    figure = separability_figure(standard(layer=3))
    (axis,) = figure.axes
    chance, found, marked = axis.get_lines()
    assert list(found.get_xdata()) == [1, 2, 3]
    assert list(found.get_ydata()) == [0.4, 0.9, 0.6]
    assert list(chance.get_ydata()) == [0.5, 0.6, 0.7]
    assert (list(marked.get_xdata()), list(marked.get_ydata())) == ([3], [0.6])
    assert "as 1 of 3 do here" in figure.get_label()
    assert "Layer 2 separates best; another was asked for" in figure.get_label()
    assert "asked for" not in separability_figure(standard()).get_label()


def test_strengths_have_means_bands_targets_and_the_nearest():
    figure = strengths_figure(STRENGTHS, standard(), defense_records().references)
    (axis,) = figure.axes
    for side, means, target, nearest in (("high", [2.0, 2.5, 3.25], 3.5, 0.2), ("low", [2.0, 1.5, 0.75], 1.5, 0.1)):
        line, flat = lines_of(axis, STANDARDS[side])[:2]
        assert list(line.get_xdata()) == pytest.approx([0, 0.1, 0.2])
        assert list(line.get_ydata()) == means
        assert set(flat.get_ydata()) == {target}
        (circle,) = [
            one
            for one in axis.get_lines()
            if one.get_markeredgecolor() == STANDARDS[side] and one.get_markersize() == 11
        ]
        assert list(circle.get_xdata()) == pytest.approx([nearest])
    high, low = (band.get_paths()[0].vertices[:, 1] for band in axis.collections)
    assert (high.min(), high.max()) == (1.5, 3.75)
    assert (low.min(), low.max()) == (0.25, 2.5)
    assert axis.get_ylim()[0] == pytest.approx(1 - 0.03 * 4)  # no judge scores below its range
    assert "cut where they leave the score range" in figure.get_label()
    assert "steered with 0.2 to the high and 0.1 to the low standard" in figure.get_label()
    assert "n = 4" in figure.get_label()
    assert strengths_figure([strength("high", 0.0, 1.0) | {"mean": None}]) is None


def test_the_front_has_a_point_a_defense_at_its_records_numbers(builder):
    run = with_cot(builder, ["expectation"])
    figure = front_figure(run.records, "coherence", run.titles)
    (axis,) = figure.axes
    found = {}
    for container in axis.containers:
        ((x,), (y,)) = container.lines[0].get_data()
        found[container.lines[0].get_color()] = (x, y)
    assert legend(figure) == ["no defense", "cot (its number)", "words", "beaten by no other in both"]
    records = {(r["defense"], r["attack"]): r for r in run.records if r["split"] == "test"}
    colors = {
        name.split()[0]: mark.color for name, mark in defense_marks(["none", "cot (its number)", "words"]).items()
    }
    assert len(found) == 3
    for name, color in colors.items():
        assert found[color] == (records[name, "dsi"]["delta"], records[name, "none"]["spearman"])
    assert "answers in words" in figure.get_label()
    assert front_figure([r for r in run.records if r["defense"] == "none"], "coherence", run.titles) is None
    assert front_figure([r for r in run.records if r["attack"] == "none"], "coherence", run.titles) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_the_staircase_is_what_nobody_beats(points):
    found = unbeaten(points)
    rising = [points[i] for i in found]
    assert rising == sorted(set(rising))
    assert [y for _, y in rising] == sorted({y for _, y in rising})
    best = {p for p in points if not any(q[0] <= p[0] and q[1] >= p[1] and q != p for q in points)}
    assert set(rising) == best


def test_a_run_draws_them_under_names_that_its_folder_clears(run):
    names = {f"{kind}_joint" for kind in ("candidates", "embeddings", "separability", "strengths")}
    drawn = draw_all(run.readings, run.scores, run.records, run.scale, run.titles, defense=defense_records())
    assert names <= set(drawn)
    assert all(FIGURE.fullmatch(f"{name}.png") for name in drawn)
    assert set(defense_figures([], DefenseRecords(), {})) == set()
    assert ("strengths", "joint") not in defense_figures([], defense_records(strengths=[]), {})


def test_titles_and_captions_stay_inside(run):
    long = standard(tutor="tutor-" * 30, judge="judge-" * 30, dimension="dimension " * 20)
    for figure in (candidates_figure(long), embeddings_figure(long), separability_figure(long)):
        figure.draw_without_rendering()
        width = figure.bbox.width
        assert all(text.get_window_extent().x1 <= width for text in figure.texts)
    assert np.isfinite(strengths_figure(STRENGTHS).bbox.width)
