"""The step functions behind a tuning: Spearman on each split as kappa runs over [0, inf), for figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from judgebench.decoding.path import kappa_path
from judgebench.tuning.along import spearman_along
from judgebench.tuning.record import Record
from judgebench.types import ScoreRange


@dataclass(frozen=True)
class Curve:
    """A step function of kappa on [0, inf).

    Attributes:
        start: [P] ascending from 0, where each step begins; the last never ends.
        value: [P] the value on each.
    """

    start: np.ndarray
    value: np.ndarray


def curves(readings: pd.DataFrame, scores: pd.DataFrame, record: Record) -> dict[str, Curve]:
    """Split -> Spearman's rho of the greedy contrastive scores with the humans, exactly, as a function of kappa.

    Args:
        readings, scores: of the run folder (scores know the human of each example).
        record: of tuning.json; its dimension, range and alpha say what is looked at.

    Returns:
        A curve for each split that has examples; none where the record's rule is expectation: such scores have no path.
    """
    if record["rule"] != "argmax":
        return {}
    of_cell, of_scores = (_cell(frame, record) for frame in (readings, scores))
    human = dict(zip(of_scores["example_id"], of_scores["human"], strict=True))
    ends = (float(record[name]) for name in ("range_min", "range_max", "range_step"))
    values = np.array(ScoreRange(*ends).values)
    found = {}
    for split, rows in of_cell.groupby("split", sort=True):
        main, assistant = (
            np.array(rows[f"{who}_logprobs"].tolist(), dtype=np.float32) for who in ("main", "assistant")
        )
        path = kappa_path(main, assistant, values, float(record["alpha"]))
        rho = spearman_along(path, np.array([human[example] for example in rows["example_id"]], dtype=np.float64))
        steps = np.concatenate([[True], np.diff(rho) != 0])
        found[str(split)] = Curve(path.low[steps], rho[steps])
    return found


def _cell(frame: pd.DataFrame, record: Record) -> pd.DataFrame:
    held = (frame["attack"] == "none") & (frame["defense"] == "none")
    for name in ("dimension", "range_min", "range_max", "range_step"):
        held &= frame[name] == record[name]
    return frame[held]
