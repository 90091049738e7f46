"""Runs that rank systems by comparisons, end to end: tiny models, earlier answers, and the embedded judge."""

from pathlib import Path

import numpy as np
import pytest

from judgebench.results.folder import RunFolder
from tests.conftest import QUICK, told, write_rows

TINY = ("+exp=pairwise", *QUICK, "decoding=[expectation,greedy]", "assistant=none")
BARE = "report=false"
QUESTIONS = ("Why is the sky blue?", "What is a bridge?", "Who was Ada Lovelace?", "How do cats purr?")
SYSTEMS = ("long", "short", "odd")


def local(folders):
    return ("judge=local", f"judge.path={folders[0]}")


def texts_of(question):
    return {
        "long": f"{question} Let us look at this closely, step by step.",
        "short": "Because of light.",
        "odd": "Bananas are yellow.",
    }


def preferences():
    """Four questions, three systems, all pairs, the last of each by two people."""
    rows = []
    for number, question in enumerate(QUESTIONS):
        texts = texts_of(question)
        for one, other, winner in (
            *(("long", "short", "model_a"), ("odd", "long", "model_b")),
            *(("short", "odd", "tie"), ("odd", "short", "model_b")),
        ):
            rows.append(
                {"prompt": question, "id": f"q{number}", "a": texts[one], "b": texts[other], "winner": winner}
                | {"model_a": one, "model_b": other}
            )
    return rows


OWN = (
    *("data=jsonl_pairs", "data.path=mine.jsonl", "dimensions=[overall]", "data.fields.source=prompt"),
    *("data.fields.first=a", "data.fields.second=b", "data.fields.preference=winner", "data.fields.group_id=id"),
    *("data.fields.first_system=model_a", "data.fields.second_system=model_b", "data.dev_share=0.25"),
)


def test_a_judge_may_find_ties(judgebench, tiny_pair):
    given = (*TINY, *local(tiny_pair), "prompt=comparative_ties", "prompt.rivals=2")
    judgebench(*given, "assistant=null_context", "decoding=[expectation,greedy,contrastive_expectation]")
    folder = RunFolder.open("run")
    readings, scores = folder.read("readings"), folder.read("scores")
    assert readings.candidates.map(tuple).unique().tolist() == [("0", "1", "2")]
    assert readings.prompt.str.contains("or 0 if both are equally good").all()
    main = scores.query("judge == 'main' and decoding == 'expectation'").set_index("example_id")
    for order, place, score, tie in (
        ("first", 1, "score_first", "tie_first"),
        ("second", 2, "score_second", "tie_second"),
    ):
        held = readings[readings.order == order].set_index("example_id").main_logprobs
        chances = np.exp(np.array(held[main.index].tolist()))
        chances /= chances.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(main[tie], chances[:, 0], atol=1e-6)
        np.testing.assert_allclose(main[score], chances[:, place] + chances[:, 0] / 2, atol=1e-6)
    ranked = next(r for r in folder.read("pairwise") if (r["judge"], r["decoding"]) == ("main", "expectation"))
    assert all(row["ties"] > 0 for row in ranked["ranking"])
    assert all(set(scores[scores.decoding == "greedy"][name]) <= {0, 1} for name in ("tie_first", "tie_second"))


def test_pairs_of_ones_own_are_compared_as_they_stand(judgebench, tiny_pair):
    write_rows("mine.jsonl", preferences())
    given = ("+exp=pairwise", *local(tiny_pair), *OWN, "logger=none", "metrics.resamples=20", "run_dir=run", BARE)
    _, out, _ = judgebench(*given, "print=all")
    folder = RunFolder.open("run")
    readings, scores = folder.read("readings"), folder.read("scores")
    assert len(readings) == 16 * 2
    assert readings.prompt.str.contains("User's request: ").all()
    assert scores.groupby("example_id").rival_system_id.nunique().max() == 1
    # two people compared odd with short, in either order: one comparison, and half a tie
    record = next(
        r for r in folder.read("pairwise") if (r["split"], r["judge"], r["rule"]) == ("test", "main", "expectation")
    )
    assert (record["pairs"], record["systems"], record["groups"]) == (9, 3, 3)
    short = next(row for row in record["ranking"] if row["system"] == "short")
    assert (short["human_wins"], short["human_ties"], short["human_losses"]) == (1.5, 1.5, 3)
    first = [row["system"] for row in record["ranking"] if row["human_rank"] == 1]
    assert first == ["long"]
    assert "Humans: long never lost to or tied with" in " ".join(out.split())


REPLAYED = (
    *("judge=replay", "judge.path=answers.jsonl", *OWN, "prompt=comparative", "prompt.rubrics=rubrics", BARE),
    *("logger=none", "metrics.resamples=0", "run_dir=run", "data.dev_share=0"),
)


@pytest.fixture
def answers(judgebench):
    """A judge's letters about every pair in both orders: long is better than short, and short than odd."""
    write_rows("mine.jsonl", preferences())
    Path("rubrics").mkdir()
    Path("rubrics/overall.txt").write_text("{{Document}} {{Response_1}} or {{Response_2}}? A (1), B (2)")
    found = []
    for line, row in enumerate(preferences(), 1):
        ahead = SYSTEMS.index(row["model_a"]) < SYSTEMS.index(row["model_b"])
        for order in ("first", "second"):
            letter = "A" if ahead == (order == "first") else "B"
            found.append({"example_id": f"line-{line}", "order": order, "text": f"[[{letter}]]"})
    return found


def test_earlier_answers_about_pairs_are_ranked_too(judgebench, answers):
    write_rows("answers.jsonl", answers[:-1])  # the last pair lacks its second order
    _, out, _ = judgebench(*REPLAYED, "judge.fields.order=order")
    assert "left out: 2 (" in " ".join(out.split())
    (record,) = RunFolder.open("run").read("pairwise")
    assert [row["system"] for row in record["ranking"]] == list(SYSTEMS)
    # people found a tie four times, thrice as one of two; the judge never does
    assert (record["accuracy"], record["auc"]) == (pytest.approx((8 + 3 / 2) / 12), 1)


def test_earlier_answers_must_say_in_which_order_and_in_both(judgebench, answers):
    write_rows("answers.jsonl", answers)
    told(judgebench(*REPLAYED, mistaken=True), "judge.fields.order: this run has orders first, second")
    write_rows("answers.jsonl", [one for one in answers if one["order"] == "first"])
    told(judgebench(*REPLAYED, "judge.fields.order=order", mistaken=True), "no pair of texts has an answer in both")
    write_rows("answers.jsonl", [one | {"order": "left"} for one in answers])
    wrong = "answers.jsonl line 1: field 'order' must say in which place the judged text stood, first or second"
    told(judgebench(*REPLAYED, "judge.fields.order=order", mistaken=True), wrong)


MISTAKES = {
    "ties": (["+pairwise.ties=davidson"], "pairwise.ties is unknown; there are prior"),
    "no prior": (["pairwise.prior=0"], "pairwise.prior: 0 should be greater than or equal to 0.001"),
    "gone": (["~pairwise"], "pairwise: None should be a mapping"),
    "no tie told": (
        ["prompt=comparative_ties", "prompt.rubrics=rubrics", "dimensions=[fluency]"],
        "ranges: 0-2 lets the judge find a tie, and the rubric for 'fluency' does not say that this is answered with 0",
    ),
    "other ranges": (
        ["ranges=[[1,3]]"],
        "give 'ranges=[[1,2]]', as prompt=comparative does by itself, or 'ranges=[[0,2]]'",
    ),
    "rivals of given pairs": ([*OWN, "prompt.rivals=2"], "prompt.rivals=2: mine says itself who meets whom"),
    "pairs one by one": (
        [*OWN, "prompt=paper", "data.rubrics=dialogue", "dimensions=[overall]", "ranges=[[1,5]]"],
        "data: each row of mine is two texts, and these rubrics judge one alone; choose prompt=comparative",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence(judgebench, tiny_pair, mistake):
    arguments, expected = MISTAKES[mistake]
    write_rows("mine.jsonl", preferences())
    Path("rubrics").mkdir()
    Path("rubrics/fluency.txt").write_text("{{Document}} {{Summary_1}} or {{Summary_2}}? 1 or 2")
    given = ("+exp=pairwise", *local(tiny_pair), "logger=none", "run_dir=run")
    told(judgebench(*given, *arguments, mistaken=True), expected)


@pytest.mark.parametrize("judge", ["tiny", pytest.param("embedded", marks=pytest.mark.exhaustive)])
def test_a_judge_ranks_three_systems(judgebench, tiny_pair, judge):
    """The numbers follow from the readings alone."""
    write_rows("mine.jsonl", preferences()[:8])
    free = (BARE, "assistant=none", "decoding=[expectation]", "logger=none", "metrics.resamples=50", "run_dir=run")
    given = local(tiny_pair) if judge == "tiny" else ()
    judgebench("+exp=pairwise", *given, *OWN, *free, "data.dev_share=0", "pairwise.prior=0.001")
    folder = RunFolder.open("run")
    (record,) = folder.read("pairwise")
    # by hand: the score equations of the order-effect model hold at the strengths that were found
    strengths = {row["system"]: row["strength"] for row in record["ranking"]}
    scores = folder.read("scores")
    slope = dict.fromkeys([*strengths, "place"], 0.0)
    for row in scores.itertuples():
        share = 0.5 if {row.system_id, row.rival_system_id} == {"odd", "short"} else 1.0  # whom two people compared
        for won, sign in ((row.score_first, 1), (row.score_second, -1)):
            d = strengths[row.system_id] - strengths[row.rival_system_id] + sign * record["place_effect"]
            left = share * (won - 1 / (1 + np.exp(-d)))
            slope[row.system_id] += left
            slope[row.rival_system_id] -= left
            slope["place"] += sign * left
    assert list(slope.values()) == pytest.approx([0] * 4, abs=1e-3)
    assert sum(strengths.values()) == pytest.approx(0, abs=1e-9)
    # a real one always names place one, and what that is worth is told apart from the texts
    assert judge == "tiny" or record["place_effect"] > 1
    assert record["ranking"][0]["strength_low"] is not None
