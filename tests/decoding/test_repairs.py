"""Repairs: their laws, agreement with independent libraries and with brute force, and what they refuse."""

import statistics

import numpy as np
import pytest
import scipy
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.special import expit, log_softmax, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import judgebench
from judgebench.decoding import (
    Calibrated,
    Contrastive,
    Decoding,
    Expectation,
    Greedy,
    Median,
    NullContext,
    Ordinal,
    RangeMean,
    Ridge,
)
from judgebench.decoding.rules import Ranged
from judgebench.settings.components import build_component
from judgebench.words.errors import UserError
from tests.decoding.test_rules import CONF, INF, VALUES, decodings, finite_tables, logprobs, tables

counts = npst.arrays(np.int64, (5,), elements=st.integers(0, 9)).filter(lambda c: c.sum() % 2 == 1)


def texts(n=200, ranges=1, seed=0):
    """What two judges say of n texts in ranges 1-5, 2-6, ..., and human scores on 1-5, halves among them."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n)
    human = np.clip(np.round(6 + 2 * quality + rng.normal(size=n)) / 2, 1, 5)
    readings = []
    for number in range(ranges):
        main = quality[:, None] * np.linspace(-1, 1, 5) + rng.normal(size=(n, 5))
        readings.append(Ranged(log_softmax(main, axis=1), rng.normal(size=(n, 5)), VALUES + number))
    return readings, human


HUMAN = texts()[1]
ACROSS = Ridge(across=True).fitted(*texts(ranges=2))
LAWS = [Median(), NullContext(), NullContext("argmax"), RangeMean(Expectation())]
LEARNERS = [
    Ordinal(),
    Ridge(),
    Ridge("both", penalty=3.0),
    Calibrated(Expectation()),
    Calibrated(Median(), "isotonic"),
    Calibrated(Contrastive(0.5)),
]
EVERY = [*LAWS, *(learner.fitted(*texts()) for learner in LEARNERS)]
PLAIN = [Greedy(), Expectation(), Contrastive(0.5), Contrastive(0.5, alpha=0.1, rule="expectation")]


# All of them


@given(tables)
def test_scores_lie_within_the_range_and_rows_are_apart(main):
    for decoding in (*PLAIN, *EVERY):
        scores = decoding.scores(np.tile(main, (20, 1)), np.tile(main / 2, (20, 1)), VALUES)
        assert scores.dtype == np.float64
        assert ((scores >= 1) & (scores <= 5)).all()
        assert scores.tolist() == [decoding.scores(row[None], row[None] / 2, VALUES)[0] for row in main] * 20


@given(finite_tables, finite_tables, st.floats(-9, 9), st.floats(-9, 9))
def test_constants_of_a_row_do_not_matter(main, assistant, up, down):
    for decoding in EVERY:
        if decoding.kind == "null_context_calibration" and decoding.rule == "argmax":
            continue  # a tie turns by rounding
        if isinstance(decoding, Calibrated) and decoding.of.rule == "argmax":
            continue
        plain, moved = (decoding.scores(main + a, assistant + b, VALUES) for a, b in ((0, 0), (up, down)))
        assert moved == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("decoding", [*PLAIN, *EVERY], ids=lambda decoding: decoding.kind)
def test_without_an_answer_the_score_is_the_lowest(decoding):
    silent = np.full((2, 5), -INF)
    assert decoding.scores(silent, np.zeros((2, 5)), VALUES).tolist() == [1.0, 1.0]
    both = np.vstack([silent, np.zeros((1, 5))])
    alone = decoding.scores(np.zeros((1, 5)), np.zeros((1, 5)), VALUES)
    assert decoding.scores(both, np.zeros((3, 5)), VALUES).tolist() == [1.0, 1.0, *alone]


@pytest.mark.parametrize("decoding", EVERY, ids=lambda decoding: decoding.kind)
def test_a_card_can_hold_them(decoding):
    assert (decoding.learns, decoding.generates) == (False, False)
    again = build_component(yaml.safe_load(yaml.safe_dump(Calibrated(decoding).settings["of"])))
    assert again == decoding
    assert again.settings == decoding.settings


def test_texts_without_an_answer_or_a_human_score_teach_nothing():
    readings, human = texts(ranges=2)
    rows = np.arange(len(human)) % 3 > 0
    silent = [part._replace(main=np.where(np.arange(len(human))[:, None] % 6, part.main, -INF)) for part in readings]
    partly = np.where(np.arange(len(human)) % 6 == 3, np.nan, human)
    for learner in [*LEARNERS, Ridge(across=True), Calibrated(RangeMean(Expectation()))]:
        assert learner.fitted(silent, partly) == learner.fitted([part.at(rows) for part in readings], human[rows])


# Laws without learning


@given(counts)
def test_the_median_is_that_of_grouped_data(count):
    with np.errstate(divide="ignore"):
        found = Median().scores(np.log(count / count.sum())[None], None, VALUES)
    assert found[0] == pytest.approx(statistics.median_grouped(np.repeat(VALUES, count)))


@given(tables, st.data())
def test_null_context_calibration_is_the_contrast_at_kappa_one(main, data):
    null = data.draw(npst.arrays(np.float32, main.shape, elements=logprobs))
    for rule in ("expectation", "argmax"):
        for lambda_, temperature in ((1.0, 1.0), (3.0, 3.0)):
            law = Contrastive(lambda_, temperature, rule=rule).scores(main, null, VALUES)
            assert NullContext(rule).scores(main, null, VALUES).tobytes() == law.tobytes()


@given(npst.arrays(np.float64, (3, 3), elements=st.floats(-20, 0)))
def test_scores_of_three_places_say_how_much_of_a_tie_there_is(main):
    """As `judgebench.decoding.scores.decode` takes it from two sets of values."""
    more, less = (Median().scores(main - 9, None, np.array([0.0, tie, 4.0])) for tie in (3, 1))
    assert ((more - less >= -1e-9) & (more - less <= 2 + 1e-9)).all()


# Ordinal scaling


def splits(main, human):
    """Each text as K - 1 weighted pairs of outcomes, "at most k" and not: features, outcome and weight."""
    p = softmax(main, axis=1).cumsum(axis=1)[:, :-1]
    edges = p.shape[1]
    rows = np.hstack([np.log(p / (1 - p)).reshape(-1, 1), np.tile(np.eye(edges), (len(main), 1))])
    share = np.clip(np.arange(2, edges + 2) - human[:, None], 0, 1).ravel()
    return np.vstack([rows, rows]), np.repeat([1, 0], len(rows)), np.concatenate([share, 1 - share])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [2, 5])
def test_ordinal_scaling_is_the_logistic_regression_of_all_splits(seed, size):
    [part], human = texts(seed=seed)
    part, human = Ranged(part.main[:, :size], None, VALUES[:size]), np.clip(human, 1, size)
    found = Ordinal().fitted([part], human)
    rows, outcome, weight = splits(part.main, human)
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=10_000)
    model.fit(rows, outcome, sample_weight=weight)
    assert [found.slope, *found.thresholds] == pytest.approx(model.coef_[0], abs=1e-4)
    # the law of its scores, and that they have the humans' mean
    below = expit(np.array(found.thresholds) + found.slope * rows[: len(rows) // 2, 0].reshape(-1, size - 1))
    assert found.scores(*part) == pytest.approx(size - below.sum(axis=1))
    assert found.scores(*part).mean() == pytest.approx(human.mean(), abs=1e-6)


@given(finite_tables)
def test_slope_one_without_thresholds_is_the_expectation(main):
    scores = Ordinal(1.0, (0.0,) * 4).scores(main, None, VALUES)
    assert scores == pytest.approx(Expectation().scores(main, None, VALUES))


def test_what_a_judge_cannot_know_is_scaled_to_the_humans_mean():
    [part], human = texts()
    same = np.tile([0.0, 1.0, 2.0, 1.0, 0.0], (200, 1))
    for main in (same, -part.main):  # one that says the same of all texts, and one that has it backwards
        found = Ordinal().fitted([part._replace(main=main)], human)
        assert found.scores(main, None, VALUES) == pytest.approx(np.full(200, human.mean()), abs=1e-3)
    # levels that no human gave, and human scores outside of the range, have an end
    edge = Ordinal().fitted([part], np.where(human > 3, 9.0, 3.0))
    assert np.abs([edge.slope, *edge.thresholds]).max() <= 30
    assert edge.scores(part.main, None, VALUES).min() > 2.9


# Ridge


def features(readings, of):
    sides = [[part.main, part.assistant][: 1 + (of == "both")] for part in readings]
    return np.hstack([log_softmax(side, axis=1) for part in sides for side in part])


@pytest.mark.parametrize("of", ["judge", "both"])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("penalty", [None, 0.5, 300.0])
def test_ridge_is_scikit_learns(of, across, penalty):
    readings, human = texts(ranges=3)
    fresh, _ = texts(ranges=3, seed=1)
    used, unseen = (sides if across else sides[:1] for sides in (readings, fresh))
    model = SklearnRidge(penalty) if penalty else RidgeCV([1000, 100, 10, 1, 0.1])
    model = make_pipeline(StandardScaler(), model).fit(features(used, of), human)
    found = Ridge(of, across, penalty).fitted(readings, human)
    assert found.penalty == (penalty or model[-1].alpha_)
    expected = np.clip(model.predict(features(unseen, of)), 1, 5)
    assert found.scores_across(fresh) == pytest.approx(expected, abs=1e-9)
    assert found.needs_assistant == (of == "both")


def test_a_zero_is_the_smallest_probability_of_its_row():
    [part], human = texts()
    lowest = part.main.argmin(axis=1)
    holes = part.main.copy()
    holes[np.arange(200), lowest] = -INF
    filled = np.where(np.isneginf(holes), np.where(np.isneginf(holes), INF, holes).min(axis=1, keepdims=True), holes)
    for learner in (Ridge(), Ordinal()):
        gaps, whole = (learner.fitted([part._replace(main=main)], human) for main in (holes, filled))
        assert gaps.settings == whole.settings
        assert gaps.scores(holes, None, VALUES).tolist() == whole.scores(filled, None, VALUES).tolist()


def test_a_range_without_an_answer_counts_as_its_centers():
    readings, human = texts(ranges=2)
    found = Ridge(across=True).fitted(readings, human)
    part = found.scores_across([readings[0], readings[1]._replace(main=np.full((200, 5), -INF))])
    alone = found.intercept + (features(readings[:1], "judge") - found.center[:5]) @ np.array(found.weights[:5])
    assert part == pytest.approx(np.clip(alone, 1, 5))
    rows = np.arange(200) % 3 > 0
    partly = readings[1]._replace(main=np.where(rows[:, None], readings[1].main, -INF))
    found = Ridge(across=True).fitted([readings[0], partly], human)
    assert found.center[5:] == pytest.approx(features([readings[1].at(rows)], "judge").mean(axis=0))
    assert found.center[:5] == pytest.approx(features(readings[:1], "judge").mean(axis=0))


# Compositions


def test_a_line_is_the_regression_line_clipped_to_the_range():
    [part], human = texts()
    for inner in (Expectation(), Greedy(), Contrastive(0.3, rule="expectation")):
        scores = inner.scores(*part)
        line = scipy.stats.linregress(scores, human)
        found = Calibrated(inner).fitted([part], human)
        assert found.scores(*part) == pytest.approx(np.clip(line.intercept + line.slope * scores, 1, 5))
        assert found.needs_assistant == inner.needs_assistant
    means = RangeMean(Expectation())
    of_all, across = texts(ranges=3)[0], means.scores_across(texts(ranges=3)[0])
    line = scipy.stats.linregress(across, human)
    calibrated = Calibrated(means).fitted(of_all, human)
    assert calibrated.across
    assert calibrated.scores_across(of_all) == pytest.approx(np.clip(line.intercept + line.slope * across, 1, 5))
    falling = Calibrated(Expectation()).fitted([part], 6 - human)
    assert falling.scores(*part) == pytest.approx(np.full(200, (6 - human).mean()))
    constant = Calibrated(Greedy()).fitted([part._replace(main=np.zeros((200, 5)))], human)
    assert constant.scores(*part) == pytest.approx(np.full(200, human.mean()))


def test_isotonic_is_scikit_learns():
    [part], human = texts()
    [fresh], _ = texts(seed=1)
    scores, unseen = (Expectation().scores(each.main, None, VALUES) for each in (part, fresh))
    expected = IsotonicRegression(out_of_bounds="clip").fit(scores, human).predict(unseen)
    assert Calibrated(Expectation(), "isotonic").fitted([part], human).scores(*fresh) == pytest.approx(expected)


def test_the_mean_over_ranges_is_on_the_first():
    readings, _ = texts(ranges=3)
    for inner in (Expectation(), Median(), Contrastive(0.5)):
        mean, each = RangeMean(inner), [inner.scores(*part) - number for number, part in enumerate(readings)]
        assert mean.scores_across(readings) == pytest.approx(np.mean(each, axis=0))
        assert mean.scores_across(readings[1:]) == pytest.approx(np.mean(each[1:], axis=0) + 1)
        # a panel of one is that range; one that says the same in a range of another width adds nothing
        assert mean.scores_across(readings[:1]) == pytest.approx(each[0], abs=1e-12)
        wide = readings[0]._replace(values=10 * readings[0].values)
        assert mean.scores_across([readings[0], wide]) == pytest.approx(each[0])
        # a range without an answer is left out
        silent = readings[1]._replace(main=np.full((200, 5), -INF))
        assert mean.scores_across([readings[0], silent]) == pytest.approx(each[0])


# What they refuse


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NullContext("mean"), r"decoding\.null_context_calibration\.rule: 'mean' should be"),
        (lambda: Ridge("assistant"), r"decoding\.ridge\.of: 'assistant' should be 'judge' or 'both'"),
        (lambda: Ridge(penalty=0.0), r"decoding\.ridge\.penalty: 0\.0 should be greater than 0"),
        (lambda: Calibrated("expectation"), r"decoding\.calibrated\.of: 'expectation' should be .*Decoding"),
        (lambda: Calibrated(Greedy(), "cubic"), r"decoding\.calibrated\.shape: 'cubic' should be"),
        (lambda: Calibrated(Ridge()), r"decoding\.calibrated\.of: ridge learns from human scores"),
        (lambda: RangeMean(Ordinal()), r"decoding\.range_mean\.of: ordinal learns from human scores"),
        (lambda: Ridge(weights=[1.0]), r"decoding\.ridge: weights, center and intercept are learned together"),
        (lambda: Ridge(intercept=0.0, weights=[1.0], center=[1.0, 2.0]), "ridge: weights, center .* give all that fit"),
        (lambda: Ordinal(thresholds=[0.0]), "ordinal: thresholds and slope are learned together"),
        (lambda: Calibrated(Greedy(), knots=[], levels=[]), "calibrated: levels and knots are learned together"),
    ],
)
def test_wrong_settings_are_refused_by_the_name_of_their_key(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_learners_need_human_scores(learner):
    readings, human = texts()
    assert (learner.learns, learner.taught, learner.fitted(readings, human).learns) == (True, True, False)
    with pytest.raises(ValueError, match=f"{learner.kind} must be fitted"):
        learner.scores(*readings[0])
    with pytest.raises(UserError, match=f"{learner.kind}: 1 rated texts with an answer are too few"):
        learner.fitted([part.at(np.arange(1)) for part in readings], human[:1])


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (
            lambda one, two: Ridge("both").fitted([one._replace(assistant=None)], HUMAN),
            ValueError,
            "assistant must have",
        ),
        (lambda one, two: NullContext().scores(one.main, one.assistant[:1], VALUES), ValueError, "same shape"),
        (lambda one, two: Median().scores(np.nan * one.main, None, VALUES), ValueError, "main must be free of NaN"),
        (
            lambda one, two: Median().next_token(None, None),
            UserError,
            "median with rule median cannot choose the tokens",
        ),
        # what was learned of other candidates is not stretched
        (lambda one, two: ACROSS.scores_across([one]), UserError, "weights: 10 numbers, and here they must be 5"),
        (lambda one, two: Ordinal(1.0, [0.0]).scores(*one), UserError, "1 numbers, .* be 4; .* another range"),
        (lambda one, two: Ridge(intercept=0.0, weights=[1.0], center=[0.0]).scores(*one), UserError, "must be 5"),
    ],
)
def test_what_does_not_fit_is_refused(use, error, message):
    with pytest.raises(error, match=message):
        use(*texts(ranges=2)[0])


NAMES = sorted({file.stem for file in (CONF / "decoding").glob("*.yaml")} - {"repairs"})  # a list of them


def test_each_file_of_the_configuration_makes_one():
    found = decodings(f"+decoding=[{','.join(NAMES)}]")
    assert sorted(found) == NAMES
    assert all(isinstance(decoding, Decoding) for decoding in found.values())
    assert found["calibrated"] == Calibrated(Expectation())


@pytest.mark.slow
def test_a_run_scores_by_each_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = "+decoding.all={_target_: judgebench.decoding.Ridge, of: both, across: true}"
    quick = ["report=false", "human_agreement=false", "metrics={resamples: 2, levels: [dataset]}", "tune.repeats=1"]
    chosen = [f"decoding=[{','.join(NAMES)}]", both, "ranges=[[0,4],[1,5]]", "data.limit_groups=12"]
    results = judgebench.run(["+exp=demo", "tune=crossfit", *chosen, *quick, "run_dir=run"])
    # those that need an assistant score the pair, and those across the ranges score in one range alone
    sizes = results.scores.groupby(["judge", "decoding"], observed=True)["score"].size()
    assert {*sizes["main"].index, *sizes["pair"].index} == {*NAMES, "all"}
    assert {*sizes["pair"].index} == {"all", *(name for name in NAMES if name.startswith(("contr", "null")))}
    assert not {"ordinal", "ridge", "calibrated"} & {*sizes["assistant"].index}
    assert {name for (_, name), size in sizes.items() if size == sizes.min()} == {"all", "range_mean"}
    (learned,) = (row["settings"] for row in results.choice if (row["decoding"], row["range_min"]) == ("all", 0))
    assert build_component({"_target_": "judgebench.decoding.Ridge", **learned}).taught
    # a learner is refused where the texts that it is measured on would teach it
    with pytest.raises(UserError, match=r"ridge: learns from human scores.* take tune=crossfit"):
        judgebench.run(["+exp=demo", "decoding=[ridge]"])
    with pytest.raises(UserError, match="this prompt compares two"):
        judgebench.run(["+exp=demo_live", "prompt=comparative", "decoding=[ridge]", "tune=crossfit"])
