"""The command line end to end, with tiny real models: what a run leaves behind, resuming, and users' mistakes."""

import gc
import re
import shlex
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.passes import ScorePass
from judgebench.results.folder import RunFolder
from tests.conftest import QUICK, pair, told
from tests.models import swap_words, tiny_llama


def test_a_run_leaves_the_folder_that_the_contract_names(judgebench, tiny_pair):
    code, out, _ = judgebench(
        *pair(tiny_pair), *QUICK, "report=true", "figures=png", "decoding=[greedy,contrastive]", "ranges=[[1,5],[0,4]]"
    )
    assert code == 0
    assert out.splitlines()[-1] == "run"
    names = {str(path.relative_to("run")) for path in Path("run").rglob("*") if path.is_file()}
    assert {
        *("config.yaml", "environment.json", "readings.parquet", "scores.parquet", "metrics.json", "report.html"),
        *(f"figures/{name}.{kind}" for name in ("logprobs_coherence",) for kind in ("png", "svg")),
    } <= names
    folder = RunFolder.open("run")
    readings, scores, records = folder.read("readings"), folder.read("scores"), folder.read("metrics")
    assert len(readings) == 4 * 6 * 2
    assert len(scores) == len(readings) * 3  # main and assistant greedily, the pair contrastively
    assert {record["judge"] for record in records} == {"main", "assistant", "pair"}
    assert {record["split"] for record in records} == {"test"}  # nothing is chosen, so nothing is set apart
    assert folder.read("config")["data"]["dev_share"] == 0
    environment = folder.read("environment")
    assert set(environment["seconds"]) == {"load", "defense", "read", "decode", "metrics", "report"}
    assert environment["tokens"]["unique"] < environment["tokens"]["total"] == readings["prompt_tokens"].sum()
    assert {role: held["title"] for role, held in environment["model_fingerprints"].items()} == {
        "main": "tiny-main",
        "assistant": "tiny-assistant",
    }
    # the recorded prompt is what was read: a plain forward pass over it gives the recorded log-probabilities
    for role, folder_ in zip(("main", "assistant"), tiny_pair, strict=True):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder_)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder_)
        for _, row in readings.iloc[::10].iterrows():
            ids = tokenizer(row["prompt"], add_special_tokens=False, return_tensors="pt")["input_ids"]
            space = tokenizer.encode(" ")
            with torch.inference_mode():
                logp = model(torch.cat([ids, torch.tensor([space])], dim=1)).logits[0, -2:].log_softmax(-1)
            digits = [tokenizer.encode(c)[0] for c in row["candidates"]]
            expected = torch.logaddexp(logp[0, digits], logp[0, space[0]] + logp[1, digits])
            np.testing.assert_allclose(row[f"{role}_logprobs"], expected, atol=1e-4)


def test_lambda_zero_is_greedy_exactly_beside_another_lambda(judgebench, tiny_pair):
    strong = "+decoding.strong={_target_: judgebench.decoding.Contrastive, lambda_: 2.0}"
    command = ("decoding=[greedy,contrastive]", "decoding.lambda=0", strong, "ranges=[[1,5],[1,10]]")
    judgebench(*pair(tiny_pair), *QUICK, *command)
    scores = RunFolder.open("run").read("scores")
    assert sorted(scores[scores.judge == "pair"]["lambda"].unique()) == [0.0, 2.0]
    greedy = scores[(scores.judge == "main") & (scores.decoding == "greedy")]
    zero = scores[(scores.judge == "pair") & (scores.decoding == "contrastive")]
    assert (greedy.score.to_numpy() == zero.score.to_numpy()).all()
    assert len(zero) == 48


def test_the_same_command_reads_nothing_twice(judgebench, tiny_pair, monkeypatch):
    command = (*pair(tiny_pair), *QUICK, "decoding=[greedy,contrastive]")
    judgebench(*command)
    first = RunFolder.open("run").read("readings")
    read = []
    plain = ScorePass.read
    monkeypatch.setattr(ScorePass, "read", lambda self, batch: read.append(batch) or plain(self, batch))
    assert judgebench(*command)[0] == 0
    assert read == []
    assert RunFolder.open("run").read("readings").equals(first)
    # the assistant, as a judge of its own, is read already; another dtype is another reading
    judgebench("judge=local", f"judge.path={tiny_pair[1]}", *QUICK)
    assert read == []
    judgebench("judge=local", f"judge.path={tiny_pair[1]}", "judge.dtype=bfloat16", *QUICK)
    assert read


@pytest.mark.parametrize("assistant", ["early_exit", "null_context", "model"])
def test_free_answers_are_generated_parsed_and_recorded(judgebench, tiny_pair, assistant):
    given = {"early_exit": ["assistant.layer=2"], "model": [f"assistant.path={tiny_pair[1]}"]}.get(assistant, [])
    code, _, err = judgebench(
        *("judge=local", f"judge.path={tiny_pair[0]}", "judge.mode=generate", "judge.max_new_tokens=4"),
        *(f"assistant={assistant}", *given, "decoding=[greedy,contrastive]", *QUICK, f"report={assistant == 'model'}"),
    )
    assert code == 0, err
    readings, scores = RunFolder.open("run").read("readings"), RunFolder.open("run").read("scores")
    ways = readings.groupby(["judge", "decoding"]).size()
    assert ways["main", "greedy"] == ways["pair", "contrastive"] == 24
    assert (("assistant", "greedy") in ways) == (assistant != "null_context")
    assert readings["text"].notna().all()
    assert readings["main_logprobs"].isna().all()
    assert len(scores) == len(readings)
    # random models do not answer with scores: what cannot be read is failed and stands at the minimum
    failed = scores[scores.status == "failed"]
    assert len(failed) > 0
    assert (failed.score == failed.range_min).all()
    assert any(record["failed_share"] > 0 for record in RunFolder.open("run").read("metrics"))


@pytest.mark.parametrize("sick", ["main", "assistant"])
def test_nan_in_a_free_answer_is_told(judgebench, tiny_pair, tmp_path, smollm2_tokenizer, sick):
    folders = dict(zip(("main", "assistant"), tiny_pair, strict=True)) | {sick: sick_model(tmp_path, smollm2_tokenizer)}
    command = (*pair(folders.values()), *QUICK, "judge.mode=generate", "decoding=[contrastive]")
    told(judgebench(*command, mistaken=True), "NaN")


def test_a_large_main_model_leaves_before_the_assistant_comes(judgebench, tiny_pair, monkeypatch):
    monkeypatch.setattr("judgebench.judges.local.models._RESERVE", 1.0)
    seen = []
    load = ModelSource.model

    def watched(self):
        gc.collect()
        seen.append([reference() is not None for reference in references])
        model = load(self)
        references.append(weakref.ref(model))
        return model

    references: list[weakref.ref] = []
    monkeypatch.setattr(ModelSource, "model", watched)
    judgebench(*pair(tiny_pair), *QUICK, "decoding=[contrastive]")
    assert seen == [[], [False]]


def test_a_dry_run_shows_what_would_be_read_and_writes_nothing(judgebench, tiny_pair):
    attacks = "attacks=[escape_characters,bed]"  # beside none
    code, out, _ = judgebench(*pair(tiny_pair), *QUICK, "dry_run=true", "ranges=[[1,5],[2,6]]", attacks)
    assert code == 0
    assert "unique tokens" in out
    assert "EVALUATION DIRECTIVE" in out
    assert out.count("first prompt: coherence") == 2 * 3
    assert "What is the coherence of the summary above?" in out
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("mode", ["score_tokens", "generate"])
def test_what_is_asked_about_nothing_is_not_attacked(judgebench, tiny_pair, mode):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", f"judge.mode={mode}", "judge.max_new_tokens=3", *QUICK)
    judgebench(*command, "assistant=null_context", "decoding=[contrastive]", "attacks=[none,dsi]")
    readings = RunFolder.open("run").read("readings")
    assert len(readings) == 48
    if mode == "score_tokens":
        assert len({tuple(row) for row in readings.assistant_logprobs}) == 1


MISTAKES = {
    "unknown dimension": (["dimensions=[charm]"], "charm"),
    "range of one value": (["ranges=[[3,3]]"], "minimum must lie below the maximum"),
    "range twice": (["ranges=[[1,5],[1,5]]"], "names one twice"),
    "contrast with nothing": (["decoding=[contrastive]"], "assistant=early_exit or assistant=null_context."),
    "expectation of text": (["judge.mode=generate", "decoding=[expectation]"], "judge.mode=score_tokens"),
    "temperature zero": (["assistant=null_context", "decoding=[contrastive]", "decoding.temperature=0"], "temperature"),
    "no layer": (
        ["assistant=early_exit"],
        "assistant.layer: None is not a layer; say after which of the judge's layers",
    ),
    "no such layer": (["assistant=early_exit", "assistant.layer=99"], "assistant.layer: 99 is not between 1 and 3"),
    "prompt too long": (["prompt.max_tokens=100"], "prompt.truncate=source"),
    "no decoding": (["decoding=[]"], "decoding: none is chosen"),
    "no decoding's class": (["+decoding.mine={_target_: builtins.dict}"], "decoding.mine: dict is no decoding"),
    "no devices": (["trainer.devices=0"], "trainer"),
    "no such accelerator": (["trainer.accelerator=abacus"], "trainer"),
    "unknown trainer key": (["+trainer.foo=1"], "foo"),
    "no such mode of wandb": (["logger=wandb", "logger.mode=loud"], "logger.mode"),
    "path that is a number": (["judge.path=5"], "judge.path"),
    "no store": (["store=null"], "store: None is not a path"),
    "no attack template": (["attacks=[none,nowhere.txt]"], "nowhere.txt cannot be read"),
    "no joint rubric": (["dimensions=[joint]"], "no rubric 'joint' in prompt.rubrics=summary"),
    "no rubric of cap": (["prompt=cap"], "no rubric 'coherence' in prompt.rubrics=cap_summary; it has joint"),
    "compared from 1 to 5": (
        ["prompt=comparative", "ranges=[[1,5]]"],
        "ranges: 1-5 cannot be asked for where two texts are compared",
    ),
    "rubrics of one text": (
        ["prompt=comparative", "prompt.rubrics=summary"],
        "prompt.rivals: these rubrics judge one text alone",
    ),
    "no rivals": (["prompt=comparative", "~prompt.rivals", "~prompt.rivals_seed"], "prompt.rivals is not given"),
    "compared and tuned": (
        ["prompt=comparative", "tune=dev", "assistant=null_context", "decoding=[greedy,contrastive]"],
        "tune=dev: lambda and t are chosen by the scores of single texts",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(judgebench, tiny_pair, mistake):
    arguments, expected = MISTAKES[mistake]
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "logger=none", "run_dir=run", *arguments)
    told(judgebench(*given, mistaken=True), expected)


def test_an_experiment_of_a_file_is_told_how_to_take_data_without_one(judgebench, tiny_pair):
    given = ("+exp=tables/cap", "judge=local", f"judge.path={tiny_pair[0]}", "data=mini", "dry_run=true")
    code, _, err = judgebench(*given, mistaken=True)
    assert code == 2
    assert "data.path: 'hub' is not needed, for mini is part of the package; data.path=null leaves it out.\n" in err
    (right,) = re.findall(r"This command is right:\n  python -m judgebench (.*)\n", err)
    code, out, _ = judgebench(*shlex.split(right))
    assert (code, "Final Rating" in out) == (0, True)


def test_mismatched_vocabularies_are_told(judgebench, tiny_pair, model_folder):
    swap_words(model_folder, 1000)
    told(
        judgebench(*pair((tiny_pair[0], model_folder)), "decoding=[contrastive]", "run_dir=run", mistaken=True),
        "The assistant's vocabulary differs from the main model's",
    )


def sick_model(tmp_path, tokenizer):
    folder = tmp_path / "sick"
    model = tiny_llama(3)
    model.model.layers[2].mlp.up_proj.weight.data[0, 0] = float("nan")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_hub_that_cannot_be_reached_is_told_at_once(judgebench, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    result = judgebench("judge=qwen2_5_14b", "assistant=qwen2_5_3b", mistaken=True)
    for key, model in (("judge", "Qwen/Qwen2.5-14B-Instruct"), ("assistant", "Qwen/Qwen2.5-3B-Instruct")):
        told(result, f"{key}.path={model}", f"give a local folder with {key}.path=")
