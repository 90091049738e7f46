"""Slices of errors: the sandwich written out, known causes, and slices left out with their reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from judgebench.studies.errors import clustered_regression, error_records
from judgebench.studies.paired import holm
from tests.stats.recorded import DIMENSIONS, needs_recorded, recorded
from tests.stats.sides import cell, sample_of, side


def sandwich(design, outcome, groups):
    """Coefficients, clustered errors (CR1) and p by their definitions, group by group."""
    n, k = design.shape
    bread = np.linalg.inv(design.T @ design)
    estimates = bread @ design.T @ outcome
    labels = np.unique(groups)
    shares = [design[groups == label].T @ (outcome - design @ estimates)[groups == label] for label in labels]
    meat = sum(np.outer(share, share) for share in shares)
    count = len(labels)
    errors = np.sqrt(np.diag(bread @ meat @ bread) * count / (count - 1) * (n - 1) / (n - k))
    return estimates, errors, 2 * stats.t.sf(np.abs(estimates / errors), count - 1)


@pytest.mark.parametrize("groups", [3, 40])
def test_regression_is_the_sandwich(groups):
    rng = np.random.default_rng(groups)
    of = rng.integers(0, groups, 200)
    design = np.column_stack([np.ones(200), rng.normal(size=(200, 2)) + of[:, None] / 10])
    outcome, labels = rng.normal(size=200) + of, np.array([f"g{group}" for group in of])
    rows = zip(clustered_regression(design, outcome, labels), *sandwich(design, outcome, labels), strict=True)
    for (found, found_p), estimate, error, p in rows:
        far = stats.t.ppf(0.975, len(np.unique(of)) - 1) * error
        assert found == pytest.approx((estimate, estimate - far, estimate + far), abs=1e-10)
        assert found_p == pytest.approx(p, rel=1e-6, abs=1e-14)


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_slices_of_recorded_judges_are_the_sandwichs(dimension):
    data = recorded(dimension, "gpt-4o")
    errors, inside = data.judge - data.human, data.systems == "M22"
    texts = {"groups": 12, "names": np.arange(960), "texts": ()}
    sample = side({}, data.judge, ratings=data.raters, cell=cell("main", "greedy"), **texts)
    (record,) = error_records([replace(sample, groups=data.groups, systems=data.systems)])
    (row,) = [row for row in record["slices"] if row["slice"] == "M22"]
    estimates, _, p = sandwich(np.column_stack([np.ones(960), inside]), errors, data.groups)
    assert (row["apart"], row["p"]) == pytest.approx((estimates[1], p[1]), rel=1e-6)
    assert (row["error"], row["human"]) == pytest.approx((errors[inside].mean(), data.human[inside].mean()))
    corrected = holm(np.array([row["p"] for row in record["slices"]]))
    assert [row["p_holm"] for row in record["slices"]] == pytest.approx(corrected.tolist())
    assert record["bias"] == pytest.approx(errors.mean())


def test_known_causes_are_seen():
    """A judge that gives half a point per doubling, and a whole one to M4."""
    rng, base = np.random.default_rng(1), side()
    sizes = rng.choice([10, 20, 40, 80], 60)
    scores = base.human + 0.5 * np.log2(sizes) + (base.systems == "M4") + rng.normal(0, 0.05, 60)
    (record,) = error_records([replace(base, scores=scores, texts=["x" * size for size in sizes])])
    slices = {kind: [row for row in record["slices"] if row["kind"] == kind] for kind in ("system", "length")}
    assert max(slices["system"], key=lambda row: row["apart"])["slice"] == "M4"
    thirds = [row["error"] for row in slices["length"]]
    assert thirds == sorted(thirds)
    assert sum(row["texts"] for row in slices["length"]) == 60


@pytest.mark.parametrize(
    ("sample", "left_out"),
    [
        (side(texts=["same"] * 60), {"slices by length": "texts differ little in length"}),
        (side(texts=()), {"slices by length": "the texts are not known"}),
        (side(systems=np.array([""] * 60)), {"slices by system": "there is one system"}),
        (
            sample_of(np.zeros(202), ratings=np.ones((202, 1)), systems=np.arange(202) // 2),
            {"slices by system": "there are more than 100 systems", "slices by length": "the texts are not known"},
        ),
    ],
)
def test_slices_that_tell_nothing_are_left_out_with_their_reason(sample, left_out):
    (record,) = error_records([sample])
    assert record["left_out"] == left_out
    assert len({row["kind"] for row in record["slices"]}) == 2 - len(left_out)
