"""Overview of what a run would read, before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from judgebench.judges.loop import Pace
from judgebench.report.views.run import judges_line
from judgebench.types import Condition, Prompt


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
    True: "Dry run: a little was read, and is stored",
}


def pace_lines(paces: Sequence[Pace]) -> list[str]:
    """Time that the rest of a run will take, pass by pass and together."""
    lines = []
    for pace in paces:
        if not pace.left:
            lines.append(f"{pace.title}: every reading is in the store.")
        elif pace.seconds is not None:
            rate = f"{pace.read / pace.took:,.0f} tokens a second"
            lines.append(f"{pace.title}: {pace.left:,} tokens are left, at {rate} {duration(pace.seconds)}.")
    known = [pace.seconds for pace in paces if pace.seconds is not None]
    if len(known) == len(paces) > 1:
        lines.append(f"Together: {duration(sum(known))}, without loading and what is done with the scores.")
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
