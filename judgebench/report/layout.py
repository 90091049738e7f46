"""The parts of a run's report in order: of its page, and of what it prints at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.views.attacks import ATTACKS, GAPS
from judgebench.report.views.correlations import CORRELATION, LEVELS, experts, other_levels
from judgebench.report.views.defenses import COSTS, DEFENSES, DETECTORS, REFERENCES, standards
from judgebench.report.views.phrases import phrase_blocks


@dataclass(frozen=True)
class Drawn:
    """The place of figures on a page: those whose names begin with one of `starts`, unless a longer start is named
    elsewhere."""

    starts: tuple[str, ...]

    def __init__(self, *starts: str) -> None:
        object.__setattr__(self, "starts", starts)


Part = Callable[[Any], Sequence[Any]] | Drawn | str
"""Results -> blocks, such as a `View`; figures; or the template of a part that is no block."""


@dataclass(frozen=True)
class Section:
    """A section of a page; it is left out where nothing in it has anything to show.

    Attributes:
        name: its anchor.
    """

    name: str
    title: str
    parts: Sequence[Part]


PAGE = (
    Section("answers", "Answers", ("parts/answers.html.j2", CORRELATION, Drawn("spearman_by_range"))),
    Section(
        "bias",
        "Range bias",
        ("parts/favorites.html.j2", Drawn("scores_", "logprobs_"), "parts/diagnosed.html.j2"),
    ),
    Section(
        "contrast",
        "Contrastive decoding",
        ("parts/compared.html.j2", "parts/tuned.html.j2", Drawn("path_", "grid_")),
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
        ("parts/pairs.html.j2", "parts/ranking.html.j2", Drawn("ranking_", "wins_")),
    ),
    Section("statistics", "Statistics", (experts, LEVELS, other_levels, Drawn(""))),
    Section("diagnostics", "Diagnostics", ("parts/flags.html.j2",)),
    Section("examples", "Examples", ("sections/examples.html.j2",)),
    Section("cost", "Cost", ("parts/cost.html.j2",)),
    Section("repeat", "How to repeat it", ("parts/repeat.html.j2",)),
)
"""The sections of a run's page."""
