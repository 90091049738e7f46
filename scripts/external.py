"""Recorded judges of other people, by judgebench's own statistics: what it promises of them, and how often that holds.

`python scripts/external.py FOLDER` reads the sets of a folder, one .jsonl or .jsonl.gz each, a row a text:

    {"set", "group", "id", "system", "question", "labels", "classes" | "scale", "human": {rater: value},
     "judges": {judge: value}, "distributions": {judge: {value: probability}}}

and writes a page and, beside it, its numbers as JSON. No model is loaded. Each of N times the groups of a set are dealt
into two halves: one makes the promise, the other tests it. Groups of a half are drawn, too, so that a right 95 %
interval for texts like these holds the value of the other half less often; how often, each cell says. Gates of judges
that have not changed have a script of their own, `gates.py`.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from recorded.cells import ALL, CHANGES, LABELS, LEVEL, SHUFFLED, SIZES, USES, cell, choices
from recorded.sets import Task, published, read, tasks_of
from simulate import line

from judgebench.studies.rules import CARE, FEW, NO, RULES, YES

RULES_OF_CHOICE = ("judgebench", "always plain", "maximum", f"max-T at {LEVEL:g}, then best", "one standard error")
ALIKE = 0.05
"""Judges whose worths lie no farther apart differ hardly."""
BROKEN = INVENTED = 0.05
SHORT = 0.15
LOST = OVER = 0.01
COVERED = 0.94
"""What is allowed: shares of verdicts and changes, losses of worth, a promise less its outcome; and asked: coverage of
all texts of the labelled groups. That of other groups is asked cell by cell."""
Rows = list[dict[str, Any]]


def means_of(rows: Iterable[dict[str, Any]], name: str) -> dict[str, float]:
    """Set -> the mean of a figure over its rows, from the lowest to the highest."""
    by_set: dict[str, list[float]] = {}
    for row in rows:
        by_set.setdefault(row["set"], []).append(row[name])
    means = {key: float(np.mean(values)) for key, values in by_set.items()}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def mean_of(rows: Iterable[dict[str, Any]], name: str) -> float:
    """The mean over sets of their means; NaN without rows."""
    means = means_of(rows, name)
    return float(np.mean(list(means.values()))) if means else float("nan")


def end_of(rows: Iterable[dict[str, Any]], name: str, place: int, form: str = ".3f") -> str:
    """The set with the lowest mean (place 0) or the highest (-1), and that."""
    means = [*means_of(rows, name).items()]
    return f"{means[place][0]} {means[place][1]:{form}}" if means else "-"


def held(holds: bool) -> str:
    return "held" if holds else "**not held**"


def table(head: str, rows: Iterable[str]) -> Iterator[str]:
    """A Markdown table, of the titles of its columns and its rows."""
    yield from ("", f"| {head} |", line(*["---"] * (head.count("|") + 1)), *rows, "")


# --- parts of the page ------------------------------------------------------------------------------------------------


def of_published(rows: Rows) -> Iterator[str]:
    yield "## Published figures"
    yield ""
    yield "Published of both halves of the groups; here of the share of texts that the folder holds."
    cells = (
        line(
            row["set"], row["figure"], row["judge"], 100 * row["here"], f"{row['published']:.3f}", f"{row['ours']:.3f}"
        )
        for row in rows
    )
    yield from table("set | figure | judge | texts here, % | published | ours", cells)


def size_of(labels: int) -> str:
    return "all" if labels == ALL else str(labels)


def kept(rows: Rows, use: str, word: str, labels: int | None = None) -> tuple[int, float, float]:
    """Verdicts given on a use, and the shares of them that fall short and that are clearly broken: means over sets."""
    given = [
        row | {key: bool(row[key]) for key in ("short", "broken")}
        for row in rows
        if (row["use"], row["verdict"]) == (use, word) and labels in (None, row["labels"])
    ]
    return len(given), mean_of(given, "short"), mean_of(given, "broken")


def shown(share: float) -> str:
    return "-" if np.isnan(share) else f"{share:.0%}"


def _unearned(rows: Rows) -> Iterator[str]:
    """Yes among the cells in which the other half does not keep what a yes promises. A rule can lower that; the share
    of yes that fall short rests on how many good judges a set has, too."""
    cells = [row | {"yes": row["verdict"] == YES} for row in rows if row["holds"] is False]
    if not cells:
        return
    given = sum(row["yes"] for row in cells)
    yield (
        f"Order texts: of {len(cells)} cells in which a yes would fall short on the other half, {given} are given one "
        f"({mean_of(cells, 'yes'):.1%} by sets; most: {end_of(cells, 'yes', -1)})."
    )
    yield ""


def of_verdicts(rows: Rows) -> Iterator[str]:
    yield "## Verdicts"
    yield ""
    yield (
        "By so many labelled texts of half of the groups. Short: on the other half the figure lies below what is "
        "promised: near to a rater, or half of the way; of scores, as near as a rater, and nearer than a constant. "
        "Broken: the upper end of its interval does, too. Shares are means over sets."
    )
    counts = []
    for use, size in product(USES, SIZES):
        of_use = [row for row in rows if (row["use"], row["labels"]) == (use, size)]
        columns: list[object] = [use.replace("_", " "), size_of(size), len(of_use)]
        for word in (YES, CARE):
            count, *shares = kept(of_use, use, word)
            columns += [count, *map(shown, shares)]
        columns += [sum(row["verdict"] == word for row in of_use) for word in (NO, FEW)]
        counts.append(line(*columns))
    yield from table(
        "use | labels | cells | yes | short | broken | with care | short | broken | no | too few texts", counts
    )
    yield from _unearned(rows)
    yield "Each set with a broken verdict:"
    by_set = []
    for name in dict.fromkeys(row["set"] for row in rows if row["broken"]):
        for use in USES:
            for word in (YES, CARE):
                given = [row for row in rows if (row["set"], row["use"], row["verdict"]) == (name, use, word)]
                wrong = [row for row in given if row["broken"]]
                if wrong:
                    judges = ", ".join(sorted({row["judge"] for row in wrong}))
                    by_set.append(line(name, use.replace("_", " "), word, len(given), len(wrong), judges))
    yield from table("set | use | verdict | given | broken | judges", by_set)
    yield "Each yes that broke:"
    wrong = [row for row in rows if row["verdict"] == YES and row["broken"]]
    names = ("set", "judge", "use", "draw", "clause", "broken")
    lines = [line(size_of(row["labels"]), *(row[name] for name in names)) for row in wrong]
    yield from table("labels | set | judge | use | dealing | said | found there", lines)


def of_choices(rows: Rows) -> Iterator[str]:
    yield "## Choice among judges"
    yield ""
    yield (
        "Each judge in turn the plain one, chosen by all texts of one half; the loss to the best of the other half, in "
        "the metric that is chosen by. Means over tasks; the last column is of the task with the highest loss."
    )
    cells = []
    parts = {"all": rows} | {metric: [row for row in rows if row["metric"] == metric] for metric in metrics_of(rows)}
    parts[f"they differ by more than {ALIKE:g}"] = [row for row in rows if row["differ"] > ALIKE]
    parts["they hardly differ"] = [row for row in rows if row["differ"] <= ALIKE]
    for part, chosen in parts.items():
        for rule in RULES_OF_CHOICE if chosen else ():
            tasks = len({row["set"] for row in chosen})
            cells.append(line(part, tasks, rule, f"{mean_of(chosen, rule):.4f}", end_of(chosen, rule, -1)))
    yield from table("judges | tasks | rule | loss | highest", cells)
    over = [row for row in rows if row["over"] is not None]
    cells = []
    for metric in metrics_of(rows):
        of_metric = [row for row in over if row["metric"] == metric]
        ends = f"{mean_of(of_metric, 'over'):+.4f}", end_of(of_metric, "over", -1, "+.3f")
        cells.append(line(metric, len(of_metric), *ends))
    yield from table("metric | promises | promise less outcome | highest", cells)


def metrics_of(rows: Rows) -> list[str]:
    return sorted({row["metric"] for row in rows})


def of_coverage(rows: Rows) -> Iterator[str]:
    yield "## Intervals"
    yield ""
    yield (
        "Shares of 95 % intervals, in per cent, that hold the value of all texts of the half labelled in part, and "
        "of the other half; means over tasks. Plain: texts without groups (resampled, by Wilson, by jackknife)."
    )
    cells = []
    for figure, labels, method in sorted({(row["figure"], row["labels"], row["method"]) for row in rows}):
        part = [row for row in rows if (row["figure"], row["labels"], row["method"]) == (figure, labels, method)]
        shares = 100 * mean_of(part, "these"), 100 * mean_of(part, "others")
        asked, width = f"{100 * mean_of(part, 'asked'):.1f}", f"{mean_of(part, 'width'):.3f}"
        lowest = end_of(part, "others", 0, ".2f")
        cells.append(line(figure, labels, method, *shares, asked, width, len(part), lowest))
    yield from table(
        "figure | labels | method | these groups | other groups | asked | width | cells | lowest of others", cells
    )


def of_drift(rows: Rows) -> Iterator[str]:
    yield "## Drift"
    yield ""
    yield (
        "A card of all labels of one half, compared with those of the other: shares in per cent in which a change for "
        f"the worse is claimed. Found: the labels of {SHUFFLED:.0%} of the texts of the other half are shuffled."
    )
    cells = []
    for kind in ("invented", "found"):
        part = [row for row in rows if row["kind"] == kind]
        shares = [100 * mean_of(part, name) for name in ("any", *CHANGES)]
        cells.append(line(kind, len(part), *shares, end_of(part, "any", -1, ".2f")))
    yield from table("change | comparisons | any | spearman | error | bias | most", cells)


def summary(found: dict[str, Rows], facts: dict[str, Any]) -> Iterator[str]:
    """Ten lines that say what held."""
    yield (
        f"Read: {facts['texts']} texts of {facts['sets']} sets, {facts['tasks']} tasks, {facts['judges']} judges of "
        f"tasks, {facts['data_sets']} dealings; {facts['minutes']:.1f} minutes, {facts['memory']:.0f} MB at most."
    )
    near = [abs(row["published"] - row["ours"]) for row in found["published"]]
    most = f", {max(near):.3f} at most" if near else ""
    yield f"Published figures: {sum(gap <= 0.05 for gap in near)} of {len(near)} within .05 on the texts here{most}."
    for use in USES:
        given, short, broken = kept(found["verdicts"], use, YES)
        holds = not given or (broken <= BROKEN and short <= SHORT)
        by_size = {size: kept(found["verdicts"], use, YES, size)[0] for size in SIZES}
        parts = [f"{size_of(size)} labels {count}" for size, count in by_size.items()]
        few, _, care = kept(found["verdicts"], use, CARE)
        yield (
            f"Verdict {RULES[use].title}: {held(holds)} ({BROKEN:.0%} broken and {SHORT:.0%} short allowed): yes "
            f"{given} ({', '.join(parts)}), broken {shown(broken)}, short {shown(short)}; with care {few}, broken "
            f"{shown(care)}."
        )
    losses = {rule: mean_of(found["choices"], rule) for rule in RULES_OF_CHOICE}
    told = ", ".join(f"{rule} {loss:.4f}" for rule, loss in losses.items())
    least = min(loss for rule, loss in losses.items() if rule != "judgebench")
    yield f"Choice: {held(losses['judgebench'] <= least + LOST)} (at most {LOST:g} more than the best rule): {told}."
    over = mean_of((row for row in found["choices"] if row["over"] is not None), "over")
    yield f"Promise less outcome of the choice: {held(abs(over) <= OVER)} ({OVER:g} allowed): {over:+.4f}."
    ours = [row for row in found["coverage"] if row["labels"] == max(LABELS) and row["method"] != "plain"]
    for key, what in (("these", "all texts of the labelled groups"), ("others", "other groups")):
        # an interval for these very texts promises nothing of others
        fair = [row for row in ours if key == "these" or "these texts" not in row["method"]]
        shares = {}
        for figure, method in sorted({(row["figure"], row["method"]) for row in fair}):
            rows = (row for row in fair if (row["figure"], row["method"]) == (figure, method))
            shares[figure + method.removeprefix("judgebench")] = mean_of(rows, key)
        told = ", ".join(f"{name} {100 * share:.1f}" for name, share in shares.items())
        needed = COVERED if key == "these" else mean_of(fair, "asked")
        holds = min(shares.values(), default=1) >= needed
        yield f"Intervals, {what}: {held(holds)} ({needed:.0%} asked): {told}."
    claimed = {}
    for kind in ("invented", "found"):
        part = (row for row in found["drift"] if row["kind"] == kind)
        claimed[kind] = mean_of(part, "any")
    yield (
        f"Drift: {held(claimed['invented'] <= INVENTED)} ({INVENTED:.0%} allowed): invented in "
        f"{claimed['invented']:.1%} of comparisons, found in {claimed['found']:.1%} with {SHUFFLED:.0%} shuffled."
    )


# --- the run ----------------------------------------------------------------------------------------------------------


def measured(tasks: list[Task], draws: int, verdicts_alone: bool = False) -> dict[str, Rows]:
    """The rows of all parts, see `recorded.cells`."""
    found: dict[str, Rows] = {"verdicts": [], "coverage": [], "drift": [], "choices": []}
    for task in tasks:
        begun = time.monotonic()
        if not verdicts_alone:
            found["choices"] += choices(task, draws)
        for judge in task.judges:
            for draw in range(draws):
                cell(task, judge, draw, found, verdicts_alone)
        print(f"{task.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def main(arguments: list[str] | None = None) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/external.py", description=__doc__, formatter_class=plain)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--data-sets", type=int, default=8, metavar="N", help="dealings of the groups (8)")
    parser.add_argument("--judges", type=int, default=6, help="judges of a set, drawn where it has more; 0: all (6)")
    parser.add_argument("--sets", nargs="*", metavar="SET", help="these sets alone")
    parser.add_argument("--verdicts", action="store_true", help="verdicts alone")
    parser.add_argument("--out", type=Path, default=Path("external.md"), help="the page (external.md)")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir() or not (sets := read(options.folder)):
        parser.error(f"{options.folder} holds no sets: files .jsonl or .jsonl.gz with rows as above")
    # 1. the numbers
    begun = time.monotonic()
    sets = {name: rows for name, rows in sets.items() if options.sets is None or name in options.sets}
    tasks = [task for name, rows in sets.items() for task in tasks_of(name, rows, options.judges)]
    found = measured(tasks, options.data_sets, options.verdicts) | {"published": list(published(sets))}
    facts = {
        "sets": len(sets),
        "texts": sum(map(len, sets.values())),
        "tasks": len(tasks),
        "judges": sum(len(task.judges) for task in tasks),
        "data_sets": options.data_sets,
        "minutes": (time.monotonic() - begun) / 60,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    # 2. the page
    page = ["# Recorded judges", ""]
    page += [f"{number}. {text}" for number, text in enumerate(summary(found, facts), start=1)]
    page.append("")
    for part, rows in (
        (of_published, found["published"]),
        (of_verdicts, found["verdicts"]),
        (of_choices, found["choices"]),
        (of_coverage, found["coverage"]),
        (of_drift, found["drift"]),
    ):
        page += part(rows)
    options.out.write_text("\n".join(page).replace("\n\n\n", "\n\n"), "utf-8")
    options.out.with_suffix(".json").write_text(json.dumps(facts | found, indent=1), "utf-8")
    print("\n".join(page[:13]))


if __name__ == "__main__":
    main()
