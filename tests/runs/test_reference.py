"""Runs with references and with reasoning, end to end: what is written, read and left, and users' mistakes."""

import numpy as np
import pandas as pd
import pytest

from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from tests.conftest import QUICK, left_of, told

DEFENSES = ("none", "cot", "random_reference", "w_cap", "cap")
REFERENCES = DEFENSES[2:]
ASKED = (*QUICK, "prompt=cap", "dimensions=[joint]", "data.limit_groups=4", "data.dev_share=0.5")
TUTOR = (
    *("tutor=judge", "tutor.max_new_tokens=6", "tutor.candidates=12", "tutor.alpha_unit=norm"),
    *("tutor.alpha_high=0.2", "tutor.alpha_low=0.3"),
)


def judge(pair):
    return ("judge=local", f"judge.path={pair[0]}", "judge.dtype=float32")


def prompts_of(folder, defense):
    readings = folder.read("readings")
    return readings[(readings.defense == defense) & (readings.attack == "none")].set_index("group_id").prompt


def test_references_are_written_once_a_context_and_held_against_every_text(judgebench, tiny_pair):
    given = (*judge(tiny_pair), *ASKED, *TUTOR, "attacks=[none,dsi]", "decoding=[expectation]", "metrics.resamples=50")
    judgebench(*given, f"defenses=[{','.join(DEFENSES)}]", "defenses.1={name: cot, answer_tokens: 8}")
    folder = RunFolder.open("run")
    readings, scores, records = folder.read("readings"), folder.read("scores"), Results.load(folder.path)
    assert len(readings) == 4 * 6 * 2 * len(DEFENSES)
    assert len(records.references) == 4 * len(REFERENCES)
    for pair in records.references.itertuples():
        read = prompts_of(folder, pair.defense)
        own = read[read.index == pair.group_id]
        assert len(own) == 6
        assert own.str.contains(f"Summary 1 (Lower Reference): {pair.low}\n", regex=False).all()
        assert own.str.contains(f"Summary 2 (Higher Reference): {pair.high}\n", regex=False).all()
        assert 1 <= pair.score_low <= 5
    steered = records.references.set_index("defense").loc["cap"]
    (standard,) = records.standards
    norm = standard["norms"][standard["layer"] - 1]
    np.testing.assert_allclose(steered.alpha_high, 0.2 * norm)
    np.testing.assert_allclose(steered.alpha_low, 0.3 * norm)
    assert set(standard["groups"]) == set(records.references[records.references.split == "dev"].group_id)
    # under chain of thought the judge writes; under all others it is read
    assert readings.text.notna().equals(readings.defense == "cot")
    assert readings.main_logprobs.isna().equals(readings.defense == "cot")
    assert set(scores[scores.defense == "cot"].decoding) == {"greedy"}
    assert set(scores[scores.defense != "cot"].decoding) == {"expectation"}
    costs = {one["defense"]: one for one in records.costs}
    assert list(costs) == [*(name for name in DEFENSES if name != "cot"), "cot"]
    for name in DEFENSES:
        written = records.references[records.references.defense == name].seconds
        assert costs[name]["n"] == 4 * 6 * 2
        assert costs[name]["text_seconds"] == pytest.approx(written.sum() / 24 if len(written) else 0)
        mean = readings[readings.defense == name].seconds.mean()
        assert costs[name]["reading_seconds"] == pytest.approx(mean)
    # found vectors serve another run, and nothing is written anew
    reused = (*given, "defenses=[{name: cap, swapped: true}]", "tutor.vectors=run/defense", "run_dir=again")
    judgebench(*reused)
    again = RunFolder.open("again")
    pd.testing.assert_frame_equal(
        Results.load(again.path).references.drop(columns="seconds"),
        records.references[records.references.defense == "cap"].reset_index(drop=True).drop(columns="seconds"),
    )
    assert prompts_of(again, "cap").iloc[0] != prompts_of(folder, "cap").iloc[0]
    # but not a run that tests on what they were found on
    leaking = (*given, "defenses=[cap]", "tutor.vectors=run/defense/vectors_joint.safetensors", "data.seed=3")
    code, _, err = judgebench(*leaking, "run_dir=leaking", mistaken=True)
    assert code == 2
    assert "which would flatter the defense" in err
    assert left_of("leaking") == []


def test_strengths_are_tried_and_chosen(judgebench, tiny_pair):
    study = ("tutor.strengths=[0,0.2,0.5]", "tutor.alpha_high=null", "tutor.alpha_low=null", "decoding=[expectation]")
    judgebench(*judge(tiny_pair), *ASKED, *TUTOR, *study, "defenses=[cap]")
    records = Results.load("run")
    chosen = {one["side"]: one for one in records.strengths if one["chosen"]}
    assert len(records.strengths) == 6
    assert {one["scale"] for one in records.strengths} == {records.standards[0]["norms"][chosen_layer(records) - 1]}
    for side in ("high", "low"):
        assert chosen[side]["target"] == records.standards[0][f"{side}_threshold"]
        assert set(records.references[f"alpha_{side}"]) == {chosen[side]["alpha"]}


def chosen_layer(records):
    return records.standards[0]["layer"]


def test_mistakes_are_told(judgebench, tiny_pair):
    plain = (*judge(tiny_pair), *ASKED)
    told(judgebench(*plain, "defenses=[cap]", mistaken=True), "defenses: cap needs a tutor")
    none = (*plain, *TUTOR, "defenses=[cap]", "data.dev_share=0")
    told(judgebench(*none, mistaken=True), "cap needs a development split to find standard vectors on")
    compared = (
        *judge(tiny_pair),
        *QUICK,
        "prompt=comparative",
        "ranges=[[1,2]]",
        "decoding=[expectation]",
        "defenses=[cot]",
    )
    told(judgebench(*compared, mistaken=True), "cot is for texts that are judged alone")
    learned = (*plain, "attacks=[adv_suffix]", "decoding=[expectation]", "defenses=[cot]")
    told(judgebench(*learned, mistaken=True), "under cot its words are not the same tokens")
