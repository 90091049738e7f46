"""Scripts say what they do, and run on their smallest input."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import arithmetic

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.py"))
SMALLEST = {
    "statistics": ("--examples=160", "--resamples=100", "--times=1"),
    "engine": ("--articles=1", "--summaries=2"),
    "attack": ("--articles=1", "--words=6", "--length=1", "--phrases=1"),
    "report": ("--examples=64", "--no-browser"),
    "scale": ("--steps=1",),
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
        assert max(row["largest difference"] for row in figures["readers"]) < 1e-3
    if command == "attack":
        assert figures["speed"]["difference"] < 1e-4
        assert figures["searches"][0]["of the gain"] == 1


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["labels", "--data-sets=1", "--cases=1"], 4),
        (["agreement", "--data-sets=1", "--resamples=10"], 50),
        (["choice", "--data-sets=1"], 15),
        (["choice", "--data-sets=1", "--recorded"], 14),
        (["verdict", "--data-sets=1"], 38),
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
    shared = {"judge": 7e9, "assistant": 0.0, "gpus": 1, "cores": 1, "price": 1.0}
    one, two = (arithmetic.Job(count, texts=1, **shared).row() for count in (1e8, 2e8))
    hours = 2 * 551 * 7e9 * 1e8 / (989e12 * 0.4) / 3600
    assert float(one["GPU hours"]) == pytest.approx(hours, rel=0.05)
    assert float(two["GPU hours"].replace(",", "")) == pytest.approx(2 * hours, rel=0.05)
    assert one["served instead, USD"] == "79,000"  # 792 tokens a prompt at a dollar a million
