"""Judges that compare two texts: position bias, consistency, and agreement with the humans' preferences."""

from __future__ import annotations

from typing import Any

import pandas as pd

from judgebench.metrics.comparative import MEASURES
from judgebench.report.formats import is_known, percent, points
from judgebench.report.table import Col, View, records
from judgebench.results.results import Results, unattacked
from judgebench.results.series import labelled

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
    shown = (results.split, results.level)
    rows = [record for record in results.metrics if (record["split"], record["level"]) == shown]
    frame = labelled(record for record in rows if record.get(MEASURES[0]) is not None)
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
        condition: f"{_span(part['pairs'])} pairs, {_span(part['preferred'])} with a human preference"
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
    told = f"{row['condition']}: {row['name']} gives the text in place one {100 * (0.5 + row['position_bias']):.0f} % "
    told += f"of its preference over all pairs in both orders (50 % is impartial), and {_same_winner(row)}"
    agreed, low, high = (row.get(f"human_agreement{end}") for end in ("", "_low", "_high"))
    if agreed is None:
        return f"{told}; nobody prefers a text of any pair."
    known = low is not None and high is not None
    bounds = f" [{100 * low:.0f}, {100 * high:.0f}]" if known else ""
    told += f"; both orders averaged, it sides with the humans in {100 * agreed:.0f} %{bounds} of those that they tell "
    return f"{told}apart{', as tossing a coin might' if known and low <= 0.5 <= high else ''}."


def _same_winner(row: Any) -> str:
    """The end of a sentence: how often both orders have one winner, ties apart."""
    tied_share, consistent = row["tied_share"], row["decided_consistency"]
    if tied_share is None:
        return f"prefers the same text in both orders in {100 * (consistent or 0.0):.0f} % of the pairs"
    tied = f"{100 * tied_share:.0f} % of the pairs have a tie in an order"
    if consistent is None:
        return f"decides no pair in both orders: {tied}"
    told = f"prefers the same text in both orders in {100 * consistent:.0f} % of the pairs"
    return f"{told} that both orders decide ({tied})" if tied_share > 0 else told


def with_setting(row: Any) -> str:
    """The judge and decoding of a labelled row, with lambda and t where it has them."""
    return f"{row['who']}, {row['setting']}" if row["setting"] else str(row["who"])


def _span(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"
