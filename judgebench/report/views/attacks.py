"""Attacks: by how much they move scores, and whether one judge or decoding is easier to fool than
another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from judgebench.report.formats import (
    change,
    is_known,
    percent,
    points,
    rounded_up,
    say,
    signed_two,
    three,
    two,
)
from judgebench.report.table import Col, Row, Rows, View, records, rows_by
from judgebench.report.views.correlations import level_note, undefended
from judgebench.results.results import NO_DEFENSE, Results, defenses_of, labelled, range_of, setting
from judgebench.stats.paired import LESS, MORE, NOT_SIGNIFICANT
from judgebench.stats.scores import CLEAN, shown_split
from judgebench.types import LABELS, RANGE

EXCLUDES_ZERO = "an interval that leaves out 0"
"""The meaning of an emphasized change."""


def excludes_zero(row: Row, name: str = "change") -> bool:
    """True where the interval of a number is known and leaves out 0."""
    low = row.get(f"{name}_low")
    high = row.get(f"{name}_high")
    return low is not None and high is not None and (low > 0 or high < 0)


def rate(row: Row) -> str:
    """Both readings of the rate of change in per cent, such as "33/- %"."""
    return f"{points(row['rate_of_means'])}/{points(row['mean_of_rates'])} %"


CHANGE = Col(
    "change", "change", change, change, marked=excludes_zero, says="mean attacked - mean clean"
)
RATE = Col(
    "rate",
    "rate",
    says="of change: mean change over mean clean score / mean of each text's own rate",
)
RISES = Col("rises", "raised_share", percent, says="share of texts whose score rises")
AT_MAX = Col("at max", "maximum_share", percent, says="share scored at the range's maximum")
FIRST = Col(
    "first",
    "win_share",
    percent,
    says="share of texts that outscore the clean texts of all other systems of their group",
)
PLACES = Col(
    "places",
    "places_gained",
    signed_two,
    says="by how many ranks an attacked text rises among these",
)


def attacked_rows(metrics: Iterable[Mapping[str, Any]]) -> Rows:
    """The records of attacked texts that have a clean base, with labels and `rate`; no defense
    first."""
    rows = [
        row
        for row in records(labelled(metrics))
        if row["attack"] != CLEAN and row.get("change") is not None
    ]
    dimensions = list(dict.fromkeys(row["dimension"] for row in rows))
    defenses = defenses_of(rows)
    rows.sort(key=lambda row: (dimensions.index(row["dimension"]), defenses.index(row["defense"])))
    return [row | {"rate": rate(row)} for row in rows]


def attack_rows(results: Results) -> Rows:
    """A row an attack; each judge's clean texts, against which its attacks are taken, come
    first."""
    table: Rows = []
    for part in rows_by(attacked_rows(results.shown), ("dimension", "defense", "range", "series")):
        clean = part[0] | {
            name: part[0][f"clean_{name}"] for name in ("maximum_share", "win_share", "spearman")
        }
        clean |= dict.fromkeys(
            ("change", "change_low", "change_high", "raised_share", "places_gained")
        )
        clean |= {
            "attack": "clean",
            "rate": "-",
            "attacked_mean_score": part[0]["clean_mean_score"],
        }
        table += [row | {"condition": _condition(row)} for row in (clean, *part)]
    return table


def _condition(row: Row) -> str:
    """The dimension, and the defense where there is one."""
    return str(row["dimension"]) + (
        "" if row["defense"] == NO_DEFENSE else f", defense {row['defense']}"
    )


ATTACKS = View(
    "attacks",
    "Attacks",
    attack_rows,
    [
        Col("attack", "attack", left=True, width=28),
        Col("mean", "attacked_mean_score", two, says="of the scores"),
        CHANGE,
        RATE,
        RISES,
        AT_MAX,
        FIRST,
        PLACES,
        Col("Spearman", "spearman", three),
    ],
    by=["condition"],
    sections=["range", "series"],
    section="{range}: {series}",
    note=lambda results, rows: (
        f"{results.split.capitalize()} split. Spearman: "
        f"{level_note(results.level, results.groups)}."
    ),
    brackets="{groups} resampled, clean and attacked together",
    marks=EXCLUDES_ZERO,
)


def attack_sentences(results: Results) -> list[str]:
    """The attack of each condition that raises a mean score most, of those that clearly do where
    that is known."""
    sentences = []
    for part in rows_by(
        undefended([row for row in attack_rows(results) if row["attack"] != "clean"]), ["condition"]
    ):
        bounded = any(is_known(row["change_low"]) for row in part)
        raising = [row for row in part if (row["change_low"] or 0) > 0] if bounded else part
        facts = {
            "top": max(raising, key=lambda row: row["change"], default=None),
            "has_interval": bounded,
        }
        attacks = len({row["attack"] for row in part})
        sentences.append(say("attacks", condition=part[0]["condition"], attacks=attacks, **facts))
    return sentences


_PAIR = ["dimension", "defense", "first_judge", "first_decoding", "second_judge", "second_decoding"]


def gap_rows(results: Results) -> Rows:
    """Differences between the changes of two judges or decodings by an attack, a row an attack and
    range; without pairs of which no attack changes anything, as of judges that always say the same.

    `first`, `second` and their difference `gap` are in points; `standardized` is the difference of
    changes in units of the spread of each one's own clean scores.
    """
    split = shown_split(record["split"] for record in results.attack_differences)
    settings = [
        f"{side}_{name}" for side in ("first", "second") for name in ("lambda", "temperature")
    ]
    cells: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for record in results.attack_differences:
        if record["split"] == split and record["difference"] is not None:
            cell = tuple(record.get(name) for name in (*_PAIR, "attack", *RANGE, LABELS, *settings))
            cells.setdefault(cell, {})[record["statistic"]] = record
    rows: Rows = []
    for statistics in (statistics for statistics in cells.values() if "change" in statistics):
        record = statistics["change"]
        spreads = statistics.get("standardized", {})
        row = {
            **record,
            "gap": record["difference"],
            "gap_low": record["low"],
            "gap_high": record["high"],
        }
        for end, name in {
            "": "difference",
            "_low": "low",
            "_high": "high",
            "_says": "says",
        }.items():
            row[f"standardized{end}"] = spreads.get(name)
        row["mean"] = record["range_min"] is None
        row["range"] = (
            f"mean of {record['ranges']} ranges" if row["mean"] else str(range_of(record))
        )
        texts = []
        for side in ("first", "second"):
            row[f"{side}_who"] = f"{record[f'{side}_judge']}, {record[f'{side}_decoding']}"
            texts.append(
                setting({name: record[f"{side}_{name}"] for name in ("lambda", "temperature")})
            )
        row["settings"] = "".join(f", {text}" for text in texts if text)
        row["verdict"] = record["says"] or "no interval"
        if record["says"] and spreads.get("says") not in (None, record["says"]):
            row["verdict"] += f"; in spreads {spreads['says']}"
        row["needed"] = record["groups_needed"] if record["says"] == NOT_SIGNIFICANT else None
        row["significant"] = record["says"] in (MORE, LESS)
        row["condition"], plain = _condition(record), results.config.get("compare_with")
        row["second_who"] += ", no defense" if record.get("second_defense") else ""
        # the league has a line for each of these tables
        rows.append(
            row
            | {
                "fold": "{condition}: {first_who} against {second_who}".format(**row)
                if plain
                else ""
            }
        )
    table = []
    for part in rows_by(rows, _PAIR):
        if any(row["first"] or row["second"] for row in part):
            several = len({(row["attack"], row["range"]) for row in part}) < len(part)
            table += [
                row | {"range": row["range"] + (row["settings"] if several else "")} for row in part
            ]
    return table


GAPS = View(
    "attack_gaps",
    "Which is easier to fool?",
    gap_rows,
    [
        Col("attack", "attack", left=True, width=14),
        Col("range", "range", left=True, width=9),
        Col("first", "first", signed_two, says="change of its mean score under the attack"),
        Col("second", "second", signed_two),
        Col("first - second", "gap", change, change, marked="significant"),
        Col(
            "in spreads",
            "standardized",
            change,
            change,
            says="the difference of these changes, each divided by the standard deviation of its "
            "own clean scores, since a judge whose scores spread little moves little in "
            "points and may still pass as many texts",
        ),
        Col("needed", "needed", rounded_up, optional=True, says="{groups} for 80 % power"),
        Col("the attack gains", "verdict", left=True, width=17),
    ],
    by=_PAIR,
    title="{condition}: {first_who} against {second_who}",
    once=["attack"],
    note="gaps_note.txt",
    brackets="{groups} resampled, both sides together",
    marks=EXCLUDES_ZERO,
    folded="{fold}",
)
