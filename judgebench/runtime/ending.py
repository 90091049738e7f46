"""The end of a command: exceptions become sentences and exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hydra.errors import InstantiationException
from omegaconf.errors import OmegaConfBaseException

from judgebench.runtime.files import UNTIL_THE_END
from judgebench.runtime.secrets import argument_secrets, environment_secrets, hider, masked_argument
from judgebench.runtime.values import command_of, typed
from judgebench.words.errors import Interrupted, Refusal, ReportedElsewhere, Terminated, UserError
from judgebench.words.terminal import print_safely

_NO_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""The system's errors for a disk that is full, a quota used up, or a file system read-only."""


_NO_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
"""Its errors for a name that nothing can have."""


_OBJECTS = 100_000
"""New objects after which a command collects garbage; Python's own number is 700."""


FAULT = "This is a fault of judgebench and not of yours; please report it with all of the above."
"""Added to an exception that is not a mistake of the user's."""


def exit_code(module: str, arguments: Sequence[str] | None, work: Callable[[], int]) -> int:
    """The exit code of a command without Hydra, whose `work` gives one; a user's mistake and Ctrl-C
    are sentences.

    Args:
        arguments: as the user gave them; None takes those of the command line.
    """
    try:
        with ending(module, sys.argv[1:] if arguments is None else arguments), as_sentence():
            return work()
    except Refusal as refusal:
        return int(refusal.code or 0)


@contextmanager
def ending(
    module: str,
    given: Sequence[str],
    remedied: Callable[[UserError], UserError] = lambda mistake: mistake,
    traced: bool = False,
) -> Iterator[None]:
    """Around all that a command does, which ends in one sentence: a `Refusal` with code 2, Ctrl-C
    with 130, SIGTERM with 143.

    Args:
        module: how the command is started, as in `python -m judgebench`.
        given: its arguments.
        remedied: adds to a mistake what else is wrong, and the command that is right.
        traced: whether the traceback of the exception behind a mistake is printed, too.
    """
    # what imports make is never garbage: to collect it takes a seventh of their time, and a second at
    # the end of a run
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)
    with UNTIL_THE_END, _terminable():
        try:
            yield
        except Refusal as refusal:
            mistake = mistake_of(refusal.__cause__)
            cause = None if mistake is None else mistake.__cause__
            if mistake is not None:
                mistake = remedied(mistake)
            # a value that is refused may stand for a key, as ${oc.env:...} does
            hide = hider(environment_secrets() | argument_secrets(given))
            sentence = hide(refusal.sentence if mistake is None else mistake.listed)
            if traced and cause is not None:
                print_safely(hide("".join(traceback.format_exception(cause))), error=True)
            print_safely(f"judgebench: {sentence}", error=True)
            raise
        except KeyboardInterrupt as stop:
            rest = "Nothing that was finished is lost."
            if isinstance(stop, Interrupted):
                rest = stop.sentence
            again = command_of(
                ["python", "-m", *module.split(), *map(masked_argument, typed(given))]
            )
            # the processes that help to read end by the same key, and have nothing of their own to
            # say
            if not int(os.environ.get("LOCAL_RANK") or 0):
                print_safely(
                    f"\njudgebench: interrupted. {rest} Go on with the same command: {again}",
                    error=True,
                )
            sys.exit(143 if _by_sigterm(stop) else 130)


@contextmanager
def _terminable() -> Iterator[None]:
    def end(number: int, frame: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _by_sigterm(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, Terminated):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def as_sentence() -> Iterator[None]:
    """Turns a mistake that a user can mend into a `Refusal`, which ends the program with one
    sentence and code 2."""
    try:
        yield
    except ReportedElsewhere as error:
        raise SystemExit(2) from error  # one sentence is enough
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            error.add_note(FAULT)
            raise
        raise Refusal(sentence, getattr(mistake_of(error), "code", 2)) from error


def _sentence(error: Exception) -> str | None:
    """Advice on what a user can do about an error; None where the fault is ours."""
    mistake = mistake_of(error)
    if mistake is not None:
        return str(mistake)
    if isinstance(error, OmegaConfBaseException):
        return f"The configuration does not hold together: {str(error).splitlines()[0]}"
    if isinstance(error, InstantiationException):
        return f"The configuration does not fit: {' '.join(str(error).split())}"
    if not isinstance(error, OSError):
        return None
    if error.errno in _NO_NAMES and error.filename:
        name = str(error.filename)
        shown = name if len(name) < 200 else f"{name[:100]}..."
        return f"{shown}: cannot be a path here ({error.strerror}); name another"
    if error.errno in _NO_WRITING:
        # of two files, where the second cannot be made of the first
        name = error.filename2 or error.filename
        where = f"{name}: cannot be written" if name else "A file cannot be written"
        return f"{where} ({error.strerror}); make room, then give the same command again"
    return None


def mistake_of(error: BaseException | None) -> UserError | None:
    """The user's mistake behind an exception; None where there is none."""
    cause = error.__cause__ if isinstance(error, InstantiationException) else error
    return cause if isinstance(cause, UserError) else None
