"""Gates of recorded judges: how often one that has not changed fails, and how often one that has become worse is found.

`python scripts/gates.py FOLDER` reads the sets of a folder (see `external.py`). Half of the groups of a set make a
card, by 100 labels or all; the other half is the gate's, with no `require`. No model is loaded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from recorded.sets import Task, read, sample_of, tasks_of
from simulate import line, studies_of, verdicts

from judgebench.cards.calibration import Labelled, estimate_errors, fit
from judgebench.cards.requirements import (
    Outcome,
    by_changes,
    card_figures,
    changes_of,
    figures_of,
    outcomes_of,
    own_verdicts,
    requirements_of,
)
from judgebench.settings.costs import Asking, Costs
from judgebench.stats.correlation import DistinctPairs
from judgebench.studies.decisions import decision_records
from judgebench.studies.scores import JudgeScores
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError

LABELS = (100, 10**9)
"""Labelled texts of each half: so many, or all."""
FALLS = ("unchanged", "Spearman .1 lower", "Spearman .3 lower", "best score for all", "unchanged, by verdicts alone")
Row = dict[str, Any]


def decision_of(sample: JudgeScores, costs: Costs) -> Row:
    """The record of the pass mark that is chosen, or given; empty of labels that do not say which texts pass."""
    if sample.classes is None or sample.classes.pass_from is None:
        return {}
    records = decision_records([sample], costs, Asking())
    return records[-1] if records else {}


def card_of(sample: JudgeScores) -> Any:
    """What the gate asks of a card of these texts: uses, estimate, decision and figures."""
    decision = decision_of(sample, Costs())
    found = verdicts(sample, decisions=[decision] if decision else [])
    spoken = ScoreRange(sample.cell.range_min, sample.cell.range_max)
    rated = Labelled(sample.scores, sample.human, sample.groups, "linear", spoken, sample.scale, 0)
    clusters = sample.clusters
    pairs = DistinctPairs(sample.scores, sample.human, clusters.number, clusters.count)
    test = {"groups": clusters.count} | estimate_errors(rated, sample.resamples)
    return SimpleNamespace(
        uses=list(found.values()),
        estimate=fit("linear", sample.scores, sample.human, spoken, sample.scale),
        decision=decision or None,
        figures={"test": test, "promised": clusters.record({"spearman": pairs.spearman(clusters.weights)})},
    )


def outcomes(card: Any, sample: JudgeScores, by_verdicts: bool = False) -> tuple[Sequence[Outcome], list[str], float]:
    """The outcomes of the card's own verdicts, the figures that are worse, and the fall of Spearman that half of such
    gates notice."""
    mark = card.decision["pass_mark"] if card.decision else None
    decision = decision_of(sample, Costs(threshold=mark)) if card.decision else {}
    found = list(verdicts(sample, decisions=[decision] if decision else []).values())
    (metric,) = studies_of(sample)["metrics"]
    rows = pd.DataFrame({"score": sample.scores, "human": sample.human, "group_id": sample.groups, "status": "parsed"})
    figures = figures_of(card, found, metric, rows, decision, resamples=sample.resamples, seed=0)
    judged = outcomes_of(requirements_of(None, card), found, figures)
    changes = changes_of(card_figures(card), figures)
    half = next((change.half for change in changes if change.name == "spearman"), np.nan)
    if by_verdicts:
        return judged, [], half
    return by_changes(judged, card, changes), [change.name for change in changes if change.worse], half


def worse(sample: JudgeScores, fall: float, seed: int) -> JudgeScores | None:
    """The judge with as much noise as lowers its Spearman by so much; None where it has less."""

    def rho(scores: np.ndarray) -> float:
        return float(pd.Series(scores).corr(pd.Series(sample.human), method="spearman"))

    noise = np.random.default_rng(seed).normal(size=len(sample.scores)) * sample.scores.std()
    wanted = rho(sample.scores) - fall
    if not wanted > 0.05:
        return None
    low, high = 0.0, 50.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if rho(sample.scores + middle * noise) > wanted else (low, middle)
    return with_scores(sample, sample.scores + high * noise)


def with_scores(sample: JudgeScores, scores: np.ndarray) -> JudgeScores:
    return replace(sample, scores=np.clip(scores, sample.cell.range_min, sample.cell.range_max))


def gates(task: Task, judge: str, draw: int) -> Iterator[Row]:
    """A row a gate: of a judge that has not changed, and of the `FALLS`."""
    known = np.isfinite(task.judges[judge]) & np.isfinite(task.mean)
    half = task.half(task.groups, draw)
    rng = np.random.default_rng(draw)
    for labels in LABELS:
        sides = []
        for side in (known & half, known & ~half):
            drawn = rng.permutation(np.flatnonzero(side))[:labels]
            sides.append(sample_of(task, judge, np.isin(np.arange(len(side)), drawn)))
        card = card_of(sides[0])
        here = sides[1]
        changed: Mapping[str, JudgeScores | None] = {
            "unchanged": here,
            "unchanged, by verdicts alone": here,
            "Spearman .1 lower": worse(here, 0.1, draw),
            "Spearman .3 lower": worse(here, 0.3, draw),
            "best score for all": with_scores(here, np.full(len(here.scores), here.cell.range_max)),
        }
        for fall, sample in changed.items():
            if sample is None:
                continue
            try:
                judged, figures, noticed = outcomes(card, sample, "verdicts" in fall)
            except UserError:  # nothing is required of it
                break
            # a judge that may not decide by its card is no false alarm
            own = card.decision is None or "decide" in own_verdicts(card)
            states = {outcome.state for outcome in judged if own or outcome.name != "decide"}
            decides = [outcome.state for outcome in judged if not own and outcome.name == "decide"]
            code = 1 if figures or "failed" in states else 2 if "not measured" in states else 0
            row = {"set": task.name, "judge": judge, "labels": "all" if labels > 10**6 else labels, "fall": fall}
            yield row | {
                "code": code,
                "figures": figures,
                "noticed": noticed,
                "decides": decides,
                "texts": len(here.scores),
            }


def shares(rows: Sequence[Row]) -> Iterator[str]:
    """The table: gates that fail, and that end with too few texts, in per cent."""
    yield line(
        "labels",
        "judge",
        "gates",
        "fails, %",
        "means over sets",
        "too few, %",
        "worse by",
        "half notice",
        "may not decide",
    )
    yield "|---" * 9 + "|"
    for labels in ("all", 100):
        for fall in FALLS:
            part = [row for row in rows if (row["labels"], row["fall"]) == (labels, fall)]
            codes = np.array([row["code"] for row in part])
            sets = [
                np.mean([row["code"] == 1 for row in part if row["set"] == name]) for name in {r["set"] for r in part}
            ]
            by = [name for row in part for name in row["figures"]]
            counts = ", ".join(f"{name} {by.count(name)}" for name in sorted(set(by)))
            noticed = f"{np.nanmedian([row['noticed'] for row in part]):.2f}" if part else "-"
            told = sum(bool(row["decides"]) for row in part)
            ends = 100 * (codes == 1).mean(), 100 * float(np.mean(sets)), 100 * (codes == 2).mean()
            yield line(labels, fall, len(part), *(f"{share:.1f}" for share in ends), counts, noticed, told)


def main(arguments: list[str] | None = None) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/gates.py", description=__doc__, formatter_class=plain)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--data-sets", type=int, default=4, metavar="N", help="dealings of the groups (4)")
    parser.add_argument("--judges", type=int, default=3, help="judges of a set, drawn where it has more; 0: all (3)")
    parser.add_argument("--out", type=Path, default=Path("gates.json"), help="the rows (gates.json)")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name, texts in read(options.folder).items():
        for task in tasks_of(name, texts, options.judges):
            begun = time.monotonic()
            if task.labels != "nominal":
                for judge in task.judges:
                    for draw in range(options.data_sets):
                        rows += gates(task, judge, draw)
            print(f"{task.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            options.out.write_text(json.dumps(rows), "utf-8")
    print("\n".join(shares(rows)))


if __name__ == "__main__":
    main()
