"""Which repair helps, and which setting to take: `+exp=repairs` on the recorded judge, alone and over tasks."""

import json
from pathlib import Path

import pytest

from judgebench.report.views.advice import recommendations
from judgebench.report.views.answer import MOST
from judgebench.report.views.league import league_rows
from judgebench.results.results import Results, range_of
from tests.report.conftest import in_terminal, words_of

QUICK = ("metrics.resamples=60", "metrics.levels=[dataset]", "tune.repeats=1", "run_dir=run")


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    """The run, with what it printed."""
    import contextlib
    import io

    import judgebench

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.chdir(tmp_path_factory.mktemp("repairs"))
        run = judgebench.run(["+exp=repairs", *QUICK])
        yield Results.load(Path(run.path).absolute()), printed.getvalue()


def test_the_answer_names_what_is_taken_and_so_does_the_first_line_of_all_tables(league):
    run, answer = league
    assert len(answer.splitlines()) <= MOST
    (taken,) = (record for record in run.choice if record["taken"])
    setting = f"{taken['judge']}, {taken['decoding']} in range {range_of(taken)}"
    assert f"take {setting.removeprefix('main, ')}; Spearman {taken['promised_spearman']:.2f} [" in words_of(answer)
    # the gains are those of the league, the largest first
    gains = sorted((row["difference"], row["decoding"]) for row in league_rows(run) if row.get("difference"))
    assert f"repairs {gains[-1][1]} instead of expectation {gains[-1][0]:+.2f} [" in words_of(answer)
    tables = words_of(in_terminal(run))
    assert tables.startswith(f"{taken['dimension']}: take {setting}. It promises Spearman ")
    assert recommendations(run)[0] in tables
    page = (run.folder / "report.html").read_text("utf-8")
    assert f"Take {setting.removeprefix('main, ')}: Spearman {taken['promised_spearman']:.2f}" in page


def test_a_row_is_what_the_files_say_of_its_setting(league):
    run, _ = league
    ranges, means = league_rows(run, by_range=True), {row["who"]: row for row in league_rows(run)}
    assert len(ranges) == len(run.choice)
    assert sum(row["share"] for row in means.values()) == pytest.approx(1)
    metrics = {
        (record["judge"], record["decoding"], record["range_min"]): record["spearman"]
        for record in run.metrics
        if record["level"] == "dataset"
    }
    for row in ranges:
        assert row["spearman"] == metrics[row["judge"], row["decoding"], row["range_min"]]
    plain = means["main, expectation"]
    assert plain["spearman"] == pytest.approx(sum(metrics["main", "expectation", low] for low in range(4)) / 4)
    for row in means.values():
        if row is not plain:  # also one over all ranges is compared with the mean of the plain one's
            assert row["difference"] == pytest.approx(row["spearman"] - plain["spearman"], abs=1e-12)
    assert {row["readings"] for row in means.values()} == {1, 2, 4, 8}
    assert means["pair, contrastive"]["readings"] == 2
    assert [means[who]["significant"] for who in ("main, greedy", "main, median")] == [True, False]
    # on the page, calibrated, and by range
    shares = {(one["decoding"], one["calibrated"]): one["range_both"] for one in run.variance if one["judge"] == "main"}
    assert means["main, greedy"]["raw"] == 100 * shares["greedy", False]
    assert means["main, greedy"]["calibrated"] == 100 * shares["greedy", True]


def test_every_p_is_corrected_over_the_whole_table(league):
    run, _ = league
    records = [record for record in run.comparisons if record["statistic"] == "spearman"]
    assert {(record["second_judge"], record["second_decoding"]) for record in records} == {("main", "expectation")}
    assert {record["comparisons"] for record in records} == {len(records)}


def test_tasks_end_in_one_league(judgebench):
    given = ("assistant=recorded", "print=all", "decoding=[expectation,greedy]", "report=false", "worth=false")
    code, out, err = judgebench("+exp=[tasks,repairs]", *given, *QUICK)
    assert code == 0, err
    assert "task Spearman conala_sample 0.69 [0.59, 0.76]" in words_of(out)  # without a verdict
    assert "conala_sample, quality: take main, expectation in range 0-4." in words_of(out)
    assert "Which repair helps?" in Path("run/tasks.html").read_text("utf-8")
    silent = judgebench("+exp=[tasks,repairs]", *given, *QUICK, "print=none")[1]
    assert silent.partition("Task 1 of 1: conala_sample")[2].split() == ["run/0", "run/tasks.html", "run"]
    (choice,) = (json.loads(path.read_text()) for path in Path("run").rglob("choice.json"))
    assert {record["readings"] for record in choice} == {1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["compare_with=median", "decoding=[expectation]"], "compare_with: 'median' is no decoding here that scores"),
        (["compare_with=contrastive"], "there are expectation, greedy, median"),
        (["compare_with=range_mean"], "compare_with: 'range_mean'"),
        (["compare_with=3"], "compare_with: 3 should be"),
        (["judge=replay", "judge.path=x.jsonl", "decoding=[greedy]"], "there are greedy; take compare_with=greedy."),
        (["decoding=[ridge_ranges]"], "it comes with decoding=[repairs], and alone as '+decoding.ridge_ranges={"),
        (["decoding=[{_target_: mine.X}]"], "decoding takes names of its choices; a class of your own stands next"),
    ],
)
def test_a_plain_decoding_that_is_none_is_refused(judgebench, given, said):
    code, _, err = judgebench("+exp=repairs", *given, *QUICK, mistaken=True)
    assert code == 2
    assert said in " ".join(err.split())
    assert not Path("run").exists()
