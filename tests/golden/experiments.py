"""The frozen experiments: what is run, and the answers that they need.

Readings come from the store in this folder, from readings recorded in the package, or from answers written here.
"""

import contextlib
import gzip
import hashlib
import io
import math
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
STORE = HERE / "store_acb74e1.sqlite.gz"
"""Readings that the code at commit acb74e1 wrote; every later version reads none of them anew."""

INPUTS = HERE / "inputs"
"""What the commands name: `answers.jsonl`, a judge's earlier answers about the embedded summaries, of which some name
no score; `rated.jsonl`, texts of twelve articles by four systems, of which three people rated six articles; `tasks`,
texts of two tasks; `replies.jsonl`, earlier answers about both; a learned phrase. The standard vectors are those that
the code of the store found: finding them takes the tutor's hidden states, which are not stored, and texts steered by
them are stored under their last bits."""

PORT = 18734
"""Of the server that gave the served judge's answers; nobody listens there any more."""

_COMMON = ("logger=none", "store=store.sqlite", "metrics.resamples=200")
_ATTACKS = "attacks=[none,dsi,{name: adv_suffix, phrase_file: phrase.json}]"
_SERVED = (
    *("name=served", "judge=api", f"judge.url=http://127.0.0.1:{PORT}/v1", "judge.model=small"),
    *("judge.price={input: 1.0, output: 2.0}", "assistant=api", "assistant.model=smaller", "data.limit_groups=7"),
    *("data.dev_share=0.3", "decoding=[greedy,expectation,contrastive,contrastive_expectation]", "tune=dev"),
    *("metrics.levels=[dataset]", _ATTACKS),
)
_REPLAY = (
    *("name=replay", "judge=replay", "judge.path=answers.jsonl", "data.limit_groups=8", "data.dev_share=0"),
    *("dimensions=[coherence,fluency]", "ranges=[[1,5],[0,4]]", "attacks=[none,dsi]"),
    *(f"judge.fields.{axis}={axis}" for axis in ("dimension", "range", "attack")),
)
_RECORDED = (
    *("judge=recorded", "judge.path=qwen2.5-coder", "assistant=recorded", "assistant.path=qwen2.5-coder"),
    *("data=conala_sample", "data.limit_groups=20"),
)
_ALONE = (*_RECORDED[:2], *_RECORDED[4:])
_RATED = (
    *("name=rated", "judge=replay", "judge.path=replies.jsonl", "data=jsonl", "data.path=rated.jsonl"),
    *("data.scale=[1,5]", "ranges=[[1,5],[0,4]]", "judge.fields.range=range"),
)
_TASKS = (
    *("+exp=tasks", "tasks=tasks", "judge=replay", "judge.path=replies.jsonl", "assistant=none", "decoding=[greedy]"),
    *("judge.fields.range=range", "judge.fields.dimension=dimension", "data.dev_share=0"),
)
EXPERIMENTS = {
    "mini": (
        *("+exp=mini", "data.limit_groups=10", "data.dev_share=0.4", "tune=dev", "tables=[cd]"),
        "metrics.levels=[dataset,document,system]",
    ),
    "cap_demo": (
        *("+exp=cap_demo", "data.limit_groups=4", "tutor.candidates=4", "tutor.max_new_tokens=12"),
        *("tutor.high_percentile=55", "tutor.low_percentile=45", "defenses.1.answer_tokens=32", "tables=[cap]"),
        "tutor.vectors=vectors_joint.safetensors",
    ),
    "pairwise": (
        *("+exp=pairwise", "data.limit_groups=5", "data.dev_share=0.2", "prompt.rivals=1"),
        _ATTACKS,
    ),
    "replay": _REPLAY,
    "served": _SERVED,
    # several raters, a recorded pair, three decodings
    "demo": ("+exp=demo", "data.limit_groups=20", "ranges=[[0,4],[1,5]]"),
    # texts of the user's own: three raters, who rated half of the articles
    "rated": _RATED,
    "calibrate": ("judgebench.command.calibrate", *_RECORDED, "ranges=[[0,4],[1,5]]"),
    "sweep": (
        *("-m", "+sweeps=cd_lambda_t", *_RECORDED, "data.dev_share=0.5", "ranges=[[1,5]]"),
        *("decoding=[greedy,contrastive]", "decoding.lambda=0.1,1", "decoding.temperature=1"),
    ),
    "tasks": _TASKS,
    "two_runs": ("judgebench.command.report", "run/greedy", "run/expectation", "out=run/report.html"),
}
"""Name -> words of a command, run in an empty folder; its run folder is `run`. The first word may name the module."""

BEFORE = {
    "two_runs": [
        (
            *_ALONE,
            "data.dev_share=0",
            "ranges=[[0,4],[1,5]]",
            f"decoding=[{name}]",
            f"run_dir=run/{name}",
            *("report=false", "human_agreement=false"),
        )
        for name in ("greedy", "expectation")
    ]
}
"""Name -> the runs that the command needs first."""

FROZEN = {
    "demo": r"(humans|metrics|comparisons|repairs|choice|verdict)\.json|worth/.*|report\.html",
    "rated": r"(humans|metrics|comparisons)\.json|worth/.*|report\.html|config\.yaml",
    "calibrate": r"judge_card\.yaml|(metrics|choice)\.json|config\.yaml",
    "sweep": r"sweep\.json|\d/metrics\.json",
    "tasks": r"tasks\.(json|csv|html)|\d/(metrics|humans)\.json",
    "two_runs": r"report\.html|\w+/humans\.json",
}
"""Name -> pattern of the files that are frozen, where not all are; the list of all files is frozen for each."""


def draw(*what: object) -> random.Random:
    """A generator of random numbers that depends on `what` alone."""
    return random.Random(hashlib.sha256(repr(what).encode()).digest())


def served_likely(model: str, prompt: str) -> dict[str, float]:
    """Next tokens of the served judge and their probabilities, for one prompt; not every score is listed."""
    chance = draw(model, prompt)
    middle = chance.uniform(1, 5) + ("Score: 5" in prompt) + (model == "small")
    weights = {str(score): math.exp(-((score - middle) ** 2)) for score in range(1, 6)} | {"The": 0.3}
    listed = sorted(weights.items(), key=lambda pair: -pair[1])[: chance.choice((3, 4, 6))]
    return {token: weight / sum(weights.values()) for token, weight in listed}


def write_inputs(folder: Path) -> None:
    """Writes the files that the commands name, and the store."""
    shutil.copytree(INPUTS, folder, dirs_exist_ok=True)
    if STORE.is_file():
        (folder / "store.sqlite").write_bytes(gzip.decompress(STORE.read_bytes()))


def stored_keys(folder: Path) -> set[str]:
    """Keys of the readings in the folder's store; none where there is no store."""
    if not (folder / "store.sqlite").is_file():
        return set()
    with contextlib.closing(sqlite3.connect(folder / "store.sqlite")) as database:
        return {key for (key,) in database.execute("SELECT key FROM readings")}


def run(name: str, folder: Path) -> str:
    """Runs an experiment in `folder`, without drawing its figures, and returns what its last command prints.

    Raises:
        RuntimeError: it fails.
    """
    from hydra.core.global_hydra import GlobalHydra

    from judgebench import __main__
    from judgebench.command import calibrate, report

    printed = ""
    for words in [*BEFORE.get(name, []), EXPERIMENTS[name]]:
        GlobalHydra.instance().clear()
        common = [
            word for word in (*_COMMON, "run_dir=run") if word.split("=")[0] not in {w.split("=")[0] for w in words}
        ]
        if words[0] == "judgebench.command.report":
            main, arguments = report.main, list(words[1:])
        elif words[0] == "judgebench.command.calibrate":
            main, arguments = calibrate.main, [*common, *words[1:]]
        else:
            flags = [word for word in words if word.startswith("-")]  # they come first
            main, arguments = __main__.main, [*flags, *common, *words[len(flags) :]]
        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            _inside(folder),
            mock.patch.object(sys, "argv", ["judgebench", *arguments]),
            mock.patch.dict(os.environ, {"COLUMNS": "100"}),
            mock.patch.object(Figure, "savefig", _blank),
            mock.patch("time.perf_counter", _still),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main() or 0
            except SystemExit as end:
                code = int(end.code or 0)
        if code:
            raise RuntimeError(f"{' '.join(arguments)}\n{out.getvalue()}{err.getvalue()}")
        printed = out.getvalue()
    return printed


_TICKS = iter(range(10**6))


def _still() -> float:
    """A clock that stands still, so that a run takes 0 s (readings store theirs), but for Hydra, which divides."""
    return float(next(_TICKS)) if sys._getframe(1).f_globals["__name__"].startswith("hydra") else 0.0


def _blank(figure: Figure, to: io.BytesIO, **how: object) -> None:
    """An empty image in place of a drawing, which takes seconds and is looked at by eye."""
    to.write(b'<svg xmlns="http://www.w3.org/2000/svg"/>' if how.get("format") == "svg" else b"")


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
