"""The contrastive-decoding paper's tables: the print is reproduced, ours stands beside it."""

import dataclasses
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.command.paper import main
from judgebench.report.paper.cd import build, printed_correlations
from judgebench.report.render import escape
from judgebench.stats.correlation import CORRELATIONS
from judgebench.types import ScoreRange
from tests.report.paper.conftest import HOSTILE, check_forms, files_of, record, run_folder, run_of

UNDERLINED = """
2 0-4 Contrastive (14B-3B) pearson spearman
1 1-5 Contrastive (8B-1B) spearman
2 1-5 Qwen2.5-14B-Instruct pearson
2 1-5 Contrastive (14B-3B) spearman kendall
2 2-6 Contrastive (14B-3B) pearson spearman
1 3-7 Contrastive (8B-1B) spearman kendall
1 3-7 Contrastive (8B-3B) pearson
2 3-7 Contrastive (14B-3B) pearson spearman
6 0-4 Llama-3.1-8B-Instruct kendall
6 1-5 Llama-3.1-8B-Instruct pearson
6 2-6 Contrastive (8B-1B) pearson kendall
6 3-7 Contrastive (8B-3B) pearson spearman kendall
7 0-4 Contrastive (14B-3B) pearson spearman kendall
7 1-5 Qwen2.5-14B-Instruct spearman kendall
7 2-6 Contrastive (14B-3B) pearson spearman kendall
7 3-7 Contrastive (14B-3B) pearson
8 1-5 Llama-3.1-8B-Instruct pearson spearman kendall
9 1-5 Contrastive (7B-3B) pearson
9 1-5 Contrastive (14B-3B) spearman kendall
9 3-7 Contrastive (7B-3B) pearson
"""
"""The underlines that survive in the text of the paper: table, range, system, correlations."""


CORRELATION_TABLES = ("table_1", "table_2", "table_6", "table_7", "table_8", "table_9")


def tables(runs):
    return {table.name: table for table in build(runs)}


@pytest.fixture(scope="module")
def published(paper_runs):
    """The tables of runs that have found what the paper prints."""
    return tables(paper_runs)


@pytest.fixture(scope="module")
def printed():
    """The tables without runs."""
    return tables([])


def test_the_published_figures_as_records_give_the_published_tables(published):
    assert list(published) == [f"table_{i}" for i in range(1, 10)]
    cells = 0
    for rows in (published[name].rows for name in CORRELATION_TABLES):
        assert rows["ours"].all()
        assert rows["printed"].all()
        ranged, averages = rows[rows["range"] != ""], rows[rows["range"] == ""]
        for name in CORRELATIONS:
            pd.testing.assert_series_equal(ranged[name], ranged[f"{name}_published"], check_names=False)
            # averages are recomputed, and print may have rounded before or after
            assert averages[name].map("{:.5f}".format).tolist() == averages[f"{name}_recomputed"].tolist()
            assert ranged[f"{name}_signs"].tolist() == ranged[f"{name}_published_marks"].tolist()
            cells += len(ranged)
    assert cells == 120 * 3
    for rows in (published[f"table_{number}"].rows for number in (3, 4, 5)):
        assert rows["lambda"].tolist() == rows["lambda_published"].tolist()
        assert rows["temperature"].tolist() == rows["temperature_published"].tolist()
        assert len(rows) == 16


def test_every_row_of_the_print_is_in_the_text_digit_by_digit(published):
    for row in printed_correlations().to_dict("records"):
        at = "" if pd.isna(row["range_min"]) else str(ScoreRange(row["range_min"], row["range_max"]))
        figures = [f"{row[f'{name}_published']:.3f}" for name in CORRELATIONS]
        lines = [
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in published[f"table_{row['table']}"].text.splitlines()
        ]
        shown = [[cell.rstrip("_/*!") for cell in line[-3:]] for line in lines if line[:2] == [row["label"], at]]
        assert shown == [figures]
    assert "-0.000" in published["table_8"].text


def test_underlines_are_where_the_paper_has_them(printed):
    for text in UNDERLINED.strip().splitlines():
        number, at, label, names = re.fullmatch(
            r"(\d) (\S+) (.+?) ((?:(?:pearson|spearman|kendall) ?)+)", text
        ).groups()
        rows = printed[f"table_{number}"].rows.set_index(["range", "label"])
        for name in names.split():
            assert "_" in rows.loc[(at, label), f"{name}_published_marks"], text


def test_one_underline_a_range_and_one_bold_average_unless_figures_tie(printed):
    for table in CORRELATION_TABLES:
        for at, part in printed[table].rows.groupby("range"):
            for name in CORRELATIONS:
                won = part[f"{name}_published_marks"].str.contains("_" if at else "*", regex=False)
                best = part[f"{name}_published"] == part[f"{name}_published"].max()
                assert won.tolist() == best.tolist()


def test_the_papers_known_slips_and_no_others(printed):
    latex = {name: table.files[f"{name}.tex"] for name, table in printed.items()}
    assert "0.408$^{!}$" in latex["table_9"]
    assert {name for name, text in latex.items() if "beyond rounding" in text} == {"table_2", "table_9"}
    rows = printed_correlations()
    found = {
        (row["table"], row["label"], name): round(row[f"{name}_recomputed"], 4)
        for row in rows.to_dict("records")
        for name in CORRELATIONS
        if row[f"{name}_slip"]
    }
    assert found == {
        (2, "Qwen2.5-7B-Instruct", "pearson"): 0.3475,
        (2, "Qwen2.5-7B-Instruct", "spearman"): 0.3443,  # 0.34425
        (2, "Qwen2.5-7B-Instruct", "kendall"): 0.2985,
        (9, "Contrastive (14B-3B)", "pearson"): 0.4095,
    }


RANGES = [ScoreRange(0, 4), ScoreRange(1, 5), ScoreRange(2, 6), ScoreRange(3, 7)]


OWN = ("Qwen2.5-14B-Instruct", "Qwen2.5-3B-Instruct")


def own_run(main=OWN[0], assistant=OWN[1], **more):
    records = []
    for i, at in enumerate(RANGES):
        records += [
            record("main", "greedy", at, 0.3 + 0.01 * i, **more),
            record("assistant", "greedy", at, -0.1, **more),
            record("pair", "contrastive", at, 0.4 - 0.02 * i, **{"lambda": 0.1, "temperature": 2.0, **more}),
        ]
    return run_of(records, main, assistant)


def own_table(*runs, column="pearson"):
    """The table of coherence in which runs of the paper's pair stand."""
    return next(table for table in build(runs) if table.has_ours and column in table.rows)


def own_rows(*runs):
    rows = own_table(*runs).rows
    return rows[rows["ours"]]


def test_failed_answers_have_the_lowest_score_as_in_the_paper():
    """A record leaves them out; `lowest` holds what the paper prints."""
    lowest = {f"{name}{end}": 0.2 for name in ("pearson", "spearman", "kendall") for end in ("", "_low", "_high")}
    rows = own_rows(own_run(failed_share=0.3, lowest=lowest))
    assert set(rows["spearman"]) == {0.2}


def test_a_pair_of_the_paper_stands_in_its_table_with_its_averages():
    rows = own_rows(own_run()).set_index("label")
    assert rows.loc[rows["range"] == "", "spearman"].tolist() == pytest.approx([-0.1, 0.315, 0.37])
    assert "[.25,.35]" in own_table(own_run()).text


def test_what_the_paper_does_not_have_has_no_line(paper_runs, tmp_path, capsys):
    wide = dataclasses.replace(paper_runs[-1], metrics=[r | {"range_max": 10.0} for r in paper_runs[-1].metrics[:3]])
    for run in (own_run("Other-7B", "Other-1B"), wide):
        assert not any(table.has_ours for table in build([run]))
    assert main([run_folder(tmp_path / "other", own_run("Other-7B", "Other-1B"))]) == 0
    out, err = capsys.readouterr()
    assert not out.strip()
    assert "the papers' tables hold the papers' models, data and ranges alone" in err


def test_the_rule_of_a_decoding_is_not_read_from_its_name():
    run = own_run()
    records = [
        *(r | {"rule": "expectation" if r["judge"] == "pair" else "argmax"} for r in run.metrics),
        *(record("main", "mean", at, 0.6, rule="expectation") for at in RANGES),
        record("pair", "contrastive_expectation_per_range", value=0.7, rule="expectation"),
    ]
    run = dataclasses.replace(run, metrics=records)
    assert len(set(own_rows(run)["label"])) == 2, "main and assistant alone"


def test_a_pair_is_tuned_where_the_decoding_of_its_rows_was():
    run = own_run()
    for decoding, tuned in (("contrastive", True), ("contrastive_expectation", False)):
        one = dataclasses.replace(run, tuning=[{"tune": "dev", "decoding": decoding}])
        assert ("not tuned" in own_table(one, column="kappa").text) != tuned


def test_two_runs_that_differ_in_a_cell_are_told_of():
    one, other = own_run(), own_run()
    changed = [r | {"spearman": 0.9} if r["judge"] == "main" and r["range_min"] == 1 else r for r in other.metrics]
    table = own_table(one, dataclasses.replace(other, metrics=changed))
    assert any("Qwen2.5-14B-Instruct, range 1-5" in note and "first is shown" in note for note in table.notes)


def test_of_the_records_only_the_shown_split_without_attack_counts():
    noise = [
        record("main", "greedy", value=0.99, **{key: value})
        for key, value in {"split": "dev", "level": "document", "attack": "dsi", "defense": "cap"}.items()
    ]
    run = own_run()
    assert (own_rows(dataclasses.replace(run, metrics=[*noise, *run.metrics]))["pearson"] < 0.9).all()


@pytest.mark.parametrize("values", [{"main": -0.1, "assistant": 0.0}, {"main": 0.5}])
def test_ours_marks_count_from_zero_and_never_alone(values):
    rows = own_rows(run_of([record(role, "greedy", value=value) for role, value in values.items()], *OWN))
    assert set(rows["pearson_signs"]) == {""}


def test_all_forms_are_whole_whatever_names_hold():
    found = build([own_run(HOSTILE, "x" + HOSTILE), own_run()])
    check_forms(found)
    text = files_of(found)[f"{own_table(own_run()).name}.tex"]
    assert r"0.300 {\scriptsize [.25,.35]} &" in text
    assert r"$-$0.100 {\scriptsize [$-$.15,$-$.05]}" in text
    assert r"95 \% interval" in text


@given(st.text(max_size=40))
def test_escaped_text_holds_nothing_that_latex_acts_on(text):
    escaped = escape(text)
    for command in ("textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar"):
        escaped = escaped.replace(rf"\{command}{{}}", "")
    for command in ("lambda", "kappa", "Delta", "downarrow"):
        escaped = escaped.replace(rf"$\{command}$", "")
    assert not re.search(r"[&%$#_{}^~\\]", re.sub(r"\\[&%$#_{}]", "", escaped))
    assert not re.search(r"[\x00-\x1f\x7f]", escaped)


def test_several_runs_print_as_one_table(tmp_path, paper_runs, capsys):
    folders = [run_folder(tmp_path / f"{i}", run) for i, run in enumerate(paper_runs)]
    assert main([*folders, f"out={tmp_path / 'out'}"]) == 0
    out = capsys.readouterr().out
    assert [f"Table {i}." in out for i in range(1, 10)] == [True] * 9
    assert len(list((tmp_path / "out").iterdir())) == 18
    assert main([folders[-1]]) == 0
    out = capsys.readouterr().out
    assert "Table 2." in out
    assert "Table 1." not in out
