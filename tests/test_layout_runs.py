"""Runs with prompt.layout=text_first: they go on after a failure, share a store with the papers' layout, and say so."""

from pathlib import Path

import pandas as pd

from judgebench.judges.passes import ScorePass
from judgebench.report.comparison import named_runs
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError

SMALL = (
    *("data=mini", "data.limit_groups=3", "judge=local", "assistant=null_context", "tune=none", "logger=none"),
    *("ranges=[[0,4],[1,5],[1,10]]", "dimensions=[coherence]", "metrics.resamples=0", "report=false", "worth=false"),
    *("decoding=[expectation,contrastive]", "judge.token_budget=300", "trainer=cpu"),
)


def readings(folder):
    frame = pd.read_parquet(Path(folder, "readings.parquet"))
    return frame.sort_values(["example_id", "range_min", "range_max"])["main_logprobs"].tolist()


def same(one, other):
    return all((a == b).all() for a, b in zip(one, other, strict=True))


def test_resumed_is_whole_and_both_layouts_share_a_store(judgebench, tiny_pair, monkeypatch):
    command = (*SMALL, f"judge.path={tiny_pair[0]}")
    first = (*command, "prompt.layout=text_first")
    judgebench(*first, "store=a.sqlite", "run_dir=whole")
    judgebench(*command, "store=b.sqlite", "run_dir=paper")
    # beside the other layout's readings the third batch fails
    read, batches = ScorePass.read, []

    def failing(self, batch, following=None):
        batches.append(batch)
        if len(batches) == 3:
            raise UserError("The machine is gone.")
        return read(self, batch, following)

    with monkeypatch.context() as patch:
        patch.setattr(ScorePass, "read", failing)
        code, _, _ = judgebench(*first, "store=b.sqlite", "run_dir=cut", mistaken=True)
    assert code
    assert all(batch.tree for batch in batches)
    judgebench(*first, "store=b.sqlite", "run_dir=resumed")
    assert same(readings("whole"), readings("resumed"))
    assert not same(readings("whole"), readings("paper"))
    # and no page takes one for the other
    runs = [Results.load(Path(name)) for name in ("whole", "paper")]
    assert list(named_runs(runs)) == [f"{tiny_pair[0].name}, text first", tiny_pair[0].name]


def test_free_answers_are_those_of_plain_reading(judgebench, tiny_pair):
    """Free answers share nothing across ranges, and are of the same prompts."""
    command = (*SMALL, f"judge.path={tiny_pair[0]}", "prompt.layout=text_first", "data.limit_groups=1")
    for engine in ("prefix", "plain"):
        judgebench(
            *command, "judge.mode=generate", "judge.max_new_tokens=2", "decoding=[greedy]", "assistant=none",
            f"judge.engine={engine}", f"run_dir={engine}",
        )  # fmt: skip
    prefix, plain = (pd.read_parquet(Path(name, "readings.parquet"))["text"].tolist() for name in ("prefix", "plain"))
    assert prefix == plain


def test_texts_that_are_compared_have_no_range_to_move(judgebench):
    _, _, said = judgebench(
        "+exp=comparative", "logger=none", "dry_run=true", "prompt.layout=text_first", mistaken=True
    )
    assert "prompt.layout=text_first: texts that are compared are asked about in one range alone" in said
