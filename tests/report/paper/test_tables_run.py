"""`+exp=tables/cd` and `+exp=tables/cap` from the command line to the run folder."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from judgebench.report.paper.__main__ import main
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results

PAIR = ("Qwen2.5-14B-Instruct", "Qwen2.5-3B-Instruct")
"""Tiny models in folders of these names: whose tables they fill is all that is looked at."""


@pytest.fixture(scope="session")
def named_pair(tiny_pair, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    for source, name in zip(tiny_pair, PAIR, strict=True):
        shutil.copytree(source, folder / name)
    return [f"judge.path={folder / PAIR[0]}", f"assistant.path={folder / PAIR[1]}"]


SMALL = (
    "data=mini",
    "data.limit_groups=4",
    "data.dev_share=0.25",
    "logger=none",
    "report=false",
    "metrics.resamples=50",
)


@pytest.mark.exhaustive
def test_a_pair_of_the_paper_fills_its_tables(judgebench, named_pair, capfd):
    judgebench("+exp=tables/cd", *named_pair, *SMALL, "~data.path", "run_dir=run")
    folder = RunFolder.open("run")
    names = {path.name for path in (folder.path / "tables").iterdir()}
    assert names == {f"table_{i}.{ending}" for i in range(1, 10) for ending in ("csv", "tex")}
    for number, dimension in ((2, "coherence"), (7, "relevance"), (9, "consistency")):
        with (folder.path / "tables" / f"table_{number}.csv").open(encoding="utf-8") as file:
            rows = {(row["system"], row["range_min"]): row for row in csv.DictReader(file)}
        for record in folder.read("metrics"):
            wanted = {"split": "test", "level": "dataset", "dimension": dimension, "judge": "pair"}
            if all(record[name] == value for name, value in wanted.items()):
                cell = rows["Contrastive (14B-3B)", f"{record['range_min']:g}"]
                assert float(cell["spearman"]) == pytest.approx(record["spearman"], abs=1e-6)
                assert cell["spearman_published"]
                assert cell["spearman_low"]
        assert not rows["Contrastive (7B-3B)", "0"]["spearman"]
    with (folder.path / "tables" / "table_3.csv").open(encoding="utf-8") as file:
        chosen = [row for row in csv.DictReader(file) if row["lambda"]]
    tuned = {row["range_min"]: row for row in folder.read("tuning") if row["dimension"] == "coherence"}
    assert {float(row["range_min"]): float(row["lambda"]) for row in chosen} == {
        k: v["lambda"] for k, v in tuned.items()
    }
    assert main(["run"]) == 0
    assert "Table 2." in capfd.readouterr().out


@pytest.mark.exhaustive
def test_a_judge_of_the_cap_paper_fills_its_rows(judgebench, tiny_pair, tmp_path, capfd):
    for phrase, name in (("truly", "adv_suffix_3"), ("truly great wow indeed", "adv_suffix_4")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"phrase": phrase}))
    judge = tmp_path / "Llama-3.1-8B-Instruct"
    shutil.copytree(tiny_pair[0], judge)
    attacks = ",".join(f"{{phrase_file: {tmp_path / f'adv_suffix_{i}.json'}}}" for i in (3, 4))
    judgebench("+exp=tables/cap", f"judge.path={judge}", *SMALL, "~data.path", f"attacks=[none,dsi,bed,{attacks}]",
               "defenses=[none]", "run_dir=run")  # fmt: skip
    folder = RunFolder.open("run")
    names = {path.name for path in (folder.path / "tables").iterdir()}
    stems = ("cap_table_2", "cap_table_3", "cap_own_mini_joint")
    assert names == {f"{stem}.{ending}" for stem in stems for ending in ("csv", "tex")}
    with (folder.path / "tables" / "cap_own_mini_joint.csv").open(encoding="utf-8") as file:
        rows = {row["attack"]: row for row in csv.DictReader(file)}
    wanted = {"split": "test", "level": "dataset", "decoding": "expectation"}
    for record in folder.read("metrics"):
        kind = {"dsi": "DSI", "bed": "BED", "adv_suffix_4": "AdvSuffix"}.get(record["attack"])
        if kind and all(record[name] == value for name, value in wanted.items()):
            row = rows.pop(kind)
            for name in ("delta", "rate_of_means", "mean_of_rates", "delta_high"):
                assert float(row[name]) == pytest.approx(record[name], abs=1e-6)
    assert rows == {}
    assert main(["run", "--out", str(tmp_path / "out")]) == 0
    assert "Llama-3.1-8B-Instruct" in capfd.readouterr().out
    assert (tmp_path / "out" / "cap_table_2.csv").is_file()


@pytest.mark.exhaustive
def test_a_run_with_references_fills_tables_and_figures_from_its_defense_folder(judgebench, tiny_pair, tmp_path, capfd):
    small = [one for one in SMALL if not one.startswith(("report", "data.dev"))]
    cheap = ["tutor.candidates=8", "tutor.max_new_tokens=6", "tutor.strengths=[0,0.2]", "defense.cot_tokens=4"]
    defenses = "defenses=[none,cot,random_reference,cap]"
    asked = ["attacks=[none,dsi]", "data.dev_share=0.5", defenses, "decoding=[expectation]"]
    judgebench("+exp=tables/cap", f"judge.path={tiny_pair[0]}", *small, "~data.path", *cheap, *asked, "run_dir=run")
    folder = RunFolder.open("run")
    found = Results.load(folder.path)
    rows = {}
    for name in ("", "_references", "_spearman", "_seconds", "_strengths"):
        with (folder.path / "tables" / f"cap_own_mini_joint{name}.csv").open(encoding="utf-8") as file:
            rows[name] = list(csv.DictReader(file))
    tutor = tiny_pair[0].name
    columns = {"none": "none", "cot": "cot", "cap": f"cap_{tutor}", "random_reference": f"random_reference_{tutor}"}
    assert {row["defense"] for row in rows[""]} == set(columns.values())
    wanted = {"split": "test", "level": "dataset", "attack": "dsi"}
    for record in folder.read("metrics"):
        if all(record[name] == value for name, value in wanted.items()):
            (row,) = [row for row in rows[""] if row["defense"] == columns[record["defense"]]]
            assert float(row["delta"]) == pytest.approx(record["delta"], abs=1e-6)
    costs = sorted(float(row["seconds_x10"]) for row in rows["_seconds"])
    assert costs == pytest.approx(sorted(10 * one["seconds"] for one in found.costs), abs=1e-6)
    chosen = {one["side"]: one["alpha"] for one in found.strengths if one["chosen"]}
    (row,) = rows["_strengths"]
    assert (float(row["alpha_h"]), float(row["alpha_l"])) == pytest.approx((chosen["high"], chosen["low"]), abs=1e-6)
    figures = {path.stem for path in (folder.path / "figures").iterdir()}
    assert figures >= {f"{kind}_joint" for kind in ("front", "candidates", "embeddings", "separability", "strengths")}
    html = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "cot (its number)" in html
    assert "Seconds by defense" in html
    assert main(["run", "run", "--out", str(tmp_path / "out")]) == 0
    assert f"CAP ({tutor})" in capfd.readouterr().out
    for name in ("", "_references", "_spearman", "_seconds", "_strengths"):
        file = f"tables/cap_own_mini_joint{name}.csv"
        assert (tmp_path / "out" / file.split("/")[1]).read_text() == (folder.path / file).read_text()
