"""Records of metrics.json: their keys, their order, and what they count."""

import json

import numpy as np
import pytest

from judgebench.stats.clusters import FEWEST
from judgebench.studies.evaluate import check_metric_settings, evaluate
from judgebench.words.errors import UserError

ENDS = ("", "_low", "_high")
LEVEL_ENDS = ("_varied", "_systems_low", "_systems_high")
KEYS = [
    *("dataset", "split", "level", "dimension", "range_min", "range_max", "range_step", "attack", "defense"),
    *("judge", "decoding", "lambda", "temperature", "rule", "n", "groups"),
    *(f"{name}{end}" for name in ("pearson", "spearman", "kendall") for end in ENDS),
    *("constant", "constant_groups", "human_constant_groups", "missing"),
    *(f"{name}{end}" for name in ("pearson", "spearman", "kendall") for end in LEVEL_ENDS),
    *("failed_share", "clamped_share", "mean_score", "modal_score", "modal_share"),
    *("bias_wasserstein", "bias_kl", "bias_shift", "stability", "self_agreement", "flags"),
]
CELL = {
    **{"split": "test", "dimension": "coherence", "range_min": 1, "range_max": 5, "range_step": 1, "attack": "none"},
    **{"defense": "none", "judge": "main", "decoding": "greedy", "lambda": np.nan, "temperature": np.nan},
    "status": "parsed",
}


def table(score, human, groups=8, systems=4, **cell):
    """Columns of one cell; `score` and `human` are functions of a random generator and a count."""
    rng = np.random.default_rng(0)
    n = groups * systems
    columns = {name: np.full(n, value) for name, value in (CELL | cell).items()}
    columns["group_id"] = np.repeat([f"g{i}" for i in range(groups)], systems)
    columns["system_id"] = np.tile([f"s{i}" for i in range(systems)], groups)
    columns["example_id"] = np.array(
        [f"{g}/{s}" for g, s in zip(columns["group_id"], columns["system_id"], strict=True)]
    )
    columns["human"] = human(rng, n)
    columns["score"] = score(rng, n)
    return columns


def joined(*tables):
    return {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}


def scores(rng, n):
    return rng.integers(1, 6, n).astype(float)


def test_a_record_has_these_keys_and_json_takes_it():
    records = evaluate(table(scores, scores), "mini", resamples=50)
    assert [record["level"] for record in records] == ["dataset", "document", "system"]
    for record in records:
        assert list(record) == KEYS
        assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert [record["n"] for record in records] == [32, 8, 4]
    assert {record["groups"] for record in records} == {8}
    assert [record["constant_groups"] is None for record in records] == [True, False, True]
    assert {(r["lambda"], r["temperature"]) for r in records} == {(None, None)}


def test_cells_come_in_order_of_first_appearance_however_rows_are_mixed():
    parts = [
        table(scores, scores, decoding="contrastive", judge="pair", temperature=t, **{"lambda": 0.5})
        for t in (5.0, 1.0)
    ]
    parts += [table(scores, scores), table(scores, scores, range_min=0, range_max=4)]
    columns = joined(*parts)
    order = np.random.default_rng(1).permutation(len(columns["score"]))
    mixed = {name: column[order] for name, column in columns.items()}
    by_cell = {json.dumps({k: r[k] for k in KEYS[1:13]}): r for r in evaluate(columns, "mini", resamples=20)}
    found = evaluate(mixed, "mini", resamples=20)
    assert len(found) == len(by_cell) == 12
    for record in found:
        twin = by_cell[json.dumps({k: record[k] for k in KEYS[1:13]})]
        for key in KEYS:
            assert record[key] == (pytest.approx(twin[key], abs=1e-12) if isinstance(twin[key], float) else twin[key])
    assert [(r["temperature"], r["range_min"]) for r in evaluate(columns, "mini", levels=["dataset"], resamples=5)] == [
        *[(5.0, 1.0), (1.0, 1.0), (None, 1.0), (None, 0.0)]
    ]


def same(value):
    return lambda rng, n: np.full(n, value)


@pytest.mark.parametrize(
    ("score", "human", "groups", "flags"),
    [
        (same(2.7), scores, 8, ["constant"]),
        (scores, same(3.3), 8, ["constant humans"]),
        (same(2.7), same(3.3), 8, ["constant", "constant humans"]),
        (None, scores, 8, []),
        (lambda rng, n: 6 - scores(np.random.default_rng(0), n), scores, FEWEST, ["inverted"]),
        # too few groups raise no flag that rests on their resamples
        (lambda rng, n: 6 - scores(np.random.default_rng(0), n), scores, FEWEST - 1, []),
    ],
)
def test_failure_signatures(score, human, groups, flags):
    columns = table(score or scores, human, groups=groups)
    if score is None:
        columns["score"] = columns["human"]
    for record in evaluate(columns, "mini", levels=["dataset", "system"], resamples=50):
        assert record["flags"] == flags
        assert record["constant"] == ("constant" in flags)
        if any("constant" in flag for flag in flags):
            assert record["spearman"] == record["spearman_low"] == record["spearman_high"] == 0.0


@pytest.mark.parametrize("level", ["dataset", "document", "system"])
def test_failed_answers_are_missing_in_agreement_and_shown_at_worst_at_best_and_as_the_papers_count_them(level):
    """A judge whose order is right, and which does not answer the worst texts: its lowest scores would be right."""
    columns = table(lambda rng, n: rng.normal(3, 1, n), lambda rng, n: rng.normal(3, 1, n))
    columns["score"] = np.clip(columns["human"] + 0.8 * columns["score"], 1, 5)
    failed = columns["human"] < np.quantile(columns["human"], 0.31)
    columns["status"] = np.where(failed, "failed", "parsed")
    lowest = columns | {"score": np.where(failed, 1.0, columns["score"])}
    (record,) = evaluate(lowest, "mini", levels=[level], resamples=50)
    answered = {name: column[~failed] for name, column in lowest.items()}
    (twin,) = evaluate(answered, "mini", levels=[level], resamples=50)
    (papers,) = evaluate(lowest | {"status": np.full(32, "parsed")}, "mini", levels=[level], resamples=50)
    shared = [*(f"{name}{end}" for name in ("pearson", "spearman", "kendall") for end in ENDS), "n", "bias_shift"]
    assert {name: record[name] for name in shared} == {name: twin[name] for name in shared}
    assert record["failed_share"] == failed.mean()
    assert record["lowest"] == {name: papers[name] for name in shared[:9]}
    for name in ("pearson", "spearman", "kendall") if level != "system" else ():
        assert record[f"{name}_worst"] < record[name] < record[f"{name}_best"] <= 1
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    # without any answer a judge keeps its rows
    silent = table(same(1.0), scores, status="failed")
    (record,) = evaluate(silent, "mini", levels=[level], resamples=5)
    assert (record["failed_share"], record["clamped_share"], record["mean_score"]) == (1.0, 0.0, 1.0)
    assert record["flags"] == ["constant"]
    assert "lowest" not in record


def test_what_nobody_rated_is_left_out_of_the_correlations_alone():
    columns = table(scores, scores)
    columns["human"][:6] = np.nan  # the whole first group and half of the second
    rated = {name: column[6:] for name, column in columns.items()}
    for record, twin in zip(evaluate(columns, "mini"), evaluate(rated, "mini"), strict=True):
        described = ("mean_score", "modal_score", "modal_share")
        assert {k: record[k] for k in KEYS if k not in described} == {k: twin[k] for k in KEYS if k not in described}
        assert record["mean_score"] == columns["score"].mean()
    for record in evaluate(columns | {"human": np.full(32, None)}, "mini"):
        assert (record["n"], record["groups"], record["constant"], record["flags"]) == (0, 0, False, [])
        assert {record[f"{name}{end}"] for name in ("pearson", "kendall") for end in ENDS} == {None}


WHOLE = table(scores, scores)


@pytest.mark.parametrize(
    ("changes", "settings", "error", "sentence"),
    [
        ({"human": None}, {}, ValueError, "missing columns human"),
        ({"human": WHOLE["human"][1:]}, {}, ValueError, "different lengths"),
        ({"example_id": np.full(32, "e")}, {}, ValueError, "twice"),
        ({"score": np.full(32, np.nan)}, {}, ValueError, "score must be finite"),
        ({}, {"levels": []}, UserError, r"^metrics\.levels: "),
        ({}, {"levels": ["article"]}, UserError, r"^metrics\.levels\[0\]: 'article' should "),
        ({}, {"levels": ["dataset"] * 2}, UserError, r"^metrics\.levels: \['dataset', 'dataset'\] names one twice"),
        ({}, {"resamples": -1}, UserError, r"^metrics\.resamples: -1 should "),
        ({}, {"resamples": True}, UserError, r"^metrics\.resamples: True should "),
        ({}, {"resamples": 1}, UserError, r"^metrics\.resamples: a single resample does not vary"),
        ({}, {"resamples": 100_001}, UserError, "100001 should be less than or equal to 100000"),
        ({}, {"seed": 0.5}, UserError, r"^metrics\.seed: 0.5 should "),
    ],
)
def test_what_cannot_be_evaluated_is_refused(changes, settings, error, sentence):
    columns = {name: column for name, column in (WHOLE | changes).items() if column is not None}
    with pytest.raises(error, match=sentence):
        evaluate(columns, "mini", **settings)
    check_metric_settings(("document",), np.int64(100_000), 0)


def test_the_humans_scale_gives_the_bias():
    columns = table(lambda rng, n: np.full(n, 4.0), lambda rng, n: np.full(n, 2.0), range_min=1, range_max=5)
    (record,) = evaluate(columns, "mini", levels=["dataset"], resamples=5, scale={"coherence": (0, 4)})
    assert record["bias_wasserstein"] == pytest.approx(0.25)  # 2 of 0-4 is 3 of 1-5, a quarter of the range below 4
    assert record["bias_kl"] > 1
    for scale in (None, {}, {"relevance": (0, 4)}, {"coherence": (2, 2)}):
        (record,) = evaluate(columns, "mini", levels=["dataset"], resamples=5, scale=scale)
        assert (record["bias_wasserstein"], record["bias_kl"]) == (None, None)
        assert (record["modal_score"], record["modal_share"]) == (4.0, 1.0)


def ranges_of(*judges, groups=30, **cell):
    """Four ranges, each with the scores that a function of (humans, random generator) gives."""
    parts = []
    for low, judge in enumerate(judges):
        part = table(scores, scores, groups=groups, range_min=low, range_max=low + 4, **cell)
        part["score"] = judge(part["human"], np.random.default_rng(low)) - 1 + low
        parts.append(part)
    return joined(*parts)


def good(human, rng):
    return np.clip(np.round(human + rng.normal(size=len(human)) / 2), 1, 5)


def noise(human, rng):
    return rng.integers(1, 6, len(human)).astype(float)


def test_a_judge_that_depends_on_the_range_is_unstable():
    records = evaluate(ranges_of(good, good, noise, good), "mini", resamples=200)
    assert all("unstable" in r["flags"] for r in records if r["level"] == "dataset")
    (spread,) = {r["stability"] for r in records if r["level"] == "dataset"}
    assert spread == pytest.approx(np.std([r["spearman"] for r in records if r["level"] == "dataset"], ddof=1))
    few = evaluate(ranges_of(good, good, noise, good, groups=FEWEST - 1), "mini", levels=["dataset"], resamples=200)
    assert all(record["stability"] > 0.05 and "unstable" not in record["flags"] for record in few)
    steady = evaluate(ranges_of(good, good, good, good), "mini", levels=["dataset"], resamples=200)
    assert not any("unstable" in record["flags"] for record in steady)
    assert all(record["stability"] < 0.1 for record in steady if record["level"] == "dataset")
    assert steady[0]["self_agreement"] > 0.6 > 0.5 > records[0]["self_agreement"]
    assert not any("unstable" in r["flags"] for r in evaluate(ranges_of(good, noise), "mini", resamples=0))


def test_a_series_is_one_over_ranges_whatever_tuning_chose_there():
    columns = ranges_of(good, good, judge="pair", decoding="contrastive", temperature=1.0, **{"lambda": 0.5})
    columns["lambda"] = np.where(columns["range_min"] == 0, 0.1, 0.5)
    assert all(record["stability"] is not None for record in evaluate(columns, "mini", resamples=5))
    again = columns | {"lambda": columns["lambda"] + 1}  # two settings in each range: then they are two series
    for record in evaluate(joined(columns, again), "mini", resamples=5):
        assert record["stability"] is None
