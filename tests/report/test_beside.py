"""Judges beside humans on the page: tables and sentences over records of real and of little data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from judgebench.report.views.beside import (
    beside_runs,
)
from judgebench.report.views.humans import RATERS
from judgebench.results.results import Results
from judgebench.stats.humans import Panel, beside_humans_records, human_records
from tests.stats.panels import ragged
from tests.stats.sides import sample_of


def results_of(*sides, scale=(1.0, 5.0), **more):
    """Results of judges beside humans, and what these agree on."""
    first = sides[0]
    panels = {("coherence", "test"): Panel(first.ratings, first.clusters)} if first.raters else {}
    metrics = [
        one.head | {"level": "dataset", "n": 60, "groups": 12, "flags": []}
        | {f"{name}{end}": 0.5 for name in ("pearson", "spearman", "kendall") for end in ("", "_low", "_high")}
        for one in sides
    ]  # fmt: skip
    humans = human_records(panels, "mine", {"coherence": scale})
    about = {"scale": {"coherence": scale}, "titles": {"main": "gpt-4o"}}
    return Results(beside_humans=beside_humans_records(sides), humans=humans, metrics=metrics, about=about, **more)


def test_runs_whose_raters_differ_have_a_human_each():
    def run(ceiling):
        figures = {f"{name}{end}": ceiling for name in ("ceiling", "single_mae") for end in ("", "_low", "_high")}
        made = results_of(sample_of(np.arange(60) % 5 / 4, ratings=ragged(0)[0], dimension="coherence"))
        return replace(made, humans=[{"dimension": "coherence", "split": "test", "reason": None, **figures}])

    shown = {ends: beside_runs({"A": run(ends[0]), "B": run(ends[1])}) for ends in ((0.5, 0.5), (0.5, 0.6))}
    letters = {ends: [row["run"] for row in rows if row["range"] == RATERS] for ends, rows in shown.items()}
    assert letters == {(0.5, 0.5): [""], (0.5, 0.6): ["A", "B"]}
