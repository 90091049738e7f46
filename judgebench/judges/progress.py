"""The progress bar of the predict loop."""

from __future__ import annotations

import sys

from lightning.pytorch.callbacks import RichProgressBar


class ReadingBar(RichProgressBar):
    """Lightning's rich bar, saying which model reads.

    Args:
        title: short name of what reads.
        doing: what it does.
    """

    def __init__(self, title: str, doing: str = "Reading"):
        # a sweep keeps what its trials print in a file, but whoever sits before a terminal wants to see the reading
        super().__init__(leave=True, console_kwargs={"stderr": sys.stderr.isatty()})
        self._title = title
        self._doing = doing

    @property
    def predict_description(self) -> str:
        """What stands before the bar."""
        return f"{self._doing} with {self._title}"
