"""Prompts that would be read, shown in place of reading them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judgebench.judges.judge import PromptSet, ReadingJudge
from judgebench.report.views.run import dry_run_view
from judgebench.runtime.distributed import process_group
from judgebench.words.console import Terminal


def show_dry_run(
    judge: ReadingJudge,
    questions: PromptSet,
    console: Terminal,
    waiting: Sequence[str] = (),
    store: Path | None = None,
) -> None:
    """Prints the prompts that a judge would read, and what of that the `store` holds; `waiting` are
    defenses that are not ready."""
    if not process_group().first:
        return
    reader = judge.reader(questions)
    console.print(dry_run_view(questions.prompts, reader.tokens(), judge.titles, waiting))
    answers = None if questions.answers is None else questions.answers.note
    # a store that is not there would be made, and models' content looked at
    held = reader.held() if store is not None and store.is_file() else None
    for line in (answers, held, reader.estimate()):
        if line is not None:
            console.print(line, highlight=False, markup=False)
