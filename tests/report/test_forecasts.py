"""Figures of forecasts: numbers of the records."""

from __future__ import annotations

import numpy as np
import pytest

from judgebench.report.figures.scores import forecast_figures
from judgebench.results.results import Results
from judgebench.results.schema import is_ours
from judgebench.stats.forecasts import forecast_records, with_silent
from tests.stats.sides import cell, side


def results(*sides, **more):
    """Results of some sides, each with its row of metrics."""
    metrics = [
        {**one.head, "level": "dataset", "spearman": 0.5 - place / 10, "flags": [], "groups": 12}
        | {f"spearman{end}": 0.1 for end in ("_low", "_high")}
        for place, one in enumerate(sides)
    ]
    found = forecast_records(sides)
    about = {"scale": {"coherence": (1.0, 5.0)}, "titles": {"main": "Small-1B"}}
    return Results(**({"forecasts": found, "metrics": with_silent(metrics, found), "about": about} | more))


def test_figures_are_drawn_and_named_as_the_run_folder_knows_them():
    made = results(side(), side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60)))
    found = forecast_figures(made)
    assert list(found) == ["reliability_coherence", "abstention_coherence"]
    assert all(is_ours("figures", f"{name}.svg") for name in found)
    reliability, abstention = found.values()
    assert [axis.get_title(loc="left") for axis in reliability.axes] == ["range 0-4", "range 1-5"]
    (record, _) = made.forecasts
    drawn = abstention.axes[1].lines[0].get_xydata()
    assert drawn[:, 1].tolist() == [one["risk"] for one in record["curve"]]
    points = reliability.axes[1].collections[-1].get_offsets()
    assert points[:, 1].tolist() == pytest.approx([one["observed"] for one in record["diagram"]])
