"""Causes of errors: the sandwich written out, with known causes found, and constant factors left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.errors import (
    clustered_regression,
    doublings,
    error_records,
    family_of,
    marked_share,
)
from judgebench.stats.significance import holm
from tests.stats.recorded import DIMENSIONS, needs_recorded, recorded
from tests.stats.sides import cell, side


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


def equal(design, outcome, groups):
    freedom = len(np.unique(groups)) - 1
    rows = zip(clustered_regression(design, outcome, groups), *sandwich(design, outcome, groups), strict=True)
    for record, estimate, error, p in rows:
        far = stats.t.ppf(0.975, freedom) * error
        assert record["estimate"] == pytest.approx(estimate, abs=1e-10)
        assert (record["estimate_low"], record["estimate_high"]) == pytest.approx((estimate - far, estimate + far))
        assert record["p"] == pytest.approx(p, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("groups", [3, 12, 40])
def test_regression_is_the_sandwich(groups):
    rng = np.random.default_rng(groups)
    of = rng.integers(0, groups, 200)
    design = np.column_stack([np.ones(200), rng.normal(size=(200, 2)) + of[:, None] / 10])
    equal(design, rng.normal(size=200) + of, np.array([f"g{one}" for one in of]))


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_slices_of_recorded_judges_are_the_sandwichs(dimension):
    one = recorded(dimension, "gpt-4o")
    errors = one.judge - one.human
    equal(np.column_stack([np.ones(960), one.systems == "M22"]), errors, one.groups)
    scored = side(
        {}, one.judge, ratings=one.raters, groups=12, cell=cell("main", "greedy"), names=np.arange(960), texts=()
    )
    (record,) = error_records([replace(scored, groups=one.groups, systems=one.systems)])
    (own,) = [part for part in record["slices"] if part["slice"] == "M22"]
    estimates, _, p = sandwich(np.column_stack([np.ones(960), one.systems == "M22"]), errors, one.groups)
    assert (own["apart"], own["p"]) == pytest.approx((estimates[1], p[1]), rel=1e-6)
    assert own["error"] == pytest.approx(errors[one.systems == "M22"].mean())
    assert own["human"] == pytest.approx(one.human[one.systems == "M22"].mean())
    corrected = holm(np.array([part["p"] for part in record["slices"]]))
    assert [part["p_holm"] for part in record["slices"]] == pytest.approx(corrected.tolist())
    assert record["bias"] == pytest.approx(errors.mean())


def test_known_causes_are_found():
    """A judge that gives half a point per doubling, and a whole one to M4."""
    rng = np.random.default_rng(1)
    base = side()
    texts = ["x" * int(length) for length in rng.choice([10, 20, 40, 80], 60)]
    own = 0.5 * doublings(texts) + (base.systems == "M4") + rng.normal(0, 0.05, 60)
    (record,) = error_records([replace(base, scores=base.human + own, scale=(1.0, 5.0), texts=texts)])
    (length,) = record["factors"]
    assert length["factor"] == "length"
    assert length["estimate_low"] < 0.5 < length["estimate_high"]
    assert length["p_holm"] < 0.001
    favored = max((one for one in record["slices"] if one["kind"] == "system"), key=lambda one: one["apart"])
    assert favored["slice"] == "M4"
    thirds = [one["error"] for one in record["slices"] if one["kind"] == "length"]
    assert thirds == sorted(thirds)
    assert sum(one["texts"] for one in record["slices"] if one["kind"] == "length") == 60


def test_the_judges_family_is_a_factor_where_some_systems_are_of_it():
    systems = np.array(["gpt-3.5-turbo" if i > 24 else "llama-2" for i in range(60)])
    known = side()
    (record,) = error_records(
        [replace(known, systems=systems, scores=np.clip(known.human + (systems != "llama-2"), 1, 5))]
    )
    (family,) = [one for one in record["factors"] if one["factor"] == "family"]
    assert family["estimate"] > 0.5
    (none,) = error_records([known])
    assert none["left_out"]["family"] == "no system, or every one, is of the judge's family by its name"
    (unnamed,) = error_records([replace(known, model=None)])
    assert unnamed["left_out"]["family"] == "the judge's name tells no family of models"


def test_names_tell_families():
    found = [family_of(name) for name in ("Qwen2.5-Coder-1.5B-Instruct", "gemini_flash", "mistral-v03", "helper", None)]
    assert found == ["qwen", "gemini", "mistral", None, None]
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


def test_lengths_are_counted_in_doublings():
    assert doublings(["", "a", "ab", " abcd "]).tolist() == [0.0, 0.0, 1.0, 2.0]


def test_what_cannot_be_told_is_left_out_with_its_reason():
    (record,) = error_records([side(texts=["same"] * 60)])
    assert record["factors"] == []
    assert record["left_out"]["length"] == "texts differ little in length"
    assert record["left_out"]["format"] == "texts differ little in marked-up lines"
    assert record["left_out"]["slices by length"] == "texts differ little in length"
    near = ["x" * (100 + i % 20) for i in range(60)]  # a coefficient per doubling would be made up
    (extrapolated,) = error_records([side(texts=near)])
    assert extrapolated["factors"] == []
    assert [one["kind"] for one in extrapolated["slices"]] == ["system"] * 5
    (rare,) = error_records([side(texts=["- a list here"] + ["plain" + "x" * (i % 9) for i in range(59)])])
    assert rare["left_out"]["format"] == "fewer than 6 groups have texts that differ in it"
    (alone,) = error_records([side(systems=np.array([""] * 60))])
    assert alone["left_out"]["slices by system"] == "there is one system"
