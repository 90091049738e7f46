"""The league of repairs, of records made by hand: its rows, and what it says is to be taken."""

from dataclasses import replace

import pandas as pd
import pytest

from judgebench.report.views.league import LEAGUE, league_rows
from judgebench.results.results import Results

CELL = {"split": "test", "dimension": "tone", "range_step": 1.0, "attack": "none", "defense": "none"}
CELL |= {"lambda": None, "temperature": None, "dataset": "mine"}


def setting(name, low=1.0, worth=0.5, **more):
    """A record of choice.json of the main model, or of the pair, as in "pair x"."""
    judge, _, decoding = name.rpartition(" ")
    cell = CELL | {"judge": judge or "main", "decoding": decoding, "range_min": low, "range_max": low + 4}
    record = cell | {"metric": "spearman", "n": 90, "groups": 30, "worth": worth, "gain": round(worth - 0.5, 9)}
    record |= {"gain_se": 0.02, "better": False, "taken": False, "best": False, "share": 0.0, "kappas": None}
    record |= {"settings": None, "ranges": 1, "readings": 1 + (judge == "pair")}
    for metric, value in (("spearman", 0.48), ("pearson", 0.47), ("error", 0.8)):
        record |= {f"promised_{metric}": value, f"promised_{metric}_low": value - 0.1}
        record[f"promised_{metric}_high"] = value + 0.1
    return record | more


PLAIN, OTHER = setting("expectation", share=1.0, taken=True, gain_se=0.0), setting("expectation", 0.0, 0.52, best=True)


def results(**more):
    """Expectation and x in two ranges, and one score over both."""
    metrics, readings = [], []
    choice = [PLAIN, OTHER, setting("x"), setting("x", 0.0), setting("over", ranges=2, readings=4)]
    heights = {"expectation": (0.5, 0.52), "x": (0.3, 0.4), "over": (0.6, None)}
    for record in choice:
        value = heights[record["decoding"]][record["range_min"] == 0.0]
        metric = {name: record[name] for name in (*CELL, "judge", "decoding", "range_min", "range_max", "n", "groups")}
        metric |= {"level": "dataset", "flags": [], "missing": None, "failed_share": 0.0}
        for name in ("pearson", "spearman", "kendall"):
            metric |= {name: value, f"{name}_low": value - 0.1, f"{name}_high": value + 0.1}
        metrics += [metric, metric | {"attack": "dsi", "change": value, "clean_mean_score": 3.0}]
    for low, tokens in ((1.0, 100), (0.0, 140)):
        cell = {"dimension": "tone", "attack": "none", "defense": "none", "range_min": low, "range_max": low + 4}
        readings.append(cell | {"range_step": 1.0, "prompt_tokens": tokens})
    return Results(choice=choice, metrics=metrics, readings=pd.DataFrame(readings), **more)


def test_rows_of_records_made_by_hand():
    rows = {row["who"]: row for row in league_rows(results())}
    assert list(rows) == ["main, over", "main, expectation", "main, x"]  # the best first
    plain, x, over = (rows[f"main, {name}"] for name in ("expectation", "x", "over"))
    assert (plain["spearman"], x["spearman"], over["spearman"]) == pytest.approx((0.51, 0.35, 0.6))
    assert (plain.get("spearman_low"), over["spearman_low"]) == (None, 0.5)  # of a mean no file has one
    assert (plain["tokens"], over["tokens"]) == (120.0, 480.0)  # two models, both ranges
    assert x["change dsi"] == pytest.approx(0.35 / 4)  # as part of the range
    assert plain["remark"] == "taken in range 1-5; looks best in range 0-4"
    assert (plain["share"], x["share"]) == (1.0, 0.0)
    (table,) = LEAGUE.tables(results())
    assert table.heads == ["judge, decoding", "Spearman", "passes", "prompt tokens", "dsi", "chosen in folds"]


def test_a_judge_that_says_the_same_of_everything_is_above_one_against_the_humans():
    frame = results()
    metrics = [
        record | {"spearman": {"x": 0.0, "expectation": -0.2}.get(record["decoding"], 0.6)} for record in frame.metrics
    ]
    rows = league_rows(replace(frame, metrics=metrics))
    assert [row["who"] for row in rows] == ["main, over", "main, x", "main, expectation"]
