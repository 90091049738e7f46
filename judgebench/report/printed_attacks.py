"""What a run prints of attacks: what they change, what learned phrases do, which decoding is easier to fool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.attack_differences import Fooled, arrange_attack_differences, differences_note, ends, hundredths
from judgebench.report.defended import DefenseBlock, arrange_defenses, defended_note
from judgebench.report.robustness import AttackBlock, AttackRow, arrange_attacks, attacks_note, rates, share
from judgebench.report.suffix_curves import Learned, arrange_suffix, constant_note, suffix_note
from judgebench.report.tables import three, titled


def attack_tables(
    records: Sequence[Mapping[str, Any]],
    suffix: Sequence[Mapping[str, Any]],
    differences: Sequence[Mapping[str, Any]],
    groups: str,
) -> list[RenderableType]:
    """The tables and what their numbers are; empty where nothing was attacked.

    Args:
        records: metrics.json; suffix, differences: attack/suffix.json and attack/differences.json.
        groups: what a group of examples is called.
    """
    parts: list[RenderableType] = []
    if attacks := arrange_attacks(records):
        parts += [*(_attacks(one) for one in attacks), Text(attacks_note(records, groups), style="dim")]
    if defended := arrange_defenses(records):
        parts += [*(_defenses(one) for one in defended), Text(defended_note(defended), style="dim")]
    if learned := arrange_suffix(suffix):
        parts += [table for one in learned if one.panels for table in (_words(one, groups), _seen(one, groups))]
        notes = dict.fromkeys(constant_note(one) for one in learned if one.constant)
        parts += [Text(" ".join([suffix_note(learned, groups), *notes]), style="dim")]
    if pairs := arrange_attack_differences(differences):
        parts += [*(_pair(one) for one in pairs), Text(differences_note(pairs, groups), style="dim")]
    return parts


def _attacks(block: AttackBlock) -> Table:
    table = titled(f"{block.condition}: attacks")
    table.add_column("attack", overflow="fold", max_width=28)
    for name in ("mean", "change", "rate", "rises", "at max", "first", "places", "Spearman"):
        table.add_column(name, justify="left" if name == "change" else "right", no_wrap=True)
    for section in block.sections:
        table.add_row(Text(f"{section.place}, {section.series}", style="bold"))
        for row in section.rows:
            table.add_row(f"  {row.attack} ", *(Text(f"{cell} ") for cell in _attack_cells(row)))
        table.add_section()
    return table


def _attack_cells(row: AttackRow) -> list[str]:
    return [
        "-" if row.mean is None else f"{row.mean:.2f}",
        f" {_change(row)}",
        rates(row),
        share(row.raised_share),
        share(row.maximum_share),
        share(row.win_share),
        "" if row.change is None else hundredths(row.places_gained),
        three(row.spearman),
    ]


def _defenses(block: DefenseBlock) -> Table:
    table = titled(f"{block.condition}: defenses side by side")
    table.add_column("attack, defense", overflow="fold", max_width=28)
    for name in ("clean", "Spearman", "attacked", "change", "rate", "rises"):
        table.add_column(name, justify="left" if name == "change" else "right", no_wrap=True)
    for section in block.sections:
        table.add_row(Text(f"{section.attack}: {section.place}, {section.series}", style="bold"))
        for row in section.rows:
            cells = [_mean(row.clean.mean), three(row.clean.spearman), _mean(row.attacked.mean)]
            cells += [f" {_change(row.attacked)}", rates(row.attacked), share(row.attacked.raised_share)]
            table.add_row(f"  {row.name} ", *(Text(f"{cell} ") for cell in cells))
        table.add_section()
    return table


def _words(one: Learned, groups: str) -> Table:
    """The curve on what the phrase never saw."""
    panel = one.panels[0]
    table = titled(
        f"{one.title}: words appended; {panel.title(groups)}, {panel.texts} texts of {panel.groups} {groups}"
    )
    table.add_column("words", justify="right", no_wrap=True)
    table.add_column(" phrase", overflow="fold", max_width=30)
    for name in ("mean", "change", "rate", "rises", "first"):
        table.add_column(name, justify="left" if name in ("mean", "change") else "right", no_wrap=True)
    for curve in panel.curves:
        table.add_row("", Text(f" {curve.series}", style="bold"))
        for point in curve.points:
            mean = "-" if point.mean is None else f"{point.mean:.2f}"
            mean += "" if point.mean_low is None else f" [{point.mean_low:.2f},{point.mean_high:.2f}]"
            cells = [mean, _change(point), rates(point), share(point.raised_share), share(point.win_share)]
            table.add_row(f"{point.length}", Text(f" {point.phrase}"), *(Text(f"{cell} ") for cell in cells))
        table.add_section()
    return table


def _seen(one: Learned, groups: str) -> Table:
    """What the longest phrase changes, by what it was learned on: a section a curve."""
    table = titled(f"{one.title}: {one.words} words, by what they were learned on")
    table.add_column("texts", overflow="fold", max_width=44)
    for name in ("n", "clean", "attacked"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("change", no_wrap=True)
    for series in dict.fromkeys(curve.series for panel in one.panels for curve in panel.curves):
        table.add_row(Text(str(series), style="bold"))
        for panel in one.panels:
            for curve in (curve for curve in panel.curves if curve.series == series):
                last = curve.points[-1]
                clean = curve.clean.mean if curve.clean else None
                cells = [f"  {panel.title(groups)} ({panel.split})", f"{panel.texts}", _mean(clean), _mean(last.mean)]
                cells += [_change(last)]
                table.add_row(*(Text(f"{cell} ") for cell in cells))
        table.add_section()
    return table


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _change(row: AttackRow) -> str:
    """The change with its interval; empty of clean texts."""
    if row.change is None:
        return ""
    told, low, high = (hundredths(end) for end in (row.change.value, row.change.low, row.change.high))
    return told if row.change.low is None else f"{told} [{low},{high}]"


def _pair(one: Fooled) -> Table:
    table = titled(f"{one.condition}: which is easier to fool? {one.first} against {one.second}")
    table.add_column("attack, range", overflow="fold", max_width=26)
    for name in ("first", "second", "first - second", "in spreads"):
        table.add_column(name, overflow="fold")
    table.add_column("verdict: the attack gains", overflow="fold")
    for row in one.rows:
        verdict = Text(row.verdict, style="bold" if row.told_apart else "")
        cells = [f"{row.attack}, {row.place}", hundredths(row.first), hundredths(row.second), ends(row.gap)]
        cells += [ends(row.standardized) if row.standardized.value is not None else "-"]
        table.add_row(*(Text(f"{cell} ") for cell in cells), verdict)
    return table
