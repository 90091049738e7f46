"""The best judge on the development split, and nothing of the test split in the choice."""

import pytest

from judgebench.cards.calibration import CalibrationSettings, best, candidates
from judgebench.runtime.errors import UserError


def record(decoding="greedy", split="dev", spearman=0.1, **changes):
    given = {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "defense": "none", "attack": "none"}
    given |= {"judge": "main", "decoding": decoding, "lambda": None, "temperature": None, "level": "dataset"}
    given |= {"dimension": "coherence", "split": split, "spearman": spearman, "constant": False}
    return {**given, **changes}


def test_the_best_on_dev_is_taken_whatever_the_test_split_says():
    records = [record("a", spearman=0.2), record("a", "test", 0.1), record("b", spearman=0.1), record("b", "test", 0.9)]
    chosen = best(candidates(records, "coherence"), "spearman", "coherence")
    assert chosen["decoding"] == "a"
    assert chosen["test"]["spearman"] == 0.1


def test_neither_assistants_nor_attacked_texts_nor_means_of_levels_are_candidates():
    records = [
        record("a"),
        record("a", judge="assistant", spearman=0.9),
        record("a", attack="dsi", spearman=0.9),
        record("a", level="document", spearman=0.9),
        record("a", dimension="fluency", spearman=0.9),
        record("a", split="test", spearman=0.3),
    ]
    (only,) = candidates(records, "coherence")
    assert (only["dev"]["spearman"], only["test"]["spearman"]) == (0.1, 0.3)


def test_constant_judges_are_never_chosen():
    records = [record("a", spearman=0.0, constant=True), record("b", spearman=-0.1)]
    assert best(candidates(records, "coherence"), "spearman", "coherence")["decoding"] == "b"
    with pytest.raises(UserError, match="one score"):
        best(candidates(records[:1], "coherence"), "spearman", "coherence")


def test_without_dev_nothing_is_chosen():
    with pytest.raises(UserError, match="dev_share"):
        best(candidates([record(split="test")], "coherence"), "spearman", "coherence")


def test_ties_go_to_the_first():
    records = [record("a"), record("b")]
    assert best(candidates(records, "coherence"), "spearman", "coherence")["decoding"] == "a"


def test_unknown_metrics_are_refused():
    assert CalibrationSettings("kendall").metric == "kendall"
    with pytest.raises(UserError, match=r"calibrate\.metric: 'accuracy' is not one of pearson, spearman, kendall"):
        CalibrationSettings("accuracy")
