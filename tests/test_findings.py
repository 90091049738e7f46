"""docs/findings.md says what `python scripts/findings.py` writes."""

import pytest

from scripts import findings

TASKS = [task if task == "code" else pytest.param(task, marks=pytest.mark.exhaustive) for task in findings.TASKS]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_page_says_what_the_command_writes(task):
    file = findings.DATA / findings.TASKS[task][1]
    if not file.exists():
        pytest.skip(f"{file.name} is not beside the project")
    page = findings.PAGE.read_text("utf-8")
    assert findings.replaced(page, task, findings.table(findings.league(task, findings.DATA))) == page
