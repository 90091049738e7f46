"""The embedded data set `mini`: it is what its script builds of hand-written articles, with the card's scores."""

from __future__ import annotations

import doctest
import importlib.util
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from judgebench.data.benchmarks import Mini

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "judgebench" / "data" / "mini"
SCRIPT = ROOT / "scripts" / "build_mini.py"


def _load_script():
    spec = importlib.util.spec_from_file_location("build_mini_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


build_mini = _load_script()
ARTICLES = build_mini.load_articles()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (MINI / "mini.jsonl").read_text("utf-8").splitlines()]


def test_the_embedded_data_passes_every_check_and_splits():
    data = Mini(limit_groups=2, dev_share=0.5, seed=3)
    data.setup()
    assert data.name == "mini"
    assert data.dimensions == ("coherence", "consistency", "fluency", "relevance", "joint")
    assert data.scale == dict.fromkeys(data.dimensions, (1.0, 5.0))
    assert sorted(data.split.values()) == ["dev", "test"]
    assert {example.group_id for example in data.examples} == set(data.split)


def test_the_file_is_a_fresh_build_whatever_the_process(tmp_path):
    """A fresh interpreter with another hash seed and no third-party packages builds the same bytes."""
    out = tmp_path / "mini.jsonl"
    command = [sys.executable, "-I", "-S", str(SCRIPT), "--out", str(out)]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    assert out.read_bytes() == (MINI / "mini.jsonl").read_bytes()


def test_check_accepts_what_was_built_and_refuses_anything_else(tmp_path, capsys):
    out = tmp_path / "mini.jsonl"
    assert build_mini.main(["--check", "--out", str(out)]) == 1
    assert "missing" in capsys.readouterr().err
    assert build_mini.main(["--out", str(out)]) == 0
    assert build_mini.main(["--check", "--out", str(out)]) == 0
    out.write_bytes(out.read_bytes().replace(b"Tallowford", b"Tallowfort", 1))
    before = out.read_bytes()
    assert build_mini.main(["--check", "--out", str(out)]) == 1
    assert "is not what" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_doctests_of_the_script():
    result = doctest.testmod(build_mini)
    assert result.attempted >= 2
    assert result.failed == 0


def test_each_construction_hurts_what_it_should():
    assert len({row["output"] for row in ROWS}) == len(ROWS) == 72
    human = {(row["group_id"], row["system_id"]): row["human"] for row in ROWS}
    worst = {"shuffled": "coherence", "swapped": "consistency", "garbled": "fluency", "lead": "relevance"}
    for article in ARTICLES:
        assert set(human[article.id, "faithful"].values()) == {5.0}
        for system, dimension in worst.items():
            assert human[article.id, system][dimension] <= 3.0
    assert all(1 <= score <= 5 and (2 * score).is_integer() for scores in human.values() for score in scores.values())


def test_garbled_gets_worse_with_its_level():
    text = " ".join(f"w{i}" for i in range(60))
    damage = []
    for level in ("light", "medium", "heavy"):
        out = build_mini.garble(text, build_mini.GARBLE_LEVELS[level], build_mini.rng_for("test", level)).split()
        intact = sum(a[0] == b[0] == "w" and int(b[1:]) - int(a[1:]) == 1 for a, b in pairwise(out))
        damage.append((1 - intact / (len(out) - 1), len(set(out))))
    assert damage[0][0] < damage[1][0] < damage[2][0]
    assert damage[0][1] > damage[1][1] > damage[2][1]


@pytest.mark.parametrize(
    ("faithful", "swaps", "problem"),
    [
        (("Ann beat Bo.", "He left."), (("Ann", "Bo"), ("Cleo", "Dan")), "changes nothing"),
        (("Ann beat Bo.", "He left."), (("Ann", "Bo"), ("Bo", "Cleo")), "more than one swap"),
        (("Ann won.", "He left.", "It rained."), (("Ann", "Bo"),), "less than half"),
    ],
)
def test_swaps_that_do_not_do_their_work_are_refused(faithful, swaps, problem):
    article = build_mini.Article(id="x", title="t", sentences=("A b.",), faithful=faithful, swaps=swaps)
    with pytest.raises(ValueError, match=problem):
        build_mini.make_swapped(article)


@pytest.mark.parametrize(
    ("sentence", "pairs", "expected"),
    [
        ("Ann beat Bo.", [("Ann", "Bo")], "Bo beat Ann."),
        ("The other theme.", [("the", "a")], "The other theme."),
        ("It took 8 of 18,008 at 8:00.", [("8", "9")], "It took 9 of 18,008 at 8:00."),
        ("Ann Lee met Ann.", [("Ann", "Bo"), ("Ann Lee", "Cy Poe")], "Cy Poe met Bo."),
        ("Three fell.", [("Three", "four")], "Four fell."),
    ],
)
def test_swap(sentence, pairs, expected):
    assert build_mini.swap(sentence, pairs) == expected


def test_the_data_card_shows_the_score_table_and_says_that_no_human_rated_the_texts():
    card = (MINI / "DATA_CARD.md").read_text("utf-8")
    assert build_mini.score_table(ARTICLES) in card
    assert "**No human rated these texts.**" in card
    assert "Apache-2.0" in card
