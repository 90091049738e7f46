"""From exceptions to sentences, at the doors of the command line beside `judgebench.__main__`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import InstantiationException
from omegaconf.errors import OmegaConfBaseException

from judgebench.errors import Refusal, UserError
from judgebench.locked import UNTIL_THE_END
from judgebench.report.hiding import hiding


@contextmanager
def door() -> Iterator[None]:
    """Around all that a command does: no secret is shown, a `Refusal` is one sentence, Ctrl-C ends with code 130."""
    with hiding(sys.argv[1:]), UNTIL_THE_END:
        try:
            yield
        except Refusal as refusal:
            print(f"judgebench: {refusal.sentence}", file=sys.stderr)
            raise
        except KeyboardInterrupt:
            print("\njudgebench: interrupted. What was read is kept; go on with the same command.", file=sys.stderr)
            sys.exit(130)
        except Exception:  # Python itself would print it after secrets are hidden no more
            traceback.print_exc()
            sys.exit(1)


@contextmanager
def told() -> Iterator[None]:
    """Turns what a user can mend into a `Refusal`, which ends the program with one sentence and exit code 2."""
    try:
        yield
    except UserError as error:
        raise Refusal(str(error)) from error
    except OmegaConfBaseException as error:
        raise Refusal(f"The configuration does not hold together: {str(error).splitlines()[0]}") from error
    except InstantiationException as error:
        # Hydra wraps what a constructor raises: our own sentence, or Python's about a key it does not take
        if isinstance(error.__cause__, UserError):
            raise Refusal(str(error.__cause__)) from error
        raise Refusal(f"The configuration does not fit: {' '.join(str(error).split())}") from error
