"""All figures of what defenses found and do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from judgebench.report.candidates_figure import candidates_figure
from judgebench.report.defense_files import DefenseRecords
from judgebench.report.embeddings_figure import embeddings_figure
from judgebench.report.front_figure import front_figure
from judgebench.report.separability_figure import separability_figure
from judgebench.report.strengths_figure import strengths_figure


def defense_figures(
    records: Sequence[Mapping[str, Any]], defense: DefenseRecords, titles: Mapping[str, str | None]
) -> dict[tuple[str, str], Figure | None]:
    """(kind, dimension) -> figure; None where there is nothing to draw.

    `front`: what each defense costs and gains. Of CAP's standards `candidates`, `embeddings` and `separability`, and
    `strengths` where strengths were tried.

    Args:
        records: metrics.json.
        defense: the records of defense/.
        titles: see `front_figure`.
    """
    groups = titles.get("groups") or "articles"
    figures: dict[tuple[str, str], Figure | None] = {}
    for dimension in dict.fromkeys(str(record["dimension"]) for record in records):
        figures["front", dimension] = front_figure(records, dimension, titles)
    for standard in defense.standards:
        dimension = str(standard["dimension"])
        figures["candidates", dimension] = candidates_figure(standard, groups)
        figures["embeddings", dimension] = embeddings_figure(standard)
        figures["separability", dimension] = separability_figure(standard)
        tried = [one for one in defense.strengths if one["dimension"] == dimension]
        written = defense.references
        written = written[(written["defense"] == "cap") & (written["dimension"] == dimension)]
        if tried:
            figures["strengths", dimension] = strengths_figure(tried, standard, written, groups)
    return figures
