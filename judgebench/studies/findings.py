"""Findings of the studies on one judge, by which verdicts go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.studies.decisions import CHOSEN, decision_records
from judgebench.studies.humans import CALIBRATED, RAW, beside_humans_records, rater_points_record
from judgebench.studies.replaced import replaced_record
from judgebench.studies.scores import JudgeScores, cell_record, first_record
from judgebench.studies.systems import system_records
from judgebench.types import Row

_READ = ("dimension", "range_min", "range_max", "defense", "judge")  # of a forecast and its cells


Deciding = tuple[Costs, Asking]
"""By what a judge that says pass or fail is measured."""


class JudgeFindings:
    """Findings of the studies on one judge's scores.

    Attributes:
        groups: the articles that hold a rated text.
        metric: its record of metrics.json, over all pairs where there is one.
        raw, calibrated: of beside_humans.json.
        follows_one: True of two raters of whom the judge agrees with one alone; known once texts
            are looked at.
        system: of systems.json.
        human: of humans.json, of its dimension.
        audit: of audit.json; None where nobody asked for one.
        answers: False where a forecast found most of the probability not on scores.
    """

    def __init__(self, sample: JudgeScores, studies: Row, margins: Margins) -> None:
        cell = sample.cell
        compared = studies["beside_humans"]
        self.sample = sample
        self.margins = margins
        self.metrics = studies["metrics"]
        self.audit = studies.get("audit")
        # by all pairs where that level was asked for, else by whatever there is
        over_all_pairs = cell_record(self.metrics, cell, level="dataset")
        self.metric = over_all_pairs or cell_record(self.metrics, cell)
        self.flags = self.metric.get("flags") or ()
        self.raw = cell_record(compared, cell, scores=RAW)
        self.calibrated = cell_record(compared, cell, scores=CALIBRATED)
        self.system = cell_record(studies["systems"], cell)
        self.decision = cell_record(studies.get("decisions", ()), cell, mark=CHOSEN)
        self.human = first_record(studies["humans"], {"dimension": cell.dimension})
        # the forecast of its reading, which names the decodings that rest on it
        forecasts = [
            row for row in studies["forecasts"] if cell.decoding in (row.get("decodings") or ())
        ]
        reading = {name: cell.named[name] for name in _READ}
        self.answers = first_record(forecasts, reading).get("answers")
        rated = np.isfinite(sample.human)
        self.groups = len(np.unique(sample.groups[rated]))
        self.replaced = replaced_record(sample)
        self.follows_one = False

    def without(self, columns: Sequence[int], studies: Row, deciding: Deciding) -> JudgeFindings:
        """The same without some raters."""
        sample = self.sample.without(columns)
        points = rater_points_record(sample.ratings, sample.clusters, sample.categories)
        changed = {
            "beside_humans": beside_humans_records([sample]),
            "systems": system_records([sample]),
            "humans": [{"dimension": sample.cell.dimension, **points}],
        }
        if self.decision:
            changed["decisions"] = decision_records([sample], *deciding)
        return JudgeFindings(sample, {**studies, **changed}, self.margins)
