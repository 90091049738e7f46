"""What defenses found, as people read it: hand-computed means and intervals, and honest sentences."""

from dataclasses import replace

import pytest
from judgebench.report.defense_files import DefenseRecords, read_defenses, write_defenses
from pandas.testing import assert_frame_equal
from scipy import stats

from judgebench.defenses import Findings
from judgebench.report.readied import arrange_readied, readied_sentences
from judgebench.results.folder import RunFolder
from tests.report.defended_records import defense_records, frame, references, standard
from tests.report.test_html import HOSTILE, Tags, page
from tests.report.test_printed import printed


@pytest.fixture(scope="module")
def readied():
    return arrange_readied(defense_records())


def test_references_have_their_means_and_a_paired_interval(readied):
    rows = {(row.name, row.split): row for row in readied.references}
    assert list(rows) == [("cap", "test"), ("cap", "dev"), ("  alpha 0", "dev"), ("w_cap", "test")]
    cap = rows["cap", "test"]
    assert (cap.n, cap.high, cap.low, cap.difference.value) == (3, 3.5, 2.0, 1.5)
    expected = stats.ttest_1samp([1.0, 3.0, 0.5], 0).confidence_interval(0.95)
    assert (cap.difference.low, cap.difference.high) == pytest.approx((expected.low, expected.high))
    assert cap.cut == pytest.approx(1 / 6)
    assert not cap.told
    assert rows["cap", "dev"].difference == replace(cap.difference, value=0.5, low=None, high=None)
    none = rows["  alpha 0", "dev"]
    assert (none.n, none.high, none.low, none.difference.value, none.cut) == (4, 2.0, 2.0, 0.0, None)


def test_without_unsteered_texts_there_are_only_the_shown_references():
    found = defense_records(strengths=[])
    assert [(row.name, row.split) for row in arrange_readied(found).references] == [("cap", "test"), ("w_cap", "test")]


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([(3.0, 2.0), (4.0, 3.1), (3.5, 2.5)], "scores CAP's good references above its poor ones, by +0.97"),
        ([(2.0, 3.0), (3.1, 4.0), (2.5, 3.5)], "scores CAP's good references below its poor ones, by -0.97"),
        ([(3.0, 2.0), (1.0, 2.0), (3.5, 3.5)], "does not tell CAP's good references from its poor ones"),
        ([(3.0, 2.0)], "of one pair alone"),
    ],
)
def test_the_sentence_says_what_the_interval_allows(pairs, says):
    found = defense_records(references=frame(references("cap", pairs)), strengths=[])
    (sentence,) = readied_sentences(arrange_readied(found))
    assert says in sentence


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {},
            "95 % stay below 0.600; but the best of 3 layers surpasses that more easily than any one.",
        ),
        (
            {"layer": 3},
            "Layer 3 of 3 is steered: its separability, 0.600, is no more than chance, for of texts dealt to "
            "the sets at random 95 % stay below 0.700.",
        ),
    ],
)
def test_a_layer_is_held_against_chance(more, says):
    (one,) = arrange_readied(defense_records(standards=[standard(**more)])).standards
    assert says in one.separability
    assert "of the 5 that Some-Judge scored, 2 at 3.50 or above make the high standard, 2 at 1.50 or below" in one.made


def test_costs_stand_with_no_defense_first(readied):
    assert [row.defense for row in readied.costs] == ["none", "cap", "w_cap"]
    cap = readied.costs[1]
    assert (cap.n, cap.seconds, cap.reading, cap.context, cap.once) == (12, 0.75, 0.5, 3.0, 9.0)
    alone = arrange_readied(DefenseRecords(costs=[one for one in defense_records().costs if one["defense"] == "none"]))
    assert list(alone.costs) == []


def test_page_and_tables_show_them(run):
    found = defense_records()
    text = printed(run, defense=found)
    assert max(map(len, text.splitlines())) <= 100
    for part in ("joint: references by themselves", "seconds by defense", "alpha 0", "Layer 2 of 3 is steered"):
        assert part in text
    html = page(run, defense=found)
    for part in ("How CAP got ready", "What the judge thinks of the references", "What defenses cost", "is steered"):
        assert part in html
    assert "does not tell CAP&#39;s good references" in html
    assert "<h3>Defenses</h3>" not in page(run)
    assert "seconds by defense" not in printed(run)


def test_nothing_of_a_tutor_becomes_markup(run):
    html = page(run, defense=defense_records(standards=[standard(tutor=HOSTILE, dimension=HOSTILE)]))
    assert HOSTILE not in html
    tags = Tags()
    tags.feed(html)
    assert tags.open == []


def test_what_is_written_is_read_again(tmp_path):
    found, folder = defense_records(), RunFolder(tmp_path)
    paths = write_defenses(folder, found, Findings())
    names = ["standards.json", "strengths.json", "costs.json", "references.parquet"]
    assert paths == [tmp_path / "defense" / name for name in names]
    again = read_defenses(folder)
    assert (again.standards, again.strengths, again.costs) == ([*found.standards], [*found.strengths], [*found.costs])
    assert_frame_equal(again.references, found.references, check_dtype=False)
