"""Tables and sentences of defenses: side by side they keep the single tables' numbers; preparation by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pandas.testing import assert_frame_equal

from judgebench.report.formats import change as change_text
from judgebench.report.formats import three, two
from judgebench.report.render import to_html
from judgebench.report.views.defenses import (
    DEFENSES,
    DETECTORS,
    standards,
)
from judgebench.results.folder import RunFolder
from tests.report.attacked import HOSTILE, results_of, with_cot
from tests.report.conftest import in_terminal, on_page, texts_of, words_of
from tests.report.defended_records import RECORD, defense_records, standard

# --- answers in free text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decodings", [["expectation"], ["greedy", "expectation"]])
def test_free_text_has_a_row_in_every_section_of_its_judge(builder, decodings):
    results = with_cot(builder, decodings)
    (table,) = DEFENSES.tables(results)
    assert [section.title for section in table.sections] == [f"dsi, 1-5: main, {name}" for name in decodings]
    own = {one["attack"]: one for one in results.metrics if one["defense"] == "cot" and one["split"] == "test"}
    for section in table.sections:
        assert [row[0].text for row in section.rows] == ["none", "cot (its number)", "words"]
        assert [cell.text for cell in section.rows[1][1:5]] == [
            *(two(own["none"]["mean_score"]), three(own["none"]["spearman"])),
            *(two(own["dsi"]["attacked_mean_score"]), change_text(own["dsi"]["change"])),
        ]
    assert "answers in words" in table.note
    for text in (in_terminal(results), on_page(results)):
        assert "cot (its number)" in text


# --- preparation ------------------------------------------------------------------------------------------------------


def detector(recall, clean, **more):
    test = RECORD["test"] | {"recall": recall, "false_positive_rate": clean, "precision": 0.9}
    return RECORD | {"test": test | {"recall_by_attack": {"dsi": 0.5, "bed": 1.0}}} | more


def test_page_and_terminal_show_all_and_names_stay_text(run):
    bare = results_of(run)
    names = ("standards", "strengths", "references", "costs")
    prepared = replace(bare, **{name: getattr(defense_records(), name) for name in names})
    prepared = replace(prepared, detectors=[detector(0.75, 0.125, defense=HOSTILE)])
    for text, absent in ((in_terminal(prepared), in_terminal(bare)), (on_page(prepared), on_page(bare))):
        for part in ("Layer 2 of 3 is steered", "alpha 0", "dsi 50 %, bed 100 %", "w_cap"):
            assert part in words_of(text)
            assert part not in words_of(absent)
    assert "does not clearly score CAP's good references" in words_of(on_page(prepared))
    row = ["", "0.82", "90 %", "75 %", "12 %", "dsi 50 %, bed 100 %"]
    assert texts_of(DETECTORS.tables(prepared)[0])[0][1:] == row[1:]
    hostile = replace(prepared, standards=[standard(tutor=HOSTILE, dimension=HOSTILE)])
    assert "<b>" not in to_html([*DETECTORS(hostile), *standards(hostile)])


def test_what_is_written_is_read_again(tmp_path):
    prepared, folder = defense_records(), RunFolder(tmp_path)
    names = ["standards", "strengths", "costs", "references"]
    written = prepared.save(folder)
    assert {tmp_path / "defense" / f"{name}.json" for name in names[:3]} <= set(written)
    assert tmp_path / "defense" / "references.parquet" in written
    for name in names[:3]:
        assert folder.read(name) == [*getattr(prepared, name)]
    assert_frame_equal(folder.read("references"), prepared.references, check_dtype=False)
