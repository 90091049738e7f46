"""The best of n: what people think of the text of each source that the judge likes most."""

from __future__ import annotations

from typing import Any

from judgebench.report.table import Col, View, labelled_rows
from judgebench.report.views.correlations import of_cells
from judgebench.report.views.dimensions import headed
from judgebench.results.results import Results
from judgebench.types import Rows
from judgebench.words.formats import Format, is_known, percent, points, signed_two, two


def pick_rows(results: Results) -> Rows:
    """The records of picks.json of the advised settings, of sources with several rated texts."""
    rows = of_cells(results, labelled_rows(results.picks))
    return headed(results, [row for row in rows if is_known(row["chosen"])])


def _best_of_rows(results: Results) -> Rows:
    """A row a number of texts to pick from, of the advised settings."""
    table: Rows = []
    for row in pick_rows(results):
        place = {name: row[name] for name in ("dimension", "head", "range")}
        table += [place | draws for draws in row["best_of"]]
    return table


def _score(title: str, says: str, form: Format = two, **more: Any) -> Col:
    """A column of people's mean score of a pick, with its interval."""
    return Col(title, form=form, ends=form, says=says, **more)


_RANDOM = _score("random", "people's mean score of a random text")
_CHOSEN = _score(
    "its choice",
    "people's mean score of the judge's first choice; texts that tie share it",
    key="chosen",
)
_BEST = _score(
    "best",
    "the same of the text that people like most; their noisy ratings choose and score it, so "
    "nobody reaches it",
)

PICKS = View(
    "picks",
    "The judge's first choice",
    pick_rows,
    (
        Col("range", left=True),
        _RANDOM,
        _score(
            "best system",
            "the same of the text by the system that people like most in other {groups}: what a "
            "judge picks that knows nothing but who wrote a text",
            key="by_system",
            optional=True,
        ),
        _CHOSEN,
        _BEST,
        Col("of the way", "recovered", percent, points, says="from random to best"),
        _score(
            "less a rater",
            "the judge's pick less one rater's, both by the mean of the other raters",
            signed_two,
            key="chosen_less_rater",
            optional=True,
        ),
    ),
    sections=["head"],
    section="{head}",
    size="{texts} {examples_word} to {sources} sources in {groups} {groups_word}",
    brackets="{groups} are the clusters",
    reasons=["reason", "rater_reason"],
)
"""What the first choice among the texts of a source is worth, a row a range."""

BEST_OF = View(
    "best_of",
    "The best of fewer",
    _best_of_rows,
    (
        Col("range", left=True),
        Col("of", "n", says="texts of a source to pick from, drawn at random"),
        Col("sources", says="sources that have as many rated texts"),
        _RANDOM,
        _CHOSEN,
        _BEST,
    ),
    sections=["head"],
    section="{head}",
    once=["range"],
    brackets="{groups} are the clusters",
)
"""The same of so many texts, a row a number of them."""
