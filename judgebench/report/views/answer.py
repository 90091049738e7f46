"""The answer of a run in at most 24 lines: what the judge may be used for, which setting to take,
what repairs buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.formats import (
    bounded,
    change,
    is_known,
    percent,
    points,
    signed_two,
    three,
    two,
)
from judgebench.report.render import WIDTH
from judgebench.report.table import Row, records, rows_by
from judgebench.report.views import attacks, pairwise
from judgebench.report.views.correlations import correlation_frame, taken_rows, undefended
from judgebench.report.views.league import choice_rows, league_rows
from judgebench.report.views.run import by_server
from judgebench.results.results import Results
from judgebench.stats.clusters import SIGNIFICANCE
from judgebench.stats.scores import CLEAN
from judgebench.stats.variance import RANGES
from judgebench.stats.verdict import CARE, FEW, NO, RULES, UNMEASURED, YES

COLORS: Mapping[str, str] = {
    YES: "green",
    CARE: "yellow",
    NO: "red",
    FEW: "yellow",
    UNMEASURED: "dim",
}
"""Verdict -> its color in a terminal, where its word stands as well."""

MOST = 24
"""Lines that a run prints."""

_ATTACKS = 4
_GAINS = 3
_FAILED = 0.02  # share of answers that could not be read, above which a line says so


def answer_blocks(results: Results) -> list[RenderableType]:
    """The blocks that a run prints: its subject, verdicts, what was tried, what to take,
    correlations, and notes. What does not fit in `MOST` lines of `WIDTH` columns, the run folder's
    among them, is cut and counted.
    """
    head = [Text(subject(results), style="bold"), Text("")]
    page = (
        [Text(f"  {results.folder / 'report.html'}")]
        if results.path and results.config.get("report")
        else []
    )
    tail = [*(Text(f"  {line}", style="yellow") for line in _notes(results)), *page]
    room = MOST - 1 - _height(*head, *tail)
    # 1. parts in a grid: runs about attacks and pairs lead with what was tried; the longest part is
    # cut
    taken = _taken(results)
    repairs = _repairs(results)
    parts = [part for part in (_tried(results), verdict_lines(results), taken + repairs) if part]
    cut = [0] * len(parts)
    while _height(grid := _grid(parts, cut)) > room and any(len(part) > 2 for part in parts):
        at = max(range(len(parts)), key=lambda place: len(parts[place]))
        parts[at], cut[at] = parts[at][:-1], cut[at] + 1
    # 2. the correlations, in what is left
    table = correlation_table(results, room - _height(grid) - 2)
    middle: list[RenderableType] = [grid] if table is None else [grid, table, Text("")]
    return [*head, *middle, *tail]


def _height(*blocks: RenderableType) -> int:
    console = Console(width=WIDTH)
    return sum(len(console.render_lines(block)) for block in blocks)


def _grid(parts: Sequence[Sequence[tuple[str, Any]]], cut: Sequence[int]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for part, missing in zip(parts, cut, strict=True):
        for name, words in part:
            grid.add_row(f"  {name}", words)
        if missing:
            grid.add_row("", Text(f"and {missing} more: print=all", style="dim"))
        grid.add_row()
    return grid


def _notes(results: Results) -> list[str]:
    """Texts that were left out, answers that could not be read, and what a served judge cost."""
    lines = [str(results.titles["left_out"])] if results.titles.get("left_out") else []
    failed = max((row.get("failed_share") or 0.0 for row in results.shown), default=0.0)
    if failed > _FAILED:
        lines.append(
            f"failed: up to {percent(failed)} of answers could not be read, and are missing in "
            "agreement"
        )
    bill = results.environment.get("served") or {}
    for role in ("main", "assistant"):
        if judge := bill.get(role):
            told = by_server(judge)
            tokens = f"{judge['prompt_tokens'] or 0:,} prompt tokens"
            lines.append(
                f"{role}: {judge['requests']:,} requests, {tokens}{f'; {told}' if told else ''}"
            )
    return lines + ([f"cost: ${bill['cost']:.4g}"] if bill.get("cost") else [])


def subject(results: Results) -> str:
    """Judge, data, and how much of it was judged, as "Qwen2.5 with 0.5B on conala: 288 texts of 48
    intents, 4 ranges, 16 raters"."""
    titles = results.titles
    scores = results.scores
    main = str(titles["main"])
    assistant = titles.get("assistant") or ""
    # of the assistant's name the parts that differ from the main model's
    parts = zip_longest(main.split("-"), assistant.split("-"), fillvalue="")
    rest = "-".join(theirs for ours, theirs in parts if theirs and theirs != ours)
    models = main + (f" with {rest or assistant}" if assistant else "")
    shown = scores[scores["split"] == results.split] if len(scores) else scores
    texts, groups = (shown[name].nunique() for name in ("example_id", "group_id"))
    ranges = len(shown.drop_duplicates(["range_min", "range_max", "range_step"]))
    raters = max((row["raters"] for row in results.humans), default=0)
    word = results.examples_word.replace("examples", "texts")
    counts = [f"{texts} {word} of {groups} {results.groups}"]
    counts += [
        f"{count} {word}" for count, word in ((ranges, "ranges"), (raters, "raters")) if count > 1
    ]
    return f"{models} on {results.dataset}: {', '.join(counts)}"


def verdict_lines(results: Results) -> list[tuple[str, Any]]:
    """A line a use, with its verdict and clause; of several dimensions a line a dimension, with its
    verdicts."""
    rows = [
        dict(row)
        for row in results.verdict
        if row["verdict"] != UNMEASURED or row["use"] != "resist_attacks"
    ]
    parts = rows_by(rows, ["dimension"])
    lines: list[tuple[str, Any]] = []
    if len(parts) > 1:
        uses = [use for use in RULES if any(row["use"] == use for row in rows)]
        widths = [max(len(RULES[use].title), len(FEW)) + 2 for use in uses]
        lines = [
            (
                "",
                Text(
                    "".join(
                        RULES[use].title.ljust(width)
                        for use, width in zip(uses, widths, strict=True)
                    )
                ),
            )
        ]
        for part in parts:
            words = Text()
            of = {row["use"]: row["verdict"] for row in part}
            for use, width in zip(uses, widths, strict=True):
                words.append(of.get(use, "").ljust(width), style=COLORS.get(of.get(use, ""), ""))
            lines.append((str(part[0]["dimension"]), words))
        return lines
    several = {row["verdict"] for row in rows if row["use"] != "resist_attacks"} == {FEW}
    for row in rows:
        if several and row["use"] in list(RULES)[1:4]:  # all for one reason
            continue
        words = Text(row["verdict"].ljust(14), style=COLORS[row["verdict"]])
        name = (
            "verdict"
            if several and row["use"] in RULES and row["verdict"] == FEW
            else RULES[row["use"]].title
        )
        lines.append((name, words.append(row["clause"], style="default")))
    return lines


def tasks_answer(runs: Sequence[Results]) -> Table:
    """A line a task and dimension: its verdicts, and the Spearman by other articles of the setting
    taken."""
    judged = {row["use"] for run in runs for row in run.verdict} - {"resist_attacks"}
    grid = Table.grid(padding=(0, 2))
    uses = [use for use in RULES if use in judged]
    for head in ("task", *(RULES[use].title for use in uses), "Spearman"):
        grid.add_column(Text(head, style="dim"), no_wrap=True)
    grid.show_header = True
    for run in runs:
        for part in rows_by(choice_rows(run), ["dimension"]):
            words = {
                row["use"]: row["verdict"]
                for row in run.verdict
                if row["dimension"] == part[0]["dimension"]
            }
            cells = [
                Text(words.get(use, ""), style=COLORS.get(words.get(use, ""), "")) for use in uses
            ]
            name = (
                run.dataset
                if len({row["dimension"] for row in run.choice}) == 1
                else part[0]["dimension"]
            )
            taken = next(row for row in part if row["taken"])
            grid.add_row(str(name), *cells, bounded(taken, "promised_spearman", two))
    return grid


def _tried(results: Results) -> list[tuple[str, str]]:
    """Of attacks and of pairs: what was tried, what it changed, what to do; of attacks the largest
    changes of the setting that is taken."""
    lines: list[tuple[str, str]] = []
    conditions = rows_by(pairwise.pair_rows(results), ["condition"])
    for part in conditions:
        row = next((row for row in part if row["judge"] == "main"), part[0])
        of = f"{part[0]['condition']}: " if len(conditions) > 1 else ""
        place = (
            f"place one gets {percent(0.5 + row['position_bias'])} of the preference (50 % is "
            "impartial)"
        )
        lines.append(("tried", f"{of}{row['name']} on {row['size']}, both orders"))
        lines.append(
            ("found", f"{place}; same winner in {percent(row['decided_consistency'])} of pairs")
        )
        worth = (
            f"sides with the humans in {bounded(row, 'human_agreement', points, percent)} of pairs"
        )
        chance = is_known(row["human_agreement_low"]) and row["human_agreement_low"] <= 0.5
        lines.append(("do", f"{'do not use it' if chance else 'ask in both orders'}: it {worth}"))
    rows = attacks.attacked_rows(results.shown)
    taken = {tuple(row[name] for name in _SETTING) for row in taken_rows(results)}
    rows = undefended(
        [row for row in rows if tuple(row[name] for name in _SETTING) in taken] or rows
    )
    rows.sort(key=lambda row: -abs(row["change"]))
    several = len({row["dimension"] for row in rows}) > 1
    for row in rows[:_ATTACKS]:
        defended = {
            other["defense"]: other for other in results.metrics if _same_but_defense(row, other)
        }
        words = f"{row['dimension']}: " if several else ""
        unit = "of wins" if results.compares else f"points in {row['range']}"
        words += (
            f"{bounded(row, 'change', change)} {unit}, rises for {percent(row['raised_share'])}"
        )
        if defended:
            least = min(defended, key=lambda name: abs(defended[name]["change"]))
            words += f"; with {least} {change(defended[least]['change'])}"
        lines.append((row["attack"], words))
    if len(rows) > _ATTACKS:
        lines.append(("", f"and {len(rows) - _ATTACKS} more: print=all"))
    against = {row["verdict"] for row in results.verdict if row["use"] == "resist_attacks"}
    return lines + [("do", advice) for verdict, advice in _ADVICE.items() if verdict in against]


_ADVICE = {
    YES: "nothing: no attack here goes beyond the margins of resist attacks",
    CARE: "take the defense that keeps the change smallest; see Does a defense help?",
    FEW: "attack more texts: the intervals are too wide to tell",
    NO: "do not let strangers write what is judged: no defense here resists",
}
_SETTING = ("dimension", "range_min", "range_max", "judge", "decoding")


def _same_but_defense(row: Row, other: Mapping[str, Any]) -> bool:
    names = (*_SETTING, "attack", "split", "level")
    return (
        all(other[name] == row[name] for name in names)
        and other["defense"] != row["defense"]
        and other.get("change") is not None
    )


def _taken(results: Results) -> list[tuple[str, str]]:
    """The setting to take, what it promises, and what repairs buy; a line a dimension."""
    lines: list[tuple[str, str]] = []
    for part in rows_by(choice_rows(results), ["dimension"]):
        row = next(row for row in part if row["taken"])
        condition = (
            f"{row['dimension']}: "
            if len({other["dimension"] for other in results.choice}) > 1
            else ""
        )
        who = row["who"].removeprefix("main, ")
        promised = f"; Spearman {bounded(row, 'promised_spearman', two)} on other {results.groups}"
        lines.append(("take", f"{condition}{who} {row['place']}{promised}"))
    return lines


def _repairs(results: Results) -> list[tuple[str, str]]:
    """Gains of decodings, the largest gain first, and what calibration of the setting taken does;
    of one dimension. A run that declares a plain decoding has the gains of its league."""
    plain = {"kind": "agreement", "reference": results.config.get("compare_with")}
    rows = records(results.repairs) or [row | plain for row in league_rows(results)]
    rows = [row for row in rows if is_known(row.get("difference")) and row["defense"] == "none"]
    if len({row["dimension"] for row in rows}) != 1:
        return []
    gains = sorted(
        (row for row in rows if row["kind"] == "agreement"), key=lambda row: -row["difference"]
    )
    lines = [
        f"{row['decoding']} instead of {row['reference']} "
        f"{bounded(row, 'difference', signed_two)}{_chance(row)}"
        for row in gains[:_GAINS]
    ]
    taken = {(row["judge"], row["decoding"]) for row in results.verdict}
    fitted = {row["kind"]: row for row in rows if (row["judge"], row["decoding"]) in taken}
    forms = {"points": ("error", two, " points"), "range_share": ("range bias", percent, "")}
    changes: dict[bool, list[str]] = {True: [], False: []}
    for kind, (name, form, unit) in forms.items():
        if (row := fitted.get(kind)) is not None:
            words = f"{name} {form(row['before'])} to {form(row['after'])}{unit}"
            changes[row["difference"] < 0].append(words)
    lines += [f"calibration: {', '.join(changes[True])}"] if changes[True] else []
    lines += [f"calibration does not help: {', '.join(changes[False])}"] if changes[False] else []
    return [("" if number else "repairs", line) for number, line in enumerate(lines)]


def _chance(row: Row) -> str:
    """A clause where a gain may be chance; with its reason, where the interval by itself says
    otherwise."""
    p, low, high = (row[name] for name in ("p_holm", "difference_low", "difference_high"))
    if is_known(p) and p < SIGNIFICANCE:
        return ""
    if not is_known(p) or not is_known(low) or low <= 0 <= high:
        return ", may be chance"
    return f", may be chance: p is {p:.2f} after Holm's correction over the planned comparisons"


def correlation_table(results: Results, most: int = 6) -> Table | None:
    """Spearman of each decoding in each range, the mean, and the range's share of the variance, raw
    and calibrated; of runs of one dimension whose texts are judged one by one, in so many lines
    below its heads at most."""
    frame = records(correlation_frame(results, silent=True)) if not results.compares else []
    rows = [row for row in undefended(frame) if row["judge"] != "assistant"]
    rows = [row for row in rows if row.get("attack", CLEAN) == CLEAN]
    if not rows or most < 2 or len({row["dimension"] for row in rows}) > 1:
        return None
    ranges = list(dict.fromkeys(row["range"] for row in rows))
    shares = _shares(results)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    heads = [
        *("mean" if name == "average" else name for name in ranges),
        *(["range bias"] if shares else []),
    ]
    for _ in heads:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("  Spearman       ", *heads, style="dim")
    parts = rows_by(rows, ["series"])
    shown = parts if len(parts) <= most else parts[: most - 1]
    for part in shown:
        values = {row["range"]: three(row["spearman"]).replace("0.", ".", 1) for row in part}
        name = part[0]["decoding"] + (f", {part[0]['setting']}" if part[0]["setting"] else "")
        share = shares.get((part[0]["judge"], part[0]["decoding"]), "")
        table.add_row(
            f"  {name}", *(values.get(of, "") for of in ranges), *([share] if shares else [])
        )
    if len(parts) > len(shown):
        table.add_row(f"  and {len(parts) - len(shown)} more: print=all", style="dim")
    return table


def _shares(results: Results) -> dict[tuple[str, str], str]:
    """Judge and decoding -> the range's share of the variance of its scores, raw and calibrated."""
    found: dict[tuple[str, str], dict[bool, str]] = {}
    for row in results.variance:
        if row.get("study") == RANGES and row["defense"] == "none" and is_known(row["range_both"]):
            found.setdefault((row["judge"], row["decoding"]), {})[row["calibrated"]] = percent(
                row["range_both"]
            )
    return {
        of: shares[False] + (f", calibrated {shares[True]}" if True in shares else "")
        for of, shares in found.items()
        if False in shares
    }
