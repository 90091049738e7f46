"""A run as a whole: its headline, cost, requests to judges behind a URL, how to repeat it, and what
it would read. Results stand in sentences, a question each, with failure signatures: the meaning of
each flag, and where it was raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import yaml
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.rule import Rule
from rich.segment import Segment
from rich.text import Text

from judgebench.report.formats import say, thousands
from judgebench.report.render import to_html, to_terminal
from judgebench.report.table import Block, Col, Details, Facts, Paragraph, View, records, rows_by
from judgebench.report.views.correlations import correlation_rows
from judgebench.results.results import Results, distinct, labelled, range_of, with_labels
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE
from judgebench.stats.forecasts import NOT_ANSWERING
from judgebench.tuning.tune import EDGE
from judgebench.types import RANGE, Condition, Prompt

ROLES = ("main", "assistant")
"""Of models behind a URL."""


def headline(results: Results) -> dict[str, Any]:
    """The title of a run's page, the sentence below it, and date and command of the run where they
    are known."""
    size = next((row["size"] for row in correlation_rows(results, silent=True)), "")
    ranges = [
        str(range_of(row)) for row in distinct(results.scores, with_labels(RANGE, results.scores))
    ]
    environment = results.environment
    name = f"{results.titles['main']} on {results.dataset}"
    lead = say("headline", results=results, ranges=ranges, size=size)
    facts = {name: environment[name] for name in ("date", "command") if environment.get(name)}
    return {"title": name, "lead": lead, "facts": facts}


def judges_line(titles: Mapping[str, str | None]) -> str:
    """The models: main, and assistant where there is one."""
    assistant = titles.get("assistant")
    return f"main: {titles['main']}" + (f" · assistant: {assistant}" if assistant else "")


def cost(results: Results) -> list[Block]:
    """Device, seconds and tokens; what the report itself took is not known while it is made."""
    environment = results.environment
    rows = [("device", str(environment["device"]))]
    rows += [
        (name, f"{value:.1f} s")
        for name, value in (environment.get("seconds") or {}).items()
        if name != "report"
    ]
    rows += [
        (f"{kind} prompt tokens", thousands(tokens))
        for kind, tokens in (environment.get("tokens") or {}).items()
    ]
    return [
        Facts([(name, [fact]) for name, fact in [*rows, *served_facts(environment.get("served"))]])
    ]


def repeat(results: Results) -> list[Block]:
    """Code, models, packages and configuration."""
    environment = results.environment
    commit = environment["git_commit"] or "an installed package, no checkout"
    rows = [
        ("code", f"{commit}{', with local changes' if environment['git_changed'] else ''}"),
        ("Python", f"{environment['python']} on {environment['platform']}"),
    ]
    for role, model in environment["model_fingerprints"].items():
        fact = model["title"] if isinstance(model, Mapping) else model
        if isinstance(model, Mapping) and "sha256" in model:
            fact += f", SHA-256 {model['sha256']}"
        elif isinstance(model, Mapping) and "url" in model:
            names = ", ".join(str(answer["model"]) for answer in model["served_as"]) or "nothing"
            fact += f", {model['model']} at {model['url']}; the server calls itself {names}"
        rows.append((role, str(fact)))
    packages = [(name, [version]) for name, version in environment["packages"].items() if version]
    config = yaml.safe_dump(dict(results.config), sort_keys=False, allow_unicode=True, width=100)
    facts = Facts([(name, [fact]) for name, fact in rows])
    return [
        facts,
        Details("Packages", to_html([Facts(packages)])),
        Details("Config (secrets masked)", config),
    ]


# --- judges behind a URL ------------------------------------------------------------------------


def served(results: Results) -> list[Block]:
    """Requests to judges behind a URL; nothing without one."""
    facts = served_facts(results.environment.get("served"))
    return [Facts([(name, [fact]) for name, fact in facts])] if facts else []


def served_facts(served: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Name and fact, a few for each model, of `served` in environment.json; none where no model was
    served."""
    facts: list[tuple[str, str]] = []
    for role in ROLES:
        if judge := (served or {}).get(role):
            # Scores that lists left open and answers did not name, over all conditions.
            listed = [part for part in judge["conditions"] if part["unlisted"] is not None]
            sums = {
                name: sum(part[name] for part in listed)
                for name in ("readings", "bounded", "undecided")
            }
            sums |= {
                name: sum(part[name] or 0 for part in judge["conditions"])
                for name in ("answers", "failed_answers")
            }
            sums["unlisted"] = sum(part["unlisted"] * part["readings"] for part in listed) / max(
                1, sums["readings"]
            )
            for name in ("asked", "readings", "served as", "requests"):
                facts.append((f"{role} {name}", say("served", part=name, judge=judge, sums=sums)))
            facts.append((f"{role} servers", by_server(judge)))
    if served is not None:
        lost = sum((served.get(role) or {}).get("unconfirmed_cost") or 0.0 for role in ROLES)
        facts.append(("cost of this run", say("served", part="cost", served=served, lost=lost)))
    return [(name, fact) for name, fact in facts if fact]


def by_server(judge: Mapping[str, Any]) -> str:
    """Requests that each of several servers answered; nothing of a server alone."""
    servers = judge.get("servers") or {}
    if len(servers) < 2:
        return ""
    asked = {
        url: record["requests"]
        for url, record in servers.items()
        if record["requests"] or record["failures"]
    }
    return "; ".join(f"{url} answered {requests:,}" for url, requests in asked.items())


def served_lines(served: Mapping[str, Any]) -> str:
    """The same as lines to print."""
    return "\n".join(f"{name}: {fact}" for name, fact in served_facts(served))


def served_notes(served: Mapping[str, Any] | None) -> dict[str, str] | None:
    """For the metadata of readings.parquet: role -> where its scores come from; None where no model
    was served."""
    if served is None:
        return None
    return {
        f"judgebench.{role}.scores_from": str(served[role]["scores_from"])
        for role in ROLES
        if role in served
    }


def served_scalars(served: Mapping[str, Any] | None) -> dict[str, float]:
    """For the W&B summary: `served/main/prompt_tokens` and the like, and `served/cost`; nulls are
    left out."""
    counted = (
        "requests",
        "retries",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "cost",
        "unconfirmed_cost",
    )
    values = {
        f"served/{role}/{name}": ((served or {}).get(role) or {}).get(name)
        for role in ROLES
        for name in counted
    }
    values["served/cost"] = (served or {}).get("cost")
    return {name: float(value) for name, value in values.items() if value is not None}


# --- before a run -------------------------------------------------------------------------------

_CONDITIONS = View(
    "dry_run",
    "Dry run",
    lambda rows: rows,
    (
        Col("dimension", "dimension", left=True),
        Col("range", "range", left=True),
        Col("attack", "attack", left=True),
        Col("defense", "defense", left=True),
        Col("judged text", "order", left=True, optional=True),
        Col("examples", "examples", thousands),
        Col("tokens", "tokens", thousands),
        Col("unique tokens", "unique", thousands),
        Col("longest prompt", "longest", lambda value: "" if value is None else thousands(value)),
    ),
    sections=["part"],
    size="{size}",
)


def dry_run_view(
    prompts: Sequence[Prompt],
    tokens: Mapping[Condition, tuple[int, int]],
    titles: Mapping[str, str | None],
    planned: Sequence[str] = (),
) -> RenderableType:
    """Conditions with their numbers of examples and tokens (condition -> prompt tokens together,
    and those that must be computed), and the first prompt of each, to the letter; `planned` are
    defenses whose prompts need results of a run."""
    rows: list[dict[str, Any]] = []
    firsts: list[RenderableType] = []
    for condition, (total, unique) in tokens.items():
        part = [prompt for prompt in prompts if prompt.condition == condition]
        row = {name: getattr(condition, name) for name in ("dimension", "attack", "defense")}
        row |= {
            "range": str(condition.range),
            "order": condition.order or None,
            "part": "conditions",
        }
        row |= {"examples": len(part), "tokens": total, "unique": unique}
        rows.append(row | {"longest": max(len(prompt.token_ids) for prompt in part)})
        firsts += [
            Rule(f"first prompt: {condition}, example {part[0].example.example_id}"),
            _Exact(part[0].text),
        ]
    sums = {name: sum(row[name] for row in rows) for name in ("examples", "tokens", "unique")}
    rows = [
        row | {"size": "nothing was computed"}
        for row in [*rows, sums | {"part": "all", "dimension": "all"}]
    ]
    hidden = (
        f"Not shown: the prompts under {', '.join(planned)}, which need what a run computes first."
    )
    return Group(
        Text(judges_line(titles), style="bold"),
        to_terminal(_CONDITIONS.tables(rows)),
        *([Text(hidden, style="dim")] if planned else []),
        *firsts,
    )


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


FLAGS: Mapping[str, str] = {
    CONSTANT: "every text got the same score, so no correlation exists; 0 is reported, as the "
    "paper does",
    CONSTANT_HUMANS: "the humans gave every text the same score, so no correlation exists, "
    "whatever the judge says; 0 is reported",
    INVERTED: "Spearman's 95 % interval lies wholly below 0: the judge ranks texts against the "
    "humans",
    UNSTABLE: "Spearman depends on the score range by more than sampling noise explains",
    NOT_ANSWERING: "most of the judge's probability lies on other texts than scores, so its scores "
    "are read off a small share of what it would say; another prompt or chat format "
    "may help, or a judge that knows how to answer",
    EDGE: "the tuned lambda and t lie at an end of what was tried: the best may lie beyond",
}
"""The meaning of each flag, a clause without a full stop."""


def flags(results: Results) -> list[Block]:
    """Each flag that was raised and where, in order of appearance; or the sentence that none
    was."""
    rows = records(labelled(results.shown))
    if not rows:
        return []
    blocks: list[Block] = []
    for flag in dict.fromkeys(flag for row in rows for flag in row.get("flags") or ()):
        places = []
        for part in rows_by(
            [row for row in rows if flag in (row.get("flags") or ())], ("condition", "series")
        ):
            ranges = (
                f"range{'s' if len(part) > 1 else ''} {', '.join(row['range'] for row in part)}"
            )
            places.append(f"{part[0]['condition']}, {ranges}: {part[0]['series']}")
        meaning = f"{FLAGS[flag]}. " if flag in FLAGS else ""
        examples = (
            f"#{urlencode({'filter': 1, 'flags': flag}, quote_via=quote)}"
            if len(results.readings)
            else ""
        )
        blocks.append(Paragraph(f"{meaning}{'; '.join(places)}.", warning=flag, examples=examples))
    if not blocks:
        enough = (
            any(row["spearman_low"] is not None for row in rows)
            and min(row["groups"] for row in rows) >= FEWEST
        )
        asked = any(record.get("answers") for record in results.forecasts)
        several = len({row["range"] for row in rows}) > 1
        return [Paragraph(say("no_flag", answers=asked, enough=enough, several=several))]
    level = {
        "document": f"Here “every text” means: all texts of each of the {results.groups}.",
        "system": "Here “every text” means: every system, in the mean of its texts.",
    }.get(results.level)
    return [*blocks, Paragraph(level, note=True)] if level else blocks
