"""The choice of a setting: the rule against every flip by hand, what it never takes, and that nothing which is held out
is looked at, in scores, in the choice and in its promise."""

import json
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr

from judgebench.decoding import Contrastive, Expectation, Greedy, Ordinal
from judgebench.decoding.rules import Ranged
from judgebench.decoding.scores import decode
from judgebench.stats.correlation import influences, pearson, spearman
from judgebench.stats.folds import by_other_folds, deal_folds
from judgebench.studies.scores import Scores
from judgebench.tuning import CrossFit, learned
from judgebench.tuning.choose import LEVEL, Candidates, choice_records, choose, worth_of
from judgebench.tuning.learned import Learner, Tuned
from judgebench.tuning.tune import cross_fit
from judgebench.types import Condition, Example, Prompt, Reading, ScoreRange
from judgebench.words.errors import UserError

GRID = CrossFit().grid
FIVE = np.arange(1.0, 6.0)


def judged(articles=12, settings=4, seed=0, noise=0.6, texts=4):
    """Scores [N, S] of one judge with another noise in each setting, of the humans [N], and articles [N]."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"a{number:02}" for number in range(articles)], texts)
    human = np.round(rng.normal(3, 1, len(groups)), 1)
    judge = human + rng.normal(0, 1, len(groups))
    return judge[:, None] + noise * rng.normal(size=(len(groups), settings)), human, groups


def paired(articles=10, seed=0):
    """Learners of kappa by expectation and argmax; the main model leans to its assistant's favorites."""
    rng, values = np.random.default_rng(seed), np.arange(1.0, 6.0)
    groups = np.repeat([f"a{number:02}" for number in range(articles)], 4)
    human, favorite = (3 + rng.normal(0, 1, len(groups)) for _ in range(2))
    assistant = -((values - favorite[:, None]) ** 2) / 2
    main = assistant / 2 - (values - human[:, None] - rng.normal(0, 1, len(groups))[:, None]) ** 2 / 2
    readings = Ranged(main, assistant, values)
    rules = Contrastive(0.0, rule="expectation"), Contrastive(0.0)
    return [Learner(rule, [readings], human, groups, GRID) for rule in rules], human, groups


def candidates(learners, human, groups, **more):
    """The plain expectation and argmax, then each learner."""
    plain = [rule.scores(*learners[0].readings[0]) for rule in (Expectation(), Greedy())]
    scores = np.stack([*plain, *plain], axis=1)
    return Candidates(scores, dict(enumerate(learners, start=2)), human, groups, **more)


# The worth of settings


@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_an_influence_is_what_more_of_a_text_changes_and_shares_average_to_the_worth(metric):
    scores, human, groups = judged()
    scores[:, 1], scores[:, 2] = np.round(scores[:, 1]), 0.1  # ties; constant
    values, change = influences(scores, human, metric == "spearman")
    of_one = spearman if metric == "spearman" else pearson
    assert values == pytest.approx([of_one(scores[:, i], human) for i in range(4)], abs=1e-12)
    times = 400
    for text, setting in product(range(0, len(human), 5), range(4)):
        more = np.concatenate([np.tile(np.arange(len(human)), times), [text]])
        moved = of_one(scores[more, setting], human[more]) - values[setting]
        assert times * moved == pytest.approx(change[text, setting], abs=2e-3)
    assert change.sum(axis=0) == pytest.approx(0, abs=1e-12)
    assert (change[:, 2] == 0).all()
    assert worth_of(metric, scores, human, groups).mean(axis=0) == pytest.approx(values, abs=1e-12)


# The rule


def by_hand(shares, level):
    """True for settings whose gain, in its own spread, at most so many of all flips reach with any setting."""
    gain = shares - shares[:, :1]
    size = np.where(np.abs(gain).max(axis=0) > 0, np.sqrt((gain**2).mean(axis=0)), np.inf)
    signs = np.array(list(product([1, -1], repeat=len(shares))))
    largest = (signs @ gain / len(shares) / size).max(axis=1)
    p = (largest[:, None] >= gain.mean(axis=0) / size - 1e-12).mean(axis=0)
    return (p <= level) & (gain.mean(axis=0) > 0)


@pytest.mark.parametrize("seed", range(4))
def test_the_better_settings_are_those_of_all_flips(seed):
    rng = np.random.default_rng(seed)
    shares = rng.normal(0.5, 0.2, (9, 1)) + rng.normal([0, 0.1, 0.15, -0.1], [0, 0.1, 0.1, 0.1], (9, 4))
    choice = choose(shares)
    assert choice.better.tolist() == by_hand(shares, 0.05).tolist()
    assert choice.gain == pytest.approx((shares - shares[:, :1]).mean(axis=0))
    assert choice.error == pytest.approx((shares - shares[:, :1]).std(axis=0, ddof=1) / 9**0.5)
    competing = by_hand(shares, LEVEL)
    competing[0] = not competing.any()
    assert choice.taken == np.argmax(np.where(competing, shares.mean(axis=0), -np.inf))


def test_the_best_of_the_settings_that_compete_is_taken():
    wave = 0.05 * np.array([1.0, -1, 1, -1, 1, -1, 1, -1])[:, None]
    shares = 0.5 + np.hstack([0 * wave, 0.2 + wave, 0.21 - wave, 0.215 - wave, 0.4 + wave / 50])
    assert choose(shares[:, :4]).taken == 3
    assert choose(shares).taken == 4, "clearly the best, though the least simple"
    assert choose(np.delete(shares, 4, axis=1) * [1, -1, -1, -1]).taken == 0, "all others are worse"
    assert choose(shares[:, [0, 4, 4]]).taken == 1, "of equals the simpler"
    assert choose(shares, kind=[0, 0, 0, 0, 1]).taken == 4
    assert choose(shares[:, :4], kind=[0] * 4).taken == 3, "as simple as the plain one: the best, which claims nothing"


def test_nothing_gained_takes_the_plain_setting():
    scores, human, groups = judged()
    assert choose(worth_of("spearman", scores[:, [0, 0, 0]], human, groups)).taken == 0, "all are the same"
    assert choose(worth_of("spearman", np.stack([human, scores[:, 0]], axis=1), human, groups)).taken == 0
    shares = np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.9], [0.2, 0.9]])
    assert not choose(shares).better.any(), "four articles show no difference at 5 %"
    assert choose(shares).taken == 1, "and are all that is known of it"
    assert choose(shares[:1]).taken == 0, "one article has no second to doubt it by"
    assert np.isnan(choose(shares[:1]).error).all()


@pytest.mark.parametrize("metric", ["spearman", "error"])
def test_one_score_for_all_texts_is_not_taken_where_another_setting_tells_them_apart(metric):
    _, human, groups = judged()
    noise = np.random.default_rng(5).normal(size=(len(human), 2))
    scores = np.column_stack([0.3 + 0 * human, noise - human[:, None]])
    for order in ([0, 1, 2], [1, 0, 2]):
        among = Candidates(scores[:, order], {}, human, groups, metric)
        choice = among.choose(np.ones(len(human), dtype=bool), among.scores)
        assert order[choice.taken] == 1
        assert order[choice.best] != 0
    assert choose(np.zeros((6, 2)), varied=np.zeros(2, dtype=bool)).taken == 0, "there is nothing else"


@pytest.mark.parametrize(("articles", "noise"), [(6, 0.6), (12, 0.6), (12, 0.01)])
def test_chance_shows_a_better_setting_in_five_per_cent_and_takes_another_as_often_as_the_level_says(articles, noise):
    choices = [choose(worth_of("spearman", *judged(articles, 12, seed, noise))) for seed in range(200)]
    for level, found in ((0.05, [choice.better.any() for choice in choices]), (LEVEL, [c.taken > 0 for c in choices])):
        assert np.mean(found) <= level + 2 * (level * (1 - level) / 200) ** 0.5


# What is held out


@dataclass(frozen=True)
class Watched(Candidates):
    """Keeps what each fold of a promise has taken and scored."""

    seen: dict = field(default_factory=dict)

    def choose(self, rows, scores):
        choice = super().choose(rows, scores)
        self.seen[rows.tobytes()] = choice.taken, scores[~rows]
        return choice


@pytest.mark.parametrize("seed", range(3))
def test_scores_and_choice_of_a_fold_do_not_change_with_its_own_human_scores(seed, monkeypatch):
    monkeypatch.setattr(learned, "DEALINGS", 1)  # which of several is shown takes all scores
    learners, human, groups = paired(seed=seed)
    fold = deal_folds(groups, 3, 0)
    changed = np.where(fold == 1, 6 - human, human)
    others = [Learner(learner.decoding, learner.readings, changed, groups, GRID) for learner in learners]
    # the scores that are reported
    for before, after in zip(learners, others, strict=True):
        names, held_out = groups[fold == 1], [part.at(fold == 1) for part in before.readings]
        scores = [side.folded(3, 0).scores_of(names, held_out) for side in (before, after)]
        assert (scores[0] == scores[1]).all()
        assert before.learn(fold != 0).kappa != after.learn(fold != 0).kappa, "the others' do"
    # the promise: twice as many folds, of which each learns and chooses within the others
    seen = []
    for of, rated in ((learners, human), (others, np.where(deal_folds(groups, 6, 7) == 1, 6 - human, human))):
        again = [Learner(learner.decoding, learner.readings, rated, groups, GRID) for learner in of]
        plain = candidates(again, rated, groups)
        watched = Watched(plain.scores, plain.learners, rated, groups)
        watched.promise(3, 1, 0, 7)
        seen.append(watched.seen)
    rows = (deal_folds(groups, 6, 7) != 1).tobytes()
    assert len(seen[0]) == 6
    assert seen[0][rows][0] == seen[1][rows][0]
    assert (seen[0][rows][1] == seen[1][rows][1]).all()
    assert any((seen[0][key][1] != seen[1][key][1]).any() for key in seen[0] if key != rows)


def readings_of(articles=5, defense="none", human=None):
    """Two texts an article, of which a defense changes the readings."""
    rng = np.random.default_rng(3)
    found = []
    for number in range(2 * articles):
        score = float(rng.integers(1, 6)) if human is None else human[number]
        example = Example(f"t{number}", f"a{number // 2}", "s", "An article.", "A text.", {"quality": score})
        condition = Condition("quality", ScoreRange(1, 5), defense=defense)
        logs = [tuple(row) for row in np.log(rng.dirichlet(np.ones(5), 2)).astype(np.float32)]
        logs = logs[::-1] if defense != "none" else logs
        found.append(Reading(Prompt(example, condition, "", "", np.zeros(1)), "test", *logs))
    return found


DECODINGS = {"expectation": Expectation(), "contrastive": Contrastive(0.0)}


def records_of(readings, tuner, decodings=DECODINGS):
    tuned = cross_fit(readings, decodings, tuner, {"quality": (1, 5)})
    scores = Scores.of(decode(readings, decodings, tuned.decodings))
    return choice_records(scores, "d", decodings, tuned, tuner, {"quality": (1, 5)}, 20), tuned, scores


def test_a_defended_text_is_decoded_by_what_clean_texts_of_other_folds_taught():
    readings = [*readings_of(), *readings_of(defense="cautious")]
    records, tuned, scores = records_of(readings, CrossFit(folds=3))
    assert [(record["defense"], record["decoding"]) for record in records] == [
        *(("none", "expectation"), ("cautious", "expectation"), ("none", "contrastive"), ("cautious", "contrastive")),
    ]
    clean, defended = (
        tuned.learners["quality", ScoreRange(1, 5), name]["contrastive"][0] for name in ("none", "cautious")
    )
    rows = np.arange(10) < 6
    assert defended.learn(rows) == clean.learn(rows)
    assert (defended.scores(rows) == clean.learn(rows).scores(*defended.shown[0])).all()
    # learned once more for the choice they are the scores of the run
    (cell,) = (cell for cell in scores.cells if (cell.defense, cell.decoding) == ("cautious", "contrastive"))
    again = defended.folded(3, 0).scores_of(defended.groups.tolist(), defended.shown)
    assert (again == scores.part(cell)["score"]).all()


def test_the_dealing_with_the_median_agreement_is_shown():
    (learner, *_), human, groups = paired(seed=1)
    found = []
    for seed in range(11):
        scores = by_other_folds(deal_folds(groups, 3, seed), lambda taught, asked: learner.scores(taught)[asked])
        found.append(spearmanr(scores, human).statistic)
    shown = learner.folded(3, 0).scores_of(groups.tolist(), learner.readings)
    assert spearmanr(shown, human).statistic == pytest.approx(np.median(found))
    assert np.ptp(found) > 0.001


# What is left out


def test_a_decoding_with_too_few_answered_texts_to_learn_from_is_left_out_with_the_reason():
    silent = (-np.inf,) * 5
    readings = [
        Reading(one.prompt, "test", one.main_logprobs if number < 2 else silent, one.assistant_logprobs)
        for number, one in enumerate(readings_of(5))
    ]
    records, tuned, scores = records_of(readings, CrossFit(), DECODINGS | {"ordinal": Ordinal()})
    assert {record["decoding"] for record in records} == {"expectation", "contrastive"}
    assert {cell.decoding for cell in scores.cells} == {"expectation", "contrastive"}
    (taken,) = (record for record in records if record["taken"])
    assert taken["left_out"] == tuned.left_out["quality"]
    assert taken["left_out"][0].startswith("in range 1-5 decoding.ordinal: 0 rated texts with an answer are too few")
    with pytest.raises(UserError, match="too few to learn from"):
        records_of(readings, CrossFit(), {"ordinal": Ordinal()})
    assert not records_of(readings_of(5), CrossFit(), DECODINGS | {"ordinal": Ordinal()})[1].left_out


@pytest.mark.parametrize("seed", range(8))
def test_no_two_folds_leave_a_learner_fewer_texts_than_were_tried(seed):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(rng.integers(2, 25)).astype(str), 2)
    answered = rng.random(len(groups)) < 0.3
    main = np.where(answered[:, None], 0.0, -np.inf) * np.ones(5)
    learner = Learner(Expectation(), [Ranged(main, None, FIVE)], np.ones(len(groups)), groups, GRID)
    tried = answered[learner.scarce(5)].sum()
    folds, twice = deal_folds(groups, 5, seed), deal_folds(groups, 10, seed + 1)
    assert all(answered[(folds != one) & (twice != other)].sum() >= tried for one in range(5) for other in range(10))


# The promise


@pytest.mark.parametrize("sign", [1, -1])
def test_a_setting_that_every_fold_takes_promises_its_own_agreement(sign):
    scores, human, groups = judged(settings=2)
    among = Candidates(sign * np.column_stack([scores[:, 0], 0 * human]), {}, human, groups)
    promise = among.promise(5, 3, 200, 0)
    assert promise["taken"].tolist() == [1, 0]
    assert promise["spearman"] == pytest.approx(spearman(sign * scores[:, 0], human), abs=1e-12)
    assert promise["pearson"] == pytest.approx(pearson(sign * scores[:, 0], human), abs=1e-12)
    assert promise["spearman_low"] < promise["spearman"] < promise["spearman_high"]
    # its straight line comes from other folds: the error is above that of the line of all texts
    straight = -float(worth_of("error", among.scores[:, :1], human, groups).mean())
    assert straight < promise["error"] < 1.3 * straight


# Refusals


def test_one_article_is_refused_and_two_are_enough():
    plain = {"expectation": Expectation()}
    alone = Scores.of(decode(readings_of(1), plain))
    refused = "humans rated texts of 1 article on quality, and a choice needs two at least, .* rate texts of more"
    for work in (
        lambda: cross_fit(readings_of(1), DECODINGS, CrossFit(), {}),
        lambda: choice_records(alone, "d", plain, Tuned(), CrossFit(), {}, 0),
    ):
        with pytest.raises(UserError, match=refused):
            work()
    records, _, _ = records_of(readings_of(2), CrossFit())
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert [record["taken"] for record in records] == [True, False]
