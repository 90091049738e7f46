"""Figures of what defenses found: what is drawn are the records' numbers."""

import copy

import numpy as np
import pytest

from judgebench.report.figures.defenses import (
    candidates_figure,
    defense_figures,
    detector_figure,
    embeddings_figure,
    separability_figure,
    strengths_figure,
)
from judgebench.report.figures.style import STANDARDS
from judgebench.report.layout import draw_all
from judgebench.results.results import Results
from judgebench.results.schema import PLACES
from tests.report.attacked import results_of
from tests.report.defended_records import RECORD, defense_records, standard, strength


def of(draw, about=None, **more):
    """One figure of what a run with CAP leaves.

    Args:
        about: its record of standards.json.
    """
    about = about or standard()
    return draw(defense_records(standards=[about], **more), about)


def lines_of(axis, color):
    return [line for line in axis.get_lines() if line.get_color() == color]


def legend(figure):
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def test_bars_hold_every_candidate_and_the_thresholds_part_them():
    figure = of(candidates_figure)
    (axis,) = figure.axes
    counts = [sum(bar.get_height() for bar in bars) for bars in axis.containers]
    assert counts == [2, 1, 2]
    assert {line.get_xdata()[0] for line in axis.get_lines()} == {1.5, 3.5}
    assert legend(figure) == ["low set, 2", "neither", "high set, 2"]
    assert "6 texts that Some-Tutor-1B wrote, 3 for each of 2 articles of mini, n = 5" in figure.get_label()
    assert of(candidates_figure, standard(scores=[])) is None


def test_points_are_those_of_the_sets_and_the_crosses_their_means():
    figure = of(embeddings_figure)
    (axis,) = figure.axes
    drawn = [points.get_offsets().tolist() for points in axis.collections]
    assert drawn == [[[1, 0], [3, 2]], [[2, 1]], [[-1, 0], [-3, 2]], [[-2, 1]]]
    assert "50 % of the variance" in axis.get_xlabel()
    assert "25 %" in axis.get_ylabel()
    assert "hold 75 % of their variance" in figure.get_label()
    assert of(embeddings_figure, standard(low_points=[])) is None


def test_separability_stands_beside_chance_and_the_layer_is_marked():
    figure = of(separability_figure, standard(layer=3))
    (axis,) = figure.axes
    chance, found, marked = axis.get_lines()
    assert list(found.get_xdata()) == [1, 2, 3]
    assert list(found.get_ydata()) == [0.4, 0.9, 0.6]
    assert list(chance.get_ydata()) == [0.5, 0.6, 0.7]
    assert (list(marked.get_xdata()), list(marked.get_ydata())) == ([3], [0.6])
    assert "as 1 of 3 do here" in figure.get_label()
    assert "Layer 2 separates best; another was asked for" in figure.get_label()
    assert "asked for" not in of(separability_figure).get_label()


def test_strengths_have_means_bands_targets_and_the_nearest():
    figure = of(strengths_figure)
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
    assert of(strengths_figure, strengths=[strength("high", 0.0, 1.0) | {"mean": None}]) is None
    assert of(strengths_figure, strengths=[]) is None


def test_a_run_draws_them_under_names_that_its_folder_clears(run):
    kinds = ("candidates", "embeddings", "separability", "strengths")
    prepared = defense_records(detectors=[RECORD])
    names = ("standards", "strengths", "references", "detectors")
    parts = {name: getattr(prepared, name) for name in names}
    drawn = draw_all(results_of(run, readings=run.readings, **parts))
    assert {*(f"{kind}_joint" for kind in kinds), "detectors"} <= set(drawn)
    assert all(PLACES["figures"].fullmatch(f"{name}.png") for name in drawn)
    assert not any(defense_figures(results_of(run)).values())


def test_a_panel_a_detector_with_its_curve_its_choice_and_its_test():
    other = copy.deepcopy(RECORD)
    other["defense"] = "classifier"
    other["test"] |= dict.fromkeys(("precision", "recall", "f1"))
    figure = detector_figure(Results(detectors=[RECORD, other]))
    first, second = figure.axes
    assert [axis.get_title("left") for axis in figure.axes] == ["perplexity", "classifier"]
    # the curve ends where nothing is claimed
    np.testing.assert_allclose(first.lines[1].get_xydata(), [[1, 0.5], [0.9, 0.75], [0.2, 0.8], [0, 1]])
    np.testing.assert_allclose(first.lines[2].get_xydata(), [[0.9, 0.75]])
    np.testing.assert_allclose(first.lines[3].get_xydata(), [[0.7, 0.6]])
    assert len(second.lines) == 3  # no test texts were attacked
    (told,) = (text.get_text() for text in first.texts)
    assert told.splitlines() == [
        "best F1 0.818",
        "precision 0.750, recall 0.900",
        "test F1 0.646",
        "test, clean texts warned of: 47 %",
    ]
    assert "(dsi, bed)" in figure.get_label()


def test_titles_and_captions_stay_inside():
    long = "dimension " * 20
    about = standard(tutor="tutor-" * 30, judge="judge-" * 30, dimension=long)
    results = Results(standards=[about])
    for draw in (candidates_figure, embeddings_figure, separability_figure):
        figure = draw(results, about)
        figure.draw_without_rendering()
        width = figure.bbox.width
        assert all(text.get_window_extent().x1 <= width for text in figure.texts)
