"""The parts of a run's report in order: of its page, and of what it prints at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
from judgebench.report.views.run import cost, repeat
from judgebench.report.views.tuning import TUNING


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
class Section:
    """A section of a page; it is left out where nothing in it has anything to show.

    Attributes:
        name: its anchor.
    """

    name: str
    title: str
    parts: Sequence[Part]


EXAMPLES = Section("examples", "Examples", ())
"""The section of the examples' browser, which is no block."""

PAGE = (
    Section("answers", "Answers", (answers, CORRELATION, Drawn("spearman_by_range"))),
    Section(
        "bias",
        "Range bias",
        (favorite_tables, Drawn("scores_", "logprobs_"), DIAGNOSTICS, SIMILARITY),
    ),
    Section(
        "contrast",
        "Contrastive decoding",
        (COMPARISONS, other_statistics, TUNING, Drawn("path_", "grid_")),
    ),
    Section(
        "attacks",
        "Attacks and defenses",
        (
            *(ATTACKS, DEFENSES, standards, REFERENCES, DETECTORS, COSTS, phrase_blocks, GAPS),
            Drawn("front_", "suffix_", "strengths_", "detectors", "candidates_", "embeddings_", "separability_"),
        ),
    ),
    Section(
        "pairs",
        "Which of two is better?",
        (PAIRS, ranking_blocks, Drawn("ranking_", "wins_")),
    ),
    Section("statistics", "Statistics", (experts, POINTS, LEVELS, other_levels, Drawn(""))),
    Section("diagnostics", "Diagnostics", (flags,)),
    EXAMPLES,
    Section("cost", "Cost", (cost,)),
    Section("repeat", "How to repeat it", (repeat,)),
)
"""The sections of a run's page."""
