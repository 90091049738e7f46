import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from judgebench.defenses.prompts import Retokenization
from judgebench.types import Condition, Example, Rubric, ScoreRange

TEXT = "Engineers closed the old bridge on Monday, after 12 months of repairs. " * 40


def example(name="a/1"):
    return Example(name, "a", "1", "", "", {})


@given(st.text(max_size=60), st.integers(0, 9))
def test_cuts_lie_inside_words(text, seed):
    for place in Retokenization("r", seed, share=0.5).cuts(text, example()):
        assert text[place - 1].isalnum()
        assert text[place].isalnum()


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_is_appended_leaves_the_cuts_before_it(text, more):
    defense = Retokenization("r", share=0.5)
    held = [place for place in defense.cuts(text + more, example()) if place < len(text)]
    assert held == list(defense.cuts(text, example()))


def test_all_places_none_and_a_share_of_them():
    places = Retokenization("r", share=1.0).cuts(TEXT, example())
    assert Retokenization("r", share=0.0).cuts(TEXT, example()) == []
    cut = Retokenization("r").cuts(TEXT, example())
    assert set(cut) < set(places)
    spread = np.sqrt(0.1 * 0.9 / len(places))
    assert abs(len(cut) / len(places) - 0.1) < 4 * spread


def test_cuts_depend_on_seed_and_example_alone():
    cuts = {
        (seed, name): tuple(Retokenization("r", seed).cuts(TEXT, example(name)))
        for seed in (0, 1)
        for name in ("a/1", "a/2")
    }
    assert len(set(cuts.values())) == 4
    assert tuple(Retokenization("other name", 1).cuts(TEXT, example("a/2"))) == cuts[1, "a/2"]


def test_text_and_rubric_stay():
    rubric = Rubric("fluency", "{{Summary}}")
    defense = Retokenization("r")
    assert defense.rubric(rubric, [TEXT]) is rubric
    assert defense.text(TEXT, example(), Condition("fluency", ScoreRange(1, 5))) is TEXT
