"""The parts of a page, each a template of its own: what has nothing to show is left out, and out of the navigation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from judgebench.report.layout import Drawn, Part, Section
from judgebench.report.page import TEMPLATES, macros
from judgebench.report.render import to_html


@dataclass(frozen=True)
class Rendered:
    """A part as it stands in a page."""

    name: str
    title: str
    body: Markup


def rendered(
    sections: Sequence[Section], subject: Any, figures: Sequence[Mapping[str, str]], context: Mapping[str, Any]
) -> list[Rendered]:
    """Those of the sections that have something to show.

    Args:
        subject: what the parts show, such as results.
        figures: name, caption and source of each.
        context: what the templates among the parts need.
    """
    starts = sorted(
        (start for one in sections for part in one.parts if isinstance(part, Drawn) for start in part.starts),
        key=len,
        reverse=True,
    )
    shown = {figure["name"]: next((s for s in starts if figure["name"].startswith(s)), None) for figure in figures}
    found = []
    for one in sections:
        body = Markup("").join(_part(part, subject, figures, shown, context) for part in one.parts)
        if body.strip():
            found.append(Rendered(one.name, one.title, body))
    return found


def _part(
    part: Part,
    subject: Any,
    figures: Sequence[Mapping[str, str]],
    shown: Mapping[str, str | None],
    context: Mapping[str, Any],
) -> Markup:
    if isinstance(part, str):
        return Markup(TEMPLATES.get_template(part).render(context))
    if isinstance(part, Drawn):
        own = [figure for start in part.starts for figure in figures if shown[figure["name"]] == start]
        picture = macros().picture
        return Markup("").join(picture(figure) for figure in own)
    return to_html(part(subject))
