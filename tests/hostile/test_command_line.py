"""Mistakes of the command line: a sentence for each, exit code 2, nothing left behind."""

import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgebench.command.calibrate import main as calibrate
from judgebench.command.cli import handle_errors
from judgebench.command.score import main as score
from judgebench.config.keys import check_command
from judgebench.runtime.ending import as_sentence

MISTAKES = {
    # groups, choices, keys that are misspelled: the nearest name
    "jugde=smollm2": "there is no key 'jugde'; did you mean judge?",
    "judge=smolm2": "there is no judge 'smolm2'; did you mean smollm2?",
    "hydra/launcher=nope": "there is no hydra/launcher 'nope'; there are basic",
    "judge.pth=/x": "there is no key 'pth' in judge; did you mean judge.path?",
    "+exp=dmo": "there is no exp 'dmo'; did you mean demo?",
    "+seeed=3": "there is no group or key 'seeed'",
    "+judge.pth=/x": "judge.pth is unknown; judge.path is the nearest",
    # what Hydra says itself
    "exp=demo": "exp=demo: no exp is chosen yet that this could replace; add it, as +exp=demo; there are adv_suffix,",
    "+judge=gemini": "Multiple values for judge",
    "metrics.seed=" + 5000 * "9": "The command line cannot be followed: ",
    "metrics.seed=1,2": "To sweep over it, add --multirun",
    "--run --multirun": "Only one of --run, --multirun",
    "--config-name nope": "Cannot find primary config 'nope'",
    "--config-name score": "--config-name: score is what another command composes; leave the flag out",
    "--cfg job --package nope": "--package: the configuration has no nope",
    "judge.path='~nobody-here/x'": "~nobody-here/x",
    # how arguments are written
    "/dev/null": "/dev/null: this is no GROUP=CHOICE or KEY=VALUE",
    f"{__file__}": f"{__file__}: a file needs its key; give data.path={__file__}.",
    "decoding=[contrastive] decoding.contrastive.lambda=1": "did you mean decoding.contrastive.lambda_?",
    "nonsense": "nonsense: this is no GROUP=CHOICE or KEY=VALUE",
    "judge = smollm2": "judge: this is no GROUP=CHOICE or KEY=VALUE",
    '"judge.path=\'a"': "this is no GROUP=CHOICE or KEY=VALUE",
    "--dry-run": "there is no such flag; keys and groups are set without dashes, as dry_run=VALUE",
    "--cfg jop": "invalid choice: 'jop'",
    "name=x -m metrics.seed=1,2": "flags come before what is set",
    # values that are missing
    "~judge": "judge: this configuration has none, and a run needs it",
    "judge=local": "judgebench: judge.path is not given, and judge=local needs it; add judge.path=VALUE: hub id (owner",
    "attack=phrase": "attack: there is no key 'attack'; did you mean attacks?",
    "defense.cot_tokens=3": "defense: there is no key 'defense'; did you mean defenses?",
    "+defense.cot_tokens=3": "there is no group or key 'defense'; did you mean defenses?",
    "'attacks=[{name: adv_suffix, word: 3}]'": "adv_suffix.word is unknown; attacks: adv_suffix.words is",
    # sweeps
    "-m metrics.seed=1,x": "metrics.seed: 'x' should ",
    "-m judge=smollm2,local": "judge.path is not given",
    "-m metrics.seed=interval(0,1)": "an interval needs a sweeper that searches",
    "-m metrics.seed=range(1,1000000000)": "more than 10000 runs would begin",
    "-m metrics.seed=glob(*)": "it stands for no value",
    # values, files and folders that cannot be
    "hydra.run.dir=/dev/null/x": "/dev/null/x: cannot be made or written",
    "run_dir=${nokey}": "Interpolation key 'nokey' not found",
    "run_dir=/dev/null/x": "run_dir: /dev/null/x cannot be",
    "judge.path=": "judge.path: '' ",
    "compile=maybe": "compile: 'maybe' should be a valid boolean",
    "judge.path=" + 5000 * "a": "cannot be a path here (File name too long)",
    "data=jsonl data.path=/dev/zero": "/dev/zero: there is no such file",
    "'defenses=[{template: /dev/zero}]'": "/dev/zero",
    "trainer.devices=100000": "trainer.devices: 100000 processes on one machine",
}


def sentences_of(err):
    """The sentences of one refusal: the only one, or a line each."""
    first, *lines = err.splitlines()
    if several := re.fullmatch(r"judgebench: (\d+) mistakes:", first):
        assert len(lines) == int(several[1]) > 1, err
        assert all(line.startswith("- ") for line in lines), err
        return lines
    assert not lines, err
    return [first]


@pytest.fixture
def commanded(judgebench):
    """Arguments, as a shell reads them -> a sentence for each mistake, after which nothing is left."""

    def call(line: str) -> str:
        code, out, err = judgebench(*shlex.split(line.replace("${", "$" + "{")), mistaken=True)
        assert code == 2, out + err
        # a job of a multirun is announced before its data are read
        assert not [said for said in out.splitlines() if said and not said.startswith("Job ")]
        assert err.startswith("judgebench: ")
        assert sentences_of(err)
        assert err.endswith((".\n", "?\n"))
        assert list(Path().iterdir()) == []
        return err

    return call


@pytest.mark.parametrize("line", MISTAKES, ids=lambda line: line[:60])
def test_a_mistake_is_a_sentence(commanded, line):
    assert MISTAKES[line] in commanded(line)


SEVERAL = {
    "+exp=demo assistant=none": ["decoding contrastive: needs an assistant; take assistant=recorded."],
    "judge=api metrics.seed=a ranges=[[5,5]] dry_run=maybe data.dev_share=2": [
        *("judge.model is not", "judge.url is not", "metrics.seed: 'a'", "[5, 5]", "dry_run: 'maybe'"),
        "data.dev_share: 2",
    ],
    "judge.mode=guess judge.max_batch_tokens=0 assistant=early_exit": [
        *("assistant.layer", "judge.mode: 'guess'", "judge.max_batch_tokens: 0 should ")
    ],
}


@pytest.mark.parametrize("line", SEVERAL)
def test_all_mistakes_of_a_configuration_are_named_together(commanded, line):
    said = commanded(line)
    for words in SEVERAL[line]:
        assert words in said


@pytest.mark.parametrize(
    ("main", "line", "expected"),
    [
        (calibrate, "judge=smolm2", "did you mean smollm2?"),
        (calibrate, "judge=local", "judge.path is not given"),
        (score, "crad=x.yaml", "did you mean card?"),
        (score, "card=/nowhere.yaml data.path=a", "/nowhere.yaml: there is no such file; card must be"),
    ],
)
def test_every_command_has_the_same_door(called, tmp_path, monkeypatch, main, line, expected):
    monkeypatch.chdir(tmp_path)
    code, _, err = called(main, *line.split(" "), mistaken=True)
    assert (code, expected in err) == (2, True), err
    assert sentences_of(err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["-m metrics.seed=1,2 dimensions=[charm]", "-m metrics.seed=1,2 defenses=[sandwhich]"])
def test_a_multirun_that_is_refused_later_leaves_no_folder_either(commanded, line):
    commanded(f"{line} logger=none run_dir=a/b")


def test_an_own_key_that_something_refers_to_is_no_mistake(judgebench):
    assert judgebench("--cfg", "job", "--resolve", "+mine=3", "metrics.seed=${mine}")[0] == 0


@pytest.mark.parametrize("guard", [nullcontext, as_sentence])
def test_a_fault_of_ours_keeps_its_traceback(monkeypatch, guard):
    monkeypatch.setattr(sys, "argv", ["judgebench", "judge=local", "judge.path=DIR"])
    with pytest.raises(ZeroDivisionError) as fault, handle_errors("judgebench"), guard():
        raise ZeroDivisionError
    assert [note.count("please report it") for note in fault.value.__notes__] == [1]


def test_a_fault_in_the_check_of_a_job_is_no_mistake_of_the_users():
    def look(config):
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        check_command(["-m", "metrics.seed=1,2"], "config", look)


WHOLE = (
    *("+exp=mini", "judge=smollm2", "judge.max_new_tokens=8", "decoding=[greedy,contrastive]", "decoding.lambda=1"),
    *("ranges=[[1,5],[0,4]]", "name='a b'", "~tune", "data.path=null", "attacks=[none,{template: a.txt}]", "--cfg"),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mistyped_command_is_understood_or_refused_in_a_sentence(judgebench, data):
    words = data.draw(st.lists(st.sampled_from(WHOLE), min_size=1, max_size=4, unique=True))
    place = data.draw(st.integers(0, len(words) - 1))
    word, at = words[place], data.draw(st.integers(0, len(words[place])))
    mark = data.draw(
        st.sampled_from(["", "=", ",", ".", "+", "~", "[", "]", "{", "}", "'", '"', "$", "-", " ", "@", "é", "/"])
    )
    words[place] = word[:at] + mark + word[at + data.draw(st.integers(0, 2)) :]
    code, out, err = judgebench("--cfg", "job", *words, mistaken=True)
    assert code in (0, 2), out + err
    assert code == 0 or (err.startswith("judgebench: ") and sentences_of(err))
