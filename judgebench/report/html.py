"""Pages that need nothing but themselves: styles, scripts and data in one file, and a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from judgebench.report.browser.data import Browser, browse
from judgebench.report.figures.style import svg_without_caption, with_night
from judgebench.report.layout import EXAMPLES, PAGE, Drawn, PageSection, Part
from judgebench.report.render import TEMPLATES, macros, to_html
from judgebench.report.views.run import headline
from judgebench.results.results import Results


def render_report(results: Results, figures: Mapping[str, Figure]) -> str:
    """The page of a run as text: answers in sentences, tables, figures, flags, cost.

    Args:
        figures: what `draw_all` returned; their captions become the page's.
    """
    browser = browse({"": results}) if len(results.readings) else None
    pictures = [shown_figure(name, figure) for name, figure in figures.items()]
    title, lead = headline(results)
    sections = rendered(PAGE, results, pictures, browser_part(browser, results.examples_word))
    named = f"{results.titles['main']} on {results.dataset}"
    return render_page("report.html.j2", browser, title=named, sections=sections, headline=title, lead=lead)


@dataclass(frozen=True)
class Rendered:
    """A section as it stands in a page."""

    name: str
    title: str
    body: Markup


def rendered(
    sections: Sequence[PageSection],
    subject: Any,
    figures: Sequence[Mapping[str, str]],
    bodies: Mapping[str, Markup],
) -> list[Rendered]:
    """The sections that have something to show.

    Args:
        subject: what the parts show, such as results.
        figures: name, caption and source of each.
        bodies: name -> content of sections that are no blocks.
    """
    starts = sorted(
        (start for one in sections for part in one.parts if isinstance(part, Drawn) for start in part.starts),
        key=len,
        reverse=True,
    )
    shown = {figure["name"]: next((s for s in starts if figure["name"].startswith(s)), None) for figure in figures}

    def body(part: Part) -> Markup:
        if isinstance(part, Drawn):
            own = [figure for start in part.starts for figure in figures if shown[figure["name"]] == start]
            return Markup("").join(macros().picture(figure) for figure in own)
        return to_html(part(subject))

    written = {one.name: bodies.get(one.name, Markup("").join(map(body, one.parts))) for one in sections}
    return [Rendered(one.name, one.title, written[one.name]) for one in sections if written[one.name].strip()]


def browser_part(browser: Browser | None, word: str) -> dict[str, Markup]:
    """The section of the examples' browser, where there is one.

    Args:
        word: for what is judged.
    """
    return {EXAMPLES.name: Markup("") if browser is None else macros().examples(browser, word)}


# --- the page ---------------------------------------------------------------------------------------------------------

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
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def shown_figure(name: str, figure: Figure) -> dict[str, str]:
    """A figure as templates show it: name, caption, source.

    An image, not markup in the page: what an SVG says can then never run, and ids of two figures never meet.
    """
    svg = with_night(svg_without_caption(figure))
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
    return {"name": name, "caption": str(figure.get_label()), "source": source}


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"
