"""The real embedded judge on real data: what a run records is what transformers gives on each full prompt."""

import json
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from judgebench.results.folder import RunFolder


def test_candidate_log_probabilities_are_those_of_a_plain_forward_pass(
    judgebench, summeval_file, smollm2, smollm2_tokenizer
):
    with summeval_file.open() as lines:
        articles = [list(group) for _, group in groupby(lines, key=lambda line: json.loads(line)["id"])]
    shortest = min((group for group in articles if len(group) > 1), key=lambda group: len(group[0]))
    Path("some.jsonl").write_text("".join(shortest[:2]))
    code, _, err = judgebench(
        *("+exp=cd_smollm2", "data=summeval", "ranges=[[2,6]]", "dimensions=[coherence]", "data.limit_groups=1"),
        *("tune=none", "assistant=none", "decoding=[expectation]", "logger=none", "report=false", "run_dir=run"),
        "metrics.resamples=50",
        "data.path=some.jsonl",
    )
    assert code == 0, err
    readings = RunFolder.open("run").read("readings")
    assert len(readings) == 2
    space = smollm2_tokenizer.encode(" ")[0]
    smollm2.set_attn_implementation("sdpa")
    for _, row in readings.iterrows():
        ids = [*smollm2_tokenizer(row["prompt"], add_special_tokens=False)["input_ids"], space]
        with torch.inference_mode():
            logp = smollm2(torch.tensor([ids])).logits[0, -2:].log_softmax(-1)
        digits = [smollm2_tokenizer.encode(candidate)[0] for candidate in row["candidates"]]
        # "4" as the next token, or a space and then "4"
        expected = torch.logaddexp(logp[0, digits], logp[0, space] + logp[1, digits])
        np.testing.assert_allclose(row["main_logprobs"], expected, atol=1e-3)
        assert row["prompt_tokens"] == len(ids) - 1
