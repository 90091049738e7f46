"""Standard vectors: means of the retained states, kept in a file that only their own tutor may use."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from judgebench.runtime.errors import UserError
from judgebench.tutor.candidates import candidate_states, write_candidates
from judgebench.tutor.spec import Sizes
from judgebench.tutor.vectors import find_vectors, load_vectors, project, save_vectors, separability


def by_length(examples):
    """A judge that is plain to see through: the more letters, the better."""
    return np.array([len(example.output) for example in examples], dtype=np.float64)


def found_by(tutor, contexts, scorer=by_length):
    return find_vectors(tutor, contexts, scorer, "mini", "the longest wins", "0" * 64)


@pytest.fixture
def tutor(make_tutor):
    return make_tutor(candidates=8)


@pytest.fixture
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


def test_candidates_without_a_score_count_for_nothing(tutor, contexts):
    def without_the_longest(examples):
        scores = by_length(examples)
        scores[scores.argmax()] = np.nan
        return scores

    assert len(found_by(tutor, contexts, without_the_longest).scores) == 23


def test_a_layer_may_be_given(make_tutor, contexts):
    assert found_by(make_tutor(candidates=8, layer=1), contexts).layer == 1
    with pytest.raises(UserError, match=r"tutor\.layer: 9 is no layer"):
        found_by(make_tutor(candidates=8, layer=9), contexts)


def test_too_few_candidates_are_told(make_tutor, contexts):
    with pytest.raises(UserError, match=r"too few to average.*raise tutor\.candidates"):
        found_by(make_tutor(candidates=2), contexts)


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


def test_any_reader_of_safetensors_sees_where_they_come_from(vectors, tmp_path):
    save_vectors(vectors, tmp_path / "v")
    with safe_open(str(tmp_path / "v"), framework="pt") as file:
        said = file.metadata()
        assert torch.equal(file.get_tensor("high"), torch.from_numpy(vectors.high))
    assert said["tutor"] == '"tiny-main"'
    assert said["dataset"] == '"mini"'
    assert said["groups"] == '["mini-01", "mini-02", "mini-03"]'
    assert (said["layer"], said["seed"], said["high_count"]) == (str(vectors.layer), "0", str(len(vectors.high_points)))
    assert float(said["high_threshold"]) == vectors.high_threshold


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
