"""The first screen of a page: charts, texts to look at, and that all of it is about the setting taken."""

from dataclasses import replace

import pytest

from judgebench.report.figures.charts import Chart, ChartMark, agreement_chart, first_charts, scores_chart
from judgebench.report.html import render_report
from judgebench.report.views.advice import advice_lines
from judgebench.report.views.advised import distance_rows
from judgebench.report.views.correlations import advised_rows
from judgebench.report.views.first import RANDOM, WORST, looks, strips
from judgebench.results.results import Results
from judgebench.studies.rules import RULES
from judgebench.words.formats import two
from tests.report.browsed import write_run
from tests.report.conftest import results_of, words_of


def test_a_number_stands_where_the_axis_says():
    dots = [("a", [ChartMark(0, 0.5, 0.25, 0.75)]), ("b", [ChartMark(1, 1.0, start=0.0)])]
    chart = Chart("x", dots, {0: "s"}, two, ends=(0.0, 1.0))  # 255 units for 0 to 1, right of 37
    dot, bar = (thing for thing in chart.drawn if thing["kind"] != "label")
    assert (dot["x"], dot["low"], dot["high"]) == (164.5, 100.8, 228.2)
    assert (bar["x"], bar["width"]) == (37, 255)
    assert [(x, text) for x, text in chart.ticks] == [
        *((37.0, "0.00"), (100.8, "0.25"), (164.5, "0.50"), (228.2, "0.75"), (292.0, "1.00")),
    ]
    assert chart.at(7.0) == 292  # nothing leaves the chart


@pytest.fixture(scope="module")
def chosen(builder, tmp_path_factory):
    """A run that takes greedy, which has not the highest Spearman, in its last range, with texts and verdicts."""
    run = builder(articles=8, systems=5)
    results = Results.load(write_run(run, tmp_path_factory.mktemp("first") / "run").path)
    record = next(
        record
        for record in results.shown
        if (record["judge"], record["decoding"], record["range_min"]) == ("main", "greedy", 3.0)
    )
    choice = {**record, "taken": True, "best": False, "ranges": 1, "share": 1.0, "metric": "spearman", "gain": 0.0}
    choice |= {"gain_se": 0.0, "promised_spearman": 0.4, "promised_spearman_low": 0.3, "promised_spearman_high": 0.5}
    choice |= {"kappas": None, "readings": 1, "settings": None}
    uses = {use: {"yes": "yes", "with care": "with care"}.get(use, "no") for use in RULES}
    numbers = {f"{side}{end}": 0.7 for side in ("value", "rater") for end in ("", "_low", "_high")}
    verdict = [{**record, "use": use, "verdict": word, "clause": f"because {use}", "scores": None} | numbers
               for use, word in uses.items()]  # fmt: skip
    return replace(results, choice=[choice], verdict=verdict)


def test_everything_is_about_the_setting_taken_not_the_best_looking(chosen):
    (lead,) = advised_rows(chosen)
    assert (lead["who"], lead["range"]) == ("main, greedy", "3-7")
    assert lead["spearman"] < max(record["spearman"] for record in chosen.shown)
    promised = "greedy in range 3-7: Spearman 0.40 [0.30, 0.50] on other articles"
    assert advice_lines(chosen, "screen") == [f"Take none: no setting helps; {promised}"]
    useful = [chosen.verdict[0] | {"verdict": "with care"}, *chosen.verdict[1:]]
    one_setting = promised.replace("3-7", "3-7, the one setting")
    assert advice_lines(replace(chosen, verdict=useful), "screen") == [f"Take {one_setting}"]
    tried = [*chosen.choice, chosen.choice[0] | {"taken": False, "range_min": 0.0}]
    assert advice_lines(replace(chosen, verdict=useful, choice=tried), "screen") == [f"Take {promised}"]
    assert agreement_chart(chosen, "coherence").keys[0] == "greedy"
    assert "range 3-7" in scores_chart(chosen, "coherence").note
    known = {record["range_min"]: record["spearman"] for record in chosen.shown
             if (record["judge"], record["decoding"]) == ("main", "greedy")}  # fmt: skip
    assert [row["texts"]["spearman"] for row in distance_rows(chosen)] == list(known.values())


def test_without_a_choice_the_main_models_highest_spearman_is_taken(run):
    (lead,) = advised_rows(results_of(run))
    of_main = [record["spearman"] for record in results_of(run).shown if record["judge"] == "main"]
    assert lead["spearman"] == max(of_main)


def test_the_texts_to_look_at_are_the_farthest_apart_and_some_others(chosen):
    rows = looks(chosen)
    gaps = [row["gap"] for row in rows]
    assert len({row["example"] for row in rows}) == len(rows) == WORST + RANDOM
    assert gaps[:WORST] == sorted(gaps[:WORST], reverse=True)
    assert min(gaps[:WORST]) >= max(gaps[WORST:])
    assert {row["why"] for row in rows[WORST:]} == {"at random"}
    assert looks(chosen) == rows
    assert looks(replace(chosen, examples=None)) == []


def test_a_verdict_is_a_word_and_a_sign_not_a_color_alone(chosen):
    (strip,) = strips(chosen)
    assert [tile["title"] for tile in strip["tiles"]] == [rule.title for rule in RULES.values()]
    assert {(tile["kind"], tile["verdict"]) for tile in strip["tiles"]} == {("no", "✗ no")}
    words = words_of(render_report(chosen, {}).split("<body")[1])
    assert "order texts ✗ no because order_texts" in words
    assert len(first_charts(chosen, "coherence")) == 2
