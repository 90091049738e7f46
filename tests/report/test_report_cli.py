"""`python -m judgebench.report`: a report from the files of a run alone, and several runs on one page."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from judgebench.report.__main__ import main
from judgebench.report.comparison import SECTIONS, Compared, lettered, paired_differences, render_comparison
from judgebench.report.views.correlations import comparison_rows, comparison_sentences
from judgebench.results.results import Results
from judgebench.types import ScoreRange
from tests.report.browsed import HOSTILE, with_attack, write_run
from tests.report.conftest import texts_of
from tests.report.test_page import scripts_of

RANGES = (ScoreRange(1, 5),)


@pytest.fixture(scope="module")
def small(builder):
    return builder(articles=6, systems=4, ranges=RANGES)


@pytest.fixture
def folder(small, tmp_path):
    return write_run(small, tmp_path / "run").path


def test_a_report_is_made_anew_with_its_figures(folder, capsys):
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    first = (folder / "report.html").read_text("utf-8")
    for name in ("spearman_by_range", "scores_coherence", "logprobs_coherence"):
        assert (folder / "figures" / f"{name}.png").is_file()
        assert (folder / "figures" / f"{name}.svg").is_file()
        assert f'id="figure-{name}"' in first
    assert main([str(folder), "--out", str(folder / "again.html")]) == 0
    assert (folder / "again.html").read_text("utf-8") == first


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
        (gone("about.json"), "an earlier version of judgebench made this run"),
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
    assert main([str(folder), "--out", str(folder / "config.yaml" / "page.html")]) == 2
    assert "--out: " in capsys.readouterr().err


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


def section(name, runs):
    """The blocks of a section of the comparison of two runs."""
    (part,) = (one for one in SECTIONS if one.name == f"compared_{name}")
    return part.parts[0](Compared(lettered(runs)))


def test_paired_differences_are_those_of_the_correlations_on_the_same_texts(two):
    records = paired_differences(lettered(two), resamples=50)
    assert {r["first_judge"] for r in records} == {"B main", "B pair"}
    assert {r["split"] for r in records} == {"test"}
    found = next(r for r in records if r["statistic"] == "spearman" and r["first_decoding"] == "contrastive")
    for side, run in (("first", two[1]), ("second", two[0])):
        own = run.scores[(run.scores["judge"] == "pair") & (run.scores["split"] == "test")]
        expected = own["score"].rank().corr(own["human"].rank())
        assert found[side] == pytest.approx(expected)
    assert found["difference"] == pytest.approx(found["first"] - found["second"])


def test_holms_correction_is_over_all_that_the_page_shows(two):
    records = [one for one in paired_differences(lettered(two), resamples=50) if one["statistic"] == "spearman"]
    assert len(records) == 3
    assert [one["comparisons"] for one in records] == [3] * 3
    three = lettered([*two, two[0]])
    records = [one for one in paired_differences(three, resamples=50) if one["statistic"] == "spearman"]
    assert [one["comparisons"] for one in records] == [9] * 9
    assert "over all the 9 comparisons of this page" in render_comparison([*two, two[0]], resamples=50)


def test_a_run_against_its_own_copy_differs_by_nothing(two):
    records = paired_differences(lettered([two[0], two[0]]), resamples=50)
    assert records
    assert all(r["difference"] == r["low"] == r["high"] == 0 for r in records)
    told = comparison_sentences(comparison_rows(records, "articles"))
    assert len(told) == 3
    assert all("is significant; the largest of " in one or "is not significant" in one for one in told)


def test_runs_that_share_nothing_are_told_so(two, builder, tmp_path):
    other = Results.load(write_run(builder(articles=3, ranges=[ScoreRange(0, 4)]), tmp_path / "other").path)
    assert paired_differences(lettered([two[0], other]), resamples=50) == []
    page = render_comparison([two[0], other], resamples=50)
    assert "No two of these runs have judged the same examples under the same condition." in page
    assert "Is one better?</h2>" not in page


def test_metrics_stand_side_by_side_and_where_one_has_none_is_a_gap(two, builder, tmp_path):
    (table,) = section("metrics", two)
    (part,) = table.sections
    assert [row[0].text for row in part.rows] == ["coherence, 1-5", *[""] * 4]
    assert [row[1].text for row in part.rows] == [
        *("main, greedy", "main, expectation", "assistant, greedy", "assistant, expectation", "pair, contrastive"),
    ]
    for row in part.rows:
        judge, decoding = row[1].text.split(", ")
        for column, run in ((2, two[0]), (4, two[1])):
            (record,) = [
                one for one in run.metrics if (one["split"], one["judge"], one["decoding"]) == ("test", judge, decoding)
            ]
            assert row[column].text == f"{record['spearman']:.3f}"
            assert row[column + 1].text == f"{record['mean_score']:.2f}"
    attacked = Results.load(write_run(with_attack(builder(articles=3, ranges=RANGES)), tmp_path / "attacked").path)
    (table,) = section("metrics", [two[0], attacked])
    gaps = [part.rows[0][0].text for part in table.sections if {row[2].text for row in part.rows} == {"-"}]
    assert gaps == ["coherence, 1-5, attack dsi"]


def test_configurations_are_told_by_their_differing_keys(two):
    (table,) = section("configs", two)
    assert texts_of(table) == [["judge.path", "one", "two"]]
    (told,) = section("configs", [two[0], two[0]])
    assert told.text == "The configurations say the same."


def test_the_comparison_is_written_with_the_examples_of_both(two, tmp_path, capsys):
    out = tmp_path / "both.html"
    assert main([*(str(run.folder) for run in two), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    text = out.read_text("utf-8")
    assert "2 runs compared" in text
    link = re.search(r'<a href="([^"#]+/first/report.html)">first</a>', text)[1]
    assert (out.parent / link).resolve() == (two[0].folder / "report.html").resolve()
    for part in ("Side by side", "Is one better?", "What was different", "judge.path", 'id="data-index"'):
        assert part in text


def test_nothing_of_a_run_becomes_markup_in_a_comparison(two, small, tmp_path):
    evil = write_run(
        type(small)(small.readings, small.scores, small.records, small.scale, small.titles | {"main": HOSTILE}),
        tmp_path / "evil",
        **{HOSTILE: HOSTILE},
    )
    text = render_comparison([two[0], Results.load(evil.path)], resamples=20)
    assert scripts_of(text)[-5:] == scripts_of(render_comparison(two, resamples=20))[-5:]
    assert "<script>alert" not in text
