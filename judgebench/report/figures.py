"""All figures of a run, and how they are saved."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from judgebench.atomic import atomic
from judgebench.report.choices import arrange_tuning
from judgebench.report.correlation_figure import correlation_figure
from judgebench.report.defense_figures import defense_figures
from judgebench.report.defense_files import DefenseRecords
from judgebench.report.detector_figure import detector_figure
from judgebench.report.heat_map import grid_figure
from judgebench.report.humans import Scale
from judgebench.report.logprob_figure import logprob_figure
from judgebench.report.pairwise_figure import pairwise_figures
from judgebench.report.path_figure import path_figure
from judgebench.report.robustness import unattacked
from judgebench.report.score_figure import score_figure
from judgebench.report.style import CAPTION_ID, house_style
from judgebench.report.suffix_curves import arrange_suffix
from judgebench.report.suffix_figure import suffix_figure
from judgebench.tuning.tuners import PER_RANGE

DPI = 200

_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {}}
"""No date in the file: equal data give equal bytes."""


def draw_all(
    readings: pd.DataFrame,
    scores: pd.DataFrame,
    records: Sequence[Mapping[str, Any]],
    scale: Mapping[str, Scale],
    titles: Mapping[str, str | None],
    tuning: Sequence[Mapping[str, Any]] | None = None,
    suffix: Sequence[Mapping[str, Any]] = (),
    defense: DefenseRecords | None = None,
    pairwise: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Figure]:
    """Every figure that this run's data can fill, by name.

    `spearman_by_range`: correlation with the humans, of clean texts. `scores_<dimension>`: which scores judges and
    humans give. `logprobs_<dimension>`: log-probability of each score, left out in free generation. Where lambda and t
    were tuned, also `path_<dimension>_<decoding>`: the exact path, and `grid_<dimension>_<decoding>`: the heat map of
    the grid. Of learned phrases `suffix_<attack>_<dimension>`, and the range where there are several: mean score by
    words. Of defenses those of `defense_figures`, as `front_<dimension>`, and `detectors`: precision against recall.
    Where texts were compared `ranking_<dimension>` and `wins_<dimension>`: systems' strengths, and who beats whom.
    """
    figures: dict[str, Figure | None] = {"spearman_by_range": correlation_figure(unattacked(records), titles)}
    for dimension in dict.fromkeys(scores["dimension"]):
        name = file_name(dimension)
        figures[f"scores_{name}"] = score_figure(scores, dimension, scale[dimension], titles)
        figures[f"logprobs_{name}"] = logprob_figure(readings, scores, dimension, scale[dimension], titles)
    for choices in arrange_tuning(tuning):
        if not choices.decoding.endswith(PER_RANGE):  # the same path and grid as the decoding that it is beside
            name = f"{file_name(choices.dimension)}_{file_name(choices.decoding)}"
            figures[f"path_{name}"] = path_figure(readings, scores, choices, titles.get("groups") or "articles")
            figures[f"grid_{name}"] = grid_figure(choices, titles.get("groups") or "articles")
    for learned in arrange_suffix(suffix):
        parts = [learned.suffix, learned.dimension, *([str(learned.range)] if learned.several else [])]
        figures["_".join(["suffix", *map(file_name, parts)])] = suffix_figure(learned, titles)
    for (kind, dimension), figure in defense_figures(records, defense or DefenseRecords(), titles).items():
        figures[f"{kind}_{file_name(dimension)}"] = figure
    for (kind, dimension), figure in pairwise_figures(pairwise, titles).items():
        figures[f"{kind}_{file_name(dimension)}"] = figure
    figures["detectors"] = detector_figure(defense.detectors if defense else ())
    return {name: figure for name, figure in figures.items() if figure is not None}


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Saves each figure as `<name>.png` (200 dpi) and `<name>.svg` and returns the paths."""
    paths = [folder / f"{name}.{kind}" for name in figures for kind in ("png", "svg")]
    for path in paths:
        with house_style(), atomic(path) as temporary:
            kind = path.suffix[1:]
            figures[path.stem].savefig(temporary, format=kind, dpi=DPI, metadata=_METADATA[kind])
    return paths


def svg_without_caption(figure: Figure) -> bytes:
    """The figure as SVG, for a page that shows the caption as its own text; the figure itself is left as it was."""
    captions = figure.findobj(lambda artist: artist.get_gid() == CAPTION_ID)
    for caption in captions:
        caption.set_visible(False)
    try:
        with house_style(), io.BytesIO() as buffer:
            figure.savefig(buffer, format="svg", metadata=_METADATA["svg"], bbox_inches="tight", pad_inches=0.05)
            return buffer.getvalue()
    finally:
        for caption in captions:
            caption.set_visible(True)


def file_name(dimension: str) -> str:
    """A dimension's name as part of a file's name.

    Example:
        >>> file_name("coherence"), file_name("tone / style")
        ('coherence', 'tone-style')
    """
    return re.sub(r"[^\w]+", "-", dimension).strip("-") or "dimension"
