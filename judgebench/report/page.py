"""A page that needs nothing but itself: styles, scripts and data in one file, and a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from judgebench.report.browser.data import Browser
from judgebench.report.figures.style import svg_without_caption, with_night
from judgebench.runtime.errors import escape_control

_HERE = Path(__file__).parent

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE / "templates"),
    autoescape=True,  # ids, names and texts come from data sets and models: none of them may become markup
    undefined=jinja2.StrictUndefined,
    finalize=lambda said: said if isinstance(said, Markup) or not isinstance(said, str) else escape_control(said),
    trim_blocks=True,
    lstrip_blocks=True,
)


def macros() -> Any:
    """Macros that write each kind of block in a page, by the block's name."""
    return TEMPLATES.get_template("blocks.html.j2").module


_STYLES, _SCRIPTS = ("page.css",), ("page.js",)
_BROWSER_STYLES = ("vendor/tabulator.css", "examples.css")
_BROWSER_SCRIPTS = ("vendor/tabulator.js", "vendor/diff.js", "pieces.js", "data.js", "example.js", "examples.js")


def render_page(template: str, browser: Browser | None, **context: Any) -> str:
    """A whole page.

    Args:
        template: which extends base.html.j2.
        browser: the examples, for whom the page then carries what shows them.
    """
    styles = [asset(name) for name in (*_STYLES, *(_BROWSER_STYLES if browser else ()))]
    scripts = [asset(name) for name in (*_SCRIPTS, *(_BROWSER_SCRIPTS if browser else ()))]
    return TEMPLATES.get_template(template).render(
        policy=content_policy(styles, scripts),
        styles=[Markup(one) for one in styles],
        scripts=[Markup(one) for one in scripts],
        browser=browser,
        **context,
    )


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Content security policy of the page: these styles and scripts, by their digests, and images that stand in the
    page itself; nothing over a network, and nothing that a text in it says."""
    allowed = {"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    allowed |= {"style-src": " ".join(map(_digest, styles)), "script-src": " ".join(map(_digest, scripts))}
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


@cache
def asset(name: str) -> str:
    """A file of assets/, with a browser's line ends, for digests are of what the browser has read."""
    return (_HERE / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def shown_figure(name: str, figure: Figure) -> dict[str, str]:
    """A figure as templates show it: name, caption, source.

    An image, not markup in the page: what an SVG says can then never run, and ids of two figures never meet.
    """
    svg = with_night(svg_without_caption(figure))
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
    return {"name": name, "caption": str(figure.get_label()), "source": source}


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"
