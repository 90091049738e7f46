"""The test command itself: it ends, red, when a worker dies or a test hangs."""

import json
import logging
import logging.config
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import as_before

MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text("utf-8")
(FLAGS,) = re.findall(r"^PYTEST = .* -m pytest -n \$\(WORKERS\) (.*)$", MAKEFILE, re.MULTILINE)
DYING = {"killed": "os.kill(os.getpid(), 9)", "hanging": "time.sleep(60)"}


@pytest.mark.parametrize("way", DYING)
def test_a_worker_that_dies_is_a_failure_and_the_end(tmp_path, way):
    for place, name in enumerate("abcd"):
        body = DYING[way] if place == 1 else "pass"
        text = f"import os, time, pytest\n@pytest.mark.parametrize('i', range(9))\ndef test_{name}(i):\n    {body}\n"
        (tmp_path / f"test_{name}.py").write_text(text)
    limits = ("-p", "xdist", "-p", "pytest_timeout", "-p", "no:cacheprovider", "--timeout=2", "--timeout-method=thread")
    command = (sys.executable, "-m", "pytest", str(tmp_path), "--rootdir", str(tmp_path), "-n", "2", *FLAGS.split())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # those of other packages take seconds to import
    ended = subprocess.run(
        [*command, *limits], capture_output=True, text=True, timeout=50, cwd=tmp_path, env=environment, check=False
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "crashed while running" in ended.stdout


LOOK = """
import json, os, signal, sys, threading
import torch
print(json.dumps({
    "leads": os.getpid() == os.getsid(0) == os.getpgid(0),
    "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "ends": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
    "threads": [threading.active_count(), torch.get_num_threads()],
    "opened": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3],
    "stdin": sys.stdin.read(),
    "loaded": ["judgebench.runs.pipeline" in sys.modules, "tests.conftest" in sys.modules],
}))
"""


def test_a_fork_is_as_a_process_that_has_just_begun(started):
    run = started(program=LOOK)
    assert run.ends() == 0, run.said
    assert json.loads(run.said) == {
        **{"leads": True, "interrupts": True, "ends": True, "threads": [1, 1], "opened": [0, 1, 2], "stdin": ""},
        "loaded": [True, False],
    }


COMPOSED = """
import json, sys
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from judgebench.config.keys import FOLDER
with initialize_config_dir(str(FOLDER), version_base="1.3"):
    for words in json.loads(sys.argv[1]):
        config = compose("config", words, return_hydra_config=True)
        print(json.dumps(OmegaConf.to_container(config, resolve=False), default=str))
"""
WORDS = (
    ["logger=none"],
    ["+exp=cd_qwen", "decoding=[greedy,contrastive]", "name=mine"],
    ["+exp=cap_demo", "ranges=[[1,5],[E,D,C]]", "assistant=none", "+data.note={a:[1,2]}"],
    ["+exp=defenses", "data=jsonl", "judge=api", "run_dir='x=y'", "data.path='a b,c'"],
    ["+exp=cd_qwen", "hydra.job.chdir=true", "name=other"],
)


def test_what_tests_keep_of_hydra_is_what_hydra_composes(capsys):
    """Twice each, so that the second is what was kept; a process without our fixtures composes the same."""
    words = json.dumps(WORDS + WORDS)
    own = subprocess.run(
        [sys.executable, "-c", COMPOSED, words], capture_output=True, text=True, timeout=120, check=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["", words])
        exec(COMPOSED, {})
    assert capsys.readouterr().out == own.stdout


def test_after_a_file_logs_and_environment_are_as_before_it():
    """A log that Hydra disables for one run would say nothing in all files behind it."""
    log = logging.getLogger("judgebench")
    before = (log.level, log.disabled, log.handlers[:], dict(os.environ))
    with as_before():
        logging.config.dictConfig({"version": 1, "root": {"level": "ERROR"}, "disable_existing_loggers": True})
        os.environ["A_NAME_OF_A_RUN"] = "1"
        assert log.disabled
    assert (log.level, log.disabled, log.handlers[:], dict(os.environ)) == before
