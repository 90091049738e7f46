from __future__ import annotations

import csv
import dataclasses
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.report.paper import build, check_tables, paper_tables, table_files, table_text
from judgebench.report.paper.__main__ import main
from judgebench.report.paper.cd import CorrelationTable, Line, SettingTable, best_marks
from judgebench.report.paper.published import (
    is_slip,
    model_key,
    printed_rows,
    printed_settings,
    recomputed_average,
)
from judgebench.report.paper.table import Value, escape
from judgebench.results.folder import RunFolder
from judgebench.results.schema import TABLE
from judgebench.runtime.errors import UserError
from judgebench.types import ScoreRange
from tests.report.paper.conftest import record, run_of

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


def tables(runs):
    return {table.name: table for table in build(runs)}


def test_the_published_figures_as_records_give_the_published_tables(paper_runs):
    found = tables(paper_runs)
    assert list(found) == [f"table_{i}" for i in range(1, 10)]
    cells = 0
    for table in (t for t in found.values() if isinstance(t, CorrelationTable)):
        assert table.columns == ["ours", "printed"]
        for line in table.lines:
            for name in CORRELATIONS:
                ours, printed = f"{line.ours[name].value:.3f}", f"{line.printed[name]:.3f}"
                if line.range is not None:  # averages are recomputed, and print may have rounded before or after
                    assert ours == printed, (table.name, line.label, line.range, name)
                    cells += 1
                else:
                    assert line.ours[name].value == pytest.approx(line.recomputed[name], abs=1e-12)
        within = {key: mark for key, mark in best_marks(table, "printed").items() if "_" in mark or "/" in mark}
        assert within == {key: mark for key, mark in best_marks(table, "ours").items() if "_" in mark or "/" in mark}
    assert cells == 120 * 3
    for table in (t for t in found.values() if isinstance(t, SettingTable)):
        assert all(line.ours == line.printed for line in table.lines)
        assert len(table.lines) == 16


def test_every_row_of_the_print_is_in_the_text_digit_by_digit(paper_runs):
    files = table_files(build(paper_runs))
    for row in printed_rows():
        text = files[f"table_{row.table}.txt"]
        at = f"{row.range}" if row.range else ""
        lines = [line for line in text.splitlines() if re.match(rf"{re.escape(row.label)} +{at}\s", line)]
        printed = [re.findall(r"-?\d\.\d{3}", line.split("[")[0]) for line in lines]
        assert printed, row
        digits = [re.findall(r"(-?\d\.\d{3})(?=[_/*!]* (?: |$)|[_/*!]*$)", line) for line in lines]
        assert any(all(f"{row.values[name]:.3f}" in found for name in CORRELATIONS) for found in digits), row
    assert "-0.000" in files["table_8.txt"]


def test_underlines_are_where_the_paper_has_them():
    found = tables([])
    for text in UNDERLINED.strip().splitlines():
        number, at, label, names = re.fullmatch(
            r"(\d) (\S+) (.+?) ((?:(?:pearson|spearman|kendall) ?)+)", text
        ).groups()
        table = found[f"table_{number}"]
        place = next(i for i, line in enumerate(table.lines) if (str(line.range), line.label) == (at, label))
        for name in names.split():
            assert "_" in best_marks(table, "printed")[place, name], text


def test_one_underline_a_range_and_one_bold_average_unless_figures_tie():
    for table in tables([]).values():
        if isinstance(table, CorrelationTable):
            for at, places in table.sections:
                for name in CORRELATIONS:
                    mark = "*" if at is None else "_"
                    won = [i for i in places if mark in best_marks(table, "printed").get((i, name), "")]
                    best = max(table.lines[i].printed[name] for i in places)
                    assert [table.lines[i].printed[name] for i in won] == [best] * len(won)
                    assert won


def test_the_papers_known_slips_and_no_others():
    found = {
        (row.table, row.label, name): round(value, 4)
        for row in printed_rows()
        if row.range is None
        for name, value in recomputed_average(row.table, row.label).items()
        if is_slip(row.values[name], value)
    }
    assert found == {
        (2, "Qwen2.5-7B-Instruct", "pearson"): 0.3475,
        (2, "Qwen2.5-7B-Instruct", "spearman"): 0.3443,  # 0.34425
        (2, "Qwen2.5-7B-Instruct", "kendall"): 0.2985,
        (9, "Contrastive (14B-3B)", "pearson"): 0.4095,
    }


def test_slips_are_marked_and_told():
    text = table_files(build([]))
    assert "0.343!" in text["table_2.txt"]
    assert "0.3475!" in text["table_2.txt"]
    assert "0.408!" in text["table_9.txt"]
    assert "0.4095!" in text["table_9.txt"]
    assert "0.335" in text["table_1.txt"]
    assert "12.8 % by the table" in " ".join(text["table_2.txt"].split())
    assert "0.408$^!$" in text["table_9.tex"]
    for number in (6, 7, 8):
        assert "!" not in text[f"table_{number}.txt"]
    rows = {row["system"]: row for row in csv.DictReader(io.StringIO(text["table_9.csv"])) if not row["range_min"]}
    assert rows["Contrastive (14B-3B)"]["pearson_slip"] == "true"
    assert rows["Contrastive (14B-3B)"]["pearson_recomputed"] == "0.40950"
    assert rows["Contrastive (14B-3B)"]["spearman_slip"] == "false"


def test_data_of_the_package_holds_every_cell_once():
    rows = printed_rows()
    assert len(rows) == 150
    assert len({(row.table, row.label, row.range) for row in rows}) == 150
    assert len({(s.table, s.main, s.assistant, s.range) for s in printed_settings()}) == 48
    for row in rows:
        if row.range is None:
            assert recomputed_average(row.table, row.label) == pytest.approx(row.values, abs=0.0055)


def test_one_run_fills_its_own_family_and_leaves_the_other_as_published(paper_runs):
    found = tables([paper_runs[-1]])  # Qwen 14B with 3B
    assert found["table_1"].columns == ["printed"]
    assert "paper's figures alone" in found["table_1"].notes[0]
    filled = {line.label for line in found["table_2"].lines if line.ours}
    assert filled == {"Qwen2.5-3B-Instruct", "Qwen2.5-14B-Instruct", "Contrastive (14B-3B)"}
    assert sum(line.ours is not None for line in found["table_3"].lines) == 4
    assert not any(name.startswith("own") for name in found)


RANGES = [ScoreRange(0, 4), ScoreRange(1, 5), ScoreRange(2, 6), ScoreRange(3, 7)]


def own_run(main="Other-7B", assistant="Other-1B", **more):
    records = []
    for i, at in enumerate(RANGES):
        records += [
            record("main", "greedy", at, 0.3 + 0.01 * i, **more),
            record("assistant", "greedy", at, -0.1, **more),
            record("pair", "contrastive", at, 0.4 - 0.02 * i, **{"lambda": 0.1, "temperature": 2.0, **more}),
        ]
    return run_of(records, main, assistant)


def test_a_pair_that_the_paper_does_not_have_has_a_table_of_its_own():
    found = tables([own_run()])
    table = found["own_correlations_coherence"]
    assert table.columns == ["ours"]
    assert "not in the paper" in table.caption
    assert [line.label for line in table.lines[:3]] == ["Other-1B", "Other-7B", "Contrastive (7B-1B)"]
    averages = [line for line in table.lines if line.range is None]
    assert averages[1].ours["spearman"].value == pytest.approx(0.315)
    assert [one.name for one in table.below] == ["table_1", "table_2"]
    assert all(one.columns == ["printed"] for one in table.below)
    text = table_text(table)
    assert "[.25,.35]" in text
    assert text.index("Contrastive (7B-1B)") < text.index("\nTable 1.") < text.index("\nTable 2.")
    assert "not tuned" in table_text(found["own_settings_coherence"])


def test_a_dimension_or_range_that_the_paper_does_not_have_is_not_lost(paper_runs):
    run = paper_runs[-1]
    wide = dataclasses.replace(run, metrics=[r | {"range_max": 10.0} for r in run.metrics[:3]])
    assert any(name.startswith("own_correlations") for name in tables([wide]))
    fluent = dataclasses.replace(run, metrics=[r | {"dimension": "fluency"} for r in run.metrics[:3]])
    assert tables([fluent])["own_correlations_fluency"].below == []


def test_scores_by_expectation_have_a_table_of_their_own():
    run = own_run()
    records = [
        *run.metrics,
        record("main", "expectation", value=0.6),
        record("pair", "contrastive_expectation", value=0.7),
    ]
    records = [r | {"rule": "expectation" if "expectation" in r["decoding"] else "argmax"} for r in records]
    found = tables([dataclasses.replace(run, metrics=records)])
    assert [line.ours["kendall"].value for line in found["own_expectation_coherence"].lines] == [0.6, 0.7]
    assert {line.ours["kendall"].value for line in found["own_correlations_coherence"].lines}.isdisjoint({0.6, 0.7})


def test_the_rule_of_a_decoding_is_not_read_from_its_name():
    run = own_run()
    records = [
        *(r | {"rule": "expectation" if r["judge"] == "pair" else "argmax"} for r in run.metrics),
        *(record("main", "mean", at, 0.6, rule="expectation") for at in RANGES),
        record("pair", "contrastive_expectation_per_range", value=0.7, rule="expectation"),
    ]
    found = tables([dataclasses.replace(run, metrics=records)])
    assert {line.label for line in found["own_correlations_coherence"].lines} == {"Other-1B", "Other-7B"}
    lines = found["own_expectation_coherence"].lines
    assert {line.label for line in lines} == {"Other-7B", "Contrastive (7B-1B)"}
    pair = [line.ours["kendall"].value for line in lines if line.label == "Contrastive (7B-1B)" and line.range]
    assert pair == pytest.approx([0.4, 0.38, 0.36, 0.34])


def test_a_pair_is_tuned_where_the_decoding_of_its_rows_was():
    run = own_run()
    for decoding, tuned in (("contrastive", True), ("contrastive_expectation", False)):
        one = dataclasses.replace(run, tuning=[{"tune": "dev", "decoding": decoding}])
        assert ("not tuned" in table_text(tables([one])["own_settings_coherence"])) != tuned


def test_models_of_one_name_are_told_apart():
    lines = tables([own_run("model", "model")])["own_correlations_coherence"].lines
    assert len({line.label for line in lines}) == 3


def test_two_runs_that_differ_in_a_cell_are_told_of():
    one, other = own_run(), own_run()
    changed = [r | {"spearman": 0.9} if r["judge"] == "main" and r["range_min"] == 1 else r for r in other.metrics]
    table = tables([one, dataclasses.replace(other, metrics=changed)])["own_correlations_coherence"]
    assert any("Other-7B, range 1-5" in note and "first is shown" in note for note in table.notes)


def test_of_the_records_only_the_shown_split_without_attack_counts():
    noise = [
        record("main", "greedy", value=0.99, **{key: value})
        for key, value in {"split": "dev", "level": "document", "attack": "dsi", "defense": "cap"}.items()
    ]
    run = own_run()
    table = tables([dataclasses.replace(run, metrics=[*noise, *run.metrics])])["own_correlations_coherence"]
    assert all(line.ours["pearson"].value < 0.9 for line in table.lines)


def test_ours_marks_count_from_zero_and_never_alone():
    lines = [
        Line("a", ScoreRange(1, 5), {n: Value(-0.1) for n in CORRELATIONS}, {}, {}),
        Line("b", ScoreRange(1, 5), {n: Value(0.0) for n in CORRELATIONS}, {}, {}),
    ]
    assert best_marks(CorrelationTable("n", "t", "c", "d", lines, []), "ours") == {}
    assert best_marks(CorrelationTable("n", "t", "c", "d", lines[:1], []), "ours") == {}


def test_files_come_in_three_forms_and_a_run_folder_clears_them(tmp_path, paper_runs):
    run = paper_runs[0]
    files = paper_tables(["cd"], run)
    assert {name.rsplit(".")[-1] for name in files} == {"txt", "csv", "tex"}
    assert len(files) == 27
    assert all(TABLE.fullmatch(name) for name in {**files, **table_files(build([own_run()]))})
    folder = RunFolder(tmp_path)
    assert {path.name for path in folder.write_tables(files)} == set(files)
    (tmp_path / "tables" / "mine.txt").write_text("x")
    folder.clear()
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["mine.txt"]


def test_csv_carries_intervals_and_kappa(paper_runs):
    files = table_files(build(paper_runs))
    rows = list(csv.DictReader(io.StringIO(files["table_1.csv"])))
    assert len(rows) == 25
    assert (rows[0]["spearman"], rows[0]["spearman_low"], rows[0]["spearman_high"]) == ("0.106", "0.056", "0.156")
    settings = list(csv.DictReader(io.StringIO(files["table_3.csv"])))
    assert settings[1]["kappa"] == settings[1]["kappa_published"] == "2.0"


HOSTILE = r"a_b&c%d$e#f{g}h\i^j~k<l>m|n" + "\n"


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)&", line)) + sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line))


def test_an_early_exit_is_named_by_its_layer_and_negative_ranges_have_a_minus():
    records = [record(judge, name, ScoreRange(-2, 2)) for judge, name in (("main", "greedy"), ("pair", "contrastive"))]
    (table, *_) = (
        one
        for one in build([run_of(records, "Other-7B", "early exit after layer 20")])
        if one.name == "own_correlations_coherence"
    )
    assert [line.label for line in table.lines] == ["Other-7B", "Contrastive (7B-layer 20)"]
    assert "Other-7B & $-$2 to 2 & " in table_files([table])[f"{table.name}.tex"]


def test_few_articles_are_told_in_the_tables_notes():
    (few,) = (one for one in build([own_run(groups=5)]) if one.name == "own_correlations_coherence")
    (enough,) = (one for one in build([own_run(groups=6)]) if one.name == "own_correlations_coherence")
    told = "Fewer than 6 articles: the intervals are too narrow, and nothing can be told from chance."
    assert told in few.notes
    assert told not in enough.notes


def test_latex_is_escaped_balanced_and_rectangular():
    runs = [own_run(HOSTILE, "x" + HOSTILE), own_run()]
    for table in build(runs):
        text = table_files([table])[f"{table.name}.tex"]
        plain = re.sub(r"\\[\\{}&%$#_]", "", text)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        assert "\\usepackage" in plain.splitlines()[0]
        assert "%" not in plain.split("\n", 1)[1]
        if table.name.startswith("own_correlations"):
            assert r"0.300 & {\scriptsize [.25,.35]} &" in text
            assert r"$-$0.100 & {\scriptsize [$-$.15,$-$.05]}" in text
            assert r"95\,\% interval" in text
        columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
        body = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert {cells(line) for line in body} == {columns - 1}
    assert HOSTILE.strip() not in "".join(
        table_files(build(runs))[n] for n in table_files(build(runs)) if n[-3:] == "tex"
    )


@given(st.text(max_size=40))
def test_escaped_text_holds_nothing_that_latex_acts_on(text):
    escaped = escape(text)
    for command in (
        "textbackslash{}",
        "textasciicircum{}",
        "textasciitilde{}",
        "textless{}",
        "textgreater{}",
        "textbar{}",
    ):
        escaped = escaped.replace("\\" + command, "")
    assert not re.search(r"[&%$#_{}^~\\]", re.sub(r"\\[&%$#_{}]", "", escaped))
    assert not re.search(r"[\x00-\x1f\x7f]", escaped)


def test_latex_marks_as_the_captions_say():
    text = table_files([tables([])["table_2"]])["table_2.tex"]
    assert r"\textit{\underline{0.460}}" in text
    assert r"\textbf{0.433}" in text
    assert "$-$0.241" in text


def test_names_of_models_meet_whatever_their_folder():
    assert model_key("/srv/models/qwen2.5-7b-instruct/") == model_key("Qwen/Qwen2.5-7B-Instruct")
    assert model_key(r"C:\models\Qwen2.5-7B-Instruct") == model_key("Qwen/Qwen2.5-7B-Instruct")


@pytest.mark.parametrize("asked", ["cd", 3, None, ["caps"], {"cd": 1}])
def test_tables_asked_for_wrongly(asked):
    with pytest.raises(UserError, match=r"^tables: "):
        check_tables(asked)


def test_tables_asked_for():
    assert check_tables([]) == []
    assert check_tables(["cd", "cd"]) == ["cd"]


def run_folder(path, run):
    folder = RunFolder(path)
    for name in ("config", "about", "metrics", "tuning"):
        folder.write(name, getattr(run, name) or {})
    return str(path)


def test_several_runs_print_as_one_table(tmp_path, paper_runs, capsys):
    folders = [run_folder(tmp_path / f"{i}", run) for i, run in enumerate(paper_runs)]
    assert main([*folders, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert [f"Table {i}." in out for i in range(1, 10)] == [True] * 9
    assert len(list((tmp_path / "out").iterdir())) == 27
    assert main([folders[-1]]) == 0
    out = capsys.readouterr().out
    assert "Table 2." in out
    assert "Table 1." not in out


def test_groups_are_called_what_the_run_calls_them(tmp_path, capsys):
    folder = run_folder(tmp_path / "run", run_of(own_run().metrics, "Other-7B", groups="dialogues"))
    assert main([folder]) == 0
    assert "1440 texts of 90 dialogues" in capsys.readouterr().out


def test_a_folder_that_is_no_run_is_a_sentence(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err
