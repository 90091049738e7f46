"""Tables and sentences of defenses: side by side they keep the single tables' numbers; preparation by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pandas.testing import assert_frame_equal
from scipy import stats

from judgebench.report.formats import change as change_text
from judgebench.report.formats import three, two
from judgebench.report.render import to_html
from judgebench.report.views.attacks import ATTACKS
from judgebench.report.views.defenses import (
    COSTS,
    DEFENSES,
    DETECTORS,
    REFERENCES,
    defense_sentences,
    preparation_sentences,
    reference_frame,
    standards,
    with_stand_ins,
)
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from tests.report.attacked import HOSTILE, attacks_on, results_of, with_cot
from tests.report.conftest import in_terminal, on_page, texts_of, words_of
from tests.report.defended_records import RECORD, defense_records, frame, references, standard


@pytest.fixture(scope="module")
def defended(builder):
    """Two attacks that raise by one, and a defense under which they raise by a quarter."""
    gains = {"none": {"dsi": 1, "bed": 1}, "sandwich": {"dsi": 0.25, "bed": 0.25}}
    return attacks_on(builder(articles=6, systems=4), gains)


def test_a_section_has_every_defense_of_one_attack_range_and_judge(defended):
    (table,) = DEFENSES.tables(defended)
    assert table.title == "coherence"
    single = {one.title.rpartition(" ")[2]: one for one in ATTACKS.tables(defended)}  # coherence, and sandwich
    assert len(table.sections) == 2 * len(single["coherence"].sections)
    for section in table.sections:
        attack, _, judge = section.title.partition(", ")
        assert [row[0].text for row in section.rows] == ["none", "sandwich"]
        for row, name in zip(section.rows, ("coherence", "sandwich"), strict=True):
            (own,) = (one for one in single[name].sections if one.title == judge)
            clean, attacked = own.rows[0], next(cells for cells in own.rows if cells[0].text == attack)
            assert row[1:3] == [clean[1], clean[-1]]  # mean and Spearman of the clean texts
            assert row[3:] == attacked[1:5]


def test_one_defense_has_nothing_beside_it(defended):
    for kept in (("defense", "sandwich"), ("attack", "none")):
        alone = replace(defended, metrics=[one for one in defended.metrics if one[kept[0]] == kept[1]])
        assert DEFENSES(alone) == defense_sentences(alone) == []


def test_terminal_and_page_show_them(defended):
    assert "coherence: defenses side by side" in in_terminal(defended)
    page = on_page(defended)
    assert "<h3>Defenses side by side</h3>" in page
    assert all(sentence in words_of(page) for sentence in defense_sentences(defended))


def by_hand(*rows):
    """Defenses under one attack: (name, change, interval, Spearman of the clean texts)."""
    cell = {"dataset": "mini", "split": "test", "level": "dataset", "dimension": "coherence", "range_min": 1.0}
    cell |= {"range_max": 5.0, "range_step": 1.0, "judge": "main", "decoding": "greedy", "lambda": None}
    cell |= {"temperature": None, "attack": "dsi", "rate_of_means": 0.1, "mean_of_rates": 0.1}
    metrics = []
    for defense, change, (low, high), spearman in rows:
        changes = {"change": change, "change_low": low, "change_high": high, "clean_spearman": spearman}
        metrics.append(cell | {"defense": defense} | changes)
    return Results(metrics=metrics)


GAIN = ("none", 0.8, (0.6, 1.0), 0.4)
FAR, NEAR = ("overdone", -0.9, (-1.2, -0.5), 0.4), ("cap", 0.1, (-0.1, 0.3), 0.35)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [GAIN, FAR, NEAR],
            "by +0.80 [+0.60,+1.00] without a defense; least of 2 defenses under cap, by +0.10 [-0.10,+0.30]. On "
            "clean texts its Spearman is 0.350 instead of 0.400, without an interval.",
        ),
        ([GAIN, NEAR], "; under cap, by +0.10 [-0.10,+0.30]. On clean texts its Spearman is 0.350 "
         "instead of 0.400, without an interval."),
        ([GAIN, FAR], "; overdone does not keep it nearer to its score of clean texts."),
        ([GAIN, FAR, ("same", 0.8, (0.6, 1.0), 0.4)], "; none of 2 defenses keeps it nearer to its score of clean "
         "texts."),
        (
            [("none", 0.1, (-0.1, 0.3), 0.4), ("cap", 0.0, (-0.2, 0.2), 0.4)],
            "a gain that may be chance.",
        ),
    ],
)  # fmt: skip
def test_the_defense_that_keeps_scores_nearest_to_clean_ones_is_named_with_its_cost(rows, told):
    (sentence,) = defense_sentences(by_hand(*rows))
    assert sentence.startswith("coherence: dsi changes the mean score of main, greedy in range 1-5 by ")
    assert sentence.endswith(told)


def test_defenses_without_their_absence_are_no_answer():
    assert defense_sentences(by_hand(("cap", 0.1, (0.0, 0.2), 0.4), ("w_cap", 0.2, (0.1, 0.3), 0.4))) == []


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


def test_nothing_changes_where_all_answer_alike(builder):
    results = with_cot(builder, ["greedy"])
    shown = with_stand_ins(results.metrics)
    assert shown == [record | {"shown_defense": record["defense"]} for record in results.metrics]
    (table,) = DEFENSES.tables(results)
    assert [row[0].text for row in table.sections[0].rows] == ["none", "cot", "words"]
    assert "its number" not in table.note


def test_each_setting_of_a_grid_gets_the_number():
    cell = {"split": "test", "level": "dataset", "dimension": "x", "range_min": 1, "range_max": 5, "range_step": 1}
    cell |= {"judge": "main"}
    grid = [cell | {"defense": "none", "decoding": "c", "lambda": x, "temperature": 1} for x in (0, 1)]
    words = cell | {"defense": "cot", "decoding": "greedy", "lambda": None, "temperature": None, "v": 7}
    shown = with_stand_ins([*grid, words])
    assert [one["shown_defense"] for one in shown] == ["none", "none", "cot (its number)", "cot (its number)"]
    assert [(one["decoding"], one["lambda"], one["v"]) for one in shown[2:]] == [("c", 0, 7), ("c", 1, 7)]


# --- preparation ------------------------------------------------------------------------------------------------------


def test_references_have_their_means_and_a_paired_interval():
    rows = {(row["defense"], row["split"]): row for row in reference_frame(defense_records()).to_dict("records")}
    assert list(rows) == [("cap", "test"), ("cap", "dev"), ("  alpha 0", "dev"), ("w_cap", "test")]
    cap = rows["cap", "test"]
    assert (cap["n"], cap["high"], cap["low"], cap["difference"]) == (3, 3.5, 2.0, 1.5)
    expected = stats.ttest_1samp([1.0, 3.0, 0.5], 0).confidence_interval(0.95)
    assert (cap["difference_low"], cap["difference_high"]) == pytest.approx((expected.low, expected.high))
    assert cap["cut"] == pytest.approx(1 / 6)
    (table,) = REFERENCES.tables(defense_records())
    assert texts_of(table)[1:3] == [
        ["cap", "dev", "1", "2.50", "2.00", "+0.50", "50 %"],  # of one pair: no interval
        ["  alpha 0", "dev", "4", "2.00", "2.00", "0.00", "-"],
    ]
    assert not table.is_marked
    assert "unsteered" in table.note


def test_without_unsteered_texts_there_are_only_the_shown_references():
    (table,) = REFERENCES.tables(defense_records(strengths=[]))
    assert [row[:2] for row in texts_of(table)] == [["cap", "test"], ["w_cap", "test"]]
    assert "unsteered" not in table.note


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ([(3.0, 2.0), (4.0, 3.1), (3.5, 2.5)], "scores CAP's good references above its poor ones, by +0.97"),
        ([(2.0, 3.0), (3.1, 4.0), (2.5, 3.5)], "scores CAP's good references below its poor ones, by -0.97"),
        ([(3.0, 2.0), (1.0, 2.0), (3.5, 3.5)], "does not clearly score CAP's good references"),
        ([(3.0, 2.0)], "of one pair alone"),
    ],
)
def test_the_sentence_says_what_the_interval_allows(pairs, told):
    (sentence,) = preparation_sentences(
        defense_records(references=frame(references("cap", pairs)), strengths=[])
    )  # fmt: skip
    assert told in sentence


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "95 % stay below 0.600; but the best of 3 layers surpasses that more easily than any single one."),
        (
            {"layer": 3},
            "Layer 3 of 3 is steered: its separability, 0.600, is no more than chance, for of texts dealt to the sets "
            "at random 95 % stay below 0.700.",
        ),
    ],
)
def test_a_layer_is_held_against_chance(more, told):
    _, one = standards(defense_records(standards=[standard(**more)]))
    assert told in one.text
    assert "of the 5 that Some-Judge scored, 2 at 3.50 or above make the high standard, 2 at 1.50 or below" in one.text


def test_costs_stand_with_no_defense_first():
    (table,) = COSTS.tables(defense_records())
    assert [row[0] for row in texts_of(table)] == ["none", "cap", "w_cap"]
    assert texts_of(table)[1] == ["cap", "12", "0.75", "0.50", "3.00", "9.0"]
    assert COSTS(Results(costs=[one for one in defense_records().costs if one["defense"] == "none"])) == []


def detector(recall, clean, **more):
    test = RECORD["test"] | {"recall": recall, "false_positive_rate": clean, "precision": 0.9}
    return RECORD | {"test": test | {"recall_by_attack": {"dsi": 0.5, "bed": 1.0}}} | more


@pytest.mark.parametrize(
    ("recall", "clean", "told"),
    [
        (0.75, 0.25, ["warns of 75 % of the attacked test texts and of 25 % of the clean ones."]),
        (1.0, 1.0, ["100 % of the clean ones: it does not tell them apart"]),
        (0.0, 0.0, ["0 % of the clean ones: it does not tell them apart"]),
        (0.2, 0.4, ["40 % of the clean ones: it does not tell them apart"]),
        (None, 0.5, []),
        (0.5, None, []),
    ],
)
def test_a_warning_that_every_text_gets_is_called_no_detection(recall, clean, told):
    sentences = preparation_sentences(Results(detectors=[detector(recall, clean)]))
    assert len(sentences) == len(told)
    assert all(part in sentence for part, sentence in zip(told, sentences, strict=True))


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
