"""`python -m judgebench record`, and runs of what it has written: the numbers of the run that asked the models."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from judgebench.__main__ import main as judge
from judgebench.cards import Judge, JudgeCard
from judgebench.command.calibrate import main as calibrate
from judgebench.command.record import main as record
from judgebench.command.record import public
from judgebench.data.benchmarks import Mini
from judgebench.readings import reading
from judgebench.results.folder import RunFolder
from tests.conftest import left_of, run_in, told
from tests.served import answer

QUICK = ("data.limit_groups=8", "data.dev_share=0.4", "logger=none", "report=false", "metrics.resamples=20")
QUICK += ("metrics.levels=[dataset]", "human_agreement=false")
RANGES = "ranges=[[1,5],[0,1,0.5],[E,D,C,B,A],[4,0]]"
ALL = "decoding=[greedy,expectation,contrastive,contrastive_expectation]"
RECORDED = ("judge=recorded", "judge.path=readings.parquet", *QUICK)
WHOLE = (ALL, RANGES, "tune=dev", "attacks=[none,dsi]")


@pytest.fixture(scope="module")
def one_recording(tmp_path_factory, tiny_pair) -> Path:
    """A folder with a run of the tiny pair and its recording, made once, where a key was at hand."""
    folder = tmp_path_factory.mktemp("recorded")
    pair = ("judge=local", f"judge.path={tiny_pair[0]}", "assistant=model", f"assistant.path={tiny_pair[1]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
        run_in(folder, judge, *pair, *QUICK, *WHOLE, "name=sk-planted-0123456789", "run_dir=live")
        for words in (["live", "out=readings.parquet"], ["out=again.parquet", "live"]):
            assert record(words) == 0
    return folder


@pytest.fixture
def live(judgebench, one_recording) -> RunFolder:
    """The run; readings.parquet is in the test's folder."""
    Path("readings.parquet").write_bytes((one_recording / "readings.parquet").read_bytes())
    return RunFolder.open(str(one_recording / "live"))


@pytest.fixture
def recorded(judgebench, tiny_pair, capfd):
    """Arguments of a run with the tiny pair -> the run's folder and what `record` has printed; the file is
    readings.parquet."""

    def call(*arguments: str, assistant: tuple[str, ...] | None = None) -> tuple[RunFolder, str]:
        other = assistant or ("assistant=model", f"assistant.path={tiny_pair[1]}")
        judgebench("judge=local", f"judge.path={tiny_pair[0]}", *other, *QUICK, "run_dir=live", *arguments)
        capfd.readouterr()
        assert record(["live", "out=readings.parquet"]) == 0
        return RunFolder.open("live"), capfd.readouterr().out

    return call


def same(one: RunFolder, other: RunFolder, *names: str) -> None:
    for name in ("scores", *names):
        first, second = one.read(name), other.read(name)
        equal = first.equals(second) if isinstance(first, pd.DataFrame) else json.dumps(first) == json.dumps(second)
        assert equal, name


def mistaken(capfd, *arguments: str) -> str:
    """The sentence of a refused command."""
    assert record(list(arguments)) == 2
    out, err = capfd.readouterr()
    assert not out
    assert err.startswith("judgebench: ")
    assert len(err.splitlines()) == 1
    return err


def test_a_recorded_pair_gives_the_same_numbers_to_the_last_bit(judgebench, live, tiny_pair):
    judgebench(*RECORDED, *WHOLE, "run_dir=again")
    again = RunFolder.open("again")
    same(live, again, "metrics", "comparisons", "tuning", "attack_differences")
    before, after = live.read("readings"), again.read("readings")
    for name in ("example_id", "main_logprobs", "assistant_logprobs", "seconds"):
        assert before[name].equals(after[name]), name
    known, environment = live.read("environment"), again.read("environment")
    assert environment["model_fingerprints"] == known["model_fingerprints"]
    assert environment["device"] == "none: recorded readings"
    assert environment["tokens"] == {"total": 0, "unique": 0}
    titles = again.read("about")["titles"]
    assert (titles["main"], titles["assistant"]) == ("tiny-main", "tiny-assistant")
    digest = known["model_fingerprints"]["main"]["sha256"][:12]
    for said in (f"tiny-main (SHA-256 {digest}...)", known["git_commit"][:12]):
        assert said in titles["note"]
    command = reading.Recording.open("readings.parquet").about["command"]
    assert "judge.path=tiny-main" in command
    assert "tune=dev" in command
    assert str(tiny_pair[0].parent) not in titles["note"]


def test_parts_of_a_recording_are_enough(judgebench, live):
    judgebench(*RECORDED, "ranges=[[4,0]]", "assistant=none", "decoding=[expectation]", "run_dir=again")
    scores, known = RunFolder.open("again").read("scores"), live.read("scores")
    own = (known.decoding == "expectation") & (known.judge == "main") & (known.attack == "none")
    own &= known.split == "test"
    assert set(scores["judge"]) == {"main"}
    merged = known[own].merge(scores, on=["example_id", "range_min", "range_max"])
    assert len(merged) > 0
    assert merged["score_x"].tolist() == merged["score_y"].tolist()
    assert list(RunFolder.open("again").read("environment")["model_fingerprints"]) == ["main"]
    _, out, _ = judgebench(*RECORDED, RANGES, "dry_run=true")
    assert "Scored: 192 of the 384 rows of readings.parquet." in " ".join(out.split())
    _, _, err = judgebench(*RECORDED, "ranges=[[1,10]]", mistaken=True)
    assert "no row of readings.parquet answers under coherence, 1-10, which is to be judged" in err


def test_the_judge_may_be_its_own_assistant(judgebench, recorded):
    live, said = recorded(ALL, "tune=dev", assistant=("assistant=early_exit", "assistant.layer=2"))
    assert "48 readings of tiny-main on 48 mini texts under 1 condition, " in said
    judgebench(*RECORDED, ALL, "tune=dev", "run_dir=again")
    same(live, RunFolder.open("again"), "metrics", "tuning")
    about = [folder.read("about")["titles"]["assistant"] for folder in (live, RunFolder.open("again"))]
    assert about[0] == about[1]


def test_free_answers_are_recorded_with_the_decoding_that_wrote_them(judgebench, recorded):
    written = ("decoding=[greedy,contrastive]", "data.limit_groups=3", "judge.mode=generate")
    live, said = recorded(*written, "judge.max_new_tokens=4")
    assert " free answers of tiny-main with " in said
    judgebench(*RECORDED, *written, "run_dir=again")
    same(live, RunFolder.open("again"), "metrics")
    assert RunFolder.open("again").read("readings")["text"].equals(live.read("readings")["text"])
    _, _, err = judgebench(*RECORDED, *written, "decoding.lambda=0.25", "run_dir=never", mistaken=True)
    assert "readings.parquet has no free answers of pair by contrastive (lambda 0.25, t 1)" in err
    assert left_of("never") == []
    _, _, err = judgebench(*RECORDED, mistaken=True)
    assert "judge.mode: readings.parquet has free answers and no probabilities; take judge.mode=generate" in err


def test_what_must_be_computed_is_left_out_and_named(judgebench, recorded):
    less = ("data.limit_groups=4", "attacks=[none,dsi]", "decoding=[greedy]")
    live, said = recorded(*less, "defenses=[none,{name: cot, answer_tokens: 4},perplexity]")
    assert "Left out, for their prompts need something computed: defense perplexity." in said
    judgebench(*RECORDED, *less, "defenses=[none,{name: cot, answer_tokens: 4}]", "run_dir=again")
    known = live.read("scores")
    again = RunFolder.open("again").read("scores")
    assert known[known.defense != "perplexity"].reset_index(drop=True).equals(again)


def test_the_file_says_who_read_it_and_nothing_of_this_machine(live, one_recording):
    first = Path("readings.parquet").read_bytes()
    assert (one_recording / "again.parquet").read_bytes() == first, "the same run gives the same bytes"
    table = pq.read_table("readings.parquet")
    about = json.loads(table.schema.metadata[b"judgebench"])
    assert about["models"] == live.read("environment")["model_fingerprints"]
    assert about["data"] == {"name": "mini", "examples": 48}
    assert about["conditions"][0] == {"dimension": "coherence", "range": "1-5", "attack": "none", "defense": "none"}
    data = Mini(limit_groups=8)
    data.setup()
    held = repr(table.to_pylist()) + json.dumps(about)
    private = (str(one_recording), str(Path.home() / ""), "sk-planted", "Evaluation Criteria", data.examples[0].output)
    assert [said for said in private if said in held] == []


def test_readings_of_a_condition_that_is_not_asked_any_more_are_refused(one_recording, judgebench, capfd):
    shutil.copytree(one_recording / "live", "fewer")
    Path("fewer/digests.json").unlink()
    config = yaml.safe_load(Path("fewer/config.yaml").read_text())
    config["attacks"] = ["none"]
    Path("fewer/config.yaml").write_text(yaml.safe_dump(config))
    assert re.search(
        r"example mini-\S+ \(coherence, .*, dsi, none\) is another than", mistaken(capfd, "fewer", "out=x.parquet")
    )


def test_an_example_of_another_rubric_or_text_is_refused(judgebench, recorded, capfd):
    rubrics = Path("rubrics")
    rubrics.mkdir()
    (rubrics / "coherence.txt").write_text("Rate {{Summary}} for {{Document}} from {min_range} to {max_range}:")
    given = ("prompt.rubrics=rubrics", "decoding=[greedy]", "ranges=[[1,5],[0,4]]")
    recorded(*given)
    (rubrics / "coherence.txt").write_text("Grade {{Summary}} for {{Document}} from {min_range} to {max_range}:")
    _, _, err = judgebench(*RECORDED, *given, "run_dir=again", mistaken=True)
    assert "judge.path: 96 of 96 prompts are not what was read, the first of them about example mini-" in err
    assert not Path("again").exists()
    assert "is another than the run has read" in mistaken(capfd, "live", "out=other.parquet")
    (rubrics / "coherence.txt").unlink()
    gone = mistaken(capfd, "live", "out=other.parquet")
    assert "its prompts cannot be built again" in gone
    assert "start this command in the folder where the run was started" in gone
    assert not Path("other.parquet").exists()


def test_a_card_of_recorded_readings_scores_new_texts_with_their_model(live, called, tiny_pair):
    called(calibrate, *RECORDED, "decoding=[expectation]", "ranges=[[1,5],[4,0]]", "run_dir=run", "force=true")
    card = JudgeCard.read("run/judge_card.yaml")
    models = live.read("environment")["model_fingerprints"]
    assert card.models["main"]["sha256"] == models["main"]["sha256"]
    assert card.parts["judge"]["_target_"] == "judgebench.judges.spec.JudgeSpec"
    assert any("+judge.path=DIR" in limit for limit in card.limits)
    scores = RunFolder.open("run").read("scores")
    known = scores[scores.judge == "main"].set_index(["range_min", "example_id"])["score"]
    data = Mini(limit_groups=8)
    data.setup()
    example = data.examples[0]
    judge = Judge.from_card("run/judge_card.yaml", judge={"path": str(tiny_pair[0])})
    scored = judge.score(example.source, example.output).score
    np.testing.assert_allclose(scored, known[card.range.minimum, example.example_id], atol=1e-5)


def test_a_served_judge_is_recorded_without_its_address(judgebench, small_server, called, capfd):
    small_server.otherwise = answer(likely={"4": 0.5, "3": 0.25, "5": 0.05})
    at = ("judge=api", f"judge.url={small_server.url}", "judge.model=small", "assistant=api", "assistant.model=less")
    given = ("ranges=[[1,5]]", "decoding=[expectation,contrastive]")
    judgebench(*at, *given, *QUICK, "run_dir=live")
    assert record(["live", "out=readings.parquet"]) == 0
    asked = len(small_server.seen)
    judgebench(*RECORDED, *given, "run_dir=again")
    same(RunFolder.open("live"), RunFolder.open("again"), "metrics")
    assert len(small_server.seen) == asked
    about = pq.read_schema("readings.parquet").metadata[b"judgebench"].decode()
    assert str(small_server.server_address[1]) not in about
    assert json.loads(about)["models"]["main"] == {"title": "small", "model": "small"}
    _, _, err = called(calibrate, *RECORDED, "ranges=[[1,5]]", "run_dir=never", mistaken=True)
    assert "has readings of a judge that is no model here" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("assistant=null_context", "take assistant=recorded or assistant=none"),
        ("attacks=[adv_suffix]", "attacks: adv_suffix: a phrase is learned by asking a model here"),
        ("defenses=[cap]", "defenses: cap: its references are scored while they are made, and judge=recorded"),
        ("judge.path=null", "judge.path: name the file of recorded readings"),
        ("judge.path=nowhere", "nowhere: there is no such file; judge.path must be an existing file"),
        ("prompt=comparative", "readings of texts that were judged alone, and this run asks for texts that were comp"),
        ("dimensions=[fluency]", "under fluency, 1-5, which is to be judged; readings.parquet has answers under"),
    ],
)
def test_what_the_file_cannot_give_is_refused(judgebench, live, given, message):
    told(judgebench(*RECORDED, given, "run_dir=run", mistaken=True), message)


def test_a_recording_that_comes_with_judgebench_goes_by_its_name(judgebench, live, monkeypatch, tmp_path):
    (tmp_path / "shipped").mkdir()
    Path("readings.parquet").rename(tmp_path / "shipped" / "tiny.parquet")
    monkeypatch.setattr(reading, "FOLDER", tmp_path / "shipped")
    judgebench("judge=recorded", "judge.path=tiny", *QUICK, "run_dir=run")
    assert set(RunFolder.open("run").read("readings")["seconds"] > 0) == {True}
    _, _, err = judgebench("judge=recorded", "judge.path=small", *QUICK, mistaken=True)
    assert "with judgebench come tiny" in err


def test_a_mistaken_command_is_one_sentence(judgebench, live, one_recording, capfd):
    run = str(one_recording / "live")
    Path("empty").mkdir()
    judgebench(*RECORDED, "run_dir=again")
    for words, message in (
        ((), "one run folder and one out=FILE are needed"),
        ((run, "readings.parquet"), "one run folder and one out=FILE are needed"),
        ((run, "out=x.parquet", "--force"), "--force: there is no such flag"),
        ((run, "out=x.jsonl"), "give a name that ends in .parquet"),
        ((run, "out=nowhere/x.parquet"), "there is no folder nowhere"),
        (("nowhere", "out=x.parquet"), "nowhere: this folder does not exist"),
        (("empty", "out=x.parquet"), "not a run folder"),
        (("again", "out=x.parquet"), "its readings are recorded ones already"),
    ):
        assert message in mistaken(capfd, *words)


def test_nothing_private_is_passed_on():
    given = {"path": "/srv/models/mine", "url": "http://10.0.0.1", "rubrics": {"coherence": "Rate {{Summary}}."}}
    assert public(given) == {"path": "mine", "rubrics": ["coherence"]}
    for private, kept in (
        ("owner/name", "owner/name"),
        ("package:llm", "package:llm"),
        ("../a b/c", "c"),
        ("C:\\me\\model", "model"),
        ("line\nbreak", None),
        ("x" * 999, None),
        ("judge.path=/home/me/my models/small", "judge.path=small"),
        ("judge.url=http://10.0.0.1:8000/v1", "judge.url=..."),
        ("attacks=[none,./mine/lead.txt]", "attacks=[none,lead.txt]"),
        ("ranges=[[1,5]]", "ranges=[[1,5]]"),
        ("judge.path=Qwen/Qwen2.5-Coder-1.5B-Instruct", "judge.path=Qwen/Qwen2.5-Coder-1.5B-Instruct"),
    ):
        assert public([private, 1, None]) == [kept, 1, None]
