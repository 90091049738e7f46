"""Means of systems from few human ratings and a judge's scores of all texts: tables and sentences.

Shown are the means on the very articles of the run, of which humans rated a part; `like_*` holds the same of articles
like these. Run folders of earlier versions have the latter alone, and show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, percent, short, signed_two, three, two
from judgebench.report.table import Col, View, records
from judgebench.results.results import Results
from judgebench.results.series import labelled

_TARGET = ", of the very texts of this run"
_SHOWN = 5
"""Systems whose pairs a page shows, the best by labels and judge together."""


def judges_frame(results: Results) -> pd.DataFrame:
    """A row a judge, decoding and range: how much narrower it makes the intervals of systems' means."""
    rows = _rows(results)
    if not len(rows):
        return rows
    for name in ("labels", "predicted"):
        for end in ("", "_low", "_high"):
            rows[f"{name}_rho{end}"] = [_these(one or {}).get(f"{name}{end}") for one in rows["spearman"]]
    rows["missed"] = [
        f"{row['misses']:.0f} of {row['counted']:.0f}" if is_known(row["misses"]) else None
        for row in rows.to_dict("records")
    ]
    return rows


def means_frame(results: Results) -> pd.DataFrame:
    """A row a system, for each dimension by the judge, decoding and range that makes the intervals narrowest."""
    made = []
    for row in _chosen(results):
        head = {name: row[name] for name in ("condition", "size", "who", "setting", "range")}
        for one in map(_these, row["systems"]):
            labelled_texts = f"{one['labelled_texts']:,} of {one['texts']:,}"
            missed = {True: "no", False: "yes"}.get(one["judge_misses"])
            made.append(head | one | {"labelled": labelled_texts, "held": missed})
    return pd.DataFrame(made)


def differences_frame(results: Results) -> pd.DataFrame:
    """A row a pair of the best systems, by the same judges."""
    made = []
    for row in _chosen(results):
        head = {name: row[name] for name in ("condition", "size", "who", "setting", "range")}
        known = [one for one in map(_these, row["systems"]) if one["predicted"] is not None]
        best = {one["system"] for one in sorted(known, key=lambda one: -one["predicted"])[:_SHOWN]}
        for one in map(_these, row["differences"]):
            if {one["first"], one["second"]} <= best:
                apart = {True: "yes", False: "no"}.get(one["told_apart"])
                made.append(head | one | {"pair": f"{one['first']} - {one['second']}", "apart": apart})
    return pd.DataFrame(made)


def _rows(results: Results) -> pd.DataFrame:
    if not results.few_labels:
        return pd.DataFrame()
    rows = labelled(map(_these, results.few_labels))
    rows["size"] = [
        f"{row['labelled_texts']:,} of {row['texts']:,} {results.examples_word} are rated, of "
        f"{row['labelled_articles']:,} of {row['articles']:,} {results.groups}"
        for row in rows.to_dict("records")
    ]
    return rows


def _these(row: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose numbers are those of these very articles, where it has them; `like_*`: of articles like these."""
    names = {key.replace("_these", ""): key for key in row if "_these" in key}
    return {**row, **{name: row[key] for name, key in names.items()}, **{f"like_{name}": row[name] for name in names}}


def _chosen(results: Results) -> list[dict[str, Any]]:
    """Of each dimension the record whose judge makes the intervals narrowest; of equal ones the first; `several`: how
    many there are to choose from."""
    held: dict[str, list[dict[str, Any]]] = {}
    for row in records(_rows(results)):
        held.setdefault(row["condition"], []).append(row)
    return [max(rows, key=_saved) | {"several": len(rows)} for rows in held.values()]


def _saved(row: Mapping[str, Any]) -> float:
    return float(row["narrower"]) if is_known(row["narrower"]) else -1.0


def few_labels_sentences(results: Results) -> list[str]:
    """One sentence a dimension that humans rated in part: what the judge adds to their labels, and how often its own
    means mislead."""
    return [_sentence(results, row) for row in _chosen(results)]


def _sentence(results: Results, row: Mapping[str, Any]) -> str:
    start = f"{row['condition']}: humans rated {row['labelled_texts']:,} of {row['texts']:,} {results.examples_word}"
    judge = f"{row['who']}, range {row['range']}"
    if not is_known(row["narrower"]):
        return f"{start}. {row['reason'] or 'No system has an interval.'}"
    these = f" on these {row['articles']:,} {results.groups}" if is_known(row.get("like_labels_within")) else ""
    said = (
        f"{start}; these labels alone give a system's mean{these} to ± {two(row['labels_within'])} (95 %, mean over "
        "systems), "
    )
    if row["narrower"] < 0.005:
        said += f"and no judge makes that narrower ({judge})"
    else:
        said += f"with the judge's scores of all ({judge}) to ± {two(row['predicted_within'])}"
        said += f", intervals {percent(row['narrower'])} narrower"
        said += f" (the most of {row['several']})" if row["several"] > 1 else ""
    if these:
        said += f"; on {results.groups} like these to ± {two(row['like_predicted_within'])}"
    if not is_known(row["misses"]):
        return f"{said}."
    if row["counted"] == 1:
        verb = "misses" if row["misses"] else "holds"
        return f"{said}; the judge's own interval, without labels, {verb} that mean for the one system that has both."
    counted = f"{row['counted']:.0f} systems"
    if not row["misses"]:
        return f"{said}; the judge's own interval, without labels, holds that mean for all of {counted}."
    return f"{said}; the judge's own interval, without labels, misses that mean for {row['misses']:.0f} of {counted}."


def _note(results: Results, rows: pd.DataFrame) -> str:
    reasons = [str(one) for one in rows["reason"].dropna().unique()]
    spearman = (
        " Spearman: of the judge with the humans, on the rated texts and with the other model's scores of all (both)."
        if rows["labels_rho"].notna().any()
        else ""
    )
    target, like = "", ""
    if "like_predicted_within" in rows:
        target = f"on the very {results.groups} of this run "
        like = f" Like these: both, for other {results.groups} like them."
    return " ".join(
        [
            f"Labels, both: how far the 95 % interval of a system's mean {target}reaches to each side, "
            "mean over systems; from the ratings alone, and with the judge's scores of all texts (prediction-powered "
            f"inference, PPI++).{like} Narrower: by how much; a judge that correlates .5 with humans within systems "
            "saves a seventh at most. Judge misses: systems whose mean by both lies outside the interval of its "
            f"own mean, which knows nothing of its bias.{spearman} Rated {results.groups} must be a random part "
            "of all.",
            *reasons,
        ]
    )


LABELS_AND_JUDGES = View(
    "few_labels",
    "Means from few labels",
    judges_frame,
    (
        Col("judge, decoding", "who", detail="setting", left=True, width=23),
        Col("range", "range", left=True),
        Col("labels ±", "labels_within", three),
        Col("both ±", "predicted_within", three),
        Col("like these ±", "like_predicted_within", three, optional=True),
        Col("narrower", "narrower", percent),
        Col("judge misses", "missed", left=True),
        Col("labels", "labels_rho", three, ends=short, group="Spearman", optional=True),
        Col("both", "predicted_rho", three, ends=short, group="Spearman", optional=True),
    ),
    by=["condition"],
    title="{condition}",
    size="{size}",
    once=["who"],
    note=_note,
)
"""Width of the intervals of systems' means, by judge."""

MEANS = View(
    "few_labels_means",
    "Means from few labels",
    means_frame,
    (
        Col("system", "system", left=True),
        Col("rated", "labelled", left=True),
        Col("labels", "labels", two, ends=two),
        Col("judge", "judge", two, ends=two),
        Col("both", "predicted", two, ends=two),
        Col("narrower", "narrower", percent),
        Col("judge holds both", "held", left=True),
    ),
    by=["condition"],
    title="{condition}",
    size="{who}, range {range}",
    below="reason",
    note=lambda _, rows: (
        f"Means on the humans' scale{_TARGET if 'like_labels' in rows else ''}: "
        "of the ratings alone, of the judge's scores mapped linearly to it, and of both; "
        "in brackets: 95 % intervals. The judge's own says nothing of what humans would say: its bias is in it."
    ),
    folded="Means of systems from labels, judge and both: {condition}",
)
"""Each system's mean three ways."""

DIFFERENCES = View(
    "few_labels_differences",
    "Means from few labels",
    differences_frame,
    (
        Col("systems", "pair", left=True),
        Col("labels", "labels", signed_two, ends=signed_two),
        Col("both", "predicted", signed_two, ends=signed_two),
        Col("narrower", "narrower", percent),
        Col("told apart", "apart", left=True),
    ),
    by=["condition"],
    title="{condition}",
    size="{who}, range {range}",
    below="reason",
    note=f"Differences of the {_SHOWN} best systems' means; worth/few_labels.json has more. Told apart: the interval "
    "by both leaves out 0, each pair by itself.",
    folded="Differences of the best systems: {condition}",
)
"""Differences of the best systems' means."""
