"""Judges' distributions over scores: as forecasts of the humans', the mass on scores, and intervals
of single texts; slices of judges' errors; and means of systems from few human ratings.

Of the means from few ratings, shown are the means on the very articles of the run, of which humans
rated a part; `like_*` holds the same of articles like these.
"""

from __future__ import annotations

from judgebench.report.table import Block, Col, Paragraph, View, labelled_rows, values
from judgebench.report.views.correlations import of_cells
from judgebench.results.results import Results
from judgebench.stats.clusters import SIGNIFICANCE
from judgebench.types import Record, Row, Rows
from judgebench.words.formats import (
    is_known,
    p_value,
    percent,
    points,
    short,
    signed_two,
    three,
    two,
)


def forecast_rows(results: Results) -> Rows:
    """The records of forecasts.json whose probabilities are known, with labels: `who` is a model,
    whichever decoding took its scores, or the pair."""
    rows = labelled_rows(record for record in results.forecasts if "coverage" in record)
    return [row | {"who": row["judge"]} for row in rows]


def by_decoding(rows: Rows) -> Rows:
    """The rows of distributions, each once for every decoding that took its scores from it."""
    return [row | {"decoding": decoding} for row in rows for decoding in row["decodings"]]


def _known(results: Results) -> Rows:
    """The rows that have figures of all three kinds."""
    names = ("rps", "mass", "coverage")
    rows = [row for row in forecast_rows(results) if set(names) <= set(row)]
    return [row for row in rows if any(map(is_known, values(row, names)))]


_WHO = (Col("range", left=True), Col("judge", "who", detail="setting", left=True))

FORECASTS = View(
    "forecasts",
    "Probabilities as forecasts",
    _known,
    (
        *_WHO,
        Col(
            "RPS",
            "rps",
            three,
            short,
            says="ranked probability score of the judge's probabilities against single raters' "
            "scores, as a share of the scale; 0 is best",
        ),
        Col(
            "other raters",
            "rps_others",
            three,
            optional=True,
            says="that of their shares in the judge's place; shares of two or three raters are a "
            "rough forecast, which a vague judge may beat",
        ),
        Col(
            "skill",
            "rps_skill",
            signed_two,
            signed_two,
            says="how much better than the shares over all other texts, whatever the text; 1 is "
            "best, below 0 is worse",
        ),
        Col(
            "ECE",
            "ece",
            three,
            short,
            says="expected calibration error of the likeliest score; chance alone makes it larger "
            "than 0",
        ),
        Col("confidence", form=percent, says="the mean probability of that score"),
        Col("confirmed", form=percent, ends=points, says="how often raters gave it"),
        Col(
            "mass",
            form=percent,
            optional=True,
            says="the probability that lies on scores at all",
        ),
        Col(
            "coverage",
            form=percent,
            ends=points,
            optional=True,
            says="share of the intervals of single texts that hold the humans' mean, which should "
            "be 90 %; {groups} other than the text's own teach calibration and length",
        ),
        Col(
            "width",
            form=two,
            ends=two,
            optional=True,
            says="their mean length, in points of the humans' scale",
        ),
    ),
    by=("condition",),
    once=("range",),
    brackets="{groups} resampled",
    reasons=("reason", "mass_reason", "coverage_reason"),
)


# --- where the judge errs ---------------------------------------------------------------------------


def error_rows(results: Results) -> Rows:
    """The records of errors.json of the advised settings, with labels."""
    rows = of_cells(results, labelled_rows(results.errors))
    return [row | {"series": f"{row['who']} in range {row['range']}"} for row in rows]


SLICES = View(
    "error_slices",
    "Why the judge errs",
    lambda results: [row | part for row in error_rows(results) for part in row["slices"]],
    (
        Col("texts of", "slice", left=True),
        Col("texts", "texts", lambda value: f"{value:g}"),
        Col("humans' mean", "human", two),
        Col(
            "mean error",
            "error",
            signed_two,
            signed_two,
            says="of the judge's score on the humans' scale less the humans' mean, in points",
        ),
        Col(
            "beside others",
            "apart",
            signed_two,
            signed_two,
            says="less the mean error of all other texts; above 0 the judge favors the slice; a "
            "judge that tells texts apart poorly favors what humans find bad",
        ),
        Col(
            "p",
            form=p_value,
            says="unknown for a slice of one of the {groups}, or where errors do not vary",
        ),
        Col("Holm", "p_holm", p_value, says="p of that difference, corrected over the slices"),
    ),
    by=("condition",),
    title="{condition}, {series}",
    sections=("kind",),
    brackets="errors clustered by {groups}",
)


def error_notes(results: Results) -> list[Block]:
    """Why slices, or their intervals, are missing; a sentence each, once."""
    lines = []
    for row in error_rows(results):
        lines.append(row["reason"])
        # runs of earlier versions left out factors of a regression, too
        kinds = {kind: why for kind, why in row["left_out"].items() if kind.startswith("slices")}
        lines += [f"No {kind}: {why}." for kind, why in kinds.items()]
    return [Paragraph(line, note=True) for line in dict.fromkeys(lines) if line]


def is_sure(row: Row) -> bool:
    return is_known(row["p_holm"]) and row["p_holm"] < SIGNIFICANCE


# --- means from few labels ----------------------------------------------------------------------


def _these(row: Row) -> Record:
    """A record whose numbers are those of these very articles, where it has them; `like_*`: of
    articles like these."""
    names = {key: key.replace("_these", "") for key in row if "_these" in key}
    like = {f"like_{name}": row[name] for name in names.values()}
    return {**row, **like, **{name: row[key] for key, name in names.items()}}


def _widths(results: Results) -> Rows:
    """A row a judge, decoding and range: how much narrower it makes the intervals of systems'
    means."""
    return labelled_rows(map(_these, results.few_labels))


def few_labels_rows(results: Results) -> Rows:
    """The rows of the advised settings."""
    return of_cells(results, _widths(results))


def _means(results: Results) -> Rows:
    """A row a system, for each dimension by the advised setting."""
    names = ("condition", "who", "setting", "range")
    return [
        {name: row[name] for name in names} | _these(system)
        for row in few_labels_rows(results)
        for system in row["systems"]
    ]


LABELS_AND_JUDGES = View(
    "few_labels",
    "Means from few labels",
    _widths,
    (
        Col("judge, decoding", "who", detail="setting", left=True, width=23),
        Col("range", left=True),
        Col(
            "labels ±",
            "labels_within",
            three,
            says="how far the 95 % interval of a system's mean reaches to each side, mean over "
            "systems; on the very {groups} of the run where those like these have a column; "
            "from the ratings alone",
        ),
        Col(
            "both ±",
            "predicted_within",
            three,
            says="with the judge's scores of all texts (prediction-powered inference, PPI++)",
        ),
        Col(
            "like these ±",
            "like_predicted_within",
            three,
            optional=True,
            says="both, for other {groups} like them",
        ),
        Col(
            "narrower",
            form=percent,
            says="by how much; a judge that correlates .5 with humans within systems saves a "
            "seventh at most",
        ),
        Col(
            "judge misses",
            "{misses:.0f} of {counted:.0f}",
            left=True,
            says="systems whose mean by both lies outside the interval of the judge's own mean, "
            "which knows nothing of its bias",
        ),
    ),
    by=["condition"],
    size="{labelled_texts:,} of {texts:,} {examples_word} are rated, of {labelled_articles:,} of "
    "{articles:,} {groups_word}",
    once=["who"],
    note="Rated {groups} must be a random part of all.",
    reasons=["reason"],
)

MEANS = View(
    "few_labels_means",
    "Means from few labels",
    _means,
    (
        Col("system", left=True),
        Col("rated", "{labelled_texts:,} of {texts:,}", left=True),
        Col("labels", form=two, ends=two, says="mean of the ratings alone, on the humans' scale"),
        Col(
            "judge",
            form=two,
            ends=two,
            says="of its scores mapped linearly to that scale; its interval says nothing of what "
            "humans would say, for its bias is in it",
        ),
        Col("both", "predicted", two, two, says="of ratings and scores"),
        Col("narrower", form=percent),
        Col(
            "judge holds both",
            lambda row: {True: "no", False: "yes"}.get(row["judge_misses"]),
            left=True,
        ),
    ),
    by=["condition"],
    size="{who}, range {range}",
    below="reason",
    brackets="Student's t over {groups}",
)
