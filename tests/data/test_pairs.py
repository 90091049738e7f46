"""Who meets whom: balance, independence of the rest of the data, and what a pair carries."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import Rivals, pairs
from judgebench.runtime.errors import UserError
from judgebench.types import Example


def group(name, size):
    return [
        Example(f"{name}/{i}", name, f"s{i}", f"Article {name}.", f"Summary {i}.", {"fluency": float(i)}, "A fact.")
        for i in range(size)
    ]


@given(st.integers(1, 9), st.one_of(st.none(), st.integers(1, 12)), st.integers(0, 5))
def test_each_text_is_rival_as_often_as_it_is_judged_and_never_its_own(size, count, seed):
    texts = [*group("a", size), *group("b", 4)]
    found = pairs(texts, Rivals(count, seed))
    judged, rival = Counter(pair.text_id for pair in found), Counter(pair.rival_id for pair in found)
    assert judged == rival
    for text in texts:
        others = (size if text.group_id == "a" else 4) - 1
        assert judged[text.example_id] == (others if count is None else min(count, others))
    assert all(pair.text_id != pair.rival_id and pair.rival_id.startswith(pair.group_id) for pair in found)
    assert len({pair.example_id for pair in found}) == len(found)


@given(st.integers(3, 9), st.integers(0, 20))
def test_no_two_texts_meet_twice_where_rivals_are_few(size, seed):
    found = pairs(group("a", size), Rivals((size - 1) // 2, seed))
    met = [frozenset((pair.text_id, pair.rival_id)) for pair in found]
    assert len(set(met)) == len(met)


def test_all_meet_all():
    found = pairs(group("a", 4), Rivals(None))
    assert {(p.text_id, p.rival_id) for p in found} == {
        (f"a/{i}", f"a/{k}") for i in range(4) for k in range(4) if i != k
    }


def test_a_pair_is_the_text_with_its_rival_and_the_difference_of_the_humans():
    texts = group("a", 2)
    one, other = pairs(texts, Rivals(1))
    assert (one.example_id, one.text_id, one.rival_id) == ("a/0~a/1", "a/0", "a/1")
    assert (one.output, one.rival, one.source, one.context) == ("Summary 0.", "Summary 1.", "Article a.", "A fact.")
    assert (one.system_id, one.group_id) == ("s0", "a")
    assert one.human == {"fluency": -1.0}
    assert other.human == {"fluency": 1.0}
    assert texts[0].text_id == "a/0"


def test_what_is_drawn_for_a_group_is_its_own_affair():
    few, many = pairs(group("a", 6), Rivals(2)), pairs([*group("b", 3), *group("a", 6)[::-1]], Rivals(2))
    drawn = [{(p.text_id, p.rival_id) for p in found if p.group_id == "a"} for found in (few, many)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != {(p.text_id, p.rival_id) for p in pairs(group("a", 6), Rivals(2, seed=1))}


def test_a_text_that_is_alone_is_left_out_and_without_any_other_it_is_told():
    assert {p.group_id for p in pairs([*group("alone", 1), *group("a", 2)], Rivals())} == {"a"}
    with pytest.raises(UserError, match=r"prompt\.rivals: every text of this data is alone"):
        pairs(group("alone", 1), Rivals())


def test_names_that_make_two_pairs_one_are_told():
    texts = [Example(name, "a", name, "Article.", "Text.", {}) for name in ("x", "y~z", "x~y", "z")]
    with pytest.raises(UserError, match="two pairs of texts would be called 'x~y~z'"):
        pairs(texts, Rivals(None))


@pytest.mark.parametrize(("rivals", "expected"), [(1, Rivals(1, 2)), ("all", Rivals(None, 2))])
def test_rivals_are_counted_or_all(rivals, expected):
    assert Rivals.parse(rivals, 2) == expected


@pytest.mark.parametrize(
    ("rivals", "seed", "sentence"),
    [
        *(
            (bad, 0, r"prompt\.rivals: .* is neither a whole number of at least 1 nor all\.")
            for bad in (0, 1.5, "most", None, True)
        ),
        *((3, bad, r"prompt\.rivals_seed: .* is not a whole number of at least 0\.") for bad in (-1, None, "a", False)),
    ],
)
def test_what_is_no_number_of_rivals_is_told(rivals, seed, sentence):
    with pytest.raises(UserError, match=sentence):
        Rivals.parse(rivals, seed)
