"""Panels: a panel of one is that judge; pools and votes by hand; six recorded judges together; members that do not
belong together."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from judgebench.command.calibrate import main as calibrate
from judgebench.command.record import main as record
from judgebench.decoding.rules import Expectation, Greedy
from judgebench.decoding.scores import decode
from judgebench.judges.precomputed.panel import PanelSpec
from judgebench.results.folder import RunFolder
from judgebench.types import Condition, Example, Prompt, Reading, ScoreRange
from judgebench.words.errors import UserError
from tests.conftest import write_rows
from tests.judges.precomputed.test_recorded import ATTACKED, EXAMPLES, NARROW, SPLIT, prompts, row, written  # noqa: F401
from tests.stats.recorded import judges, needs_recorded, recorded

QUICK = ("data=conala_sample", "logger=none", "metrics.resamples=20", "report=false", "human_agreement=false")
CODER = "qwen2.5-coder"


@pytest.fixture
def file(tmp_path):
    """A name and rows -> the path of a file of answers."""

    def call(name: str, rows: list[dict]) -> str:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        return str(path)

    return call


def panel(members: list, texts: list[Prompt], combine: str = "mean", split=SPLIT):
    return PanelSpec(members=members, combine=combine).answers(texts, split, "mine")


def chances(answers, texts: list[Prompt]) -> np.ndarray:
    """Probabilities [texts, candidates] of a panel."""
    return np.exp([answers.to(prompt)[0]["main_logprobs"] for prompt in texts])


def scores_of(answers, texts: list[Prompt], decoding=Expectation()) -> np.ndarray:  # noqa: B008
    readings = [Reading(prompt, "test", tuple(answers.to(prompt)[0]["main_logprobs"])) for prompt in texts]
    columns = decode(readings, {"it": decoding})
    return np.where(columns["status"] == "failed", np.nan, columns["score"])


def said(file, name: str, texts: list[Prompt], numbers) -> str:
    """A file of answers to texts."""
    rows = [{"example_id": p.example.example_id, "attack": p.condition.attack} for p in texts]
    return file(name, [row | {"text": number} for row, number in zip(rows, numbers, strict=True)])


# --- a panel of one ---------------------------------------------------------------------------------------------------


def test_a_panel_of_one_is_that_judge_to_the_last_bit(judgebench, written):  # noqa: F811
    asked = (*QUICK, "data.limit_groups=12", "ranges=[[3,7]]", "decoding=[expectation,contrastive]", "tune=dev")
    judgebench("judge=recorded", f"judge.path={CODER}", *asked, "run_dir=alone")
    judgebench("judge=panel", f"judge.members=[{CODER}]", "assistant=recorded", *asked, "run_dir=one")
    alone, together = RunFolder.open("alone"), RunFolder.open("one")
    for name in ("readings", "scores"):
        pd.testing.assert_frame_equal(alone.read(name), together.read(name), check_exact=True)
    for name in ("metrics", "tuning", "comparisons"):
        assert json.dumps(alone.read(name)) == json.dumps(together.read(name)), name
    rows = [row(prompt) for prompt in prompts(NARROW)]
    given = panel([written(rows)], prompts(NARROW), "geometric").to(prompts(NARROW)[0])
    assert given[0]["main_logprobs"] == rows[0]["main_logprobs"]


@pytest.mark.parametrize("combine", ["mean", "median", "standardized"])
def test_a_panel_of_one_gives_the_scores_of_its_answers(file, combine):
    texts, numbers = prompts(NARROW), [1, 3, 2.5, 2, "no idea", 3]
    rated = [replace(p, example=replace(p.example, human={"coherence": float(i)})) for i, p in enumerate(texts)]
    answers = panel([said(file, "one", rated, numbers)], rated, combine)
    assert scores_of(answers, rated).tolist() == pytest.approx([1, 3, 2.5, 2, np.nan, 3], abs=0, nan_ok=True)
    answered = [rated[0], rated[1], rated[3], rated[5]]
    assert scores_of(answers, answered, Greedy()).tolist() == [1, 3, 2, 3]


# --- combinations by hand ---------------------------------------------------------------------------------------------


def test_answers_are_votes_and_what_failed_is_left_out(file):
    texts = prompts(NARROW)
    said_by = {"a": [3, 1, 1, "?", "?", 2], "b": [3, 2, 1, 2, "?", 3], "c": [1, 2, 2.5, 3, "?", 3]}
    members = [said(file, name, texts, numbers) for name, numbers in said_by.items()]
    answers = panel(members, texts)
    shares = chances(answers, texts)
    np.testing.assert_allclose(shares[0], [1 / 3, 0, 2 / 3])
    np.testing.assert_allclose(shares[2], [2 / 3, 1 / 6, 1 / 6])
    np.testing.assert_allclose(shares[3], [0, 0.5, 0.5])
    assert scores_of(answers, texts, Greedy()).tolist() == pytest.approx([3, 2, 1, 2, np.nan, 3], nan_ok=True)
    means = [7 / 3, 5 / 3, 1.5, 2.5, np.nan, 8 / 3]
    np.testing.assert_allclose(scores_of(answers, texts), means, atol=1e-6)
    assert answers.note == "Scored: 6 of the 6 rows of a panel (mean of a 4, b 5, c 5)."
    medians = scores_of(panel(members, texts, "median"), texts)
    np.testing.assert_allclose(medians, [3, 2, 1, 2.5, np.nan, 3], atol=1e-6)
    # "d" says the same of all; "a" and "e" differ by a constant; by the mean and deviation of both
    alike = {"d": [2] * 6, "a": [3, 2, 2, "?", "?", 2], "e": [2, 1, 1, 2, "?", 1]}
    members = [said(file, name, texts, numbers) for name, numbers in alike.items()]
    together = scores_of(panel(members, texts, "standardized"), texts)
    assert np.isnan(together[4])
    assert together[0] > together[1] == together[2] == together[5]
    a, e = np.array([3, 2, 2, 2]), np.array([2, 1, 1, 2, 1])
    by_hand = (a.mean() + e.mean()) / 2 + (a.std() + e.std()) / 2 * (2 - e.mean()) / e.std()
    assert together[3] == pytest.approx(by_hand, abs=1e-6)


def test_equal_means_are_ties_in_a_run_and_in_its_recording(judgebench):
    """As many values as sums; 32 bits told 18 of three judges' 13 apart."""
    votes = np.random.default_rng(0).integers(1, 6, (3, 300))
    names = [f"t{i}" for i in range(300)]
    texts = [{"source": f"Article {i // 4}.", "output": f"Text {i}.", "human": {"coherence": 3.0}} for i in range(300)]
    write_rows("texts.jsonl", [text | {"example_id": name} for text, name in zip(texts, names, strict=True)])
    for number, column in enumerate(votes.tolist()):
        rows = [{"example_id": name, "text": str(vote)} for name, vote in zip(names, column, strict=True)]
        write_rows(f"m{number}.jsonl", rows)
    data = ("data=jsonl", "data.path=texts.jsonl", "data.scale=[1,5]", "dimensions=[coherence]", "assistant=none")
    asked = (*data, *QUICK[1:], "data.dev_share=0", "ranges=[[1,5]]", "decoding=[expectation]")
    judgebench("judge=panel", "judge.members=[m0.jsonl,m1.jsonl,m2.jsonl]", *asked, "run_dir=panel")
    assert record(["panel", "out=panel.parquet"]) == 0
    judgebench("judge=recorded", "judge.path=panel.parquet", *asked, "run_dir=again")
    for folder in ("panel", "again"):
        found = RunFolder.open(folder).read("scores")["score"]
        np.testing.assert_allclose(found, votes.mean(axis=0), atol=1e-11)
        assert len(np.unique(found)) == len(np.unique(votes.sum(axis=0))) <= 13


def test_pools_of_probabilities(written):  # noqa: F811
    texts = prompts(NARROW)
    first = written([row(p, main_logprobs=np.log([0.5, 0.25, 0.0625]).tolist()) for p in texts])
    pair = [first, {"path": first, "judge": "assistant"}]  # whose probabilities are 3, 2 and 1 eighths
    np.testing.assert_allclose(
        chances(panel(pair, texts), texts)[0], (np.array([8, 4, 1]) / 13 + [1 / 2, 1 / 3, 1 / 6]) / 2
    )
    both = np.sqrt([0.5 * 3 / 8, 0.25 * 2 / 8, 0.0625 / 8])
    np.testing.assert_allclose(chances(panel(pair, texts, "geometric"), texts)[0], both)


# --- six recorded judges ----------------------------------------------------------------------------------------------


@needs_recorded
@pytest.mark.parametrize(
    ("dimension", "best", "agreement"),
    [
        ("coherence", 0.516, {"mean": 0.541, "median": 0.528, "standardized": 0.538}),
        ("consistency", 0.526, {"mean": 0.499, "median": 0.503, "standardized": 0.490}),
    ],
)
def test_six_recorded_judges_together(file, dimension, best, agreement):
    """Spearman over 960 summaries: a panel beats the best of its judges on two of four dimensions."""
    columns = {name: recorded(dimension, name) for name in judges()}
    first = next(iter(columns.values()))
    condition, nothing = Condition(dimension, ScoreRange(1, 5)), np.zeros(0, np.int32)
    texts = [
        Prompt(Example(f"{g}/{s}", g, s, g, "x", {dimension: float(h)}), condition, "", "", nothing)
        for g, s, h in zip(first.groups, first.systems, first.human, strict=True)
    ]
    members = [said(file, name, texts, one.judge.tolist()) for name, one in columns.items()]
    split = dict.fromkeys(first.groups.tolist(), "test")
    answers = {how: panel(members, texts, how, split) for how in agreement}
    found = {how: scores_of(together, texts) for how, together in answers.items()}
    each = np.array([one.judge for one in columns.values()])
    np.testing.assert_allclose(found["mean"], each.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found["median"], np.median(each, axis=0), atol=1e-5)
    votes = [min(Counter(votes).items(), key=lambda vote: (-vote[1], vote[0]))[0] for votes in each.T.tolist()]
    assert scores_of(answers["mean"], texts, Greedy()).tolist() == votes
    assert max(spearmanr(one, first.human).statistic for one in each) == pytest.approx(best, abs=5e-4)
    spearman = {how: spearmanr(scores.round(5), first.human).statistic for how, scores in found.items()}
    assert spearman == pytest.approx(agreement, abs=5e-4)


# --- members that do not belong together ------------------------------------------------------------------------------


def test_members_that_have_not_read_the_same_are_named(file, written):  # noqa: F811
    texts, wide = prompts(NARROW), Condition("coherence", ScoreRange(0, 1, 0.5))
    whole, part = said(file, "whole", texts, [1] * 6), said(file, "part", texts[:4], [1] * 4)
    with pytest.raises(UserError, match=r"judge.members: of 6 prompts part lacks 2; have it read them"):
        panel([whole, part], texts)
    assert len(panel([part], texts).given) == 4, "texts that no member has are left out"
    with pytest.raises(
        UserError, match=r"judge.members\[1\].path: no row of held.parquet answers under coherence, 0.0-1.0"
    ):
        panel([said(file, "w", prompts(wide), [1] * 6), written([row(p) for p in texts])], prompts(wide))
    with pytest.raises(UserError, match=r"judge.members\[0\].path: 6 of 6 prompts are not what was read"):
        panel([written([row(p) for p in texts])], prompts(NARROW, asked="Grade"))
    with pytest.raises(UserError, match=r"judge.members\[1\].path: 6 of 6 prompts are not what was read"):
        panel([whole, written([row(p, candidates=["1", "2", "4"]) for p in texts])], texts)
    shifted = said(file, "shifted", texts, [0, 1, 2, 2, 1, 0])
    with pytest.raises(UserError, match=r"\[0\].path: shifted.jsonl does not say its range, and says '0' of example"):
        panel([shifted], texts)
    alone = written([row(p, assistant_logprobs=None) for p in texts])
    with pytest.raises(UserError, match=r"judge.members\[0\].path: held.parquet lacks its assistant's log-prob"):
        panel([{"path": alone, "judge": "assistant"}], texts)
    ordered = prompts(*(replace(NARROW, order=order) for order in ("first", "second")))
    pairs = written([row(p) for p in ordered], compares=True)
    assert len(panel([pairs], ordered).given) == 12
    with pytest.raises(UserError, match=r"judge.combine: median is for texts judged alone"):
        panel([pairs], ordered, "median")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("judge.members=[]", "judge.members: [] should not be empty"),
        (f"judge.members=[{CODER},nowhere]", "nowhere: there is no such file; judge.members[1].path must be"),
        ("judge.members=[{path: x.jsonl, fields: {txt: text}}]", "judge.members[0].fields.txt is unknown"),
        (f"judge.members=[{{path: {CODER}, judge: pair}}]", "judge.members[0].judge: 'pair' should be 'main' or"),
        ("judge.combine=sum", "judge.combine: 'sum' should be 'mean', 'geometric', 'median' or 'standardized'"),
        ("judge.weights=[1,2]", "judge.weights: [1, 2] should be one number a member"),
        ("judge.weights=[0]", "none below 0, not all 0; of a pool alone"),
        ("judge.path=x", "judge.path: there is no key 'path' in judge"),
        ("assistant=null_context", "take assistant=recorded or assistant=none"),
        ("decoding=[contrastive]", "decoding contrastive: needs an assistant; take assistant=recorded"),
        ("defenses=[cap]", "judge=panel has its members' readings only"),
    ],
)
def test_settings_that_cannot_be(judgebench, given, message):
    code, _, err = judgebench("judge=panel", f"judge.members=[{CODER}]", *QUICK, given, "run_dir=no", mistaken=True)
    assert (code, Path("no").exists()) == (2, False)
    assert message in err


# --- the whole pipeline -----------------------------------------------------------------------------------------------


def test_run_folder_recording_and_answers_are_a_judge(judgebench, called, capfd):
    asked = (*QUICK, "data.limit_groups=12", "data.dev_share=0", "ranges=[[1,5]]", "decoding=[greedy,expectation]")
    judgebench("judge=recorded", f"judge.path={CODER}", *asked, "run_dir=first")
    votes = RunFolder.open("first").read("scores").query("judge == 'assistant' and decoding == 'greedy'")
    rows = [{"example_id": name, "rating": score} for name, score in zip(votes.example_id, votes.score, strict=True)]
    write_rows("votes.jsonl", rows)
    members = "judge.members=[first,{path: first, judge: assistant},{path: votes.jsonl, fields: {text: rating}}]"
    shown = ("judge=panel", members, *asked, "report=true", "human_agreement=true", "print=all", "run_dir=panel")
    _, out, _ = judgebench(*shown)
    said = "Scored: 72 of the 72 rows of a panel (mean of first 72, first's assistant 72, votes 72)."
    assert said in " ".join(out.split())
    assert "mean of 3 judges" in Path("panel/report.html").read_text("utf-8")
    # what it gives is the mean of what they gave
    scores, known = RunFolder.open("panel").read("scores"), RunFolder.open("first").read("scores")
    expected = [
        known[(known.judge == judge) & (known.decoding == "expectation")].score.to_numpy()
        for judge in ("main", "assistant")
    ]
    own = scores[scores.decoding == "expectation"].score
    np.testing.assert_allclose(own, np.mean([*expected, votes.score.to_numpy()], axis=0), atol=1e-5)
    # a card would have to score other texts
    capfd.readouterr()
    _, _, err = called(calibrate, "judge=panel", members, "assistant=none", *asked, "tune=none", mistaken=True)
    assert "of a panel's members there are readings of these alone; calibrate each judge" in err
    rubric = Path("rubrics")
    rubric.mkdir()
    (rubric / "quality.txt").write_text("Rate {{Summary}} from {min_range} to {max_range}:")
    _, _, err = judgebench("judge=panel", "judge.members=[first]", *asked, "prompt.rubrics=rubrics", mistaken=True)
    assert "judge.members[0].path: 72 of 72 prompts are not what was read" in err
