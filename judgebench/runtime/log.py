"""The log of what happens: Python's `logging` under `judgebench`, and run.log of a run's folder."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from judgebench.runtime.distributed import process_group
from judgebench.runtime.secrets import argument_secrets, hider, mask_secrets
from judgebench.words.errors import reason
from judgebench.words.terminal import printable

_STAMP = "[%Y-%m-%d %H:%M:%S]"
_files: list[FileIO] = []  # the run.log of the run under way


class StepLogger(logging.LoggerAdapter):
    """A module's logger of Python's. Each message is one line, which shows no secret and steers no
    terminal whatever texts and names it repeats, and run.log gets it whatever the levels of
    loggers are. Of several processes of a run the first alone logs.

    Args:
        name: of the module.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Logs `msg % args`."""
        if not process_group().first:
            return
        hide = hider(argument_secrets(sys.argv[1:]))
        line = printable(hide(mask_secrets(str(msg) % args)).replace("\n", "\\n"))
        for file in _files:
            # a full disk is named where results are written, and no line is worth a run
            with suppress(OSError):
                file.write(f"{time.strftime(_STAMP)}[{self.logger.name}] - {line}\n".encode())
        self.logger.log(level, line, stacklevel=2)  # at the place that called `info`


@contextmanager
def steps_in(path: Path) -> Iterator[None]:
    """Writes all lines of the block to a new file, each at once, and at last the error that ended
    it, if any; `OSError` where the file cannot be made."""
    path.unlink(missing_ok=True)  # a link would lead to another file
    with path.open("xb", buffering=0) as file:
        _files.append(file)
        try:
            yield
        except BaseException as error:
            StepLogger(__name__).info("Ended before its time: %s", reason(error))
            raise
        finally:
            _files.remove(file)
