"""Few human ratings of many texts, and a judge's scores of all: records of the systems' means, by
prediction-powered inference (`judgebench.stats.prediction_powered`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from judgebench.stats.clusters import safe_divide
from judgebench.stats.prediction_powered import (
    FEWEST_LABELLED,
    FewLabels,
    from_labels,
    student,
    with_judge,
)
from judgebench.studies.scores import JudgeScores
from judgebench.types import Record, Row, Rows

TARGETS = {"": False, "_these": True}
"""End of a key -> True where it speaks of these very articles."""


def few_labels_of(sample: JudgeScores) -> FewLabels:
    """A judge's scores on the humans' scale, with the ratings."""
    human = sample.human if sample.scale is None else np.clip(sample.human, *sample.scale)
    return FewLabels(human, sample.on_scale, sample.groups, sample.systems, sample.scale)


def predicted_means(data: FewLabels) -> Rows:
    """A record a system, by name: its mean on the humans' scale by labels alone, by the judge's own
    scores (on the judge's scale and with its bias: no estimate of what humans say) and by both
    (predicted), with 95 % intervals over articles like these; lambda: the weight of the judge in
    predicted, as PPI++ counts it; narrower: the share of the labels' interval that the judge saves.
    Keys in `_these` are of these very articles."""
    human = data.ratings
    every = data.every
    labelled_texts, texts = (sizes.sum(axis=1).astype(int) for sizes in data.sizes)
    columns = {
        "system": data.names,
        "texts": texts,
        "articles": every.articles,
        "labelled_texts": labelled_texts,
        "labelled_articles": human.articles,
    }
    error = np.sqrt(every.variance / np.maximum(every.articles, 1))
    with np.errstate(invalid="ignore"):  # of one article
        half = student(every.articles - 1) * error
    columns |= _interval("judge", every.mean, every.mean - half, every.mean + half)
    # PPI++ takes the judge's mean over the other articles alone, ours over all: so the weights
    # differ
    unlabelled = 1 - human.articles / every.articles
    for end, these in TARGETS.items():
        alone = from_labels(data, these)
        both = with_judge(data, these)
        width = both.high - both.low
        columns |= {
            **_interval(f"labels{end}", *alone[:3]),
            **_interval(f"predicted{end}", *both[:3]),
            f"lambda{end}": both.beta * unlabelled,
            f"narrower{end}": 1 - safe_divide(width, alone.high - alone.low),
        }
    columns["reason"] = [_too_few(count) for count in human.articles.tolist()]
    return _records(columns)


def _interval(name: str, value: Any, low: Any, high: Any) -> Record:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _records(columns: Row) -> Rows:
    """A record a row of columns; numbers that are not finite are None."""
    records = []
    for row in zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True):
        record = dict(zip(columns, row, strict=True))
        for name, value in record.items():
            if isinstance(value, float) and not math.isfinite(value):
                record[name] = None
        records.append(record)
    return records


def _too_few(articles: int) -> str | None:
    if articles >= FEWEST_LABELLED:
        return None
    counted = "1 group has" if articles == 1 else f"{articles} groups have"
    return f"No interval: {counted} ratings, and it takes {FEWEST_LABELLED}."


# --- the study ----------------------------------------------------------------------------------


def prediction_powered_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/few_labels.json, of texts of which humans rated a part: one a judge,
    decoding and range.

    `labels_within` and `predicted_within` are half of the mean width over systems; `judge_misses`:
    True where the judge's own interval leaves out `predicted`, `misses` of `counted` systems.
    """
    records = []
    for sample in samples:
        rated = ~np.isnan(sample.human)
        # where all texts are rated nothing is to be predicted
        if not 0 < rated.sum() < len(rated):
            continue
        record = sample.head | {
            "texts": len(rated),
            "articles": sample.clusters.count,
            "labelled_texts": int(rated.sum()),
            "labelled_articles": sample.clusters.at(rated).count,
        }
        # 1. each system, and the mean over those that are measured
        systems = predicted_means(few_labels_of(sample))
        for row in systems:
            mean = row["predicted"]
            low = row["judge_low"]
            high = row["judge_high"]
            unknown = None in (mean, low, high)
            row["judge_misses"] = None if unknown else not low <= mean <= high
        measured = [row for row in systems if row["narrower"] is not None]
        for end in TARGETS:
            record[f"narrower{end}"] = _mean(row[f"narrower{end}"] for row in measured)
            for name in (f"labels{end}", f"predicted{end}"):
                widths = [row[f"{name}_high"] - row[f"{name}_low"] for row in measured]
                record[f"{name}_within"] = _mean(width / 2 for width in widths)
        missed = [row["judge_misses"] for row in systems if row["judge_misses"] is not None]
        record |= {
            "misses": sum(missed) if missed else None,
            "counted": len(missed),
            "systems": systems,
        }
        reasons = [row["reason"] for row in systems if row["reason"]]
        record["reason"] = None if measured or not reasons else reasons[0]
        records.append(record)
    return records


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None
