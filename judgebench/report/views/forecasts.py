"""Judges' distributions over scores: as forecasts of the humans', the mass on scores, intervals of single texts, and
which texts to send to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, percent, points, short, signed_two, spaced, span, three, two
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import few_groups, missing_reasons
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.clusters import FEWEST

PERSON = 0.8
"""The share of texts that the judge keeps in the sentence on sending the rest to a person."""

_USELESS = 0.5  # of the scale: intervals of single texts that span more say next to nothing
_HEAVY = 0.05  # a bin of fewer texts is no example of anything


def forecast_frame(results: Results) -> pd.DataFrame:
    """The records of forecasts.json whose probabilities are known, with labels: `who` is a model, whichever decoding
    took its scores, or the pair. Error is the mean distance of the expected score from the humans' mean: of all texts
    (`risk`), and of the shares kept (`risk_80`, `risk_50`)."""
    rows = labelled(record for record in results.forecasts if "coverage" in record)
    if not len(rows):
        return rows
    rows["who"] = rows["judge"]
    for share in (PERSON, 0.5):
        rows[f"risk_{100 * share:.0f}"] = [
            next((one["risk"] for one in curve if one["kept"] == share), None) for curve in rows["curve"]
        ]
    return rows


def _scored(results: Results) -> pd.DataFrame:
    rows = forecast_frame(results)
    return rows[rows["rps"].notna() | rows["mass"].notna()] if "rps" in rows else rows.head(0)


def _kept(results: Results) -> pd.DataFrame:
    rows = forecast_frame(results)
    return rows[rows["coverage"].notna() | rows["risk"].notna()] if len(rows) else rows


def _reasons(rows: pd.DataFrame, *names: str) -> list[str]:
    return missing_reasons(pd.DataFrame({"missing": [one for name in names if name in rows for one in rows[name]]}))


def _ends(results: Results, rows: pd.DataFrame) -> list[str]:
    few = [few_groups(results.groups)] if rows["groups"].min() < FEWEST else []
    return [f"In brackets: 95 % interval, {results.groups} resampled.", *few]


def _forecast_note(results: Results, rows: pd.DataFrame) -> str:
    notes = [
        "RPS: ranked probability score of the judge's probabilities against single raters' scores, as a share of the "
        "scale; 0 is best. Other raters: that of their shares in the judge's place; shares of two or three raters are "
        "a rough forecast, which a vague judge may beat. Skill: how much better than the shares over all other texts, "
        "whatever the text; 1 is best, below 0 is worse. ECE: expected calibration error of the likeliest score; "
        "chance alone makes it larger than 0. Confidence: the mean probability of that score; confirmed: how often "
        "raters gave it. Mass: the probability that lies on scores at all.",
        *_ends(results, rows),
        *_reasons(rows, "reason", "mass_reason"),
    ]
    return " ".join(notes)


def _abstention_note(results: Results, rows: pd.DataFrame) -> str:
    level = percent(rows["level"].iloc[0])
    notes = [
        f"Coverage: share of the {level} intervals of single texts that hold the humans' mean; width: their mean "
        f"length, in points of the humans' scale. {results.groups.capitalize()} other than the text's own teach "
        "calibration and length. Error: mean distance of the judge's expected score, mapped to the humans' scale, from "
        "the humans' mean: of all texts, and where only the 80 or 50 % on which the judge is surest are kept. Gain: "
        "how far this goes from sending any texts to a person (0) to sending the worst (1).",
        *_ends(results, rows),
        *_reasons(rows, "coverage_reason", "risk_reason"),
    ]
    return " ".join(notes)


_WHO = (
    Col("range", "range", left=True),
    Col("judge", "who", detail="setting", left=True),
)

FORECASTS = View(
    "forecasts",
    "Probabilities as forecasts",
    _scored,
    (
        *_WHO,
        Col("RPS", "rps", three, ends=short),
        Col("other raters", "rps_others", three, optional=True),
        Col("skill", "rps_skill", signed_two, ends=signed_two),
        Col("ECE", "ece", three, ends=short),
        Col("confidence", "confidence", percent),
        Col("confirmed", "confirmed", percent, ends=points),
        Col("mass", "mass", percent, optional=True),
    ),
    by=("condition",),
    title="{condition}",
    once=("range",),
    note=_forecast_note,
)
"""Each judge's distribution as a forecast of the raters' scores."""

ABSTENTION = View(
    "abstention",
    "Texts for a person",
    _kept,
    (
        *_WHO,
        Col("coverage", "coverage", percent, ends=points),
        Col("width", "width", two, ends=two),
        Col("error", "risk", two, ends=two),
        Col("80 % kept", "risk_80", two),
        Col("50 % kept", "risk_50", two),
        Col("gain", "gain", two, ends=signed_two),
    ),
    by=("condition",),
    title="{condition}",
    once=("range",),
    note=_abstention_note,
)
"""Intervals of single texts, and the errors that are left where a person gets the unsure ones."""


def leading(results: Results) -> list[dict[str, Any]]:
    """The main model's cell with the highest Spearman of each dimension and defense, as a row of metrics.json with
    labels; of the first judge where there is no main model, and the first cell where nothing is known. Clean texts."""
    rows = labelled(record for record in results.shown if record["attack"] == "none")
    found = []
    for _, part in rows.groupby("condition", sort=False) if len(rows) else ():
        judge = "main" if "main" in set(part["judge"]) else part["judge"].iloc[0]
        own = records(part[part["judge"] == judge])
        found.append(max(own, key=lambda row: -2.0 if row["spearman"] is None else row["spearman"]))
    return found


def forecast_sentences(results: Results) -> list[str]:
    """Two sentences a dimension at most: whether the main model's probabilities are to be believed, and which texts to
    send to a person; of the range in which it agrees best with the humans."""
    rows = records(forecast_frame(results))
    found = []
    for lead in leading(results):
        own = [row for row in rows if _same(row, lead)]
        for row in own[:1]:
            where = f"{row['condition']}, {row['who']} in range {row['range']}"
            scale = results.scale.get(row["dimension"])
            told = (_calibration(row), _person(row, scale))
            found += [f"{where}: {sentence}" for sentence in told if sentence]
    return found


def _same(row: Mapping[str, Any], lead: Mapping[str, Any]) -> bool:
    names = ("condition", "range", "judge")
    return all(row[name] == lead[name] for name in names) and lead["decoding"] in row["decodings"]


def _calibration(row: Mapping[str, Any]) -> str:
    if not is_known(row.get("overconfidence")):
        return ""
    said = f"it gives its likeliest score {percent(row['confidence'])} on average, and the humans give that score in "
    said += f"{percent(row['confirmed'])} of ratings"
    low, high = _told(row, "overconfidence")
    if low is None or high is None:
        return f"{said}; with so few groups it is unknown whether its probabilities are right."
    apart = f"{said} (difference {points(row['overconfidence'])} points {spaced(low, high, points)})"
    if low > 0:
        example = _example(row)
        return f"its probabilities are overconfident: {apart}{example}.{_skill(row)}"
    if high < 0:
        return f"its probabilities are too modest: {apart}.{_skill(row)}"
    return f"its confidence is not clearly wrong on average: {apart}.{_skill(row)}"


def _told(row: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    """The interval; None for both ends where it cannot be relied on."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    few = row["groups"] < FEWEST or not is_known(low) or not is_known(high)
    return (None, None) if few else (low, high)


def _example(row: Mapping[str, Any]) -> str:
    """A bin of the reliability diagram: the surest that holds some texts."""
    heavy = [one for one in row["diagram"] if one["share"] >= _HEAVY and one["forecast"] > one["observed"]]
    if not heavy:
        return ""
    return f"; where it says {percent(heavy[-1]['forecast'])}, the humans agree in {percent(heavy[-1]['observed'])}"


def _skill(row: Mapping[str, Any]) -> str:
    low, high = _told(row, "rps_skill")
    if low is None or high is None:
        return ""
    base = "the shares that the humans give over all texts"
    number = f"(skill {signed_two(row['rps_skill'])} {spaced(low, high, signed_two)})"
    if low > 0:
        return f" They forecast a text's ratings better than {base} {number}."
    return f" They forecast a text's ratings {'worse' if high < 0 else 'no better'} than {base} {number}."


def _person(row: Mapping[str, Any], scale: tuple[float, float] | None) -> str:
    kept = row.get(f"risk_{100 * PERSON:.0f}")
    if not is_known(kept) or not is_known(row.get("risk")) or scale is None:
        return ""
    unit = f"points on the humans' scale {scale[0]:g}-{scale[1]:g}"
    share = f"the {percent(1 - PERSON)} of texts on which it is least sure"
    low, _ = _told(row, "gain")
    if low is not None and low > 0 and two(kept) < two(row["risk"]):
        sentence = f"send {share} to a person, and its error falls from {two(row['risk'])} to {two(kept)} {unit}."
    else:
        sentence = f"it does not clearly err more where it is less sure: without {share} its error is "
        sentence += f"{two(kept)} instead of {two(row['risk'])} {unit}."
    if is_known(row.get("coverage")) and not row.get("coverage_reason"):
        sentence += (
            f" An interval of {two(row['width'])} points on average around its calibrated score holds the humans' "
        )
        sentence += "mean in "
        sentence += f"{percent(row['coverage'])} of texts {spaced(row['coverage_low'], row['coverage_high'], points)}"
        sentence = f"{sentence.rstrip()} ({percent(row['level'])} were asked for)"
        length = scale[1] - scale[0]
        if row["width"] >= _USELESS * length:
            sentence += f", but is useless: it spans {percent(row['width'] / length)} of the scale"
        sentence += "."
    return sentence


def mass_sentences(results: Results) -> list[str]:
    """One sentence a dimension and judge: how much of its probability lies on scores, and whether it answers at all;
    nothing where that is not known. Of assistants only where they do not answer."""
    rows = forecast_frame(results)
    if not len(rows):
        return []
    found = []
    for _, part in rows[rows["mass"].notna()].groupby(["condition", "judge"], sort=False):
        condition, judge = str(part["condition"].iloc[0]), str(part["judge"].iloc[0])
        name = f"{judge} ({results.titles[judge]})" if results.titles.get(judge) else judge
        low = part[part["answers"] == False]  # noqa: E712 (a column)
        if len(low):
            found.append(
                f"{condition}: {name} does not answer with a score in range{'s' * (len(low) > 1)} "
                f"{', '.join(low['range'])}: {_share(low)} of its probability lies on scores, and all that is said of "
                "its scores is said of that share."
            )
        elif judge == "main":
            found.append(f"{condition}: {_share(part)} of the probability of {name} lies on scores.")
    return found


def _share(rows: pd.DataFrame) -> str:
    return f"{span(100 * rows['mass'].astype(float).round(2))} %"
