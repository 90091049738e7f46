"""The CAP paper's tables: the print is reproduced, ours stands beside it, and nothing of ours is lost."""

import re

import pytest

from judgebench.command.paper import main
from judgebench.report.paper.cap import build_cap, printed_cells
from judgebench.report.paper.tables import published
from tests.report.paper.conftest import csv_of, run_folder, run_of
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


def rows(table):
    """The rows of a table of score changes by judge, attack and defense."""
    return table.rows.set_index(["judge", "attack_label", "column"])


def dsi(table, judge="Llama-3.1-8B", defense="none"):
    return rows(table).loc[judge, "DSI", defense]


def test_without_runs_the_tables_are_the_printed_columns_without_defense():
    found = tables()
    assert list(found) == ["cap_table_2", "cap_table_3"]
    for table in found.values():
        assert len(table.rows) == 12  # the learned phrase needs an open judge, of which there are two
        assert set(table.rows["column"]) == {"none"}
        assert not table.has_ours
        assert "paper's figures alone" in table.notes[0]
    for line in PRINTED.strip().splitlines():
        assert line in found["cap_table_3"].text


def test_the_published_file_holds_every_table_and_marks_what_cannot_be_read():
    found = published("cap_score_change.csv")
    keys = ["judge", "attack", "defense"]
    assert set(found["table"]) == {2, 3, 6, 7, 10, 11}
    assert not found.duplicated(["table", *keys]).any()
    cells = printed_cells("cap_score_change.csv", 7, ["delta"]).set_index(["judge_key", "column", "attack"])
    assert cells.loc[("flan-t5-xl", "cap_llama", "dsi"), "delta_unread"]
    # ablations repeat the main tables' columns without defense
    bare = found[found["defense"] == "none"]
    for main_table, ablation in ((2, 10), (3, 6)):
        here, there = (bare[bare["table"] == table].set_index(keys)["delta"] for table in (ablation, main_table))
        assert here.equals(there.loc[here.index])


def test_a_judge_of_the_paper_stands_beside_its_printed_row():
    table = tables(run(changed(), changed("adv_suffix_4", 1.2), changed("adv_suffix_3", 9.0)))["cap_table_2"]
    assert len(table.rows) == 12
    assert dsi(table)[["delta", "rate_of_means", "mean_of_rates"]].tolist() == [0.6, 0.25, 0.31]
    assert dsi(table)[["delta_published", "rate_percent_published"]].tolist() == [0.61, 23]
    suffix = rows(table).loc["Llama-3.1-8B", "AdvSuffix", "none"]
    assert suffix[["delta", "delta_published"]].tolist() == [1.2, 1.17]
    assert any("adv_suffix_4" in note for note in table.notes)
    assert not rows(table).loc["Llama-3.1-8B", "BED", "none"]["ours"]
    row = r"\| +\| DSI +\| w/o defense \| 0.60 \[0.55,0.65\] \| 25 % \[20,30\] +\| 31 % \[26,36\] +\| 0.61 +\| 23 %"
    assert re.search(row, table.text)
    assert "1440 texts of 90 articles" in table.text
    assert "Llama-3.1-8B-Instruct by expectation" in table.text


def test_other_judges_stand_behind_those_of_the_paper():
    results = run(
        changed(),
        changed(judge="pair", decoding="contrastive_expectation", delta=0.8),
        changed(judge="assistant", delta=0.0, constant=True),
        changed(judge="main", decoding="greedy", rule="argmax", delta=2.0),
        main="Other-7B",
        assistant="Other-1B",
    )
    table = tables(results)["cap_table_2"].rows
    ours = dict(table.loc[table["ours"], ["judge", "delta"]].itertuples(index=False))
    assert ours == {"Other-7B": 0.6, "Contrastive (7B-1B)": 0.8}
    assert table["judge"].tolist()[-2:] == list(ours)


@pytest.mark.parametrize("more", [{"dataset": "mini"}, {"dimension": "coherence"}, {"range_max": 10.0}])
def test_what_the_paper_does_not_have_has_no_line(more):
    found = tables(run(changed(**more)))
    assert list(found) == ["cap_table_2", "cap_table_3"]
    assert not any(table.has_ours for table in found.values())


def test_a_lowering_attack_and_an_unknown_rate_are_told():
    zero = dict.fromkeys(("mean_of_rates", "mean_of_rates_low", "mean_of_rates_high"))
    table = tables(run(changed(delta=-0.3, **zero)))["cap_table_2"]
    assert "0.30↓ [0.25,0.35]" in table.text
    assert "↓ the attack lowers the mean score" in table.text
    latex = r"0.30$^{\downarrow}$ {\scriptsize [0.25,0.35]} & 25 \% {\scriptsize [20,30]} & --"
    assert latex in table.files["cap_table_2.tex"]
    row = next(row for row in csv_of(table) if row["delta"])
    assert (row["lowered"], row["mean_of_rates"], row["delta"]) == ("true", "", "0.3")


def finished(path, found, title):
    """A run folder with these metrics."""
    return run_folder(path, run_of(found, title))


def test_several_runs_make_one_figure_of_absolute_and_comparative_assessment(tmp_path, capsys):
    runs = [finished(tmp_path / "a", records(0.3, dimension="joint"), "Some-Judge")]
    runs.append(finished(tmp_path / "b", records(0.05, 0.0, 1.0, dimension="joint"), "Some-Judge"))
    runs.append(finished(tmp_path / "c", records(0.2), "Another-Judge"))
    assert main([*runs, f"out={tmp_path / 'out'}"]) == 0
    assert {path.name for path in (tmp_path / "out").glob("assessment*")} == {
        "assessment_Some-Judge.png",
        "assessment_Some-Judge.svg",
    }
    assert "judgebench: the papers' tables hold" in capsys.readouterr().err
