"""Causes of errors: the sandwich written out, known causes, and constant factors left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.permutation import holm
from judgebench.studies.errors import clustered_regression, error_records, family_of, marked_share
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


@pytest.mark.parametrize("groups", [3, 12, 40])
def test_regression_is_the_sandwich(groups):
    rng = np.random.default_rng(groups)
    of = rng.integers(0, groups, 200)
    design = np.column_stack([np.ones(200), rng.normal(size=(200, 2)) + of[:, None] / 10])
    outcome, labels = rng.normal(size=200) + of, np.array([f"g{group}" for group in of])
    rows = zip(clustered_regression(design, outcome, labels), *sandwich(design, outcome, labels), strict=True)
    for (found, found_p), estimate, error, p in rows:
        far = stats.t.ppf(0.975, len(np.unique(of)) - 1) * error
        assert found.value == pytest.approx(estimate, abs=1e-10)
        assert (found.low, found.high) == pytest.approx((estimate - far, estimate + far))
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
    (length,) = record["factors"]
    assert length["factor"] == "length"
    assert length["estimate_low"] < 0.5 < length["estimate_high"]
    assert length["p_holm"] < 0.001
    slices = {kind: [row for row in record["slices"] if row["kind"] == kind] for kind in ("system", "length")}
    assert max(slices["system"], key=lambda row: row["apart"])["slice"] == "M4"
    thirds = [row["error"] for row in slices["length"]]
    assert thirds == sorted(thirds)
    assert sum(row["texts"] for row in slices["length"]) == 60


def test_the_judges_family_is_a_factor_where_some_systems_are_of_it():
    systems = np.array(["gpt-3.5-turbo" if i > 24 else "llama-2" for i in range(60)])
    sample = side()
    favored = np.clip(sample.human + (systems != "llama-2"), 1, 5)
    judges = replace(sample, systems=systems, scores=favored), sample, replace(sample, model=None)
    records = [error_records([judge])[0] for judge in judges]
    (family,) = [row for row in records[0]["factors"] if row["factor"] == "family"]
    assert family["estimate"] > 0.5
    assert [record["left_out"]["family"] for record in records[1:]] == [
        "no system, or every one, is of the judge's family by its name",
        "the judge's name tells no family of models",
    ]


def test_families_by_names():
    names = ("Qwen2.5-Coder-1.5B-Instruct", "gemini_flash", "mistral-v03", "helper", None)
    assert [family_of(name) for name in names] == ["qwen", "gemini", "mistral", None, None]
    assert family_of("optimus-7b") is None  # a word, not its beginning


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("Plain words.\nAnd more - of them.", 0.0),
        ("1. one\n2) two\n10 three", 2 / 3),
        ("# Title\n\n```\ncode", 2 / 3),
        ("a **bold** word\n| a | b |", 1.0),
        ("a * b ** c", 0.0),
        ("", 0.0),
    ],
)
def test_marked_lines_by_hand(text, share):
    assert marked_share(text) == pytest.approx(share)


def test_factors_without_a_spread_are_left_out_with_their_reason():
    (record,) = error_records([side(texts=["same"] * 60)])
    assert record["factors"] == []
    assert record["left_out"]["length"] == record["left_out"]["slices by length"] == "texts differ little in length"
    assert record["left_out"]["format"] == "texts differ little in marked-up lines"
    near = ["x" * (100 + i % 20) for i in range(60)]  # a coefficient per doubling would be made up
    (extrapolated,) = error_records([side(texts=near)])
    assert extrapolated["factors"] == []
    assert [row["kind"] for row in extrapolated["slices"]] == ["system"] * 5
    (rare,) = error_records([side(texts=["- a list here"] + ["plain" + "x" * (i % 9) for i in range(59)])])
    assert rare["left_out"]["format"] == "fewer than 6 groups have texts that differ in it"
    (alone,) = error_records([side(systems=np.array([""] * 60))])
    assert alone["left_out"]["slices by system"] == "there is one system"


def test_factors_that_go_together_few_texts_and_many_systems_have_their_reasons():
    together = ["- " + "x" * 78 if i % 2 else "x" * 10 for i in range(60)]
    (record,) = error_records([side(texts=together)])
    assert [row["factor"] for row in record["factors"]] == ["length"]
    assert record["left_out"]["format"] == "it goes with the other factors, so their shares cannot be separated"
    two = sample_of([0.1, 0.5], ratings=np.array([[1.0], [2.0]]), texts=["x", "x" * 9])
    many = sample_of(np.zeros(202), ratings=np.ones((202, 1)), systems=np.arange(202) // 2)
    reasons = [record["left_out"] for record in error_records([two, many])]
    assert reasons[0]["length"] == "there are too few texts"
    assert reasons[1]["slices by system"] == "there are more than 100 systems"
