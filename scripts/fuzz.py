"""Throws odd input at whatever takes input from outside: parser, loaders, settings, damaged files, control tokens.

    python scripts/fuzz.py --cases 1000000              # about half an hour
    python scripts/fuzz.py --only answers --first 1234 --cases 1    # one case again, as a failure names it
    python scripts/fuzz.py --runs                       # seconds of reading one thing said again and again

A case is broken where something else than a `UserError` is raised, where a promise of fuzzing/ does not hold, or
where it takes long. Every case comes from the seed, its target and its number alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Sequence

from fuzzing import answers, files, prompts, results, settings
from fuzzing.target import Target

TARGETS = (*answers.TARGETS, *settings.TARGETS, *files.TARGETS, *results.TARGETS, *prompts.TARGETS)

_SHOWN = 3
"""Broken cases that are shown of each target."""


def run(target: Target, seed: int, first: int, count: int, until: float) -> tuple[int, int, float]:
    """Cases that were tried, how many of them are broken, and the longest processor time of one, in seconds."""
    broken, longest, number = 0, 0.0, first
    for number in range(first, first + count):
        case = target.case(random.Random(f"{seed} {target.name} {number}"))
        began = time.process_time()
        try:
            target.check(case)
            seconds = time.process_time() - began
            if seconds > target.seconds and number > first:  # the first loads what all share
                raise AssertionError(f"it takes {seconds:.1f} s")
            longest = max(longest, seconds if number > first else 0.0)
        except Exception as error:
            broken += 1
            if broken <= _SHOWN:
                print(f"BROKEN: {target.name} {number}: {case!r}"[:2000])
                traceback.print_exception(error, limit=-6, file=sys.stdout)
        if time.monotonic() > until:
            break
    return number - first + 1, broken, longest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of all targets together (default 10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="stop after so many")
    parser.add_argument("--only", choices=[target.name for target in TARGETS], help="one target; --cases are all its")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each target")
    parser.add_argument(
        "--runs", action="store_true", help="CPU seconds of the parser on runs of 10^4 to 10^6 characters"
    )
    given = parser.parse_args(arguments)
    if given.runs:
        print(f"{'run of':>16s} {'10,000':>9s} {'100,000':>9s} {'1,000,000':>9s} characters: CPU seconds")
        for unit in answers.RUNS:
            print(f"{unit!r:>16s}", *(f"{answers.seconds_of_run(unit, 10**n):9.3f}" for n in (4, 5, 6)), flush=True)
        return 0
    until = time.monotonic() + 60 * given.minutes
    shares = [(one, given.cases if given.only else max(1, round(given.cases * one.share))) for one in TARGETS]
    total, failures, began = 0, 0, time.monotonic()
    for target, count in shares:
        if given.only not in (None, target.name) or time.monotonic() > until:
            continue
        start = time.monotonic()
        tried, broken, longest = run(target, given.seed, given.first, count, until)
        seconds = time.monotonic() - start
        total, failures = total + tried, failures + broken
        rate = f"{tried / max(seconds, 1e-9):,.0f} a second"
        print(
            f"{target.name:10s} {tried:9,d} cases, {broken} broken, {rate}, the longest {longest * 1000:.0f} ms",
            flush=True,
        )
    print(f"{total:,d} cases in {time.monotonic() - began:.0f} s, {failures} broken, seed {given.seed}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
