"""The parts of a run's report in order: of its page, what it prints at its end, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from judgebench.report.table import Paragraph
from judgebench.report.views import (
    advised,
    answer,
    attacks,
    audit,
    beside,
    correlations,
    decisions,
    defenses,
    forecasts,
    league,
    pairwise,
    picks,
    repeats,
    rewards,
    run,
    verdicts,
)
from judgebench.report.views.advice import recommendations
from judgebench.report.views.bias import RANGE_VARIANCE
from judgebench.report.views.forecasts import FORECASTS, error_notes
from judgebench.report.views.humans import experts
from judgebench.report.views.phrases import phrase_blocks
from judgebench.report.views.run import flags
from judgebench.report.views.systems import SYSTEMS
from judgebench.report.views.tuning import TUNING
from judgebench.results.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Fold(NamedTuple):
    """Parts that a page shows when asked, under a line that says what they answer; left out where
    all are empty."""

    line: str
    parts: Sequence[Any]


Part = Callable[[Any], Sequence[Any]] | Fold | str
"""Results -> blocks, such as a `View`; or the start of the names of figures, "" for those without
another place."""


class PageSection(NamedTuple):
    """A section of a page, its anchor first; it is left out where nothing in it has anything to
    show."""

    name: str
    title: str
    parts: Sequence[Part]


EXAMPLES: Part = "examples"
"""The place of the examples' browser, whose content follows from no block."""

_PREPARED = (defenses.standards, defenses.REFERENCES, defenses.DETECTORS, defenses.COSTS)
_UNDER_ATTACK = (
    attacks.ATTACKS,
    defenses.DEFENSES,
    defenses.matrix,
    *_PREPARED,
    phrase_blocks,
    attacks.GAPS,
)
_COMPARED = (pairwise.PAIRS, pairwise.ranking_blocks)

PAGE = (
    PageSection(
        "pairs",
        "Which of two is better?",
        (
            advised.pair_lines,
            pairwise.PAIRS.tables,
            "chart_ranking",
            Fold("Systems ranked, and preferences against the humans'", (pairwise.ranking_blocks,)),
        ),
    ),
    PageSection(
        "use",
        "May I use this judge?",
        (
            verdicts.use_lines,
            verdicts.VERDICTS.tables,
            Fold("What earns each verdict", (verdicts.rules,)),
        ),
    ),
    PageSection(
        "decide",
        "Pass, fail, or ask a human?",
        (
            decisions.decision_lines,
            "chart_classes",
            "chart_asked",
            decisions.DECISIONS.tables,
            Fold("The share of texts that people pass", (decisions.RATES.tables,)),
        ),
    ),
    PageSection(
        "distance",
        "How far from a human is it?",
        (
            advised.distance_lines,
            "chart_systems",
            advised.DISTANCE.tables,
            Fold("Humans among themselves", (experts,)),
            Fold(
                "Spearman, Pearson and Kendall of every judge and decoding",
                (correlations.CORRELATION,),
            ),
            Fold(
                "In points: bias, error, same scores and kappa, raw and calibrated",
                (advised.of_setting(beside.POINTS),),
            ),
            Fold(
                "In a rater's place: alternative annotator test",
                (advised.of_setting(beside.STAND_IN),),
            ),
            Fold("Systems: pairs, and errors of means", (advised.of_setting(SYSTEMS),)),
            Fold("The best of several: its first choice", (picks.PICKS, picks.BEST_OF)),
        ),
    ),
    PageSection(
        "setting",
        "Which setting do I take, and what does each repair buy?",
        (
            advised.setting_lines,
            "chart_repairs",
            league.LEAGUE.tables,
            Fold(
                "Every planned comparison, with Holm's correction", (correlations.REPAIRS.tables,)
            ),
            Fold(
                "Differences between judges and decodings, range by range",
                (correlations.COMPARISONS,),
            ),
            Fold("Tuning of lambda and t", (TUNING, "chart_path")),
        ),
    ),
    PageSection(
        "shift",
        "What can fool or shift it?",
        (
            advised.shift_lines,
            "chart_scores",
            advised.SHIFT.tables,
            defenses.matrix,
            advised.ATTACKED.tables,
            Fold("Attacks on every judge and decoding", (attacks.ATTACKS,)),
            Fold("Defenses side by side", (defenses.DEFENSES,)),
            Fold("Which judge or decoding is easier to fool", (attacks.GAPS,)),
            Fold("Learned phrases, word by word", (phrase_blocks, "suffix_")),
            Fold(
                "How defenses were prepared, and what they cost",
                (
                    advised.preparation_lines,
                    *_PREPARED,
                    "strengths_",
                    "detectors",
                    "candidates_",
                    "embeddings_",
                    "separability_",
                ),
            ),
            Fold(
                "The range's share of the variance, every judge and decoding",
                (RANGE_VARIANCE, "chart_variance"),
            ),
            Fold("The probability of each score", ("logprobs_",)),
        ),
    ),
    PageSection(
        "moved",
        "What else moves it?",
        (
            audit.audit_lines,
            "chart_moved",
            audit.AUDIT.tables,
            Fold("What was not measured, and why", (audit.missing_lines,)),
        ),
    ),
    PageSection(
        "errors",
        "Where is it wrong?",
        (
            advised.error_lines,
            "chart_errors",
            error_notes,
            Fold("As the reward of training", (rewards.REWARDS, rewards.REWARDS_ATTACKED)),
            Fold("Errors of each system and length", (forecasts.SLICES,)),
            Fold("Every example: sort, filter, search and open", (EXAMPLES,)),
        ),
    ),
    PageSection(
        "certainty",
        "How sure is all that?",
        (
            advised.certainty_lines,
            forecasts.LABELS_AND_JUDGES,
            Fold("How far its answers to one prompt differ", (repeats.REPEATS,)),
            Fold("Means of systems by labels, by the judge, and by both", (forecasts.MEANS,)),
            Fold("Flags of every judge and decoding", (flags,)),
            Fold("Its probabilities as forecasts", (advised.of_judges(FORECASTS),)),
            Fold("Further figures", ("",)),
            Fold("Cost", (run.cost,)),
            Fold("How to repeat it", (run.repeat,)),
        ),
    ),
)
"""The sections of a run's page: what people ask, in their order."""

_TERMINAL: Sequence[Callable[[Any], Sequence[Any]]] = (
    decisions.DECISIONS,
    decisions.RATES,
    repeats.REPEATS,
    rewards.REWARDS,
    rewards.REWARDS_ATTACKED,
    league.LEAGUE,
    experts,
    picks.PICKS,
    correlations.CORRELATION,
    correlations.LEVELS,
    *_COMPARED,
    *_UNDER_ATTACK,
    audit.AUDIT,
    audit.missing_lines,
    correlations.REPAIRS,
    correlations.COMPARISONS,
    TUNING,
    flags,
    run.served,
)


def terminal_blocks(results: Results, tables: bool = False) -> list[Any]:
    """The end of a run in a terminal: its answer, in at most `answer.MOST` lines; or every table
    that a page does not fold, those first that answer its question."""
    if not tables:
        return answer.answer_blocks(results)
    lines = [
        *recommendations(results),
        *league.repair_sentences(results),
        run.judges_line(results.titles),
    ]
    blocks = [block for part in _TERMINAL for block in part(results)]
    unfolded = [block for block in blocks if not getattr(block, "folded", "")]
    return [*map(Paragraph, lines), *unfolded]


def draw_all(results: Results) -> dict[str, Figure]:
    """Every figure after one of the papers' that this run's data can fill, by name; what else a page
    shows are charts, see `section_charts`.

    They are `logprobs_<dimension>`, where the key `figures` asks for files; of learned phrases
    `suffix_<attack>_<dimension>`; of defenses those of `defense_figures`.
    """
    figures: dict[str, Figure | None] = {}
    # matplotlib takes seconds: the page of a usual run has its charts and tables without
    if results.config.get("figures", "png") is not None:
        from judgebench.report.figures.scores import logprob_figure
        from judgebench.report.figures.style import file_name

        for dimension in dict.fromkeys(results.scores["dimension"]):
            figures[f"logprobs_{file_name(dimension)}"] = logprob_figure(results, dimension)
    if results.suffix:
        from judgebench.report.figures.attacks import phrase_figures

        figures |= phrase_figures(results)
    if results.standards or results.detectors:
        from judgebench.report.figures.defenses import defense_figures

        figures |= defense_figures(results)
    return {name: figure for name, figure in figures.items() if figure is not None}
