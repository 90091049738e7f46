"""A process that has imported everything, and on request forks one that runs judgebench: it starts in no time, and can
be killed and interrupted like any other. It reads a JSON object a line, and answers with one."""

import importlib
import json
import os
import signal
import sys
from typing import Any

import lightning.pytorch
import transformers.models.llama.modeling_llama  # noqa: F401 - what a run would import

import judgebench.judges.served.reader
import judgebench.runs.pipeline
import judgebench.study.sweep  # noqa: F401 - the same
from judgebench.__main__ import main


def run(asked: dict[str, Any]) -> None:
    """Becomes the run."""
    os.setsid()
    os.chdir(asked["folder"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(given, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["judgebench", *asked["arguments"]]
    for name, value in asked["constants"].items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    assert lightning.pytorch
    for line in sys.stdin:
        asked = json.loads(line)
        answer: int | None
        if "poll" in asked:
            found, status = os.waitpid(asked["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if found else None
        elif (answer := os.fork()) == 0:
            run(asked)
        print(json.dumps(answer), flush=True)
