"""Tuned runs and sweeps end to end: what the run folder says, what is refused, what later jobs use again."""

from pathlib import Path

import pytest

from judgebench.results.folder import RunFolder
from judgebench.runs.experiment import Experiment
from tests.conftest import told, write_rows

BASE = (
    *("data=mini", "data.limit_groups=5", "data.dev_share=0.4", "ranges=[[1,5],[0,4]]", "logger=none", "report=false"),
    *("metrics.resamples=20", "run_dir=run", "decoding=[greedy,expectation,contrastive,contrastive_expectation]"),
)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Readings that all runs of this file share."""
    return tmp_path_factory.mktemp("store") / "readings.sqlite"


@pytest.fixture
def run(judgebench, tiny_pair, store):
    """Runs the tiny pair on a few articles: arguments -> (exit code, stdout, stderr)."""
    main, assistant = tiny_pair
    models = ("judge=local", f"judge.path={main}", "assistant=model", f"assistant.path={assistant}")
    return lambda *given, first=(), **how: judgebench(*first, *models, *BASE, f"store={store}", *given, **how)


def names(folder="run"):
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def test_without_a_report_all_else_is_written_and_no_tuning_of_an_earlier_run_stays(run):
    run("tune=published", "tune.main=Qwen/Qwen2.5-14B-Instruct", "tune.assistant=Qwen/Qwen2.5-3B-Instruct")
    assert {(row["lambda"], row["temperature"]) for row in RunFolder.open("run").read("tuning")} == {
        (0.1, 2),
        (0.01, 4),
    }
    code, out, _ = run("tune=none", "print=all", "human_agreement=false")
    assert code == 0
    assert "coherence: " in out
    assert names() == {
        *("config.yaml", "environment.json", "readings.parquet", "scores.parquet", "metrics.json", "comparisons.json"),
        *("about.json", "digests.json", "repairs.json", "examples.parquet", "run.log"),
    }


MISTAKES = {
    "no dev split": (["tune=dev", "data.dev_share=0"], "data.dev_share"),
    "a free answer": (["tune=dev", "judge.mode=generate", "decoding=[greedy,contrastive]"], "judge.mode=score_tokens"),
    "not the paper's models": (["tune=published"], "tune.main="),
    "not the paper's ranges": (
        [
            *("tune=published", "tune.main=Qwen/Qwen2.5-7B-Instruct", "tune.assistant=Qwen/Qwen2.5-3B-Instruct"),
            "ranges=[[1,10]]",
        ],
        "coherence 1-10",
    ),
    "lambda and tuning": (["tune=dev", "decoding.lambda=0.1"], "decoding.lambda=0.1: tune=dev chooses"),
    "report maybe": (["report=maybe"], "report: 'maybe' should "),
    "no such table": (["tables=[x]"], "tables"),
    "no way of tuning": (["+tune._target_=judgebench.decoding.Greedy"], "tune"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_before_anything_is_written(run, mistake):
    arguments, expected = MISTAKES[mistake]
    told(run(*arguments, mistaken=True), expected)


CROSS_FITTED = (
    *("judge=recorded", "judge.path=qwen2.5-coder", "assistant=recorded", "data=conala_sample", "ranges=[[0,4],[1,5]]"),
    *("decoding=[greedy,expectation,contrastive]", "tune=crossfit", "logger=none", "report=false"),
)


def test_a_cross_fitted_run_tests_all_texts_and_says_what_is_taken_and_what_that_promises(judgebench):
    judgebench(*CROSS_FITTED, "run_dir=run")
    folder = RunFolder.open("run")
    scores, choice, metrics = map(folder.read, ("scores", "choice", "metrics"))
    assert set(scores["split"]) == {"test"}
    assert {record["n"] for record in metrics if record["level"] == "dataset"} == {288}
    assert "tuning.json" not in names()
    # a record a setting, the simplest first, of which the plain one is taken: none is clearly better
    settings = [(record["judge"], record["decoding"], record["range_min"]) for record in choice]
    assert settings == [
        *(("main", "expectation", 0), ("main", "expectation", 1), ("main", "greedy", 0), ("main", "greedy", 1)),
        *(("pair", "contrastive", 0), ("pair", "contrastive", 1)),
    ]
    assert [record["taken"] for record in choice] == [True, *[False] * 5]
    assert sum(record["share"] for record in choice) == pytest.approx(1)
    for record in choice:
        where = ("judge", "decoding", "range_min", "split")
        (metric,) = (
            row for row in metrics if row["level"] == "dataset" and all(row[name] == record[name] for name in where)
        )
        # the agreement that is reported is that of held-out scores, by which the setting is chosen
        assert record["worth"] == pytest.approx(metric["spearman"], abs=1e-12)
        assert record["gain"] == pytest.approx(record["worth"] - choice[0]["worth"], abs=1e-12)
        assert (record["kappas"] is not None) == (record["decoding"] == "contrastive")
        assert record["promised_spearman"] == (
            pytest.approx(metric["spearman"], abs=1e-12) if record["taken"] and record["share"] == 1 else None
        )


def test_cross_fitting_one_article_is_refused(judgebench):
    refused = judgebench(*CROSS_FITTED, "data.limit_groups=1", "run_dir=run", mistaken=True)
    told(refused, "a choice needs two at least")


def test_answers_in_words_have_nothing_to_learn_and_are_chosen_among(run):
    free = ("judge.mode=generate", "judge.max_new_tokens=3", "decoding=[greedy,contrastive]")
    run("tune=crossfit", *free, "data.dev_share=0")
    records = RunFolder.open("run").read("choice")
    assert {(record["decoding"], record["kappas"]) for record in records} == {("greedy", None), ("contrastive", None)}
    assert {record["dimension"] for record in records if record["taken"]} == {record["dimension"] for record in records}


# What later jobs use again


@pytest.fixture
def parsed(monkeypatch):
    """Counts how often data and prompts are made."""
    made = []
    whole = Experiment.parse.__func__
    monkeypatch.setattr(Experiment, "parse", classmethod(lambda cls, *given: made.append(1) or whole(cls, *given)))
    return made


def content(folder):
    return map(RunFolder.open(folder).read, ("readings", "scores", "metrics", "comparisons", "tuning"))


def test_the_jobs_of_a_sweep_are_what_single_runs_are(run, parsed):
    run("decoding.lambda=0.1,0.5", "run_dir=sweep", first=["-m"])
    assert len(parsed) == 1
    for number, lambda_ in enumerate((0.1, 0.5)):
        run(f"decoding.lambda={lambda_}", "run_dir=single")
        for one, other in zip(content(f"sweep/{number}"), content("single"), strict=True):
            assert one.equals(other) if hasattr(one, "equals") else one == other
        environment = RunFolder.open(f"sweep/{number}").read("environment")
        assert set(environment["model_fingerprints"]) == {"main", "assistant"}
        assert environment["tokens"] == RunFolder.open("single").read("environment")["tokens"]


def test_runs_by_themselves_share_nothing_so_a_changed_file_counts(judgebench, tiny_pair, parsed):
    rows = [
        {"source": "Rain.", "output": f"Rain {i}.", "human": {"coherence": 1 + i % 5}, "group_id": f"g{i % 3}"}
        for i in range(6)
    ]
    command = (
        *("judge=local", f"judge.path={tiny_pair[0]}", "data=jsonl", "data.path=own.jsonl"),
        *("data.fields.group_id=group_id", "logger=none", "report=false", "metrics.resamples=0", "run_dir=run"),
    )
    for count in (6, 4):
        write_rows("own.jsonl", rows[:count])
        judgebench(*command)
        assert len(RunFolder.open("run").read("readings")) == count
    assert len(parsed) == 2
