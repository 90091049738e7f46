"""The judge of a card in real evaluations of Inspect and DeepEval."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest

from judgebench.cards import Judge, JudgeCard
from judgebench.command.calibrate import main
from judgebench.words.errors import UserError
from tests.cards.test_card import DECISION
from tests.conftest import run_in

ARTICLES = ["The river rose after days of rain.", "The council met on Monday.", "Nobody came."]
ANSWERS = ["It rained, and the river rose.", "Bananas.", " "]


@pytest.fixture(scope="module")
def card(tmp_path_factory, tiny_pair):
    folder = tmp_path_factory.mktemp("card")
    small = ("data.limit_groups=2", "ranges=[[1,5]]", "assistant=none")
    more = ("decoding=[expectation]", "metrics.resamples=0", "logger=none", "report=false", "run_dir=run", "force=true")
    run_in(folder, main, "judge=local", f"judge.path={tiny_pair[0]}", *small, *more)
    return folder / "run" / "judge_card.yaml"


@pytest.fixture(scope="module")
def deciding(card):
    """Cards of the same judge that pass every text, fail it, and leave it to a person."""
    marks = {"pass": (0.0, None, 0.0), "fail": (9.0, 9.0, None), "ask": (3.0, 0.0, 9.0)}
    for name, (mark, fail_to, pass_from) in marks.items():
        decision = DECISION | {"pass_mark": mark, "fail_to": fail_to, "pass_from": pass_from}
        uses = [{"use": "decide", "verdict": "with care", "clause": ""}]
        replace(JudgeCard.read(card), decision=decision, uses=uses).write(card.with_name(f"{name}.yaml"))
    return [str(card.with_name(f"{name}.yaml")) for name in marks]


def evaluated(scorer, folder, monkeypatch):
    """Inspect's log of an evaluation of the answers."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    monkeypatch.chdir(folder)
    monkeypatch.setenv("INSPECT_LOG_DIR", str(folder / "logs"))

    @solver
    def answer():
        """Answers that were written before: Inspect counts a model's tokens with a file that it would download."""

        async def solve(state, generate):
            state.output = ModelOutput.from_content("none", ANSWERS[ARTICLES.index(state.metadata["article"])])
            return state

        return solve

    samples = [Sample(input="Summarize.", target="", metadata={"article": article}) for article in ARTICLES]
    task = Task(dataset=samples, solver=answer(), scorer=scorer)
    (log,) = eval(task, model="mockllm/model", display="none", max_samples=1)
    assert log.status == "success", log.error
    return log


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="pip install 'judgebench[inspect]'")
def test_inspect_says_correct_or_incorrect_by_the_cards_decision(card, deciding, tmp_path, monkeypatch):
    from judgebench.adapters.inspect_ai import judge_decision

    options = {"source": "article", "store": str(tmp_path / "store.sqlite")}
    log = evaluated([judge_decision(each, **options) for each in deciding], tmp_path, monkeypatch)
    scores = list(log.samples[0].scores.values())
    assert [score.value for score in scores[:2]] == ["C", "I"]
    assert [score.metadata["decision"] for score in scores] == ["pass", "fail", "ask"]
    assert scores[2].explanation == "A person is to see it."
    assert [of.metrics["accuracy"].value for of in log.results.scores[:2]] == [1, 0]
    with pytest.raises(UserError, match="it does not say pass or fail; take its scores, by judge_card"):
        judge_decision(str(card))


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="pip install 'judgebench[inspect]'")
def test_an_inspect_evaluation_is_scored_by_the_card(card, tmp_path, monkeypatch):
    from judgebench.adapters.inspect_ai import judge_card

    scorer = judge_card(str(card), source="article", store=str(tmp_path / "store.sqlite"))
    log = evaluated(scorer, tmp_path, monkeypatch)
    judge = Judge.from_card(card, store=tmp_path / "store.sqlite")
    expected = [judge.score(*pair).score for pair in zip(ARTICLES[:2], ANSWERS[:2], strict=True)]
    scores = [sample.scores["judge_card"] for sample in log.samples]
    assert [score.value for score in scores[:2]] == pytest.approx(expected, abs=1e-3)
    judged = judge.score(ARTICLES[0], ANSWERS[0])
    assert {name: scores[0].metadata[name] for name in ("low", "high", "wide")} == {"low": 1, "high": 5, "wide": True}
    assert set(scores[0].metadata["verdict"]) == {use["use"] for use in judge.card.uses}
    assert scores[0].metadata["estimate"] == pytest.approx(judged.estimate, abs=1e-3)
    assert scores[2].explanation == "There is no answer to judge.", "which ends no evaluation of the others"
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(sum(expected) / 2, abs=1e-3)


PROGRAM = """
import sys
from unittest.mock import patch
from deepeval import evaluate
from deepeval.test_case import LLMTestCase
from judgebench.adapters.deepeval import JudgeCardMetric
from judgebench.cards import Judge

card, *deciding = sys.argv[1:]
source, texts = "The river rose after rain.", ["It rained, and the river rose.", "Bananas.", "Nobody came."]
cases = [LLMTestCase(input=source, actual_output=text) for text in texts]
judge = Judge.from_card(card)
expected = {text: (judge.score(source, text).score - 1) / 4 for text in texts}


def evaluated(metrics):
    \"""Answer -> what DeepEval says of it, by the command of the docstring and its defaults.\"""
    results = evaluate(test_cases=cases, metrics=metrics).test_results
    assert len(results) == len(cases)
    return {result.actual_output: result.metrics_data for result in results}


with patch.object(Judge, "from_card", side_effect=Judge.from_card) as loaded:
    metric = JudgeCardMetric(card, threshold=0.0)
    for text, (data,) in evaluated([metric]).items():
        assert abs(data.score - expected[text]) < 1e-6, (text, data)
        assert data.success and data.threshold == 0.0 and data.error is None
    assert loaded.call_count == 1  # the copies share its judge
    by_card = [JudgeCardMetric(each) for each in deciding]
    for data in evaluated(by_card).values():
        assert [one.success for one in data] == [True, False, False]
        assert [one.threshold for one in data] == [-0.25, 2.0, 0.5]
        assert data[2].reason.endswith("; ask: a person is to see the text")
metric.measure(cases[0])
assert metric.score_breakdown["wide"] is True and metric.score_breakdown["low"] == 1
strict = JudgeCardMetric(judge, threshold=1.0)
strict.measure(cases[0])
assert not strict.is_successful()
metric.measure(LLMTestCase(input=source, actual_output=""))
assert (metric.score, metric.is_successful(), metric.error) == (0.0, False, "There is no actual_output to judge.")
assert JudgeCardMetric(judge).threshold == 0.5
print("good")
"""


@pytest.mark.skipif(find_spec("deepeval") is None, reason="pip install deepeval")
def test_a_deepeval_evaluation_is_scored_by_the_card(card, deciding, tmp_path):
    """In a process of its own: DeepEval changes the environment and would send telemetry."""
    quiet = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0", "DEEPEVAL_DISABLE_DOTENV": "1"}
    command = [sys.executable, "-c", PROGRAM, str(card), *deciding]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **quiet}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "good"
