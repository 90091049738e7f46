"""The CAP paper's tables: the print is reproduced, ours stands beside it, and nothing of ours is lost."""

from __future__ import annotations

import csv
import io
import re

import pytest

from judgebench.report.paper import build_cap, check_tables, paper_tables, table_files, table_text
from judgebench.report.paper.__main__ import main
from judgebench.report.paper.cap import printed_changes
from judgebench.report.paper.cap_cells import CapCell, printed_defense
from judgebench.report.paper.published import model_key, published_rows
from judgebench.results.folder import RunFolder
from judgebench.results.schema import TABLE
from tests.report.paper.conftest import run_of
from tests.report.paper.test_paper_tables import HOSTILE, cells, run_folder
from tests.report.test_attack_figures import records

PAPER_JUDGE = "Llama-3.1-8B-Instruct"

PRINTED = """
| FlanT5-XL    | AdvSuffix | w/o defense | 1.42         | 49 %        |
|              | DSI       | w/o defense | 0.71         | 24 %        |
|              | BED       | w/o defense | 0.43         | 15 %        |
| Llama-3.1-8B | AdvSuffix | w/o defense | 1.13         | 36 %        |
"""


def changed(attack="dsi", delta=0.6, **more):
    """A record of metrics.json of an attack."""
    base = {"dataset": "summeval", "split": "test", "level": "dataset", "dimension": "joint", "range_min": 1.0}
    base |= {"range_max": 5.0, "range_step": 1.0, "attack": attack, "defense": "none", "judge": "main"}
    base |= {"decoding": "expectation", "rule": "expectation", "lambda": None, "temperature": None}
    base |= {"paired": 1440, "groups": 90, "constant": False, "change": delta, "delta": abs(delta)}
    base |= {"delta_low": abs(delta) - 0.05, "delta_high": abs(delta) + 0.05, "rate_of_means": 0.25}
    base |= {"rate_of_means_low": 0.2, "rate_of_means_high": 0.3, "mean_of_rates": 0.31, "mean_of_rates_low": 0.26}
    return base | {"mean_of_rates_high": 0.36} | more


def run(*found, main=PAPER_JUDGE, assistant=None):
    return run_of(found, main, assistant)


def tables(*runs):
    return {table.name: table for table in build_cap(runs)}


def lines(table):
    return {(line.keys[1], line.keys[2], line.keys[3]): line for line in table.lines}


def test_without_runs_the_tables_are_the_printed_columns_without_defense():
    found = tables()
    assert list(found) == ["cap_table_2", "cap_table_3"]
    for table in found.values():
        assert len(table.lines) == 12  # the learned phrase needs an open judge, of which there are two
        assert {line.keys[3] for line in table.lines} == {"none"}
        assert not any(line.ours for line in table.lines)
        assert "paper's figures alone" in table.notes[0]
    for line in PRINTED.strip().splitlines():
        assert line in table_text(found["cap_table_3"])


def test_every_printed_figure_without_defense_is_there():
    shown = {"advsuffix": "AdvSuffix", "dsi": "DSI", "bed": "BED"}
    rows = [row for row in published_rows("cap_score_change.csv") if row["table"] in "23" and row["defense"] == "none"]
    assert len(rows) == 24
    for number in ("2", "3"):
        text = table_files(build_cap([]))[f"cap_table_{number}.csv"]
        printed = [
            (row["attack"], row["delta_published"], row["rate_percent_published"])
            for row in csv.DictReader(io.StringIO(text))
        ]
        expected = [
            (shown[row["attack"]], float(row["delta"]), float(row["rate_percent"]))
            for row in rows
            if row["table"] == number
        ]
        assert [(attack, float(delta), float(rate)) for attack, delta, rate in printed] == expected


def test_the_published_file_holds_every_table_and_marks_what_cannot_be_read():
    rows = published_rows("cap_score_change.csv")
    found = {(int(row["table"]), row["judge"], row["attack"], row["defense"]): row for row in rows}
    assert {key[0] for key in found} == {2, 3, 6, 7, 10, 11}
    assert len(found) == len(rows)
    unread = printed_changes(7)[CapCell((model_key("google/flan-t5-xl"), None), printed_defense("cap_llama"), "dsi")]
    assert unread["delta"] is None
    # ablations repeat the main tables' columns without defense
    for main_table, ablation in ((2, 10), (3, 6)):
        for (table, *rest), row in found.items():
            if table == ablation and rest[-1] == "none":
                assert found[main_table, *rest]["delta"] == row["delta"]


def test_a_judge_of_the_paper_stands_beside_its_printed_row():
    table = tables(run(changed(), changed("adv_suffix_4", 1.2), changed("adv_suffix_3", 9.0)))["cap_table_2"]
    found = lines(table)
    assert len(found) == 12
    dsi = found["Llama-3.1-8B", "DSI", "none"]
    assert (dsi.ours["delta"].value, dsi.ours["rate_of_means"].value, dsi.ours["mean_of_rates"].value) == (
        0.6,
        0.25,
        0.31,
    )
    assert (dsi.printed["delta"], dsi.printed["rate_percent"]) == (0.61, 23)
    suffix = found["Llama-3.1-8B", "AdvSuffix", "none"]
    assert (suffix.ours["delta"].value, suffix.printed["delta"]) == (1.2, 1.17)
    assert any("adv_suffix_4" in note for note in table.notes)
    assert not found["Llama-3.1-8B", "BED", "none"].ours
    text = table_text(table)
    row = r"\| +\| DSI +\| w/o defense \| 0.60 \[0.55, 0.65\] \| 25 % \[20, 30\] +\| 31 % \[26, 36\] +\| 0.61 +\| 23 %"
    assert re.search(row, text)
    assert "1440 texts of 90 articles" in text
    assert "Llama-3.1-8B-Instruct by expectation" in text


def test_other_judges_stand_behind_those_of_the_paper():
    results = run(
        changed(),
        changed(judge="pair", decoding="contrastive_expectation", delta=0.8),
        changed(judge="assistant", delta=0.0, constant=True),
        changed(judge="main", decoding="greedy", rule="argmax", delta=2.0),
        main="Other-7B",
        assistant="Other-1B",
    )
    table = tables(results)["cap_table_2"]
    ours = {line.keys[1]: line.ours["delta"].value for line in table.lines if line.ours}
    assert ours == {"Other-7B": 0.6, "Contrastive (7B-1B)": 0.8}
    assert [line.keys[1] for line in table.lines][-2:] == list(ours)


def test_scores_by_argmax_stand_in_where_there_are_none_by_expectation():
    table = tables(run(changed(decoding="greedy", rule="argmax")))["cap_table_2"]
    assert lines(table)["Llama-3.1-8B", "DSI", "none"].ours["delta"].value == 0.6
    assert any("by greedy" in note for note in table.notes)


def test_defenses_of_a_run_have_rows_with_what_is_printed_of_them():
    table = tables(run(changed(), changed(defense="cot", delta=0.1), changed(defense="mine", delta=0.2)))["cap_table_2"]
    found = lines(table)
    assert found["Llama-3.1-8B", "DSI", "cot"].ours["delta"].value == 0.1
    assert found["Llama-3.1-8B", "DSI", "cot"].printed["delta"] == 0.14
    assert found["FlanT5-XL", "BED", "cot"].printed["delta"] == 0.31
    assert not found["Llama-3.1-8B", "DSI", "mine"].printed
    assert ("FlanT5-XL", "BED", "perplexity") not in found


def test_topicalchat_is_judged_overall():
    found = tables(run(changed(dataset="topicalchat", dimension="overall")))
    assert lines(found["cap_table_3"])["Llama-3.1-8B", "DSI", "none"].printed["delta"] == 0.62
    assert not any(line.ours for line in found["cap_table_2"].lines)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"dataset": "mini"}, "cap_own_mini_joint"),
        ({"dimension": "coherence"}, "cap_own_summeval_coherence"),
        ({"range_max": 10.0}, "cap_own_summeval_joint"),
    ],
)
def test_what_the_paper_does_not_have_has_a_table_of_its_own(more, name):
    found = tables(run(changed(**more)))
    assert list(found) == ["cap_table_2", "cap_table_3", name]
    text = table_text(found[name])
    assert text.startswith("**Ours** (not in the paper)")
    assert "paper |" not in text
    assert ("its table 2" in text) == ("dataset" not in more)


def test_of_several_ranges_each_has_its_own_name():
    found = tables(run(changed(range_max=10.0), changed(range_max=7.0)))
    assert set(found) >= {"cap_own_summeval_joint_1-10", "cap_own_summeval_joint_1-7"}


def test_a_lowering_attack_and_an_unknown_rate_are_told():
    zero = dict.fromkeys(("mean_of_rates", "mean_of_rates_low", "mean_of_rates_high"))
    found = table_files(build_cap([run(changed(delta=-0.3, **zero))]))
    assert "0.30↓ [0.25, 0.35]" in found["cap_table_2.md"]
    assert "↓ the attack lowers the mean score" in found["cap_table_2.md"]
    assert r"0.30$\downarrow$ & 25 \% & --" in found["cap_table_2.tex"]
    row = next(r for r in csv.DictReader(io.StringIO(found["cap_table_2.csv"])) if r["delta"])
    assert (row["lowered"], row["mean_of_rates"], row["delta"]) == ("true", "", "0.3")


def test_of_two_runs_the_first_counts_and_other_records_do_not():
    noise = [changed(delta=9.0, **{key: value}) for key, value in {"split": "dev", "level": "document"}.items()]
    found = lines(tables(run(*noise, changed()), run(changed(delta=3.0), changed("bed", 0.2)))["cap_table_2"])
    assert found["Llama-3.1-8B", "DSI", "none"].ours["delta"].value == 0.6
    assert found["Llama-3.1-8B", "BED", "none"].ours["delta"].value == 0.2


def test_latex_is_escaped_balanced_and_rectangular():
    runs = [run(changed(), main=HOSTILE), run(changed("bed"), changed(dataset="mini", defense="a_b&c"))]
    for name, text in table_files(build_cap(runs)).items():
        if name.endswith("tex"):
            plain = re.sub(r"\\[\\{}&%$#_]", "", text)
            assert plain.count("{") == plain.count("}")
            assert plain.count("$") % 2 == 0
            columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
            body = [line for line in text.splitlines() if line.endswith(r"\\")]
            assert {cells(line) for line in body} == {columns - 1}
            assert HOSTILE.strip() not in text


def test_markdown_is_rectangular_whatever_names_hold():
    for table in build_cap([run(changed(), main="a|b\nc"), run(changed("bed"))]):
        rows = [line for line in table_text(table).splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
        assert len(rows) == len(table.lines) + 2


def test_files_are_those_that_a_run_folder_clears(tmp_path):
    files = paper_tables(["cap"], run(changed(), changed(dataset="my data/1", range_max=7.0), main="J"))
    assert len(files) == 9
    assert all(TABLE.fullmatch(name) for name in files)
    both = paper_tables(check_tables(["cd", "cap"]), run())
    assert len(both) == 27 + 6
    folder = RunFolder(tmp_path)
    folder.write_tables(both | files)
    folder.clear()
    assert list((tmp_path / "tables").iterdir()) == []


def finished(path, found, title):
    """A run folder with these metrics."""
    return run_folder(path, run_of(found, title))


def test_several_runs_make_one_figure_of_absolute_and_comparative_assessment(tmp_path, capsys):
    runs = [finished(tmp_path / "a", records(0.3, dimension="joint"), "Some-Judge")]
    runs.append(finished(tmp_path / "b", records(0.05, 0.0, 1.0, dimension="joint"), "Some-Judge"))
    runs.append(finished(tmp_path / "c", records(0.2), "Another-Judge"))
    assert main([*runs, "--out", str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").glob("assessment*")} == {
        "assessment_Some-Judge.png",
        "assessment_Some-Judge.svg",
    }
    assert "**Ours** (not in the paper)" in capsys.readouterr().out
