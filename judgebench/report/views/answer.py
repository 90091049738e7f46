"""The answer of a run in at most 24 lines: what the judge may be used for, which setting to take,
what repairs buy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.render import to_grid
from judgebench.report.table import Col, View, labelled_rows, records, rows_by, values
from judgebench.report.views import attacks, pairwise
from judgebench.report.views.advice import advice_lines, advices
from judgebench.report.views.audit import moved_lines
from judgebench.report.views.correlations import (
    advised_rows,
    correlation_rows,
    of_advised,
    undefended,
)
from judgebench.report.views.decisions import chosen_record, decision_parts
from judgebench.report.views.league import league_rows
from judgebench.report.views.verdicts import first_line, verdict_rows
from judgebench.results.results import NO_DEFENSE, Results
from judgebench.results.served import ROLES, by_server
from judgebench.settings.fields import settings_of
from judgebench.settings.margins import Margins
from judgebench.stats.clusters import SIGNIFICANCE
from judgebench.studies.decisions import CHOSEN
from judgebench.studies.humans import CALIBRATED
from judgebench.studies.repairs import AGREEMENT, POINTS, RANGE_SHARE
from judgebench.studies.rules import BESIDE, CARE, FEW, NO, RULES, UNMEASURED, YES
from judgebench.studies.scores import CLEAN, first_record
from judgebench.studies.variance import RANGES
from judgebench.types import CLAMPED, RANGE, Rows, ScoreRange
from judgebench.words.console import WIDTH
from judgebench.words.formats import estimated, is_known, percent, say, text, three, two

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

Lines = list[tuple[str, Any]]
"""Lines of the answer, each a name and words."""

_ATTACKS = 4
_GAINS = 3
_KEPT = "To keep this setting: judgebench calibrate with the same words writes a judge card."
_FAILED = 0.02  # share of answers that could not be read, above which a line says so
_MANY_FAILED = 0.05  # the same, above which it is said first


def answer_blocks(results: Results) -> list[RenderableType]:
    """The blocks that a run prints: its subject, what may be done, many answers that could not be
    read, verdicts, what was tried, what to take, correlations, and notes. What does not fit in
    `MOST` lines of `WIDTH` columns, the run folder's among them, is cut and counted.
    """
    head = [Text(subject(results), style="bold")]
    if line := first_line(results):
        head.append(Text(line))
    tail = [Text(f"  {line}", style="yellow") for line in _notes(results)]
    failed = max((row.get("failed_share") or 0.0 for row in results.shown), default=0.0)
    if failed > _FAILED:
        unread = Text(f"  {say('answer', part='failed', share=failed)}", style="yellow")
        (head if failed > _MANY_FAILED else tail).append(unread)
    head.append(Text(""))
    own = results.choice and (results.config.get("data") or {}).get("fields")  # one's own file
    if own and any(row["verdict"] in (YES, CARE) for row in results.verdict):
        tail.append(Text(f"  {_KEPT}"))
    if results.path and results.config.get("report"):
        tail.append(Text(f"  {results.folder / 'report.html'}"))
    room = MOST - 1 - _height(*head, *tail)
    # 1. parts in a grid: runs about attacks and pairs lead with what was tried
    advice: Lines = [("take", Text(line)) for line in advice_lines(results, "terminal")]
    taken = advice + _decisions(results)
    every = (_tried(results), verdict_lines(results), taken + _repairs(results))
    parts = list(filter(None, every))
    shown = list(map(len, parts))
    # 2. what repairs buy is cut, a line at a time, then the longest part
    while _height(_grid(parts, shown)) > room and max(shown, default=0) > 2:
        shown[-1 if shown[-1] > max(2, len(taken)) else shown.index(max(shown))] -= 1
    grid = _grid(parts, shown)
    # 3. the correlations, in what is left
    table = correlation_table(results, room - _height(grid) - 2)
    middle: list[RenderableType] = [grid] if table is None else [grid, table, Text("")]
    return [*head, *middle, *tail]


def _height(*blocks: RenderableType) -> int:
    console = Console(width=WIDTH)
    return sum(len(console.render_lines(block)) for block in blocks)


def _grid(parts: Sequence[Lines], shown: Sequence[int]) -> Table:
    """The first lines of each part, and how many were cut."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for lines, count in zip(parts, shown, strict=True):
        for name, words in lines[:count]:
            grid.add_row(f"  {name}", words)
        if count < len(lines):
            grid.add_row("", Text(f"and {len(lines) - count} more: print=all", style="dim"))
        grid.add_row()
    return grid


def _more_labels(results: Results) -> str:
    """A sentence on how wide the main interval would be with more labels, by the square root of
    their number; empty where no labels were joined."""
    if not (results.config.get("data") or {}).get("labels"):
        return ""
    chosen = first_record(results.decisions, {"mark": CHOSEN})
    record = chosen or first_record(results.metrics, {"level": "dataset", "attack": "none"})
    name = "tpr" if chosen else "spearman"
    count = record.get("texts") or record.get("n")
    if not count or record.get(f"{name}_low") is None:
        return ""
    return say(
        "answer",
        part="more",
        groups=results.groups,
        count=count,
        name=name,
        width=record[f"{name}_high"] - record[f"{name}_low"],
    )


def _notes(results: Results) -> list[str]:
    """Texts that were left out, answers that lay off the range, and what a served judge cost."""
    lines = [results.titles.get("left_out") or "", _more_labels(results)]
    # answers off the range, once each, however many decodings read them
    scores = results.scores
    clamped = scores[(scores["split"] == results.split) & (scores["status"] == CLAMPED)]
    answers = clamped.drop_duplicates(["example_id", "dimension", *RANGE, "attack", "defense"])
    counts = Counter(str(ScoreRange.of(row)) for row in records(answers))
    for asked, count in counts.items():
        lines.append(say("answer", part="clamped", count=count, range=asked))
    bill = results.environment.get("served") or {}
    for role in ROLES:
        if judge := bill.get(role):
            lines.append(
                say(
                    "answer",
                    part="requests",
                    role=role,
                    judge=judge,
                    servers=by_server(judge),
                )
            )
    if bill.get("cost"):
        lines.append(f"cost: ${bill['cost']:.4g}")
    return list(filter(None, lines))


def subject(results: Results) -> str:
    """Judge, data, and how much of it was judged, as "Qwen2.5 with 0.5B on conala: 288 texts of 48
    intents, 4 ranges, 16 raters"."""
    # 1. the models; of the assistant's name the parts that differ from the main model's
    models = str(results.titles["main"])
    if assistant := results.titles.get("assistant"):
        parts = zip_longest(models.split("-"), assistant.split("-"))
        other = [theirs for ours, theirs in parts if theirs and theirs != ours]
        models += f" with {'-'.join(other) or assistant}"
    # 2. how much was judged, of the reported split
    shown = results.scores[results.scores["split"] == results.split]
    return say(
        "answer",
        part="subject",
        results=results,
        models=models,
        texts=shown["example_id"].nunique(),
        groups=shown["group_id"].nunique(),
        ranges=len(shown.drop_duplicates(list(RANGE))),
        raters=max((row["raters"] for row in results.humans), default=0),
    )


def verdict_lines(results: Results) -> Lines:
    """A line a use, with its verdict and clause; of several dimensions a line a dimension, with its
    verdicts."""
    rows = [
        row
        for row in verdict_rows(results)
        if row["use"] not in BESIDE or row["verdict"] != UNMEASURED
    ]
    parts = rows_by(rows, ["dimension"])
    if len(parts) > 1:
        return _verdict_grid(parts)
    # where few texts are the reason of all verdicts, one line has them
    few = {row["verdict"] for row in rows if row["use"] not in BESIDE} == {FEW}
    lines = []
    for row in rows:
        first = row is rows[0] or row["use"] in BESIDE
        if few and not first:
            continue
        words = Text(row["verdict"].ljust(14), style=COLORS[row["verdict"]])
        words.append(row["clause"], style="default")
        alone = few and row["use"] not in BESIDE
        name = "verdict" if alone else row["title"]
        lines.append((name, words))
    return lines


def _verdict_grid(parts: Sequence[Rows]) -> Lines:
    """A line of uses, and below it one a dimension with its verdicts."""
    judged = {row["use"] for part in parts for row in part}
    titles = {use: rule.title for use, rule in RULES.items() if use in judged}
    widths = {use: max(len(title), len(FEW)) + 2 for use, title in titles.items()}
    head = "".join(title.ljust(widths[use]) for use, title in titles.items())
    lines = [("", Text(head))]
    for part in parts:
        dimension = part[0]["dimension"]
        verdicts = {row["use"]: row["verdict"] for row in part}
        words = Text()
        for use, width in widths.items():
            verdict = verdicts.get(use, "")
            words.append(verdict.ljust(width), style=COLORS.get(verdict, ""))
        lines.append((dimension, words))
    return lines


def tasks_answer(runs: Sequence[Results]) -> Table:
    """A line a task and dimension: its verdicts, and what the advised setting promises."""
    judged = {row["use"] for run in runs for row in run.verdict} - {*BESIDE}
    uses = [
        Col(RULES[use].title, use, form=text, left=True, colors=COLORS)
        for use in RULES
        if use in judged
    ]
    rows = []
    for run in runs:
        advised = advices(run)
        for dimension, advice in advised.items():
            verdicts = {
                row["use"]: row["verdict"] for row in run.verdict if row["dimension"] == dimension
            }
            name = run.dataset if len(advised) == 1 else str(dimension)
            promised = estimated(advice.promised("spearman"), two)
            rows.append({"task": name, "Spearman": promised} | verdicts)
    columns = [Col("task", left=True), *uses, Col("Spearman", left=True)]
    return _compact(rows, columns)


def _decisions(results: Results) -> Lines:
    """Of one dimension whose labels are classes: the classes where nothing passes, the pass mark,
    and the texts that people see."""
    parts = decision_parts(results)
    if len(parts) != 1:
        return []
    [(dimension, words)] = parts.items()
    if len(words) == 1:
        return list(words.items())
    # the verdict has the classes, and the first line says where people see all texts
    row = chosen_record(results, dimension)
    said = {"classes", "ask"} if row.get("ask_error") is None else {"classes"}
    return [(name, line) for name, line in words.items() if name not in said]


def _tried(results: Results) -> Lines:
    """Of attacks and of pairs: what to do, what was tried, what it changed."""
    verdicts = {row["verdict"] for row in results.verdict if row["use"] == "resist_attacks"}
    lines: Lines = [("do", line) for verdict, line in _ADVICE.items() if verdict in verdicts]
    return [*lines, *_pairs(results), *_attacks(results), *moved_lines(results)]


def _pairs(results: Results) -> Lines:
    """Two lines a condition whose texts were compared, and where there are several what to do."""
    lines = []
    conditions = rows_by(pairwise.pair_rows(results), ["condition"])
    for part in conditions:
        row = pairwise.main_row(part)
        # of one condition the first line says what to do
        for name in ("tried", "found", "do")[: 2 + (len(conditions) > 1)]:
            lines.append((name, say("answer", part=name, row=row, several=len(conditions) > 1)))
    return lines


def _attacks(results: Results) -> Lines:
    """The largest changes of the advised setting, and the defense under which each is least."""
    rows = attacks.attacked_rows(results.shown)
    settings = {values(row, _SETTING) for row in advised_rows(results)}
    rows = undefended([row for row in rows if values(row, _SETTING) in settings] or rows)
    rows.sort(key=lambda row: -abs(row["change"]))
    same = (*_SETTING, "attack", "split", "level")
    lines = []
    for row in rows[:_ATTACKS]:
        # the same setting under a defense
        others = {
            other["defense"]: other
            for other in results.metrics
            if values(other, same) == values(row, same) and other.get("change") is not None
        }
        others.pop(row["defense"])
        words = say(
            "answer",
            part="attack",
            results=results,
            row=row,
            several=len({row["dimension"] for row in rows}) > 1,
            least=min(others.values(), key=lambda other: abs(other["change"]), default=None),
        )
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


def _repairs(results: Results) -> Lines:
    """Gains of decodings, the largest gain first, and what calibration of the advised setting does;
    of one dimension. A run that declares a plain decoding has the gains of its league."""
    plain = {"kind": AGREEMENT, "reference": results.config.get("baseline")}
    rows = records(results.repairs) or [row | plain for row in league_rows(results)]
    rows = [row for row in rows if is_known(row.get("difference")) and row["defense"] == NO_DEFENSE]
    if len({row["dimension"] for row in rows}) != 1:
        return []
    gains = [row for row in rows if row["kind"] == AGREEMENT]
    gains.sort(key=lambda row: -row["difference"])
    lines = [
        *(say("answer", part="gain", row=row, SIGNIFICANCE=SIGNIFICANCE) for row in gains[:_GAINS]),
        *_calibration(results, rows),
    ]
    return [("" if number else "repairs", line) for number, line in enumerate(lines)]


def _calibration(results: Results, rows: Rows) -> list[str]:
    """Figures that calibration of the advised setting makes better, and those that it makes
    worse."""
    series = ("judge", "decoding")
    judged = {values(row, series) for row in results.verdict}
    fitted = of_advised(results, labelled_rows(results.beside_humans))
    explained = [row["r2"] for row in fitted if row["scores"] == CALIBRATED]
    margins = settings_of(Margins, results.config.get("verdict") or {}, "verdict")
    constant = bool(explained) and all(is_known(r2) and r2 < margins.explains for r2 in explained)
    sides: dict[str, Rows] = {"calibration": [], "calibration does not help": []}
    for row in sorted(rows, key=lambda row: row["kind"]):
        classes = results.about.get("classes", {}).get(row["dimension"], {})
        if row["kind"] == POINTS and classes.get("names"):
            continue  # of classes the Brier score says it
        if row["kind"] in (POINTS, RANGE_SHARE) and values(row, series) in judged:
            better = row["difference"] < 0
            side = "calibration" if better else "calibration does not help"
            sides[side].append(row | {"constant": row["kind"] == POINTS and constant})
    return [say("answer", part=side, rows=of) for side, of in sides.items() if of]


def correlation_table(results: Results, most: int = 6) -> Table | None:
    """Spearman of each decoding in each range, the mean, and the range's share of the variance, raw
    and calibrated; of runs of one dimension whose texts are judged one by one, in so many lines
    below its heads at most."""
    rows = [] if results.compares else undefended(correlation_rows(results, silent=True))
    rows = [
        row for row in rows if row["judge"] != "assistant" and row.get("attack", CLEAN) == CLEAN
    ]
    known = any(is_known(row["spearman"]) for row in rows)
    if not known or most < 2 or len({row["dimension"] for row in rows}) > 1:
        return None
    # 1. a column a range, whose key is its place
    shares = _shares(results)
    places = {
        name: str(place) for place, name in enumerate(dict.fromkeys(row["range"] for row in rows))
    }
    columns = [
        Col("  Spearman       ", "decoding", left=True),
        *(Col("mean" if name == "average" else name, key) for name, key in places.items()),
        Col("range bias", optional=True),
    ]
    # 2. a row a decoding
    parts = rows_by(rows, ["series"])
    shown = parts if len(parts) <= most else parts[: most - 1]
    lines: Rows = []
    for part in shown:
        row = part[0]
        settings = list(dict.fromkeys(row["setting"] for row in part if row["range"] != "average"))
        setting = settings[0] if len(settings) == 1 else "λ and t by range"
        numbers = {
            places[row["range"]]: three(row["spearman"]).replace("0.", ".", 1) for row in part
        }
        name = ", ".join(filter(None, (row["decoding"], setting)))
        bias = shares.get((row["judge"], row["decoding"]))
        lines.append({"decoding": f"  {name}", "range bias": bias, **numbers})
    if len(parts) > len(shown):
        lines.append({"decoding": f"  and {len(parts) - len(shown)} more: print=all"})
    return _compact(lines, columns)


def _compact(rows: Rows, columns: Sequence[Col]) -> Table:
    """The table of a view over these rows, as the answer shows it."""
    tables = View("answer", "", list, columns).tables(rows)
    return to_grid(tables[0]) if tables else Table.grid()


def _shares(results: Results) -> dict[tuple[str, str], str]:
    """Judge and decoding -> the range's share of the variance of its scores, raw and calibrated."""
    raw: dict[tuple[str, str], str] = {}
    calibrated: dict[tuple[str, str], str] = {}
    place = {
        "study": RANGES,
        "defense": NO_DEFENSE,
    }
    for row in results.variance:
        if place.items() <= row.items() and is_known(row["range_both"]):
            shares = calibrated if row["calibrated"] else raw
            shares[row["judge"], row["decoding"]] = percent(row["range_both"])
    return {
        series: f"{share}, calibrated {calibrated[series]}" if series in calibrated else share
        for series, share in raw.items()
    }
