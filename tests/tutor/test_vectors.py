"""Standard vectors: which states are retained, how they separate, their means, and their file."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from judgebench.tutor.spec import Sizes
from judgebench.tutor.texts import candidate_states, write_candidates
from judgebench.tutor.vectors import (
    chance_separability,
    find_vectors,
    load_vectors,
    project,
    retain,
    save_vectors,
    separability,
)
from judgebench.words.errors import UserError
from tests.tutor.conftest import by_length, tutors_in


def sets(seed, high=6, low=5, layers=3, hidden=4):
    draw = np.random.default_rng(seed)
    return draw.normal(1, 1, (high, layers, hidden)), draw.normal(0, 1, (low, layers, hidden))


def test_separability_by_hand():
    # high: (1, 0), (5, 0) around hv = (3, 0), each 2 away; low: (0, 3), (0, 5) around (0, 4), each 1 away
    high, low = np.array([[[1.0, 0.0]], [[5.0, 0.0]]]), np.array([[[0.0, 3.0]], [[0.0, 5.0]]])
    assert separability(high, low) == pytest.approx([5 / (2 + 1)])


def test_sets_of_equal_states():
    same = np.ones((4, 1, 3))
    assert separability(same, same).tolist() == [0.0]
    assert separability(same, same + 1).tolist() == [math.inf]


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-100, 100))
def test_separability_is_a_ratio_of_distances(seed, factor, shift):
    high, low = sets(seed)
    found = separability(high, low)
    np.testing.assert_allclose(separability(high * factor + shift, low * factor + shift), found, rtol=1e-6)
    np.testing.assert_allclose(separability(low, high), found)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    np.testing.assert_allclose(separability(high @ turn, low @ turn), found, rtol=1e-6)
    # all principal components are a turn, too
    np.testing.assert_allclose(separability(high, low, components=4), found, rtol=1e-6)


def test_chance_is_reached_by_sets_that_differ_in_nothing_and_passed_by_sets_that_do():
    draw = np.random.default_rng(0)
    states = draw.normal(size=(40, 60, 16))
    chance = chance_separability(states[:20], states[20:])
    passed = (separability(states[:20], states[20:]) > chance).mean()
    assert passed <= 0.15  # 0.05 is expected of 60 layers
    # 16 directions, two means of 20 each: |hv - lv| is about sqrt(16 * 2 / 20), each distance about sqrt(16)
    assert chance.mean() == pytest.approx(np.sqrt(2 / 20) / 2, rel=0.4)
    states[:20] += 1
    assert (separability(states[:20], states[20:]) > chance_separability(states[:20], states[20:])).all()
    np.testing.assert_array_equal(chance, chance_separability(*np.split(draw_again(), 2)))


def draw_again():
    return np.random.default_rng(0).normal(size=(40, 60, 16))


@given(st.integers(0, 10_000))
def test_projection_is_principal_components(seed):
    high, low = (x[:, 0] for x in sets(seed))
    ours, theirs, shares = project(high, low, 4)
    together, points = np.concatenate([high, low]), np.concatenate([ours, theirs])
    # distances stay, axes are uncorrelated, and their variances are the covariance's eigenvalues
    np.testing.assert_allclose(
        np.linalg.norm(points[:, None] - points, axis=2),
        np.linalg.norm(together[:, None] - together, axis=2),
        atol=1e-9,
    )
    values = np.linalg.eigvalsh(np.cov(together.T))[::-1]
    np.testing.assert_allclose(np.cov(points.T), np.diag(values), atol=1e-9)
    np.testing.assert_allclose(shares, values / values.sum())
    assert (ours.mean(axis=0) >= theirs.mean(axis=0)).all()


def test_projection_of_states_on_a_line():
    line = np.outer(np.arange(4.0), [3.0, 4.0])
    ours, theirs, shares = project(line[2:], line[:2], 3)
    np.testing.assert_allclose(ours[:, 0] - theirs[:, 0], [10, 10])
    np.testing.assert_allclose(shares, [1, 0, 0], atol=1e-12)
    assert ours.shape == theirs.shape == (2, 3)


@given(st.lists(st.floats(1, 5), min_size=30, max_size=60, unique=True), st.integers(0, 5))
def test_sets_are_those_beyond_the_percentiles_whatever_has_no_score(scores, missing):
    scores = np.array([*scores, *[np.nan] * missing])
    kept = retain(scores)
    known = scores[~np.isnan(scores)]
    assert kept.low_threshold == np.percentile(known, 20)
    assert set(kept.high) == {i for i, x in enumerate(scores) if x >= np.percentile(known, 80)}
    assert not set(kept.high) & set(kept.low)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.full(50, 3.0), "gives 3 to the candidates from percentile 20 to 80"),
        (np.arange(10.0), r"2 of 10 candidates scored at or above percentile 80 .* too few to average: the high set "
                          r"needs at least 4; raise tutor.candidates"),
        (np.full(5, np.nan), "none of 5 candidates has a score"),
        (np.zeros(0), "none of 0 candidates has a score"),
    ],
)  # fmt: skip
def test_sets_that_cannot_be_averaged_are_refused(scores, said):
    with pytest.raises(UserError, match=said):
        retain(scores)
    with pytest.raises(UserError, match=r"1 of 20 candidates scored at or below percentile 5 .* low set"):
        retain(np.arange(20.0), low_percentile=5)


def found_by(tutor, contexts, scorer=by_length):
    return find_vectors(tutor, contexts, scorer, "mini", "the longest wins", "0" * 64)


@pytest.fixture(scope="module")
def tutor(tiny_pair, tmp_path_factory):
    return tutors_in(tmp_path_factory.mktemp("tutor"), tiny_pair)(candidates=8)


@pytest.fixture(scope="module")
def vectors(tutor, contexts):
    return found_by(tutor, contexts)


def test_vectors_are_means_of_the_outer_fifths(tutor, contexts, vectors):
    candidates = write_candidates(tutor, contexts)
    scores = by_length([candidate.example for candidate in candidates])
    high = [c for c, s in zip(candidates, scores, strict=True) if s >= np.percentile(scores, 80)]
    low = [c for c, s in zip(candidates, scores, strict=True) if s <= np.percentile(scores, 20)]
    ours, theirs = candidate_states(tutor, high), candidate_states(tutor, low)
    np.testing.assert_allclose(vectors.high, ours.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(vectors.low, theirs.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(vectors.separability, separability(ours, theirs), rtol=1e-4)
    assert vectors.layer == int(vectors.separability.argmax()) + 1
    best = vectors.layer - 1
    np.testing.assert_allclose(
        np.abs(vectors.high_points), np.abs(project(ours[:, best], theirs[:, best])[0]), rtol=1e-3
    )
    assert (vectors.low_threshold, vectors.high_threshold) == tuple(np.percentile(scores, [20, 80]))
    np.testing.assert_allclose(
        vectors.norms, np.linalg.norm(np.concatenate([ours, theirs]), axis=2).mean(axis=0), rtol=1e-4
    )


def test_a_standard_is_one_layer_of_them(vectors):
    chosen, other = vectors.standard(), vectors.standard(3)
    assert chosen.layer == vectors.layer
    np.testing.assert_array_equal(chosen.high.numpy(), vectors.high[vectors.layer - 1])
    np.testing.assert_array_equal(other.low.numpy(), vectors.low[2])
    apart = torch.from_numpy(vectors.high[2] - vectors.low[2])
    torch.testing.assert_close(other.direction, apart / apart.norm())
    with pytest.raises(UserError, match=r"tutor\.layer: 5 is no layer of tiny-main; give a whole number from 1 to 4"):
        vectors.standard(5)


def test_a_file_gives_them_back(vectors, tutor, tmp_path):
    path = tmp_path / "deep" / "vectors.safetensors"
    save_vectors(vectors, path)
    again = load_vectors(path, tutor.view.fingerprint, tutor.spec.sizes)
    for field in dataclasses.fields(vectors):
        ours, theirs = getattr(again, field.name), getattr(vectors, field.name)
        if isinstance(theirs, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs
    assert again.standard().fingerprint == vectors.standard().fingerprint
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_vectors_of_another_model_are_refused(vectors, tutor, tmp_path):
    save_vectors(vectors, tmp_path / "v")
    mine = tutor.view.fingerprint
    with pytest.raises(UserError, match="with 4 layers of size 32, and the tutor has 5 layers of size 32"):
        load_vectors(tmp_path / "v", mine, Sizes(5, 32, 0))
    with pytest.raises(UserError, match="with 4 layers of size 32, and the tutor has 4 layers of size 64"):
        load_vectors(tmp_path / "v", mine, Sizes(4, 64, 0))
    with pytest.raises(UserError, match=f"fingerprint {mine[:12]}, and the tutor has ffffffffffff: another model"):
        load_vectors(tmp_path / "v", "f" * 64, Sizes(4, 32, 0))


def test_files_that_hold_none_are_refused(vectors, tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        load_vectors(tmp_path / "none", "", Sizes(4, 32, 0))
    (tmp_path / "text").write_text("high: 1")
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        load_vectors(tmp_path / "text", "", Sizes(4, 32, 0))
    save_file({"high": vectors.high}, tmp_path / "plain")
    with pytest.raises(UserError, match="holds no standard vectors"):
        load_vectors(tmp_path / "plain", "", Sizes(4, 32, 0))
    save_file({"high": vectors.high}, tmp_path / "half", {"format": "judgebench standard vectors 1", "tutor": '"t"'})
    with pytest.raises(UserError, match="missing or damaged"):
        load_vectors(tmp_path / "half", "", Sizes(4, 32, 0))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        save_vectors(vectors, tmp_path / "file" / "vectors")
