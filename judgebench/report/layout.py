"""The parts of a run's report in order: of its page, what it prints at its end, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from judgebench.report.figures.attacks import phrase_figures
from judgebench.report.figures.defenses import defense_figures
from judgebench.report.figures.forecasts import forecast_figures
from judgebench.report.figures.rankings import pairwise_figures
from judgebench.report.figures.scores import correlation_figure, logprob_figure, score_figure
from judgebench.report.figures.style import file_name
from judgebench.report.figures.tuning import grid_figure, path_figure
from judgebench.report.figures.variance import variance_figure
from judgebench.report.table import Paragraph
from judgebench.report.views.answers import answers, beside_answers, flags
from judgebench.report.views.attacks import ATTACKS, GAPS
from judgebench.report.views.beside import POINTS, STAND_IN
from judgebench.report.views.bias import DIAGNOSTICS, SIMILARITY, favorite_tables
from judgebench.report.views.comparisons import COMPARISONS, other_statistics
from judgebench.report.views.correlations import CORRELATION, LEVELS, other_levels
from judgebench.report.views.defenses import COSTS, DEFENSES, DETECTORS, REFERENCES, standards
from judgebench.report.views.errors import error_tables
from judgebench.report.views.few_labels import DIFFERENCES, LABELS_AND_JUDGES, MEANS
from judgebench.report.views.forecasts import ABSTENTION, FORECASTS
from judgebench.report.views.humans import ceilings, experts
from judgebench.report.views.pairwise import PAIRS, ranking_blocks
from judgebench.report.views.phrases import phrase_blocks
from judgebench.report.views.run import cost, judges_line, repeat, served
from judgebench.report.views.systems import RANKED, SYSTEM_TESTS, SYSTEMS
from judgebench.report.views.tuning import TUNING, tuning_blocks
from judgebench.report.views.variance import HUMAN_VARIANCE, RANGE_VARIANCE
from judgebench.results.results import Results, unattacked
from judgebench.tuning.tuners import PER_RANGE


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
    PageSection(
        "worth",
        "Beside humans",
        (
            *(beside_answers, experts, POINTS, STAND_IN),
            *(FORECASTS, Drawn("reliability_"), ABSTENTION, Drawn("abstention_")),
            *(RANGE_VARIANCE, Drawn("range_variance"), HUMAN_VARIANCE),
            *(SYSTEMS, RANKED, SYSTEM_TESTS),
            *(LABELS_AND_JUDGES, MEANS, DIFFERENCES),
            error_tables,
        ),
    ),
    PageSection("statistics", "Statistics", (LEVELS, other_levels, Drawn(""))),
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


def draw_all(results: Results) -> dict[str, Figure]:
    """Every figure that this run's data can fill, by name.

    `spearman_by_range`: correlation with the humans, of clean texts. `range_variance`: parts of the scores' variance
    that texts and ranges make. `scores_<dimension>`: which scores judges and
    humans give. `logprobs_<dimension>`: log-probability of each score, left out in free generation. Where lambda and t
    were tuned, also `path_<dimension>_<decoding>`: the exact path, and `grid_<dimension>_<decoding>`: the heat map of
    the grid. Of learned phrases `suffix_<attack>_<dimension>`, and the range where there are several: mean score by
    words. Of defenses those of `defense_figures`, as `front_<dimension>` and `detectors`.
    Of judges' probabilities `reliability_<dimension>` and `abstention_<dimension>`: whether they come true, and the
    error of the texts that are kept where a person gets the unsure ones.
    Where texts were compared `ranking_<dimension>` and `wins_<dimension>`: systems' strengths, and who beats whom.
    """
    readings, scores, records, titles = results.readings, results.scores, results.metrics, results.titles
    scale, groups = results.scale, results.groups
    figures: dict[str, Figure | None] = {
        "spearman_by_range": correlation_figure(unattacked(records), titles, ceilings(results)),
        "range_variance": variance_figure(results),
    }
    for dimension in dict.fromkeys(scores["dimension"]):
        name = file_name(dimension)
        figures[f"scores_{name}"] = score_figure(scores, dimension, scale[dimension], titles)
        figures[f"logprobs_{name}"] = logprob_figure(readings, scores, dimension, scale[dimension], titles)
    for tuned in tuning_blocks(results.tuning):
        dimension, decoding = str(tuned[0]["dimension"]), str(tuned[0]["decoding"])
        if not decoding.endswith(PER_RANGE):  # the same path and grid as the decoding that it is beside
            name = f"{file_name(dimension)}_{file_name(decoding)}"
            figures[f"path_{name}"] = path_figure(results, tuned)
            figures[f"grid_{name}"] = grid_figure(tuned, groups)
    figures |= phrase_figures(results) | defense_figures(results) | forecast_figures(results)
    for (kind, dimension), figure in pairwise_figures(results).items():
        figures[f"{kind}_{file_name(dimension)}"] = figure
    return {name: figure for name, figure in figures.items() if figure is not None}
