"""The table of scores and its samples; what holds for all studies: of any data records of JSON, with reasons."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from judgebench.runs.measurement import STUDIES
from judgebench.studies.scores import Scores, common_rows, samples_of, scale_of
from judgebench.types import RANGE
from tests.stats.sides import cell, side
from tests.studies.test_evaluate import joined, scores, table

NAN = np.nan
NAMES = table(scores, scores)["example_id"]


def ratings_of(*rows):
    rows = [{"example_id": name, "dimension": "coherence", "rater": who, "score": score} for name, who, score in rows]
    return pd.DataFrame(rows, columns=["example_id", "dimension", "rater", "score"])


def readings_of(names):
    rows = [
        {"example_id": name, "dimension": "coherence", "attack": "none", "defense": "none"}
        | dict(zip(RANGE, (1.0, 5.0, 1.0), strict=True))
        | {"main_logprobs": np.full(5, -float(place)), "assistant_logprobs": None}
        for place, name in enumerate(names, start=1)
    ]
    return pd.DataFrame(
        rows,
        columns=[*("example_id", "dimension", "attack", "defense"), *RANGE, *("main_logprobs", "assistant_logprobs")],
    )


def samples(columns, *rows, readings=None, scale=(1.0, 5.0), **more):
    readings = readings_of(NAMES[:0]) if readings is None else readings
    ends, run = {"coherence": scale}, {"dataset": "mini", "resamples": 20}
    return samples_of(Scores.of(columns), readings, ratings_of(*rows), ends, **run, **more)


def test_ragged_ratings_meet_their_texts_by_name_and_means_stand_in():
    first, last = NAMES[0], NAMES[-1]
    (one,) = samples(table(scores, scores), (last, "ann", 5.0), (first, "bob", 2.0), (last, "bob", 3.0))
    assert list(one.raters) == ["ann", "bob"]
    np.testing.assert_array_equal(one.ratings[[0, -1]], [[NAN, 2.0], [5.0, 3.0]])
    assert np.isnan(one.ratings[1:-1]).all()
    np.testing.assert_array_equal(one.human[[0, 1, -1]], [2.0, NAN, 4.0])
    columns = table(scores, scores)
    (means,) = samples(columns, texts={name: f"text of {name}" for name in NAMES})
    assert (means.ratings.shape, list(means.raters), means.texts[3]) == ((32, 1), [], f"text of {NAMES[3]}")
    np.testing.assert_array_equal(means.human, columns["human"])


def test_judges_of_the_same_texts_share_what_people_say_and_others_do_not():
    columns = {name: np.concatenate([column, column]) for name, column in table(scores, scores).items()}
    count = len(NAMES)
    columns["judge"] = np.repeat(["main", "assistant"], count)
    columns["score"][count:] = columns["score"][:count][::-1]
    first, second = samples(columns)
    for name in ("clusters", "human", "panel", "constant", "constant_unseen"):
        assert getattr(first, name) is getattr(second, name)
    columns["status"] = np.where(np.arange(2 * count) == count + 1, "failed", "parsed")
    first, second = samples(columns)
    alone = replace(second)  # knows nothing of others
    for name in ("human", "constant", "constant_unseen"):
        assert len(getattr(second, name)) == count - 1
        np.testing.assert_array_equal(getattr(second, name), getattr(alone, name))
    assert second.panel is not first.panel
    assert second.panel.of_texts.number.tolist() == alone.clusters.number.tolist()


def test_failed_answers_are_no_part_of_a_sample_which_knows_all_texts_at_worst_and_at_best():
    columns = table(scores, scores)
    failed = np.arange(len(NAMES)) % 4 == 1
    columns["status"] = np.where(failed, "failed", "parsed")
    columns["score"][failed] = 1.0
    (sample,) = samples(columns, readings=readings_of(NAMES))
    assert sample.names.tolist() == np.array(NAMES)[~failed].tolist()
    assert len(sample.logprobs["main"]) == len(sample.ratings) == len(sample.clusters.number) == (~failed).sum()
    np.testing.assert_array_equal(sample.logprobs["main"][:, 0], -1.0 - np.flatnonzero(~failed))
    for bound in sample.bounds:
        assert bound.names.tolist() == list(NAMES)
        np.testing.assert_array_equal(bound.scores[~failed], columns["score"][~failed])
    apart = [np.abs(bound.on_scale - bound.human)[failed] for bound in sample.bounds]
    assert (apart[0] > apart[1]).all()
    (whole,) = samples(table(scores, scores))
    assert (whole.bounds, len(whole.names)) == ([], len(NAMES))


def test_a_sample_is_of_clean_texts_of_the_reported_split_and_takes_what_its_range_was_told():
    parts = ({}, {"attack": "dsi"}, {"judge": "assistant"}, {"split": "dev"}, {"range_min": 0, "range_max": 4})
    found = samples(joined(*(table(scores, scores, **part) for part in parts)), readings=readings_of(NAMES[::-1]))
    one, assistant, other = found
    assert [(each.cell.judge, each.cell.range_min) for each in found] == [("main", 1), ("assistant", 1), ("main", 0)]
    assert (list(one.logprobs), list(assistant.logprobs), other.logprobs) == (["main"], ["main"], {})
    np.testing.assert_array_equal(one.logprobs["main"][:, 0], -np.arange(len(NAMES), 0, -1.0))
    np.testing.assert_array_equal(other.on_scale, other.scores + 1)
    (unknown,) = samples(table(scores, scores), scale=None)
    np.testing.assert_array_equal(unknown.on_scale, unknown.scores)
    assert (one.categories.tolist(), unknown.categories) == ([1, 2, 3, 4, 5], None)


def test_the_scale_is_as_given_or_what_ratings_span():
    whole, nothing = table(scores, scores), ratings_of()
    human = whole["human"]
    assert scale_of(Scores.of(whole), nothing, {"fluency": (0, 9)}) == {
        "fluency": (0, 9),
        "coherence": (human.min(), human.max()),
    }
    assert scale_of(Scores.of(whole), ratings_of((NAMES[0], "ann", 2.0), (NAMES[1], "ann", 7.0)), {}) == {
        "coherence": (2.0, 7.0)
    }
    unrated = table(scores, lambda rng, n: np.full(n, NAN))
    assert scale_of(Scores.of(unrated), nothing, {}) == {"coherence": None}
    compared = whole | {"score_first": whole["score"], "score_second": whole["score"]}
    assert scale_of(Scores.of(compared), nothing, {"coherence": (1, 5)}) == {"coherence": None}


def test_what_parts_share_stands_in_one_order():
    part = Scores.of(table(scores, scores)).columns
    some, rest = ({name: column[rows] for name, column in part.items()} for rows in ([7, 3, 5], [5, 1, 7]))
    first, second = common_rows([some, rest])
    assert first["example_id"].tolist() == second["example_id"].tolist() == sorted(NAMES[[5, 7]])


# --- all studies ----------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(3)
WHOLE = side()
MAIN = np.log(RNG.dirichlet(np.ones(5), 60)) - 0.2
EACH = pytest.mark.parametrize("study", STUDIES)


def cut(count):
    """The first texts of `WHOLE`."""
    parts = {name: getattr(WHOLE, name)[:count] for name in ("names", "groups", "systems", "scores", "ratings")}
    return replace(WHOLE, **parts, logprobs={"main": MAIN[:count]}, texts=["a"] * count)


ODD = {
    "generated answers": {"logprobs": {}, "scores": np.full(60, 3.0)},
    "no assistant": {"logprobs": {"main": MAIN}, "cell": cell("pair", "contrastive", 0.5, 1.0)},
    "nobody rated": {"ratings": np.full((60, 1), NAN), "raters": ()},
    "raters without a rating": {"ratings": np.full((60, 3), NAN)},
    "one rated text": {"ratings": np.where(np.arange(60)[:, None] == 7, WHOLE.ratings, NAN)},
    "a part is rated": {"ratings": np.where(np.arange(60)[:, None] % 12 < 6, WHOLE.ratings, NAN)},
    "means alone": {"ratings": WHOLE.human[:, None], "raters": ()},
    "no scale": {"scale": None},
    "a scale of no length": {"scale": (3.0, 3.0), "ratings": np.full((60, 3), 3.0)},
    "one group": {"groups": 1},
    "one system": {"systems": np.full(60, "s")},
    "a system each": {"systems": np.arange(60).astype(str)},
    "a constant judge": {"logprobs": {"main": np.log(np.full((60, 5), 0.2))}, "scores": np.full(60, 3.0)},
    "constant humans": {"ratings": np.full((60, 3), 4.0)},
    "rows without an answer": {"logprobs": {"main": np.full((60, 5), -np.inf)}},
    "ragged": {"ratings": np.where(RNG.random((60, 3)) < 0.5, NAN, WHOLE.ratings)},
    "certain": {"logprobs": {"main": np.where(np.eye(5)[np.arange(60) % 5] > 0, 0.0, -np.inf)}},
    "no texts": {"texts": ()},
}
REASONS = {
    "beside_humans": {
        "mae": "points_reason",
        "winning_rate": "alternative_reason",
    },
    "variance": {"texts_share": "reason"},
    "systems": {"pairwise_accuracy": "reason", "pairwise_others": "pairwise_reason", "error": "error_reason"},
    "picks": {"chosen": "reason", "recovered": "reason", "rater": "rater_reason"},
    "forecasts": {"rps": "reason", "mass": "mass_reason", "coverage": "coverage_reason"},
    "errors": {"bias": "reason"},
    "few_labels": {"narrower": "reason"},
}
"""Figures of each study -> where the reason stands if one is None."""


@EACH
@pytest.mark.parametrize("odd", [*ODD, 0, 1, 2])
def test_odd_data_and_few_texts_have_reasons_and_no_nan(study, odd):
    given = [side(**ODD[odd])] if odd in ODD else [cut(odd)][:odd]
    records = STUDIES[study](given)
    json.dumps(records, allow_nan=False)
    assert given or records == []
    for record in records if odd in ODD else ():
        for figure, reason in REASONS[study].items():
            assert record.get(figure, 0) is not None or record[reason], figure


def leaves(value):
    """The numbers and words of records, in order."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value if isinstance(value, float) else repr(value)


@EACH
def test_studies_say_the_same_in_any_order_of_the_texts(study):
    columns, order = table(scores, scores), np.random.default_rng(1).permutation(len(NAMES))
    shuffled = {name: column[order] for name, column in columns.items()}
    ours, theirs = (list(leaves(STUDIES[study](samples(given)))) for given in (columns, shuffled))
    assert ours == pytest.approx(theirs, abs=1e-12)
