"""One judge over several tasks: which are there, and one table, page and files of all."""

import csv
import json
from pathlib import Path

import pytest

from judgebench.config.keys import TASKS, absences, tasks_in, there
from judgebench.report.__main__ import main as report
from judgebench.results.folder import RunFolder
from tests.test_cli import pair

QUICK = ("logger=none", "metrics.resamples=20", "data.dev_share=0", "run_dir=run")
TWO = {"short": ("adequacy 1-5", [1, 3, 5]), "long": ("adequacy 0-100", [10, 50, 90])}


def rows(ratings):
    """Three texts of each of six groups; `ratings` says what each is given by its place."""
    for group in range(6):
        for place in range(3):
            texts = {"source": f"Source number {group}.", "output": f"Output number {place} for it, of group {group}."}
            yield {"group": f"g{group}", "system": f"s{place}", **texts, "ratings": ratings(group, place)}


@pytest.fixture
def folder(tmp_path):
    """Files of two tasks, one of them below."""
    place = tmp_path / "tasks"
    (place / "below").mkdir(parents=True)

    def lens(group, place):
        given = {name: dict.fromkeys("abc", values[place]) for name, values in TWO.values()}
        others = ("fluency 1-5", "simplicity 1-5", "fluency 0-100", "simplicity 0-100")
        return given | {name: {"a": 1, "b": 1} for name in others}

    code = rows(lambda group, place: {"quality": {"ann": place, "bob": min(4, place + group % 2)}})
    for name, found in (("code_conala.jsonl", code), ("below/simplification_lens.jsonl", rows(lens))):
        (place / name).write_text("\n".join(map(json.dumps, found)), "utf-8")
    (place / "other.json").write_text("[]")
    return place


def test_tasks_are_found_by_the_files_that_their_configurations_declare(folder):
    assert there(str(folder)) == ["conala", "lens"]
    assert tasks_in(str(folder)) == "conala,lens"
    assert tasks_in(None) == tasks_in(str(folder / "nowhere")) == "conala_sample"


def test_a_sentence_says_where_each_absent_task_is_public(folder):
    told = absences(str(folder))
    assert [sentence.partition(":")[0] for sentence in told] == [one for one in TASKS if one not in ("conala", "lens")]
    (grade,) = (sentence for sentence in told if sentence.startswith("grade"))
    assert grade.startswith(f"grade: left out, for {folder} does not hold it; it is evaluation/human_score/")
    assert "https://github.com/li3cmz/GRADE" in grade
    first, *_ = absences(None)
    assert first.startswith(
        "conala: the embedded conala_sample stands in, for no folder is given, as tasks=DIR; it is "
    )


def test_a_folder_that_is_not_there_is_a_sentence(judgebench):
    code, _, err = judgebench("+exp=tasks", "tasks=nowhere", *QUICK, mistaken=True)
    assert code == 2
    said = "tasks: there is no folder nowhere; give the one with the files of the tasks, as tasks=DIR."
    assert err == f"judgebench: {said}\n"
    assert not Path("run").exists()


def test_one_command_judges_all_tasks_and_ends_in_one_table(judgebench, tiny_pair, folder):
    code, out, err = judgebench("+exp=tasks", f"tasks={folder}", *pair(tiny_pair), *QUICK, "report=false")
    assert code == 0, err
    assert "Task 1 of 2: conala" in out
    assert "Task 2 of 2: lens" in out
    assert out.splitlines()[-2:] == ["run/tasks.html", "run"]
    records = json.loads(Path("run/tasks.json").read_text("utf-8"))
    cells = [(one["task"], one["dimension"], one["range"]) for one in records if one["decoding"] == "greedy"]
    short, long = "adequacy", "adequacy_100"
    assert cells == [
        *(("conala", "quality", name) for name in ("0-4", "1-5", "2-6", "3-7")),
        *(("lens", dimension, name) for dimension in (short, long) for name in ("0-100 by 10", "1-5")),
    ]
    # every number is what the task's own folder says
    for number, task in enumerate(("conala", "lens")):
        run = RunFolder.open(f"run/{number}")
        shown = [one for one in run.read("metrics") if one["level"] == "dataset" and one["judge"] != "assistant"]
        own = [one for one in records if one["task"] == task]
        assert sorted(one["spearman"] for one in own) == sorted(one["spearman"] for one in shown)
        humans = {one["dimension"]: one for one in run.read("humans")}
        assert all(one["ceiling"] == humans[one["dimension"]]["ceiling"] for one in own)
        assert all(one["raters"] == humans[one["dimension"]]["raters"] for one in own)
        seconds = {(one["dimension"], one["range"]): one["seconds"] for one in own}
        assert sum(seconds.values()) == pytest.approx(run.read("readings")["seconds"].sum())
    with Path("run/tasks.csv").open(encoding="utf-8", newline="") as file:
        assert [row["favorite"] for row in csv.DictReader(file)] == [one["favorite"] for one in records]
    page = Path("run/tasks.html").read_text("utf-8")
    assert "conala, quality" in page
    assert "no difference between tasks is tested" in page
    assert "Is one better?" not in page


def test_a_page_of_runs_on_different_data_tests_and_draws_nothing_across_them(judgebench, tiny_pair, folder):
    judgebench("+exp=tasks", f"tasks={folder}", *pair(tiny_pair), *QUICK, "ranges=[[1,5]]", "report=false")
    assert report(["run/0", "run/1", "--out", "both.html"]) == 0
    page = Path("both.html").read_text("utf-8")
    assert "no difference between tasks is tested" in page
    assert "Holm" not in page
    assert "data:image/svg" not in page
