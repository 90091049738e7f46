"""Attacks: by how much they move scores, and whether one judge or decoding is easier to fool than another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import change, interval, is_known, percent, points, rounded_up, signed_two, three, two
from judgebench.report.table import Col, View, records
from judgebench.report.views.correlations import level_note
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, labelled, range_of, setting, shown_split
from judgebench.stats.paired import LESS, MORE, NOT_SIGNIFICANT
from judgebench.stats.scores import CLEAN
from judgebench.types import LABELS, RANGE

EXCLUDES_ZERO = "an interval that leaves out 0"
"""The meaning of an emphasized change."""

_CONDITION = ["dimension", "defense"]
_NOTE = (
    "Mean: of the scores. Change: mean attacked - mean clean. Rate: of change, as the mean change over the mean clean "
    "score / as the mean of each text's own. Rises: share of texts whose score rises. At max: share scored at the "
    "range's maximum. First: share of texts that outscore the clean texts of all other systems of their group. Places: "
    "by how many ranks an attacked text rises among these."
)


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
    """The attacked texts of the reported split and level, a row an attack; each judge's clean texts come first."""
    rows = attacked_records(results.shown)
    sections: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records(rows):
        section = sections.setdefault(tuple(row[name] for name in (*_CONDITION, "range", "series")), [])
        row["condition"] = condition(row)
        section += [row] if section else [_clean(row), row]
    return pd.DataFrame([row for section in sections.values() for row in section])


def _clean(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the clean texts that an attack's row is taken against."""
    base = {name: row[f"clean_{name}"] for name in ("maximum_share", "win_share", "spearman")}
    of_attacks = ("change", "change_low", "change_high", "raised_share", "places_gained")
    own = {"attack": "clean", "rate": "-", "significant": False, "attacked_mean_score": row["clean_mean_score"]}
    return {**row, **base, **dict.fromkeys(of_attacks), **own}


def _rank(column: pd.Series) -> pd.Series:
    """Places in order of appearance, no defense first."""
    names = sorted(dict.fromkeys(column), key=lambda name: name != NO_DEFENSE)
    return column.map({name: place for place, name in enumerate(names)})


def _note(results: Results, rows: pd.DataFrame) -> str:
    sentence = f"{results.split} split. {_NOTE} Spearman: {level_note(results.level, results.groups)}."
    if rows["change_low"].notna().any():
        sentence += f" In brackets: 95 % interval, {results.groups} resampled, clean and attacked together."
    return sentence


CHANGE = Col("change", "change", change, ends=change, marked="significant")
"""The change of a mean score, its interval beside it."""

ATTACKS = View(
    "attacks",
    "Attacks",
    attack_frame,
    [
        Col("attack", "attack", left=True, width=28),
        Col("mean", "attacked_mean_score", two),
        CHANGE,
        Col("rate", "rate"),
        Col("rises", "raised_share", percent),
        Col("at max", "maximum_share", percent),
        Col("first", "win_share", percent),
        Col("places", "places_gained", signed_two),
        Col("Spearman", "spearman", three),
    ],
    by=["condition"],
    title="{condition}",
    sections=["range", "series"],
    section="{range}: {series}",
    note=_note,
    marks=EXCLUDES_ZERO,
)
"""The changes of scores by each attack, a section a range and judge."""


def attack_sentences(results: Results) -> list[str]:
    """A sentence a dimension: the attack that raises a mean score most, in which range and of which judge, of those
    that do so by more than chance; without intervals, of all. Of texts without a defense, where there are such."""
    rows = attack_frame(results)
    if not len(rows):
        return []
    rows = rows[rows["attack"] != "clean"]
    bare = rows[rows["defense"] == NO_DEFENSE]
    return [_sentence(part) for _, part in (bare if len(bare) else rows).groupby("condition", sort=False)]


def _sentence(rows: pd.DataFrame) -> str:
    attacks, bounded = rows["attack"].nunique(), bool(rows["change_low"].notna().any())
    raising = rows[rows["change_low"] > 0] if bounded else rows
    where = rows["condition"].iloc[0]
    if not len(raising):
        counted = "the attack does not raise" if attacks == 1 else f"none of {attacks} attacks raises"
        return f"{where}: {counted} a mean score significantly."
    top = max(records(raising), key=lambda row: row["change"])
    sentence = f"{where}: {top['attack']} changes the mean score of {top['series']} in range {top['range']} by "
    sentence += f"{estimate_text(top, 'change')}{f', the most of {attacks} attacks' if attacks > 1 else ''}"
    return f"{sentence}." if bounded else f"{sentence}; without an interval, chance cannot be ruled out."


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
    cells: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    settings = [f"{side}_{name}" for side in ("first", "second") for name in ("lambda", "temperature")]
    for record in results.attack_differences:
        if record["split"] == split and record["difference"] is not None:
            cell = tuple(record.get(name) for name in (*_PAIR, "attack", *RANGE, LABELS, *settings))
            cells.setdefault(cell, {})[record["statistic"]] = record
    known = [_gap(cell["change"], cell.get("standardized", {}), results.groups) for cell in cells.values()
             if "change" in cell]  # fmt: skip
    rows = pd.DataFrame(known)
    if not len(rows):
        return rows
    pairs = rows.groupby(_PAIR, sort=False)
    rows = rows[pairs["first"].transform("any") | pairs["second"].transform("any")]
    several = rows.duplicated([*_PAIR, "attack", "range"]).groupby([rows[name] for name in _PAIR]).transform("any")
    return rows.assign(range=rows["range"] + rows["settings"].where(several, ""))


def _gap(change: Mapping[str, Any], standardized: Mapping[str, Any], groups: str) -> dict[str, Any]:
    row = {name: change[name] for name in (*_PAIR, "attack", "groups", "first", "second", "says")}
    row |= {"gap": change["difference"], "gap_low": change["low"], "gap_high": change["high"]}
    names = {"": "difference", "_low": "low", "_high": "high", "_says": "says"}
    row |= {f"standardized{end}": standardized.get(name) for end, name in names.items()}
    row["mean"] = change["range_min"] is None
    row["range"] = f"mean of {change['ranges']} ranges" if row["mean"] else str(range_of(change))
    sides = ({"lambda": change[f"{side}_lambda"], "temperature": change[f"{side}_temperature"]}
             for side in ("first", "second"))  # fmt: skip
    row["settings"] = "".join(f", {text}" for text in map(setting, sides) if text)
    for side in ("first", "second"):
        row[f"{side}_who"] = f"{change[f'{side}_judge']}, {change[f'{side}_decoding']}"
    other = standardized.get("says")
    row["verdict"] = change["says"] or "no interval"
    if change["says"] and other not in (None, change["says"]):
        row["verdict"] += f"; in spreads {other}"
    row["needed"] = change["groups_needed"] if change["says"] == NOT_SIGNIFICANT else None
    return row | {"significant": change["says"] in _GAINS, "condition": condition(change)}


def _gaps_note(results: Results, rows: pd.DataFrame) -> str:
    bounded = bool(rows["gap_low"].notna().any())
    note = (
        "First, second: change of the mean score under the attack. In spreads: the difference of these changes, each "
        "divided by the standard deviation of its own clean scores, since a judge whose scores spread little moves "
        "little in points and may still pass as many texts."
    )
    if not bounded:
        return note
    return (
        f"{note} In brackets: 95 % interval, {results.groups} resampled, both sides together, not corrected for the "
        f"number of rows. Needed: {results.groups} for 80 % power; here {rows['groups'].max()}."
    )


GAPS = View(
    "attack_gaps",
    "Which is easier to fool?",
    gap_frame,
    [
        Col("attack", "attack", left=True, width=14),
        Col("range", "range", left=True, width=9),
        Col("first", "first", signed_two),
        Col("second", "second", signed_two),
        Col("first - second", "gap", change, ends=change, marked="significant"),
        Col("in spreads", "standardized", change, ends=change),
        Col("needed", "needed", rounded_up, optional=True),
        Col("the attack gains", "verdict", left=True, width=17),
    ],
    by=_PAIR,
    title="{condition}: {first_who} against {second_who}",
    once=["attack"],
    note=_gaps_note,
    marks=EXCLUDES_ZERO,
)
"""Differences between what attacks change of two judges or decodings."""


def gap_sentences(results: Results) -> list[str]:
    """A sentence a pair: of the attack, and range, that changes the second's scores most."""
    rows, sentences = gap_frame(results), []
    for _, part in rows.groupby(_PAIR, sort=False) if len(rows) else ():
        ranges = part[~part["mean"]]
        several = ranges["range"].nunique() > 1
        strongest = max(records(ranges), key=lambda row: abs(row["second"]))
        sentences.append(f"{strongest['condition']}: {gap_sentence(strongest, several, results.groups)}")
    return sentences


def gap_sentence(row: Mapping[str, Any], several: bool, groups: str = "articles") -> str:
    """The meaning of one row of `gap_frame`.

    Args:
        several: whether the range must be told.
    """
    where = f" in {'the ' if row['mean'] else 'range '}{row['range']}" if several else ""
    sentence = f"{row['first_who']} changes how far {row['attack']} raises the mean score{where} by "
    sentence += f"{estimate_text(row, 'gap')}, against {row['second_who']}: {_verdict(row, '', groups)}"
    if is_known(row["standardized"]):
        sentence += f". In spreads of their own clean scores by {estimate_text(row, 'standardized')}: "
        sentence += f"{_verdict(row, 'standardized_', groups)}"
    return f"{sentence}."


def _verdict(row: Mapping[str, Any], of: str, groups: str) -> str:
    if row[f"{of or 'gap_'}low"] is None:
        return "without an interval, chance cannot be ruled out"
    if row[f"{of}says"] in _GAINS:
        return f"{_GAINS[row[f'{of}says']]}, significantly"
    return f"no significant difference over {row['groups']} {groups}"
