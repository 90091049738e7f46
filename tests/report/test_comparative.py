"""What a run that compares texts prints, shows, writes and logs."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from judgebench.report.comparative import NOTE, arrange_comparative, comparative_sentences, points, shares
from judgebench.report.defense_files import DefenseRecords
from rich.console import Console

from judgebench.data.pairs import Rivals, pairs
from judgebench.decoding import Contrastive, Expectation, Greedy
from judgebench.decoding.scores import decode, win_probabilities
from judgebench.metrics.evaluation import evaluate
from judgebench.readings.reading import reading_columns
from judgebench.report.browser.chunks import bounds, reading_chunks
from judgebench.report.browser.data import index_data
from judgebench.report.browser.index import index_of
from judgebench.report.browser.judged import JudgedRun
from judgebench.report.dry_run import dry_run_view
from judgebench.report.figures.draw import draw_all
from judgebench.report.html import render_report
from judgebench.report.layout import run_tables
from judgebench.report.results import Estimate
from judgebench.results.folder import RunFolder
from judgebench.results.schema import READINGS_SCHEMA, SCORES_SCHEMA
from judgebench.tracking.summary import scalars
from judgebench.tracking.tables import example_rows
from judgebench.types import ORDERS, PLACES, Condition, Example, Prompt, Reading

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


@pytest.fixture(scope="module")
def run():
    readings = read(attacks=("none", "dsi"))
    columns = win_probabilities(decode(readings, DECODINGS))
    records = evaluate(columns, "mini", resamples=50, scale={"joint": None})
    return SimpleNamespace(
        prompts=[reading.prompt for reading in readings],
        readings=pd.DataFrame(reading_columns(readings)),
        scores=pd.DataFrame(columns),
        records=records,
    )


def told(text):
    return " ".join(text.split())


def printed(renderable):
    file = io.StringIO()
    Console(file=file, width=100).print(renderable)
    return file.getvalue()


def test_blocks_hold_the_measures_of_the_records(run):
    clean, attacked = arrange_comparative(run.records)
    assert (clean.condition, attacked.condition) == ("joint", "joint, attack dsi")
    assert clean.size.startswith("48 pairs, ")
    assert [row.series for row in clean.rows] == [
        *("main, greedy", "main, expectation", "assistant, greedy", "assistant, expectation"),
        "pair, contrastive, λ 1, t 1",
    ]
    record = next(r for r in run.records if (r["judge"], r["decoding"], r["attack"]) == ("main", "greedy", "none"))
    assert clean.rows[0].consistency == Estimate(
        record["consistency"], record["consistency_low"], record["consistency_high"]
    )
    # the assistant knows no text: 60 % for place one, whatever stands there
    assert clean.rows[3].position_bias.value == pytest.approx(0.1)


def test_records_of_texts_judged_alone_have_no_block():
    assert arrange_comparative([]) == []


def test_the_tables_fit_and_say_what_they_are(run):
    text = printed(run_tables(run.records, TITLES))
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "48 pairs of 6 dialogues" in text
    assert NOTE in told(text)
    for part in ("joint: 48 pairs, ", "joint, attack dsi: 48 pairs, ", "place one", "joint: attacks"):
        assert part in text
    assert "Wasserstein" not in text


def test_sentences_say_whether_place_or_text_decides(run):
    sentences = comparative_sentences(arrange_comparative(run.records)[:1])
    assert len(sentences) == 2
    assert "of its preference over all pairs in both orders (50 % is impartial)" in sentences[1]
    row = arrange_comparative(run.records)[0].rows[1]
    assert f"sides with the humans in {100 * row.human_agreement.value:.0f} % [" in sentences[1]
    nobody = [r | {"human_agreement": None, "preferred": 0} for r in run.records]
    assert comparative_sentences(arrange_comparative(nobody))[0].endswith("; nobody prefers a text of any pair.")


def test_the_report_has_a_section_and_draws_no_humans(run):
    known = {"scores": run.scores, "records": run.records, "scale": {"joint": None}, "titles": TITLES}
    figures = draw_all(readings=run.readings, **known)
    assert "preferences are no scores" in figures["scores_joint"].get_label()
    environment = {"device": "cpu", "git_commit": None, "git_changed": False, "python": "3", "platform": "x"}
    environment |= {"model_fingerprints": {}, "packages": {}}
    page = render_report(config={}, environment=environment, figures=figures, **known)
    for part in ("Which of two is better?", "48 pairs of 6 dialogues", "it counts as undecided", "Attacks"):
        assert part in page
    for part in ("Favorite scores", "Bias and stability", "the lowest score of the range stands in"):
        assert part not in page


def test_the_pages_of_pairs_hold_both_orders_and_their_scores(run):
    references = DefenseRecords().references
    judged = JudgedRun("", "mini", run.readings, run.scores, run.records, {"joint": None}, {}, None, references)
    index = index_of([judged])
    assert len(index.example) == 48 * 2
    assert {str(one.range) for one in index.places} == {"0.0-1.0 by 0.5"}
    (chunk,) = reading_chunks(index, [judged], bounds(index, [judged]))
    assert len(chunk["rows"]) == 48 * 2
    expectation = [one.label for one in index.series].index("main, expectation")
    for row, held in chunk["rows"].items():
        assert [one["order"] for one in held] == ["first", "second"]
        shares = [np.exp(one["m"]) / np.exp(one["m"]).sum() for one in held]
        won = (shares[0][0] + shares[1][1]) / 2  # place one where it stood first, place two where second
        assert index.scores[expectation, int(row)] == pytest.approx(won, abs=1e-3)
    assert index_data(index, [judged], [0, len(index.examples)])["places_compared"] == ["1", "2"]


def test_the_run_folder_keeps_pairs_and_orders_and_only_where_there_are_such(run, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.write("readings", run.readings)
    folder.write("scores", run.scores)
    readings, scores = folder.read("readings"), folder.read("scores")
    names = ("text_id", "rival_id", "rival_system_id")
    assert list(readings.columns) == [*READINGS_SCHEMA.names, *names, "order"]
    numbers = ("score_first", "score_second", "tie_first", "tie_second")
    assert list(scores.columns) == [*SCORES_SCHEMA.names, *names, *numbers]
    assert readings.order.tolist() == run.readings.order.tolist()
    np.testing.assert_array_equal(scores.score_first, run.scores.score_first)
    alone = Reading(
        Prompt(
            Example("a", "a", "s", "A.", "T.", {"joint": 1.0}),
            Condition("joint", PLACES),
            "",
            "",
            np.zeros(1, np.int32),
        ),
        "test",
        (-1.0, -2.0),
    )
    folder.write("readings", pd.DataFrame(reading_columns([alone])))
    assert list(folder.read("readings").columns) == READINGS_SCHEMA.names


def test_a_dry_run_tells_the_orders_apart(run):
    conditions = list(dict.fromkeys(prompt.condition for prompt in run.prompts))
    text = printed(dry_run_view(run.prompts, dict.fromkeys(conditions, (144, 20)), TITLES))
    assert "judged text first, example 0/0~" in text
    assert sum("first" in line and "48" in line for line in text.splitlines()) == 2


def test_tracking_shows_both_prompts_of_a_pair_beside_its_scores(run):
    columns, rows = example_rows(run.scores, run.readings, most=3)
    assert len(rows) == 3 * 2
    assert {"prompt, judged text first", "prompt, judged text second", "main greedy"} <= set(columns)
    at = columns.index("prompt, judged text second")
    assert {row[at] for row in rows} == {"Psecond"}
    found = scalars(run.records)
    assert found["test/joint/0.0-1.0 by 0.5/assistant/expectation/position_bias"] == pytest.approx(0.1)


def test_numbers_as_people_read_them():
    assert points(Estimate(-0.004)) == "0"
    assert points(Estimate(-0.124, -0.2, 0.1)) == "-12 [-20,+10]"
    assert shares(Estimate(None)) == "-"


@pytest.mark.parametrize(
    ("more", "ending"),
    [
        (
            {"tied_share": 0.12, "decided_consistency": 1.0},
            "100 % of the pairs that both orders decide (12 % of the pairs",
        ),
        (
            {"tied_share": 0.0, "decided_consistency": 0.5},
            "prefers the same text in both orders in 50 % of the pairs; ",
        ),
        ({"tied_share": 1.0, "decided_consistency": None}, "and decides no pair in both orders: 100 % of the pairs"),
        ({"tied_share": None, "consistency": 0.88}, "prefers the same text in both orders in 88 % of the pairs; "),
    ],
)
def test_a_tie_is_not_told_as_another_preference(run, more, ending):
    records = [record | more for record in run.records]
    assert ending in comparative_sentences(arrange_comparative(records))[0]
