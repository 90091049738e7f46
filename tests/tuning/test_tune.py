"""Tuning: each way of choosing, checked against decoding everything again; grids; what is refused."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from judgebench.decoding import Contrastive, Expectation, Greedy
from judgebench.decoding.scores import decode
from judgebench.stats.correlation import spearman
from judgebench.studies.evaluate import evaluate
from judgebench.tuning import Dev, Published
from judgebench.tuning.tune import check_tuning, tune
from judgebench.tuning.tuners import Setting, best_point, published_settings
from judgebench.types import Condition, Example, Prompt, Reading, ScoreRange
from judgebench.words.errors import UserError

RANGES = (ScoreRange(1, 5), ScoreRange(0, 4))
DECODINGS = {
    "greedy": Greedy(),
    "contrastive": Contrastive(7.0),
    "contrastive_expectation": Contrastive(7.0, rule="expectation"),
}
ARGMAX = {"greedy": Greedy(), "contrastive": Contrastive(7.0)}
PLAIN = {"greedy": Greedy(), "expectation": Expectation()}
MODELS = ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-3B-Instruct")


def readings_of(dimensions=("coherence",), splits=("dev", "test"), attacks=("none",), seed=0):
    """Twelve examples of three articles a split, with a main model that leans on an assistant's favorite."""
    rng = np.random.default_rng(seed)
    found = []
    for dimension in dimensions:
        for score_range in RANGES:
            for attack in attacks:
                for split in splits:
                    for i in range(12):
                        human = {name: float(rng.integers(3, 16)) / 3 for name in ("coherence", "relevance")}
                        example = Example(
                            f"{split}-{i}", f"{split}-{i % 3}", f"s{i % 4}", "An article.", "A text.", human
                        )
                        prompt = Prompt(example, Condition(dimension, score_range, attack), "", "", np.zeros(1))
                        leaning = rng.normal(size=5)
                        main = leaning + rng.normal(size=5) - (np.arange(5) - human[dimension]) ** 2 / 8
                        logs = [
                            tuple(np.float32(x - np.log(np.exp(x).sum())).tolist()) for x in (main, leaning + main / 9)
                        ]
                        found.append(Reading(prompt, split, *logs))
    return found


def by_hand(readings, dimension, score_range, split, kappa, rule="argmax"):
    """Spearman of a decoding at kappa in one cell and split."""
    rows = [r for r in readings if (r.prompt.condition, r.split) == (Condition(dimension, score_range), split)]
    main, assistant = (
        np.array([getattr(r, f"{who}_logprobs") for r in rows], np.float32) for who in ("main", "assistant")
    )
    scores = Contrastive(kappa, rule=rule).scores(main, assistant, np.array(score_range.values))
    return spearman(scores, np.array([r.prompt.example.human[dimension] for r in rows]))


@pytest.mark.parametrize("rule", ["argmax", "expectation"])
def test_dev_takes_the_grids_best_on_dev_and_tells_test(rule):
    readings = readings_of(("coherence", "relevance"))
    tuned = tune(readings, {"contrastive": Contrastive(7.0, rule=rule)}, Dev())
    assert len(tuned.records) == 4
    for record in tuned.records:
        score_range = ScoreRange(record["range_min"], record["range_max"])
        cell = (readings, record["dimension"], score_range)
        assert len(record["grid"]) == 24
        for point in record["grid"]:
            assert point["kappa"] == point["lambda"] / point["temperature"]
            for split in ("dev", "test"):
                assert point[split] == pytest.approx(by_hand(*cell, split, point["kappa"], rule), abs=1e-12)
        best = max(point["dev"] for point in record["grid"])
        assert record["dev"] == pytest.approx(best, abs=1e-12)
        ties = [point["kappa"] for point in record["grid"] if point["dev"] >= best - 1e-12]
        assert record["kappa"] == pytest.approx(min(ties))
        assert record["edge"] == (record["kappa"] in (0.002, 2.0))
        assert record["grid_kappas"] == 18
        assert 1 <= record["grid_scores"] <= 18
        chosen = tuned.decodings[record["dimension"], score_range]["contrastive"]
        assert (chosen.lambda_, chosen.temperature, chosen.rule) == (record["lambda"], record["temperature"], rule)
        assert record["grid_best"] == {k: record[k] for k in record["grid"][0]}
        assert (record["dev_examples"], record["dev_groups"]) == (12, 3)


def test_published_takes_the_papers():
    tuner = Published()
    cells = [("coherence", score_range) for score_range in RANGES]
    check_tuning(tuner, DECODINGS, "score_tokens", {"test"}, cells, MODELS)
    records = tune(readings_of(splits=("test",)), DECODINGS, tuner).records
    assert [(r["lambda"], r["temperature"]) for r in records] == [(0.01, 5.0), (0.1, 4.0)] * 2
    assert all(r["dev"] is None and r["grid_best"] is None for r in records)
    assert all(r["test"] is not None for r in records)
    # local folders are told what they hold
    named = Published(main="Qwen/Qwen2.5-14B-Instruct", assistant=MODELS[1])
    check_tuning(named, DECODINGS, "score_tokens", {"test"}, cells, ("/a", "/b"))


def test_attacked_texts_take_the_clean_ones_setting():
    clean, both = readings_of(), readings_of(attacks=("none", "bed"))
    only_clean = [r for r in both if r.prompt.condition.attack == "none"]
    assert tune(both, ARGMAX, Dev()).records == tune(only_clean, ARGMAX, Dev()).records
    tuned = tune(both, ARGMAX, Dev())
    columns = decode(both, ARGMAX, tuned.decodings)
    for cell, held in tuned.decodings.items():
        rows = (columns["judge"] == "pair") & (columns["range_min"] == cell[1].minimum)
        assert set(columns["lambda"][rows]) == {held["contrastive"].lambda_}
    assert tune(clean, ARGMAX, None).decodings == {}


def test_scores_and_metrics_carry_each_cells_setting_and_the_edge():
    readings = readings_of()
    tuned = tune(readings, DECODINGS, Dev())
    columns = decode(readings, DECODINGS, tuned.decodings)
    records = tuned.flagged(evaluate(columns, "data", resamples=0))
    told = {(r["decoding"], r["range_min"]): r for r in tuned.records}
    pair = [r for r in records if r["judge"] == "pair"]
    assert {r["decoding"] for r in pair} == {*list(DECODINGS)[1:]}
    for record in pair:
        own = told[record["decoding"], record["range_min"]]
        assert (record["lambda"], record["temperature"]) == (own["lambda"], own["temperature"])
        assert ("edge" in record["flags"]) == own["edge"]
        if record["level"] == "dataset":
            assert record["spearman"] == pytest.approx(own[record["split"]], abs=1e-12)
    assert any("edge" in r["flags"] for r in pair)
    assert not any("edge" in r["flags"] for r in records if r["judge"] != "pair")


def test_the_smallest_and_the_largest_kappa_are_edges():
    tuner = Dev([0.1, 1], [1, 2])
    edges = {setting: tuner.at_edge(setting) for setting in [*tuner.grid, Setting(5.0, 1.0), Setting(0.3, 1.0)]}
    assert list(edges.values()) == [False, True, True, False, True, False]
    assert Dev([1], [1]).at_edge(Setting(1.0, 1.0))


@pytest.mark.parametrize(
    ("values", "constant", "place"),
    [
        # of equal values the smallest kappa, then the first; equal but for rounding
        ([0.3, 0.3, 0.3, 0.3], [0, 0, 0, 0], 1),
        ([0.3, 0.2, 0.3, 0.3], [0, 0, 0, 0], 0),
        ([0.3, 0.2, 0.3 + 1e-15, 0.1], [0, 0, 0, 0], 0),
        ([-0.3, -0.2, -0.1, -0.1 - 1e-9], [0, 0, 0, 0], 2),
        # what is constant in fewer ranges, whatever its value
        ([0.0, -0.2, -0.3, 0.0], [1, 0, 0, 1], 1),
        ([0.0, 0.1, 0.0, 0.0], [2, 2, 1, 1], 3),
        ([0.0, 0.0, 0.0, 0.0], [1, 1, 1, 1], 1),
    ],
)
def test_the_best_point_of_a_grid(values, constant, place):
    assert best_point(Dev([0.5, 1], [1, 2]).grid, values, constant) == place  # kappas 0.5, 0.25, 1, 0.5


PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "published" / "cd_hyperparameters.csv"


def test_published_settings_lie_on_the_papers_grid_and_are_what_the_shared_file_says():
    cells = {(name, ScoreRange(k, k + 4)) for name in ("coherence", "relevance", "consistency") for k in range(4)}
    kappas = {setting.same for setting in Dev().grid}
    assert len(published_settings()) == 4
    for settings in published_settings().values():
        assert set(settings) == cells
        assert all(setting.same in kappas for setting in settings.values())
    if not PUBLISHED.is_file():
        pytest.skip("../shared/published is not there")
    with PUBLISHED.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cell = (row["dimension"], ScoreRange(float(row["range_min"]), float(row["range_max"])))
            found = published_settings()[row["main"], row["assistant"]][cell]
            assert found == Setting(float(row["lambda"]), float(row["temperature"]))


HERE = [("coherence", RANGES[0])]
AWAY = [*HERE, ("coherence", ScoreRange(1, 10)), ("fluency", ScoreRange(1, 5))]


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (
            lambda: check_tuning(Dev(), ARGMAX, "generate", {"dev"}, HERE, MODELS),
            r"tune=dev: .*judge\.mode=score",
        ),
        (lambda: check_tuning(Dev(), ARGMAX, "score_tokens", {"test"}, HERE, MODELS), r"tune=dev: .*data\.dev_share"),
        (lambda: check_tuning(Dev(), PLAIN, "score_tokens", {"dev"}, HERE, MODELS), "no decoding contrasts"),
        (
            lambda: check_tuning(Dev(decodings=["greedy"]), ARGMAX, "score_tokens", {"dev"}, HERE, MODELS),
            r"tune\.decodings: 'greedy' is not one of those that contrast: contrastive",
        ),
        (lambda: Published().check(AWAY, MODELS), r"coherence 1-10, fluency 1-5; .*tune=dev"),
        (
            lambda: Published().check(HERE, ("/models/q", None)),
            r"no settings for /models/q with no second.*tune\.main",
        ),
        (lambda: Dev(lambdas=[]), r"tune\.lambdas: \[\] should "),
        (lambda: Dev(lambdas=[-1]), r"tune\.lambdas\[0\]: -1 should "),
        (lambda: Dev(lambdas=[math.nan]), r"tune\.lambdas\[0\]: nan should"),
        (lambda: Dev(temperatures=[0]), r"tune\.temperatures\[0\]: 0 should "),
        (lambda: Dev(decodings="contrastive"), r"tune\.decodings: 'contrastive' should "),
        (lambda: Published(main=5), r"tune\.main: 5 should "),
    ],
)
def test_what_cannot_be_tuned_is_refused(check, sentence):
    with pytest.raises(UserError, match=sentence):
        check()
