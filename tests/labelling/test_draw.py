"""Texts that are drawn to be labelled: whole groups, with known probabilities."""

import random
from collections import Counter

import pytest

from judgebench.labelling.draw import draw_texts, expected_widths, shown_order
from judgebench.types import Example


def texts(*sizes: int) -> list[Example]:
    return [
        Example(f"{group}-{i}", f"g{group}", "system", f"Article {group}.", f"Text {i}.", {})
        for group, size in enumerate(sizes)
        for i in range(size)
    ]


def names(drawn) -> list[str]:
    return [example.example_id for example in drawn.examples]


def test_groups_are_drawn_whole_up_to_n_and_their_texts_stay_together():
    examples = texts(*[3] * 20)
    drawn = draw_texts(examples, 31, seed=1)
    counts = Counter(example.group_id for example in drawn.examples)
    assert set(counts.values()) == {3}
    assert (len(counts), drawn.groups, drawn.known) == (10, 10, 20)
    changes = sum(a.group_id != b.group_id for a, b in zip(drawn.examples, drawn.examples[1:], strict=False))
    assert changes == 9
    assert set(drawn.probability.values()) == {10 / 20}
    assert names(draw_texts(examples, 1000, seed=1)) != names(draw_texts(examples, 1000, seed=2))
    assert set(draw_texts(examples, 60, seed=1).probability.values()) == {1.0}


def test_a_draw_depends_on_the_seed_and_the_names_alone():
    examples = texts(4, 2, 5, 1, 3, 6)
    shuffled = random.Random(0).sample(examples, len(examples))
    assert names(draw_texts(examples, 9, seed=3)) == names(draw_texts(shuffled, 9, seed=3))


def test_every_group_is_as_likely_as_its_probability_says():
    examples = texts(*[2] * 5)
    count = Counter(name for seed in range(400) for name in names(draw_texts(examples, 4, seed)))
    assert all(count[example.example_id] / 400 == pytest.approx(0.4, abs=0.08) for example in examples)


def test_some_texts_of_each_group_are_drawn_where_whole_ones_would_be_too_few_for_a_verdict():
    drawn = draw_texts(texts(*[16] * 40), 50, seed=0)
    assert Counter(Counter(example.group_id for example in drawn.examples).values()) == {5: 10}
    assert set(drawn.probability.values()) == {10 / 40 * 5 / 16}
    drawn = draw_texts(texts(50, 50), 10, seed=0)  # there are two groups
    assert Counter(Counter(example.group_id for example in drawn.examples).values()) == {5: 2}
    assert set(drawn.probability.values()) == {5 / 50}


@pytest.mark.parametrize("count", [0, 1, 9, 20, 51])
def test_a_tenth_is_shown_twice_far_apart(count):
    order = shown_order(count, seed=0)
    first = {position: place for place, (position, again) in enumerate(order) if not again}
    twice = {position: place for place, (position, again) in enumerate(order) if again}
    assert sorted(first) == list(range(count))
    assert len(twice) == min(round(count / 10), count // 2)
    assert all(place - first[position] >= count // 2 for position, place in twice.items())


def test_widths_shrink_with_the_square_root_of_the_groups():
    # 1.96 sqrt(.8 * .2 / 50) = .111; half of it with four times as many
    assert "±0.11 with 100, ±0.08 with 200, ±0.06 with 400 groups" in expected_widths(100, classes=True)
    # 1.96 * .75 * sqrt(1.125 / 100) = .156
    assert "±0.16 with 100, ±0.11 with 200, ±0.08 with 400 groups" in expected_widths(100, classes=False)
    assert "±1.00 with 1," in expected_widths(1, classes=True)
