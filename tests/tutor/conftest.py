"""A tutor that writes in milliseconds: a tiny random Llama on three embedded articles."""

from pathlib import Path
from types import SimpleNamespace

import lightning as L
import numpy as np
import pytest

from judgebench.data.benchmarks import Mini
from judgebench.judges import PassRunner
from judgebench.readings.store import ReadingStore
from judgebench.tutor.spec import Sizes, TutorSpec
from judgebench.tutor.writing import Tutor, contexts_of
from judgebench.types import ScoreRange


def make_trainer(*callbacks, kind=L.Trainer):
    return kind(
        accelerator="cpu", logger=False, callbacks=[*callbacks], enable_model_summary=False, enable_checkpointing=False
    )


class Refusing(L.Trainer):
    """A trainer that is not to be asked."""

    def predict(self, *_, **__):
        raise AssertionError("nothing was to be computed")


def refusing():
    return make_trainer(kind=Refusing)


@pytest.fixture(scope="session")
def mini():
    data = Mini(limit_groups=3)
    data.setup()
    return data


@pytest.fixture(scope="session")
def contexts(mini):
    return contexts_of(mini.examples)


def tutors_in(folder, tiny_pair):
    """Settings -> a tutor with a store of its own in the folder; `store` names another file."""

    def make(store="store.sqlite", trainer=None, **settings):
        given = {"path": str(tiny_pair[0]), "dtype": "float32", "max_new_tokens": 8, "candidates": 3, **settings}
        spec = TutorSpec(**given)
        runner = PassRunner(store=ReadingStore(Path(folder / store)), trainer=trainer or make_trainer())
        return Tutor(spec, ScoreRange(1, 5), runner)

    return make


@pytest.fixture
def make_tutor(tiny_pair, tmp_path):
    return tutors_in(tmp_path, tiny_pair)


def asking(tokenizer, collection="summary"):
    """A tutor that is only asked for its prompts."""
    spec = SimpleNamespace(
        sizes=Sizes(1, 1, 4128),
        most_tokens=128,
        prompts=collection,
        seed=0,
        temperature=1,
        top_p=1,
        sample_references=False,
    )
    spec.source = SimpleNamespace(tokenizer=lambda: tokenizer)
    return Tutor(spec, ScoreRange(1, 5), None)


def tokens(found):
    """The tokens of what was written, as lists that compare."""
    return [each.tokens.tolist() for each in found]


def by_length(examples):
    """A judge that is plain to see through: the more letters, the better."""
    return np.array([len(example.output) for example in examples], dtype=np.float64)
