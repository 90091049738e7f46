"""The terminal as rich writes to it; apart from `terminal`, for rich takes time to import."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from judgebench.words.terminal import printable

WIDTH = 100
"""Columns that tables are made for; a console narrower than this folds cells."""


class Terminal(Console):
    """A rich console whose text neither a terminal nor a service for CI obeys; colors and cursor
    are rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `Console.render`."""
        for segment in super().render(renderable, options):
            plain = segment.text if segment.control else printable(segment.text)
            yield segment if plain == segment.text else type(segment)(plain, segment.style)
