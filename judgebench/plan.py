"""The command line: `python -m judgebench.plan RUN within=0.2`, how many articles to label, and
which.

A run on texts of which humans rated a few (five articles at least), or all, is the pilot: how far
its ratings lie apart, and how well its judge agrees with them, says how many labelled articles
bring a system's mean, and the difference of two, to within a number of points of the humans' scale
(95 % interval), with labels alone and with the judge's scores of all articles. Take the numbers to
about a half: few articles know a spread no better.

Asked is about the very articles that the judge reads: the means that they would have if humans
rated all of them.

  within=0.2        how far the interval may reach to each side; several as within=0.1,0.2; else
  four of the scale articles=1000     articles that the judge is to read in all; else those of the
  run out=label.csv     a file with the texts to label next: whole articles, drawn at random and
  spread over the judge's
                    scores, as many as the first width takes with the judge
  seed=0            of that draw
  target=these      means on these very articles; target=like asks about articles like these, which
  takes more labels
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from judgebench.runtime.errors import Refusal, UserError
from judgebench.runtime.files import atomic, user_path

if TYPE_CHECKING:
    from judgebench.stats.scores import Sample

_EXAMPLE = "python -m judgebench.plan outputs/first within=0.2"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SHARES = (0.025, 0.05, 0.075, 0.1)
"""Widths where none is asked for, as shares of the humans' scale."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; give a run folder, as {_EXAMPLE}.")


@dataclass(frozen=True)
class PlanAsked:
    """The run folder and the settings of a plan, see the module."""

    run: Path
    within: tuple[float, ...] = ()
    articles: int | None = None
    out: Path | None = None
    seed: int = 0
    target: str = "these"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the plan; 0, or 2 after a user's mistake. No model is loaded."""
    from judgebench.cli import as_sentence
    from judgebench.report.render import WIDTH, Terminal, to_terminal

    try:
        with as_sentence():
            blocks, lines = labels_to_give(_asked(arguments))
            console = Terminal(width=max(WIDTH, Terminal().width))
            console.print(to_terminal(blocks))
            for line in lines:
                print(line)
    except Refusal as refusal:
        print(f"judgebench: {refusal.sentence}", file=sys.stderr)
        return 2
    return 0


def _asked(arguments: Sequence[str] | None) -> PlanAsked:
    """The settings that are asked for; `UserError` names everything that is wrong with them."""
    parser = _Parser(
        prog="python -m judgebench.plan",
        usage="%(prog)s [-h] RUN [within=NUMBER] [articles=COUNT] [out=FILE.csv] [seed=NUMBER] "
        "[target=like]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RUN",
        help="the folder of a finished run, and settings, see above",
    )
    words = parser.parse_args(arguments).words
    known = [field.name for field in fields(PlanAsked) if field.name != "run"]
    folders = [word for word in words if user_path(word).is_dir()]
    runs = [word for word in words if "=" not in word or word in folders]
    keys = [word.partition("=")[0] for word in words if word not in runs]
    # everything that is wrong, in one go
    problems = [
        f"{key}: there is no such setting; there are {', '.join(known)}."
        for key in keys
        if key not in known
    ]
    problems += [
        f"{key}: it is given twice; give it once."
        for key in dict.fromkeys(keys)
        if keys.count(key) > 1
    ]
    problems += (
        [] if len(runs) == 1 else [f"{len(runs)} run folders are given; give one, as {_EXAMPLE}."]
    )
    problems += [
        f"{run}: there is no such folder; give one that a run wrote."
        for run in runs
        if run not in folders
    ]
    values: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        if key in known and word not in runs:
            try:
                values[key] = _value(key, text)
            except ValueError as error:
                problems.append(f"{word}: {error}.")
    if values.get("articles") == 0:
        problems.append("articles=0: the judge must read some; give a whole number above 0.")
    if "out" in keys and "within" not in keys:
        problems.append(
            "out: as many articles are listed as a width takes; give one, as within=0.2."
        )
    if problems:
        raise UserError(*problems)
    return PlanAsked(user_path(runs[0]), **values)


def _value(key: str, text: str) -> Any:
    if key == "within":
        numbers = [
            float(part) if _NUMBER.fullmatch(part.strip()) else 0.0
            for part in text.strip("[] ").split(",")
        ]
        if not all(0 < number < math.inf for number in numbers):
            raise ValueError("it must be a number above 0, or several, as within=0.1,0.2")
        return tuple(numbers)
    if key == "target":
        if text not in ("these", "like"):
            raise ValueError("it must be these (these very articles) or like (articles like these)")
        return text
    if key == "out":
        path = user_path(text)
        if path.suffix != ".csv":
            raise ValueError("the texts to label are a table; give a name that ends in .csv")
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {path.parent}, or this is one; name a file")
        return path
    if not text.isdecimal():
        raise ValueError(f"it must be a whole number, as {key}=1000")
    return int(text)


def labels_to_give(asked: PlanAsked) -> tuple[list[Any], list[str]]:
    """The plan of a run: its table as blocks of a report, and lines for people on what was
    written."""
    from judgebench.stats.few_labels import FewLabels
    from judgebench.stats.label_plan import MEAN, label_plan

    rows: list[dict[str, Any]] = []
    chosen = _pilots(asked.run)
    for dimension, side in chosen.items():
        pilot = FewLabels.of(side)
        low, high = side.scale or (side.cell.range.minimum, side.cell.range.maximum)
        widths = asked.within or [share * float(high - low) for share in _SHARES]
        records = label_plan(pilot, widths, asked.articles, asked.target == "these")
        said = f"{side.cell.judge}, {side.cell.decoding}, range {side.cell.range}"
        rows += [{"dimension": dimension, "judge": said, **record} for record in records]
    needed = [
        row["predicted"] for row in rows if row["of"] == MEAN and row["within"] in asked.within[:1]
    ]
    lines = [] if asked.out is None else _write(asked, chosen, needed)
    return _table(rows, asked.target), lines


def _pilots(run: Path) -> dict[str, Sample]:
    """Dimension -> the judge, decoding and range that follows the humans best; of equal ones the
    first."""
    from judgebench.results.results import Results
    from judgebench.stats.few_labels import FewLabels, common_correlation
    from judgebench.stats.scores import Scores, samples_of

    results = Results.load(run)
    if results.compares:
        raise UserError(
            f"{run}: it compares texts, and a plan is of scores; give a run with prompt=paper."
        )
    scores = Scores.of(results.scores)
    best: dict[str, tuple[float, Sample]] = {}
    for side in samples_of(
        scores, results.readings, results.ratings, results.scale, dataset=results.dataset
    ):
        follows = common_correlation(FewLabels.of(side))
        if side.cell.dimension not in best or follows > best[side.cell.dimension][0]:
            best[side.cell.dimension] = follows, side
    return {dimension: side for dimension, (_, side) in best.items()}


def _table(rows: Sequence[dict[str, Any]], target: str) -> list[Any]:
    import pandas as pd

    from judgebench.report.formats import general, thousands
    from judgebench.report.table import Col, View

    def note(_: Any, shown: pd.DataFrame) -> str:
        these = "these very articles (target=like: on articles like these)"
        notes = [
            "Articles whose texts of all systems humans rate, until the 95 % interval of means on "
            f"{these if target == 'these' else 'articles like these'} reaches no farther to each "
            "side, mean over systems or pairs; with labels alone, and with the judge's scores of "
            "all articles."
        ]
        if (shown["predicted"].isna() & shown["labels"].notna()).any():
            notes.append("A dash: all these articles are too few; articles=1000 asks about more.")
        return " ".join(notes + list(shown["reason"][shown["labels"].isna()].dropna().unique()))

    view = View(
        "plan",
        "Articles to label",
        pd.DataFrame,
        (
            Col("of", "of", left=True),
            Col("within ±", "within", general),
            Col("labels alone", "labels", thousands),
            Col("with the judge", "predicted", thousands),
            Col("saved", "saved", thousands),
        ),
        by=["dimension"],
        title="{dimension}",
        size="{labelled} of {articles} articles labelled; judge: {judge}",
        once=["of"],
        note=note,
    )
    return list(view(rows))


def _write(asked: PlanAsked, chosen: dict[str, Sample], needed: Sequence[int | None]) -> list[str]:
    import numpy as np

    from judgebench.stats.label_plan import articles_to_label

    # the texts of all dimensions, where these have the same; else of the first
    sides = list(chosen.values())
    if not all(np.array_equal(side.names, sides[0].names) for side in sides):
        sides = sides[:1]
    names = sides[0].names
    groups = sides[0].groups
    systems = sides[0].systems
    done = set(groups[np.any([~np.isnan(side.human) for side in sides], axis=0)].tolist())
    free = np.array([group not in done for group in groups.tolist()])
    open_ = len(set(groups[free].tolist()))
    if not open_:
        raise UserError(
            "out: humans rated a text of every article of this run, so there is none to list; "
            "leave it out."
        )
    if all(number is None for number in needed):
        raise UserError(
            "out: no number of labelled articles reaches this width; give a wider one, as "
            "within=0.3."
        )
    wanted = max(number for number in needed if number is not None) - len(done)
    if wanted < 1:
        return [f"Nothing was written: the {len(done)} labelled articles are enough."]
    # drawn over the judge's scores, in standard deviations from their mean; 0 where they do not
    # vary
    standard = [(side.scores - side.scores.mean()) / (side.scores.std() or 1.0) for side in sides]
    spread = np.mean(standard, axis=0)
    drawn = articles_to_label(spread[free], groups[free], min(wanted, open_), asked.seed)
    assert asked.out is not None
    with (
        atomic(asked.out) as temporary,
        Path(temporary).open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(("group_id", "system_id", "example_id"))
        for article in drawn:
            of = groups.astype(str) == article
            writer.writerows(zip(groups[of], systems[of], names[of], strict=True))
    few = (
        "" if wanted <= open_ else f" (of {wanted:,} more that it takes, for the run has no others)"
    )
    return [f"{len(drawn):,} articles to label next{few}: {asked.out}"]


if __name__ == "__main__":
    sys.exit(main())
