"""The audit of recorded judges of other people, by their answers alone: `python scripts/audit_sets.py FOLDER`.

FOLDER holds the sets that `external.py` reads. Of graded sets with people: the regression of judge less human. Of
every set that has it, people or none: the order of a pair (a judge `... swapped`), the same prompt again (`repeats`),
and other scales (GEMBA's, `scales`), in parts of the judge's scale. A line an effect that is told from chance, and
counts. `--halves N` tests what the verdict *steady* says of half of the groups, drawn N times, by the effects in the
other half.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import compress
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recorded.sets import BY_QUESTION, QUESTION, Rows, Task, read, sample_of, tasks_of

from judgebench.settings.margins import Margins
from judgebench.stats.clusters import ENDS, SIGNIFICANCE
from judgebench.stats.maps import rescale
from judgebench.studies.audit import PairedTexts, Probing, audit_records
from judgebench.studies.paired import correct
from judgebench.studies.rules import FEW, NO, YES
from judgebench.studies.verdict_steady import effect_state
from judgebench.types import Example, by_key

SEGMENTS = ("question", "criterion", "kind")
MOST_JUDGES = 8
MARGIN = Margins().steady
RULES = ("steady", "size")
Line = dict[str, Any]


def examples_of(rows: Rows) -> list[Example]:
    """The texts of a task, named by their places, as `sample_of` names them."""
    examples = []
    for place, row in enumerate(rows):
        segments = {name: str(row[name])[:60] for name in SEGMENTS if row.get(name) is not None}
        group, system = str(row["group"]), str(row.get("system") or "-")
        examples.append(Example(str(place), group, system, row["source"], row["output"], {}, segments=segments))
    return examples


def of_people(name: str, rows: Rows) -> Iterator[Line]:
    """Effects of what varies in the data, of the graded tasks of a set."""
    rows = [row for row in rows if name not in QUESTION or row["question"] == QUESTION[name]]
    for task in tasks_of(name, rows, MOST_JUDGES):
        texts = rows
        if name in BY_QUESTION:
            texts = [row for row in rows if f"{name} {row['question']}" == task.name]
        if task.classes is not None and not task.classes.ordered:
            continue
        examples = examples_of(texts)
        for judge in task.judges:
            known = np.isfinite(task.judges[judge])
            sample = sample_of(task, judge, known)
            for record in audit_records([sample], Probing(examples, judge)):
                if record["instrument"] == "data":
                    yield {**record, "task": task.name, "judge": judge}


def paired(task: str, judge: str, factor: str, before: Any, after: Any, groups: Any) -> Line:
    """The effect of scores [n] as parts of the scale, NaN where there is none."""
    texts = PairedTexts(pd.DataFrame({"clean": np.asarray(before, float), "group": groups}), 1.0)
    return {"task": task, "judge": judge, **texts.record(factor, "", changed=np.asarray(after, float))}


def of_readings(name: str, rows: Rows) -> Iterator[Line]:
    """Order, repeats and scales: what a set has of them."""
    groups = [row["group"] for row in rows]
    judges = list(dict.fromkeys(judge for row in rows for judge in row["judges"]))

    def column(judge: str) -> list[Any]:
        return [row["judges"].get(judge, np.nan) for row in rows]

    # 1. both orders: a verdict for what was shown first, of a judge that was shown both
    classes = list(rows[0].get("classes") or ())
    places = {**{label: float(at) for at, label in enumerate(classes[:2])}, 0: 0.0, 1: 1.0}
    for judge in judges:
        if f"{judge} swapped" in judges:
            shown = [places.get(value, np.nan) for value in column(judge)]
            turned = [places.get(value, np.nan) for value in column(f"{judge} swapped")]
            # the place of the better one is named in the first order: 0 is the one shown first there
            yield paired(name, judge, "order of a pair", 1 - np.array(turned), 1 - np.array(shown), groups)
    # 2. the same prompt again
    repeats: dict[str, list[str]] = rows[0].get("repeats") or {}
    for judge, runs in repeats.items():
        ends = rows[0].get("judge_scale") or rows[0]["scale"]
        first, second = (rescale(np.array(column(run), float), tuple(ends)) for run in runs[:2])
        yield paired(name, judge, "same prompt again", first, second, groups)
    # 3. scales, each beside the first
    scales: dict[str, list[float]] = rows[0].get("scales") or {}
    for judge in judges:
        model, _, rest = judge.partition(" ")
        base, *others = scales or [""]
        if rest.split(" ")[0] != base:
            continue
        for other in others:
            second = judge.replace(f"{model} {base}", f"{model} {other}")
            before = _on_scale(column(judge), scales[base])
            after = _on_scale(column(second), scales[other])
            yield paired(name, judge, f"scale {other}, not {base}", before, after, groups)


def _on_scale(values: list[Any], ends: list[float]) -> np.ndarray:
    return rescale(np.array(values, float), (min(ends), max(ends)))


def lines_of(name: str, rows: Rows) -> list[Line]:
    """All effects of a set."""
    people = any(row["human"] for row in rows) and rows[0]["labels"] != "nominal"
    return [*(of_people(name, rows) if people else ()), *of_readings(name, rows)]


def show(lines: list[Line]) -> None:
    """Prints the effects that are told from chance within a task and judge, and counts."""
    missing = Counter(f"{line['factor']}: {line['reason']}" for line in lines if line["reason"])
    for family in by_key(lines, itemgetter("task", "judge")).values():
        count = correct(family)
        told = [line for line in family if line["p"] is not None and line["p_holm"] <= SIGNIFICANCE]
        for line in told:
            parts = [line[f"effect{end}"] / line["width"] for end in ENDS]
            form = "  {:24s} {:34s} {:20s} {:34s} {:+.3f} [{:+.3f}, {:+.3f}] of the scale, {:.1%} of the variance"
            words = [str(line[key] or "")[:34] for key in ("task", "judge", "factor", "level")]
            print(form.format(*words, *parts, line["share"]))
        print(f"  {family[0]['task']} {family[0]['judge']}: {len(told)} of {count} told", flush=True)
    for reason, count in missing.most_common(12):
        print(f"  not measured {count} times: {reason}")


def advice(lines: list[Line]) -> dict[Any, tuple[str, str, float]]:
    """Of each effect with an interval: its state by the verdict's rule, by its size alone, and that size."""
    for family in by_key(lines, itemgetter("task", "judge")).values():
        correct(family)
    said = {}
    for line in [line for line in lines if line["p"] is not None]:
        size = abs(line["effect"]) / line["width"]
        key = tuple(line[name] for name in ("task", "judge", "factor", "level"))
        said[key] = effect_state(line, MARGIN), YES if size <= MARGIN else NO, size
    return said


def regret(sets: dict[str, Rows], halves: int) -> None:
    """Prints how often an effect is on the other side of the margin in the other half of the groups."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    judges = set()
    for name, rows in sets.items():
        groups = np.array([row["group"] for row in rows])
        for draw in range(halves):
            first = Task.half(groups, draw)
            here, there = (advice(lines_of(name, list(compress(rows, side)))) for side in (first, ~first))
            for key in here.keys() & there.keys():
                judges.add((name, *key[:2]))
                *states, _ = here[key]
                beyond = there[key][-1] > MARGIN
                counts.update((rule, state, beyond) for rule, state in zip(RULES, states, strict=True))
    print(f"{len(judges)} judges of {len({name for name, *_ in judges})} sets")
    for rule in RULES:
        for state in (YES, FEW, NO):
            above, within = counts[rule, state, True], counts[rule, state, False]
            print(f"{rule:8s} {state:14s} {above + within:6d} effects, {above / max(1, above + within):.1%} beyond")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", help="names of sets, or how they begin; all where none is given")
    parser.add_argument("--halves", type=int, help="draws of halves")
    given = parser.parse_args()
    sets = read(given.folder) | read(given.folder / "judges_only")
    sets = {name: sets[name] for name in sets if not given.sets or name.startswith(tuple(given.sets))}
    if given.halves:
        regret(sets, given.halves)
        return
    for name, rows in sets.items():
        print(f"{name}: {len(rows)} rows")
        show(lines_of(name, rows))


if __name__ == "__main__":
    main()
