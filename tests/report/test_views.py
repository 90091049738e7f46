"""Tables and sentences of frozen results are as they were frozen; `python -m tests.report.frozen` freezes them anew."""

import pytest

from judgebench.report.layout import PAGE, terminal_blocks
from judgebench.results.results import Results
from tests.report import frozen

CASES = list(frozen.cases())


@pytest.mark.parametrize(
    ("module", "case"), [(module, case) for module, _, case in CASES], ids=[f"{m}-{n}-{c['show']}" for m, n, c in CASES]
)
def test_results_are_shown_as_they_were(module, case):
    assert frozen.shown(module, case) == case["shown"]


def test_of_nothing_nothing_is_shown():
    empty = Results()
    for section in PAGE:
        for part in section.parts:
            if callable(part) and section.name not in ("answers", "cost", "repeat"):
                assert list(part(empty)) == []
    assert len(terminal_blocks(Results(about={"titles": {"main": "a judge"}}))) == 1
