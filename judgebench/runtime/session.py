"""State that the runs of one process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Session:
    """Held by what starts several runs, as a multirun, and handed to each of them.

    Attributes:
        last: the run before (`judgebench.runs.job.LastRun`), which the next may use again; None before
            the first.
    """

    last: Any = None

    def __reduce__(self) -> Any:
        # another process, to which a launcher sends a job, begins its own
        return Session, ()
