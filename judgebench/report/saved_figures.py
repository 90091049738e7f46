"""How figures become files and parts of pages."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from judgebench.atomic import atomic
from judgebench.report.style import CAPTION_ID, house_style

DPI = 200

_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {}}
"""No date in the file: equal data give equal bytes."""


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Saves each figure as `<name>.png` (200 dpi) and `<name>.svg` and returns the paths."""
    paths = [folder / f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
    for path in paths:
        with house_style(), atomic(path) as temporary:
            kind = path.suffix[1:]
            figures[path.stem].savefig(temporary, format=kind, dpi=DPI, metadata=_METADATA[kind])
    return paths


def svg_without_caption(figure: Figure) -> bytes:
    """The figure as SVG, for a page that shows the caption as its own text; the figure itself is left as it was."""
    captions = figure.findobj(lambda artist: artist.get_gid() == CAPTION_ID)
    for caption in captions:
        caption.set_visible(False)
    try:
        with house_style(), io.BytesIO() as buffer:
            figure.savefig(buffer, format="svg", metadata=_METADATA["svg"], bbox_inches="tight", pad_inches=0.05)
            return buffer.getvalue()
    finally:
        for caption in captions:
            caption.set_visible(True)


def file_name(dimension: str) -> str:
    """A dimension's name as part of a file's name.

    Example:
        >>> file_name("coherence"), file_name("tone / style")
        ('coherence', 'tone-style')
    """
    return re.sub(r"[^\w]+", "-", dimension).strip("-") or "dimension"
