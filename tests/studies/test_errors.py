"""Slices of errors: the sandwich written out, known causes, and slices left out with their reason."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.permutation import holm
from judgebench.studies.errors import error_records
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


@pytest.mark.parametrize("groups", [3, 12])
def test_slices_are_the_sandwichs(groups):
    sample = side(groups=groups)
    errors, ones = sample.on_scale - sample.human, np.ones(60)
    (record,) = error_records([sample])
    assert {row["kind"] for row in record["slices"]} == {"system", "length"}
    freedom = stats.t.ppf(0.975, groups - 1)
    for row in (row for row in record["slices"] if row["kind"] == "system"):
        inside = sample.systems == row["slice"]
        own = sandwich(ones[inside, None], errors[inside], sample.groups[inside])
        (_, apart), (_, error), (_, p) = sandwich(np.column_stack([ones, inside]), errors, sample.groups)
        assert (row["apart"], row["apart_high"], row["p"]) == pytest.approx((apart, apart + freedom * error, p))
        assert (row["error"], row["error_high"]) == pytest.approx((own[0][0], own[0][0] + freedom * own[1][0]))


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
