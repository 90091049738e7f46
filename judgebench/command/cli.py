"""Commands: exceptions become sentences, and an experiment is run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from judgebench.config.check import check_config, with_data, with_read
from judgebench.config.keys import (
    REFUSALS,
    Look,
    check_command,
    composing,
    explained,
    known_to_hydra,
)
from judgebench.config.parts import Parts
from judgebench.importing.own import written_out
from judgebench.judges.spec import REPLAYED
from judgebench.runtime.ending import FAULT, as_sentence, ending, mistake_of
from judgebench.runtime.secrets import masked_argument
from judgebench.runtime.session import Session
from judgebench.runtime.values import carry, command_of, is_written, typed
from judgebench.study import jobs
from judgebench.words.errors import Interrupted, Refusal, UserError
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.results.results import Results


@contextmanager
def handle_errors(
    module: str, config_name: str = "config", look: Look | None = None, added: Sequence[str] = ()
) -> Iterator[None]:
    """Around all that a command of Hydra's does, which ends in one sentence, see `ending`.

    Args:
        module: how the command is started, as in `python -m judgebench`.
        config_name: of the configuration that it composes, without its ending.
        added: arguments that it adds by itself, if they are not given.
        look: checks a configuration of a run, as far as that takes a second; the jobs of a multirun
            are checked before it begins.
    """
    # of several files Hydra would start a run each; and it has no flag that is -v
    sys.argv[1:] = [
        re.sub(
            r"^(-v|--verbose)$",
            "hydra.verbose=judgebench",
            re.sub(r"^labels=([^'\"[].*,.*)", r"labels=[\1]", word),
        )
        for word in sys.argv[1:]
    ]
    given = sys.argv[1:]
    with (
        _hydra_raises() as traced,
        ending(
            module,
            given,
            lambda mistake: with_remedies(mistake, given, added, config_name, module),
            traced,
        ),
    ):
        with as_sentence():
            # the end of the command says it again
            given[:], lines = written_out(given, module, config_name)
            if lines and "print=none" not in given:
                print_safely(*lines)
            sys.argv[1:] = [*given, *added]
            check_command(sys.argv[1:], config_name, look)
        try:
            yield
        except BrokenPipeError:  # whoever reads the output, as head, wants no more of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if FAULT in getattr(error, "__notes__", ()) or isinstance(error, ImportError):
                raise
            with as_sentence():
                if isinstance(error, REFUSALS):
                    raise explained(error, given) from None
                raise


@contextmanager
def _hydra_raises() -> Iterator[bool]:
    """Has Hydra raise its errors: without HYDRA_FULL_ERROR it prints its own words, and ends the
    program with 1. Gives true where the user has set it, and so asks for tracebacks."""
    given = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield given == "1"
    finally:
        if given is None:
            del os.environ["HYDRA_FULL_ERROR"]


_MOST_MENDED = 8
"""Mistakes that are looked for one behind the other."""

_RIGHT = "This command is right"
_RIGHT_IN_THE_REST = "Mend what is still wrong in this command, which is right in the rest"
_UNCHECKED = "With that, the command is as follows; nothing else in it has been checked"


def with_remedies(
    mistake: UserError,
    given: Sequence[str],
    added: Sequence[str],
    config_name: str,
    module: str = "",
) -> UserError:
    """A mistake with all that come behind it, and the command that is right: what each says would
    be right is taken, and the rest is checked again.

    Args:
        given: arguments of the command line.
        added: those that the command adds by itself.
        module: how the command is started; empty for a call in Python.
    """
    if not mistake.give or any(argument.startswith("-") for argument in given):
        return mistake
    overrides = carry(given, mistake.give)
    sentences = list(mistake.sentences)
    state = _UNCHECKED
    # 1. of a run all is checked again, with what each mistake says would be right
    for _ in range(_MOST_MENDED if config_name == "config" else 0):
        try:
            _check_whole([*overrides, *added])
            state = _RIGHT
            break
        except UserError as error:
            sentences += [sentence for sentence in error.sentences if sentence not in sentences]
            state = _RIGHT_IN_THE_REST
            if not error.give:
                break
            overrides = carry(overrides, error.give)
    # 2. the command, where it can be typed
    if not is_written([*mistake.give.values()]):
        return UserError(*sentences)
    words = [masked_argument(override) for override in typed(overrides)]
    command = f"judgebench.run({words!r})"
    if module:
        command = command_of(["python", "-m", *module.split(), *words])
    return UserError(*sentences, command=f"{state}:\n  {command}")


def _check_whole(overrides: Sequence[str]) -> None:
    """Checks all of a run that costs seconds at most: its configuration, data, rubrics, and answers
    of earlier."""
    with composing(overrides, "config") as composed:
        config = composed(overrides)
    with known_to_hydra(config):
        parts = with_read(check_config(config))
        if REPLAYED in parts.judge.capabilities:
            from judgebench.runs.experiment import Experiment

            Experiment.parse(config, parts)


def run_overrides(overrides: Sequence[str]) -> Results:
    """The results of one experiment, see `judgebench.run`; `UserError` of a mistake that the user
    can mend."""
    if isinstance(overrides, str):
        raise UserError(f"judgebench.run takes a list of overrides; give [{overrides!r}].")
    given = [str(override) for override in overrides]
    for flag in given:
        if flag.startswith("-"):
            raise UserError(
                f"{flag}: flags belong to the command line; judgebench.run takes overrides, as "
                "KEY=VALUE."
            )
    try:
        with as_sentence():
            given, _ = written_out(given)
            check_command(given, "config", check_config)
            with composing(given, "config") as composed:
                config = composed(given)
            with known_to_hydra(config):
                jobs.check_one_run(HydraConfig.get())
                results = run_checked(check_config(config))
            from judgebench.results.results import Results

            return results or Results()
    except Refusal as refusal:
        mistake = mistake_of(refusal.__cause__)
        if mistake is not None:
            mistake = with_remedies(mistake, given, (), "config")
        raise UserError(
            refusal.sentence if mistake is None else mistake.listed
        ) from refusal.__cause__


def run_checked(parts: Parts, session: Session | None = None) -> Results | None:
    """Runs the parts that `check_config` has made, see `run_pipeline`; mistakes in the data are
    named before torch is imported."""
    parts = with_data(parts)
    from judgebench.runs.pipeline import run_pipeline  # it takes seconds to import

    return run_pipeline(parts, session)


def run_experiment(
    config: DictConfig, hydra_config: Any, session: Session | None = None
) -> dict[str, Any] | None:
    """Runs one experiment; as a job of a multirun, whose jobs share a session, it returns what the
    sweep compares."""
    sweeping = hydra_config.mode == RunMode.MULTIRUN
    try:
        with as_sentence():
            if sweeping:
                jobs.as_job(config, hydra_config)
            else:
                jobs.check_one_run(hydra_config)
            parts = check_config(config)
            objective = jobs.checked_objective(parts.config, hydra_config)
            if sweeping:
                jobs.check_processes(parts.config)
            finished = run_checked(parts, session)
            outcome = (
                jobs.outcome(finished, objective) if finished is not None and sweeping else None
            )
    except Refusal as refusal:
        # the multirun hears of its end only by an exception
        if sweeping and "SUBMITIT_EXECUTOR" in os.environ:
            raise jobs.JobFailed(refusal.sentence) from refusal
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(jobs.kept_so_far(config, hydra_config)) from stop
    if finished is not None:
        print_safely(finished.path)
    return outcome
