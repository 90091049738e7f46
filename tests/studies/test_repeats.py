"""The same judge asked again: components by analysis of variance, pairs of answers by loops, a public set."""

from itertools import combinations

import numpy as np
import pytest

from judgebench.studies.repeats import repeat_records
from tests.studies.test_evaluate import CELL


def answers(values, groups=None, ends=((1.0, 5.0),)):
    """Columns of answers [texts, ranges, repeats] in points of each range."""
    texts, _, _ = values.shape
    groups = np.arange(texts) if groups is None else groups
    rows = [
        CELL
        | {"dimension": "quality", "range_min": low, "range_max": high}
        | {"example_id": f"t{text:03d}", "group_id": f"g{groups[text]}", "score": value, "repeat": repeat}
        for text, of_text in enumerate(values)
        for (low, high), of_range in zip(ends, of_text, strict=True)
        for repeat, value in enumerate(of_range)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def made(seed, texts=60, ranges=1, repeats=4):
    rng = np.random.default_rng(seed)
    value = rng.normal(3, 0.8, (texts, 1, 1)) + rng.normal(0, 0.3, (1, ranges, 1))
    value = value + rng.normal(0, 0.3, (texts, ranges, 1)) + rng.normal(0, 0.5, (texts, ranges, repeats))
    return np.round(value * 2) / 2


def one_way(values):
    """Variances of texts and of repeats of [texts, repeats], by mean squares."""
    repeats = values.shape[1]
    within = values.var(axis=1, ddof=1).mean()
    return values.mean(axis=1).var(ddof=1) - within / repeats, within


def test_shares_are_those_of_the_analysis_of_variance_and_pairs_those_of_loops():
    values = made(0)
    decisions = [CELL | {"dimension": "quality", "decoding": "expectation", "pass_mark": 3.25}]
    (record,) = repeat_records(answers(values), decisions, "made")
    of_text, within = one_way(values[:, 0] / 4)
    assert record["repeat_share"] == pytest.approx(within / (of_text + within))
    assert record["texts_share"] == pytest.approx(of_text / (of_text + within))
    assert record["spread"] == pytest.approx(np.sqrt(within))
    needed = {row["width"]: row["answers"] for row in record["needed"]}
    assert needed[0.1] == np.ceil((1.959964 * np.sqrt(within) / 0.1) ** 2)
    changed, flipped = [], []
    for row in values[:, 0]:
        pairs = list(combinations(row, 2))
        changed.append(np.mean([one != other for one, other in pairs]))
        flipped.append(np.mean([(one >= 3.25) != (other >= 3.25) for one, other in pairs]))
    assert (record["changed"], record["flipped"]) == pytest.approx((np.mean(changed), np.mean(flipped)))
    for name in ("repeat_share", "texts_share", "changed", "flipped"):
        assert record[f"{name}_low"] < record[name] < record[f"{name}_high"], name
    assert (record["texts"], record["groups"], record["repeats"], record["reason"]) == (60, 60, 4, None)


def test_over_ranges_the_range_has_its_share():
    values = made(1, ranges=3)
    ends = ((1.0, 5.0),) * 3
    ends = tuple((low, high + number) for number, (low, high) in enumerate(ends))
    *single, record = repeat_records(answers(values, ends=ends), [], "made")
    assert [each["range_max"] for each in single] == [5.0, 6.0, 7.0]
    assert record["range_min"] is None
    assert record["changed"] is None  # of one range alone
    # expected mean squares of a crossed design with repeats in its cells
    parts = (values - 1) / np.array([4.0, 5.0, 6.0])[:, None]
    texts, ranges, repeats = parts.shape
    within = parts.var(axis=2, ddof=1).mean()
    cells = parts.mean(axis=2)
    of_text, of_range = cells.mean(axis=1), cells.mean(axis=0)
    left = cells - of_text[:, None] - of_range + cells.mean()
    both = (left**2).sum() / ((texts - 1) * (ranges - 1)) - within / repeats
    text = of_text.var(ddof=1) - (both + within / repeats) / ranges
    range_ = of_range.var(ddof=1) - (both + within / repeats) / texts
    total = text + range_ + both + within
    assert record["repeat_share"] == pytest.approx(within / total)
    assert record["range_share"] == pytest.approx((range_ + both) / total)
    assert record["texts_share"] == pytest.approx(text / total)


def test_answers_that_could_not_be_read_are_left_out_and_counted():
    values = made(2, texts=30)
    values[:5, 0, 1:] = np.nan
    (record,) = repeat_records(answers(values), [], "made")
    changed = [np.mean([one != other for one, other in combinations(row, 2)]) for row in values[5:, 0]]
    assert record["changed"] == pytest.approx(np.mean(changed))
    assert record["failed_share"] == pytest.approx(15 / 120)


def test_a_judge_that_never_changes_and_one_that_is_chance():
    same = np.repeat(np.random.default_rng(0).integers(1, 6, (40, 1, 1)), 3, axis=2).astype(float)
    (record,) = repeat_records(answers(same), [], "made")
    assert (record["repeat_share"], record["changed"], record["spread"]) == (0.0, 0.0, 0.0)
    assert [row["answers"] for row in record["needed"]] == [1, 1, 1]
    (record,) = repeat_records(answers(np.full((10, 1, 3), 2.0)), [], "made")
    assert (record["repeat_share"], record["reason"]) == (None, "No shares: all answers are the same.")
    noise = np.random.default_rng(1).normal(3, 1, (300, 1, 3))
    (record,) = repeat_records(answers(noise), [], "made")
    assert record["repeat_share"] > 0.9
    assert repeat_records({}, [], "made") == []
