"""What is said of detectors follows from what they find on test texts."""

import pytest
from judgebench.report.defense_files import DefenseRecords
from rich.console import Console

from judgebench.report.detected import arrange_detectors, detector_sentences
from judgebench.report.printed_defenses import readied_tables
from judgebench.report.readied import arrange_readied
from tests.report.test_detector_figure import RECORD
from tests.report.test_html import HOSTILE, page, scripts_of


def record(recall, clean, **more):
    test = RECORD["test"] | {"recall": recall, "false_positive_rate": clean, "precision": 0.9}
    return RECORD | {"test": test | {"recall_by_attack": {"dsi": 0.5, "bed": 1.0}}} | more


def test_a_row_holds_what_is_found_on_test_texts_and_the_f1_of_the_choice():
    (row,) = arrange_detectors([record(0.75, 0.125)])
    assert (row.name, row.f1) == (RECORD["defense"], RECORD["training"]["f1"])
    assert (row.precision, row.recall, row.clean, row.by_attack) == (0.9, 0.75, 0.125, "dsi 50 %, bed 100 %")


@pytest.mark.parametrize(
    ("recall", "clean", "says"),
    [
        (0.75, 0.25, ["warns of 75 % of the attacked test texts and of 25 % of the clean ones."]),
        (1.0, 1.0, ["100 % of the clean ones: it does not tell them apart"]),
        (0.0, 0.0, ["0 % of the clean ones: it does not tell them apart"]),
        (0.2, 0.4, ["40 % of the clean ones: it does not tell them apart"]),
        (None, 0.5, []),
        (0.5, None, []),
    ],
)
def test_a_warning_that_every_text_gets_is_called_no_detection(recall, clean, says):
    found = detector_sentences(arrange_detectors([record(recall, clean)]))
    assert len(found) == len(says)
    assert all(part in sentence for part, sentence in zip(says, found, strict=True))


def test_page_and_terminal_show_them_and_names_stay_text(builder):
    run = builder(articles=4)
    found = DefenseRecords(detectors=[record(0.75, 0.125, defense=HOSTILE)])
    text = page(run, defense=found)
    assert "What detectors find" in text
    assert "dsi 50 %, bed 100 %" in text
    assert scripts_of(text) == scripts_of(page(run))
    console = Console(width=100)
    with console.capture() as said:
        for part in readied_tables(arrange_readied(found)):
            console.print(part)
    assert "75 %" in said.get()
    assert "recall by attack" in said.get()


def test_without_detectors_nothing_is_said(builder):
    assert "What detectors find" not in page(builder(articles=4))
