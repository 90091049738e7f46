"""The humans beside the judges: the human ceiling as rows of tables and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from judgebench.report.formats import bounded, is_known, short, span, three
from judgebench.report.table import Block, Col, Heading, Paragraph, View
from judgebench.results.results import Results
from judgebench.stats.clusters import FEWEST
from judgebench.stats.scores import CLEAN

RATERS = "humans"
"""What stands in the place of a range where a row is of the humans."""


def ceilings(results: Results) -> dict[str, Mapping[str, Any]]:
    """Dimension -> its record of humans.json, of the reported split, where it has a ceiling."""
    return {name: record for name, record in human_figures(results).items() if record["ceiling"] is not None}


def with_humans(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `sized_correlations`, and behind those of clean texts at dataset level a row of the human ceiling."""
    known = ceilings(results)
    parts = []
    for _, part in rows.groupby(["dimension", "attack", "defense"], sort=False) if known else ():
        first = part.iloc[0].to_dict()
        record = known.get(first["dimension"])
        parts.append(part)
        if record is not None and (first["level"], first["attack"]) == ("dataset", CLEAN):
            parts.append(pd.DataFrame([_row(first, record)]))
    return pd.concat(parts, ignore_index=True).astype({"flags": object}) if parts else rows


def _row(first: Mapping[Any, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    same = {name: first[name] for name in ("dimension", "attack", "defense", "condition", "level", "size", "groups")}
    ends = {f"{name}{end}": record[f"ceiling{end}"] for name in _MEASURES for end in ("", "_low", "_high")}
    who = {"range": RATERS, "judge": RATERS, "series": RATERS, "who": "one, with the others", "setting": ""}
    return same | ends | who | {"flags": ()}


_MEASURES = ("spearman", "spearman_others")

HUMANS_NOTE = (
    "Humans: one rater against the mean of the others, mean over raters. Beside humans (on the page): the judge "
    "against these very means of all raters but one; a mean of all raters is less noisy, and easier to agree with."
)
"""The meaning of the row that `with_humans` adds."""


def human_sentence(results: Results, best: Mapping[str, Any]) -> str:
    """Agreement of one human with the others, and of a condition's best judge with the same others, as a sentence;
    empty where that is not known.

    Args:
        best: a row of `sized_correlations`.
    """
    record = ceilings(results).get(best["dimension"])
    if record is None or not is_known(best.get("spearman_others")):
        return ""
    sentence = (
        f"One human rater agrees with the mean of the others at Spearman {bounded(record, 'ceiling', three)}; against "
        f"the same means this judge reaches {bounded(best, 'spearman_others', three)}"
    )
    low, high = best["humans_difference_low"], best["humans_difference_high"]
    if not is_known(low) or record["groups"] < FEWEST:
        return f"{sentence}."
    if low <= 0 <= high:
        return f"{sentence}, and the difference may be chance."
    return f"{sentence}, which is {'more' if low > 0 else 'less'} by more than chance."


def human_figures(results: Results) -> dict[str, Mapping[str, Any]]:
    """Dimension -> its record of humans.json, of the reported split."""
    return {record["dimension"]: record for record in results.humans if record["split"] == results.split}


def experts(results: Results) -> list[Block]:
    """Agreement of the human raters among themselves: a table where ratings are known, else a sentence a dimension."""
    lines: Sequence[Block] = [
        Paragraph(
            f"{dimension}: Krippendorff's alpha {three(known['alpha'])}, Spearman {three(known['spearman'])} between "
            "two experts."
        )
        for dimension, known in results.agreement.items()  # of runs that know no more
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


def _among_note(results: Results, rows: pd.DataFrame) -> str:
    notes = [
        "Spearman: one rater with the mean of the others, mean over raters.",
        "Alpha: Krippendorff's, for distances between numbers"
        + (" and between ranks." if _any(rows, "alpha_ordinal") else "."),
    ]
    if _any(rows, "ac2"):
        notes.append("AC2: Gwet's, by squared distance; it stays meaningful where nearly all ratings are equal.")
    if _any(rows, "icc_single"):
        each = span([round(one) for one in rows["raters_per_text"].dropna()])
        notes.append(
            f"ICC: share of a rating's variance that is the text's: (2,1) of one rater, (2,k) of the mean of {each}. "
            "Reliability: that of the mean ratings as they stand, which limits any correlation with them."
        )
    return " ".join([*notes, f"Brackets: 95 % intervals over {results.groups}."])


def _any(rows: pd.DataFrame, name: str) -> bool:
    return name in rows and bool(rows[name].notna().any())


AMONG_HUMANS = View(
    "among_humans",
    "Humans among themselves",
    among_humans_frame,
    (
        Col("dimension", "dimension", detail="raters_texts", left=True, width=20),
        Col("Spearman", "ceiling", three, ends=short),
        Col("alpha", "alpha_interval", three, ends=short),
        Col("ordinal alpha", "alpha_ordinal", three, ends=short, optional=True, page=True),
        Col("AC2", "ac2", three, ends=short, optional=True),
        Col("ICC(2,1)", "icc_single", three, ends=short, optional=True),
        Col("ICC(2,k)", "icc_mean", three, ends=short, optional=True, page=True),
        Col("reliability", "reliability", three, ends=short, optional=True, page=True),
    ),
    below="why",
    note=_among_note,
)
"""Agreement of the humans: a ceiling for judges that are measured as they are."""
