"""Curves over the length of a learned phrase: each point is `robustness` of the texts that it is about."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.metrics.evaluation import evaluate
from judgebench.metrics.robustness import ALL, CHANGES, SEEN, UNSEEN, Paired, Suffix, robustness, suffix_records
from judgebench.types import ScoreRange
from tests.metrics.test_evaluate import joined, scores, table

PHRASES = ("truly", "truly great", "truly great wow")


def suffix(contexts=("g0", "g1"), systems=("s0",), **more):
    return Suffix("adv_suffix", PHRASES, frozenset(contexts), frozenset(systems), **{"objective": "expected", **more})


def cells(seed=0, groups=6, systems=3, lengths=(0, 1, 2, 3), name="adv_suffix", **cell):
    """Clean texts, and phrases that raise a score by more the longer they are."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(1, 5, groups * systems).astype(float)
    gains = [np.zeros(groups * systems)] + [rng.integers(-1, length + 1, groups * systems) for length in (1, 2, 3)]
    tables = []
    for length in lengths:
        attacked = np.clip(clean + gains[length], 1, 5)
        attack = f"{name}_{length}" if length else "none"
        tables.append(table(lambda r, n, given=attacked: given, scores, groups, systems, attack=attack, **cell))
    return joined(*tables)


def one(records, **wanted):
    (found,) = [record for record in records if all(record[name] == value for name, value in wanted.items())]
    return found


def test_a_point_is_the_robustness_of_its_part():
    columns = cells()
    records = suffix_records(columns, [suffix()], "mini", resamples=40, seed=2)
    assert len(records) == 6 * 4  # seen and unseen contexts, all systems or the seen or the unseen, four lengths
    clean = {name: column[:18] for name, column in columns.items()}
    for length in (1, 2, 3):
        attacked = {name: column[18 * length : 18 * (length + 1)] for name, column in columns.items()}
        for contexts in (SEEN, UNSEEN):
            for systems in (ALL, SEEN, UNSEEN):
                rows = np.isin(clean["group_id"], ["g0", "g1"]) == (contexts == SEEN)
                if systems != ALL:
                    rows &= (clean["system_id"] == "s0") == (systems == SEEN)
                given = (clean["score"], attacked["score"], clean["human"], clean["group_id"], clean["system_id"])
                expected = robustness(Paired(*(c[rows] for c in given), True), ScoreRange(1, 5), 40, 2)
                found = one(records, length=length, contexts=contexts, systems=systems)
                ends = [f"{name}{end}" for name in CHANGES for end in ("", "_low", "_high")]
                assert {name: found[name] for name in ends} == {name: expected[name] for name in ends}
                assert found["mean_score"] == expected["attacked_mean_score"]
                assert found["mean_score_low"] == expected["attacked_mean_score_low"]
                assert found["clean_mean_score_high"] == expected["clean_mean_score_high"]
                assert (found["n"], found["groups"]) == (rows.sum(), len(set(clean["group_id"][rows])))
                assert (found["phrase"], found["attack"]) == (PHRASES[length - 1], f"adv_suffix_{length}")


def test_over_all_systems_of_unseen_contexts_it_is_what_metrics_json_says():
    columns = cells()
    test = {name: column.copy() for name, column in columns.items()}
    dev = np.isin(columns["group_id"], ["g0", "g1"])
    test["split"] = np.where(dev, "dev", "test")
    records = suffix_records(test, [suffix()], "mini", resamples=40)
    assert {(record["split"], record["contexts"]) for record in records} == {("dev", SEEN), ("test", UNSEEN)}
    for record in evaluate(test, "mini", ["dataset"], resamples=40):
        if record["attack"] != "none":
            found = one(records, split=record["split"], attack=record["attack"], systems=ALL)
            assert [found[name] for name in CHANGES] == [record[name] for name in CHANGES]
            assert [found["change_low"], found["n"]] == [record["change_low"], record["paired"]]


@given(st.integers(0, 10_000), st.sets(st.sampled_from("012345")), st.sets(st.sampled_from("012")))
def test_parts_add_up_and_length_zero_changes_nothing(seed, contexts, systems):
    learned = suffix([f"g{i}" for i in contexts], [f"s{i}" for i in systems])
    records = suffix_records(cells(seed), [learned], "mini", resamples=5)
    for length in range(4):
        parts = [record for record in records if record["length"] == length]
        for at in (SEEN, UNSEEN):
            by = {record["systems"]: record for record in parts if record["contexts"] == at}
            halves = [by[name] for name in (SEEN, UNSEEN) if name in by]
            assert sum(half["n"] for half in halves) == (by[ALL]["n"] if by else 0)
            if by:
                weighed = sum(half["n"] * half["mean_score"] for half in halves) / by[ALL]["n"]
                assert weighed == pytest.approx(by[ALL]["mean_score"])
        assert sum(record["n"] for record in parts if record["systems"] == ALL) == 18
        for record in parts:
            assert json.loads(json.dumps(record, allow_nan=False)) == record
            assert record["clean_mean_score"] == one(records, **{**at_zero(record)})["mean_score"]
            if length == 0:
                assert record["phrase"] == ""
                assert (record["change"], record["raised_share"], record["delta"]) == (0, 0, 0)
                assert record["clean_win_share"] == record["win_share"]


def at_zero(record):
    return {"length": 0, "contexts": record["contexts"], "systems": record["systems"]}


def test_lengths_that_were_not_scored_and_attacks_of_others_are_left_alone():
    columns = cells(lengths=(0, 2))
    assert {r["length"] for r in suffix_records(columns, [suffix()], "mini", resamples=5)} == {0, 2}
    assert suffix_records(cells(lengths=(0,)), [suffix()], "mini") == []
    assert suffix_records(cells(lengths=(1, 2)), [suffix()], "mini") == []  # without a clean base
    assert suffix_records(cells(name="dsi"), [suffix()], "mini") == []
    assert suffix_records(columns, [], "mini") == []


def test_each_objective_decoding_and_defense_has_its_own_curve():
    parts = [cells(1), cells(2, judge="pair", decoding="contrastive"), cells(3, defense="cap")]
    parts += [cells(4, lengths=(1, 2, 3), name="adv_suffix_pair")]
    pair = Suffix("adv_suffix_pair", PHRASES, frozenset(["g5"]), frozenset(), "contrastive expected")
    records = suffix_records(joined(*parts), [suffix(), pair], "mini", resamples=5)
    curves = {(r["suffix"], r["objective"], r["judge"], r["defense"]) for r in records}
    assert curves == {
        ("adv_suffix", "expected", "main", "none"),
        ("adv_suffix", "expected", "pair", "none"),
        ("adv_suffix", "expected", "main", "cap"),
        ("adv_suffix_pair", "contrastive expected", "main", "none"),
    }
    seen = [r for r in records if r["suffix"] == "adv_suffix_pair" and r["contexts"] == SEEN]
    assert {(r["groups"], r["systems"]) for r in seen} == {(1, ALL), (1, UNSEEN)}  # it was learned on no system here
    assert {r["mean_score_low"] for r in seen} == {None}


@pytest.mark.parametrize("phrases", [(), ("",), "truly"])
def test_phrases_that_are_none(phrases):
    with pytest.raises(ValueError, match="adv_suffix: phrases"):
        Suffix("adv_suffix", phrases, frozenset(), frozenset())
