"""Sentences and rows of each dimension, which only several of them are named by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from judgebench.report.table import Block, Paragraph
from judgebench.results.results import Results
from judgebench.types import Row, Rows
from judgebench.words.formats import say


def dimensions_of(results: Results) -> list[str]:
    """The dimensions that a run judges."""
    return list(dict.fromkeys(row["dimension"] for row in results.metrics))


def answers(results: Results, question: str, facts: Mapping[str, Row]) -> list[Block]:
    """The answer to a question in each dimension.

    Args:
        question: the name of a template, see `say`.
        facts: dimension -> what the template takes.
    """
    return sentences(
        results, {name: say(question, results=results, **of) for name, of in facts.items()}
    )


def sentences(results: Results, lines: Mapping[str, str]) -> list[Block]:
    """The sentences of dimensions as paragraphs, those that are not empty."""
    several = len(dimensions_of(results)) > 1
    blocks: list[Block] = []
    for name, line in lines.items():
        if line:
            text = f"{name}: {line}" if several else f"{line[:1].upper()}{line[1:]}"
            blocks.append(Paragraph(text))
    return blocks


def bare(results: Results, lines: Iterable[str]) -> list[Block]:
    """Sentences that begin with their dimension, without it where it is the only one."""
    names = dimensions_of(results)
    prefix = f"{names[0]}: " if len(names) == 1 else ""
    return [Paragraph(line.removeprefix(prefix)) for line in lines]


def headed(results: Results, rows: Rows) -> Rows:
    """The rows with a `head`, their dimension where there are several."""
    several = len(dimensions_of(results)) > 1
    return [row | {"head": row["dimension"] if several else ""} for row in rows]
