"""What attacks change, arranged as people read it: a block a dimension and defense, a section a range and judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report.results import Estimate, level_note
from judgebench.results.series import NO_DEFENSE, SeriesIndex, defenses_of, number, range_of, shown_split

NOTE = (
    "Mean: of the scores. Change: mean attacked - mean clean. Rate: of change, as the mean change over the mean clean "
    "score / as the mean of each text's own. Rises: share of texts whose score rises. At max: share scored at the "
    "range's maximum. First: share of texts that outscore the clean texts of all other systems of their group. Places: "
    "by how many ranks an attacked text rises among these."
)


@dataclass(frozen=True)
class AttackRow:
    """One attack, or the clean texts; None where a number is of attacks alone, or unknown."""

    attack: str
    mean: float | None
    maximum_share: float | None
    win_share: float | None
    spearman: float | None
    change: Estimate | None = None
    rate_of_means: float | None = None
    mean_of_rates: float | None = None
    raised_share: float | None = None
    places_gained: float | None = None

    @property
    def told(self) -> bool:
        """Whether the change's interval leaves out 0."""
        ends = self.change
        return ends is not None and ends.low is not None and ends.high is not None and not ends.low <= 0 <= ends.high


@dataclass(frozen=True)
class AttackSection:
    """One judge and decoding at one range; the clean texts come first."""

    place: str
    series: str
    rows: Sequence[AttackRow]


@dataclass(frozen=True)
class AttackBlock:
    """One dimension under one defense."""

    condition: str
    sections: Sequence[AttackSection]
    defense: str = NO_DEFENSE


def arrange_attacks(records: Sequence[Mapping[str, Any]]) -> list[AttackBlock]:
    """The attacked records of metrics.json that have a clean base, of the shown split and level, by appearance."""
    split = shown_split(record["split"] for record in records)
    level = shown_level(record["level"] for record in records)
    shown = [record for record in records if (record["split"], record["level"]) == (split, level)]
    index, defenses = SeriesIndex(shown), defenses_of(shown)
    dimensions = list(dict.fromkeys(record["dimension"] for record in shown))
    blocks: dict[tuple[str, str], dict[Any, list[Mapping[str, Any]]]] = {}
    for record in shown:
        if record["attack"] != CLEAN and record.get("change") is not None:
            sections = blocks.setdefault((record["dimension"], record["defense"]), {})
            sections.setdefault((range_of(record), index.of(record)), []).append(record)
    return [
        AttackBlock(
            ", ".join([dimension, *([] if defense == "none" else [f"defense {defense}"])]),
            [
                AttackSection(str(score_range), str(series), [_clean(held[0]), *map(_attacked, held)])
                for (score_range, series), held in sections.items()
            ],
            defense,
        )
        for (dimension, defense), sections in sorted(
            blocks.items(), key=lambda one: (dimensions.index(one[0][0]), defenses.index(one[0][1]))
        )
    ]


def attacks_note(records: Sequence[Mapping[str, Any]], groups_are: str) -> str:
    """What the numbers are, and at which level and on which split."""
    split = shown_split(record["split"] for record in records)
    level = shown_level(record["level"] for record in records)
    intervals = any(record.get("change_low") is not None for record in records)
    brackets = f" [95 % interval, {groups_are} resampled, clean and attacked together]" if intervals else ""
    return f"{split} split{brackets}. {NOTE} Spearman: {level_note(level, groups_are)}."


def attack_sentences(blocks: Sequence[AttackBlock]) -> list[str]:
    """One sentence a block: the attack that raises a mean score most, in which range and of which judge, of those that
    do so by more than chance; without intervals, of all."""
    return [_sentence(block) for block in blocks]


def _sentence(block: AttackBlock) -> str:
    found = [
        (row.attack, section, row.change)
        for section in block.sections
        for row in section.rows
        if row.change is not None
    ]
    attacks = len({attack for attack, _, _ in found})
    bounded = any(change.low is not None for _, _, change in found)
    raising = [one for one in found if one[2].low is not None and one[2].low > 0] if bounded else found
    if not raising:
        counted = "the attack does not raise" if attacks == 1 else f"none of {attacks} attacks raises"
        return f"{block.condition}: {counted} a mean score by more than chance."
    attack, section, change = max(raising, key=lambda one: one[2].value or 0.0)
    told = f"{block.condition}: {attack} changes the mean score of {section.series} in range {section.place} by "
    told += f"{change.value:+.2f}"
    told += f" [{change.low:+.2f}, {change.high:+.2f}]" if bounded else ""
    told += f", the most of {attacks} attacks" if attacks > 1 else ""
    return f"{told}." if bounded else f"{told}; without an interval, nothing tells that from chance."


def rates(row: AttackRow) -> str:
    """Both readings of the rate, in per cent.

    Example:
        >>> rates(AttackRow("dsi", 4.0, 0.5, 0.5, 0.1, Estimate(1.0), 0.333, 0.5))
        '33/50 %'
    """
    if row.change is None:
        return ""
    shown = ["-" if rate is None else f"{100 * rate:.0f}" for rate in (row.rate_of_means, row.mean_of_rates)]
    return f"{'/'.join(shown)} %"


def share(value: float | None) -> str:
    """A share in whole per cent; empty where there is none.

    Example:
        >>> share(0.256), share(None)
        ('26 %', '')
    """
    return "" if value is None else f"{100 * value:.0f} %"


def _clean(record: Mapping[str, Any]) -> AttackRow:
    return AttackRow(
        "clean",
        mean=number(record["clean_mean_score"]),
        maximum_share=number(record["clean_maximum_share"]),
        win_share=number(record["clean_win_share"]),
        spearman=number(record["clean_spearman"]),
    )


def _attacked(record: Mapping[str, Any]) -> AttackRow:
    return AttackRow(
        str(record["attack"]),
        mean=number(record["attacked_mean_score"]),
        maximum_share=number(record["maximum_share"]),
        win_share=number(record["win_share"]),
        spearman=number(record["spearman"]),
        change=Estimate(number(record["change"]), number(record["change_low"]), number(record["change_high"])),
        rate_of_means=number(record["rate_of_means"]),
        mean_of_rates=number(record["mean_of_rates"]),
        raised_share=number(record["raised_share"]),
        places_gained=number(record["places_gained"]),
    )
