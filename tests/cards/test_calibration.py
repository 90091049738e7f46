"""The map from its scores to the humans' scale, its figures and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.cards.calibration import (
    Labelled,
    check_classes,
    decision_of,
    estimate_errors,
    fit,
    fit_errors,
    limits,
)
from judgebench.cards.card import Errors, EstimateMap
from judgebench.settings.costs import Costs
from judgebench.stats.clusters import group_weights
from judgebench.stats.conformal import LEVEL
from judgebench.types import Classes, ScoreRange
from judgebench.words.errors import UserError
from tests.cards.test_card import DECISION


def test_classes_without_order_choose_no_judge():
    classes = {"tone": Classes(("red", "green"), ordered=False), "quality": Classes(("fail", "pass"), 1.0)}
    check_classes(classes, ["quality", "other"])
    with pytest.raises(UserError, match="the classes of tone have no order, so no judge can be chosen by them"):
        check_classes(classes, ["tone"])


def test_the_decision_of_a_card_is_the_record_of_its_judge():
    record = {"classes": ["bad", "good"], **{name: DECISION[name] for name in DECISION if name not in ("fail", "pass")}}
    record |= {"ask_aim": 0.05, "rater_error": 0.2, "ask_lowest": 0.04}
    expected = DECISION | {"fail": "bad", "pass": "good", "rater_error": 0.2, "lowest": 0.04}
    assert decision_of(record, Costs(false_pass=5.0)) == expected, "its aim is a number"


RANGE, TO_FIVE = ScoreRange(0, 10), ScoreRange(1, 5)


def rated(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 10, n)
    return scores, np.clip(2 + 0.2 * scores + rng.normal(0, 0.5, n), 1, 5)


@given(st.integers(0, 1000))
def test_the_maps_are_those_of_least_squares_within_the_humans_scale(seed):
    scores, humans = rated(seed)
    slope, intercept = np.polyfit(scores, humans, 1)
    at = np.linspace(0, 10, 101)
    line = fit("linear", scores, humans, RANGE, (1, 5))
    assert np.abs(line(at) - np.clip(intercept + slope * at, 1, 5)).max() < 1e-9
    isotonic = fit("isotonic", scores, humans, RANGE, (1, 5))
    assert (np.diff(isotonic(at)) >= 0).all()
    assert isotonic(scores).mean() == pytest.approx(humans.mean())


def test_it_bends_where_it_would_leave_the_humans_scale():
    line = fit("linear", np.array([0.0, 1, 2, 3]), np.array([0.0, 2, 4, 6]), RANGE, (1, 5))
    assert (line.scores, line.humans) == ((0, 0.5, 2.5, 10), (1, 1, 5, 5))


@pytest.mark.parametrize("kind", ["linear", "isotonic"])
@pytest.mark.parametrize(("scores", "humans"), [([1, 2, 3], [3, 2, 1]), ([1, 2, 3], [2, 2, 2]), ([2, 2], [1, 5])])
def test_humans_that_do_not_rise_with_the_judge_have_no_map(kind, scores, humans):
    assert fit(kind, np.array(scores, float), np.array(humans, float), RANGE, (1, 5)) is None


@pytest.mark.parametrize(("scores", "humans"), [((1, 2), (1,)), ((2, 1), (1, 2)), ((1, 2), (2, 1)), ((), ())])
def test_knots_that_are_no_map_are_refused(scores, humans):
    with pytest.raises(UserError, match="knots"):
        EstimateMap("linear", scores, humans)


def frame(scores, humans, groups, kind="linear", scale=(1, 5), seed=0, given=TO_FIVE):
    return Labelled(np.array(scores), np.array(humans), np.array(groups), kind, given, scale, seed)


def test_errors_by_hand():
    """Two articles, one fold each: a line through the other article's two texts, and its mean."""
    rows = frame([1.0, 3.0, 1.0, 2.0], [2.0, 4.0, 1.0, 4.0], ["a", "a", "b", "b"])
    errors = estimate_errors(rows, 200)
    # a by b's line 3 score - 2, within 1 to 5: 1, 5; b by a's line score + 1: 2, 3
    assert errors["mean_absolute_error"] == pytest.approx((1 + 1 + 1 + 1) / 4)
    assert errors["guess_error"] == pytest.approx((0.5 + 1.5 + 2 + 1) / 4)
    assert errors["gain"] == pytest.approx(0.25)
    assert errors["bias"] == pytest.approx((-1 + 1 + 1 - 1) / 4)
    assert (errors["coverage"], errors["width"], errors["narrower"]) == (1, 4, 0), "of one article the whole scale"
    # either line is exact where it was learned, so the usual error is 1 point
    assert fit_errors(rows)[1].errors == (1, 1, 1, 1)
    assert "brier" not in errors


def test_a_brier_score_by_hand():
    """Of a text with the labels pass and fail, each counts a half."""
    rows = frame([1.0, 3.0, 1.0, 3.0], [0.0, 1.0, 0.0, 0.5], ["a", "a", "b", "b"], scale=(0, 1))
    errors = estimate_errors(rows, 0, chances=True)
    # a by b's line: 0, .5; b by a's line: 0, 1
    assert errors["brier"] == pytest.approx((0 + 0.25 + 0 + (0 + 1) / 2) / 4)
    # a by b's mean .25; b by a's .5
    assert errors["guess_brier"] == pytest.approx((0.0625 + 0.5625 + 0.25 + 0.25) / 4)


def test_errors_equal_a_plain_loop_over_the_same_resamples():
    rng = np.random.default_rng(0)
    groups = np.repeat([f"g{i}" for i in range(6)], 5)
    rows = frame(rng.uniform(1, 3, 30), rng.uniform(1, 5, 30), groups, "none", seed=3, given=ScoreRange(1, 3))
    errors = estimate_errors(rows, 500, folds=6)
    human = rows.humans.reshape(6, 5)
    error = np.abs(np.array([(human.sum() - human[g].sum()) / 25 for g in range(6)])[:, None] - human)
    drawn = [np.repeat(error, weights, axis=0).mean() for weights in group_weights(6, 500, 3)]
    low = stats.norm.cdf(np.sqrt(6 / 5) * stats.t.ppf(0.025, 5))
    assert errors["guess_error_low"] == pytest.approx(np.quantile(drawn, low), abs=1e-9)
    assert errors["guess_error_high"] == pytest.approx(np.quantile(drawn, 1 - low), abs=1e-9)


# --- intervals of single texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
@given(st.integers(0, 10_000))
def test_where_nothing_is_learned_coverage_is_exact(level, seed):
    """Of articles in a bag, each is as likely as the others to be the new one: one text each, the share of those that
    lie inside is the next of 1 / n, 2 / n ... above the level; with several texts at least the level."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 12)
    for group in (np.arange(12), np.repeat(np.arange(12), sizes)):
        estimates, spread = rng.uniform(1, 5, len(group)), (0.2, 0.3, 0.4)
        usual = Errors(spread).usual(estimates)
        off = rng.normal(size=12)[group] + rng.normal(size=len(group))
        inside = np.empty(12)
        for new in range(12):
            seen, here = group != new, group == new
            errors = Errors(spread, tuple(np.abs(off)[seen]), tuple(group[seen]))
            low, high = errors.ends(estimates[here], level, (-99, 99))
            human = (estimates + off * usual)[here]
            inside[new] = ((low <= human) & (human <= high)).mean()
        if len(group) == 12:
            assert inside.mean() == np.ceil(12 * level - 1e-9) / 12
        assert inside.mean() >= level - 1e-9


def test_intervals_of_texts_that_people_rate_low_may_hold_less_than_all():
    rng = np.random.default_rng(0)
    humans = np.where(rng.random(400) < 0.1, 2.0, 5.0)
    errors = estimate_errors(frame(4.5 + 0.1 * rng.normal(size=400), humans, np.arange(400)), 200)
    assert errors["coverage"] >= 0.88
    assert errors["low_share"] == pytest.approx((humans < 3).mean())
    assert errors["low_coverage_high"] < LEVEL


def test_intervals_are_those_of_crepes():
    crepes = pytest.importorskip("crepes", reason="the library crepes is not installed")
    rng = np.random.default_rng(0)
    estimates, off, spread = rng.uniform(1, 5, 60), rng.normal(size=60), (0.3, 0.2, 0.5)
    usual = Errors(spread).usual(estimates)
    errors = Errors(spread, tuple(np.abs(off / usual)), tuple(range(60)))
    library = crepes.ConformalRegressor()
    library.fit(residuals=off, sigmas=usual)
    theirs = library.predict_int(y_hat=estimates, sigmas=usual, confidence=0.9, y_min=1, y_max=5)
    assert np.stack(errors.ends(estimates, 0.9, (1, 5)), axis=1) == pytest.approx(theirs, abs=1e-10)


def simulated(seed: int, articles: int, texts: int = 4) -> tuple[Labelled, np.ndarray]:
    """A judge that knows half of what humans say, and is surer of good texts; articles share an error."""
    rng, group = np.random.default_rng(seed), np.repeat(np.arange(articles), texts)
    scores = rng.uniform(0, 10, len(group))
    noise = rng.normal(0, 0.3, articles)[group] + rng.normal(0, 1, len(group)) * (1.1 - 0.1 * scores)
    return frame(scores, np.clip(2 + 0.25 * scores + noise, 1, 5), group, given=RANGE), group


def test_what_is_learned_keeps_coverage_of_new_articles_and_narrows_where_the_judge_is_sure():
    inside, widths = [], []
    for seed in range(100):
        rated, group = simulated(seed, 21)
        new = group == 20
        estimate, errors = fit_errors(rated.at(~new))
        low, high = errors.ends(estimate(rated.scores[new]), 0.9, (1, 5))
        inside.append(np.mean((low <= rated.humans[new]) & (rated.humans[new] <= high)))
        widths.append(errors.usual(np.array([2.0, 4.0])))
    assert 0.89 < np.mean(inside) < 0.97
    assert np.mean(widths, axis=0)[0] > 1.5 * np.mean(widths, axis=0)[1]
    measured = estimate_errors(simulated(0, 60)[0], 0)
    assert measured["coverage"] > 0.85
    assert measured["narrower"] == pytest.approx(1 - measured["width"] / measured["constant_width"])
    assert measured["narrower"] > 0.1


def test_out_of_fold_errors_are_those_of_a_plain_loop():
    rated, group = simulated(1, 5)
    _, errors = fit_errors(rated)
    for one in range(5):  # five articles, five folds
        kept, out = group != one, group == one
        line = np.polyfit(rated.scores[kept], rated.humans[kept], 1)
        said, here = (np.clip(np.polyval(line, rated.scores[rows]), 1, 5) for rows in (kept, out))
        off = np.abs(said - rated.humans[kept])
        usual = np.maximum(np.polyval(np.polyfit(said, off, 1), here), off.mean() / 2)
        at = np.array(errors.articles) == one
        expected = np.sort(np.abs(here - rated.humans[out]) / usual)
        assert np.sort(np.array(errors.errors)[at]) == pytest.approx(expected, abs=1e-5)


def test_a_card_holds_few_errors_of_many_texts_and_none_of_one_article():
    rated, _ = simulated(0, 400)
    kept = fit_errors(rated)[1]
    assert (len(kept.errors), len(kept.articles)) == (1000, 1000)
    assert set(zip(kept.articles, kept.errors, strict=True)) <= set(_all_errors(rated))
    alone = fit_errors(simulated(0, 1)[0])[1]
    assert alone.errors == ()
    assert [end.tolist() for end in alone.ends(np.array([3.0]), 0.5, (1, 5))] == [[1.0], [5.0]]


def _all_errors(rated):
    error, usual = rated.cross_fitted()
    _, number = np.unique(rated.groups, return_inverse=True)
    return zip(number.tolist(), np.abs(error / usual).round(6).tolist(), strict=True)


def sentences(test, tried=(), estimate=None, wanted="none", decision=None, score_range=None):
    figures = {"promised": {name: test[name] for name in ("spearman", "spearman_low", "spearman_high")}, "test": test}
    data = {"name": "mine", "groups_are": "articles"}
    return "\n".join(limits(tried, figures, estimate, wanted, data, decision, score_range))


def setting(decoding, worth, **changes):
    base = {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "defense": "none", "metric": "spearman"}
    return base | {"decoding": decoding, "worth": worth, "share": 0.8, "taken": False, "best": False} | changes


GOOD = {"spearman": 0.5, "spearman_low": 0.4, "spearman_high": 0.6, "groups": 50, "flags": [], "failed_share": 0.0}
WIDE = {"width": 3.2, "narrower": 0.04, "narrower_low": 0.01, "coverage": 0.91}
MAP = EstimateMap("linear", (1.0,), (1.0,))
TRIED = [setting("expectation", 0.69, taken=True), setting("contrastive", 0.716, best=True)]
LIMITS = {
    "has no interval": {"test": {**GOOD, "spearman_low": None}},
    "among 2 settings: the one that is likeliest to be better than the simplest, else the simplest; 80 % of": {
        "tried": TRIED
    },
    "contrastive in range 1-5 would have promised spearman 0.716 on these texts, instead of 0.690": {"tried": TRIED},
    "Chance may give the best of so many its lead of 0.020 (standard error 0.030).": {
        "tried": [
            setting("expectation", 0.69),
            setting("contrastive", 0.71, taken=True, best=True, gain=0.02, gain_se=0.03, better=False),
        ]
    },
    "chosen by 8 articles": {"test": {**GOOD, "groups": 8}},
    "It is flagged unstable: Spearman depends on the": {"test": {**GOOD, "flags": ["unstable"]}},
    "no score to 10 %": {"test": {**GOOD, "failed_share": 0.1}},
    "do not rise": {"wanted": "linear"},
    "90 % intervals of single texts are 3.20 wide, hardly narrower than a constant's (4 %)": {"test": GOOD | WIDE},
    "of texts that people pass it passes 92 % [85, 96]; of those that they fail it fails 81 %.": {"decision": DECISION},
    "With the pass mark 2.5 or lower, of texts": {
        "decision": DECISION | {"pass_mark": 3.5},
        "score_range": ScoreRange.parse([5, 1]),
    },
    "With the pass mark good, of texts": {
        "decision": DECISION | {"pass_mark": 1.5},
        "score_range": ScoreRange.parse(["bad", "good"]),
    },
    "No band of scores keeps mistakes below 5 %: a person must see every text. force=true decides by the pass": {
        "decision": DECISION
    },
    "It leaves 23 % of the texts to a person, so that": {"decision": DECISION | {"fail_to": 1.0, "asked": 0.23}},
    "Of texts that people rate worse than the middle of their scale, 12 % here, they hold 47 %": {
        "test": GOOD | WIDE | {"low_coverage": 0.47, "low_coverage_high": 0.6, "low_share": 0.12}
    },
    "3.20 wide, narrower than a constant's (14 %) and hold 91 % of": {"test": GOOD | WIDE | {"narrower": 0.14}},
}


@pytest.mark.parametrize("sentence", LIMITS)
def test_the_limits_say_what_the_figures_do(sentence):
    fine = {"test": GOOD, "wanted": "linear", "estimate": MAP}
    assert sentence in sentences(**({"test": GOOD} | LIMITS[sentence]))
    assert sentences(**fine) == "All of this holds for texts as those of mine; for others, calibrate again."
