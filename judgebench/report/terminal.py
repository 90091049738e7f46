"""The console that a run prints to: what data, models and attackers say is printed, and never obeyed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from judgebench.runtime.errors import escape_control

WIDTH = 100
"""Columns that tables are made for; a console narrower than this folds cells."""


class Terminal(Console):
    """A rich console whose text holds no character that steers a terminal; colors and cursor are rich's own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See `Console.render`."""
        return _printed(super().render(renderable, options))


def _printed(segments: Iterable[Segment]) -> Iterator[Segment]:
    for segment in segments:
        shown = segment.text if segment.control else escape_control(segment.text)
        yield segment if shown == segment.text else type(segment)(shown, segment.style)
