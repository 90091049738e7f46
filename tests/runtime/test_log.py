"""A module's logger: one line a message, for every handler and for run.log, whatever the levels are."""

import logging
import os
import re

import pytest

from judgebench.runtime.log import StepLogger, steps_in

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]\[judgebench\.[\w.]+\] - (.*)")
HOSTILE = {
    "two\n[2026-01-01 00:00:00][judgebench.runs.pipeline] - Wrote /etc": "two\\n[2026-01-01 00:00:00]",
    "red\x1b[31m": "red\\x1b[31m",
    "back\r": "back\\x0d",
    "dos\r\nline": "dos\\x0d\\nline",
    "\u2028\u202eturned": "\\u2028\\u202eturned",
    "half \ud800": "half \\ud800",
    "50 % %s %d": "50 % %s %d",
    "::error::lost": "\\x3a:error::lost",
}


@pytest.fixture
def log():
    return StepLogger("judgebench.tested")


def lines(path):
    """The messages of a log, of which each line is one."""
    return [LINE.fullmatch(line)[1] for line in path.read_bytes().decode().split("\n")[:-1]]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_its_line_and_steers_no_terminal(log, tmp_path, caplog, name):
    caplog.set_level(logging.INFO)
    with steps_in(tmp_path / "run.log"):
        log.info("%s", name)
        log.info("Loaded %s: %d texts.", name, 5)
    alone, whole = lines(tmp_path / "run.log")
    assert alone.startswith(HOSTILE[name])
    assert re.fullmatch(r"Loaded .*: 5 texts\.", whole)
    assert [record.getMessage() for record in caplog.records] == [alone, whole]


def test_the_file_has_each_step_though_no_handler_wants_it(log, tmp_path, caplog):
    assert logging.getLogger("judgebench").getEffectiveLevel() == logging.WARNING
    with steps_in(tmp_path / "run.log"):
        log.info("first")
        assert lines(tmp_path / "run.log") == ["first"], "at once, not at the end"
        log.warning("second")
    log.info("behind it")
    assert lines(tmp_path / "run.log") == ["first", "second"]
    assert [record.getMessage() for record in caplog.records] == ["second"]


def test_a_record_is_of_its_module_and_of_the_place_that_logs(log, caplog):
    caplog.set_level(logging.INFO, logger="judgebench")
    log.info("here")
    (record,) = caplog.records
    assert (record.name, record.filename, record.levelno) == ("judgebench.tested", "test_log.py", logging.INFO)
    assert record.funcName == "test_a_record_is_of_its_module_and_of_the_place_that_logs"


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("two\nlines"), "two lines"), (KeyboardInterrupt(), "KeyboardInterrupt")]
)
def test_the_error_that_ends_a_block_is_its_last_line(log, tmp_path, error, said):
    def work():
        with steps_in(tmp_path / "run.log"):
            log.info("begun")
            raise error

    with pytest.raises(type(error)):
        work()
    log.info("behind it")
    assert lines(tmp_path / "run.log") == ["begun", f"Ended before its time: {said}"]


def test_secrets_stay_out(log, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    monkeypatch.setattr("sys.argv", ["judgebench", "+judge.api_key=sk-0123456789abcdef"])
    with steps_in(tmp_path / "run.log"):
        log.info("%s and %s", "hf_0123456789abcdef", "sk-0123456789abcdef")
        log.info("postgresql://%s:%s@host/db", "me", "pass")
    assert lines(tmp_path / "run.log") == ["*** and ***", "postgresql://me:***@host/db"]


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_link_in_its_place_leads_nowhere(log, tmp_path, make):
    (tmp_path / "theirs").write_text("theirs")
    make(tmp_path / "theirs", tmp_path / "run.log")
    with steps_in(tmp_path / "run.log"):
        log.info("mine")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert lines(tmp_path / "run.log") == ["mine"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no disk that is always full")
def test_a_full_disk_ends_no_block(log, monkeypatch):
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr("judgebench.runtime.log._files", [full])
        log.info("lost")
