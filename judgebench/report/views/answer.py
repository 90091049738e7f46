"""The answer of a run in at most 24 lines: what the judge may be used for, which setting to take,
what repairs buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.formats import (
    bounded,
    change,
    estimated,
    is_known,
    percent,
    points,
    signed_two,
    three,
    two,
)
from judgebench.report.render import WIDTH
from judgebench.report.table import Row, Rows, records, rows_by
from judgebench.report.views import attacks, pairwise
from judgebench.report.views.advice import advice_lines, advices
from judgebench.report.views.correlations import advised_rows, correlation_frame, undefended
from judgebench.report.views.league import league_rows
from judgebench.report.views.run import by_server
from judgebench.results.results import Results
from judgebench.stats.clusters import SIGNIFICANCE
from judgebench.stats.repairs import AGREEMENT, POINTS, RANGE_SHARE
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
    tail = [Text(f"  {line}", style="yellow") for line in _notes(results)]
    if results.path and results.config.get("report"):
        page = results.folder / "report.html"
        tail.append(Text(f"  {page}"))
    room = MOST - 1 - _height(*head, *tail)
    # 1. parts in a grid: runs about attacks and pairs lead with what was tried
    advice = [("take", line) for line in advice_lines(results, "terminal")]
    every = (
        _tried(results),
        verdict_lines(results),
        advice + _repairs(results),
    )
    parts = [_Part(lines) for lines in every if lines]
    grid = _grid(parts)
    # 2. the longest part is cut, a line at a time
    while parts and _height(grid) > room:
        longest = max(parts, key=lambda part: len(part.lines))
        if len(longest.lines) <= 2:
            break
        longest.lines = longest.lines[:-1]
        longest.cut += 1
        grid = _grid(parts)
    # 3. the correlations, in what is left
    table = correlation_table(results, room - _height(grid) - 2)
    middle: list[RenderableType] = [grid] if table is None else [grid, table, Text("")]
    return [*head, *middle, *tail]


@dataclass
class _Part:
    """Lines of the grid, each a name and words, and how many were cut."""

    lines: Sequence[tuple[str, Any]]
    cut: int = 0


def _height(*blocks: RenderableType) -> int:
    console = Console(width=WIDTH)
    return sum(len(console.render_lines(block)) for block in blocks)


def _grid(parts: Sequence[_Part]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for part in parts:
        for name, words in part.lines:
            grid.add_row(f"  {name}", words)
        if part.cut:
            grid.add_row("", Text(f"and {part.cut} more: print=all", style="dim"))
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
        judge = bill.get(role)
        if judge:
            tokens = f"{judge['prompt_tokens'] or 0:,} prompt tokens"
            requests = f"{role}: {judge['requests']:,} requests, {tokens}"
            lines.append("; ".join(filter(None, (requests, by_server(judge)))))
    if bill.get("cost"):
        lines.append(f"cost: ${bill['cost']:.4g}")
    return lines


def subject(results: Results) -> str:
    """Judge, data, and how much of it was judged, as "Qwen2.5 with 0.5B on conala: 288 texts of 48
    intents, 4 ranges, 16 raters"."""
    # 1. the models; of the assistant's name the parts that differ from the main model's
    models = str(results.titles["main"])
    assistant = results.titles.get("assistant") or ""
    if assistant:
        parts = zip_longest(models.split("-"), assistant.split("-"))
        other = [theirs for ours, theirs in parts if theirs and theirs != ours]
        rest = "-".join(other)
        models += f" with {rest or assistant}"
    # 2. how much was judged, of the reported split
    shown = results.scores
    if len(shown):
        shown = shown[shown["split"] == results.split]
    texts = shown["example_id"].nunique()
    groups = shown["group_id"].nunique()
    ranges = len(shown.drop_duplicates(["range_min", "range_max", "range_step"]))
    raters = max((row["raters"] for row in results.humans), default=0)
    word = results.examples_word.replace("examples", "texts")
    counts = [f"{texts} {word} of {groups} {results.groups}"]
    if ranges > 1:
        counts.append(f"{ranges} ranges")
    if raters > 1:
        counts.append(f"{raters} raters")
    return f"{models} on {results.dataset}: {', '.join(counts)}"


def verdict_lines(results: Results) -> list[tuple[str, Any]]:
    """A line a use, with its verdict and clause; of several dimensions a line a dimension, with its
    verdicts."""
    rows = []
    for row in results.verdict:
        if row["use"] != "resist_attacks" or row["verdict"] != UNMEASURED:
            rows.append(dict(row))
    parts = rows_by(rows, ["dimension"])
    if len(parts) > 1:
        return _verdict_grid(parts)
    # where few texts are the reason of all verdicts, one line has them
    few = {row["verdict"] for row in rows if row["use"] != "resist_attacks"} == {FEW}
    lines: list[tuple[str, Any]] = []
    for row in rows:
        if few and row["use"] in list(RULES)[1:4]:
            continue
        words = Text(row["verdict"].ljust(14), style=COLORS[row["verdict"]])
        words.append(row["clause"], style="default")
        name = "verdict" if few and row["verdict"] == FEW else RULES[row["use"]].title
        lines.append((name, words))
    return lines


def _verdict_grid(parts: Sequence[Rows]) -> list[tuple[str, Any]]:
    """A line of uses, and below it one a dimension with its verdicts."""
    judged = {row["use"] for part in parts for row in part}
    widths = {}
    head = ""
    for use, rule in RULES.items():
        if use in judged:
            widths[use] = max(len(rule.title), len(FEW)) + 2
            head += rule.title.ljust(widths[use])
    lines: list[tuple[str, Any]] = [("", Text(head))]
    for part in parts:
        verdicts = {row["use"]: row["verdict"] for row in part}
        words = Text()
        for use, width in widths.items():
            verdict = verdicts.get(use, "")
            words.append(verdict.ljust(width), style=COLORS.get(verdict, ""))
        lines.append((str(part[0]["dimension"]), words))
    return lines


def tasks_answer(runs: Sequence[Results]) -> Table:
    """A line a task and dimension: its verdicts, and what the advised setting promises."""
    judged = {row["use"] for run in runs for row in run.verdict} - {"resist_attacks"}
    grid = Table.grid(padding=(0, 2))
    uses = [use for use in RULES if use in judged]
    for head in ("task", *(RULES[use].title for use in uses), "Spearman"):
        grid.add_column(Text(head, style="dim"), no_wrap=True)
    grid.show_header = True
    for run in runs:
        advised = advices(run)
        verdicts = {(row["dimension"], row["use"]): row["verdict"] for row in run.verdict}
        for advice in advised:
            words = [verdicts.get((advice.dimension, use), "") for use in uses]
            cells = [Text(word, style=COLORS.get(word, "")) for word in words]
            name = run.dataset if len(advised) == 1 else advice.dimension
            grid.add_row(str(name), *cells, estimated(advice.promised["spearman"], two))
    return grid


def _tried(results: Results) -> list[tuple[str, str]]:
    """Of attacks and of pairs: what was tried, what it changed, what to do."""
    lines = [*_pairs(results), *_attacks(results)]
    verdicts = {row["verdict"] for row in results.verdict if row["use"] == "resist_attacks"}
    return lines + [("do", advice) for verdict, advice in _ADVICE.items() if verdict in verdicts]


def _pairs(results: Results) -> list[tuple[str, str]]:
    """Three lines a condition whose texts were compared."""
    lines: list[tuple[str, str]] = []
    conditions = rows_by(pairwise.pair_rows(results), ["condition"])
    for part in conditions:
        row = next((row for row in part if row["judge"] == "main"), part[0])
        condition = f"{row['condition']}: " if len(conditions) > 1 else ""
        first = percent(0.5 + row["position_bias"])
        place = f"place one gets {first} of the preference (50 % is impartial)"
        winner = f"same winner in {percent(row['decided_consistency'])} of pairs"
        agreement = bounded(row, "human_agreement", points, percent)
        low = row["human_agreement_low"]
        chance = is_known(low) and low <= 0.5
        use = "do not use it" if chance else "ask in both orders"
        lines += [
            ("tried", f"{condition}{row['name']} on {row['size']}, both orders"),
            ("found", f"{place}; {winner}"),
            ("do", f"{use}: it sides with the humans in {agreement} of pairs"),
        ]
    return lines


def _attacks(results: Results) -> list[tuple[str, str]]:
    """The largest changes of the advised setting, and the defense under which each is least."""
    rows = attacks.attacked_rows(results.shown)
    settings = {_setting(row) for row in advised_rows(results)}
    rows = undefended([row for row in rows if _setting(row) in settings] or rows)
    rows.sort(key=lambda row: -abs(row["change"]))
    several = len({row["dimension"] for row in rows}) > 1
    lines: list[tuple[str, str]] = []
    for row in rows[:_ATTACKS]:
        words = f"{row['dimension']}: " if several else ""
        words += bounded(row, "change", change)
        words += " of wins" if results.compares else f" points in {row['range']}"
        words += f", rises for {percent(row['raised_share'])}"
        # the same setting under a defense
        others = [other for other in results.metrics if _same_but_defense(row, other)]
        defended = {other["defense"]: other for other in others}
        if defended:
            least = min(defended.values(), key=lambda other: abs(other["change"]))
            words += f"; with {least['defense']} {change(least['change'])}"
        lines.append((row["attack"], words))
    if len(rows) > _ATTACKS:
        lines.append(("", f"and {len(rows) - _ATTACKS} more: print=all"))
    return lines


_ADVICE = {
    YES: "nothing: no attack here goes beyond the margins of resist attacks",
    CARE: "take the defense that keeps the change smallest; see Does a defense help?",
    FEW: "attack more texts: the intervals are too wide to tell",
    NO: "do not let strangers write what is judged: no defense here resists",
}
_SETTING = ("dimension", "range_min", "range_max", "judge", "decoding")


def _setting(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SETTING)


def _same_but_defense(row: Row, other: Row) -> bool:
    if other["defense"] == row["defense"] or other.get("change") is None:
        return False
    return all(other[name] == row[name] for name in (*_SETTING, "attack", "split", "level"))


def _repairs(results: Results) -> list[tuple[str, str]]:
    """Gains of decodings, the largest gain first, and what calibration of the advised setting does;
    of one dimension. A run that declares a plain decoding has the gains of its league."""
    plain = {"kind": AGREEMENT, "reference": results.config.get("compare_with")}
    rows = records(results.repairs) or [row | plain for row in league_rows(results)]
    rows = [row for row in rows if is_known(row.get("difference")) and row["defense"] == "none"]
    if len({row["dimension"] for row in rows}) != 1:
        return []
    # 1. gains of decodings
    gains = [row for row in rows if row["kind"] == AGREEMENT]
    gains.sort(key=lambda row: -row["difference"])
    lines = []
    for row in gains[:_GAINS]:
        gain = bounded(row, "difference", signed_two)
        names = f"{row['decoding']} instead of {row['reference']}"
        lines.append(f"{names} {gain}{_chance(row)}")
    return _named_lines(lines + _calibration(results, rows))


def _named_lines(lines: Sequence[str]) -> list[tuple[str, str]]:
    return [("" if number else "repairs", line) for number, line in enumerate(lines)]


def _calibration(results: Results, rows: Rows) -> list[str]:
    """Figures that calibration of the advised setting makes better, and those that it makes
    worse."""
    judged = {(row["judge"], row["decoding"]) for row in results.verdict}
    fitted = {row["kind"]: row for row in rows if (row["judge"], row["decoding"]) in judged}
    better: list[str] = []
    worse: list[str] = []
    lines = []
    for kind, (name, form, unit) in _CALIBRATED.items():
        if kind in fitted:
            row = fitted[kind]
            words = f"{name} {form(row['before'])} to {form(row['after'])}{unit}"
            side = better if row["difference"] < 0 else worse
            side.append(words)
    if better:
        lines.append(f"calibration: {', '.join(better)}")
    if worse:
        lines.append(f"calibration does not help: {', '.join(worse)}")
    return lines


_CALIBRATED = {POINTS: ("error", two, " points"), RANGE_SHARE: ("range bias", percent, "")}
"""Kinds of repairs.json that calibration is judged by -> name, format and unit."""


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
    frame = [] if results.compares else records(correlation_frame(results, silent=True))
    rows = [row for row in undefended(frame) if row["judge"] != "assistant"]
    rows = [row for row in rows if row.get("attack", CLEAN) == CLEAN]
    if not rows or most < 2 or len({row["dimension"] for row in rows}) > 1:
        return None
    # 1. a column a range
    ranges = list(dict.fromkeys(row["range"] for row in rows))
    heads = ["mean" if name == "average" else name for name in ranges]
    shares = _shares(results)
    if shares:
        heads.append("range bias")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in heads:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("  Spearman       ", *heads, style="dim")
    # 2. a row a decoding
    parts = rows_by(rows, ["series"])
    shown = parts if len(parts) <= most else parts[: most - 1]
    for part in shown:
        row = part[0]
        values = {}
        for at_range in part:
            values[at_range["range"]] = three(at_range["spearman"]).replace("0.", ".", 1)
        cells = [values.get(name, "") for name in ranges]
        if shares:
            series = (row["judge"], row["decoding"])
            cells.append(shares.get(series, ""))
        name = ", ".join(filter(None, (row["decoding"], row["setting"])))
        table.add_row(f"  {name}", *cells)
    if len(parts) > len(shown):
        table.add_row(f"  and {len(parts) - len(shown)} more: print=all", style="dim")
    return table


def _shares(results: Results) -> dict[tuple[str, str], str]:
    """Judge and decoding -> the range's share of the variance of its scores, raw and calibrated."""
    raw: dict[tuple[str, str], str] = {}
    calibrated: dict[tuple[str, str], str] = {}
    for row in results.variance:
        if row.get("study") == RANGES and row["defense"] == "none" and is_known(row["range_both"]):
            shares = calibrated if row["calibrated"] else raw
            shares[row["judge"], row["decoding"]] = percent(row["range_both"])
    for series, share in calibrated.items():
        if series in raw:
            raw[series] += f", calibrated {share}"
    return raw
