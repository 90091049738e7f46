"""How figures become files and parts of pages."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from judgebench.report.style import CAPTION_ID, house_style
from judgebench.runtime.errors import escape_control
from judgebench.runtime.files import atomic

DPI = 200

_UNDATED = {"Date": None}
"""No date in the file: equal data give equal bytes."""


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Saves each figure as `<name>.png` (200 dpi) and `<name>.svg` and returns the paths."""
    paths = [folder / f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
    for path in paths:
        with house_style(), atomic(path) as temporary:
            if path.suffix == ".svg":
                temporary.write_bytes(_svg(figures[path.stem], dpi=DPI))
            else:
                _save(figures[path.stem], temporary, format="png", dpi=DPI)
    return paths


def svg_without_caption(figure: Figure) -> bytes:
    """The figure as SVG, for a page that shows the caption as its own text; the figure itself is left as it was."""
    captions = figure.findobj(lambda artist: artist.get_gid() == CAPTION_ID)
    for caption in captions:
        caption.set_visible(False)
    try:
        with house_style():
            return _svg(figure, bbox_inches="tight", pad_inches=0.05)
    finally:
        for caption in captions:
            caption.set_visible(True)


def _svg(figure: Figure, **how: Any) -> bytes:
    """The figure as SVG, which as XML must not hold control characters: names that do would leave no image at all."""
    with io.BytesIO() as buffer:
        _save(figure, buffer, format="svg", metadata=_UNDATED, **how)
        return escape_control(buffer.getvalue().decode()).encode()


def _save(figure: Figure, to: Any, **how: Any) -> None:
    with warnings.catch_warnings():
        # no font draws a control character, and the warning would send it to the terminal
        warnings.filterwarnings("ignore", r"Glyph ([0-9]|[12][0-9]|3[01]|12[789]|1[345][0-9]) \(", UserWarning)
        figure.savefig(to, **how)


def file_name(dimension: str) -> str:
    """A dimension's name as part of a file's name.

    Example:
        >>> file_name("coherence"), file_name("tone / style")
        ('coherence', 'tone-style')
    """
    return re.sub(r"[^\w]+", "-", dimension).strip("-") or "dimension"
