"""Judges that compare two texts: their bias and consistency, and systems ranked by their comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from judgebench.report.formats import interval, is_known, no_text, percent, points, short, signed_two, span, whole
from judgebench.report.table import Block, Col, Heading, Paragraph, View, records
from judgebench.results.results import Results, unattacked
from judgebench.results.series import SeriesIndex, labelled
from judgebench.stats.bradley_terry import DAVIDSON, ELO_MEAN
from judgebench.stats.preferences import MEASURES

_NOTE = (
    "Place one: how much more often than half of the time the text in place one wins, in percentage points; 0 for a "
    "judge that minds the texts and not their places. Same winner: of the pairs that both orders decide, the share in "
    "which the same text wins in both. Tied: share of pairs with a tie in an order, or in both. With humans: of the "
    "pairs in which the humans prefer a text, the share in which the judge, both orders averaged, prefers the same; "
    "undecided pairs count half, so tossing a coin has 50 %."
)


def pair_frame(results: Results) -> pd.DataFrame:
    """The metrics of compared texts, of the reported split and level; empty where texts were judged alone.

    Runs of earlier versions know neither `decided_consistency` nor `tied_share`, and have `consistency` instead.
    """
    frame = labelled(record for record in results.shown if record.get(MEASURES[0]) is not None)
    if not len(frame):
        return frame
    for end in ("", "_low", "_high"):
        for name in ("decided_consistency", "tied_share"):
            if f"{name}{end}" not in frame:
                frame[f"{name}{end}"] = None
    for end in ("", "_low", "_high"):
        decided = frame[f"decided_consistency{end}"]
        frame[f"decided_consistency{end}"] = decided.where(frame["tied_share"].notna(), frame.get(f"consistency{end}"))
    frame["name"] = [with_setting(row) for row in records(frame)]
    sizes = {
        condition: f"{span(part['pairs'])} pairs, {span(part['preferred'])} with a human preference"
        for condition, part in frame.groupby("condition", sort=False)
    }
    return frame.assign(size=frame["condition"].map(sizes))


def signed_points(value: Any) -> str:
    """A bias in percentage points, with its sign.

    Example:
        >>> signed_points(0.123), signed_points(-0.001), signed_points(None)
        ('+12', '0', '-')
    """
    if not is_known(value):
        return "-"
    whole = round(100 * value)
    return f"{whole:+d}" if whole else "0"


def _note(results: Results, rows: pd.DataFrame) -> str:
    return f"{_NOTE} In brackets: 95 % interval, {results.groups} resampled."


PAIRS = View(
    "pairs",
    "Which of two is better?",
    pair_frame,
    (
        Col("judge, decoding", "name", left=True),
        Col("place one", "position_bias", signed_points, ends=signed_points),
        Col("same winner", "decided_consistency", percent, ends=points),
        Col("tied", "tied_share", percent, ends=points),
        Col("with humans", "human_agreement", percent, ends=points),
    ),
    by=["condition"],
    title="{condition}",
    size="{size}",
    note=_note,
)
"""How far a judge that compares texts can be trusted."""


def pair_sentences(results: Results) -> list[str]:
    """A sentence for each decoding of the main model, of clean texts: does the place decide, and does the judge side
    with the humans?"""
    frame = pair_frame(results)
    return [_sentence(row) for row in unattacked(records(frame)) if row["judge"] == "main"] if len(frame) else []


def _sentence(row: Any) -> str:
    sentence = (
        f"{row['condition']}: {row['name']} gives the text in place one {100 * (0.5 + row['position_bias']):.0f} % "
    )
    sentence += f"of its preference over all pairs in both orders (50 % is impartial), and {_same_winner(row)}"
    agreed, low, high = (row.get(f"human_agreement{end}") for end in ("", "_low", "_high"))
    if agreed is None:
        return f"{sentence}; nobody prefers a text of any pair."
    known = low is not None and high is not None
    bounds = f" [{100 * low:.0f}, {100 * high:.0f}]" if known else ""
    sentence += (
        f"; both orders averaged, it sides with the humans in {100 * agreed:.0f} %{bounds} of those that they tell "
    )
    return f"{sentence}apart{', as tossing a coin might' if known and low <= 0.5 <= high else ''}."


def _same_winner(row: Any) -> str:
    """The end of a sentence: how often both orders have one winner, ties apart."""
    tied_share, consistent = row["tied_share"], row["decided_consistency"]
    if tied_share is None:
        return f"prefers the same text in both orders in {100 * (consistent or 0.0):.0f} % of the pairs"
    tied = f"{100 * tied_share:.0f} % of the pairs have a tie in an order"
    if consistent is None:
        return f"decides no pair in both orders: {tied}"
    sentence = f"prefers the same text in both orders in {100 * consistent:.0f} % of the pairs"
    return f"{sentence} that both orders decide ({tied})" if tied_share > 0 else sentence


def with_setting(row: Any) -> str:
    """The judge and decoding of a labelled row, with lambda and t where it has them."""
    return f"{row['who']}, {row['setting']}" if row["setting"] else str(row["who"])


_SYSTEMS_SHOWN = 60
"""Rows of a table of systems, the strongest first."""


def ranking_records(results: Results) -> list[dict[str, Any]]:
    """The records of pairwise.json of the reported split, labelled as by `labelled`.

    Added are `name`, the series with lambda and t where it has them; `series_id`, the `Series`; and `lead`: whether it
    is shown in full, which are of main and of the pair the first whose scores are expectations, else the first.
    """
    shown = [record for record in results.pairwise if record["split"] == results.split]
    if not shown:
        return []
    joint = {"range_min": 0.0, "range_max": 0.0, "range_step": 1.0}
    index = SeriesIndex(shown)
    rows = records(labelled(joint | dict(record) for record in shown))
    for row in rows:
        series = index.of(row)
        row["series_id"] = series
        row["name"] = with_setting(row)
    leads: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["rule"] != "expectation"):
        leads.setdefault((row["condition"], row["judge"]), row)
    for row in rows:
        row["lead"] = row["judge"] in ("main", "pair") and leads[row["condition"], row["judge"]] is row
        row["size"] = f"{row['pairs']:g} pairs of {int(row['groups'])} {results.groups}"
        row["notes"] = _notes(row)
    return rows


def _notes(record: Mapping[str, Any]) -> list[str]:
    """Warnings about what is missing, or rests on the prior."""
    sentences = []
    for prefix, who in (("", "Judge"), ("human_", "Humans")):
        if record[f"{prefix}unranked"]:
            sentences.append(f"{who}: no strengths, for {record[f'{prefix}unranked']}.")
        if record[f"{prefix}resting"]:
            sentences.append(f"{who}: {record[f'{prefix}resting']}.")
    if record["undetermined_share"]:
        sentences.append(
            f"No intervals of strengths: in {100 * record['undetermined_share']:.1f} % of the resamples they are "
            "infinite; pairwise.prior=1 holds them back."
        )
    return sentences


# --- the tables -------------------------------------------------------------------------------------------------------


def _ranking_frame(results: Results) -> pd.DataFrame:
    """A row a system of each series that is shown in full."""
    return pd.DataFrame(
        [
            {"title": f"{record['condition']}: {record['name']}", "size": record["size"], **one}
            | {f"{side}{name}": text for side in ("", "human_") for name, text in _standing(one, side).items()}
            for record in ranking_records(results)
            if record["lead"]
            for one in record["ranking"][:_SYSTEMS_SHOWN]
        ]
    )


def _standing(one: Mapping[str, Any], side: str) -> dict[str, str]:
    """A side's rank with the ranks between which it lies, and wins, ties and losses; shares have a decimal."""
    place, low, high = (one[f"{side}{name}"] for name in ("rank", "rank_low", "rank_high"))
    between = "" if low is None or low == high == place else f" [{low},{high}]"
    counts = (float(one[f"{side}{name}"]) for name in ("wins", "ties", "losses"))
    return {
        "place": "-" if place is None else f"{place}{between}",
        "counts": "/".join(f"{count:.1f}".removesuffix(".0") for count in counts),
    }


RANKING = View(
    "ranking",
    "Systems ranked",
    _ranking_frame,
    (
        Col("system", "system", left=True),
        Col("rank", "place", left=True),
        Col("Elo", "elo", whole, ends=whole),
        Col("W/T/L", "counts"),
        Col("wins", "win_share", percent, page=True),
        Col("humans' rank", "human_place", left=True),
        Col("Elo", "human_elo", whole, ends=whole),
        Col("W/T/L", "human_counts"),
        Col("wins", "human_win_share", percent, page=True),
    ),
    by=["title"],
    title="{title}",
    size="{size}",
)
"""Systems by strength, as the judge ranks them and as the humans do."""


def _correlation(value: Any) -> str:
    return short(value) if is_known(value) else "-"


def _preference_note(results: Results, rows: pd.DataFrame) -> str:
    return ranking_note(results)


PREFERENCES = View(
    "preferences",
    "Preferences against the humans'",
    lambda results: pd.DataFrame(ranking_records(results)),
    (
        Col("judge, decoding", "name", left=True, width=24),
        Col("place one", "place_effect", signed_two, optional=True),
        Col("95 % interval", "place_effect", no_text, ends=signed_two, optional=True, page=True),
        Col("attacked", "attack_effect", signed_two, optional=True),
        Col("95 % interval", "attack_effect", no_text, ends=signed_two, optional=True, page=True),
        Col("AUC", "auc", percent, ends=points, optional=True),
        Col("tau", "tau", _correlation, ends=short, optional=True),
        Col("same", "accuracy", percent, ends=points, optional=True),
        Col("calibrated", "accuracy_calibrated", percent, ends=points, optional=True),
        Col("strengths", "strength_spearman", _correlation, ends=short, optional=True),
        Col("Pearson", "strength_pearson", _correlation, ends=short, optional=True, page=True),
        Col("Kendall", "strength_kendall", _correlation, ends=short, optional=True, page=True),
    ),
    by=["condition"],
    title="{condition}",
    size="{size}",
    note=_preference_note,
)
"""How every judge and decoding sides with the humans."""


def ranking_blocks(results: Results) -> list[Block]:
    """The systems' tables with their notes, and the preferences."""
    rows = ranking_records(results)
    tables = {table.title: table for table in RANKING.tables(results)}
    blocks: list[Block] = [Heading(RANKING.heading)] if tables else []
    for record in rows:
        if record["lead"]:
            title = f"{record['condition']}: {record['name']}"
            blocks += [tables[title]] if title in tables else []
            if (more := len(record["ranking"]) - _SYSTEMS_SHOWN) > 0:
                blocks.append(Paragraph(f"{more} more systems are in pairwise.json.", note=True))
            blocks += [Paragraph(note, note=True) for note in record["notes"]]
    return [*blocks, *PREFERENCES(results)]


def ranking_note(results: Results) -> str:
    """Notes on how to read the tables."""
    one = results.pairwise[0]
    model = (
        "Davidson's model, in which ties have odds of their own"
        if one["ties"] == DAVIDSON
        else "Bradley and Terry's model, a tie half a win for each"
    )
    mean = "the mean of all systems" if one["reference"] is None else f"is {one['reference']}"
    notes = [f"Elo: 400 points are odds of 10 to 1, {ELO_MEAN:.0f} {mean}; {model}."]
    if one["prior"]:
        several = "" if one["prior"] == 1 else "s"
        notes.append(
            f"Beforehand each system drew even in {one['prior']:g} imagined comparison{several} with one of mean "
            "strength."
        )
    notes.append(
        "W/T/L: comparisons won, tied and lost, in shares of one where the judge's preference is one. Humans: from "
        "the same pairs. Place one: what standing first is worth, in log-odds (0: nothing). AUC: how well the judge's "
        "preference tells which text the humans prefer (50 is chance); tau: Kendall's tau-b of both sides' "
        "preferences; same: share of pairs in which both name one text, or both a tie; calibrated: with the judge's "
        "narrowest preferences as ties, by a threshold from the dev split. Strengths: Spearman correlation of the "
        "judge's strengths with the humans' over systems; Pearson, Kendall: the same in these."
    )
    if one["resamples"]:
        notes.append(f"In brackets: 95 % intervals, {results.groups} resampled.")
    return " ".join(notes)


def ranking_sentences(results: Results) -> list[str]:
    """A sentence for each series that is shown in full, of clean texts where there are such: who is first, and are the
    humans of one mind?"""
    leads = [row for row in ranking_records(results) if row["lead"]]
    return [_ranking_sentence(row) for row in unattacked(leads) if row["ranking"]]


def _ranking_sentence(record: Mapping[str, Any]) -> str:
    rows: Sequence[Mapping[str, Any]] = record["ranking"]
    sentence, best = f"{record['condition']}: {record['name']} ", rows[0]
    if best["rank"] is None:
        return f"{sentence}ranks no systems{': ' + record['notes'][0] if record['notes'] else '.'}"
    firsts = [one for one in rows if one["rank_low"] == 1]
    sentence += f"ranks {best['system']} first of {len(rows)} systems"
    if len(firsts) > 1 and best["rank_high"] is not None:
        sentence += f", with {len(firsts) - 1} more that may be"
    if human := [str(one["system"]) for one in rows if one["human_rank"] == 1]:
        sentence += f"; the humans, {' and '.join(human[:3])}"
    if (found := record["strength_spearman"]) is not None:
        ends = interval(record["strength_spearman_low"], record["strength_spearman_high"])
        sentence += (
            f"; over systems its strengths have a Spearman correlation of {f'{short(found)} {ends}'.rstrip()} with "
        )
        sentence += "theirs"
    return f"{sentence}."
