"""The figure of detectors shows what their records say."""

import copy

import numpy as np

from judgebench.report.detector_figure import detector_figure
from judgebench.report.style import house_style

RECORD = {
    "defense": "perplexity",
    "dataset": "mini",
    "helper": "tiny-main",
    "helper_sha256": "ab",
    "threshold": 3.5,
    "training": {
        "groups": ["a", "b"],
        "attacks": ["dsi", "bed"],
        "n_clean": 6,
        "n_attacked": 12,
        "precision": 0.75,
        "recall": 0.9,
        "f1": 0.818,
        "false_positive_rate": 0.3,
    },
    "curve": {"thresholds": [1.0, 3.5, 4.5], "precision": [0.5, 0.75, 0.8], "recall": [1.0, 0.9, 0.2]},
    "test": {
        "dataset": "mini",
        "n_clean": 6,
        "n_attacked": 12,
        "precision": 0.6,
        "recall": 0.7,
        "f1": 0.646,
        "false_positive_rate": 0.47,
    },
}


def test_a_panel_a_detector_with_its_curve_its_choice_and_its_test():
    other = copy.deepcopy(RECORD)
    other["defense"] = "classifier"
    other["test"] |= dict.fromkeys(("precision", "recall", "f1"))
    figure = detector_figure([RECORD, other])
    first, second = figure.axes
    assert [axis.get_title("left") for axis in figure.axes] == ["perplexity", "classifier"]
    # the curve ends where nothing is claimed
    np.testing.assert_allclose(first.lines[1].get_xydata(), [[1, 0.5], [0.9, 0.75], [0.2, 0.8], [0, 1]])
    np.testing.assert_allclose(first.lines[2].get_xydata(), [[0.9, 0.75]])
    np.testing.assert_allclose(first.lines[3].get_xydata(), [[0.7, 0.6]])
    assert len(second.lines) == 3  # no test texts were attacked
    (said,) = (text.get_text() for text in first.texts)
    assert said.splitlines() == [
        "best F1 0.818",
        "precision 0.750, recall 0.900",
        "test F1 0.646",
        "test, clean texts warned of: 47%",
    ]
    assert "(dsi, bed)" in figure.get_label()


def test_without_detectors_there_is_nothing_to_draw():
    assert detector_figure([]) is None


def test_it_can_be_saved(tmp_path):
    with house_style():
        detector_figure([RECORD]).savefig(tmp_path / "detectors.png")
    assert (tmp_path / "detectors.png").stat().st_size > 1000
