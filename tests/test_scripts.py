"""Scripts say what they do, and run on their smallest input."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import arithmetic

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
EXTERNAL = SCRIPTS.parents[1] / "shared" / "data" / "external"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.py"))
SMALLEST = {
    "statistics": ("--examples=160", "--resamples=100", "--times=1"),
    "engine": ("--articles=1", "--summaries=2"),
    "attack": ("--articles=1", "--words=6", "--length=1", "--phrases=1"),
    "report": ("--examples=64", "--no-browser"),
    "scale": ("--steps=1",),
    "planning": ("--articles=2", "--summaries=2", "--times=1"),
}


def script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench():
    return script("bench")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_every_script_has_help(name):
    done = subprocess.run([sys.executable, SCRIPTS / name, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: ")


@pytest.mark.parametrize("command", ["statistics", "report", pytest.param("engine", marks=pytest.mark.exhaustive),
                                     pytest.param("attack", marks=pytest.mark.exhaustive),
                                     pytest.param("scale", marks=pytest.mark.exhaustive)])  # fmt: skip
def test_a_measurement_writes_its_figures(bench, command, tmp_path):
    bench.main([command, *SMALLEST[command], "--json", str(tmp_path / "out.json")])
    figures = json.loads((tmp_path / "out.json").read_text())
    assert figures["commit"]
    assert len(figures) > 1
    if command == "engine":
        assert max(row["largest difference"] or 0.0 for row in figures["readers"]) < 1e-3
    if command == "attack":
        assert figures["speed"]["difference"] < 1e-4
        assert figures["searches"][0]["of the gain"] == 1


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["labels", "--data-sets=1", "--cases=1"], 4),
        (["agreement", "--data-sets=1", "--resamples=10"], 50),
        (["choice", "--data-sets=1"], 15),
        pytest.param(["choice", "--data-sets=1", "--recorded"], 14, marks=pytest.mark.exhaustive),
        pytest.param(["repairs", "--data-sets=1"], 5, marks=pytest.mark.exhaustive),
        pytest.param(["verdict", "--data-sets=1"], 38, marks=pytest.mark.exhaustive),
    ],
)
def test_a_simulation_prints_a_table(command, lines, capsys):
    script("simulate").main(command)
    tables = [table.splitlines() for table in capsys.readouterr().out.split("\n\n")]
    assert sum(map(len, tables)) >= lines
    for rows in tables:
        assert {row.count("|") for row in rows} == {rows[0].count("|")}


def test_the_table_of_large_jobs_is_what_its_script_prints():
    page = (SCRIPTS.parent / "docs" / "scale.md").read_text("utf-8")
    assert arithmetic.main([]) in page


def test_twice_the_judgments_take_twice_of_everything():
    shared = {"judge": 7e9, "assistant": 0.0, "gpus": 1, "price": 1.0}
    one, two = (arithmetic.Job(count, texts=1, **shared).row() for count in (1e8, 2e8))
    hours = 2 * 551 * 7e9 * 1e8 / (989e12 * 0.4) / 3600
    assert float(one["GPU hours"]) == pytest.approx(hours, rel=0.05)
    assert float(two["GPU hours"].replace(",", "")) == pytest.approx(2 * hours, rel=0.05)
    assert one["served instead, USD"] == "79,000"  # 792 tokens a prompt at a dollar a million


def recorded_sets(folder):
    """Three sets: grades that a good and a bad judge know, classes without order, and grades of three raters."""
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 3, 320).tolist()
    names = ("a", "b", "c")
    kinds = []
    panel = []
    other = np.random.default_rng(1)
    texts = []
    for number, grade in enumerate(grades):
        head = {"group": f"g{number // 8}", "id": str(number), "system": f"s{number % 2}"}
        noisy = int(np.clip(grade + rng.integers(-1, 2), 0, 2))
        of_text = {"set": "summhay", "labels": "ordinal", "scale": [0, 2], "human": {"annotator": grade}}
        texts.append(head | of_text | {"judges": {"gpt-4o": noisy, "gpt3.5": int(rng.integers(0, 3)), "same": grade}})
        of_kind = {"set": "kinds", "labels": "nominal", "classes": names, "human": {"r0": names[grade]}}
        kinds.append(head | of_kind | {"judges": {"good": names[grade], "worse": names[noisy]}})
        ratings = {f"r{place}": int(np.clip(grade + other.integers(-1, 2), 0, 2)) for place in range(3)}
        of_panel = {"set": "panel", "labels": "ordinal", "scale": [0, 2], "human": ratings}
        panel.append(head | of_panel | {"judges": {"truth": grade, "deaf": int(other.integers(0, 3))}})
    for name, rows in (("summhay", texts), ("kinds", kinds), ("panel", panel)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")


def test_recorded_judges_of_a_folder_have_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(SCRIPTS)
    recorded_sets(tmp_path)
    page = tmp_path / "page.md"
    script("external").main([str(tmp_path), "--data-sets=2", "--out", str(page)])
    assert capsys.readouterr().out.count("\n") >= 12
    text = page.read_text("utf-8")
    assert [f"{number}. " in text for number in range(1, 11)] == [True] * 10
    found = json.loads(page.with_suffix(".json").read_text("utf-8"))
    assert {row["judge"] for row in found["published"]} == {"gpt-4o", "gpt3.5"}
    # the truth itself decides right, and a judge that guesses is never taken for a good one
    verdicts = {name: [row for row in found["verdicts"] if row["judge"] == name] for name in ("same", "gpt3.5")}
    decided = [row for row in verdicts["same"] if row["use"] == "decide"]
    # of 50 labels some 16 pass, of which all right may be 73 % by the interval
    assert {row["verdict"] for row in decided if row["labels"] > 50} == {"yes"}
    assert {row["verdict"] for row in decided} <= {"yes", "with care"}
    assert not any(row["broken"] for row in verdicts["same"])
    assert not any(row["verdict"] == "yes" for row in verdicts["gpt3.5"])
    # of raters beside a judge: what a yes would promise holds of the truth, and not of a judge that guesses, who is
    # given none
    of_panel = [row for row in found["verdicts"] if (row["set"], row["use"]) == ("panel", "order_texts")]
    assert {(row["judge"], row["holds"]) for row in of_panel} == {("truth", True), ("deaf", False)}
    few = sum(not row["holds"] for row in of_panel)
    assert f"of {few} cells in which a yes would fall short on the other half, 0 are given one (0.0% by sets" in text
    # nominal labels have agreement and kappa alone
    kinds = [row for row in found["coverage"] if row["set"] == "kinds"]
    assert {row["figure"] for row in kinds} == {"agreement", "kappa"}
    # by the best of all judges nothing is lost
    losses = [row["maximum"] for row in found["choices"]]
    assert max(losses) == pytest.approx(0)


def test_published_figures_of_recorded_judges_come_out(monkeypatch):
    if not EXTERNAL.is_dir():
        pytest.skip("the recorded judges are not beside the project")
    monkeypatch.syspath_prepend(SCRIPTS)
    sets = importlib.import_module("recorded.sets")
    rows = list(sets.published(sets.read(EXTERNAL)))
    assert len(rows) == len(sets.PUBLISHED)
    # on half of the groups
    assert np.median([abs(row["published"] - row["ours"]) for row in rows]) < 0.03
