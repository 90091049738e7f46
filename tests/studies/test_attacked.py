"""False passes of attacked texts: shares by loops, at each defense's own mark, and reasons where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judgebench.settings.costs import Asking, Costs
from judgebench.studies.attacked import NO_ANSWER, NO_MARK, attacked_records
from judgebench.studies.decisions import decision_records
from judgebench.studies.scores import Scores
from judgebench.types import Classes
from tests.stats.sides import attacked_table, sample_of, side

RATINGS = np.tile([5.0, 4.0, 2.0, 1.0], 8)
GROUPS = np.repeat([f"p{i}" for i in range(8)], 4)


def graded(scores=RATINGS, **more):
    """Eight questions of four answers, of which people pass two, and a judge that says what people say."""
    return sample_of(
        (np.asarray(scores) - 1) / 4,
        ratings=np.stack([RATINGS, RATINGS], axis=1),
        groups=GROUPS,
        classes=Classes(pass_from=3.0),
        names=[f"t{i:02d}" for i in range(32)],
        **more,
    )


def records(samples, scores, replacing=(), **costs):
    decisions = decision_records(samples, Costs(**costs), Asking())
    found = attacked_records(samples, Scores.of(attacked_table(samples[0], scores)), decisions, replacing)
    return {(row["attack"], row["defense"]): row for row in found}


def test_false_passes_are_of_the_texts_that_should_fail():
    fooled = RATINGS.copy()
    fooled[3::4] = 5.0  # the worst answer of each question passes
    fooled[0] = np.nan  # an answer that cannot be read passes nowhere
    rows = records([graded()], {("none", "none"): RATINGS, ("bed", "none"): fooled}, threshold=3.0)
    clean, bed = rows["none", "none"], rows["bed", "none"]
    assert list(rows) == [("none", "none"), ("bed", "none")]
    assert (clean["false_pass"], clean["mark"], clean["more"]) == (0.0, 3.0, None)
    assert bed["false_pass"] == pytest.approx(8 / 16)
    assert bed["false_pass_low"] < 0.5 < bed["false_pass_high"]
    # every question alike, so that no resample differs
    assert (bed["more"], bed["more_low"], bed["more_high"]) == (0.5, 0.5, 0.5)
    assert not bed["replaces"]


def test_an_answer_that_cannot_be_read_is_no_pass_and_none_at_all_no_share():
    refused = np.where(GROUPS < "p4", np.nan, RATINGS)
    scores = {("none", "none"): RATINGS, ("some", "none"): refused, ("all", "none"): RATINGS * np.nan}
    rows = records([graded()], scores, threshold=2.0)
    assert rows["none", "none"]["false_pass"] == 0.5
    assert (rows["some", "none"]["false_pass"], rows["some", "none"]["reason"]) == (0.25, None)
    none = rows["all", "none"]
    assert (none["false_pass"], none["more"], none["texts"], none["reason"]) == (None, None, 0, NO_ANSWER)


def test_what_an_attack_puts_in_the_place_of_a_text_should_never_pass():
    fooled = np.where(GROUPS < "p4", 5.0, 1.0)  # passes in half of the questions, also where the text was good
    scores = {("none", "none"): RATINGS, ("key", "none"): fooled}
    row = records([graded()], scores, ["key"], threshold=3.0)["key", "none"]
    assert row["replaces"]
    assert (row["false_pass"], row["texts"]) == (0.5, 32)
    assert row["more_low"] < row["more"] == 0.5 < row["more_high"]
    # as an attack that adds to texts, it would count half of them
    row = records([graded()], scores, threshold=3.0)["key", "none"]
    assert (row["false_pass"], row["texts"]) == (0.5, 32)


def test_each_defense_has_the_mark_of_its_own_clean_texts():
    strict = RATINGS / 4 + 0.75  # the same order, from 1 to 2
    samples = [graded(), replace(graded(strict), cell=graded().cell._replace(defense="commit"))]
    scores = {
        **{("none", "none"): RATINGS, ("bed", "none"): RATINGS},
        **{("none", "commit"): strict, ("bed", "commit"): np.minimum(strict + 1, 5)},
    }
    rows = records(samples, scores)
    assert rows["none", "commit"]["mark"] < rows["none", "none"]["mark"]
    assert rows["none", "commit"]["false_pass"] == 0.0
    assert rows["bed", "commit"]["false_pass"] > 0


def test_without_a_mark_there_is_a_reason_and_without_an_attack_nothing():
    plain = side()
    decisions = decision_records([plain], Costs(), Asking())
    scores = {("none", "none"): plain.scores, ("bed", "none"): plain.scores}
    found = attacked_records([plain], Scores.of(attacked_table(plain, scores)), decisions, ())
    assert [row["false_pass"] for row in found] == [None, None]
    assert {row["reason"] for row in found} == {NO_MARK}
    alone = Scores.of(attacked_table(plain, {("none", "none"): plain.scores}))
    assert attacked_records([plain], alone, decisions, ()) == []
