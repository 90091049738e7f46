"""Every table and figure of both papers has a maker in judgebench, and the maker makes it."""

from __future__ import annotations

import pytest

from judgebench.report.figures.attacks import assessment_figure
from judgebench.report.html import _names
from judgebench.report.layout import PAGE, draw_all
from judgebench.report.paper import build, build_cap
from tests.report import attacked
from tests.report.conftest import results_of
from tests.report.defended_records import RECORD, defense_records
from tests.report.paper.test_cap_defenses import JUDGE, as_printed
from tests.report.test_attack_figures import TITLES, records

DRAWINGS = {"contrastive decoding": [1], "CAP": [1, 3]}
"""Figures that show a method or an invented example, and no result."""

FIGURES = {
    ("contrastive decoding", 2): "scores_coherence",
    ("contrastive decoding", 3): "logprobs_coherence",
    ("CAP", 2): "assessment",
    ("CAP", 4): "candidates_joint",
    ("CAP", 5): "embeddings_joint",
    ("CAP", 6): "suffix_adv_suffix_coherence_0-4",  # on SummEval
    ("CAP", 7): "suffix_adv_suffix_coherence_0-4",  # on TopicalChat
    ("CAP", 8): "separability_joint",
    ("CAP", 9): "detectors",
    ("CAP", 10): "strengths_joint",
}
"""Paper and number -> the figure's name."""

TABLES = {("contrastive decoding", number): f"table_{number}" for number in range(1, 10)}
TABLES |= {("CAP", number): f"cap_table_{number}" for number in range(1, 14)}
"""Paper and number -> the table's name."""

LAST = {"contrastive decoding": (9, 3), "CAP": (13, 10)}
"""Paper -> the numbers of its last table and its last figure."""


@pytest.fixture(scope="module")
def figures(builder):
    """Name -> figure, of runs that have what the papers' runs have."""
    run = builder(articles=6, systems=4)
    phrases = attacked.attacked_run(run, resamples=10)
    prepared = defense_records(detectors=[RECORD])
    names = ("standards", "strengths", "references", "detectors")
    drawn = draw_all(results_of(run, **{name: getattr(prepared, name) for name in names}))
    drawn |= draw_all(results_of(phrases.run, suffix=phrases.suffix))
    comparative = assessment_figure(records(0.3), records(0.05, 0.0, 1.0), TITLES)
    return drawn | {"assessment": comparative}


@pytest.fixture(scope="module")
def tables(paper_runs):
    cap = [as_printed(JUDGE, dataset="summeval"), as_printed("gemini-2.0", dataset="topicalchat")]
    return {table.name: table for table in [*build(paper_runs), *build_cap(cap)]}


@pytest.mark.parametrize("paper", LAST)
def test_every_number_of_a_paper_is_listed(paper):
    last_table, last_figure = LAST[paper]
    assert [number for name, number in TABLES if name == paper] == [*range(1, last_table + 1)]
    listed = [number for name, number in FIGURES if name == paper]
    assert sorted(listed + DRAWINGS[paper]) == [*range(1, last_figure + 1)]


@pytest.mark.parametrize("item", FIGURES, ids=str)
def test_a_figure_of_a_paper_is_drawn_from_results(figures, item):
    figure = figures[FIGURES[item]]
    for axis in figure.axes:
        assert axis.lines or axis.patches or axis.collections
    assert figure.axes


@pytest.mark.parametrize("item", FIGURES, ids=str)
def test_a_figure_of_a_paper_has_its_place_on_the_page(item):
    name = FIGURES[item]
    starts = [start for start in _names(part for section in PAGE for part in section.parts) if start]
    # absolute and comparative assessment are of two runs: `python -m judgebench.report.paper` writes their figure
    assert name == "assessment" or any(map(name.startswith, starts))


@pytest.mark.parametrize("item", TABLES, ids=str)
def test_a_table_of_a_paper_is_filled_by_runs(tables, item):
    table = tables[TABLES[item]]
    assert table.has_ours
    assert table.rows["printed"].any()
    assert table.files[f"{table.name}.csv"].count("\n") > 1
