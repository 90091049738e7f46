"""How far a judge that compares texts can be trusted, arranged as people read it: a block a dimension, attack and
defense."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.metrics.comparative import MEASURES
from judgebench.metrics.levels import shown_level
from judgebench.report.results import Estimate, estimate
from judgebench.results.series import SeriesIndex, setting, shown_split

NOTE = (
    "Place one: how much more often than half of the time the text in place one wins, in percentage points; 0 for a "
    "judge that minds the texts and not their places. Same winner: of the pairs that both orders decide, the share in "
    "which the same text wins in both. Tied: share of pairs with a tie in an order, or in both. With humans: of the "
    "pairs in which the humans prefer a text, the share in which the judge, both orders averaged, prefers the same; "
    "undecided pairs count half, so tossing a coin has 50 %."
)


@dataclass(frozen=True)
class PairRow:
    """One judge and decoding.

    Attributes:
        judge: main, assistant or the pair.
        series: its name with the decoding, and lambda and t where it has them.
        position_bias, decided_consistency, tied_share, human_agreement: see `judgebench.metrics.comparative`. Runs of
            earlier versions know neither the second nor the third, and have consistency in place of the second.
    """

    judge: str
    series: str
    position_bias: Estimate
    decided_consistency: Estimate
    tied_share: Estimate
    human_agreement: Estimate
    consistency: Estimate


@dataclass(frozen=True)
class PairBlock:
    """One dimension under one attack and defense.

    Attributes:
        pairs: how many were compared, (fewest, most); preferred: in how many the humans prefer a text.
    """

    condition: str
    attack: str
    rows: Sequence[PairRow]
    pairs: tuple[int, int]
    preferred: tuple[int, int]

    @property
    def size(self) -> str:
        """On how much the block rests."""
        counted = [str(low) if low == high else f"{low} to {high}" for low, high in (self.pairs, self.preferred)]
        return f"{counted[0]} pairs, {counted[1]} with a human preference"


def arrange_comparative(records: Sequence[Mapping[str, Any]]) -> list[PairBlock]:
    """The records of metrics.json that compare texts, of the shown split; empty where texts were judged alone."""
    split = shown_split(record["split"] for record in records)
    level = shown_level(record["level"] for record in records)
    shown = [record for record in records if (record["split"], record["level"]) == (split, level)]
    index = SeriesIndex(shown)
    blocks: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in shown:
        if record.get(MEASURES[0]) is not None:
            blocks.setdefault((record["dimension"], record["attack"], record["defense"]), []).append(record)
    return [_block(key, held, index) for key, held in blocks.items()]


def points(estimate: Estimate) -> str:
    """A bias in percentage points, with its sign and interval.

    Example:
        >>> points(Estimate(0.123, -0.001, 0.2)), points(Estimate(None))
        ('+12 [0,+20]', '-')
    """
    return _with_ends(estimate, _signed)


def shares(estimate: Estimate) -> str:
    """A share in per cent, with its interval.

    Example:
        >>> shares(Estimate(0.5, 0.25, 0.75)), shares(Estimate(0.5))
        ('50 % [25,75]', '50 %')
    """
    return _with_ends(estimate, lambda value: f"{100 * value:.0f}", " %")


def comparative_sentences(blocks: Sequence[PairBlock]) -> list[str]:
    """A sentence for each decoding of each block's main model: does the place decide, and does the judge side with the
    humans?"""
    return [_sentence(block, row) for block in blocks for row in block.rows if row.judge == "main"]


def _sentence(block: PairBlock, row: PairRow) -> str:
    bias, agreed = (one.value or 0.0 for one in (row.position_bias, row.human_agreement))
    told = f"{block.condition}: {row.series} gives the text in place one {100 * (0.5 + bias):.0f} % of its preference "
    told += f"over all pairs in both orders (50 % is impartial), and {_same_winner(row)}"
    if row.human_agreement.value is None:
        return f"{told}; nobody prefers a text of any pair."
    ends = row.human_agreement
    bounds = "" if ends.low is None or ends.high is None else f" [{100 * ends.low:.0f}, {100 * ends.high:.0f}]"
    told += f"; both orders averaged, it sides with the humans in {100 * agreed:.0f} %{bounds} of those that they tell "
    told += "apart"
    if ends.low is not None and ends.high is not None and ends.low <= 0.5 <= ends.high:
        told += ", as tossing a coin might"
    return f"{told}."


def _same_winner(row: PairRow) -> str:
    """The end of a sentence: how often both orders have one winner, ties apart."""
    if row.tied_share.value is None:
        return f"prefers the same text in both orders in {100 * (row.consistency.value or 0.0):.0f} % of the pairs"
    tied = f"{100 * row.tied_share.value:.0f} % of the pairs have a tie in an order"
    if row.decided_consistency.value is None:
        return f"decides no pair in both orders: {tied}"
    told = f"prefers the same text in both orders in {100 * row.decided_consistency.value:.0f} % of the pairs"
    return f"{told} that both orders decide ({tied})" if row.tied_share.value > 0 else told


def _block(key: tuple[str, str, str], held: Sequence[Mapping[str, Any]], index: SeriesIndex) -> PairBlock:
    dimension, *axes = key
    told = [f"{axis} {name}" for axis, name in zip(("attack", "defense"), axes, strict=True) if name != "none"]
    ordered = sorted(held, key=lambda record: index.all.index(index.of(record)))
    pairs, preferred = ([int(record[name]) for record in held] for name in ("pairs", "preferred"))
    return PairBlock(
        ", ".join([dimension, *told]),
        axes[0],
        [_row(record, index) for record in ordered],
        (min(pairs), max(pairs)),
        (min(preferred), max(preferred)),
    )


def _row(record: Mapping[str, Any], index: SeriesIndex) -> PairRow:
    series = index.of(record)
    knobs = "" if series.setting else setting(record)
    found = {name: estimate(record, name) for name in (*MEASURES, "decided_consistency", "tied_share")}
    if found["tied_share"].value is None:
        found["decided_consistency"] = found["consistency"]
    return PairRow(series.judge, f"{series}, {knobs}" if knobs else str(series), **found)


def _with_ends(estimate: Estimate, shown: Callable[[float], str], unit: str = "") -> str:
    if estimate.value is None:
        return "-"
    text = f"{shown(estimate.value)}{unit}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{shown(estimate.low)},{shown(estimate.high)}]"


def _signed(value: float) -> str:
    whole = round(100 * value)
    return f"{whole:+d}" if whole else "0"
