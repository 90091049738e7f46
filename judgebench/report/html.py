"""report.html: one page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from judgebench.report.browser.data import Browser, browse
from judgebench.report.layout import EXAMPLES, PAGE, Drawn, PageSection, Part
from judgebench.report.page import macros, render_page, shown_figure
from judgebench.report.render import to_html
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
