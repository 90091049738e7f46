"""Judges that compare two texts: their bias and consistency, and systems ranked by their
comparisons."""

from __future__ import annotations

from functools import partial

from judgebench.report.table import Block, Col, Heading, Paragraph, View, labelled_rows, rows_by
from judgebench.results.results import Results, SeriesIndex, unattacked
from judgebench.stats.bradley_terry import ELO_MEAN, MEASURES
from judgebench.types import Row, Rows
from judgebench.words.formats import (
    UNKNOWN,
    no_text,
    percent,
    points,
    say,
    short,
    signed_points,
    signed_two,
    span,
    whole,
)


def pair_rows(results: Results) -> Rows:
    """The metrics of compared texts, of the reported split and level; empty where texts were judged
    alone."""
    rows = labelled_rows(row for row in results.shown if row.get(MEASURES[0]) is not None)
    for row in rows:
        row["name"] = _with_setting(row)
    for part in rows_by(rows, ["condition"]):
        pairs, preferred = (span(row[name] for row in part) for name in ("pairs", "preferred"))
        for row in part:
            row["size"] = f"{pairs} pairs, {preferred} with a human preference"
    return rows


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
    rows = [row for row in unattacked(pair_rows(results)) if row["judge"] == "main"]
    return [say("pairs", row=row) for row in rows]


def advice(rows: Rows) -> str:
    """A sentence on what to do with a judge that compares texts, by the rows of one condition."""
    line = say("answer", part="do", row=main_row(rows))
    return f"{line[:1].upper()}{line[1:]}."


def main_row(rows: Rows) -> Row:
    """The row of the main model, else the first."""
    return next((row for row in rows if row["judge"] == "main"), rows[0])


def _with_setting(row: Row) -> str:
    """The judge and decoding of a labelled row, with lambda and t where it has them."""
    return ", ".join(filter(None, [row["who"], row["setting"]]))


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
    rows = labelled_rows(
        {**joint, **record} for record in results.pairwise if record["split"] == results.split
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
        for side, who in (("", "Judge"), ("human_", "Humans")):
            if row[f"{side}unranked"]:
                row["notes"].append(f"{who}: no strengths, for {row[f'{side}unranked']}.")
            if row[f"{side}resting"]:
                row["notes"].append(f"{who}: {row[f'{side}resting']}.")
    models = [row for row in rows if row["judge"] in ("main", "pair")]
    for part in rows_by(models, ["condition", "judge"]):
        min(part, key=lambda row: row["rule"] != "expectation")["lead"] = True
    return rows


def _leads(results: Results) -> Rows:
    """The records that are shown in full."""
    return [record for record in ranking_records(results) if record["lead"]]


def _ranked(results: Results) -> Rows:
    """A row a system of each series that is shown in full."""
    return [
        record | system
        for record in _leads(results)
        for system in record["ranking"][:_SYSTEMS_SHOWN]
    ]


def _place(side: str, row: Row) -> str:
    """A system's rank with its interval, where it has one."""
    rank, low, high = (row[f"{side}{name}"] for name in ("rank", "rank_low", "rank_high"))
    if rank is None:
        return UNKNOWN
    return f"{rank}" if low is None or low == high == rank else f"{rank} [{low},{high}]"


def _counts(side: str, row: Row) -> str:
    """A system's wins, ties and losses; shares of them have a decimal."""
    counts = (float(row[f"{side}{name}"]) for name in ("wins", "ties", "losses"))
    return "/".join(f"{count:.1f}".removesuffix(".0") for count in counts)


def _standing(side: str, title: str) -> list[Col]:
    """The columns of a system's rank by the judge or by the humans."""
    return [
        Col(title, partial(_place, side), left=True),
        Col("Elo", f"{side}elo", whole, whole),
        Col("W/T/L", partial(_counts, side)),
        Col("wins", f"{side}win_share", percent, page=True),
    ]


RANKING = View(
    "ranking",
    "Systems ranked",
    _ranked,
    [
        Col("system", left=True),
        *_standing("", "rank"),
        *_standing("human_", "humans' rank"),
    ],
    by=["condition", "name"],
    title="{condition}: {name}",
    size="{size}",
)


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
            form=short,
            ends=short,
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
            short,
            short,
            optional=True,
            says="Spearman correlation of the judge's strengths with the humans' over systems",
        ),
        Col("Pearson", "strength_pearson", short, short, optional=True, page=True),
        Col("Kendall", "strength_kendall", short, short, optional=True, page=True),
    ),
    by=["condition"],
    size="{size}",
    note=lambda _, rows: say("rankings", rows=rows, ELO_MEAN=ELO_MEAN),
    brackets="{groups} resampled",
)


def ranking_blocks(results: Results) -> list[Block]:
    """The systems' tables with their notes, and the preferences."""
    tables = {table.title: table for table in RANKING.tables(results)}
    blocks: list[Block] = [Heading(RANKING.heading)] if tables else []
    for record in _leads(results):
        title = f"{record['condition']}: {record['name']}"
        if title in tables:
            blocks.append(tables[title])
        more = len(record["ranking"]) - _SYSTEMS_SHOWN
        if more > 0:
            blocks.append(Paragraph(f"{more} more systems are in pairwise.json.", note=True))
        blocks += [Paragraph(note, note=True) for note in record["notes"]]
    return [*blocks, *PREFERENCES(results)]


def ranking_sentences(results: Results) -> list[str]:
    """The first system and the humans' first, of each series that is shown in full."""
    return [say("ranking", row=row) for row in unattacked(_leads(results)) if row["ranking"]]
