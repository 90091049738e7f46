"""A judge from its parts, without a run: prompts, readings, scores, and defenses that get ready on it."""

from functools import partial

import lightning as L
import pytest

from judgebench.attacks import attacked_text, select_attacks
from judgebench.decoding import Expectation, Greedy
from judgebench.defenses import select_defenses
from judgebench.defenses.prepared import STAGES, planned, prepare
from judgebench.judges.judge import ReadingJudge
from judgebench.judges.local.models import Models
from judgebench.judges.reader import IN_STORE
from judgebench.judges.spec import JudgeSpec
from judgebench.readings.store import open_store
from judgebench.types import Condition, Example, ScoreRange

RANGE = ScoreRange(1, 5)
PROMPT = {"rubrics": "summary", "variants": None, "max_tokens": None, "truncate": "error", "template_options": None}
TEXTS = [
    Example(f"{i}", f"g{i % 2}", "a", f"Article {i % 2}.", f"Summary {i} of it.", {"coherence": float(i)})
    for i in range(4)
]
SPLIT = {"g0": "dev", "g1": "test"}


@pytest.fixture
def trainer():
    return L.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False)


@pytest.fixture
def judge_under(tiny_pair, tmp_path):
    """Makes a judge under defenses, by their names."""

    def make(*names):
        return ReadingJudge.of(
            JudgeSpec(str(tiny_pair[0])),
            {"greedy": Greedy(), "expectation": Expectation()},
            PROMPT,
            ["coherence"],
            partial(open_store, tmp_path / "readings.sqlite"),
            defenses=select_defenses(names),
        )

    return make


def test_a_judge_reads_and_scores_without_a_run(judge_under, trainer):
    judge = judge_under("none")
    questions = judge.questions(TEXTS, [Condition("coherence", RANGE, "none", "none")], SPLIT)
    read = partial(judge.read, questions, SPLIT, trainer)
    scores = judge.scores(read(Models()).readings)
    assert sorted(scores["example_id"]) == sorted(2 * [example.example_id for example in TEXTS])
    assert ((scores["score"] >= 1) & (scores["score"] <= 5)).all()
    again = read(Models())
    assert again.device == IN_STORE
    assert judge.scores(again.readings)["score"].tolist() == scores["score"].tolist()


def test_a_defense_gets_ready_on_a_judge_by_itself(judge_under, trainer):
    judge = judge_under("none", "perplexity")
    assert planned(judge) == ["perplexity"]
    attacks = select_attacks(["none", "dsi"])
    asked = [Condition("coherence", RANGE, attack.name, name) for attack in attacks for name in ("none", "perplexity")]
    for stage in STAGES:
        run = {"examples": TEXTS, "split": SPLIT, "dataset": "texts", "trainer": trainer, "models": Models()}
        judge = prepare(judge, stage, asked, attacked_text(attacks), **run)
    assert planned(judge) == []
    prompts = judge.questions(TEXTS, asked, SPLIT, judged=attacked_text(attacks)).prompts
    assert {prompt.condition for prompt in prompts} == set(asked)
