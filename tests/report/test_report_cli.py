"""`python -m judgebench report`: a report from the files of a run alone, and several runs on one page."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from judgebench.command.report import main
from judgebench.report.comparison import RUNS, Compared, named_runs, render_comparison
from judgebench.report.views.correlations import advised_rows, cell_scores
from judgebench.results.results import Results
from judgebench.types import ScoreRange
from judgebench.words.formats import UNKNOWN, signed_two
from tests.report.browsed import HOSTILE, write_run
from tests.report.test_page import scripts_of

RANGES = (ScoreRange(1, 5),)


@pytest.fixture(scope="module")
def small(builder):
    return builder(articles=6, systems=4, ranges=RANGES)


@pytest.fixture
def folder(small, tmp_path):
    return write_run(small, tmp_path / "run").path


def cut(name, length=100):
    def spoil(folder):
        path = folder / name
        path.write_bytes(path.read_bytes()[:length])

    return spoil


def gone(name):
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (gone("config.yaml"), "has no config.yaml, so this run did not finish"),
        (gone("about.json"), "about.json: missing, so this run did not finish"),
        (gone("scores.parquet"), "scores.parquet: missing, so this run did not finish"),
        (cut("scores.parquet"), "scores.parquet: cannot be read"),
        (cut("readings.parquet"), "readings.parquet: cannot be read"),
        (cut("examples.parquet"), "examples.parquet: cannot be read"),
        (cut("metrics.json"), "metrics.json: cannot be read"),
        (cut("environment.json", 10), "environment.json: cannot be read"),
        (shutil.rmtree, "this folder does not exist"),
    ],
)
def test_what_is_wrong_with_a_folder_is_a_sentence(folder, capsys, spoil, said):
    spoil(folder)
    assert main([str(folder)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("judgebench: ")
    assert said in err
    assert not (folder / "report.html").exists()


def test_a_page_that_cannot_be_written_is_a_sentence(folder, capsys):
    assert main([str(folder), f"out={folder / 'config.yaml' / 'page.html'}"]) == 2
    assert "page.html: cannot be written" in capsys.readouterr().err


def test_a_run_is_not_compared_with_itself(folder, capsys):
    assert main([str(folder), f"{folder}/../run"]) == 2
    assert "named twice" in capsys.readouterr().err


@pytest.fixture(scope="module")
def two(small, builder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    worse = builder(articles=6, systems=4, ranges=RANGES)
    scores = worse.scores.copy()
    noise = np.random.default_rng(3).permutation(len(scores))
    scores["score"] = scores["score"].to_numpy()[noise]
    first = write_run(small, folder / "first", judge={"path": "one", "dtype": "auto"}, run_dir="first")
    second = write_run(
        type(small)(worse.readings, scores, worse.records, worse.scale, worse.titles),
        folder / "second",
        judge={"path": "two", "dtype": "auto"},
        run_dir="second",
    )
    return [Results.load(one.path) for one in (first, second)]


def less(*runs, resamples=50):
    """The rows of a comparison below its first."""
    ((_, *others),) = Compared(named_runs(runs), resamples).judged
    return others


def test_differences_are_those_of_the_settings_taken_on_the_same_texts(two):
    (row,) = less(*two)
    record = row["less"]
    assert (record["first_judge"], record["second_judge"]) == ("judge.path one", "judge.path two")
    assert record["split"] == "test"
    for side, run in zip(("first", "second"), two, strict=True):
        (lead,) = advised_rows(run)
        own = cell_scores(run, lead)
        expected = own["score"].rank().corr(own["human"].rank())
        assert record[side] == pytest.approx(expected)
    assert record["difference"] == pytest.approx(record["first"] - record["second"])
    (table,) = RUNS.tables(Compared(named_runs(two), 50))
    place = table.heads.index("the first less it")
    first, second, *_ = (row[place] for row in table.sections[0].rows)
    assert first.text == UNKNOWN
    assert second.text == signed_two(record["difference"])
    assert second.marked == (record["says"] in ("better", "worse"))


def test_a_further_run_changes_no_verdict(two, builder, tmp_path):
    run = builder(articles=6, systems=4, ranges=RANGES, seed=1)
    third = Results.load(write_run(run, tmp_path / "third", judge={"path": "three"}).path)
    (before,) = less(*two)
    records = [row["less"] for row in less(*two, third)]
    assert len(records) == 2
    assert before["less"] in records
    assert {record["comparisons"] for record in records} == {1}


def test_a_run_against_its_own_copy_differs_by_nothing(two):
    (row,) = less(two[0], two[0])
    assert row["less"]["difference"] == row["less"]["low"] == row["less"]["high"] == 0
    assert "is not clearly better than" in render_comparison([two[0], two[0]], resamples=50)


def test_runs_that_share_nothing_are_told_so(two, builder, tmp_path):
    other = Results.load(write_run(builder(articles=3, ranges=[ScoreRange(0, 4)]), tmp_path / "other").path)
    strangers = replace(other, scores=other.scores.assign(example_id="strange " + other.scores["example_id"]))
    assert [row["less"] for row in less(two[0], strangers)] == [{}]
    assert "have judged no examples in common." in render_comparison([two[0], strangers], resamples=50)


@pytest.mark.parametrize(
    ("configs", "names"),
    [
        ([{"prompt": {"rubrics": "a"}}, {"prompt": {"rubrics": "b"}}], ["prompt.rubrics a", "prompt.rubrics b"]),
        ([{"ranges": [[0, 4]]}, {"ranges": [[1, 5]]}], ["ranges [[0, 4]]", "ranges [[1, 5]]"]),
        # the key that tells them apart alone, and of two those that say most first
        ([{"judge": 1, "seed": n} for n in range(2)], ["seed 0", "seed 1"]),
        (
            [{"ranges": a, "judge": b} for a, b in ((0, 0), (0, 1), (1, 0))],
            ["judge 0, ranges 0", "judge 1, ranges 0", "judge 0, ranges 1"],
        ),
        ([{"decoding": {"a": {}}}, {"decoding": {"a": {}, "b": {}}}], ["decoding a", "decoding a, b"]),
        # where results go is no difference
        ([{"run_dir": "a"}, {"run_dir": "b"}], ["first", "second"]),
    ],
)
def test_runs_of_one_judge_are_told_apart_by_what_differs(two, configs, names):
    paths = map(Path, ("first", "second", "third"))
    runs = [replace(two[0], config=config, path=path) for config, path in zip(configs, paths, strict=False)]
    assert list(named_runs(runs)) == names


def test_nothing_of_a_run_becomes_markup_in_a_comparison(two, small, tmp_path):
    evil = write_run(
        type(small)(small.readings, small.scores, small.records, small.scale, small.titles | {"main": HOSTILE}),
        tmp_path / "evil",
        **{HOSTILE: HOSTILE},
    )
    text = render_comparison([two[0], Results.load(evil.path)], resamples=20)
    assert scripts_of(text)[-5:] == scripts_of(render_comparison(two, resamples=20))[-5:]
    assert "<script>alert" not in text
