"""From exceptions to sentences, at every door of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import InstantiationException
from omegaconf.errors import OmegaConfBaseException

from judgebench.errors import Refusal, UserError


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
