"""The parts of a run's report in order: of its page, and of what it prints at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.table import Paragraph
from judgebench.report.views.answers import answers
from judgebench.report.views.attacks import ATTACKS, GAPS
from judgebench.report.views.bias import DIAGNOSTICS, SIMILARITY, favorite_tables
from judgebench.report.views.comparisons import COMPARISONS, other_statistics
from judgebench.report.views.correlations import CORRELATION, LEVELS, experts, other_levels
from judgebench.report.views.defenses import COSTS, DEFENSES, DETECTORS, REFERENCES, standards
from judgebench.report.views.flags import flags
from judgebench.report.views.pairs import PAIRS
from judgebench.report.views.phrases import phrase_blocks
from judgebench.report.views.points import POINTS
from judgebench.report.views.rankings import ranking_blocks
from judgebench.report.views.run import cost, judges_line, repeat, served
from judgebench.report.views.tuning import TUNING
from judgebench.results.results import Results


@dataclass(frozen=True)
class Drawn:
    """The place of figures on a page: those whose names begin with one of `starts`, unless a longer start is named
    elsewhere."""

    starts: tuple[str, ...]

    def __init__(self, *starts: str) -> None:
        object.__setattr__(self, "starts", starts)


Part = Callable[[Any], Sequence[Any]] | Drawn
"""Results -> blocks, such as a `View`; or figures."""


@dataclass(frozen=True)
class PageSection:
    """A section of a page; it is left out where nothing in it has anything to show.

    Attributes:
        name: its anchor.
    """

    name: str
    title: str
    parts: Sequence[Part]


EXAMPLES = PageSection("examples", "Examples", ())
"""The section of the examples' browser, which is no block."""

PAGE = (
    PageSection("answers", "Answers", (answers, CORRELATION, Drawn("spearman_by_range"))),
    PageSection(
        "bias",
        "Range bias",
        (favorite_tables, Drawn("scores_", "logprobs_"), DIAGNOSTICS, SIMILARITY),
    ),
    PageSection(
        "contrast",
        "Contrastive decoding",
        (COMPARISONS, other_statistics, TUNING, Drawn("path_", "grid_")),
    ),
    PageSection(
        "attacks",
        "Attacks and defenses",
        (
            *(ATTACKS, DEFENSES, standards, REFERENCES, DETECTORS, COSTS, phrase_blocks, GAPS),
            Drawn("front_", "suffix_", "strengths_", "detectors", "candidates_", "embeddings_", "separability_"),
        ),
    ),
    PageSection(
        "pairs",
        "Which of two is better?",
        (PAIRS, ranking_blocks, Drawn("ranking_", "wins_")),
    ),
    PageSection("statistics", "Statistics", (experts, POINTS, LEVELS, other_levels, Drawn(""))),
    PageSection("diagnostics", "Diagnostics", (flags,)),
    EXAMPLES,
    PageSection("cost", "Cost", (cost,)),
    PageSection("repeat", "How to repeat it", (repeat,)),
)
"""The sections of a run's page."""


def terminal_blocks(results: Results) -> list[Any]:
    """All that a run prints at its end, the tables first that answer its question. Attacked texts have a table of their
    own; the other tables are of clean ones."""
    parts: list[Any] = [Paragraph(judges_line(results.titles)), *experts(results)]
    parts += CORRELATION(results) + LEVELS(results)
    parts += PAIRS(results) + ranking_blocks(results)
    for part in (ATTACKS, DEFENSES, phrase_blocks, GAPS, standards, REFERENCES, DETECTORS, COSTS):
        parts += part(results)
    for part in (COMPARISONS, TUNING, DIAGNOSTICS, SIMILARITY, flags, served):
        parts += part(results)
    return parts
