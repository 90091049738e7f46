"""A run as a whole: its headline, cost, requests to judges behind a URL, how to repeat it, and what it would read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from judgebench.report.table import Block, Facts, Folded
from judgebench.report.views.correlations import correlation_frame
from judgebench.results.results import Results
from judgebench.results.series import distinct, range_of, with_labels
from judgebench.types import RANGE, Condition, Prompt

if TYPE_CHECKING:
    from judgebench.judges.pace import Pace


def headline(results: Results) -> tuple[str, str]:
    """The title of a run's page, and the sentence below it."""
    titles, scores = results.titles, results.scores
    datasets = dict.fromkeys(str(record["dataset"]) for record in results.metrics)
    ranges = [str(range_of(row)) for row in distinct(scores, with_labels(RANGE, scores))]
    rows = correlation_frame(results, silent=True)
    lead = f"Assistant: {titles['assistant']}. " if titles.get("assistant") else ""
    lead += f"{', '.join(dict.fromkeys(scores['dimension']))}; score range{'s' if len(ranges) > 1 else ''} "
    lead += f"{', '.join(ranges)}; {results.split} split{', ' + rows['size'].iloc[0] if len(rows) else ''}."
    note = titles.get("note")
    return f"{titles['main']} judging {', '.join(datasets)}", f"{lead} {note}" if note else lead


def judges_line(titles: Mapping[str, str | None]) -> str:
    """Which model is main and which assistant."""
    assistant = titles.get("assistant")
    return f"main: {titles['main']}" + (f" · assistant: {assistant}" if assistant else "")


def cost(results: Results) -> list[Block]:
    """Device, seconds and tokens; what the report itself took is not known while it is made."""
    environment = results.environment
    rows = [("device", str(environment["device"]))]
    rows += [(name, f"{value:.1f} s") for name, value in (environment.get("seconds") or {}).items() if name != "report"]
    rows += [(f"{kind} prompt tokens", f"{count:,}") for kind, count in (environment.get("tokens") or {}).items()]
    rows += served_facts(environment.get("served"))
    return [Facts([(name, [fact]) for name, fact in rows])]


def served(results: Results) -> list[Block]:
    """Requests to judges behind a URL; nothing without one."""
    facts = served_facts(results.environment.get("served"))
    return [Facts([(name, [fact]) for name, fact in facts])] if facts else []


def repeat(results: Results) -> list[Block]:
    """Code, models, packages and configuration."""
    environment = results.environment
    commit = environment["git_commit"] or "an installed package, no checkout"
    rows = [
        ("code", f"{commit}{', with local changes' if environment['git_changed'] else ''}"),
        ("Python", f"{environment['python']} on {environment['platform']}"),
        *((role, _model(known)) for role, known in environment["model_fingerprints"].items()),
    ]
    packages = [(name, [version]) for name, version in environment["packages"].items() if version]
    config = yaml.safe_dump(dict(results.config), sort_keys=False, allow_unicode=True, width=100)
    return [
        Facts([(name, [fact]) for name, fact in rows]),
        Folded("Packages", [Facts(packages)]),
        Folded("Config (secrets masked)", config),
    ]


def _model(known: Any) -> str:
    """A model's title and what identifies it."""
    if not isinstance(known, Mapping):
        return str(known)
    if "sha256" in known:
        return f"{known['title']}, SHA-256 {known['sha256']}"
    if "url" not in known:
        return str(known["title"])
    served_as = ", ".join(str(one["model"]) for one in known["served_as"]) or "nothing"
    return f"{known['title']}, {known['model']} at {known['url']}; the server calls itself {served_as}"


_COUNTED = ("requests", "retries", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "unconfirmed_cost")


def served_facts(served: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Name and fact, a few for each model; none where no model was served.

    Args:
        served: of environment.json.
    """
    if served is None:
        return []
    facts: list[tuple[str, str]] = []
    for role in ("main", "assistant"):
        if (one := served.get(role)) is None:
            continue
        facts.append((f"{role} asked", f"{one['model']} at {one['url']}, {_way(one)}"))
        if known := _known(one):
            facts.append((f"{role} readings", known))
        says = [f"{held['model']}{_print(held)}" for held in one["served_as"] if held["model"] is not None]
        if says:
            changed = ": it changed while it was asked" if len(says) > 1 else ""
            facts.append((f"{role} served as", f"{', '.join(says)}{changed}"))
        facts.append((f"{role} requests", _requests(one)))
    facts.append(("cost of this run", _money(served)))
    return facts


def served_lines(served: Mapping[str, Any]) -> str:
    """The same as lines to print."""
    return "\n".join(f"{name}: {fact}" for name, fact in served_facts(served))


def served_notes(served: Mapping[str, Any] | None) -> dict[str, str] | None:
    """For the metadata of readings.parquet: role -> where its scores come from; None where no model was served."""
    if served is None:
        return None
    roles = [role for role in ("main", "assistant") if role in served]
    return {f"judgebench.{role}.scores_from": str(served[role]["scores_from"]) for role in roles}


def served_scalars(served: Mapping[str, Any] | None) -> dict[str, float]:
    """For the W&B summary: `served/main/prompt_tokens` and the like, and `served/cost`; nulls are left out."""
    found: dict[str, float] = {}
    for role in ("main", "assistant"):
        one = (served or {}).get(role) or {}
        found |= {f"served/{role}/{name}": float(one[name]) for name in _COUNTED if one.get(name) is not None}
    cost = (served or {}).get("cost")
    return found if cost is None else found | {"served/cost": float(cost)}


def _way(one: Mapping[str, Any]) -> str:
    given = {
        "logprobs": "scores from listed log-probabilities",
        "samples": f"scores from the shares of {one['samples']} answers at temperature {one['temperature']:g}",
        "text": f"scores from one answer at temperature {one['temperature']:g}",
    }[one["scores_from"]]
    explicit = f", candidates asked for by themselves ({one['explicit']})" if one["explicit"] else ""
    return f"{given} ({one['protocol']}{explicit})"


def _known(one: Mapping[str, Any]) -> str:
    """Scores that lists left open and answers did not name, over all conditions."""
    notes = []
    listed = [each for each in one["conditions"] if each["unlisted"] is not None]
    if listed:
        count = sum(each["readings"] for each in listed)
        unlisted = sum(each["unlisted"] * each["readings"] for each in listed) / count
        bounded, undecided = (sum(each[name] for each in listed) for name in ("bounded", "undecided"))
        notes.append(
            f"{count:,}, the lists leave out {100 * unlisted:.3g} % of probability in the mean; {bounded:,} are known "
            f"within bounds only, and in {undecided:,} of them the likeliest score is open"
        )
    answers = sum(each["answers"] or 0 for each in one["conditions"])
    if answers:
        failed = sum(each["failed_answers"] or 0 for each in one["conditions"])
        notes.append(f"{answers:,} answers, {failed:,} of which name no score")
    return "; ".join(notes)


def _requests(one: Mapping[str, Any]) -> str:
    sentence = f"{one['requests']:,} in this run, {one['prompt_tokens']:,} prompt tokens"
    sentence += f" ({one['cached_tokens']:,} of them cached)" if one["cached_tokens"] else ""
    sentence += f" and {one['completion_tokens']:,} of answers"
    if one["uncounted_requests"]:
        sentence += f"; {one['uncounted_requests']:,} answers did not count their tokens, which are estimated"
    if one["retries"]:
        kinds = ", ".join(f"{kind} {count}x" for kind, count in one["failures"].items())
        sentence += f"; {one['retries']:,} tries failed and were repeated ({kinds})"
    return sentence


def _print(held: Mapping[str, Any]) -> str:
    return "" if held["fingerprint"] is None else f" ({held['fingerprint']})"


def _money(served: Mapping[str, Any]) -> str:
    if served["cost"] is None:
        return "not counted, for judge.price is not given"
    lost = sum((served.get(role) or {}).get("unconfirmed_cost") or 0.0 for role in ("main", "assistant"))
    lost_too = f", ${lost:.6g} of it for answers that were lost" if lost else ""
    most = f" of ${served['max_cost']:g} at most" if served["max_cost"] is not None else ""
    return f"${served['cost']:.6g}{most}{lost_too}"


def dry_run_view(
    prompts: Sequence[Prompt],
    tokens: Mapping[Condition, tuple[int, int]],
    titles: Mapping[str, str | None],
    planned: Sequence[str] = (),
    paces: Sequence[Pace] | None = None,
) -> RenderableType:
    """Conditions with their numbers of examples and tokens, and the first prompt of each, to the letter.

    Args:
        prompts: all prompts, condition by condition.
        tokens: condition -> prompt tokens together, and those of them that must be computed.
        titles: `main` and `assistant`, the models' names.
        planned: defenses whose prompts cannot be shown, for they need what a run computes first.
        paces: how fast the passes are, where that was measured.
    """
    table = Table(box=box.SIMPLE_HEAD, title=_TITLES[paces is not None], title_justify="left")
    ordered = any(condition.order for condition in tokens)
    axes = ("dimension", "range", "attack", "defense", *(("judged text",) if ordered else ()))
    for name in axes:
        table.add_column(name, overflow="fold")
    for name in ("examples", "tokens", "unique tokens", "longest prompt"):
        table.add_column(name, justify="right")
    firsts: list[RenderableType] = []
    for condition, (total, unique) in tokens.items():
        held = [prompt for prompt in prompts if prompt.condition == condition]
        longest = max(len(prompt.token_ids) for prompt in held)
        table.add_row(
            *(condition.dimension, str(condition.range), condition.attack, condition.defense, condition.order)[
                : len(axes)
            ],
            *(f"{len(held):,}", f"{total:,}", f"{unique:,}", f"{longest:,}"),
        )
        firsts += [Rule(f"first prompt: {condition}, example {held[0].example.example_id}"), _Exact(held[0].text)]
    sums = [sum(pair[i] for pair in tokens.values()) for i in range(2)]
    table.add_section()
    table.add_row("all", *("" for _ in axes[1:]), f"{len(prompts):,}", f"{sums[0]:,}", f"{sums[1]:,}", "")
    untold = [f"Not shown: the prompts under {', '.join(planned)}, which need what a run computes first."]
    return Group(
        Text(judges_line(titles), style="bold"),
        table,
        *(Text(line, style="dim") for line in (untold if planned else ())),
        *(Text(line) for line in pace_lines(paces or ())),
        *firsts,
    )


_TITLES = {
    False: "Dry run: nothing was computed",
    True: "Dry run: a little was read; batches that were finished are stored",
}


def pace_lines(paces: Sequence[Pace]) -> list[str]:
    """Time that the rest of a run will take, pass by pass and together, and what that rests on."""
    lines = []
    for pace in paces:
        if not pace.left:
            lines.append(f"{pace.title}: every reading is in the store.")
            continue
        if pace.seconds is None:
            continue
        left, basis = f"{pace.title}: {pace.left:,} tokens are left", f"{pace.read:,} tokens in {duration(pace.took)}"
        if pace.finished:
            rate = pace.read / pace.took
            speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
            lines.append(f"{left}, at {speed} tokens a second {duration(pace.seconds)} (measured: {basis}).")
        else:
            stopped = f"the measurement ended before the first batch did ({basis})"
            lines.append(f"{left}, which take more than {duration(pace.seconds)}: {stopped}.")
    known = [pace.seconds for pace in paces if pace.seconds is not None]
    if len(known) == len(paces) > 1:
        least = "" if all(pace.finished for pace in paces) else "more than "
        lines.append(f"Together: {least}{duration(sum(known))}, without loading and what is done with the scores.")
    return lines


def duration(seconds: float) -> str:
    """Seconds as a person says them, to two of its units.

    Example:
        >>> [duration(seconds) for seconds in (0.4, 59.6, 3599, 7260, 190000)]
        ['under a second', '1 min 0 s', '59 min 59 s', '2 h 1 min', '2 d 4 h']
    """
    if seconds < 1:
        return "under a second"
    whole = round(seconds)
    for name, smaller, unit, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {smaller}"
    return f"{whole} s"


class _Exact:
    """Text that a console prints as it is: no line folded, cut or stripped, no tab widened, however long it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in self.text.split("\n"):
            yield _Weightless(line)
            yield Segment.line()


class _Weightless(Segment):
    """A segment that counts as zero columns wide: `Console.print` cuts lines that it counts as wider than itself."""

    @property
    def cell_length(self) -> int:
        return 0
