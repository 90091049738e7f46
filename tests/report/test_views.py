"""Tables and sentences of frozen results are as they were frozen; `python -m tests.report.frozen` freezes them anew."""

import pytest

from judgebench.report.layout import PAGE, Fold, terminal_blocks
from judgebench.report.views import run
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
    parts = [part for section in PAGE for part in section.parts]
    parts += [part for fold in parts if isinstance(fold, Fold) for part in fold.parts]
    for part in parts:
        if callable(part) and part not in (run.cost, run.repeat):
            assert list(part(empty)) == []
    assert len(terminal_blocks(Results(about={"titles": {"main": "a judge"}}), tables=True)) == 1
