"""All figures of what defenses found and do."""

from __future__ import annotations

from matplotlib.figure import Figure

from judgebench.report.candidates_figure import candidates_figure
from judgebench.report.embeddings_figure import embeddings_figure
from judgebench.report.front_figure import front_figure
from judgebench.report.separability_figure import separability_figure
from judgebench.report.strengths_figure import strengths_figure
from judgebench.results.results import Results


def defense_figures(results: Results) -> dict[tuple[str, str], Figure | None]:
    """(kind, dimension) -> figure; None where there is nothing to draw.

    `front`: what each defense costs and gains. Of CAP's standards `candidates`, `embeddings` and `separability`, and
    `strengths` where strengths were tried.
    """
    figures: dict[tuple[str, str], Figure | None] = {}
    for dimension in dict.fromkeys(str(record["dimension"]) for record in results.metrics):
        figures["front", dimension] = front_figure(results.metrics, dimension, results.titles)
    for standard in results.standards:
        dimension = str(standard["dimension"])
        figures["candidates", dimension] = candidates_figure(standard, results.groups)
        figures["embeddings", dimension] = embeddings_figure(standard)
        figures["separability", dimension] = separability_figure(standard)
        tried = [one for one in results.strengths if one["dimension"] == dimension]
        written = results.references
        written = written[(written["defense"] == "cap") & (written["dimension"] == dimension)]
        if tried:
            figures["strengths", dimension] = strengths_figure(tried, standard, written, results.groups)
    return figures
