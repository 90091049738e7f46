"""Agreement with the humans: what is marked as the best, humans and tasks as rows, human scores on a judge's range."""

import json

import numpy as np
import pytest

from judgebench.report.views.bias import MAPPING_NOTE, mapping_note, most_frequent, shares, to_range
from judgebench.report.views.correlations import CORRELATION
from judgebench.report.views.tuning import TASKS_TABLE
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results, ratings_frame
from judgebench.types import Example, ScoreRange

CEILING = {
    **{"dataset": "d", "dimension": "coherence", "split": "test", "texts": 1440, "groups": 90, "raters": 4},
    **{"ratings_per_text": 2.5, "ceiling": 0.62, "ceiling_low": 0.57, "ceiling_high": 0.66, "raters_counted": 3},
    **{"alpha": 0.55, "reason": None},
}
BESIDE = {
    **{"spearman_others": 0.45, "spearman_others_low": 0.4, "spearman_others_high": 0.5},
    **{"humans_difference": -0.17, "humans_difference_low": -0.22, "humans_difference_high": -0.12},
    **{"modal_score": 3.0, "modal_share": 0.614},
}


def record(judge="main", low=1, high=5, spearman=0.5, **more):
    values = {}
    for name in ("pearson", "spearman", "kendall"):
        values |= {name: spearman, f"{name}_low": spearman - 0.1, f"{name}_high": spearman + 0.1}
    base = {"dataset": "d", "split": "test", "level": "dataset", "dimension": "coherence", "attack": "none"}
    base |= {"defense": "none", "range_min": low, "range_max": high, "range_step": 1, "judge": judge}
    base |= {"decoding": "greedy", "lambda": None, "temperature": None, "n": 1440, "groups": 90, "failed_share": 0.0}
    return base | values | {"clamped_share": 0.0, "flags": []} | more


def run_of(*records, dataset="d", humans=()):
    titles = {"main": "SmolLM2", "assistant": "early exit"}
    return Results(metrics=[one | {"dataset": dataset} for one in records], about={"titles": titles}, humans=humans)


@pytest.mark.parametrize(
    ("records", "best"),
    [
        ([record("main"), record("assistant")], [[True, True]]),
        ([record("main")], [[False]]),
        ([record("main", spearman=-0.1), record("assistant", spearman=0.0)], [[False, False]]),
    ],
    ids=["ties are all best", "a lone row is not", "nothing wins against inverted judges"],
)
def test_what_is_called_the_best(records, best):
    (table,) = CORRELATION.tables(run_of(*records))
    assert [[row[2].marked for row in section.rows] for section in table.sections] == best


# --- humans -----------------------------------------------------------------------------------------------------------


def test_ratings_of_a_run_are_read_back_as_they_were_written(tmp_path):
    texts = [Example(f"e{i}", f"g{i // 2}", "s", "source", "text", {"quality": 1.0}) for i in range(3)]
    ratings = np.array([[1.0, np.nan], [2.0, 4.5], [np.nan, 3.0]])
    split = {"g0": "test", "g1": "dev"}
    frame = ratings_frame(texts, {"quality": ratings}, ["ann", "bob"], split)
    assert frame[["example_id", "rater", "score", "split"]].to_numpy().tolist() == [
        ["e0", "ann", 1.0, "test"],
        ["e1", "ann", 2.0, "test"],
        ["e1", "bob", 4.5, "test"],
        ["e2", "bob", 3.0, "dev"],
    ]
    assert set(ratings_frame(texts, {"quality": ratings}, (), split)["rater"]) == {"1", "2"}
    folder = RunFolder(tmp_path)
    folder.write("ratings", frame)
    folder.write("humans", [CEILING])
    assert folder.read("ratings").equals(frame)
    assert json.loads((tmp_path / "humans.json").read_text("utf-8")) == [CEILING]
    assert len(ratings_frame(texts, {}, (), split)) == 0


# --- tasks ------------------------------------------------------------------------------------------------------------


def cells(runs):
    (table,) = TASKS_TABLE.tables(runs)
    return table, {section.title: [[cell.text for cell in row] for row in section.rows] for section in table.sections}


def test_each_task_ends_with_its_humans():
    missing = CEILING | {"ceiling": None, "reason": "No human ceiling: no text has the ratings of two people."}
    code = run_of(record(**BESIDE), record("assistant"), dataset="conala", humans=[CEILING])
    answers = run_of(record(spearman=0.3, n=20, groups=5), dataset="mohler", humans=[missing])
    table, rows = cells({"A": code, "B": answers})
    assert table.heads == ["range", "judge, decoding", "Spearman", "beside humans", "favorite", "texts"]
    assert rows == {
        "conala, coherence": [
            ["1-5", "main, greedy", "0.500", "0.450", "3 (61 %)", "1440"],
            ["humans", "one of 4, with the others", "0.620", "0.620", "", "1440"],
        ],
        "mohler, coherence": [
            ["1-5", "main, greedy", "0.300", "-", "", "20"],
            ["humans", "no ceiling", "-", "-", "", "20"],
        ],
    }
    assert table.sections[-1].rows[-1][1].detail == "no text has the ratings of two people."
    assert "no difference between tasks is tested" in table.note
    assert "intervals are too narrow" in table.note
    same, rows = cells({"A": run_of(record()), "B": run_of(record())})
    assert "difference between tasks" not in same.note
    assert "intervals are too narrow" not in same.note
    assert [row[1] for part in rows.values() for row in part if row[0] == "1-5"][-1] == "B: main, greedy"


# --- human scores on a judge's range ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("human", "scale", "score_range", "expected"),
    [
        (1, (1, 5), ScoreRange(0, 4), 0),
        (5, (1, 5), ScoreRange(3, 7), 7),
        (3.5, (1, 5), ScoreRange(1, 5), 4),  # half up
        (2.5, (1, 5), ScoreRange(2, 6), 4),  # 3.5, half up
        (10 / 3, (1, 5), ScoreRange(1, 5), 3),
        (11 / 3, (1, 5), ScoreRange(1, 5), 4),
        (3, (1, 5), ScoreRange(1, 10), 6),  # 1 + 2/4 * 9 = 5.5, half up
        (1.5, (1, 5), ScoreRange(0, 10), 1),  # 1.25
        (2, (1, 3), ScoreRange(1, 5), 3),  # another scale
        (1, (0, 1), ScoreRange(1, 5), 5),
        (3.25, (1, 5), ScoreRange(1, 5, 0.1), 3.3),  # half up, though 3.25 / 0.1 is not exact
        (10 / 3, (1, 5), ScoreRange(1, 5, 0.5), 3.5),
        (0.5, (1, 5), ScoreRange(1, 5), 1),  # below its own scale: never outside the range
        (9, (1, 5), ScoreRange(1, 5), 5),
    ],
)
def test_by_hand(human, scale, score_range, expected):
    assert to_range([human], scale, score_range).tolist() == [expected]


def test_shares_are_of_the_nearest_scores_and_ties_are_named():
    assert shares([1, 1, 4, 5], ScoreRange(1, 5)).tolist() == [0.5, 0, 0, 0.25, 0.25]
    assert shares([], ScoreRange(1, 5)).tolist() == [0] * 5
    assert (most_frequent([0.1, 0.45, 0.45]), most_frequent([0, 0])) == ([1, 2], [])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_scale_without_length_maps_nothing():
    assert to_range([3, 3, 3], (3, 3), ScoreRange(1, 5)).tolist() == []
    assert shares(to_range([3], (3, 3), ScoreRange(1, 5)), ScoreRange(1, 5)).tolist() == [0] * 5
    assert mapping_note((1, 5)) == MAPPING_NOTE
    assert "left out" in mapping_note((3, 3))
