"""Sample: each judge, decoding and range meets the ratings and log-probabilities of its own texts, by name."""

import numpy as np
import pandas as pd
import pytest

from judgebench.pipeline import STUDIES
from judgebench.stats.scores import Scores, samples_of
from judgebench.types import RANGE
from tests.stats.test_evaluate import joined, scores, table

NAMES = table(scores, scores)["example_id"]


def ratings_of(rows, dimension="coherence"):
    return pd.DataFrame(
        [{"example_id": name, "dimension": dimension, "rater": who, "score": score} for name, who, score in rows],
        columns=["example_id", "dimension", "rater", "score"],
    )


def readings_of(names, range_columns=(1.0, 5.0, 1.0), **more):
    rows = [
        {"example_id": name, "dimension": "coherence", "attack": "none", "defense": "none"}
        | dict(zip(RANGE, range_columns, strict=True))
        | {"main_logprobs": np.full(5, -float(place)), "assistant_logprobs": None}
        | more
        for place, name in enumerate(names, start=1)
    ]
    return pd.DataFrame(rows)


def sides(columns, ratings=None, readings=None, scale=(1.0, 5.0), **more):
    held = readings_of(NAMES[:0]).reindex(columns=readings_of(NAMES).columns) if readings is None else readings
    ratings = ratings_of([]) if ratings is None else ratings
    ends, models, run = {"coherence": scale}, {"main": "Qwen"}, {"dataset": "mini", "resamples": 20}
    return samples_of(Scores.of(columns), held, ratings, ends, models, **run, **more)


def test_ragged_ratings_are_found_by_the_name_of_the_text():
    first, last = NAMES[0], NAMES[-1]
    rows = [(last, "ann", 5.0), (first, "bob", 2.0), (last, "bob", 3.0)]
    (one,) = sides(table(scores, scores), ratings_of(rows))
    assert list(one.raters) == ["ann", "bob"]
    assert one.ratings.shape == (len(NAMES), 2)
    np.testing.assert_array_equal(one.ratings[0], [np.nan, 2.0])
    np.testing.assert_array_equal(one.ratings[-1], [5.0, 3.0])
    assert np.isnan(one.ratings[1:-1]).all()
    assert (one.human[0], one.human[-1]) == (2.0, 4.0)
    assert np.isnan(one.human[1:-1]).all()


def test_means_stand_in_where_single_ratings_are_not_known():
    columns = table(scores, scores)
    (one,) = sides(columns)
    assert one.ratings.shape == (len(NAMES), 1)
    assert list(one.raters) == []
    np.testing.assert_array_equal(one.human, columns["human"])


def test_attacked_texts_are_left_out_and_every_other_cell_keeps_its_place():
    columns = joined(
        table(scores, scores),
        table(scores, scores, attack="dsi"),
        table(scores, scores, judge="assistant"),
        table(scores, scores, decoding="expectation"),
    )
    found = sides(columns)
    assert [(one.cell.judge, one.cell.decoding) for one in found] == [
        ("main", "greedy"),
        ("assistant", "greedy"),
        ("main", "expectation"),
    ]
    assert [one.model for one in found] == ["Qwen", None, "Qwen"]
    assert found[0].head["dataset"] == "mini"


def test_log_probabilities_are_those_of_the_range_and_in_the_order_of_the_texts():
    columns = joined(table(scores, scores), table(scores, scores, range_min=0, range_max=4))
    one, other = sides(columns, readings=readings_of(NAMES[::-1]))
    assert other.logprobs == {}
    assert list(one.logprobs) == ["main"]
    np.testing.assert_array_equal(one.logprobs["main"][:, 0], -np.arange(len(NAMES), 0, -1.0))


def test_scores_are_mapped_to_the_humans_scale_and_its_whole_numbers_listed():
    columns = table(lambda rng, n: np.full(n, 3.0), scores, range_min=0, range_max=4)
    (one,) = sides(columns)
    np.testing.assert_array_equal(one.on_scale, 4.0)
    assert one.categories.tolist() == [1, 2, 3, 4, 5]
    (unknown,) = sides(columns, scale=None)
    np.testing.assert_array_equal(unknown.on_scale, 3.0)
    assert unknown.categories is None


def leaves(value):
    """The numbers and words of records, in order."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value


def test_studies_tell_the_same_in_any_order_of_the_texts():
    columns = table(scores, scores)
    order = np.random.default_rng(1).permutation(len(NAMES))
    shuffled = {name: column[order] for name, column in columns.items()}
    ours, theirs = (list(leaves([study(sides(given)) for study in STUDIES.values()])) for given in (columns, shuffled))
    assert [one if isinstance(one, float) else repr(one) for one in ours] == pytest.approx(
        [one if isinstance(one, float) else repr(one) for one in theirs], abs=1e-12
    )
