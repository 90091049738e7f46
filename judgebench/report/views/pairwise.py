"""Judges that compare two texts: their bias and consistency, and systems ranked by their
comparisons."""

from __future__ import annotations

from typing import Any

from judgebench.report.formats import (
    is_known,
    no_text,
    percent,
    points,
    say,
    short,
    signed_two,
    span,
    whole,
)
from judgebench.report.table import (
    Block,
    Col,
    Heading,
    Paragraph,
    Row,
    Rows,
    View,
    records,
    rows_by,
)
from judgebench.report.views.humans import ENDS
from judgebench.results.results import Results, SeriesIndex, labelled, unattacked
from judgebench.stats.bradley_terry import MEASURES


def pair_rows(results: Results) -> Rows:
    """The metrics of compared texts, of the reported split and level; empty where texts were judged
    alone.

    Runs of earlier versions know neither `decided_consistency` nor `tied_share`, and have
    `consistency` instead.
    """
    rows = records(
        labelled(record for record in results.shown if record.get(MEASURES[0]) is not None)
    )
    for row in rows:
        row["name"] = _with_setting(row)
        if row.setdefault("tied_share") is None:
            row |= {f"decided_consistency{end}": row.get(f"consistency{end}") for end in ENDS}
    for part in rows_by(rows, ["condition"]):
        pairs, preferred = (span(row[name] for row in part) for name in ("pairs", "preferred"))
        for row in part:
            row["size"] = f"{pairs} pairs, {preferred} with a human preference"
    return rows


def signed_points(value: Any) -> str:
    """A bias in percentage points, with its sign.

    Example:
        >>> signed_points(0.123), signed_points(-0.001), signed_points(None)
        ('+12', '0', '-')
    """
    return (f"{round(100 * value):+d}" if round(100 * value) else "0") if is_known(value) else "-"


PAIRS = View(
    "pairs",
    "Which of two is better?",
    pair_rows,
    (
        Col("judge, decoding", "name", left=True),
        Col(
            "place one",
            "position_bias",
            signed_points,
            signed_points,
            says="how much more often than half of the time the text in place one wins, in "
            "percentage points; 0 for a judge that minds the texts and not their places",
        ),
        Col(
            "same winner",
            "decided_consistency",
            percent,
            points,
            says="of the pairs that both orders decide, the share in which the same text wins in "
            "both",
        ),
        Col(
            "tied",
            "tied_share",
            percent,
            points,
            says="share of pairs with a tie in an order, or in both",
        ),
        Col(
            "with humans",
            "human_agreement",
            percent,
            points,
            says="of the pairs in which the humans prefer a text, the share in which the judge, "
            "both orders averaged, prefers the same; undecided pairs count half, so tossing a "
            "coin has 50 %",
        ),
    ),
    by=["condition"],
    size="{size}",
    brackets="{groups} resampled",
)


def pair_sentences(results: Results) -> list[str]:
    """Of each decoding of the main model: does the place decide, and does it side with the
    humans?"""
    return [
        say("pairs", row=row) for row in unattacked(pair_rows(results)) if row["judge"] == "main"
    ]


def _with_setting(row: Row) -> str:
    """The judge and decoding of a labelled row, with lambda and t where it has them."""
    return f"{row['who']}, {row['setting']}" if row["setting"] else str(row["who"])


_SYSTEMS_SHOWN = 60
"""Rows of a table of systems, the strongest first."""


def ranking_records(results: Results) -> Rows:
    """The records of pairwise.json of the reported split, labelled as by `labelled`.

    Added are `name`, the series with lambda and t where it has them; `size`; `series_id`, the
    `Series`; `notes`, warnings about what is missing or rests on the prior; and `lead`: whether it
    is shown in full, which are of main and of the pair the first whose scores are expectations,
    else the first.
    """
    joint = {"range_min": 0.0, "range_max": 0.0, "range_step": 1.0}
    rows = records(
        labelled(
            joint | dict(record) for record in results.pairwise if record["split"] == results.split
        )
    )
    index = SeriesIndex(rows)
    for row in rows:
        row |= {
            "series_id": index.of(row),
            "name": _with_setting(row),
            "lead": False,
        }
        row["size"] = f"{row['pairs']:g} pairs of {row['groups']:.0f} {results.groups}"
        row["notes"] = []
        for prefix, who in (("", "Judge"), ("human_", "Humans")):
            if row[f"{prefix}unranked"]:
                row["notes"].append(f"{who}: no strengths, for {row[f'{prefix}unranked']}.")
            if row[f"{prefix}resting"]:
                row["notes"].append(f"{who}: {row[f'{prefix}resting']}.")
    for part in rows_by(
        [row for row in rows if row["judge"] in ("main", "pair")], ["condition", "judge"]
    ):
        min(part, key=lambda row: row["rule"] != "expectation")["lead"] = True
    return rows


def _ranked(results: Results) -> Rows:
    """A row a system of each series that is shown in full; shares of wins, ties and losses have a
    decimal."""
    rows: Rows = []
    for record in ranking_records(results):
        for system in record["ranking"][:_SYSTEMS_SHOWN] if record["lead"] else ():
            texts = {}
            for side in ("", "human_"):
                rank, low, high = (
                    system[f"{side}{name}"] for name in ("rank", "rank_low", "rank_high")
                )
                between = "" if low is None or low == high == rank else f" [{low},{high}]"
                counts = (float(system[f"{side}{name}"]) for name in ("wins", "ties", "losses"))
                texts[f"{side}place"] = "-" if rank is None else f"{rank}{between}"
                texts[f"{side}counts"] = "/".join(
                    f"{count:.1f}".removesuffix(".0") for count in counts
                )
            rows.append(record | system | texts)
    return rows


RANKING = View(
    "ranking",
    "Systems ranked",
    _ranked,
    (
        Col("system", "system", left=True),
        Col("rank", "place", left=True),
        Col("Elo", "elo", whole, whole),
        Col("W/T/L", "counts"),
        Col("wins", "win_share", percent, page=True),
        Col("humans' rank", "human_place", left=True),
        Col("Elo", "human_elo", whole, whole),
        Col("W/T/L", "human_counts"),
        Col("wins", "human_win_share", percent, page=True),
    ),
    by=["condition", "name"],
    title="{condition}: {name}",
    size="{size}",
)


def _correlation(value: Any) -> str:
    return short(value) if is_known(value) else "-"


PREFERENCES = View(
    "preferences",
    "Preferences against the humans'",
    ranking_records,
    (
        Col("judge, decoding", "name", left=True, width=24),
        Col(
            "place one",
            "place_effect",
            signed_two,
            optional=True,
            says="the worth of standing first, in log-odds (0: nothing)",
        ),
        Col("95 % interval", "place_effect", no_text, signed_two, optional=True, page=True),
        Col(
            "AUC",
            "auc",
            percent,
            points,
            optional=True,
            says="how well the judge's preference shows which text the humans prefer (50 is "
            "chance)",
        ),
        Col(
            "tau",
            "tau",
            _correlation,
            short,
            optional=True,
            says="Kendall's tau-b of both sides' preferences",
        ),
        Col(
            "same",
            "accuracy",
            percent,
            points,
            optional=True,
            says="share of pairs in which both name one text, or both a tie",
        ),
        Col(
            "calibrated",
            "accuracy_calibrated",
            percent,
            points,
            optional=True,
            says="the same with the judge's narrowest preferences as ties, by a threshold from the "
            "dev split",
        ),
        Col(
            "strengths",
            "strength_spearman",
            _correlation,
            short,
            optional=True,
            says="Spearman correlation of the judge's strengths with the humans' over systems",
        ),
        Col("Pearson", "strength_pearson", _correlation, short, optional=True, page=True),
        Col("Kendall", "strength_kendall", _correlation, short, optional=True, page=True),
    ),
    by=["condition"],
    size="{size}",
    note="rankings.txt",
    brackets="{groups} resampled",
)


def ranking_blocks(results: Results) -> list[Block]:
    """The systems' tables with their notes, and the preferences."""
    tables = {table.title: table for table in RANKING.tables(results)}
    blocks: list[Block] = [Heading(RANKING.heading)] if tables else []
    for record in (record for record in ranking_records(results) if record["lead"]):
        title = f"{record['condition']}: {record['name']}"
        more = len(record["ranking"]) - _SYSTEMS_SHOWN
        blocks += [tables[title]] if title in tables else []
        notes = (
            [f"{more} more systems are in pairwise.json.", *record["notes"]]
            if more > 0
            else record["notes"]
        )
        blocks += [Paragraph(note, note=True) for note in notes]
    return [*blocks, *PREFERENCES(results)]


def ranking_sentences(results: Results) -> list[str]:
    """The first system and the humans' first, of each series that is shown in full."""
    leads = unattacked([row for row in ranking_records(results) if row["lead"]])
    return [say("ranking", row=row) for row in leads if row["ranking"]]
