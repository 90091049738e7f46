"""A card's judge as the reward of a trainer: what it is worth, and in TRL's own loop where that is installed."""

import math
from pathlib import Path

import numpy as np
import pytest

from judgebench.cards import Judge, JudgeCard
from tests.cards.test_scoring import local, parts, score  # noqa: F401 - a fixture: a card, its texts and answers


@pytest.fixture
def judge(score, tiny_pair):  # noqa: F811
    of = {**vars(JudgeCard.read("card.yaml")), "parts": {**parts(), **local(tiny_pair[0])}}
    JudgeCard(**of).write(Path("l.yaml"))
    return Judge.from_card("l.yaml", check_models=False, judge={"dtype": "float32"}, store="none")


PROMPTS = ["Why is the sky blue?", "Name a bird."]
COMPLETIONS = ["Light is scattered.", "A heron."]


def test_a_reward_is_the_estimate_of_each_completion_and_none_where_there_is_none(judge):
    alone = judge.score_all([{"source": s, "output": o} for s, o in zip(PROMPTS, COMPLETIONS, strict=True)])
    rewards = judge.reward(prompts=PROMPTS, completions=COMPLETIONS, completion_ids=[[1], [2]], trainer_state=None)
    assert rewards == [each.score if math.isnan(each.estimate) else each.estimate for each in alone]
    assert np.isfinite(rewards).all()
    assert judge.reward([*PROMPTS, "Again."], [*COMPLETIONS, " "]) == [*rewards, None]
    assert judge.reward([], []) == []
    with pytest.raises(ValueError, match="shorter"):
        judge.reward(PROMPTS, COMPLETIONS[:1])


def test_conversations_are_judged_by_their_last_message(judge):
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    replies = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]
    assert judge.reward(chats, replies) == judge.reward(PROMPTS, COMPLETIONS)
    longer = [{"role": "system", "content": "Be brief."}, *chats[0]]
    (reward,) = judge.reward([longer], replies[:1])
    assert reward == judge.reward(["system: Be brief.\n\nuser: Why is the sky blue?"], COMPLETIONS[:1])[0]


@pytest.mark.slow
def test_trl_trains_by_it(judge, tiny_pair, tmp_path):
    pytest.importorskip("trl", reason="TRL is not installed; pip install 'judgebench[trl]'")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    settings = GRPOConfig(
        output_dir=str(tmp_path / "trained"),
        max_steps=2,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=8,
        logging_steps=1,
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    data = Dataset.from_dict({"prompt": PROMPTS * 2})
    trainer = GRPOTrainer(str(tiny_pair[1]), reward_funcs=[judge.reward], args=settings, train_dataset=data)
    trainer.train()
    means = [entry["rewards/reward/mean"] for entry in trainer.state.log_history if "rewards/reward/mean" in entry]
    assert len(means) == 2
    low, high = judge.card.range.minimum, judge.card.range.maximum
    assert all(low <= mean <= high for mean in means)
