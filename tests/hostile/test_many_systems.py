"""As many systems as texts: what would grow with their square is left out, and that is said."""

import numpy as np
import pytest

from judgebench.report.views.correlations import LEVELS
from judgebench.report.views.pairwise import ranking_records, ranking_sentences
from judgebench.results.results import Results
from judgebench.stats.clusters import Clusters
from judgebench.stats.correlation import MOST_SYSTEMS
from judgebench.studies.evaluate import evaluate, robustness
from judgebench.studies.paired import compare
from judgebench.studies.rankings import MOST_RANKED, pairwise_records
from judgebench.types import ScoreRange

TEXTS = 20_000
CELL = {
    "split": "test", "dimension": "coherence", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "attack": "none",
    "defense": "none", "lambda": np.nan, "temperature": np.nan, "status": "parsed",
}  # fmt: skip


def columns(decoding: str = "greedy", **more: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(decoding))
    names = np.array([f"text-{i}" for i in range(TEXTS)])
    table = {name: np.full(TEXTS, value) for name, value in (CELL | {"judge": "main", "decoding": decoding}).items()}
    table |= {"example_id": names, "system_id": names, "group_id": np.array([f"g{i // 16}" for i in range(TEXTS)])}
    table |= {"human": rng.integers(1, 6, TEXTS).astype(float), "score": rng.integers(1, 6, TEXTS).astype(float)}
    return table | more


def test_correlations_over_systems_are_there_and_their_intervals_are_said_to_be_missing() -> None:
    parts = [columns(), columns("expectation")]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    records = evaluate(table, "many", ["system"], resamples=200)
    assert [record["n"] for record in records] == [TEXTS] * 2
    said = "No intervals over systems: 20,000 are more than the 1,000 that are resampled."
    assert {record["missing"] for record in records} == {said}
    assert {record["spearman_low"] for record in records} == {None}
    assert all(abs(record["kendall"]) < 0.05 for record in records)
    (shown,) = LEVELS.tables(Results(metrics=records))
    assert shown.note.endswith(said)
    pairs = [(("main", "expectation"), ("main", "greedy"))]
    assert {one["p"] for one in compare(table, pairs, "many", ["system"], resamples=200)} == {None}
    assert MOST_SYSTEMS == 1000


def test_so_many_systems_are_not_ranked_and_that_is_said() -> None:
    rng = np.random.default_rng(0)
    names = columns()["example_id"]
    rival = np.roll(names.reshape(-1, 16), 1, axis=1).ravel()
    won = rng.random(TEXTS)
    met = {"text_id": names, "rival_id": rival, "rival_system_id": rival, "score_first": won, "score_second": won}
    met |= {"tie_first": np.zeros(TEXTS), "tie_second": np.zeros(TEXTS), "human": rng.normal(size=TEXTS)}
    (record,) = pairwise_records(columns(**met), "many", resamples=20)
    assert record["unranked"] == f"20,000 systems are more than the {MOST_RANKED} that are ranked"
    assert record["ranking"] == record["system_pairs"] == []
    assert record["pairs"] == TEXTS
    assert record["auc"] == pytest.approx(0.5, abs=0.02)
    results = Results(pairwise=[record])
    assert "20,000 systems are more than" in ranking_records(results)[0]["notes"][0]
    assert ranking_sentences(results) == []


def test_standings_in_one_large_group_take_no_square_of_it() -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(1, 6, TEXTS).astype(float)
    group = np.full(TEXTS, "g")
    found = robustness(clean, clean, ScoreRange(1, 5), Clusters.of(group, 0))
    assert found["places_gained"] == 0
