"""One judge over several tasks: which are there, and one table, page and files of all."""

import json
from pathlib import Path

import pytest

from judgebench.command.report import main as report
from judgebench.config.keys import TASKS, absences, tasks_in, there
from tests.conftest import pair

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


def test_a_page_of_runs_on_different_data_tests_and_draws_nothing_across_them(judgebench, tiny_pair, folder):
    judgebench("+exp=tasks", f"tasks={folder}", *pair(tiny_pair), *QUICK, "ranges=[[1,5]]", "report=false")
    assert report(["run/0", "run/1", "out=both.html"]) == 0
    page = Path("both.html").read_text("utf-8")
    assert "no difference between tasks is tested" in page
    assert "Holm" not in page
    assert "data:image/svg" not in page
