"""The humans beside the judges: rows, sentences, the figure, and the run folder that they come from."""

from __future__ import annotations

import json

import numpy as np
import pytest

from judgebench.report.figures.scores import correlation_figure
from judgebench.report.views.humans import ceilings
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results, ratings_frame
from judgebench.types import Example
from tests.report.test_correlations import of, record

CEILING = {
    **{"dataset": "d", "dimension": "coherence", "split": "test", "texts": 1440, "groups": 90, "raters": 4},
    **{"ratings_per_text": 2.5, "ceiling": 0.62, "ceiling_low": 0.57, "ceiling_high": 0.66, "raters_counted": 3},
    **{"alpha": 0.55, "reason": None},
}
BESIDE = {
    **{"spearman_others": 0.45, "spearman_others_low": 0.4, "spearman_others_high": 0.5},
    **{"humans_difference": -0.17, "humans_difference_low": -0.22, "humans_difference_high": -0.12},
    **{"modal_score": 3.0, "modal_share": 0.614},
}


def beside(*records, humans=(CEILING,)):
    return Results(metrics=of(*records).metrics, about=of().about, humans=humans)


def test_the_figure_has_a_dashed_line_and_its_band_where_the_humans_stand():
    results = beside(record(), record(low=0, high=4), record(dimension="fluency"))
    figure = correlation_figure(results.metrics, {}, ceilings(results))
    coherence, fluency = figure.axes
    (line,) = [line for line in coherence.lines if line.get_linestyle() == "--"]
    assert set(line.get_ydata()) == {0.62}
    (band,) = coherence.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((0.57, 0.66))
    assert not fluency.patches
    assert "one human rater with the mean of the others" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert "easier to agree with" in figure.get_label()
    kendall = correlation_figure(results.metrics, {}, ceilings(results), "kendall")
    assert "easier to agree with" not in kendall.get_label()


def test_ratings_of_a_run_are_read_back_as_they_were_written(tmp_path):
    texts = [Example(f"e{i}", f"g{i // 2}", "s", "source", "text", {"quality": 1.0}) for i in range(3)]
    given = np.array([[1.0, np.nan], [2.0, 4.5], [np.nan, 3.0]])
    split = {"g0": "test", "g1": "dev"}
    frame = ratings_frame(texts, {"quality": given}, ["ann", "bob"], split)
    assert frame[["example_id", "rater", "score", "split"]].to_numpy().tolist() == [
        ["e0", "ann", 1.0, "test"],
        ["e1", "ann", 2.0, "test"],
        ["e1", "bob", 4.5, "test"],
        ["e2", "bob", 3.0, "dev"],
    ]
    assert set(ratings_frame(texts, {"quality": given}, (), split)["rater"]) == {"1", "2"}
    folder = RunFolder(tmp_path)
    folder.write("ratings", frame)
    folder.write("humans", [CEILING])
    assert folder.read("ratings").equals(frame)
    assert json.loads((tmp_path / "humans.json").read_text("utf-8")) == [CEILING]
    assert len(ratings_frame(texts, {}, (), split)) == 0
