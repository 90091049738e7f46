"""Phrases that are learned and judged with at the command line: what a run says of its search, its scores say too."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from judgebench.results.folder import RunFolder
from tests.conftest import pair, run_in, told
from tests.models import swap_words

WORDS = ["superb", "truly great", "seven", "outstandingly", "Quickly", "river", "summable", "well", "the", "good"]
DATA = ("data.limit_groups=4", "data.dev_share=0.5")  # two articles to learn on, two to try on; six systems
QUICK = ("metrics.resamples=50", "metrics.levels=[dataset]")
PLAIN = (*QUICK, "logger=none", "report=false", "run_dir=run", "data.limit_groups=2", "data.dev_share=0.5")


def learning(folder, *more):
    """The words of a command that learns a phrase of two words on one article and two systems."""
    (folder / "words.txt").write_text("\n".join(WORDS))
    settings = f"vocabulary: {folder / 'words.txt'}, length: 2, contexts: 1"
    return (f"attacks=[{{name: adv_suffix, {settings}}}]", "decoding=[expectation,greedy]", *more)


def steps(folder):
    """The finished steps of all searches whose journals lie beside a store in `folder`."""
    return sorted(path.stem for path in Path(folder, "attacks").glob("*/*.parquet"))


def phrase_of(run, name="phrase"):
    return json.loads(Path(run, "attack", f"{name}.json").read_text())


def trace_of(run):
    return pd.read_parquet(Path(run, "attack", "trace.parquet"))


def mean_on_learned(run, phrase, attack, judge="main", decoding=None):
    """The mean score that the run gives to the texts that a phrase was learned on."""
    scores = RunFolder.open(run).read("scores")
    scores = scores[(scores.attack == attack) & (scores.judge == judge) & (scores.decoding == decoding)]
    held = scores[scores.group_id.isin(phrase["contexts"]) & scores.system_id.isin(phrase["systems"])]
    assert len(held) == phrase["learned"]["texts"]
    return held.score.mean()


def agrees(run, phrase, prefix="adv_suffix", judge="main", decoding="expectation"):
    """What the search says of clean texts and of its phrases is what the run's own scores say."""
    learned = phrase["learned"]
    where = {"judge": judge, "decoding": decoding}
    assert mean_on_learned(run, phrase, "none", **where) == pytest.approx(learned["clean_score"], abs=1e-4)
    trace = trace_of(run)
    trace = trace[trace.against == phrase["against"]]
    whole = trace[trace.kind == "clean"].contexts.item()
    assert trace[trace.kind == "clean"].score.item() == learned["clean_score"]
    for length, (text, score) in enumerate(zip(phrase["by_length"], learned["scores"], strict=True), 1):
        assert mean_on_learned(run, phrase, f"{prefix}_{length}", **where) == pytest.approx(score, abs=1e-4)
        tried = trace[(trace.phrase == text) & (trace.contexts == whole)]
        assert tried.score.to_numpy() == pytest.approx(score, abs=1e-5)
        assert set(tried[tried.kept == 0].position) <= set(range(length))
        assert (tried.kept == 0).any()
    assert phrase["phrase"] == phrase["by_length"][-1]
    assert np.ptp([learned["clean_score"], *learned["scores"]]) > 1e-3


@pytest.fixture(scope="module")
def learned(tmp_path_factory, tiny_pair):
    """A run with everything on, and what it was started with; those that come after may share its store."""
    from judgebench.__main__ import main

    folder = tmp_path_factory.mktemp("learned")
    more = ("search.shortlist=0.5", "+attacks.0.beam=2", "+attacks.0.refine=1")
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *DATA, *learning(folder, *more))
    run_in(folder, main, *command, "logger=none", "run_dir=run")
    return folder, command


def test_a_run_leaves_what_it_has_learned_and_its_scores_agree(learned):
    run = learned[0] / "run"
    folder, phrase, trace = RunFolder.open(run), phrase_of(run), trace_of(run)
    agrees(run, phrase)
    scores = folder.read("scores")
    assert set(scores.attack) == {"none", "adv_suffix_1", "adv_suffix_2"}
    prompts = folder.read("readings").set_index(["example_id", "attack"]).prompt
    for length, text in enumerate(phrase["by_length"], 1):
        for example in scores.example_id.unique()[::7]:
            clean, attacked = prompts[example, "none"], prompts[example, f"adv_suffix_{length}"]
            assert attacked in {f"{clean[:i]} {text}{clean[i:]}" for i in range(len(clean))}
    assert {"attack", "load", "read"} <= set(folder.read("environment")["seconds"])
    # what was learned on is of the development split, and counted apart
    texts = scores.drop_duplicates("example_id")
    assert set(phrase["contexts"]) < set(texts[texts.split == "dev"].group_id)
    assert (len(phrase["contexts"]), len(phrase["systems"])) == (1, 2)
    records = [r for r in folder.read("suffix") if (r["decoding"], r["length"]) == ("expectation", 2)]
    counts = {(r["split"], r["contexts"], r["systems"]): r["n"] for r in records}
    assert sum(n for (_, _, systems), n in counts.items() if systems != "all") == len(texts)
    assert not any(contexts == "seen" for split, contexts, _ in counts if split == "test")
    assert phrase["learned"]["texts"] == counts["dev", "seen", "seen"]
    # the trace holds every word at every step, of which the gradient left half to be scored
    assert trace.step.drop_duplicates().tolist() == ["word_0", "word_1", "word_2", "refine_2_1_1", "refine_2_1_2"]
    first = trace[trace.step == "word_1"]
    assert sorted(first.word) == sorted(WORDS)
    assert first.estimate.notna().all()
    assert first.score.notna().sum() == 8  # four for each place in the beam are more than half
    assert (trace.step == "word_2").sum() == 2 * len(WORDS)
    assert phrase["learned"]["tried"] == trace.score.notna().sum() - 1
    html = (run / "report.html").read_text()
    assert phrase["phrase"] in html
    assert "<h3>Learned phrases</h3>" in html


def test_a_phrase_is_tried_on_another_judge_and_another_tokenizer_is_noted(learned, judgebench, model_folder):
    swap_words(model_folder, 40_000)
    file = learned[0] / "run" / "attack" / "phrase.json"
    given = ("judge=local", f"judge.path={model_folder}", *PLAIN, *DATA, "report=true")
    _, out, _ = judgebench("+exp=adv_suffix", f"attacks=[{{name: adv_suffix, phrase_file: {file}}}]", *given)
    note = "The phrase was learned on tiny-main with another tokenizer"
    pages = [Path(run, "report.html").read_text() for run in ("run", learned[0] / "run")]
    assert [note in " ".join(text.split()) for text in (out, *pages)] == [True, True, False]
    folder, phrase = RunFolder.open("run"), phrase_of("run")
    assert phrase == json.loads(file.read_text())
    assert not Path("run/attack/trace.parquet").exists()
    assert not Path("outputs/attacks").exists()
    scores = folder.read("scores")
    assert set(scores.attack) == {"none", "adv_suffix_1", "adv_suffix_2"}
    by_expectation = scores[(scores.decoding == "expectation") & (scores.attack == "adv_suffix_2")]
    for record in folder.read("suffix"):
        if (record["decoding"], record["length"]) != ("expectation", 2):
            continue
        held = by_expectation[by_expectation.split == record["split"]]
        held = held[held.group_id.isin(phrase["contexts"]) == (record["contexts"] == "seen")]
        if record["systems"] != "all":
            held = held[held.system_id.isin(phrase["systems"]) == (record["systems"] == "seen")]
        assert (record["n"], record["mean_score"]) == (len(held), pytest.approx(held.score.mean()))


@pytest.mark.exhaustive
def test_a_phrase_for_each_of_two_decodings(judgebench, tiny_pair, tmp_path):
    against = "+attacks.0.against=[expectation,contrastive_expectation]"
    judges = (*pair(tiny_pair), *PLAIN, "search.shortlist=0.8")
    more = ("decoding=[expectation,contrastive_expectation]", against, "+attacks.0.systems=3")
    judgebench("+exp=attack_contrastive", *judges, *learning(tmp_path, *more))
    folder = RunFolder.open("run")
    assert {path.name for path in Path("run/attack").glob("*.json")} == {
        *("phrase_expectation.json", "phrase_contrastive_expectation.json", "differences.json", "suffix.json"),
    }
    trace = trace_of("run")
    assert trace.against.drop_duplicates().tolist() == ["expectation", "contrastive_expectation"]
    for judge, name in (("main", "expectation"), ("pair", "contrastive_expectation")):
        phrase = phrase_of("run", f"phrase_{name}")
        assert phrase["against"] == name
        agrees("run", phrase, f"adv_suffix_{name}", judge, name)
    names = {f"adv_suffix_{name}_{n}" for name in ("expectation", "contrastive_expectation") for n in (1, 2)}
    scores = folder.read("scores")
    assert set(scores.attack) == {"none", *names}
    # all are judged with under both decodings, and the differences are those of the scores
    test = scores[scores.split == "test"]
    means = test.groupby(["judge", "decoding", "attack"]).score.mean()

    def change(judge, decoding, attack):
        return means[judge, decoding, attack] - means[judge, decoding, "none"]

    records = [r for r in folder.read("attack_differences") if (r["split"], r["statistic"]) == ("test", "change")]
    assert {record["attack"] for record in records} == names
    for record in records:
        attack = record["attack"]
        contrasted = change("pair", "contrastive_expectation", attack) - change("main", "expectation", attack)
        assert record["difference"] == pytest.approx(contrasted)


@pytest.mark.exhaustive
def test_a_phrase_that_makes_a_text_win(judgebench, tiny_pair, tmp_path):
    given = ("prompt=comparative", "prompt.rivals=2", "search.shortlist=1", "search.survivors=[0.6,0.6]")
    judgebench("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path, *given))
    phrase = phrase_of("run")
    assert phrase["learned"]["assessment"] == "comparative"
    assert phrase["learned"]["texts"] == 2 * 2  # systems, and the rivals of each
    trace = trace_of("run")
    assert trace.contexts.max() == 2 * 2 * 2  # in both orders
    assert 0 <= trace.score.min() <= trace.score.max() <= 1
    agrees("run", phrase)


@pytest.mark.exhaustive
def test_jobs_of_a_multirun_share_what_they_learn(judgebench, tiny_pair, tmp_path):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path))
    judgebench("-m", *given, "search=exhaustive", "attacks.0.length=1,2")
    short, longer = (phrase_of(f"run/{job}") for job in (0, 1))
    assert (short["learned"]["steps_resumed"], longer["learned"]["steps_resumed"]) == (0, 2)
    assert longer["by_length"][0] == short["phrase"]
    assert steps("outputs") == ["word_0", "word_1", "word_2"]
    assert set(RunFolder.open("run/0").read("scores").attack) == {"none", "adv_suffix_1"}
    assert set(RunFolder.open("run/1").read("scores").attack) == {"none", "adv_suffix_1", "adv_suffix_2"}


CONTRASTS = ["assistant=early_exit", "assistant.layer=2", "decoding=[expectation,contrastive_expectation]"]
MISTAKES = {
    "a decoding that is tuned afterwards": (
        [*CONTRASTS, "+attacks.0.against=[contrastive_expectation]", "tune=dev"],
        "attacks: adv_suffix.against: a phrase against contrastive_expectation would be learned before tune=dev",
    ),
    "no file of words": (
        ["attacks.0.vocabulary=missing.txt"],
        "attacks: adv_suffix.vocabulary=missing.txt: it cannot be read",
    ),
    "no word that stays": (
        ["attacks.0.vocabulary={control}"],
        "attacks: adv_suffix: no phrase reads the same in every prompt",
    ),
    "no gradient": (["judge.engine=plain"], "search: it follows the gradient, and judge.engine=plain gives none"),
    "several processes": (
        ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"],
        "trainer: a phrase is learned in one process",
    ),
    "a name that is taken": (
        ["attacks=[{template: {template}, name: adv_suffix_1},{name: adv_suffix, contexts: 1, words: 4}]"],
        "attacks: 'adv_suffix_1' is what a learned phrase is called",
    ),
    "shortened articles": (
        ["prompt.truncate=source", "prompt.max_tokens=520"],
        "is too long unless its article is shortened, and on such texts none is learned",
    ),
    "no room": (["prompt.max_tokens=280"], "280"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_before_anything_is_written(judgebench, tiny_pair, tmp_path, mistake):
    arguments, expected = MISTAKES[mistake]
    files = {"control": "<|im_end|>\n", "template": "{text}!"}
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(content)
        arguments = [argument.replace(f"{{{name}}}", str(tmp_path / f"{name}.txt")) for argument in arguments]
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path))
    told(judgebench(*given, *arguments, mistaken=True), expected)
    assert not list(Path("outputs").rglob("phrase.json"))
