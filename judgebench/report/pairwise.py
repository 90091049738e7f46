"""Systems ranked by comparisons, arranged as people read them: a block a judge and decoding under each condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.metrics.bradley_terry import ELO_MEAN
from judgebench.metrics.comparisons import DAVIDSON
from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.ranking import AGREED, MAJORITY
from judgebench.metrics.robustness import CLEAN
from judgebench.report.results import Estimate
from judgebench.results.series import Series, SeriesIndex, number, setting, shown_split

_EXPECTATION = "expectation"
_OUTCOMES = {
    MAJORITY: "A text wins that both orders together prefer.",
    AGREED: "A text wins that both orders prefer, anything else is a tie.",
}


@dataclass(frozen=True)
class Placed:
    """A system as one side ranks it: rank with its ends, Elo, and its wins, ties and losses."""

    rank: int | None
    rank_low: int | None
    rank_high: int | None
    elo: Estimate
    wins: float
    ties: float
    losses: float
    win_share: float | None


@dataclass(frozen=True)
class SystemRow:
    """A system, as the judge ranks it and as the humans do."""

    system: str
    judge: Placed
    humans: Placed


@dataclass(frozen=True)
class Margin:
    """Pairs whose texts the humans find so far apart, and how often the judge sides with them."""

    above: float
    up_to: float
    pairs: float
    agreement: Estimate


@dataclass(frozen=True)
class RankingBlock:
    """One judge and decoding under one condition.

    Attributes:
        label: the series, with lambda and t where it has them.
        estimates: by the names of `judgebench.metrics.pairwise`: place_effect, attack_effect, tau, auc, accuracy,
            accuracy_calibrated, strength_pearson, strength_spearman, strength_kendall.
        rows: the systems, the strongest first.
        notes: sentences on what is missing, or rests on the prior.
        lead: whether it is shown in full where only one of a judge's decodings is.
        shares: (first, second) -> win share of the first after the judge, and after the humans.
    """

    condition: str
    attack: str
    dimension: str
    series: Series
    label: str
    pairs: float
    groups: int
    rows: Sequence[SystemRow]
    estimates: Mapping[str, Estimate]
    tie_threshold: float | None
    margins: Sequence[Margin]
    notes: Sequence[str]
    lead: bool
    shares: Mapping[tuple[str, str], tuple[float | None, float | None]]

    @property
    def title(self) -> str:
        """Condition and series."""
        return f"{self.condition}: {self.label}"

    def size(self, groups: str) -> str:
        """On how much it rests."""
        return f"{self.pairs:g} pairs of {self.groups} {groups}"


ESTIMATES = (
    *("place_effect", "attack_effect", "tau", "auc", "accuracy", "accuracy_calibrated"),
    *(f"strength_{name}" for name in CORRELATIONS),
)


def arrange_pairwise(records: Sequence[Mapping[str, Any]]) -> list[RankingBlock]:
    """The records of pairwise.json of the shown split; series that are shown in full are marked `lead`: of main and of
    pair, the first whose scores are expectations, else the first."""
    split = shown_split(record["split"] for record in records)
    shown = [record for record in records if record["split"] == split]
    index = SeriesIndex(shown)
    held: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in shown:
        held.setdefault((record["dimension"], record["attack"], record["defense"]), []).append(record)
    blocks = []
    for found in held.values():
        ordered = sorted(found, key=lambda record: index.all.index(index.of(record)))
        leads = [_lead([one for one in ordered if one["judge"] == judge]) for judge in ("main", "pair")]
        blocks += [_block(record, index, any(record is lead for lead in leads)) for record in ordered]
    return blocks


def leading(blocks: Sequence[RankingBlock]) -> list[RankingBlock]:
    """Those shown in full."""
    return [block for block in blocks if block.lead]


def elo(estimate: Estimate) -> str:
    """Elo points with their interval.

    Example:
        >>> elo(Estimate(1063.4, 1020.8, 1104.0)), elo(Estimate(None))
        ('1063 [1021,1104]', '-')
    """
    return _with_ends(estimate, lambda value: f"{value:.0f}")


def effect(estimate: Estimate) -> str:
    """Log-odds with sign and interval."""
    return _with_ends(estimate, lambda value: f"{round(value, 2) + 0.0:+.2f}")


def bare_effect(estimate: Estimate) -> str:
    """Log-odds with sign, without interval."""
    return effect(Estimate(estimate.value))


def correlation(estimate: Estimate) -> str:
    """A number of at most 1 with its interval, two decimals."""
    return _with_ends(estimate, lambda value: f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1))


def rank(placed: Placed) -> str:
    """A rank with the ranks between which it lies.

    Example:
        >>> rank(Placed(2, 1, 3, Estimate(None), 0, 0, 0, None)), rank(Placed(2, 2, 2, Estimate(None), 0, 0, 0, None))
        ('2 [1,3]', '2')
    """
    if placed.rank is None:
        return "-"
    if placed.rank_low is None or placed.rank_low == placed.rank_high == placed.rank:
        return str(placed.rank)
    return f"{placed.rank} [{placed.rank_low},{placed.rank_high}]"


def ends(placed: Placed) -> str:
    """Wins, ties and losses; shares of comparisons have a decimal.

    Example:
        >>> ends(Placed(2, 1, 3, Estimate(None), 10.44, 0, 5, None))
        '10.4/0/5'
    """
    return "/".join(f"{value:.1f}".removesuffix(".0") for value in (placed.wins, placed.ties, placed.losses))


def share(value: float | None) -> str:
    """A share in per cent."""
    return "-" if value is None else f"{100 * value:.0f} %"


def shares(estimate: Estimate) -> str:
    """A share in per cent with its interval."""
    return _with_ends(estimate, lambda value: f"{100 * value:.0f}", " %")


def pairwise_note(records: Sequence[Mapping[str, Any]], groups: str) -> str:
    """What whoever reads the tables must know."""
    if not records:
        return ""
    one = records[0]
    model = (
        "Davidson's model, in which ties have odds of their own"
        if one["ties"] == DAVIDSON
        else ("Bradley and Terry's model, a tie half a win for each")
    )
    told = f"Elo: 400 points are odds of 10 to 1, {ELO_MEAN:.0f} "
    told += "the mean of all systems" if one["reference"] is None else f"is {one['reference']}"
    told += f"; {model}. {_OUTCOMES.get(one['outcome'], '')}".rstrip()
    if one["prior"]:
        told += f" Beforehand each system drew even in {one['prior']:g} imagined comparison"
        told += f"{'' if one['prior'] == 1 else 's'} with one of mean strength."
    told += (
        " W/T/L: comparisons won, tied and lost, in shares of one where the judge's preference is one. Humans: from "
    )
    told += "the same pairs. Place one: what standing first is worth, in log-odds (0: nothing). AUC: how well the "
    told += "judge's preference tells which text the humans prefer (50 is chance); tau: Kendall's tau-b of both sides' "
    told += (
        "preferences; same: share of pairs in which both name one text, or both a tie; calibrated: with the judge's "
    )
    told += "narrowest preferences as ties, by a threshold from the dev split. Strengths: rank correlation of the "
    told += "judge's strengths with the humans' over systems."
    if one["resamples"]:
        told += f" In brackets: 95 % intervals, {groups} resampled."
    return told


def pairwise_sentences(blocks: Sequence[RankingBlock]) -> list[str]:
    """A sentence for each block that is shown in full, of clean texts where there are such: who is first, and are the
    humans of one mind?"""
    clean = [block for block in leading(blocks) if block.attack == CLEAN]
    return [_sentence(block) for block in clean or leading(blocks) if block.rows]


def _sentence(block: RankingBlock) -> str:
    best = block.rows[0]
    told = f"{block.condition}: {block.label} "
    if best.judge.rank is None:
        return f"{told}ranks no systems{': ' + block.notes[0] if block.notes else ''}."
    firsts = [row.system for row in block.rows if row.judge.rank_low == 1]
    told += f"ranks {best.system} first of {len(block.rows)} systems"
    if len(firsts) > 1 and best.judge.rank_high is not None:
        told += f", with {len(firsts) - 1} more that may be"
    human = [row for row in block.rows if row.humans.rank == 1]
    if human:
        told += f"; the humans, {' and '.join(row.system for row in human[:3])}"
    found = block.estimates["strength_spearman"]
    if found.value is not None:
        told += f"; over systems its strengths have a Spearman correlation of {correlation(found)} with theirs"
    return f"{told}."


def _lead(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    by_rule = [record for record in records if record["rule"] == _EXPECTATION]
    return next(iter(by_rule or records), None)


def _block(record: Mapping[str, Any], index: SeriesIndex, lead: bool) -> RankingBlock:
    axes = [(axis, record[axis]) for axis in ("attack", "defense")]
    told = [f"{axis} {name}" for axis, name in axes if name != CLEAN]
    series = index.of(record)
    knobs = "" if series.setting else setting(record)
    held = {(one["first"], one["second"]): (one["win_share"], one["human_win_share"]) for one in record["system_pairs"]}
    return RankingBlock(
        condition=", ".join([record["dimension"], *told]),
        attack=record["attack"],
        dimension=record["dimension"],
        series=series,
        label=f"{series}, {knobs}" if knobs else str(series),
        pairs=record["pairs"],
        groups=int(record["groups"]),
        rows=[SystemRow(one["system"], _placed(one, ""), _placed(one, "human_")) for one in record["ranking"]],
        estimates={name: _estimate(record, name) for name in ESTIMATES},
        tie_threshold=number(record["tie_threshold"]),
        margins=[
            Margin(one["above"], one["up_to"], one["pairs"], _estimate(one, "agreement")) for one in record["margins"]
        ],
        notes=_notes(record),
        lead=lead,
        shares=held,
    )


def _notes(record: Mapping[str, Any]) -> list[str]:
    told = []
    for prefix, who in (("", "Judge"), ("human_", "Humans")):
        if record[f"{prefix}unranked"]:
            told.append(f"{who}: no strengths, for {record[f'{prefix}unranked']}.")
        if record[f"{prefix}resting"]:
            told.append(f"{who}: {record[f'{prefix}resting']}.")
    if record["undetermined_share"]:
        told.append(
            f"No intervals of strengths: in {100 * record['undetermined_share']:.1f} % of the resamples they are "
            "infinite; pairwise.prior=1 holds them back."
        )
    return told


def _placed(one: Mapping[str, Any], prefix: str) -> Placed:
    rank, low, high = (one[f"{prefix}{name}"] for name in ("rank", "rank_low", "rank_high"))
    wins, ties, losses = (float(one[f"{prefix}{name}"]) for name in ("wins", "ties", "losses"))
    return Placed(
        rank, low, high, _estimate(one, f"{prefix}elo"), wins, ties, losses, number(one[f"{prefix}win_share"])
    )


def _estimate(record: Mapping[str, Any], name: str) -> Estimate:
    value, low, high = (number(record[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return Estimate(value, low, high)


def _with_ends(estimate: Estimate, shown: Callable[[float], str], unit: str = "") -> str:
    if estimate.value is None:
        return "-"
    text = f"{shown(estimate.value)}{unit}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{shown(estimate.low)},{shown(estimate.high)}]"
