"""The tables that a run prints, as rich renderables; printing is the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.evaluation import CONSTANT
from judgebench.report.results import (
    Block,
    Estimate,
    Row,
    arrange,
    few_note,
    has_intervals,
    level_note,
    missing_note,
    resampled_note,
)
from judgebench.results.series import Series, shown_split

WIDTH = 100
"""Columns that the tables are made for; a console narrower than this folds cells."""


def metrics_table(
    records: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None], split: str = "test"
) -> RenderableType:
    """Correlations with the humans: a table a dimension, a section a range, averages over the ranges below.

    The best of each section is underlined and starred, so that it can be told in a plain file too. Give a console
    that is at least `WIDTH` wide; rich takes 80 when its output is a file.

    Args:
        records: metrics.json; of `split`, the dataset level is shown, or the first if there is no such level. Where
            nothing is of `split`, the split that there is stands in for it, and the note says so.
        titles: `main` and `assistant` (None without one), the models' names; `groups`, what a group is ("articles"),
            and `examples`, what is judged in it ("examples", "pairs"); `note`, what must be known of scores and data.
    """
    asked, split = split, split if any(record["split"] == split for record in records) else _only(records, split)
    blocks = arrange(records, split)
    if not blocks:
        return Text(f"No records of the {split} split.")
    head = Text(judges_line(titles), style="bold")
    groups = groups_word(titles)
    note = f"There is no {asked} split: this is the {split} split." if asked != split else f"{split} split."
    note += f" Correlation {level_note(blocks[0].level, groups)}."
    if has_intervals(blocks):
        note += f" [95 % interval, {resampled_note(blocks[0].level, groups)}]."
    if few := few_note(blocks, groups):
        note += f" {few}"
    if why := missing_note(blocks):
        note += f" {why}"
    note += " * best of its range, if above 0."
    if any(block.averages for block in blocks):
        note += " average: mean over the ranges."
    if any(_says_nothing(block) for block in blocks):
        note += " The assistant is left out where it gives every text the same score."
    if titles.get("note"):
        note += f" {titles['note']}"
    return Group(head, *(_table(block, titles) for block in blocks), Text(note, style="dim"))


def _only(records: Sequence[Mapping[str, Any]], split: str) -> str:
    return shown_split(record["split"] for record in records) if records else split


def agreement_lines(agreement: Mapping[str, Mapping[str, float | None]]) -> RenderableType:
    """Agreement of the human experts among themselves, the ceiling for any judge; a line a dimension.

    Args:
        agreement: dimension -> {alpha, spearman}: Krippendorff's alpha and the mean Spearman between two experts;
            None where undefined.
    """
    width = max((len(dimension) for dimension in agreement), default=0)
    lines = [
        f"experts on {dimension:<{width}}  "
        f"Krippendorff's alpha {three(known['alpha'])}, Spearman {three(known['spearman'])}"
        for dimension, known in agreement.items()
    ]
    return Text("\n".join(lines))


def judges_line(titles: Mapping[str, str | None]) -> str:
    """Which model is main and which assistant."""
    assistant = titles.get("assistant")
    return f"main: {titles['main']}" + (f" · assistant: {assistant}" if assistant else "")


def groups_word(titles: Mapping[str, str | None]) -> str:
    """Word for a group of examples."""
    return titles.get("groups") or "articles"


def titled(text: str) -> Table:
    """An empty table under a title, which is taken as it is: names may hold what rich would take for markup."""
    table = Table(box=box.HORIZONTALS, padding=0, pad_edge=False, title_justify="left", title_style="bold")
    table.title = Text(text)
    return table


def examples_word(titles: Mapping[str, str | None]) -> str:
    """Word for what is judged: examples, or pairs of them."""
    return titles.get("examples") or "examples"


def _table(block: Block, titles: Mapping[str, str | None]) -> Table:
    clamped = any(row.clamped_share for section in block.sections for row in section.rows)
    table = Table(box=box.HORIZONTALS, padding=0, pad_edge=False)
    table.title = f"{block.condition}: {block.size(groups_word(titles), examples_word(titles))}"
    table.title_justify = "left"
    table.title_style = "bold"
    table.add_column("range", overflow="fold", max_width=9)
    table.add_column("judge, decoding", overflow="fold", max_width=24)
    for name in CORRELATIONS:
        table.add_column(name.capitalize(), overflow="fold")
    table.add_column("failed", justify="right", no_wrap=True)
    if clamped:
        table.add_column("clamped", justify="right", no_wrap=True)
    left_out = _says_nothing(block)
    for section in block.sections:
        for position, row in enumerate(row for row in section.rows if row.series not in left_out):
            table.add_row(str(section.range) if position == 0 else "", *_cells(row, clamped))
        table.add_section()
    for position, row in enumerate(row for row in block.averages if row.series not in left_out):
        table.add_row("average" if position == 0 else "", *_cells(row, clamped))
    return table


def _says_nothing(block: Block) -> set[Series]:
    """The assistants' series that are constant in every range, as the null context is: rows that tell nothing."""
    varied = {row.series for section in block.sections for row in section.rows if CONSTANT not in row.flags}
    return {
        row.series for section in block.sections for row in section.rows if row.series.judge == "assistant"
    } - varied


def _cells(row: Row, clamped: bool) -> list[Text]:
    label = Text(f"{row.series.judge}, {row.series.decoding}")
    if row.setting:
        label.append(f"\n  {row.setting}", style="dim")
    if row.flags:
        label.append(f"\n  ! {', '.join(row.flags)}", style="yellow")
    shares = [row.failed_share, row.clamped_share] if clamped else [row.failed_share]
    return [label, *(_estimate(row.estimates[name]) for name in CORRELATIONS), *(Text(percent(s)) for s in shares)]


def _estimate(estimate: Estimate) -> Text:
    if estimate.value is None:
        return Text("-")
    number = three(estimate.value)
    # Numbers are padded outside the underline, and every one leaves room for the star, so that columns line up.
    text = Text(" " * (6 - len(number))).append(number, style="underline bold" if estimate.best else "")
    text.append("*" if estimate.best else " ")
    return text.append(f" {interval(estimate)}", style="dim")


def three(value: float | None) -> str:
    """A correlation with three decimals."""
    return "-" if value is None else f"{round(value, 3) + 0.0:.3f}"  # + 0.0: a rounded -0.0 prints as 0.000


def interval(estimate: Estimate) -> str:
    """A 95 % interval, short: `[.35,.47]`; empty where there is none. Without a space, so that it never breaks."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{_short(estimate.low)},{_short(estimate.high)}]"


def signed(value: float | None) -> str:
    """A difference with three decimals and its sign; no sign where it rounds to 0."""
    return "-" if value is None else f"{round(value, 3) + 0.0:+.3f}".replace("+0.000", "0.000")


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal."""
    return "-" if share is None else f"{100 * share:.1f} %"


def _short(value: float) -> str:
    text = f"{round(value, 2) + 0.0:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 0.995 else text
