"""Judges' distributions over scores: as forecasts of the humans', the mass on scores, intervals of single texts, and
which texts to send to a person."""

from __future__ import annotations

from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, percent, points, short, signed_two, span, three, two
from judgebench.report.say import say
from judgebench.report.table import Col, View, records
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.clusters import FEWEST

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


def _with(results: Results, *names: str) -> pd.DataFrame:
    """The rows that know one of these figures."""
    rows = forecast_frame(results)
    return rows[rows[list(names)].notna().any(axis=1)] if set(names) <= set(rows) else rows.head(0)


# --- tables -----------------------------------------------------------------------------------------------------------

_WHO = (Col("range", "range", left=True), Col("judge", "who", detail="setting", left=True))

FORECASTS = View(
    "forecasts",
    "Probabilities as forecasts",
    lambda results: _with(results, "rps", "mass"),
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
    by=("condition",),
    title="{condition}",
    once=("range",),
    brackets="{groups} resampled",
    reasons=("reason", "mass_reason"),
)  # fmt: skip
"""Each judge's distribution as a forecast of the raters' scores."""


ABSTENTION = View(
    "abstention",
    "Texts for a person",
    lambda results: _with(results, "coverage", "risk"),
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
    by=("condition",),
    title="{condition}",
    once=("range",),
    note=lambda _, rows: f"{percent(rows['level'].iloc[0])} of the intervals of single texts should hold it.",
    brackets="{groups} resampled",
    reasons=("coverage_reason", "risk_reason"),
)  # fmt: skip
"""Intervals of single texts, and the errors that are left where a person gets the unsure ones."""


# --- sentences --------------------------------------------------------------------------------------------------------


def leading(results: Results) -> list[dict[str, Any]]:
    """The main model's cell with the highest Spearman of each dimension and defense, as a row of metrics.json with
    labels; of the first judge where there is no main model, and the first cell where nothing is known. Clean texts."""
    rows = labelled(record for record in results.shown if record["attack"] == "none")
    cells = []
    for _, part in rows.groupby("condition", sort=False) if len(rows) else ():
        judge = "main" if "main" in set(part["judge"]) else part["judge"].iloc[0]
        of_judge = records(part[part["judge"] == judge])
        cells.append(max(of_judge, key=lambda row: -2.0 if row["spearman"] is None else row["spearman"]))
    return cells


def forecast_sentences(results: Results) -> list[str]:
    """Two sentences a dimension at most: whether the main model's probabilities are to be believed, and which texts to
    send to a person; of the range in which it agrees best with the humans."""
    sentences = []
    for lead in leading(results):
        same = [row for row in records(forecast_frame(results)) if lead["decoding"] in row["decodings"]
                and all(row[name] == lead[name] for name in ("condition", "range", "judge"))]  # fmt: skip
        for row in same[:1]:
            kept, scale = row.get(f"risk_{100 * PERSON:.0f}"), results.scale.get(row["dimension"])

            def sure(name: str, row: dict[str, Any] = row) -> bool:
                """True where a figure's interval can be relied on."""
                return row["groups"] >= FEWEST and all(is_known(row.get(f"{name}{end}")) for end in ("_low", "_high"))

            # The surest bin of the reliability diagram that holds some texts is an example of overconfidence.
            heavy = [bin_ for bin_ in row.get("diagram") or () if bin_["share"] >= _HEAVY]
            shares = [(percent(bin_["forecast"]), percent(bin_["observed"]))
                      for bin_ in heavy if bin_["forecast"] > bin_["observed"]][-1:]  # fmt: skip
            example = "".join(f"; where it says {says}, the humans agree in {agree}" for says, agree in shares)
            helps = sure("gain") and row["gain_low"] > 0 and is_known(kept) and two(kept) < two(row["risk"])
            facts = {"condition": row["condition"], "row": row, "sure": sure, "example": example, "kept": kept}
            facts |= {"scale": scale, "helps": helps, "PERSON": PERSON, "length": scale[1] - scale[0] if scale else 0}
            if is_known(row.get("overconfidence")):
                sentences.append(say("forecasts", what="calibration", **facts))
            if is_known(kept) and is_known(row.get("risk")) and scale is not None:
                sentences.append(say("forecasts", what="person", **facts))
    return sentences


def mass_sentences(results: Results) -> list[str]:
    """One sentence a dimension and judge: how much of its probability lies on scores, and whether it answers at all;
    nothing where that is not known. Of assistants only where they do not answer."""
    rows = forecast_frame(results)
    sentences = []
    for (condition, judge), part in (
        rows[rows["mass"].notna()].groupby(["condition", "judge"], sort=False) if len(rows) else ()
    ):
        low = part[part["answers"] == False]  # noqa: E712 (a column)
        if len(low) or judge == "main":
            title = results.titles.get(str(judge))
            name = f"{judge} ({title})" if title else judge
            masses = (low if len(low) else part)["mass"].astype(float)
            share = f"{span(100 * masses.round(2))} %"
            sentences.append(say("mass", condition=condition, name=name, ranges=list(low["range"]), share=share))
    return sentences
