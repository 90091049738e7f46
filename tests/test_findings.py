"""docs/findings.md says what `python scripts/findings.py` writes; what computes it is frozen in `golden`."""

import os

import pytest

from scripts import findings


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", findings.TASKS)
def test_the_page_says_what_the_command_writes(task):
    file = findings.DATA / findings.TASKS[task][1]
    if not file.exists():
        pytest.skip(f"{file.name} is not beside the project")
    page = findings.PAGE.read_text("utf-8")
    assert findings.replaced(page, task, findings.table(findings.league(task, findings.DATA))) == page


PAIR = os.environ.get("JUDGEBENCH_QWEN_PAIR")
"""Folder with the models of the pair of those readings, in `main` and `assistant`."""


@pytest.mark.exhaustive
@pytest.mark.skipif(PAIR is None, reason="JUDGEBENCH_QWEN_PAIR names no folder with the models")
@pytest.mark.parametrize("task", findings.CAP)
def test_the_page_says_what_the_model_reads_under_cap(task):
    if not (findings.DATA / findings.CAP[task][0]).exists():
        pytest.skip("the rated texts are not beside the project")
    results = findings.attacked(task, findings.DATA, f"{PAIR}/assistant/model.gguf", None)
    page = findings.PAGE.read_text("utf-8")
    assert findings.replaced(page, task, findings.matrix(results)) == page
