"""What an attack changes: hand-computed numbers, identities, and intervals against an explicit resampling."""

import warnings

import numpy as np
import pytest
from scipy import stats

from judgebench.metrics.evaluation import evaluate
from judgebench.metrics.resampling import group_weights
from judgebench.metrics.robustness import CHANGES, Paired, robustness
from judgebench.types import ScoreRange
from tests.metrics.test_evaluate import joined, scores, table

RANGE = ScoreRange(1, 5)


def paired(clean, attacked, groups):
    n = len(clean)
    systems = np.array([f"s{i}" for i in range(n)])
    return Paired(
        np.array(clean, float), np.array(attacked, float), np.full(n, np.nan), np.array(groups), systems, True
    )


def cells(attacked, groups=8, **cell):
    """Clean and attacked columns of one judge."""
    return joined(table(scores, scores, groups, **cell), table(attacked, scores, groups, attack="dsi", **cell))


def raised(rng, n):
    return np.minimum(5.0, scores(rng, n) + 1)


def test_numbers_by_hand():
    # two articles: of one the attack raises both summaries, of the other it lowers one and leaves one
    found = robustness(paired([1, 2, 4, 5], [3, 5, 2, 5], ["a", "a", "b", "b"]), RANGE, resamples=0)
    assert (found["paired"], found["clean_mean_score"], found["attacked_mean_score"]) == (4, 3.0, 3.75)
    assert found["change"] == found["delta"] == 0.75
    assert found["rate_of_means"] == 0.25
    assert found["mean_of_rates"] == pytest.approx((2 + 1.5 - 0.5 + 0) / 4)
    assert found["raised_share"] == 0.5
    assert found["maximum_share"] == 0.5
    assert found["clean_maximum_share"] == 0.25
    # ranks among the other's clean text: 2 -> 1, 1 -> 1, 2 -> 2, 1 -> 1
    assert found["places_gained"] == 0.25
    assert found["win_share"] == 0.75
    assert found["clean_win_share"] == 0.5
    assert found["standardized"] == pytest.approx(0.75 / np.sqrt((4 + 1 + 1 + 4) / 4))
    assert {found[f"{name}{end}"] for name in CHANGES for end in ("_low", "_high")} == {None}


def test_a_lowering_attack_has_a_change_below_zero_and_a_delta_above():
    found = robustness(paired([4, 2], [2, 2], ["a", "a"]), RANGE)
    assert (found["change"], found["delta"], found["mean_of_rates"]) == (-1.0, 1.0, 0.25)


def test_ties_share_ranks_and_first_places():
    found = robustness(paired([3, 3, 3, 1], [3, 3, 3, 3], ["a"] * 4), RANGE, resamples=0)
    # the last rises from rank 4 to rank 2.5 (it ties with three), which is a fourth of the first place
    assert found["places_gained"] == pytest.approx(1.5 / 4)
    assert found["win_share"] == pytest.approx((3 * 1 / 3 + 1 / 4) / 4)
    assert found["clean_win_share"] == 0.25


def test_no_attack_changes_nothing():
    clean = np.random.default_rng(0).uniform(1, 5, 40)
    found = robustness(paired(clean, clean, np.repeat(np.arange(10), 4)), RANGE, resamples=50)
    for name in ("change", "delta", "rate_of_means", "mean_of_rates", "raised_share", "places_gained"):
        assert [found[f"{name}{end}"] for end in ("", "_low", "_high")] == [0, 0, 0]
    assert found["maximum_share"] == found["clean_maximum_share"]
    assert found["win_share"] == found["clean_win_share"] == pytest.approx(10 / 40)  # each group has one first place


def test_the_maximum_is_the_nearest_score_and_not_the_exact_one():
    found = robustness(paired([4.4, 4.6], [4.5, 5.0], ["a", "b"]), RANGE)
    assert (found["clean_maximum_share"], found["maximum_share"]) == (0.5, 1.0)


def test_intervals_are_those_of_an_explicit_resampling():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(9), rng.integers(1, 5, 9))
    clean = rng.integers(1, 6, len(groups)).astype(float)
    attacked = np.minimum(5, clean + rng.integers(-1, 3, len(groups)))
    found = robustness(paired(clean, attacked, groups), RANGE, resamples=60, seed=3)

    def rank(i, score):
        others = clean[(groups == groups[i]) & (np.arange(len(groups)) != i)]
        return 1 + (others > score).sum() + (others == score).sum() / 2

    places = np.array([rank(i, clean[i]) - rank(i, attacked[i]) for i in range(len(groups))])
    several = np.bincount(groups)[groups] > 1
    names = ("clean_mean_score", "attacked_mean_score", "change", "delta", "rate_of_means", "mean_of_rates")
    drawn = {name: [] for name in (*names, "raised_share", "places_gained", "standardized")}
    for counts in group_weights(9, 60, 3):
        rows = np.concatenate([np.flatnonzero(groups == g) for g in range(9) for _ in range(counts[g])])
        a, c = attacked[rows], clean[rows]
        drawn["clean_mean_score"].append(c.mean())
        drawn["attacked_mean_score"].append(a.mean())
        drawn["standardized"].append((a.mean() - c.mean()) / c.std())
        drawn["change"].append(a.mean() - c.mean())
        drawn["delta"].append(abs(a.mean() - c.mean()))
        drawn["rate_of_means"].append(abs(a.mean() - c.mean()) / c.mean())
        drawn["mean_of_rates"].append(abs(((a - c) / c).mean()))
        drawn["raised_share"].append((a > c).mean())
        drawn["places_gained"].append(places[rows][several[rows]].mean())
    for name, values in drawn.items():
        assert [found[f"{name}_low"], found[f"{name}_high"]] == pytest.approx(np.quantile(values, [0.025, 0.975]))


def test_nothing_is_relative_to_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = robustness(paired([0, 2], [1, 2], ["a", "b"]), ScoreRange(0, 4), resamples=50)
        none = robustness(paired([0, 0], [1, 2], ["a", "b"]), ScoreRange(0, 4), resamples=50)
        nobody = robustness(paired([], [], []), ScoreRange(0, 4))
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
    for record, base in zip(attacked, clean, strict=True):
        assert record["paired"] == 32
        assert record["change"] == pytest.approx(expected)
        assert record["change_low"] < expected < record["change_high"]
        assert record["clean_spearman"] == base["spearman"]
        assert record["spearman_change"] == pytest.approx(record["spearman"] - base["spearman"])
        assert record["clean_mean_score"] == pytest.approx(base["mean_score"])
    rho = stats.spearmanr(columns["score"][32:], columns["human"][32:])[0]
    assert attacked[0]["spearman"] == pytest.approx(rho)


def test_each_judge_range_defense_and_setting_has_its_own_base():
    others = [{"judge": "pair", "lambda": 0.5}, {"judge": "pair", "lambda": 1.0}, {"range_min": 0}, {"defense": "cap"}]
    parts = []
    for i, cell in enumerate(({}, *others)):
        parts.append(cells(lambda rng, n, up=i: scores(rng, n) + up / 10, **cell))
    found = [r["change"] for r in evaluate(joined(*parts), "m", ["dataset"], resamples=5) if r["attack"] == "dsi"]
    assert found == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_only_texts_of_both_sides_count():
    columns = cells(raised)
    kept = {name: column[5:] for name, column in columns.items()}  # five clean texts are missing
    record = evaluate(kept, "m", ["dataset"], resamples=20)[1]
    assert record["n"] == 32
    assert record["paired"] == 27
    assert record["change"] == pytest.approx(columns["score"][37:].mean() - columns["score"][5:32].mean())
    rho = stats.spearmanr(columns["score"][5:32], columns["human"][5:32])[0]
    assert record["clean_spearman"] == pytest.approx(rho)


def test_without_a_clean_base_nothing_is_told():
    (record,) = evaluate(table(scores, scores, attack="dsi"), "m", ["dataset"], resamples=20)
    assert record["paired"] == 0
    assert {record[name] for name in (*CHANGES, "clean_mean_score", "clean_spearman", "spearman_change")} == {None}


def test_texts_that_nobody_rated_count_in_the_change_alone():
    columns = cells(raised)
    columns["human"] = np.full(64, np.nan)
    record = evaluate(columns, "m", ["dataset"], resamples=20)[1]
    assert record["change"] is not None
    assert record["spearman_change"] is None
