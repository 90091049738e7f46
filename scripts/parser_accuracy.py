"""How well the parser of free answers reads hand-labelled ones, by kind: right, missed, and, what would harm, misread.

    python scripts/parser_accuracy.py [FILE ...]

Misread are answers with another score than the label's, and scores read where there is none; missed are those whose
score was not found, which the run counts as failed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judgebench.decoding import parse_answer
from judgebench.types import FAILED, ScoreRange

LABELLED = Path(__file__).resolve().parents[1] / "tests" / "decoding" / "labelled_answers.jsonl"


def kind_of(row: Mapping[str, Any]) -> str:
    """What kind of answer a row holds; the older rows are told apart by their label."""
    if "kind" in row:
        return str(row["kind"])
    return (
        "letters" if "choices" in row else {"parsed": "score", "failed": "no score", "clamped": "beyond"}[row["status"]]
    )


def verdict(row: Mapping[str, Any]) -> str:
    """`right`, `missed` or `misread`."""
    score_range = ScoreRange(*row["range"])
    read = parse_answer(row["text"], score_range, row.get("choices"))
    expected = float(score_range.minimum if row["score"] is None else row["score"])
    if (read.value, read.status) == (expected, row["status"]):
        return "right"
    return "missed" if read.status == FAILED else "misread"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, default=[LABELLED], metavar="FILE")
    parser.add_argument("--errors", action="store_true", help="show each answer that is not right")
    given = parser.parse_args(arguments)
    counts: dict[str, Counter[str]] = {}
    for row in (json.loads(line) for file in given.files for line in file.read_text("utf-8").splitlines()):
        found = verdict(row)
        counts.setdefault(kind_of(row), Counter())[found] += 1
        if given.errors and found != "right":
            read = parse_answer(row["text"], ScoreRange(*row["range"]), row.get("choices"))
            print(f"{found}: {row['text']!r} is {row['score']}, read {read.value:g} ({read.status})")
    print(f"{'kind':12s} {'answers':>7s} {'right':>6s} {'missed':>6s} {'misread':>7s} {'accuracy':>8s}")
    for name, one in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        share = one["right"] / one.total()
        print(f"{name:12s} {one.total():7d} {one['right']:6d} {one['missed']:6d} {one['misread']:7d} {share:8.1%}")


if __name__ == "__main__":
    main()
