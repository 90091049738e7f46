"""The same texts on two scales: what that changes of humans, and what of a judge.

A data set may hold the same texts rated on a short scale and on a scale of 100, as two dimensions, NAME and NAME_100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from judgebench.report.formats import percent, short, three
from judgebench.report.table import Col, View
from judgebench.report.views.bias import HUMANS, favorite_text, spans
from judgebench.results.results import Results
from judgebench.results.series import SeriesIndex, first_condition, ranges_of
from judgebench.stats.bias import favorite
from judgebench.stats.clusters import RESAMPLES, weights_of, with_interval
from judgebench.stats.correlation import CORRELATIONS, resampled_correlations, spearman
from judgebench.types import ScoreRange

LONG = "_100"
"""What the name of a dimension ends with whose scale is the long one of two."""


def twins(dimensions: Sequence[str]) -> list[tuple[str, str]]:
    """Dimensions that stand there on two scales.

    Example:
        >>> twins(["fluency", "fluency_100", "adequacy"])
        [('fluency', 'fluency_100')]
    """
    return [(name, f"{name}{LONG}") for name in dimensions if f"{name}{LONG}" in dimensions]


def scales_frame(results: Results) -> pd.DataFrame:
    """A row a dimension with a twin, for the humans and for each judge that was asked in the humans' own two ranges, or
    in others as long: Spearman between its scores of a text on both scales, with its interval; its favorite on each
    with its share; `apart`, the Wasserstein distance of both distributions on [0, 1].

    Of humans, favorites and distributions are of single ratings where these are known, else of means; Spearman is of
    means. Texts of the reported split, without attack and defense where there are such.
    """
    scores = results.scores
    if results.compares or not len(scores):
        return pd.DataFrame()
    shown, _ = first_condition(scores[scores["split"] == results.split])
    rows = []
    for one, other in twins(list(dict.fromkeys(shown["dimension"]))):
        ends = results.scale.get(one), results.scale.get(other)
        if not all(map(spans, ends)):
            continue
        parts = [shown[shown["dimension"] == name] for name in (one, other)]
        texts = [part.drop_duplicates("example_id").set_index("example_id") for part in parts]
        given = [_ratings(results, name, text) for name, text in zip((one, other), texts, strict=True)]
        head = {"dimension": one, "short": _named(ends[0]), "long": _named(ends[1])}
        means = [text["human"] for text in texts]
        rows.append(head | {"who": HUMANS} | _row(means, given, ends, texts[0]) | _favorites(map(_most_given, given)))
        asked = [_asked(part, scale) for part, scale in zip(parts, ends, strict=True)]
        if asked[0] is None or asked[1] is None:
            continue
        (first, short_part), (second, long_part) = asked[0], asked[1]
        series = [SeriesIndex.from_frame(part).parts(part) for part in (short_part, long_part)]
        own = (first.minimum, first.maximum), (second.minimum, second.maximum)
        for judge in (name for name in series[0] if name in series[1] and name.judge != "assistant"):
            found = [by[judge].set_index("example_id")["score"] for by in series]
            given = [one.to_numpy(dtype=np.float64) for one in found]
            most = [favorite_text(favorite(*one) | one[1].columns) for one in zip(given, (first, second), strict=True)]
            rows.append(head | {"who": str(judge)} | _row(found, given, own, texts[0]) | _favorites(most))
    return pd.DataFrame(rows)


def _asked(rows: pd.DataFrame, scale: Any) -> tuple[ScoreRange, pd.DataFrame] | None:
    """The judges' scores in the humans' own range; else in one that is as long, as 1-5 is for a scale of -2 to 2."""
    ranges = ranges_of(rows)
    exact = [one for one in ranges if (one[0].minimum, one[0].maximum) == tuple(scale)]
    as_long = [one for one in ranges if one[0].maximum - one[0].minimum == scale[1] - scale[0]]
    return next(iter([*exact, *as_long]), None)


def _named(ends: Any) -> str:
    return f"{ends[0]:g}-{ends[1]:g}"


def _ratings(results: Results, dimension: str, texts: pd.DataFrame) -> np.ndarray:
    """[n] single ratings of the texts, or their means where no more is known."""
    known = results.ratings
    own = known[(known["dimension"] == dimension) & known["example_id"].isin(texts.index)]
    return (own["score"] if len(own) else texts["human"].dropna()).to_numpy(dtype=np.float64)


def _row(scores: Sequence[pd.Series], given: Sequence[np.ndarray], ends: Any, texts: pd.DataFrame) -> dict[str, Any]:
    """Agreement of both scales in scores by text, and in the distribution of all that was given."""
    both = pd.concat([one.astype(float) for one in scores], axis=1, join="inner").dropna()
    groups = texts.loc[both.index, "group_id"]
    x, y = both.to_numpy(dtype=np.float64).T
    labels, group = np.unique(groups.to_numpy(), return_inverse=True)
    weights = weights_of(len(labels), RESAMPLES, 0)
    resampled = resampled_correlations(x, y, group, weights)[CORRELATIONS.index("spearman")]
    values = np.concatenate([[spearman(x, y) if len(x) > 1 else np.nan], resampled[1:]])
    mapped = [(one - low) / (high - low) for one, (low, high) in zip(given, ends, strict=True)]
    return {
        "n": len(both),
        **with_interval("same", values),
        "apart": float(stats.wasserstein_distance(*mapped)),
    }


def _favorites(found: Iterable[str | None]) -> dict[str, Any]:
    return dict(zip(("favorite_short", "favorite_long"), found, strict=True))


def _most_given(given: np.ndarray) -> str:
    """The number that humans give most often, and its share; they are not held to the scores of a range."""
    counts = Counter(np.round(given, 6).tolist())
    number, count = max(counts.items(), key=lambda one: (one[1], -one[0]))
    return f"{number:g} ({percent(count / len(given))})"


SCALES = View(
    "scales",
    "The same texts on two scales",
    scales_frame,
    (
        Col("who", "who", left=True),
        Col("Spearman of both", "same", three, ends=short),
        Col("favorite of the short", "favorite_short", left=True),
        Col("favorite of the long", "favorite_long", left=True),
        Col("distance", "apart", three),
        Col("texts", "n", str),
    ),
    by=["dimension"],
    title="{dimension}, {short} and {long}",
    note="Spearman: between what the same judge, or the humans' mean, says of a text on each scale; in brackets: 95 % "
    "interval, groups resampled. Favorite: the number given most often, and its share; of the humans among single "
    "ratings where these are known. Distance: of both distributions, each mapped to [0, 1] (Wasserstein); 0: they "
    "are alike.",
)
"""Range effect of humans beside that of judges."""
