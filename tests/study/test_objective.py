"""What a sweep maximizes: means of records' metrics over cells."""

import pytest

from judgebench.study.objective import default_objective, objective_cells, objective_values, parse_objective
from judgebench.words.errors import UserError

PAIR = {"judge": "pair", "decoding": "contrastive"}


def record(**changes):
    plain = {"split": "dev", "level": "dataset", "dimension": "coherence", "attack": "none", "defense": "none"}
    plain |= {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "lambda": 0.5, "temperature": 1.0}
    return plain | PAIR | {"constant": False, "pearson": 0.1, "spearman": 0.2, "kendall": 0.3} | changes


RECORDS = [
    record(),
    record(range_max=9.0, spearman=0.4),
    record(dimension="relevance", spearman=0.6),
    record(split="test", spearman=-0.1),
    record(level="system", spearman=0.9),
    record(judge="main", decoding="greedy", spearman=0.05),
    record(attack="adv_suffix", spearman=-0.9, delta=0.5),
    record(attack="dsi", spearman=-0.8, delta=0.1),
    record(defense="cap", spearman=0.7),
    record(attack="dsi", defense="cap", spearman=-0.7, delta=0.05),
]


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (PAIR, 0.4),  # (0.2 + 0.4 + 0.6) / 3
        (PAIR | {"dimension": "coherence"}, 0.3),
        (PAIR | {"dimension": ["coherence", "relevance"]}, 0.4),
        (PAIR | {"range": [1, 9]}, 0.4),
        (PAIR | {"range": [[1, 5], [1, 9]], "dimension": "coherence"}, 0.3),
        (PAIR | {"split": "test"}, -0.1),
        (PAIR | {"level": "system"}, 0.9),
        (PAIR | {"metric": "kendall"}, 0.3),
        ({"judge": "main", "decoding": "greedy"}, 0.05),
        (PAIR | {"defense": "cap"}, 0.7),
        (PAIR | {"attack": "dsi"}, -0.8),
        (PAIR | {"attack": ["dsi", "adv_suffix"], "metric": "delta"}, 0.3),
        (PAIR | {"attack": "dsi", "defense": "cap", "metric": "delta"}, 0.05),
    ],
)
def test_the_mean_over_the_cells_that_an_entry_names(entry, value):
    assert objective_values(RECORDS, parse_objective([entry])) == [pytest.approx(value)]


def test_cells_have_dev_and_test():
    cells = objective_cells(RECORDS, parse_objective(PAIR | {"dimension": "coherence", "range": [1, 5]}))
    assert cells == [
        {"objective": 0, "metric": "spearman", "dimension": "coherence", "range_min": 1.0, "range_max": 5.0}
        | {"range_step": 1.0, "dev": 0.2, "test": -0.1, "split": "dev", "level": "dataset", "constant": False}
        | {"attack": "none", "defense": "none"}
        | PAIR
    ]


@pytest.mark.parametrize(("split", "constant"), [("dev", False), ("test", True)])
def test_a_cell_is_constant_where_its_own_split_is(split, constant):
    records = [record(), record(split="test", constant=True)]
    assert objective_cells(records, parse_objective(PAIR | {"split": split}))[0]["constant"] is constant


def test_what_is_meant_where_nothing_is_said():
    assert default_objective(RECORDS) == parse_objective(PAIR)
    main = [one for one in RECORDS if one["judge"] == "main"]
    assert default_objective(main)[0].decoding == "greedy"
    assert default_objective([]) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "at least one entry"),
        (3, "at least one entry"),
        (["spearman"], "should be a mapping"),
        ([PAIR | {"splitt": "dev"}], "splitt is unknown"),
        ([{"metric": "spearman"}], "judge is not given"),
        ([PAIR | {"metric": ["spearman"]}], r"metric: \['spearman'\] should"),
        ([PAIR | {"level": "planet"}], "level: 'planet'"),
        ([PAIR | {"range": [5, 5]}], "minimum must lie below"),
        ([PAIR | {"range": 3}], "3 is not a range"),
        ([PAIR | {"dimension": ["coherence", 3]}], "3 should be a valid string"),
        ([PAIR | {"attack": []}], "attack: "),
        ([PAIR | {"metric": "delta"}], "delta is what an attack changes"),
    ],
)
def test_mistakes_are_sentences(value, expected):
    with pytest.raises(UserError, match=expected):
        parse_objective(value)


@pytest.mark.parametrize(
    ("records", "entry", "expected"),
    [
        (RECORDS, {"judge": "assistant", "decoding": "greedy"}, "no record matches entry 1"),
        (RECORDS, PAIR | {"range": [0, 4]}, "no record matches"),
        ([record(), record(**{"lambda": 1.0})], PAIR, "several settings in one cell"),
        ([record(spearman=None)], PAIR, "Nobody rated"),
    ],
)
def test_nothing_to_compare_is_told(records, entry, expected):
    with pytest.raises(UserError, match=expected):
        objective_values(records, parse_objective(entry))
