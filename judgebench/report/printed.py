"""All that a run prints at its end: correlations, then what attacks and contrasting change, how it was tuned, what is
wrong."""

from __future__ import annotations

from typing import Any

from judgebench.report.table import Paragraph
from judgebench.report.views.attacks import ATTACKS, GAPS
from judgebench.report.views.bias import DIAGNOSTICS, SIMILARITY
from judgebench.report.views.comparisons import COMPARISONS
from judgebench.report.views.correlations import CORRELATION, LEVELS, experts
from judgebench.report.views.defenses import COSTS, DEFENSES, DETECTORS, REFERENCES, standards
from judgebench.report.views.flags import flags
from judgebench.report.views.pairs import PAIRS
from judgebench.report.views.phrases import phrase_blocks
from judgebench.report.views.rankings import ranking_blocks
from judgebench.report.views.run import judges_line, served
from judgebench.report.views.tuning import TUNING
from judgebench.results.results import Results


def terminal_blocks(results: Results) -> list[Any]:
    """What a run prints at its end, the tables first that answer its question. Attacked texts have a table of their
    own; the other tables are of clean ones."""
    parts: list[Any] = [Paragraph(judges_line(results.titles)), *experts(results)]
    parts += CORRELATION(results) + LEVELS(results)
    parts += PAIRS(results) + ranking_blocks(results)
    for part in (ATTACKS, DEFENSES, phrase_blocks, GAPS, standards, REFERENCES, DETECTORS, COSTS):
        parts += part(results)
    for part in (COMPARISONS, TUNING, DIAGNOSTICS, SIMILARITY, flags, served):
        parts += part(results)
    return parts
