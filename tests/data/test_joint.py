import numpy as np
import pytest

from judgebench.data.benchmarks import Mini
from judgebench.data.dataset import JOINT, Dataset, with_joint
from judgebench.types import Example

SCALE = {"a": (1.0, 5.0), "b": (1.0, 5.0)}


def test_joint_is_the_mean_of_the_named_dimensions_for_means_and_for_each_expert():
    examples = [Example("x", "x", "s", "source", "text", {"a": 2.0, "b": 5.0, "other": 1.0})]
    ratings = {"a": np.array([[1.0, 3.0]]), "b": np.array([[5.0, 5.0]])}
    found = with_joint(Dataset(examples, SCALE, ratings), ("a", "b"))
    assert found.examples[0].human == {"a": 2.0, "b": 5.0, "other": 1.0, "joint": 3.5}
    assert found.ratings[JOINT].tolist() == [[3.0, 4.0]]
    assert found.scale[JOINT] == (1.0, 5.0)
    assert JOINT not in with_joint(Dataset(examples, SCALE), ("a", "b")).ratings


def test_the_embedded_data_has_it():
    data = Mini()
    data.setup()
    for example in data.examples:
        parts = [score for dimension, score in example.human.items() if dimension != JOINT]
        assert len(parts) == 4
        assert example.human[JOINT] == pytest.approx(np.mean(parts))
