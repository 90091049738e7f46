"""Runs that ask which of two texts is better, end to end: tiny models, and the embedded judge against plain passes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from judgebench.results.folder import RunFolder
from tests.conftest import QUICK, told, write_rows
from tests.faults.conftest import rows

ASKED = (*QUICK, "prompt=comparative", "decoding=[expectation,greedy,contrastive]")


def test_what_two_pairs_ask_alike_is_read_once(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "prompt=comparative", "prompt.rivals=all")
    _, out, _ = judgebench(*given, "dry_run=true")
    told_tokens = [line.split() for line in out.splitlines() if line.split()[:1] == ["coherence"]]
    assert [(line[4], line[5], line[7] == "0") for line in told_tokens] == [
        ("first", "120", False),
        ("second", "120", True),
    ]
    judgebench(*given)
    folder = RunFolder.open("run")
    readings = folder.read("readings")
    assert len(readings) == 4 * 6 * 5 * 2
    assert len(rows(Path("outputs/readings.sqlite"))) == readings.prompt.nunique() == len(readings) / 2
    # a text's chance against its rival and the rival's against it make one
    scores = folder.read("scores").query("decoding == 'expectation'").set_index(["text_id", "rival_id"]).score
    turned = scores.swaplevel()
    np.testing.assert_allclose(scores + turned[scores.index], 1)


def test_own_rubrics_and_free_answers(judgebench, tiny_pair, tmp_path):
    (tmp_path / "fluency.txt").write_text("{{Document}} A: {{Summary_1}} B: {{Summary_2}} 1 or 2?")
    given = (*QUICK, "prompt=comparative", f"prompt.rubrics={tmp_path}", "dimensions=[fluency]", "prompt.rivals=1")
    free = ("judge=local", f"judge.path={tiny_pair[0]}", "judge.mode=generate", "judge.max_new_tokens=3")
    judgebench(*free, *given, "decoding=[greedy]")
    scores = RunFolder.open("run").read("scores")
    assert len(scores) == 4 * 6
    # a random model names no place
    assert set(scores[scores.status == "failed"].score_first) == {0.5}


MISTAKES = {
    "ranges": (["ranges=[[1,5]]"], "ranges: 1-5 cannot be asked for where two texts are compared"),
    "rubrics of one text": (["prompt.rubrics=summary"], "prompt.rivals: these rubrics judge one text alone"),
    "no rivals": (["~prompt.rivals", "~prompt.rivals_seed"], "prompt.rivals is not given"),
    "tuned": (
        ["tune=dev", "assistant=null_context", "decoding=[greedy,contrastive]"],
        "tune=dev: lambda and t are chosen by the scores of single texts",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence(judgebench, tiny_pair, mistake):
    arguments, expected = MISTAKES[mistake]
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "logger=none", "run_dir=run", "prompt=comparative")
    told(judgebench(*given, *arguments, mistaken=True), expected)


TEXTS = ("The town closes its bridge for repairs.", "Bananas are yellow, and the moon is far away.")


@pytest.mark.exhaustive
def test_win_probabilities_of_the_embedded_judge_are_those_of_plain_forward_passes(
    judgebench, tmp_path, smollm2, smollm2_tokenizer
):
    article = "The council voted on Tuesday to close the old bridge. Engineers had found that its piers are sinking."
    texts = [{"source": article, "output": text, "human": {"joint": 5 - 4 * i}} for i, text in enumerate(TEXTS)]
    write_rows((tmp_path / "data.jsonl"), texts)
    judgebench("+exp=comparative", "data=jsonl", f"data.path={tmp_path / 'data.jsonl'}", *QUICK[:3], "run_dir=run")
    folder = RunFolder.open("run")
    scores = folder.read("scores")
    scores = scores[(scores.judge == "main") & (scores.decoding == "expectation")].set_index("text_id")
    space, *digits = (smollm2_tokenizer.encode(text)[0] for text in (" ", "1", "2"))
    smollm2.set_attn_implementation("sdpa")
    place_one = []
    for order in ("first", "second"):
        row = folder.read("readings").query(f"text_id == 'line-1' and order == '{order}'").iloc[0]
        one, two = TEXTS if order == "first" else TEXTS[::-1]
        assert f"Source Text: {article}\n\nSummary 1: {one}\n\nSummary 2: {two}\n\nWhich of" in row["prompt"]
        ids = [*smollm2_tokenizer(row["prompt"], add_special_tokens=False)["input_ids"], space]
        with torch.inference_mode():
            logp = smollm2(torch.tensor([ids])).logits[0, -2:].log_softmax(-1)
        # "1" as the next token, or a space and then "1"
        both = torch.logaddexp(logp[0, digits], logp[0, space] + logp[1, digits]).exp()
        place_one.append(float(both[0] / both.sum()))
    expected = (place_one[0] + 1 - place_one[1]) / 2
    assert scores.score["line-1"] == pytest.approx(expected, abs=1e-4)
    assert scores.score["line-2"] == pytest.approx(1 - expected, abs=1e-4)
    assert scores.score_first["line-1"] == pytest.approx(place_one[0], abs=1e-4)
    assert scores.human.to_dict() == {"line-1": 4.0, "line-2": -4.0}
