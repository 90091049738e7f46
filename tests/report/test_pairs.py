"""What a run that compares texts prints, shows, writes and logs."""

import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from judgebench.data.dataset import Rivals, pairs
from judgebench.decoding import Contrastive, Expectation, Greedy
from judgebench.decoding.scores import decode, win_probabilities
from judgebench.readings.reading import reading_frame
from judgebench.report.browser.data import bounds, index_data, reading_chunks
from judgebench.report.browser.index import index_of
from judgebench.report.figures.charts import elo_chart
from judgebench.report.views.pairwise import RANKING, ranking_blocks, ranking_records
from judgebench.report.views.run import dry_run_view
from judgebench.results.results import Results
from judgebench.studies.evaluate import evaluate
from judgebench.studies.rankings import pairwise_records
from judgebench.tracking.content import scalars
from judgebench.types import ORDERS, PLACES, Condition, Example, Prompt, Reading
from tests.report.conftest import ENVIRONMENT

TITLES = {"main": "a judge", "assistant": "another", "groups": "dialogues", "examples": "pairs", "note": None}
DECODINGS = {"greedy": Greedy(), "expectation": Expectation(), "contrastive": Contrastive(lambda_=1.0)}


def read(attacks=("none",), groups=6, texts=4, leaning=0.3):
    """A judge that leans to place one, and sees a little of what the humans see; its assistant leans alone."""
    rng = np.random.default_rng(0)
    found = []
    for g in range(groups):
        human = rng.integers(1, 6, texts)
        alone = [Example(f"{g}/{i}", str(g), f"s{i}", "A.", f"T{i}.", {"joint": float(human[i])}) for i in range(texts)]
        seen = {one.example_id: one.human["joint"] + rng.normal(0, 1) for one in alone}
        for pair in pairs(alone, Rivals(2)):
            for attack in attacks:
                for order in ORDERS:
                    ahead = 0.4 * (seen[pair.text_id] - seen[pair.rival_id]) + (1.0 if attack != "none" else 0)
                    place_one = 1 / (1 + np.exp(-(leaning + (ahead if order == "first" else -ahead))))
                    prompt = Prompt(
                        pair, Condition("joint", PLACES, attack, order=order), "P", order, np.zeros(3, np.int32)
                    )
                    main = tuple(np.log([place_one, 1 - place_one]).tolist())
                    assistant = tuple(np.log([0.6, 0.4]).tolist())
                    found.append(Reading(prompt, "test", main, assistant))
    return found


def results_of(columns, records, readings=(), **more):
    """The results of compared texts, whose humans have no scale."""
    about = {"titles": TITLES, "scale": {"joint": None}}
    frames = {"readings": reading_frame(readings), "scores": pd.DataFrame(columns), "metrics": records}
    return Results(**{"environment": ENVIRONMENT, "about": about} | frames | more)


@pytest.fixture(scope="module")
def run():
    readings = read(attacks=("none", "dsi"))
    columns = win_probabilities(decode(readings, DECODINGS))
    records = evaluate(columns, "mini", resamples=50, scale={"joint": None})
    return SimpleNamespace(
        prompts=[reading.prompt for reading in readings], results=results_of(columns, records, readings)
    )


def test_the_pages_of_pairs_hold_both_orders_and_their_scores(run):
    judged = run.results
    index = index_of(judged)
    assert len(index.example) == 48 * 2
    assert {str(one.range) for one in index.places} == {"0.0-1.0 by 0.5"}
    (chunk,) = reading_chunks(index, judged, bounds(index, judged))
    assert len(chunk["rows"]) == 48 * 2
    expectation = list(map(str, index.series)).index("main, expectation")
    for row, held in chunk["rows"].items():
        assert [one["order"] for one in held] == ["first", "second"]
        shares = [np.exp(one["m"]) / np.exp(one["m"]).sum() for one in held]
        won = (shares[0][0] + shares[1][1]) / 2  # place one where it stood first, place two where second
        assert index.scores[expectation, int(row)] == pytest.approx(won, abs=1e-3)
    assert index_data(index, judged, [0, len(index.examples)])["places_compared"] == ["1", "2"]


def test_a_dry_run_tells_the_orders_apart(run):
    conditions = list(dict.fromkeys(prompt.condition for prompt in run.prompts))
    file = io.StringIO()
    Console(file=file, width=100).print(dry_run_view(run.prompts, dict.fromkeys(conditions, (144, 20)), TITLES))
    text = file.getvalue()
    assert "judged text first, example 0/0~" in text
    assert sum("first" in line and "48" in line for line in text.splitlines()) == 2


def test_tracking_has_the_bias_to_a_place(run):
    found = scalars(run.results.metrics)
    assert found["test/joint/0.0-1.0 by 0.5/assistant/expectation/position_bias"] == pytest.approx(0.1)


# --- systems ranked ---------------------------------------------------------------------------------------------------

RULES = {"greedy": "argmax", "expectation": "expectation", "contrastive": "argmax"}


@pytest.fixture(scope="module")
def columns():
    return win_probabilities(decode(read(attacks=("none", "dsi")), DECODINGS))


@pytest.fixture(scope="module")
def records(columns):
    return pairwise_records(columns, "mini", resamples=50, rules=RULES)


def of(records):
    return Results(pairwise=records, about={"titles": TITLES})


def test_only_the_strongest_of_many_systems_are_shown(records):
    many = [record | {"ranking": record["ranking"] * 20} for record in records]
    table, *_ = RANKING.tables(of(many))
    assert len(table.sections[0].rows) == 60
    assert "20 more systems are in pairwise.json." in [getattr(block, "text", "") for block in ranking_blocks(of(many))]


def test_the_chart_shows_systems_compared_with_the_humans(records):
    chart = elo_chart(of(records), "joint")
    first, second, *_ = (row for row in ranking_records(of(records)) if row["lead"])
    assert [label for label, _ in chart.lines] == [one["system"] for one in first["ranking"]]
    drawn = sorted(mark.value for _, marks in chart.lines for mark in marks)
    shown = [one["elo"] for row in (first, second) for one in row["ranking"]]
    assert drawn == pytest.approx(sorted([*shown, *(one["human_elo"] for one in first["ranking"])]))
    assert list(chart.keys.values())[-1] == "humans"
    assert elo_chart(of(records), "another").lines == []
