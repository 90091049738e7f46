"""The judge of a card in real evaluations of Inspect and DeepEval."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from hydra.core.global_hydra import GlobalHydra

from judgebench.calibrate import main
from judgebench.cards import Judge

ARTICLES = ["The river rose after days of rain.", "The council met on Monday.", "Nobody came."]
ANSWERS = ["It rained, and the river rose.", "Bananas.", " "]


@pytest.fixture(scope="module")
def card(tmp_path_factory, tiny_pair):
    folder = tmp_path_factory.mktemp("card")
    GlobalHydra.instance().clear()
    small = ("data.limit_groups=2", "ranges=[[1,5]]", "assistant=none")
    more = ("decoding=[expectation]", "metrics.resamples=0", "logger=none", "report=false", "run_dir=run", "force=true")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["calibrate", "judge=local", f"judge.path={tiny_pair[0]}", *small, *more])
        main()
    return folder / "run" / "judge_card.yaml"


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="pip install 'judgebench[inspect]'")
def test_an_inspect_evaluation_is_scored_by_the_card(card, tmp_path, monkeypatch):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    from judgebench.adapters.inspect_ai import judge_card

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))

    @solver
    def answer():
        """Answers that were written before: Inspect counts a model's tokens with a file that it would download."""

        async def solve(state, generate):
            state.output = ModelOutput.from_content("none", ANSWERS[ARTICLES.index(state.metadata["article"])])
            return state

        return solve

    task = Task(
        dataset=[Sample(input="Summarize.", target="", metadata={"article": article}) for article in ARTICLES],
        solver=answer(),
        scorer=judge_card(str(card), source="article", store=str(tmp_path / "store.sqlite")),
    )
    (log,) = eval(task, model="mockllm/model", display="none", max_samples=1)
    assert log.status == "success", log.error
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
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.test_case import LLMTestCase
from judgebench.adapters.deepeval import JudgeCardMetric
from judgebench.cards import Judge

card = sys.argv[1]
metric = JudgeCardMetric(card, threshold=0.0)
case = LLMTestCase(input="The river rose after rain.", actual_output="It rained, and the river rose.")
results = evaluate(
    test_cases=[case], metrics=[metric],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False),
)
(data,) = results.test_results[0].metrics_data
judged = Judge.from_card(card).score(case.input, case.actual_output)
assert abs(data.score - (judged.score - 1) / 4) < 1e-6, (data, judged)
assert data.success and metric.is_successful()
assert metric.score_breakdown["wide"] is True and metric.score_breakdown["low"] == 1
strict = JudgeCardMetric(card, threshold=1.0)
strict.measure(case)
assert not strict.is_successful()
metric.measure(LLMTestCase(input="The river rose after rain.", actual_output=""))
assert (metric.score, metric.is_successful(), metric.error) == (0.0, False, "There is no actual_output to judge.")
print("good")
"""


@pytest.mark.skipif(find_spec("deepeval") is None, reason="pip install deepeval")
def test_a_deepeval_evaluation_is_scored_by_the_card(card, tmp_path):
    """In a process of its own: DeepEval changes the environment and would send telemetry."""
    quiet = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0"}
    command = [sys.executable, "-c", PROGRAM, str(card)]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **quiet}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "good"
