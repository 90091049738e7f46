"""Logs of whole runs: run.log in the run folder, -v on the terminal, and Hydra's own job_logging."""

import json
import logging
import re
from pathlib import Path

import pytest

from judgebench.results.schema import DIGESTS, LOG
from tests.conftest import rated_texts, write_rows
from tests.runtime.test_log import lines

QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run", "human_agreement=false")
REPLAY = ("judge=replay", "judge.path=answers.jsonl", "data=jsonl", "data.path=mine.jsonl", *QUICK)
STEPS = [
    "Began: python -m judgebench judge=replay .*",
    "Loaded mine: 20 texts of 4 groups, 0 raters.",
    "Judge: answers; assistant: None.",
    "Built 20 prompts; learned phrases: 0.",
    r"Took 20 readings from none: .* in \d+\.\d s\.",
    "Tokens of all prompts: 0; different: 0.",
    "Decoded 20 scores; tuned cells: 0.",
    r"Measured \d+ series of scores.",
    "Wrote run.",
]


@pytest.fixture(autouse=True)
def levels():
    """Levels as before, for a run in this process leaves those of its job_logging."""
    loggers = [logging.getLogger(), logging.getLogger("judgebench")]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def mine(judgebench):
    """Rated texts of one's own, and a judge's answers about them."""
    rows = rated_texts()
    write_rows("mine.jsonl", rows)
    write_rows("answers.jsonl", [{"example_id": row["example_id"], "text": str(row["judged"])} for row in rows])


def check_steps(said):
    assert len(said) == len(STEPS), said
    for line, step in zip(said, STEPS, strict=True):
        assert re.fullmatch(step, line), (line, step)


def test_a_run_logs_a_line_a_step_in_its_folder_and_with_v_on_the_terminal(judgebench, mine):
    _, quiet, err = judgebench(*REPLAY)
    check_steps(lines(Path("run", LOG)))
    assert not [line for line in (quiet + err).splitlines() if line.startswith(("Began", "Decoded"))]
    assert LOG not in json.loads(Path("run", DIGESTS).read_text())["sha256"]
    for flag in ("-v", "--verbose", "hydra.verbose=judgebench"):
        _, out, _ = judgebench(flag, *REPLAY)
        said = out.splitlines()
        check_steps([line for line in said if any(re.fullmatch(step, line) for step in STEPS)])
        assert [line for line in said if not any(re.fullmatch(step, line) for step in STEPS)] == quiet.splitlines()
    check_steps(lines(Path("run", LOG)))  # of the last run, and no other


def test_job_logging_is_hydras(judgebench, mine):
    judgebench("hydra/job_logging=default", "hydra.job.name=mine", *REPLAY)
    logged = [line.partition(" - ") for line in Path("mine.log").read_text().splitlines()]
    check_steps([said for _, _, said in logged])
    assert re.fullmatch(r"\[[\d ,:-]+\]\[judgebench\.runs\.pipeline\]\[INFO\]", logged[0][0])
    handler = "+hydra.job_logging.handlers.file={class: logging.FileHandler, filename: own.txt, formatter: simple}"
    _, out, _ = judgebench(handler, "hydra.job_logging.root={level: INFO, handlers: [file]}", *REPLAY)
    check_steps(Path("own.txt").read_text().splitlines())
    assert "Decoded" not in out


def test_a_mistake_in_the_middle_is_the_last_line(judgebench, mine):
    server = ("judge=api", "judge.url=http://127.0.0.1:9/v1", "judge.model=x", "judge.retries=0")
    _, _, err = judgebench(*server, *REPLAY[2:], "ranges=[[1,5]]", mistaken=True)
    said = lines(Path("run", LOG))
    assert said[-2] == "x: readings: 20; not stored: 20."
    sentence = err.partition("judgebench: ")[2].strip().rstrip(".")
    assert said[-1] == f"Ended before its time: {sentence}"[: len(said[-1])]
    assert "http://127.0.0.1:9/v1: there is no connection" in said[-1]
    assert {path.name for path in Path("run").iterdir()} == {LOG}


def test_a_mistake_before_the_run_leaves_no_folder_and_no_log(judgebench, mine):
    judgebench(*REPLAY, "data.path=nothing.jsonl", mistaken=True)
    assert not Path("run").exists()


def test_a_log_that_is_an_input_is_not_written_over(judgebench, mine):
    Path("run").mkdir()
    Path("mine.jsonl").rename(Path("run", LOG))
    before = Path("run", LOG).read_bytes()
    _, _, err = judgebench(*REPLAY, f"data.path=run/{LOG}", mistaken=True)
    assert "run_dir=run" in err
    assert Path("run", LOG).read_bytes() == before


def test_each_job_of_a_multirun_has_its_own(judgebench, mine):
    judgebench("-m", *REPLAY, "metrics.seed=0,1")
    for job in (0, 1):
        said = lines(Path("run", str(job), LOG))
        check_steps(said[:1] + said[1:-1] + ["Wrote run."])
        assert said[-1] == f"Wrote run/{job}."
        assert f"metrics.seed={job}" in said[0]


def test_names_of_a_file_forge_no_line(judgebench):
    hostile = "a\n[2026-01-01 00:00:00][judgebench.runs.pipeline] - Wrote run.\x1b[31m"
    write_rows("mine.jsonl", [{**row, "example_id": f"{row['example_id']}{hostile}"} for row in rated_texts()])
    write_rows("answers.jsonl", [{"example_id": f"{row['example_id']}{hostile}", "text": "3"} for row in rated_texts()])
    judgebench(*REPLAY, f'data.name="{hostile}"')
    assert b"\x1b" not in Path("run", LOG).read_bytes()
    assert len(lines(Path("run", LOG))) == len(STEPS)


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        (
            ["from", "mine.jsonl", "out=taken"],
            ["Read 20 rows of mine.jsonl; wrote 20 texts and 0 answers"],
        ),
        (["label", "mine.jsonl", "out=label.html"], [r"Wrote 20 texts to .*label\.html\."]),
    ],
)
def test_v_shows_the_steps_of_other_commands(mine, started, command, steps):
    word, *given = command
    for flags in ([], ["-v"]):
        run = started(word, *flags, *given)
        assert run.ends() == 0, run.said
        said = run.said.splitlines()
        logged = [step for step in steps if any(re.match(step, line) for line in said)]
        assert logged == (steps if flags else [])
