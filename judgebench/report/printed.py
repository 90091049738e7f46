"""All that a run prints at its end: correlations, then what attacks and contrasting change, how it was tuned, what is
wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report import comparative
from judgebench.report.choices import Choices, arrange_tuning, chosen, kappas, marks, place, search_note, shared_note
from judgebench.report.diagnosis import Diagnosis, Diagnostics, Similarity, arrange_diagnostics, diagnostics_note, span
from judgebench.report.differences import Comparison, arrange_comparisons, comparison_note, note, p_value, verdict
from judgebench.report.flags import Raised, raised
from judgebench.report.pairwise_printed import pairwise_tables
from judgebench.report.results import arrange
from judgebench.report.served import served_lines
from judgebench.report.tables import judges_line, signed, three, titled
from judgebench.report.views.attacks import ATTACKS, GAPS
from judgebench.report.views.correlations import CORRELATION, LEVELS, experts
from judgebench.report.views.defenses import COSTS, DEFENSES, DETECTORS, REFERENCES, standards
from judgebench.report.views.phrases import phrase_blocks
from judgebench.results.results import Results, unattacked


def terminal_blocks(results: Results) -> list[RenderableType]:
    """What a run prints at its end, the tables first that answer its question. Attacked texts have a table of their
    own; the other tables are of clean ones."""
    records, groups = results.metrics, results.groups
    split = results.split
    blocks = arrange(records, split)
    clean = results.clean
    pairs = comparative.arrange_comparative(records)
    diagnostics = [] if pairs else arrange_diagnostics(clean, unattacked(results.similarity))
    parts: list[Any] = [*experts(results), Text(judges_line(results.titles), style="bold"), *CORRELATION(results)]
    parts += LEVELS(results)
    if pairs:
        parts += [*(_pairs(one) for one in pairs), Text(comparative.NOTE, style="dim")]
    parts += pairwise_tables(results.pairwise, groups)
    for part in (ATTACKS, DEFENSES, phrase_blocks, GAPS, standards, REFERENCES, DETECTORS, COSTS):
        parts += part(results)
    if compared := arrange_comparisons(unattacked(results.comparisons)):
        parts += [*(_comparison(one, groups) for one in compared), Text(comparison_note(compared, groups), style="dim")]
    if choices := arrange_tuning(results.tuning):
        parts += [_choices(one) for one in choices]
    if diagnostics:
        parts += [*(_diagnostics(one) for one in diagnostics), Text(diagnostics_note(clean), style="dim")]
    parts += [_flag(one) for one in raised(blocks)]
    if (served := results.environment.get("served")) is not None:
        parts += [Text(served_lines(served))]
    return parts


def _pairs(block: comparative.PairBlock) -> Table:
    table = titled(f"{block.condition}: {block.size}")
    table.add_column("judge, decoding", overflow="fold")
    for name in ("place one", "same winner", "tied", "with humans"):
        table.add_column(name, overflow="fold")
    for row in block.rows:
        cells = [row.series, comparative.points(row.position_bias)]
        cells += [comparative.shares(one) for one in (row.decided_consistency, row.tied_share, row.human_agreement)]
        table.add_row(*(Text(f"{cell} ") for cell in cells))
    return table


def _comparison(one: Comparison, groups: str) -> Table:
    table = titled(f"{one.condition}: {one.first} against {one.second}")
    for name, width in (("range", 11), ("first", None), ("second", None), ("first - second", None), ("p", None)):
        table.add_column(name, overflow="fold", max_width=width)
    table.add_column("Holm")
    table.add_column("verdict", overflow="fold")
    for row in one.rows:
        if row.mean:
            table.add_section()
        ends = "" if row.low is None else f" [{signed(row.low)},{signed(row.high)}]"
        told = Text(verdict(row), style="bold" if row.told_apart else "")
        if why := note(row, groups):
            told.append(f": {why}", style="dim")
        difference = Text(f"{signed(row.difference):>6}").append(ends, style="dim")
        table.add_row(
            row.place, f"{three(row.first)} ", f"{three(row.second)} ", difference.append(" "),
            f"{p_value(row.p)} ", f"{p_value(row.p_holm)} ", told,
        )  # fmt: skip
    return table


def _choices(one: Choices) -> RenderableType:
    table = titled(f"{one.dimension}: {one.decoding}, tuned: {one.how}")
    exact = any(row["exact"] is not None for row in one.rows)
    for name in ("range", "chosen", "κ", "dev", "test"):
        table.add_column(name, overflow="fold")
    if exact:
        for name in ("exactly best κ", "dev", "test"):
            table.add_column(name, overflow="fold")
    for row in one.rows:
        cells = [
            place(row),
            f"{chosen(row)}{''.join(f' ! {mark}' for mark in marks(row))}",
            f"{row['kappa']:.4g}",
            three(row["dev"]),
            three(row["test"]),
        ]
        if row["exact"] is not None:
            cells += [kappas(row), three(row["exact"]["dev"]), three(row["exact"]["test"])]
        table.add_row(*(Text(f"{cell} ") for cell in cells))
    notes = [text for text in (shared_note(one), search_note(one)) if text]
    return Group(table, *(Text(text, style="dim") for text in notes))


def _diagnostics(one: Diagnostics) -> RenderableType:
    table = titled(f"{one.condition}: diagnostics")
    for name in ("judge, decoding", "Wasserstein", "shift", "KL", "modal score (share in %) by range", "SD", "Self"):
        table.add_column(name, overflow="fold")
    for series in one.series:
        table.add_row(*(Text(f"{cell} ") for cell in _diagnosis(series)))
    return Group(table, *([_similar(one.similarities)] if one.similarities else []))


def _diagnosis(one: Diagnosis) -> list[str]:
    modes = [
        f"{bias.modal_score:g} ({100 * bias.modal_share:.0f})"
        for bias in one.biases
        if bias.modal_score is not None and bias.modal_share is not None
    ]
    return [
        str(one.series),
        span([bias.wasserstein for bias in one.biases]),
        span([bias.shift for bias in one.biases], signed=True),
        span([bias.kl for bias in one.biases]),
        ", ".join(modes),
        three(one.stability),
        three(one.self_agreement),
    ]


def _similar(found: Sequence[Similarity]) -> Text:
    correlations, agreements = span([one.correlation for one in found]), span([one.agreement for one in found])
    return Text(
        f"main and assistant alike: mean log-probabilities of the candidates correlate {correlations}; share of texts "
        f"with the same most likely candidate {agreements}.",
        style="dim",
    )


def _flag(one: Raised) -> Text:
    text = Text(f"! {one.name}", style="yellow").append(f": {one.meaning}. " if one.meaning else ": ", style="none")
    return text.append(f"{'; '.join(one.where)}.", style="dim")
