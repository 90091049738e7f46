"""Judges' distributions over scores: as forecasts of the humans', the mass on scores, intervals of single texts, and
which texts to send to a person."""

from __future__ import annotations

import pandas as pd

from judgebench.report.formats import percent, points, short, signed_two, span, three, two
from judgebench.report.say import say
from judgebench.report.table import Col, Rows, View, records, rows_by
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.scores import CLEAN

PERSON = 0.8
"""The share of texts that the judge keeps in the sentence on sending the rest to a person."""

_HEAVY = 0.05  # a bin of the reliability diagram with fewer texts is no example of anything


def forecast_frame(results: Results) -> pd.DataFrame:
    """The records of forecasts.json whose probabilities are known, with labels: `who` is a model, whichever decoding
    took its scores, or the pair. Error is the mean distance of the expected score from the humans' mean: of all texts
    (`risk`), and of the shares kept (`risk_80`, `risk_50`)."""
    rows = labelled(record for record in results.forecasts if "coverage" in record)
    if len(rows):
        rows["who"] = rows["judge"]
        for share in (PERSON, 0.5):
            kept = [{point["kept"]: point["risk"] for point in reversed(curve)}.get(share) for curve in rows["curve"]]
            rows[f"risk_{100 * share:.0f}"] = kept
    return rows


def _with(results: Results, *names: str) -> Rows:
    """The rows that know one of these figures."""
    rows = records(forecast_frame(results))
    return [row for row in rows if set(names) <= set(row) and any(row[name] is not None for name in names)]


_WHO = (Col("range", "range", left=True), Col("judge", "who", detail="setting", left=True))

FORECASTS = View(
    "forecasts", "Probabilities as forecasts", lambda results: _with(results, "rps", "mass"),
    (
        *_WHO,
        Col("RPS", "rps", three, short,
            says="ranked probability score of the judge's probabilities against single raters' scores, as a share of "
            "the scale; 0 is best"),
        Col("other raters", "rps_others", three, optional=True,
            says="that of their shares in the judge's place; shares of two or three raters are a rough forecast, which "
            "a vague judge may beat"),
        Col("skill", "rps_skill", signed_two, signed_two,
            says="how much better than the shares over all other texts, whatever the text; 1 is best, below 0 is "
            "worse"),
        Col("ECE", "ece", three, short,
            says="expected calibration error of the likeliest score; chance alone makes it larger than 0"),
        Col("confidence", "confidence", percent, says="the mean probability of that score"),
        Col("confirmed", "confirmed", percent, points, says="how often raters gave it"),
        Col("mass", "mass", percent, optional=True, says="the probability that lies on scores at all"),
    ),
    by=("condition",), once=("range",), brackets="{groups} resampled", reasons=("reason", "mass_reason"),
)  # fmt: skip


ABSTENTION = View(
    "abstention", "Texts for a person", lambda results: _with(results, "coverage", "risk"),
    (
        *_WHO,
        Col("coverage", "coverage", percent, points,
            says="share of the intervals of single texts that hold the humans' mean; {groups} other than the text's "
            "own teach calibration and length"),
        Col("width", "width", two, two, says="their mean length, in points of the humans' scale"),
        Col("error", "risk", two, two,
            says="mean distance of the judge's expected score, mapped to the humans' scale, from the humans' mean"),
        Col("80 % kept", "risk_80", two, says="the same where only the 80 % on which the judge is surest are kept"),
        Col("50 % kept", "risk_50", two, says="the same with the surest half"),
        Col("gain", "gain", two, signed_two,
            says="how far this goes from sending any texts to a person (0) to sending the worst (1)"),
    ),
    by=("condition",), once=("range",),
    note=lambda _, rows: f"{percent(rows[0]['level'])} of the intervals of single texts should hold it.",
    brackets="{groups} resampled", reasons=("coverage_reason", "risk_reason"),
)  # fmt: skip


def leading(results: Results) -> Rows:
    """The main model's cell with the highest Spearman of each dimension and defense, as a row of metrics.json with
    labels; of the first judge where there is no main model, and the first cell where nothing is known. Clean texts."""
    rows = records(labelled(record for record in results.shown if record["attack"] == CLEAN))
    cells = []
    for part in rows_by(rows, ["condition"]):
        of_judge = [row for row in part if row["judge"] == "main"]
        of_judge = of_judge or [row for row in part if row["judge"] == part[0]["judge"]]
        cells.append(max(of_judge, key=lambda row: -2.0 if row["spearman"] is None else row["spearman"]))
    return cells


def forecast_sentences(results: Results) -> list[str]:
    """Are the leading cells' probabilities to be believed, and which texts should a person get?"""
    rows, sentences = records(forecast_frame(results)), []
    for lead in leading(results):
        same = [row for row in rows if lead["decoding"] in row["decodings"]
                and all(row[name] == lead[name] for name in ("condition", "range", "judge"))]  # fmt: skip
        for row in same[:1]:
            # The surest bin of the reliability diagram that holds some texts is an example of overconfidence.
            bins = [part for part in row.get("diagram") or () if part["share"] >= _HEAVY]
            examples = [part for part in bins if part["forecast"] > part["observed"]][-1:]
            facts = {"row": row, "scale": results.scale.get(row["dimension"]), "examples": examples, "PERSON": PERSON}
            facts["kept"] = row.get(f"risk_{100 * PERSON:.0f}")
            sentences += [say("forecasts", **facts), say("person", **facts)]
    return [sentence for sentence in sentences if sentence]


def mass_sentences(results: Results) -> list[str]:
    """The share of a judge's probability that lies on scores; of assistants only where they do not answer."""
    rows = [row for row in records(forecast_frame(results)) if row["mass"] is not None]
    sentences = []
    for part in rows_by(rows, ["condition", "judge"]):
        judge, low = part[0]["judge"], [row for row in part if row["answers"] is False]
        if low or judge == "main":
            title = results.titles.get(judge)
            share = f"{span(100 * round(row['mass'], 2) for row in low or part)} %"
            name = f"{judge} ({title})" if title else judge
            facts = {"name": name, "ranges": [row["range"] for row in low], "share": share}
            sentences.append(say("mass", condition=part[0]["condition"], **facts))
    return sentences
