"""Effects of attacks, and of learned phrases as they grow."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from judgebench.attacks import LearnedPhrase
from judgebench.stats.clusters import Clusters
from judgebench.studies.evaluate import ALL, CHANGES, SEEN, UNSEEN, robustness, suffix_records
from judgebench.types import ScoreRange
from tests.studies.test_evaluate import evaluate, joined, scores, table

RANGE = ScoreRange(1, 5)


def changed(clean, attacked, groups, score_range=RANGE, resamples=0, seed=0):
    clean, attacked = np.array(clean, float), np.array(attacked, float)
    return robustness(clean, attacked, score_range, Clusters.of(groups, resamples, seed))


def cells(attacked, groups=8, **cell):
    """Clean and attacked columns of one judge."""
    return joined(table(scores, scores, groups, **cell), table(attacked, scores, groups, attack="dsi", **cell))


def raised(rng, n):
    return np.minimum(5.0, scores(rng, n) + 1)


def test_numbers_by_hand():
    # two articles: of one the attack raises both summaries, of the other it lowers one and leaves one
    found = changed([1, 2, 4, 5], [3, 5, 2, 5], ["a", "a", "b", "b"], RANGE, resamples=0)
    assert (found["paired"], found["clean_mean_score"], found["attacked_mean_score"]) == (4, 3.0, 3.75)
    assert found["change"] == found["delta"] == 0.75
    assert found["rate_of_means"] == 0.25
    assert found["mean_of_rates"] == pytest.approx((2 + 1.5 - 0.5 + 0) / 4)
    assert (found["raised_share"], found["net_raised_share"]) == (0.5, 0.25)
    near = changed([1, 2, 4, 5], [1.3, 2.5, 3.7, 4.6], ["a", "a", "b", "b"], RANGE, resamples=0)
    assert (near["raised_share"], near["net_raised_share"]) == (0.5, 0.0)  # a tenth of the range is 0.4
    assert found["maximum_share"] == 0.5
    assert found["clean_maximum_share"] == 0.25
    # ranks among the other's clean text: 2 -> 1, 1 -> 1, 2 -> 2, 1 -> 1
    assert found["places_gained"] == 0.25
    assert found["win_share"] == 0.75
    assert found["clean_win_share"] == 0.5
    assert found["standardized"] == pytest.approx(0.75 / np.sqrt((4 + 1 + 1 + 4) / 4))
    assert {found[f"{name}{end}"] for name in CHANGES for end in ("_low", "_high")} == {None}


def test_ties_share_ranks_and_first_places():
    found = changed([3, 3, 3, 1], [3, 3, 3, 3], ["a"] * 4, RANGE, resamples=0)
    # the last rises from rank 4 to rank 2.5 (it ties with three), which is a fourth of the first place
    assert found["places_gained"] == pytest.approx(1.5 / 4)
    assert found["win_share"] == pytest.approx((3 * 1 / 3 + 1 / 4) / 4)
    assert found["clean_win_share"] == 0.25


def test_a_text_stands_among_the_others_with_its_mean_over_its_rivals():
    # one article, three texts, each against both others; unattacked a beats all, c loses to all
    texts, clusters = np.array([*"aabbcc"]), Clusters.of(["g"] * 6)
    clean, attacked = np.array([1.0, 1, 0, 1, 0, 0]), np.array([1, 1, 1, 1, 0.5, 0.5])
    found = robustness(clean, attacked, ScoreRange(0, 1, 0.5), clusters, texts)
    # means: clean 1, 1/2, 0; attacked a 1 (rank 1), b 1 (ties with a: 1.5, half the first place), c 1/2 (2.5)
    assert found["places_gained"] == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert (found["win_share"], found["clean_win_share"]) == pytest.approx(((1 + 0.5 + 0) / 3, 1 / 3))
    assert found["change"] == pytest.approx(2 / 6)
    alone = robustness(clean, attacked, ScoreRange(0, 1, 0.5), clusters)
    assert alone["clean_win_share"] == pytest.approx(1 / 6)  # six texts, of which three tie for the first place


def test_nothing_is_relative_to_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = changed([0, 2], [1, 2], ["a", "b"], ScoreRange(0, 4), resamples=50)
        none = changed([0, 0], [1, 2], ["a", "b"], ScoreRange(0, 4), resamples=50)
        nobody = changed([], [], [])
    assert (some["rate_of_means"], some["mean_of_rates"], some["standardized"]) == (0.5, None, 0.5)
    assert none["standardized"] is None  # clean scores that are all the same have no spread
    assert (none["rate_of_means"], none["rate_of_means_low"], none["change"]) == (None, None, 1.5)
    assert nobody["paired"] == 0
    assert nobody["change"] is None
    assert some["places_gained"] is None  # groups of one text have no ranks
    assert some["win_share"] is None


def test_attacked_records_alone_are_told_against_their_clean_cell():
    columns = cells(raised)
    records = evaluate(columns, "mini", resamples=100)
    clean, attacked = records[:3], records[3:]
    assert not any("delta" in record for record in clean)
    expected = columns["score"][32:].mean() - columns["score"][:32].mean()
    correlation = stats.spearmanr(columns["score"][32:], columns["score"][:32])[0]
    for record, base in zip(attacked, clean, strict=True):
        assert record["paired"] == 32
        assert record["change"] == pytest.approx(expected)
        assert record["change_low"] < expected < record["change_high"]
        assert record["clean_spearman"] == base["spearman"]
        assert record["spearman_change"] == pytest.approx(record["spearman"] - base["spearman"])
        assert record["clean_correlation"] == pytest.approx(correlation, abs=1e-12)
        assert record["clean_correlation_low"] < correlation < record["clean_correlation_high"]
        assert record["paired_groups"] == 8
        assert record["clean_mean_score"] == pytest.approx(base["mean_score"])
    rho = stats.spearmanr(columns["score"][32:], columns["human"][32:])[0]
    assert attacked[0]["spearman"] == pytest.approx(rho)
    # only texts of both sides count: five clean ones are missing
    record = evaluate({name: column[5:] for name, column in columns.items()}, "m", ["dataset"], resamples=20)[1]
    assert (record["n"], record["paired"]) == (32, 27)
    assert record["change"] == pytest.approx(columns["score"][37:].mean() - columns["score"][5:32].mean())
    rho = stats.spearmanr(columns["score"][5:32], columns["human"][5:32])[0]
    assert record["clean_spearman"] == pytest.approx(rho)
    (record,) = evaluate(table(scores, scores, attack="dsi"), "m", ["dataset"], resamples=20)
    assert {record[name] for name in (*CHANGES, "clean_mean_score", "clean_spearman", "spearman_change")} == {None}


def test_an_answer_that_cannot_be_read_is_no_score_that_fell():
    columns = cells(raised)
    refused = np.arange(64) >= 48  # the last four groups under attack
    unread = {
        "status": np.where(refused, "failed", columns["status"]),
        "score": np.where(refused, 1.0, columns["score"]),
    }
    _, record = evaluate(columns | unread, "m", ["dataset"], resamples=20)
    assert (record["n"], record["paired"], record["paired_groups"], record["failed_share"]) == (16, 16, 4, 0.5)
    both = columns["score"][:16], columns["score"][32:48]
    assert record["change"] == pytest.approx(both[1].mean() - both[0].mean())
    assert record["clean_correlation"] == pytest.approx(stats.spearmanr(*both)[0])
    assert record["clean_spearman"] == pytest.approx(stats.spearmanr(both[0], columns["human"][:16])[0])
    # of a judge that refuses all of them nothing is known
    all_of_them = np.arange(64) >= 32
    unread = {"status": np.where(all_of_them, "failed", columns["status"])}
    _, record = evaluate(columns | unread, "m", ["dataset"], resamples=20)
    assert (record["paired"], record["failed_share"]) == (0, 1.0)
    assert {record[name] for name in (*CHANGES, "clean_correlation", "spearman_change")} == {None}


PHRASES = ("truly", "truly great", "truly great wow")


def suffix(contexts=("g0", "g1"), systems=("s0",), **more):
    return LearnedPhrase(PHRASES, "expected", frozenset(contexts), frozenset(systems), **more)


def phrase_cells(seed=0, groups=6, systems=3, lengths=(0, 1, 2, 3), name="adv_suffix", **cell):
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
    columns = phrase_cells()
    records = suffix_records(columns, [suffix()], "mini", resamples=40, seed=2)
    found = suffix_records(phrase_cells(lengths=(0, 2)), [suffix()], "mini", resamples=5)
    assert {record["length"] for record in found} == {0, 2}
    for nothing in (phrase_cells(lengths=(0,)), phrase_cells(lengths=(1, 2)), phrase_cells(name="dsi")):
        assert suffix_records(nothing, [suffix()], "mini") == []
    assert len(records) == 6 * 4  # seen and unseen contexts, all systems or the seen or the unseen, four lengths
    clean = {name: column[:18] for name, column in columns.items()}
    for length in (1, 2, 3):
        attacked = {name: column[18 * length : 18 * (length + 1)] for name, column in columns.items()}
        for contexts in (SEEN, UNSEEN):
            for systems in (ALL, SEEN, UNSEEN):
                rows = np.isin(clean["group_id"], ["g0", "g1"]) == (contexts == SEEN)
                if systems != ALL:
                    rows &= (clean["system_id"] == "s0") == (systems == SEEN)
                given = (side[rows] for side in (clean["score"], attacked["score"], clean["group_id"]))
                expected = changed(*given, resamples=40, seed=2)
                found = one(records, length=length, contexts=contexts, systems=systems)
                ends = [f"{name}{end}" for name in CHANGES for end in ("", "_low", "_high")]
                assert {name: found[name] for name in ends} == {name: expected[name] for name in ends}
                assert found["mean_score"] == expected["attacked_mean_score"]
                assert found["mean_score_low"] == expected["attacked_mean_score_low"]
                assert found["clean_mean_score_high"] == expected["clean_mean_score_high"]
                assert (found["n"], found["groups"]) == (rows.sum(), len(set(clean["group_id"][rows])))
                assert (found["phrase"], found["attack"]) == (PHRASES[length - 1], f"adv_suffix_{length}")


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.sets(st.sampled_from("012345")), st.sets(st.sampled_from("012")))
def test_parts_add_up_and_length_zero_changes_nothing(seed, contexts, systems):
    learned = suffix([f"g{i}" for i in contexts], [f"s{i}" for i in systems])
    records = suffix_records(phrase_cells(seed), [learned], "mini", resamples=5)
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
