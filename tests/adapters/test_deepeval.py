"""The DeepEval metric in a real DeepEval evaluation."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("deepeval") is None, reason="pip install deepeval")

PROGRAM = """
import sys
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.test_case import LLMTestCase
from judgebench.adapters.deepeval import JudgeCardMetric
from judgebench.cards import Judge

metric = JudgeCardMetric("run/judge_card.yaml", threshold=0.0)
case = LLMTestCase(input="The river rose after rain.", actual_output="It rained, and the river rose.")
found = evaluate(
    test_cases=[case], metrics=[metric],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False),
)
(data,) = found.test_results[0].metrics_data
judged = Judge.from_card("run/judge_card.yaml").score(case.input, case.actual_output)
assert abs(data.score - (judged.score - 1) / 4) < 1e-6, (data, judged)
assert data.success and metric.is_successful()
strict = JudgeCardMetric("run/judge_card.yaml", threshold=1.0)
strict.measure(case)
assert not strict.is_successful()
metric.measure(LLMTestCase(input="The river rose after rain.", actual_output=""))
assert (metric.score, metric.is_successful(), metric.error) == (0.0, False, "There is no actual_output to judge.")
print("good")
"""


def test_an_evaluation_is_scored_by_the_card(tmp_path):
    """In processes of their own: DeepEval changes the environment and would send telemetry."""
    small = ("data.limit_groups=2", "data.dev_share=0.5", "ranges=[[1,5]]", "assistant=none", "tune=none")
    more = ("decoding=[expectation]", "metrics.resamples=0", "logger=none", "report=false", "run_dir=run")
    quiet = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0"}
    for command in (["-m", "judgebench.calibrate", *small, *more], ["-c", PROGRAM]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env={**os.environ, **quiet}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "good"
