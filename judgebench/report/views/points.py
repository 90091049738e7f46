"""Agreement in points: how far the judge's scores lie from the humans', on the range that it was asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from judgebench.metrics.bias import candidate_index, mapped
from judgebench.report.formats import three, two
from judgebench.report.table import Col, View
from judgebench.results.results import Results
from judgebench.results.series import CELL, labelled, range_of

_SERIES = ("judge", "decoding", "lambda", "temperature")


def points_frame(results: Results) -> pd.DataFrame:
    """A row a range and series of clean texts of the reported split: `mae` and `kappa` over the `n` rated texts.

    `mae` is the mean absolute error in points of the range, the humans' scores mapped to it linearly. `kappa` is
    Cohen's with quadratic weights over the range's scores, both sides rounded to the nearest; None where both give one
    and the same score. Empty where the humans' scale is unknown, and where texts are compared.
    """
    scores = results.scores
    scores = scores[(scores["split"] == results.split) & (scores["attack"] == "none") & scores["human"].notna()]
    rows = []
    for _, part in [] if results.compares else scores.groupby([*CELL, *_SERIES], sort=False, dropna=False):
        head = {name: part[name].iloc[0] for name in (*CELL, *_SERIES)}
        score_range, scale = range_of(head), results.scale.get(str(head["dimension"]))
        target = None if scale is None else mapped(part["human"].to_numpy(dtype=np.float64), scale, score_range)
        if target is None:
            continue
        judged = part["score"].to_numpy(dtype=np.float64)
        sides = [candidate_index(side, score_range) for side in (judged, target)]
        same = len(np.unique(np.concatenate(sides))) == 1
        labels = list(range(len(score_range.values)))  # all of them: the weights are distances between positions
        kappa = None if same else float(cohen_kappa_score(*sides, labels=labels, weights="quadratic"))
        rows.append(head | {"n": len(part), "mae": float(np.abs(judged - target).mean()), "kappa": kappa})
    return labelled(rows)


POINTS = View(
    "points",
    "Agreement in points",
    points_frame,
    (
        Col("range", "range", left=True),
        Col("judge, decoding", "who", detail="setting", left=True, width=23),
        Col("mean absolute error", "mae", two),
        Col("weighted kappa", "kappa", three),
        Col("n", "n", str),
    ),
    by=["condition"],
    title="{condition}",
    sections=["range"],
    once=["range"],
    note="Mean absolute error: in points of the range, the humans' scores mapped to it linearly. Weighted kappa: "
    "Cohen's with quadratic weights, both sides rounded to the range's nearest score; 0 is chance. n: rated texts.",
)
"""Mean absolute error and quadratic weighted kappa of judge against humans."""
