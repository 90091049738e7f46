"""A run as a whole: its headline, cost, requests to judges behind a URL, how to repeat it, and what
it would read. Results stand in sentences, a question each, with failure signatures: the meaning of
each flag, and where it was raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import yaml
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.rule import Rule
from rich.segment import Segment
from rich.text import Text

from judgebench.report.render import to_html, to_terminal
from judgebench.report.table import (
    Block,
    Col,
    Details,
    Facts,
    Paragraph,
    View,
    labelled_rows,
    rows_by,
)
from judgebench.report.views.correlations import correlation_rows
from judgebench.results.flags import FLAGS
from judgebench.results.results import Results, Titles, distinct, range_of, with_labels
from judgebench.results.served import served_facts
from judgebench.stats.clusters import FEWEST
from judgebench.types import RANGE, Condition, Prompt, Record, Rows
from judgebench.words.formats import say, thousands


def headline(results: Results) -> Record:
    """The title of a run's page, the sentence below it, and date and command of the run where they
    are known."""
    sizes = (row["size"] for row in correlation_rows(results, silent=True))
    ranges = distinct(results.scores, with_labels(RANGE, results.scores))
    environment = results.environment
    return {
        "title": f"{results.titles['main']} on {results.dataset}",
        "lead": say(
            "headline",
            results=results,
            ranges=list(map(str, map(range_of, ranges))),
            size=next(sizes, ""),
        ),
        "facts": {name: environment[name] for name in ("date", "command") if environment.get(name)},
    }


def judges_line(titles: Titles) -> str:
    """The models: main, and assistant where there is one."""
    assistant = titles.get("assistant")
    return f"main: {titles['main']}" + (f" · assistant: {assistant}" if assistant else "")


def _facts(rows: Iterable[tuple[str, Any]]) -> Facts:
    """Terms with one sentence each."""
    return Facts([(name, [str(fact)]) for name, fact in rows])


def cost(results: Results) -> list[Block]:
    """Device, seconds and tokens; what the report itself took is not known while it is made."""
    environment = results.environment
    rows = [("device", environment["device"])]
    for name, value in (environment.get("seconds") or {}).items():
        if name != "report":
            rows.append((name, f"{value:.1f} s"))
    for kind, tokens in (environment.get("tokens") or {}).items():
        rows.append((f"{kind} prompt tokens", thousands(tokens)))
    return [_facts([*rows, *served_facts(environment.get("served"))])]


def repeat(results: Results) -> list[Block]:
    """Code, models, packages and configuration."""
    environment = results.environment
    commit = environment["git_commit"] or "an installed package, no checkout"
    changed = ", with local changes" if environment["git_changed"] else ""
    rows = [
        ("code", f"{commit}{changed}"),
        ("Python", f"{environment['python']} on {environment['platform']}"),
    ]
    for role, model in environment["model_fingerprints"].items():
        rows.append((role, say("model", model=model)))
    packages = _facts(row for row in environment["packages"].items() if row[1])
    config = yaml.safe_dump(dict(results.config), sort_keys=False, allow_unicode=True, width=100)
    return [
        _facts(rows),
        Details("Packages", to_html([packages])),
        Details("Config (secrets masked)", config),
    ]


# --- judges behind a URL ------------------------------------------------------------------------


def served(results: Results) -> list[Block]:
    """Requests to judges behind a URL; nothing without one."""
    facts = served_facts(results.environment.get("served"))
    return [_facts(facts)] if facts else []


# --- before a run -------------------------------------------------------------------------------

_CONDITIONS = View(
    "dry_run",
    "Dry run",
    lambda rows: rows,
    (
        Col("dimension", left=True),
        Col("range", left=True),
        Col("attack", left=True),
        Col("defense", left=True),
        Col("judged text", "order", left=True, optional=True),
        Col("examples", form=thousands),
        Col("tokens", form=thousands),
        Col("unique tokens", "unique", thousands),
        Col("longest prompt", "longest", lambda value: "" if value is None else thousands(value)),
    ),
    sections=["part"],
    size="nothing was computed",
)


def dry_run_view(
    prompts: Sequence[Prompt],
    tokens: Mapping[Condition, tuple[int, int]],
    titles: Titles,
    planned: Sequence[str] = (),
) -> RenderableType:
    """Conditions with their numbers of examples and tokens (condition -> prompt tokens together,
    and those that must be computed), and the first prompt of each, to the letter; `planned` are
    defenses whose prompts need results of a run."""
    rows: Rows = []
    firsts: list[RenderableType] = []
    for condition, (total, unique) in tokens.items():
        part = [prompt for prompt in prompts if prompt.condition == condition]
        row = {
            "dimension": condition.dimension,
            "range": str(condition.range),
            "attack": condition.attack,
            "defense": condition.defense,
            "order": condition.order or None,
            "part": "conditions",
            "examples": len(part),
            "tokens": total,
            "unique": unique,
            "longest": max(len(prompt.token_ids) for prompt in part),
        }
        rows.append(row)
        title = f"first prompt: {condition}, example {part[0].example.example_id}"
        firsts += [Rule(title), _Exact(part[0].text)]
    sums = {name: sum(row[name] for row in rows) for name in ("examples", "tokens", "unique")}
    tables = _CONDITIONS.tables([*rows, sums | {"part": "all", "dimension": "all"}])
    blocks: list[RenderableType] = [Text(judges_line(titles), style="bold"), to_terminal(tables)]
    if planned:
        names = ", ".join(planned)
        hidden = f"Not shown: the prompts under {names}, which need what a run computes first."
        blocks.append(Text(hidden, style="dim"))
    return Group(*blocks, *firsts)


class _Exact:
    """Text that a console prints as it is: no line folded, cut or stripped, no tab widened, however
    long it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in self.text.split("\n"):
            yield _Weightless(line)
            yield Segment.line()


class _Weightless(Segment):
    """A segment that counts as zero columns wide: `Console.print` cuts lines that it counts as
    wider than itself."""

    @property
    def cell_length(self) -> int:
        return 0


# --- flags --------------------------------------------------------------------------------------


def flags(results: Results) -> list[Block]:
    """Each flag that was raised and where, in order of appearance; or the sentence that none
    was."""
    rows = labelled_rows(results.shown)
    raised = [row | {"flag": flag} for row in rows for flag in row.get("flags") or ()]
    if not raised:
        facts = {"rows": rows, "forecasts": results.forecasts, "FEWEST": FEWEST}
        return [Paragraph(say("no_flag", **facts))] if rows else []
    blocks: list[Block] = []
    for part in rows_by(raised, ["flag"]):
        flag = part[0]["flag"]
        address = urlencode({"filter": 1, "flags": flag}, quote_via=quote)
        blocks.append(
            Paragraph(
                say("flag", meaning=FLAGS.get(flag), places=rows_by(part, ("condition", "series"))),
                warning=flag,
                examples=f"#{address}" if len(results.readings) else "",
            )
        )
    level = {
        "document": f"Here “every text” means: all texts of each of the {results.groups}.",
        "system": "Here “every text” means: every system, in the mean of its texts.",
    }.get(results.level)
    return [*blocks, Paragraph(level, note=True)] if level else blocks
