"""The humans beside the judges: the human ceiling as rows of tables and as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, short, three
from judgebench.report.say import say
from judgebench.report.table import Block, Col, Heading, Paragraph, View
from judgebench.results.results import Results
from judgebench.stats.scores import CLEAN

RATERS = "humans"
"""What stands in the place of a range where a row is of the humans."""


def ceilings(results: Results) -> dict[str, Mapping[str, Any]]:
    """Dimension -> its record of humans.json, of the reported split, where it has a ceiling."""
    return {name: record for name, record in human_figures(results).items() if record["ceiling"] is not None}


def ceiling_row(record: Mapping[str, Any], **same: Any) -> dict[str, Any]:
    """A row of one human beside the judges': its agreement with the others, under the judges' own columns."""
    ends = {f"{name}{end}": record[f"ceiling{end}"]
            for name in ("spearman", "spearman_others") for end in ("", "_low", "_high")}  # fmt: skip
    return same | ends | {"range": RATERS, "setting": "", "flags": ()}


def with_humans(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `sized_correlations`, and behind those of clean texts at dataset level a row of the human ceiling."""
    records, parts = ceilings(results), []
    for _, part in rows.groupby(["dimension", "attack", "defense"], sort=False) if records else ():
        first = part.iloc[0].to_dict()
        parts.append(part)
        if first["dimension"] in records and (first["level"], first["attack"]) == ("dataset", CLEAN):
            names = ("dimension", "attack", "defense", "condition", "level", "size", "groups")
            same = {name: first[name] for name in names} | {"judge": RATERS, "series": RATERS}
            same["who"] = "one, with the others"
            parts.append(pd.DataFrame([ceiling_row(records[first["dimension"]], **same)]))
    return pd.concat(parts, ignore_index=True).astype({"flags": object}) if parts else rows


HUMANS_NOTE = (
    "Humans: one rater against the mean of the others, mean over raters. Beside humans (on the page): the judge "
    "against these very means of all raters but one; a mean of all raters is less noisy, and easier to agree with."
)
"""The meaning of the row that `with_humans` adds."""


def human_sentence(results: Results, best: Mapping[str, Any]) -> str:
    """Agreement of one human with the others, and of a condition's best judge, a row of `sized_correlations`, with the
    same others; empty where that is not known."""
    record = ceilings(results).get(best["dimension"])
    known = record is not None and is_known(best.get("spearman_others"))
    return say("human", record=record, best=best) if known else ""


def human_figures(results: Results) -> dict[str, Mapping[str, Any]]:
    """Dimension -> its record of humans.json, of the reported split."""
    return {record["dimension"]: record for record in results.humans if record["split"] == results.split}


def experts(results: Results) -> list[Block]:
    """Agreement of the human raters among themselves: a table where ratings are known, else a sentence a dimension, of
    runs that know no more."""
    lines: list[Block] = [
        Paragraph(
            f"{dimension}: Krippendorff's alpha {three(figures['alpha'])}, Spearman {three(figures['spearman'])} "
            "between two experts."
        )
        for dimension, figures in results.agreement.items()
    ]
    return AMONG_HUMANS(results) or ([Heading(AMONG_HUMANS.heading), *lines] if lines else [])


def among_humans_frame(results: Results) -> pd.DataFrame:
    """A row a dimension of what its raters agree on; runs of earlier versions know the ceiling and alpha alone."""
    rows = []
    for record in human_figures(results).values():
        row = {"alpha_interval": record["alpha"], **record}
        row["raters_texts"] = f"{record['raters']} raters, {record['texts']} {results.examples_word}"
        row["why"] = " ".join(filter(None, [record["reason"], record.get("agreement_reason")]))
        rows.append(row)
    return pd.DataFrame(rows)


def _raters(results: Results, rows: pd.DataFrame) -> str:
    if "raters_per_text" not in rows or not rows["raters_per_text"].notna().any():
        return ""
    ends = [raters.min(), raters.max()] if len(raters := rows["raters_per_text"].dropna()) else []
    return f"k: {' to '.join(dict.fromkeys(f'{end:.1f}'.removesuffix('.0') for end in ends))} raters a text."


AMONG_HUMANS = View(
    "among_humans",
    "Humans among themselves",
    among_humans_frame,
    (
        Col("dimension", "dimension", detail="raters_texts", left=True, width=20),
        Col("Spearman", "ceiling", three, short, says="one rater with the mean of the others, mean over raters"),
        Col("alpha", "alpha_interval", three, short, says="Krippendorff's, for distances between numbers"),
        Col("ordinal alpha", "alpha_ordinal", three, short, optional=True, page=True, says="between ranks"),
        Col("AC2", "ac2", three, short, optional=True,
            says="Gwet's, by squared distance; it stays meaningful where nearly all ratings are equal"),
        Col("ICC(2,1)", "icc_single", three, short, optional=True,
            says="share of a rating's variance that is the text's, of one rater"),
        Col("ICC(2,k)", "icc_mean", three, short, optional=True, page=True, says="the same of the mean of k raters"),
        Col("reliability", "reliability", three, short, optional=True, page=True,
            says="that of the mean ratings as they stand, which limits any correlation with them"),
    ),
    below="why",
    note=_raters,
    brackets="{groups} resampled",
)  # fmt: skip
"""Agreement of the humans: a ceiling for judges that are measured as they are."""
