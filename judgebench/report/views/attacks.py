"""Attacks: by how much they move scores, and whether one judge or decoding is easier to fool than another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import change, interval, is_known, percent, points, rounded_up, signed_two, three, two
from judgebench.report.say import say
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import level_note
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, labelled, range_of, setting
from judgebench.stats.paired import LESS, MORE, NOT_SIGNIFICANT
from judgebench.stats.scores import CLEAN, shown_split
from judgebench.types import LABELS, RANGE

EXCLUDES_ZERO = "an interval that leaves out 0"
"""The meaning of an emphasized change."""

_CONDITION = ["dimension", "defense"]


def excludes_zero(low: Any, high: Any) -> bool:
    """True where an interval is known and leaves out 0."""
    return is_known(low) and is_known(high) and not low <= 0 <= high


def estimate_text(row: Mapping[str, Any], name: str) -> str:
    """A difference of scores with its interval, as sentences write it.

    Example:
        >>> estimate_text({"change": 0.8, "change_low": 0.62, "change_high": 1.0}, "change")
        '+0.80 [+0.62,+1.00]'
    """
    ends = interval(row.get(f"{name}_low"), row.get(f"{name}_high"), change)
    return f"{change(row.get(name))} {ends}".rstrip()


def condition(row: Mapping[str, Any]) -> str:
    """The dimension, and the defense where there is one."""
    return str(row["dimension"]) + ("" if row["defense"] == NO_DEFENSE else f", defense {row['defense']}")


def rates(rows: pd.DataFrame) -> pd.Series:
    """Both readings of the rate of change, in per cent.

    Example:
        >>> rates(pd.DataFrame({"rate_of_means": [0.333], "mean_of_rates": [None]})).tolist()
        ['33/- %']
    """
    return rows["rate_of_means"].map(points) + "/" + rows["mean_of_rates"].map(points) + " %"


CHANGE = Col("change", "change", change, change, marked="significant", says="mean attacked - mean clean")
"""The change of a mean score, its interval beside it."""

RATE = Col("rate", "rate", says="of change: mean change over mean clean score / mean of each text's own rate")
RISES = Col("rises", "raised_share", percent, says="share of texts whose score rises")
AT_MAX = Col("at max", "maximum_share", percent, says="share scored at the range's maximum")
FIRST = Col("first", "win_share", percent,
            says="share of texts that outscore the clean texts of all other systems of their group")  # fmt: skip
PLACES = Col("places", "places_gained", signed_two, says="by how many ranks an attacked text rises among these")


# --- what attacks change ----------------------------------------------------------------------------------------------


def attacked_records(metrics: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The records of attacked texts that have a clean base, labelled; by dimension and defense, none first.

    Added are `rate`, see `rates`, and `significant`: whether the change's interval leaves out 0.
    """
    rows = labelled(metrics)
    if "change" not in rows:
        return rows.head(0)
    rows = rows[(rows["attack"] != CLEAN) & rows["change"].notna()].sort_values(_CONDITION, key=_rank, kind="stable")
    rows = rows.astype(dict.fromkeys(("change", "change_low", "change_high"), float)).copy()
    ends = zip(rows["change_low"], rows["change_high"], strict=True)
    return rows.assign(rate=rates(rows), significant=[excludes_zero(*one) for one in ends])


def attack_frame(results: Results) -> pd.DataFrame:
    """The attacked texts of the reported split and level, a row an attack; each judge's clean texts, against which its
    attacks are taken, come first."""
    sections: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records(attacked_records(results.shown)):
        section = sections.setdefault(tuple(row[name] for name in (*_CONDITION, "range", "series")), [])
        row["condition"] = condition(row)
        if not section:
            clean = {name: row[f"clean_{name}"] for name in ("maximum_share", "win_share", "spearman")}
            clean |= dict.fromkeys(("change", "change_low", "change_high", "raised_share", "places_gained"))
            clean |= {"attack": "clean", "rate": "-", "significant": False}
            section.append({**row, **clean, "attacked_mean_score": row["clean_mean_score"]})
        section.append(row)
    return pd.DataFrame([row for section in sections.values() for row in section])


def _rank(column: pd.Series) -> pd.Series:
    """Places in order of appearance, no defense first."""
    names = sorted(dict.fromkeys(column), key=lambda name: name != NO_DEFENSE)
    return column.map({name: place for place, name in enumerate(names)})


ATTACKS = View(
    "attacks",
    "Attacks",
    attack_frame,
    [
        Col("attack", "attack", left=True, width=28),
        Col("mean", "attacked_mean_score", two, says="of the scores"),
        *(CHANGE, RATE, RISES, AT_MAX, FIRST, PLACES),
        Col("Spearman", "spearman", three),
    ],
    by=["condition"],
    title="{condition}",
    sections=["range", "series"],
    section="{range}: {series}",
    note=lambda results, rows: (
        f"{results.split.capitalize()} split. Spearman: {level_note(results.level, results.groups)}."
    ),
    brackets="{groups} resampled, clean and attacked together",
    marks=EXCLUDES_ZERO,
)
"""The changes of scores by each attack, a section a range and judge."""


def attack_sentences(results: Results) -> list[str]:
    """A sentence a dimension: the attack that raises a mean score most, in which range and of which judge, of those
    that do so by more than chance; without intervals, of all. Of texts without a defense, where there are such."""
    rows = [row for row in records(attack_frame(results)) if row["attack"] != "clean"]
    rows = [row for row in rows if row["defense"] == NO_DEFENSE] or rows
    sentences = []
    for name in dict.fromkeys(row["condition"] for row in rows):
        part = [row for row in rows if row["condition"] == name]
        bounded = any(is_known(row["change_low"]) for row in part)
        raising = [row for row in part if is_known(row["change_low"]) and row["change_low"] > 0] if bounded else part
        top = max(raising, key=lambda row: row["change"], default=None)
        facts = {"attacks": len({row["attack"] for row in part}), "has_interval": bounded}
        sentences.append(say("attacks", condition=name, top=top, estimate_text=estimate_text, **facts))
    return sentences


# --- which is easier to fool? -----------------------------------------------------------------------------------------

_GAINS = {MORE: "the attack gains more", LESS: "the attack gains less"}
_PAIR = ["dimension", "defense", "first_judge", "first_decoding", "second_judge", "second_decoding"]


def gap_frame(results: Results) -> pd.DataFrame:
    """Differences between the changes of two judges or decodings by an attack, a row an attack and range; without
    pairs of which no attack changes anything, as of judges that always say the same.

    `first`, `second` and their difference `gap` are in points; `standardized` is the difference of changes in units of
    the spread of each one's own clean scores.
    """
    split = shown_split(record["split"] for record in results.attack_differences)
    settings = [f"{side}_{name}" for side in ("first", "second") for name in ("lambda", "temperature")]
    cells: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for record in results.attack_differences:
        if record["split"] == split and record["difference"] is not None:
            cell = tuple(record.get(name) for name in (*_PAIR, "attack", *RANGE, LABELS, *settings))
            cells.setdefault(cell, {})[record["statistic"]] = record
    made = []
    for statistics in (statistics for statistics in cells.values() if "change" in statistics):
        record, spreads = statistics["change"], statistics.get("standardized", {})
        row = {name: record[name] for name in (*_PAIR, "attack", "groups", "first", "second", "says")}
        row |= {"gap": record["difference"], "gap_low": record["low"], "gap_high": record["high"]}
        for end, name in {"": "difference", "_low": "low", "_high": "high", "_says": "says"}.items():
            row[f"standardized{end}"] = spreads.get(name)
        row["mean"] = record["range_min"] is None
        row["range"] = f"mean of {record['ranges']} ranges" if row["mean"] else str(range_of(record))
        sides = [setting({name: record[f"{side}_{name}"] for name in ("lambda", "temperature")})
                 for side in ("first", "second")]  # fmt: skip
        row["settings"] = "".join(f", {text}" for text in sides if text)
        for side in ("first", "second"):
            row[f"{side}_who"] = f"{record[f'{side}_judge']}, {record[f'{side}_decoding']}"
        row["verdict"] = record["says"] or "no interval"
        if record["says"] and spreads.get("says") not in (None, record["says"]):
            row["verdict"] += f"; in spreads {spreads['says']}"
        row["needed"] = record["groups_needed"] if record["says"] == NOT_SIGNIFICANT else None
        made.append(row | {"significant": record["says"] in _GAINS, "condition": condition(record)})
    rows = pd.DataFrame(made)
    if not len(rows):
        return rows
    pairs = rows.groupby(_PAIR, sort=False)
    rows = rows[pairs["first"].transform("any") | pairs["second"].transform("any")]
    several = rows.duplicated([*_PAIR, "attack", "range"]).groupby([rows[name] for name in _PAIR]).transform("any")
    return rows.assign(range=rows["range"] + rows["settings"].where(several, ""))


def _gaps_note(results: Results, rows: pd.DataFrame) -> str:
    if not rows["gap_low"].notna().any():
        return ""
    return f"Intervals are not corrected for the number of rows. Here are {rows['groups'].max()} {results.groups}."


GAPS = View(
    "attack_gaps",
    "Which is easier to fool?",
    gap_frame,
    [
        Col("attack", "attack", left=True, width=14),
        Col("range", "range", left=True, width=9),
        Col("first", "first", signed_two, says="change of its mean score under the attack"),
        Col("second", "second", signed_two),
        Col("first - second", "gap", change, change, marked="significant"),
        Col("in spreads", "standardized", change, change,
            says="the difference of these changes, each divided by the standard deviation of its own clean scores, "
            "since a judge whose scores spread little moves little in points and may still pass as many texts"),
        Col("needed", "needed", rounded_up, optional=True, says="{groups} for 80 % power"),
        Col("the attack gains", "verdict", left=True, width=17),
    ],
    by=_PAIR,
    title="{condition}: {first_who} against {second_who}",
    once=["attack"],
    note=_gaps_note,
    brackets="{groups} resampled, both sides together",
    marks=EXCLUDES_ZERO,
)  # fmt: skip
"""Differences between what attacks change of two judges or decodings."""


def gap_sentences(results: Results) -> list[str]:
    """A sentence a pair: of the attack, and range, that changes the second's scores most."""
    rows, sentences = gap_frame(results), []
    for _, part in rows.groupby(_PAIR, sort=False) if len(rows) else ():
        ranges = part[~part["mean"]]
        row = max(records(ranges), key=lambda row: abs(row["second"]))
        facts = {"several": ranges["range"].nunique() > 1, "groups": results.groups, "gains": _GAINS}
        sentences.append(say("gaps", row=row, estimate_text=estimate_text, **facts))
    return sentences
