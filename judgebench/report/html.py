"""Pages that need nothing but themselves: styles, scripts and data in one file, and a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from judgebench.report.browser.data import Browser, browse
from judgebench.report.figures.style import svg_without_caption, with_night
from judgebench.report.layout import EXAMPLES, PAGE, PageSection
from judgebench.report.render import TEMPLATES, macros, to_html
from judgebench.report.views.run import headline
from judgebench.results.results import Results


def render_report(results: Results, figures: Mapping[str, Figure]) -> str:
    """The page of a run as text, with the figures of `draw_all` and their captions."""
    browser = browse({"": results}) if len(results.readings) else None
    sections = rendered(PAGE, results, figures, browser, results.examples_word)
    title, lead = headline(results)
    name = f"{results.titles['main']} on {results.dataset}"
    return render_page("report.html.j2", browser, title=name, sections=sections, headline=title, lead=lead)


def rendered(
    sections: Sequence[PageSection],
    subject: Any,
    figures: Mapping[str, Figure],
    browser: Browser | None,
    word: str,
) -> list[dict[str, Any]]:
    """Name, title and body of the sections that have something to show.

    Args:
        subject: the parts' subject, such as results.
        browser: the examples; word: for what is judged.
    """
    starts = [part for section in sections for part in section.parts if isinstance(part, str)]
    places = {name: max(filter(name.startswith, starts), key=len, default=None) for name in figures}
    written = []
    for section in sections:
        body = macros().examples(browser, word) if section == EXAMPLES and browser else Markup("")
        for part in section.parts:
            if isinstance(part, str):
                names = (name for name in figures if places[name] == part)
                body += Markup("").join(macros().picture(name, *_image(figures[name])) for name in names)
            else:
                body += to_html(part(subject))
        if body.strip():
            written.append({"name": section.name, "title": section.title, "body": body})
    return written


def _image(figure: Figure) -> tuple[str, str]:
    """Caption and source of a figure: an image, not markup in the page, so that what an SVG says can never run, and ids
    of two figures never meet."""
    svg = with_night(svg_without_caption(figure))
    return str(figure.get_label()), f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"


# --- the page ---------------------------------------------------------------------------------------------------------

_STYLES, _SCRIPTS = ("page.css",), ("page.js",)
_BROWSER_STYLES = ("vendor/tabulator.css", "examples.css")
_BROWSER_SCRIPTS = ("vendor/tabulator.js", "vendor/diff.js", "pieces.js", "data.js", "example.js", "examples.js")


def render_page(template: str, browser: Browser | None, **context: Any) -> str:
    """A whole page, of a template that extends base.html.j2; with the examples, it carries what shows them."""
    styles = [asset(name) for name in (*_STYLES, *(_BROWSER_STYLES if browser else ()))]
    scripts = [asset(name) for name in (*_SCRIPTS, *(_BROWSER_SCRIPTS if browser else ()))]
    return TEMPLATES.get_template(template).render(
        policy=content_policy(styles, scripts),
        styles=list(map(Markup, styles)),
        scripts=list(map(Markup, scripts)),
        browser=browser,
        **context,
    )


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Content security policy of the page: these styles and scripts, by their digests, and images that stand in the
    page itself; nothing over a network, and nothing that a text in it says."""
    allowed = {"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    for name, contents in (("style-src", styles), ("script-src", scripts)):
        digests = [base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii") for content in contents]
        allowed[name] = " ".join(f"'sha256-{digest}'" for digest in digests)
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


@cache
def asset(name: str) -> str:
    """A file of assets/, with a browser's line ends, for digests are of what the browser has read."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")
