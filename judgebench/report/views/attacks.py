"""Attacks: by how much they move scores, and whether one judge or decoding is easier to fool than
another."""

from __future__ import annotations

from collections.abc import Iterable

from judgebench.report.table import Col, View, excludes_zero, labelled_rows, rows_by, with_records
from judgebench.report.views.correlations import level_note, pair_text, place_text, undefended
from judgebench.results.results import Results, condition_text, defenses_of, setting
from judgebench.studies.paired import LESS, MORE, NOT_SIGNIFICANT
from judgebench.studies.scores import CLEAN, shown_split
from judgebench.types import LABELS, RANGE, Row, Rows
from judgebench.words.formats import (
    UNKNOWN,
    change,
    percent,
    points,
    rounded_up,
    say,
    signed_two,
    three,
    two,
)

EXCLUDES_ZERO = "an interval that leaves out 0"
"""The meaning of an emphasized change."""


def rate(row: Row) -> str:
    """Both readings of the rate of change in per cent, such as "33/- %"; a dash of clean texts."""
    if row.get("change") is None:
        return UNKNOWN
    return f"{points(row['rate_of_means'])}/{points(row['mean_of_rates'])} %"


CHANGE = Col(
    "change", form=change, ends=change, marked=excludes_zero, says="mean attacked - mean clean"
)
RATE = Col(
    "rate",
    rate,
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


def attacked_rows(metrics: Iterable[Row]) -> Rows:
    """The records of attacked texts that have a clean base, with labels; no defense first."""
    rows = labelled_rows(metrics)
    rows = [row for row in rows if row["attack"] != CLEAN and row.get("change") is not None]
    dimensions = list(dict.fromkeys(row["dimension"] for row in rows))
    defenses = defenses_of(rows)
    rows.sort(key=lambda row: (dimensions.index(row["dimension"]), defenses.index(row["defense"])))
    return rows


def attack_rows(results: Results) -> Rows:
    """A row an attack; each judge's clean texts, against which its attacks are taken, come
    first."""
    table = []
    for part in rows_by(attacked_rows(results.shown), ("dimension", "defense", "range", "series")):
        unknown = ("change", "change_low", "change_high", "raised_share", "places_gained")
        clean = part[0] | dict.fromkeys(unknown)
        for name in ("maximum_share", "win_share", "spearman"):
            clean[name] = part[0][f"clean_{name}"]
        clean |= {"attack": "clean", "attacked_mean_score": part[0]["clean_mean_score"]}
        table += [clean, *part]
    return [row | {"condition": _condition(row)} for row in table]


def _condition(row: Row) -> str:
    """The dimension, and the defense where there is one."""
    return condition_text({**row, "attack": CLEAN})


ATTACKS = View(
    "attacks",
    "Attacks",
    attack_rows,
    [
        Col("attack", left=True, width=28),
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
    rows = undefended([row for row in attack_rows(results) if row["attack"] != "clean"])
    return [say("attacks", rows=part) for part in rows_by(rows, ["condition"])]


_PAIR = ["dimension", "defense", "first_judge", "first_decoding", "second_judge", "second_decoding"]
_KNOBS = [f"{side}_{name}" for side in ("first", "second") for name in ("lambda", "temperature")]


def gap_rows(results: Results) -> Rows:
    """Differences between the changes of two judges or decodings by an attack, a row an attack and
    range; without pairs of which no attack changes anything, as of judges that always say the same.

    `first`, `second` and their `difference` are in points; the record `standardized` has the
    difference of changes in units of the spread of each one's own clean scores.
    """
    split = shown_split(record["split"] for record in results.attack_differences)
    known = [
        {**record, "difference_low": record["low"], "difference_high": record["high"]}
        for record in results.attack_differences
        if record["split"] == split and record["difference"] is not None
    ]
    changes, spreads = (
        [record for record in known if record["statistic"] == statistic]
        for statistic in ("change", "standardized")
    )
    rows = with_records(changes, (*_PAIR, "attack", *RANGE, LABELS, *_KNOBS), standardized=spreads)
    for row in rows:
        row |= {"range": place_text(row), "condition": _condition(row), "pair": pair_text(row)}
        hyperparameters = []
        for side in ("first", "second"):
            names = ("lambda", "temperature")
            hyperparameters.append(setting({name: row[f"{side}_{name}"] for name in names}))
        row["settings"] = "".join(f", {text}" for text in hyperparameters if text)
        # the league has a line for each of these tables
        plain = results.config.get("baseline")
        row["fold"] = "{condition}: {pair}".format(**row) if plain else ""
    table = []
    for part in rows_by(rows, _PAIR):
        if any(row["first"] or row["second"] for row in part):
            several = len({(row["attack"], row["range"]) for row in part}) < len(part)
            table += [
                row | {"range": row["range"] + (row["settings"] if several else "")} for row in part
            ]
    return table


def _gap_verdict(row: Row) -> str:
    """Which of two the attack gains more on, in points, and in spreads where that differs."""
    spreads = row["standardized"].get("says")
    if row["says"] and spreads not in (None, row["says"]):
        return f"{row['says']}; in spreads {spreads}"
    return row["says"] or "no interval"


GAPS = View(
    "attack_gaps",
    "Which is easier to fool?",
    gap_rows,
    [
        Col("attack", left=True, width=14),
        Col("range", left=True, width=9),
        Col("first", form=signed_two, says="change of its mean score under the attack"),
        Col("second", form=signed_two),
        Col(
            "first - second",
            "difference",
            change,
            change,
            marked=lambda row: row["says"] in (MORE, LESS),
        ),
        Col(
            "in spreads",
            "standardized.difference",
            change,
            change,
            says="the difference of these changes, each divided by the standard deviation of its "
            "own clean scores, since a judge whose scores spread little moves little in "
            "points and may still pass as many texts",
        ),
        Col(
            "needed",
            lambda row: row["groups_needed"] if row["says"] == NOT_SIGNIFICANT else None,
            rounded_up,
            optional=True,
            says="{groups} for 80 % power",
        ),
        Col("the attack gains", _gap_verdict, left=True, width=17),
    ],
    by=_PAIR,
    title="{condition}: {pair}",
    once=["attack"],
    note="gaps_note.txt",
    brackets="{groups} resampled, both sides together",
    marks=EXCLUDES_ZERO,
    folded="{fold}",
)
