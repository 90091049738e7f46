"""The progress bar of the predict loop."""

from __future__ import annotations

from lightning.pytorch.callbacks import RichProgressBar


class ReadingBar(RichProgressBar):
    """Lightning's rich bar, saying which model reads.

    Args:
        title: short name of what reads.
    """

    def __init__(self, title: str):
        super().__init__(leave=True)
        self._title = title

    @property
    def predict_description(self) -> str:
        """What stands before the bar."""
        return f"Reading with {self._title}"
