"""Pages that need nothing but themselves: styles, scripts and data in one file, and a policy
against all else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from judgebench.report.browser.data import Browser, browse
from judgebench.report.figures.charts import Chart, first_charts, section_charts
from judgebench.report.layout import EXAMPLES, PAGE, Fold, PageSection, Part
from judgebench.report.render import TEMPLATES, macros, to_html
from judgebench.report.table import Block, Details, Facts, Table, meanings
from judgebench.report.views import first
from judgebench.report.views.advice import advice_lines
from judgebench.report.views.run import headline
from judgebench.report.views.verdicts import first_line
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.types import Rows
from judgebench.words.pages import content_policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render_report(results: Results, figures: Mapping[str, Figure]) -> str:
    """The page of a run as text, with the figures of `draw_all` and their captions."""
    browser = browse(results) if len(results.readings) else None
    charts = section_charts(results)
    dimensions = dict.fromkeys(row["dimension"] for row in results.metrics)
    return render_page(
        "report.html.j2",
        browser,
        sections=rendered(PAGE, results, {**figures, **charts}, browser, results.examples_word),
        first={dimension: first_charts(results, dimension) for dimension in dimensions},
        may=first_line(results),
        strips=first.strips(results),
        takes=advice_lines(results, "screen"),
        looks=first.looks(results),
        look_note=first.look_note(results),
        **headline(results),
    )


def rendered(
    sections: Sequence[PageSection],
    subject: Any,
    figures: Mapping[str, Figure | Chart],
    browser: Browser | None,
    word: str,
) -> Rows:
    """Name, title and body of the sections that have something to show, and of the legend of all
    tables' columns.

    Args:
        subject: the parts' subject, such as results.
        browser: the examples; word: for what is judged.
    """
    starts = list(_names(part for section in sections for part in section.parts))
    places = {name: max(filter(name.startswith, starts), key=len, default=None) for name in figures}
    tables: list[Table] = []
    dimensions = {record["dimension"] for record in getattr(subject, "metrics", ())}
    alone = str(dimensions.pop()) if len(dimensions) == 1 else ""

    def written(part: Part) -> Markup:
        if isinstance(part, Fold):
            body = Markup("").join(map(written, part.parts))
            name = EXAMPLES if EXAMPLES in part.parts else ""
            return macros().details(Details(part.line, body), name) if body.strip() else Markup("")
        if part == EXAMPLES:
            return macros().examples(browser, word) if browser else Markup("")
        if isinstance(part, str):
            drawn = {name: figure for name, figure in figures.items() if places[name] == part}
            return _pictures(drawn)
        blocks = [_undimensioned(block, alone) for block in part(subject)]
        tables.extend(block for block in blocks if isinstance(block, Table))
        return to_html(blocks)

    shown = []
    for section in sections:
        body = Markup("").join(map(written, section.parts))
        if body.strip():
            shown.append({"name": section.name, "title": section.title, "body": body})
    if legend := meanings(tables):
        facts = Facts([(head, [f"{says}."]) for head, says in legend.items()])
        body = to_html([Details("Every column of this page", to_html([facts]))])
        shown.append({"name": "legend", "title": "What the columns mean", "body": body})
    return shown


def _undimensioned(block: Block, alone: str) -> Block:
    """A block without the name of the only dimension, which every table would repeat."""
    if not isinstance(block, Table) or not alone:
        return block
    return replace(
        block,
        title=re.sub(rf"^{re.escape(alone)}(, |: |$)", "", block.title),
        folded=block.folded.removesuffix(f": {alone}").replace(f"{alone}, ", "", 1),
    )


def _pictures(figures: Mapping[str, Figure | Chart]) -> Markup:
    """Figures below each other; charts in a row where there are several."""
    chart: Any = TEMPLATES.get_template("charts.html.j2").module
    images = Markup("").join(
        chart.chart(figure, name)
        if isinstance(figure, Chart)
        else macros().picture(name, *_image(figure))
        for name, figure in figures.items()
    )
    several = len(figures) > 1 and all(isinstance(figure, Chart) for figure in figures.values())
    return Markup('<div class="charts">{}</div>').format(images) if several else images


def _names(parts: Iterable[Part]) -> Iterator[str]:
    """The starts of figures' names."""
    for part in parts:
        if isinstance(part, Fold):
            yield from _names(part.parts)
        elif isinstance(part, str) and part != EXAMPLES:
            yield part


def _image(figure: Figure) -> tuple[str, str]:
    """Caption and source of a figure: an image, not markup in the page, so that what an SVG says
    can never run, and ids of two figures never meet."""
    # matplotlib with it
    from judgebench.report.figures.style import svg_without_caption, with_night

    image = base64.b64encode(with_night(svg_without_caption(figure))).decode("ascii")
    return str(figure.get_label()), f"data:image/svg+xml;base64,{image}"


def write_figures(folder: RunFolder, results: Results, figures: Mapping[str, Figure]) -> list[Path]:
    """Writes figures as files where their run asks for them; their paths."""
    if results.config.get("figures") is None:
        return []
    from judgebench.report.figures.style import figure_files

    return [
        folder.write_file(f"figures/{name}", drawing)
        for name, drawing in figure_files(figures).items()
    ]


# --- the page -----------------------------------------------------------------------------------

_STYLES = ("page.css",)
_SCRIPTS = ("page.js",)
_BROWSER_STYLES = ("vendor/tabulator.css", "examples.css")
_BROWSER_SCRIPTS = (
    "vendor/tabulator.js",
    "vendor/diff.js",
    "pieces.js",
    "data.js",
    "example.js",
    "examples.js",
)


def render_page(template: str, browser: Browser | None, **context: Any) -> str:
    """A whole page, of a template that extends base.html.j2; with the examples, it carries what
    shows them."""
    styles = [*_STYLES, *(_BROWSER_STYLES if browser else ())]
    scripts = [*_SCRIPTS, *(_BROWSER_SCRIPTS if browser else ())]
    return TEMPLATES.get_template(template).render(
        policy=content_policy(list(map(asset, styles)), list(map(asset, scripts))),
        styles=[Markup(asset(name)) for name in styles],
        scripts=[Markup(asset(name)) for name in scripts],
        browser=browser,
        **context,
    )


@cache
def asset(name: str) -> str:
    """A file of assets/, with a browser's line ends, for digests are of what the browser has
    read."""
    path = Path(__file__).parent / "assets" / name
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")
