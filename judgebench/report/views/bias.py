"""Range bias: favorite scores, and the experts' scores on a judge's range; and range bias as
variance: the parts of a judge's scores that texts and ranges make, before and after each repair.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from judgebench.report.table import Col, View
from judgebench.results.results import (
    NO_DEFENSE,
    Results,
    SeriesIndex,
    condition_text,
    first_condition,
    range_of,
    ranges_of,
)
from judgebench.stats.maps import nearest_place, rescale
from judgebench.studies.evaluate import histogram
from judgebench.studies.scores import shown_split
from judgebench.studies.variance import RANGES
from judgebench.types import Row, Rows, Scale, ScoreRange
from judgebench.words.formats import is_known, percent, points, two

MAPPING_NOTE = (
    "Human scores are mapped linearly to the range and rounded to the nearest score, half up."
)
"""A reader needs this wherever mapped scores are shown."""


def spans(scale: Scale | None) -> bool:
    """True for a scale of some length. One taken from equal human scores has none, and nothing maps
    from it."""
    return scale is not None and scale[0] < scale[1]


def mapping_note(scale: Scale | None) -> str:
    """`MAPPING_NOTE`, or why there are no mapped scores to show."""
    if scale is None:
        return "Humans are left out: their preferences are no scores."
    return (
        MAPPING_NOTE
        if spans(scale)
        else "Humans are left out: their scores do not differ, and no scale is known."
    )


def to_range(human: ArrayLike, scale: Scale | None, score_range: ScoreRange) -> NDArray[np.float64]:
    """Human scores [n] on the data's own scale, mapped linearly to the range and rounded to its
    nearest score, half up; [0] where the scale has no length.

    Example:
        >>> to_range([1, 2.5, 5], (1, 5), ScoreRange(0, 4)).tolist()
        [0.0, 2.0, 4.0]
    """
    if scale is None or not spans(scale):
        return np.empty(0)
    exact = rescale(np.asarray(human), scale, score_range.ends)
    candidates = np.asarray(score_range.values)
    return candidates[nearest_place(exact, candidates)]


def human_scores(scores: pd.DataFrame) -> NDArray[np.float64]:
    """[examples] one human score per example, though each example has a row per judge and
    decoding."""
    return scores.drop_duplicates("example_id")["human"].dropna().to_numpy(dtype=np.float64)


def shares(values: ArrayLike, score_range: ScoreRange) -> NDArray[np.float64]:
    """[candidates] the share of the values [n] that lies nearest to each score of the range; zeros
    without values."""
    scores = np.asarray(values, dtype=np.float64)
    return histogram(scores, score_range) / max(1, len(scores))


def most_frequent(shares_of: ArrayLike) -> list[int]:
    """Positions of the largest of the shares [candidates]: several where they tie, none where all
    are 0."""
    values = np.asarray(shares_of, dtype=np.float64)
    top = values.max(initial=0.0)
    return np.flatnonzero(np.isclose(values, top, rtol=0, atol=1e-12)).tolist() if top > 0 else []


# --- favorite scores ----------------------------------------------------------------------------


def favorites(results: Results) -> Rows:
    """The score of each range that the humans, mapped to it, give most often: dimension, range,
    score (several where they tie) and the share of the texts that get it.

    They are of the figures' scores: test split, without attack and defense where there are such.
    Empty where texts are compared.
    """
    rows: Rows = []
    if results.compares:
        return rows
    for dimension, scores in results.scores.groupby("dimension", sort=False):
        split = shown_split(scores["split"].unique())
        shown, _ = first_condition(scores[scores["split"] == split])
        for score_range, part in ranges_of(shown):
            mapped = to_range(human_scores(part), results.scale[str(dimension)], score_range)
            if len(mapped):
                shares_of = shares(mapped, score_range)
                best = most_frequent(shares_of)
                row = {
                    "dimension": dimension,
                    "range": str(score_range),
                    "score": " or ".join(score_range.candidates[place] for place in best),
                    "share": float(shares_of[best[0]]),
                }
                rows.append(row)
    return rows


def favorite_text(row: Row) -> str | None:
    """The score that a judge gives most often and its share, such as "3 (61 %)", of a record of
    metrics.json."""
    score = row.get("modal_score")
    if score is None or not is_known(score):
        return None
    score_range = range_of(row)
    named = score_range.text(score) if score_range.labels else f"{score:g}"
    return f"{named} ({percent(row['modal_share'])})"


# --- range bias as variance ---------------------------------------------------------------------


def variance_frame(results: Results) -> pd.DataFrame:
    """The records of variance.json over ranges, a row each: by dimension and series, the calibrated
    below those as given.

    Added are `condition`; `series` with its setting where several are tried side by side, and
    `who`, the same with what was done to scores.
    """
    # Records of two decodings have no judge, and those over ranges no range: the rest tells series
    # apart.
    rows: Rows = [
        {**row, "judge": row["judge"] or ""} for row in results.variance if row["study"] == RANGES
    ]
    index = SeriesIndex(rows)
    conditions = list(dict.fromkeys(map(condition_text, rows)))
    for row in rows:
        series = index.of(row)
        condition = condition_text(row)
        name = str(series).removeprefix(", ")
        row |= {
            "condition": condition,
            "series": name,
            "judged": series.judge,
            "who": f"{name}, calibrated" if row["calibrated"] else name,
            "place": (conditions.index(condition), index.all.index(series), row["calibrated"]),
        }
    rows.sort(key=lambda row: row["place"])
    return pd.DataFrame(rows)


def reported_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `variance_frame` without assistants and without defense, where there are
    others."""
    for other in (
        (rows["defense"] == NO_DEFENSE, rows["judged"] != "assistant") if len(rows) else ()
    ):
        rows = rows[other[rows.index]] if other[rows.index].any() else rows
    return rows


RANGE_VARIANCE = View(
    "variance",
    "Range bias as variance",
    lambda results: reported_rows(variance_frame(results)),
    (
        Col("judge, decoding", "who", left=True),
        Col(
            "spread",
            form=two,
            says="standard deviation of a score, as part of its range (calibrated: of the humans' "
            "scale)",
        ),
        Col(
            "of texts",
            "texts_share",
            percent,
            points,
            says="the share of the variance that stays the same in every range",
        ),
        Col("of range", "range_own", percent, points, says="all texts are moved alike"),
        Col(
            "of range x text",
            "range_interactions",
            percent,
            points,
            says="their order changes (with the error of single scores, where answers are sampled)",
        ),
        Col("of both", "range_both", percent, points, says="score range bias in one number"),
    ),
    by=["condition"],
    title="{condition}, {ranges:.0f} ranges",
    size="{texts} {examples_word} of {groups} {groups_word}",
    below="reason",
    note="variance_note.txt",
    brackets="{groups} resampled, for these very ranges",
)
