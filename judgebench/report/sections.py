"""The parts of a page, each a template of its own: what has nothing to show is left out, and out of the navigation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from judgebench.report.page import TEMPLATES


@dataclass(frozen=True)
class Section:
    """A part that a page may have.

    Attributes:
        name: of its template, templates/sections/<name>.html.j2, and its anchor.
        title: its heading.
        figures: how the names of the figures begin that stand in it; it gets them as `figures`.
    """

    name: str
    title: str
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rendered:
    """A part as it stands in a page."""

    name: str
    title: str
    body: Markup


SECTIONS = (
    Section("answers", "Answers", ("spearman_by_range",)),
    Section("bias", "Range bias", ("scores_", "logprobs_")),
    Section("contrast", "Contrastive decoding", ("path_", "grid_")),
    Section(
        "attacks",
        "Attacks and defenses",
        ("front_", "suffix_", "strengths_", "detectors", "candidates_", "embeddings_", "separability_"),
    ),
    Section("pairs", "Which of two is better?", ("ranking_", "wins_")),
    Section("statistics", "Statistics", ("",)),
    Section("diagnostics", "Diagnostics"),
    Section("examples", "Examples"),
    Section("cost", "Cost"),
    Section("repeat", "How to repeat it"),
)
"""Of a run's report, in this order; `statistics` also takes whatever figure no other names."""


def rendered(
    sections: Sequence[Section], figures: Sequence[Mapping[str, str]], context: Mapping[str, Any]
) -> list[Rendered]:
    """Those of the sections that have something to show.

    Args:
        figures: name, caption and source of each; it stands in the section that names the most of its name's beginning.
        context: what the templates need.
    """
    starts = sorted(((start, one.name) for one in sections for start in one.figures), key=lambda item: -len(item[0]))
    place = {
        figure["name"]: next((name for start, name in starts if figure["name"].startswith(start)), None)
        for figure in figures
    }
    found = []
    for one in sections:
        own = [figure for figure in figures if place[figure["name"]] == one.name]
        own.sort(key=lambda figure: next(i for i, start in enumerate(one.figures) if figure["name"].startswith(start)))
        body = TEMPLATES.get_template(f"sections/{one.name}.html.j2").render({**context, "figures": own})
        if body.strip():
            found.append(Rendered(one.name, one.title, Markup(body)))
    return found
