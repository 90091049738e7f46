"""The humans as a ceiling for judges: their agreement among themselves."""

from __future__ import annotations

from typing import Any

from judgebench.report.table import Block, Col, Heading, Paragraph, View
from judgebench.results.results import Results
from judgebench.stats.clusters import Estimate
from judgebench.types import Record, Row, Rows
from judgebench.words.formats import short, three

RATERS = "humans"
"""The word in the place of a range where a row is of the humans."""

ENDS = ("", "_low", "_high")
"""Endings of a figure and of the ends of its interval."""

HUMANS_NOTE = (
    "Humans: one rater against the mean of the others, mean over raters. Beside humans (on the "
    "page): the judge against these very means of all raters but one; a mean of all raters is less "
    "noisy, and easier to agree with."
)
"""The meaning of a row of the humans below the judges'."""


def human_figures(results: Results) -> dict[str, Row]:
    """Dimension -> its record of humans.json, of the reported split."""
    return {
        record["dimension"]: record for record in results.humans if record["split"] == results.split
    }


def ceilings(results: Results) -> dict[str, Row]:
    """Dimension -> its record of humans.json, where it has a ceiling."""
    figures = human_figures(results).items()
    return {name: record for name, record in figures if record["ceiling"] is not None}


def ceiling_row(record: Row, **same: Any) -> Record:
    """A row of one human: its agreement with the others, under the judges' own columns."""
    ceiling = Estimate.of(record, "ceiling")
    return same | {"range": RATERS, "spearman": ceiling, "spearman_others": ceiling}


def experts(results: Results) -> list[Block]:
    """Agreement among the humans: a table where ratings are known, else a sentence a dimension."""
    blocks = AMONG_HUMANS(results)
    if results.agreement and not blocks:
        blocks = [Heading(AMONG_HUMANS.heading)]
        for dimension, figures in results.agreement.items():
            alpha, spearman = (three(figures[name]) for name in ("alpha", "spearman"))
            line = f"Krippendorff's alpha {alpha}, Spearman {spearman} between two experts."
            blocks.append(Paragraph(f"{dimension}: {line}"))
    return blocks


def _among_humans(results: Results) -> Rows:
    """A row a dimension of what its raters agree on."""
    return [
        {
            **record,
            "size": f"{record['raters']} raters, {record['texts']} {results.examples_word}",
            "why": " ".join(filter(None, [record["reason"], record["agreement_reason"]])),
        }
        for record in human_figures(results).values()
    ]


AMONG_HUMANS = View(
    "among_humans",
    "Humans among themselves",
    _among_humans,
    (
        Col("dimension", detail="size", left=True, width=20),
        Col(
            "Spearman",
            "ceiling",
            three,
            short,
            says="one rater with the mean of the others, mean over raters",
        ),
        Col(
            "alpha",
            "alpha_interval",
            three,
            short,
            says="Krippendorff's, for distances between numbers",
        ),
        Col(
            "ordinal alpha",
            "alpha_ordinal",
            three,
            short,
            optional=True,
            page=True,
            says="between ranks",
        ),
        Col(
            "ICC(2,1)",
            "icc_single",
            three,
            short,
            optional=True,
            says="share of a rating's variance that is the text's, of one rater",
        ),
        Col(
            "ICC(2,k)",
            "icc_mean",
            three,
            short,
            optional=True,
            page=True,
            says="the same of the mean of k raters",
        ),
        Col(
            "reliability",
            form=three,
            ends=short,
            optional=True,
            page=True,
            says="that of the mean ratings as they stand, which limits any correlation with them",
        ),
    ),
    below="why",
    note="raters_note.txt",
    brackets="{groups} resampled",
)
