"""All figures of a run."""

from __future__ import annotations

from matplotlib.figure import Figure

from judgebench.report.figures.attacks import phrase_figures
from judgebench.report.figures.correlations import correlation_figure
from judgebench.report.figures.defenses import defense_figures
from judgebench.report.figures.rankings import pairwise_figures
from judgebench.report.figures.scores import logprob_figure, score_figure
from judgebench.report.figures.style import file_name
from judgebench.report.figures.tuning import grid_figure, path_figure
from judgebench.report.views.tuning import tuning_blocks
from judgebench.results.results import Results, unattacked
from judgebench.tuning.tuners import PER_RANGE


def draw_all(results: Results) -> dict[str, Figure]:
    """Every figure that this run's data can fill, by name.

    `spearman_by_range`: correlation with the humans, of clean texts. `scores_<dimension>`: which scores judges and
    humans give. `logprobs_<dimension>`: log-probability of each score, left out in free generation. Where lambda and t
    were tuned, also `path_<dimension>_<decoding>`: the exact path, and `grid_<dimension>_<decoding>`: the heat map of
    the grid. Of learned phrases `suffix_<attack>_<dimension>`, and the range where there are several: mean score by
    words. Of defenses those of `defense_figures`, as `front_<dimension>` and `detectors`.
    Where texts were compared `ranking_<dimension>` and `wins_<dimension>`: systems' strengths, and who beats whom.
    """
    readings, scores, records, titles = results.readings, results.scores, results.metrics, results.titles
    scale, groups = results.scale, results.groups
    figures: dict[str, Figure | None] = {"spearman_by_range": correlation_figure(unattacked(records), titles)}
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
    figures |= phrase_figures(results) | defense_figures(results)
    for (kind, dimension), figure in pairwise_figures(results).items():
        figures[f"{kind}_{file_name(dimension)}"] = figure
    return {name: figure for name, figure in figures.items() if figure is not None}
