"""The CAP paper's tables of defenses: a run that finds what is printed stands beside it, cell by cell."""

from __future__ import annotations

import csv
import dataclasses
import io
import re

import pandas as pd
import pytest

from judgebench.report.paper import build_cap, table_files, table_text
from judgebench.report.paper.cap_cells import JUDGES, TUTORS, defended_by, printed_defense
from judgebench.report.paper.cap_defenses import ratio_slips
from judgebench.report.paper.published import published_rows
from judgebench.results.schema import REFERENCES_SCHEMA, TABLE
from tests.report.defended_records import cost, references, standard
from tests.report.paper.conftest import run_of
from tests.report.paper.test_cap_tables import changed
from tests.report.paper.test_paper_tables import HOSTILE, cells

LLAMA, MISTRAL = (name.split("/")[-1] for name in TUTORS.values())
JUDGE = "meta-llama/Llama-3.1-8B-Instruct"
PLACES = {"summeval": "joint", "topicalchat": "overall"}
ATTACKS = {"advsuffix": "adv_suffix_4", "dsi": "dsi", "bed": "bed", "adaptive": "adaptive"}
OURS = {"cap_llama": "cap", "w_cap_llama": "w_cap", "cap_mistral": "cap"}


def clean(defense="none", spearman=0.2, dataset="summeval", **more):
    """A record of metrics.json of clean texts."""
    found = changed("none", dataset=dataset, dimension=PLACES.get(dataset, "joint"), defense=defense, delta=0.0)
    found |= {"delta": None, "change": None, "n": 1440, "spearman": spearman, "spearman_low": spearman - 0.1}
    return found | {"spearman_high": spearman + 0.1} | more


def attacked(attack, defense, delta, rate, dataset, clean_mean=3.0, **more):
    """A record of metrics.json of an attack that raises scores."""
    means = {"clean_mean_score": clean_mean, "attacked_mean_score": clean_mean + delta}
    means |= {f"{name}{end}": value for name, value in means.items() for end in ("_low", "_high")}
    return changed(attack, delta, defense=defense, dataset=dataset, dimension=PLACES.get(dataset, "joint"),
                   rate_of_means=rate / 100, mean_of_rates=rate / 100, **means) | more  # fmt: skip


def as_printed(judge=JUDGE, tutor=LLAMA, dataset="summeval"):
    """The run of a judge and a tutor that finds exactly what the paper prints."""
    family = defended_by("cap", tutor).key
    tables = {"summeval": (2, 10, 11), "topicalchat": (3, 6, 7)}[dataset]
    known = ("none", "cot", "perplexity", "w_cap_llama", family)
    seen: dict[tuple[str, str], dict] = {}  # the main table first: others repeat its cells, one of them with a slip
    for row in published_rows("cap_score_change.csv"):
        table, attack, column = int(row["table"]), row["attack"], row["defense"]
        if table in tables and row["judge"] == judge and column in known and row["delta"]:
            words = {"decoding": "greedy", "rule": None} if column == "cot" else {}
            figures = (float(row["delta"]), float(row["rate_percent"]), dataset)
            seen.setdefault((attack, column), attacked(ATTACKS[attack], OURS.get(column, column), *figures, **words))
    records = list(seen.values())
    spearman = {
        row["defense"]: row["spearman_x100"]
        for row in published_rows("cap_spearman.csv")
        if (row["judge"], row["table"]) == (judge, "4")
    }
    records += [
        clean(OURS.get(name, name), float(value) / 100, dataset)
        for name, value in spearman.items()
        if name in ("none", family)
    ]
    costs = [
        cost(OURS.get(row["defense"], row["defense"]), float(row["seconds_x10"]) / 10, dataset=dataset)
        for row in published_rows("cap_seconds.csv")
        if (row["judge"], row["dataset"]) == (judge, dataset)
        and row["defense"] in ("none", "cot", "perplexity", family)
    ]
    alphas = {
        row["parameter"]: float(row["value"])
        for row in published_rows("cap_alpha.csv")
        if (row["judge"], row["dataset"], row["tutor"].split("/")[-1]) == (judge, dataset, tutor)
    }
    rows = references("cap", [(4.0, 2.0)], alphas=(alphas["alpha_h"], alphas["alpha_l"]))
    frame = pd.DataFrame(rows, columns=REFERENCES_SCHEMA.names).assign(dimension=PLACES[dataset])
    standards = [standard(dimension=PLACES[dataset], tutor=tutor)]
    return run_of(records, judge.split("/")[-1], tutor=tutor, standards=standards, references=frame, costs=costs)


def built(*runs):
    return {table.name: table for table in build_cap(runs)}


@pytest.mark.parametrize(
    ("dataset", "judge", "tables"),
    [
        ("summeval", JUDGE, ("2", "10", "11", "9")),
        ("topicalchat", "gemini-2.0", ("3", "6", "7", "5")),  # the scan of table 7 shows no open judge
    ],
)
def test_a_run_that_finds_the_print_stands_beside_it(dataset, judge, tables):
    found = built(as_printed(judge, dataset=dataset))
    expected = {f"cap_table_{number}" for number in (*tables, "1", "2", "3", "4", "8", "12", "13")}
    assert set(found) == expected
    main, ablation, adaptive = (found[f"cap_table_{number}"] for number in tables[:3])
    for table, columns in (
        (main, {"none", "cot", "perplexity", "w_cap_llama", "cap_llama"}),
        (ablation, {"none", "w_cap_llama", "cap_llama"}),
        (adaptive, {"cap_llama"}),
    ):
        ours = [line for line in table.lines if line.ours]
        assert {line.keys[1] for line in ours} == {JUDGES[judge]}
        assert {line.keys[3] for line in ours} == columns
        for line in ours:
            if line.printed.get("delta") is not None:
                assert line.ours["delta"].value == line.printed["delta"]
                assert 100 * line.ours["rate_of_means"].value == pytest.approx(line.printed["rate_percent"])
        own = [line for line in table.lines if line.keys[1] != JUDGES[judge]]
        assert own
        assert not any(line.ours for line in own)
    assert {line.keys[2] for line in adaptive.lines} == {"Adaptive", "DSI", "BED"}
    for number, keys in (
        ("4", ["spearman_x100"]),
        (tables[3], ["seconds_x10"]),
        ("12", ["alpha_h"]),
        ("13", ["alpha_l"]),
    ):
        ours = [line for line in found[f"cap_table_{number}"].lines if line.ours]
        assert len(ours) == {"4": 2, tables[3]: 4, "12": 1, "13": 1}[number]
        for line in ours:
            for key in keys:
                assert line.ours[key].value == pytest.approx(line.printed[key])
    (change,) = [line for line in found["cap_table_8"].lines if line.ours]
    assert change.ours["change_x100"].value == pytest.approx(change.printed["change_x100"])
    assert change.ours["rate_percent"].value == pytest.approx(change.printed["rate_percent"], abs=0.5)


def test_every_printed_figure_of_these_tables_is_in_the_repository():
    counts = {"cap_motivation.csv": 8, "cap_seconds.csv": 50, "cap_spearman.csv": 30, "cap_alpha.csv": 40}
    assert {name: len(published_rows(name)) for name in counts} == counts
    found = built(as_printed(), as_printed(dataset="topicalchat"))
    printed = {
        name: sum(bool(line.printed) for line in found[f"cap_table_{name}"].lines) for name in ("5", "9", "12", "13")
    }
    assert printed == {"5": 25, "9": 25, "12": 20, "13": 20}
    for number, parameter in (("12", "alpha_h"), ("13", "alpha_l")):
        rows = [float(row["value"]) for row in published_rows("cap_alpha.csv") if row["parameter"] == parameter]
        assert [line.printed[parameter] for line in found[f"cap_table_{number}"].lines] == rows


def test_a_tutor_that_the_paper_does_not_have_gets_its_own_column():
    run = as_printed()
    other = dataclasses.replace(run, config={"tutor": {"path": "SmolLM2-135M-Instruct"}})
    table = built(other)["cap_table_10"]
    lines = {(line.keys[2], line.labels[2]): line for line in table.lines if line.keys[1] == JUDGES[JUDGE]}
    assert lines["DSI", "CAP (SmolLM2-135M-Instruct)"].ours
    assert not lines["DSI", "CAP (SmolLM2-135M-Instruct)"].printed
    assert not lines["DSI", "CAP_L"].ours
    assert lines["DSI", "CAP_L"].printed["delta"] == 0.06
    strengths = built(other)["cap_table_12"].lines
    assert [line.labels[2] for line in strengths if line.ours] == ["SmolLM2-135M-Instruct"]


def test_runs_of_two_tutors_stand_in_one_table():
    table = built(as_printed(), as_printed(tutor=MISTRAL))["cap_table_2"]
    lines = {
        line.labels[2]: line for line in table.lines if (line.keys[1], line.keys[2]) == (JUDGES[JUDGE], "AdvSuffix")
    }
    assert list(lines) == ["w/o defense", "CoT", "Perplexity", "W-CAP_L", "W-CAP_M", "CAP_L", "CAP_M"]
    for name in ("w/o defense", "CoT", "Perplexity", "CAP_L", "CAP_M"):
        assert lines[name].ours["delta"].value == lines[name].printed["delta"]
    notes = " ".join(table.notes)
    assert f"CAP_L of ours: references by {LLAMA}." in notes
    assert f"CAP_M of ours: references by {MISTRAL}." in notes


@pytest.mark.parametrize(
    ("tutor", "label"),
    [
        ("Meta-Llama-3-8B-Instruct", "CAP_L"),
        ("meta-llama/Llama-3.2-1B", "CAP_L"),
        ("Mistral-7B-Instruct-v0.3", "CAP_M"),
        ("TinyLlama-1.1B", "CAP (TinyLlama-1.1B)"),
        (None, "CAP"),
    ],
)
def test_which_column_a_tutor_is(tutor, label):
    assert defended_by("cap", tutor).label == label
    assert defended_by("mine", tutor).label == "mine"


def test_printed_names_and_ours_meet():
    assert printed_defense("w_cap_llama") == defended_by("w_cap", LLAMA)
    assert printed_defense("cap_mistral") == defended_by("cap", MISTRAL)
    assert printed_defense("perplexity") == defended_by("perplexity", LLAMA)


def test_what_is_in_words_is_taken_and_told():
    words = {"decoding": "greedy", "rule": None}
    records = [attacked("dsi", "none", 0.5, 20, "summeval"), attacked("dsi", "cot", 0.3, 9, "summeval", **words)]
    records.append(attacked("dsi", "none", 9.0, 9, "summeval", decoding="greedy", rule="argmax"))
    table = built(run_of(records))["cap_table_2"]
    assert {line.keys[3]: line.ours["delta"].value for line in table.lines if line.ours} == {"none": 0.5, "cot": 0.3}
    notes = " ".join(table.notes)
    assert "Scores of ours: J by expectation." in notes
    assert "Under CoT the judge answers in words" in notes


def test_slips_are_told_where_they_stand():
    found = built(as_printed(), as_printed(dataset="topicalchat"))
    slips = {name: [note for note in table.notes if note.startswith("!")] for name, table in found.items()}
    assert {name: len(notes) for name, notes in slips.items() if notes} == {"cap_table_11": 1, "cap_table_8": 2}
    assert "0.31 (13 %) here for ChatGPT-3.5, BED, CAP_L, and 0.20 (7 %)" in slips["cap_table_11"][0]
    assert ratio_slips() == slips["cap_table_8"]
    assert [re.findall(r"[\d.]+ %", note) for note in ratio_slips()] == [["16 %", "16.8 %"], ["7 %", "7.6 %"]]


def test_references_are_held_against_the_original_and_against_their_own_clean_texts():
    given = [("none", 1.17, 3.42), ("random_reference", 0.5, 3.52), ("cap", 0.04, 3.42)]
    records = [attacked("adv_suffix_4", name, delta, 9, "summeval", mean) for name, delta, mean in given]
    records.append(attacked("dsi", "none", 0.5, 9, "summeval", 3.42))
    table = built(run_of(records, JUDGE.split("/")[-1], tutor=LLAMA))["cap_table_1"]
    lines = {line.labels[2:]: line for line in table.lines if line.labels[0] == "summeval"}
    reference = lines["AdvSuffix", f"random reference by {LLAMA}"]
    assert {name: value.value for name, value in reference.ours.items()} == pytest.approx(
        {"score": 4.02, "change": 0.60, "clean": 3.52}
    )
    assert reference.printed == {"score": 4.02, "change": 0.60}
    assert lines["AdvSuffix", "attack"].ours["change"].value == pytest.approx(1.17)
    assert lines["AdvSuffix", f"standard reference by {LLAMA}"].printed == {"score": 3.46, "change": 0.04}
    assert lines["DSI", "attack"].printed == {}
    assert [line.printed["score"] for line in table.lines if line.labels[0] == "topicalchat"] == [
        3.16,
        4.29,
        3.47,
        3.27,
    ]
    assert "inferred from its other figures: summeval original (3.42), summeval attack (4.59)" in " ".join(table.notes)
    # without a base there is nothing to hold them against
    assert "cap_table_1" not in built(run_of(records[1:3], tutor=LLAMA))


def test_other_data_have_tables_of_their_own():
    records = [clean(name, value, "mini") for name, value in (("none", 0.2), ("cap", 0.15))]
    records += [attacked(attack, name, 0.5, 9, "mini") for attack in ("dsi", "adaptive") for name in ("none", "cap")]
    rows = references("cap", [(4.0, 2.0)], alphas=(5.0, 2.5))
    frame = pd.DataFrame(rows, columns=REFERENCES_SCHEMA.names)
    costs = [cost("none", 0.4), cost("cap", 0.5, context=3.0, text=0.25)]
    run = run_of(records, tutor="T", standards=[standard()], references=frame, costs=costs)
    found = built(run)
    own = [name for name in found if name.startswith("cap_own")]
    endings = ("", "_references", "_spearman", "_seconds", "_strengths")
    assert own == [f"cap_own_mini_joint{ending}" for ending in endings]
    assert set(found) - set(own) == {"cap_table_2", "cap_table_3"}
    values = {name: {line.labels[-1]: line.ours for line in found[name].lines} for name in own[1:]}
    spearman = values["cap_own_mini_joint_spearman"]["CAP (T)"]
    assert {name: value.value for name, value in spearman.items()} == pytest.approx(
        {"spearman_x100": 15.0, "change_x100": -5.0, "rate_percent": 25.0}
    )
    seconds = values["cap_own_mini_joint_seconds"]["CAP (T)"]
    assert [seconds[name].value for name in ("seconds_x10", "alone_x10", "reading_x10")] == [7.5, 35.0, 5.0]
    steered = values["cap_own_mini_joint_strengths"]["T"]
    assert [steered[name].value for name in ("alpha_h", "alpha_h_share", "alpha_l_share")] == [5.0, 0.25, 0.125]
    assert "steered at layer 2 of 3" in table_text(found["cap_own_mini_joint_strengths"])
    assert {line.keys[2] for line in found["cap_own_mini_joint"].lines} == {"DSI", "Adaptive"}


def test_a_run_without_defense_has_the_tables_that_it_had():
    assert list(built(run_of([changed(), clean()]))) == ["cap_table_2", "cap_table_3"]


def test_all_forms_are_whole_whatever_names_hold():
    run = as_printed()
    hostile = dataclasses.replace(run, about={"titles": {"main": HOSTILE}}, config={"tutor": {"path": HOSTILE}})
    files = table_files(build_cap([hostile, as_printed(dataset="topicalchat")]))
    assert all(TABLE.fullmatch(name) for name in files)
    for name, text in files.items():
        if name.endswith(".csv"):
            rows = list(csv.reader(io.StringIO(text)))
            assert len({len(row) for row in rows}) == 1
        elif name.endswith(".md"):
            rows = [line for line in text.splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
        else:
            plain = re.sub(r"\\[\\{}&%$#_]", "", text)
            assert plain.count("{") == plain.count("}")
            assert plain.count("$") % 2 == 0
            columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
            body = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
            assert {cells(line) for line in body} == {columns - 1}
            assert HOSTILE.strip() not in text
