"""Means of systems from few human ratings and a judge's scores of all texts.

Shown are the means on the very articles of the run, of which humans rated a part; `like_*` holds the same of articles
like these. Run folders of earlier versions have the latter alone, and show them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judgebench.report.formats import is_known, percent, short, signed_two, three, two
from judgebench.report.say import say
from judgebench.report.table import Col, Row, Rows, View, records, rows_by
from judgebench.report.views.humans import ENDS
from judgebench.results.results import Results
from judgebench.results.series import labelled

_SHOWN = 5
"""Systems whose pairs a page shows, the best by labels and judge together."""


def _these(row: Row) -> dict[str, Any]:
    """A record whose numbers are those of these very articles, where it has them; `like_*`: of articles like these."""
    names = {key.replace("_these", ""): key for key in row if "_these" in key}
    return {**row, **{name: row[key] for name, key in names.items()}, **{f"like_{name}": row[name] for name in names}}


def _widths(results: Results) -> Rows:
    """A row a judge, decoding and range: how much narrower it makes the intervals of systems' means."""
    rows = records(labelled(map(_these, results.few_labels))) if results.few_labels else []
    for row in rows:
        spearman = _these(row["spearman"] or {})
        row |= {f"{name}_rho{end}": spearman.get(f"{name}{end}") for name in ("labels", "predicted") for end in ENDS}
    return rows


def _best(results: Results) -> Rows:
    """Of each dimension the row whose judge makes the intervals narrowest; `several`: of how many."""
    return [
        max(rows, key=lambda row: -1.0 if row["narrower"] is None else row["narrower"]) | {"several": len(rows)}
        for rows in rows_by(_widths(results), ["condition"])
    ]


def _means(results: Results) -> Rows:
    """A row a system, for each dimension by the judge, decoding and range that makes the intervals narrowest."""
    rows = []
    for row in _best(results):
        head = {name: row[name] for name in ("condition", "who", "setting", "range")}
        for system in map(_these, row["systems"]):
            covers = {True: "no", False: "yes"}.get(system["judge_misses"])
            rows.append(head | system | {"covers": covers})
    return rows


def _differences(results: Results) -> Rows:
    """A row a pair of the best systems, by the same judges."""
    rows = []
    for row in _best(results):
        head = {name: row[name] for name in ("condition", "who", "setting", "range")}
        means = {system["system"]: system["predicted"] for system in map(_these, row["systems"])}
        best = sorted((name for name in means if means[name] is not None), key=lambda name: -means[name])[:_SHOWN]
        for pair in map(_these, row["differences"]):
            if {pair["first"], pair["second"]} <= set(best):
                rows.append(head | pair | {"apart": {True: "yes", False: "no"}.get(pair["told_apart"])})
    return rows


def few_labels_sentences(results: Results) -> list[str]:
    """The best judge's worth beyond the humans' labels, and how often its own means mislead."""
    words = {"examples": results.examples_word, "groups": results.groups}
    return [
        say("few_labels", row=row, several=row["several"], these=is_known(row.get("like_labels_within")), **words)
        for row in _best(results)
    ]


LABELS_AND_JUDGES = View(
    "few_labels", "Means from few labels", _widths,
    (
        Col("judge, decoding", "who", detail="setting", left=True, width=23),
        Col("range", "range", left=True),
        Col("labels ±", "labels_within", three,
            says="how far the 95 % interval of a system's mean reaches to each side, mean over systems; on the very "
            "{groups} of the run where those like these have a column; from the ratings alone"),
        Col("both ±", "predicted_within", three,
            says="with the judge's scores of all texts (prediction-powered inference, PPI++)"),
        Col("like these ±", "like_predicted_within", three, optional=True, says="both, for other {groups} like them"),
        Col("narrower", "narrower", percent,
            says="by how much; a judge that correlates .5 with humans within systems saves a seventh at most"),
        Col("judge misses", "{misses:.0f} of {counted:.0f}", left=True,
            says="systems whose mean by both lies outside the interval of the judge's own mean, which knows nothing of "
            "its bias"),
        Col("labels", "labels_rho", three, short, group="Spearman", optional=True,
            says="Spearman of the judge with the humans on the rated texts"),
        Col("both", "predicted_rho", three, short, group="Spearman", optional=True,
            says="the same with the other model's scores of all"),
    ),
    by=["condition"],
    size="{labelled_texts:,} of {texts:,} {examples_word} are rated, of {labelled_articles:,} of {articles:,} "
    "{groups_word}",
    once=["who"], note="Rated {groups} must be a random part of all.", reasons=["reason"],
)  # fmt: skip

MEANS = View(
    "few_labels_means", "Means from few labels", _means,
    (
        Col("system", "system", left=True),
        Col("rated", "{labelled_texts:,} of {texts:,}", left=True),
        Col("labels", "labels", two, two, says="mean of the ratings alone, on the humans' scale"),
        Col("judge", "judge", two, two,
            says="of its scores mapped linearly to that scale; its interval says nothing of what humans would say, for "
            "its bias is in it"),
        Col("both", "predicted", two, two, says="of ratings and scores"),
        Col("narrower", "narrower", percent),
        Col("judge holds both", "covers", left=True),
    ),
    by=["condition"], size="{who}, range {range}", below="reason", brackets="Student's t over {groups}",
    folded="Means of systems from labels, judge and both: {condition}",
)  # fmt: skip

DIFFERENCES = replace(
    MEANS,
    name="few_labels_differences",
    frame=_differences,
    columns=(
        Col("systems", "{first} - {second}", left=True),
        Col("labels", "labels", signed_two, signed_two),
        Col("both", "predicted", signed_two, signed_two),
        Col("narrower", "narrower", percent),
        Col("told apart", "apart", left=True, says="the interval by both leaves out 0, each pair by itself"),
    ),
    note=f"Differences of the {_SHOWN} best systems' means; worth/few_labels.json has more.",
    folded="Differences of the best systems: {condition}",
)
"""Differences of the best systems' means."""
