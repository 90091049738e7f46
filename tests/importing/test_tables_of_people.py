"""Tables as people write them, by `judgebench from` and by a run on the file itself: several raters, signs and gaps
among labels, reasons and contexts, dialogues, pairs, workbooks. Each is taken as it is meant, says so, and ends in a
verdict."""

import csv
import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from judgebench.command.calibrate import main as calibrate
from judgebench.command.label import main as label
from judgebench.command.score import main as score
from judgebench.importing.columns import inside
from judgebench.importing.own import written_out
from judgebench.importing.preferences import preference_columns
from judgebench.report.browser.data import browse, unpack
from judgebench.report.views.first import looks
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.words.errors import UserError
from tests.conftest import read_rows, write_rows, write_table
from tests.runtime.test_workbook import save

QUICK = ("logger=none", "metrics.resamples=20", "report=false")
COUNT = 24


def write(name, row_of):
    """A file of rows, a table or JSON by its ending; each has a question and an answer."""
    rows = [{"question": f"How do I do {i}?", "answer": f"Like {i}."} | row_of(i) for i in range(COUNT)]
    (write_table if name.endswith(".csv") else write_rows)(name, rows)
    return rows


def ann(i):
    return 1 + i % 5


def ben(i):
    return 1 + (i + i % 3) % 5


def judged(i):
    return 1 + (i + i % 2) % 5


def word(i):
    return ["fail", "pass"][i % 2]


def said(i):
    return ["fail", "pass"][i % 3 > 0]


@pytest.fixture
def measured(take, judgebench):
    """Takes a file by `from` and runs the command that this prints, and runs on the file itself: both have the same
    scores. The lines of both."""

    def both(name, *words):
        _, taken, _ = take(name, *words, "out=taken")
        ready = Path("taken/command.sh").read_text().splitlines()[-1]
        _, first, _ = judgebench(*shlex.split(ready)[3:], *QUICK, "run_dir=first")
        _, second, _ = judgebench(f"data.path={name}", *words, *QUICK, "run_dir=second")
        scores = [RunFolder.open(folder).read("scores") for folder in ("first", "second")]
        assert list(scores[0]["score"]) == list(scores[1]["score"])
        assert list(scores[0]["human"]) == list(scores[1]["human"])
        stem = Path(name).stem
        assert f" on {stem}: {COUNT} texts" in first, "a title has the file's name"
        assert f" on {stem}: {COUNT} texts" in second
        return taken, second

    return both


# --- raters -------------------------------------------------------------------------------------


def test_columns_of_one_stem_are_offered_as_raters(take, measured, judgebench):
    write("stem.csv", lambda i: {"rating_alice": ann(i), "rating_bob": ben(i), "judge_score": judged(i)})
    sentence = "'rating_alice', 'rating_bob' look like what 2 people gave; give 'human=[rating_alice,rating_bob]'"
    for call in (partial(take, "stem.csv"), partial(judgebench, "data.path=stem.csv", *QUICK)):
        code, _, err = call(mistaken=True)
        assert (code, sentence in err) == (2, True)
    _, out = measured("stem.csv", "human=[rating_alice,rating_bob]")
    assert "24 groups, 2 raters" in out


@pytest.mark.parametrize("columns", ["tone_score clarity_score", "gpt4_rating llama_rating", "bleu_score rouge_score"])
def test_columns_of_qualities_models_and_metrics_are_no_raters(take, columns):
    first, second = columns.split()
    write("stem.csv", lambda i: {first: ann(i), second: ben(i), "judge_x": judged(i)})
    _, out, err = take("stem.csv", "judge=judge_x", "out=taken", mistaken=None)
    assert "people gave" not in err + out


RATERS = {
    "an object": lambda i: {"human": {"ann": ann(i), "ben": ben(i)}},
    "an object in which not everyone rated all": lambda i: {
        "human": {"ann": ann(i)} | ({"ben": ben(i)} if i % 3 else {})
    },
    "a list of objects": lambda i: {
        "labels": [{"annotator": "ann", "score": ann(i)}, {"annotator": "ben", "score": ben(i)}]
    },
    "a list of objects, its names as Argilla has them": lambda i: {
        "ratings": [{"user_id": "ann", "value": ann(i), "status": "submitted"}, {"user_id": "ben", "value": ben(i)}]
    },
    "JSON text": lambda i: {"human": json.dumps({"ann": ann(i), "ben": ben(i)})},
    "a list as JSON text": lambda i: {
        "labels": json.dumps([{"rater": "ann", "label": ann(i)}, {"rater": "ben", "label": ben(i)}])
    },
}


@pytest.mark.parametrize("form", RATERS)
def test_labels_with_the_names_of_people_are_of_one_dimension(take, measured, form):
    name = "people.csv" if "JSON text" in form else "people.jsonl"
    rows = write(name, lambda i: RATERS[form](i) | {"judge_score": judged(i)})
    if form in ("an object in which not everyone rated all", "a list as JSON text"):
        _, out = measured(name)
        assert f"{len(rows)} groups, 2 raters" in out
    else:
        take(name, "out=taken")
        out = "\n".join(written_out([f"data.path={name}"])[1])
    assert "of quality, on [1,5], by the raters ann, ben (" in out
    texts = read_rows("taken/data.jsonl")
    assert texts[1]["human"] == {"quality": {"ann": ann(1), "ben": ben(1)}}
    is_open = "list" not in form
    assert ("'dimensions=[ann,ben]' where these are dimensions" in out) == is_open


def test_the_word_that_changes_it_does(judgebench, take):
    write("people.jsonl", lambda i: {"human": {"ann": ann(i), "ben": ben(i)}, "judge_score": judged(i)})
    _, out, _ = judgebench("data.path=people.jsonl", "dimensions=[ann]", *QUICK, "run_dir=run")
    assert (
        "'human' of ann, ben, on [1,5] (human=COLUMN, data.scale=[WORST,BEST], 'human=[human.ann,human.ben]' where"
        in out
    )
    assert list(RunFolder.open("run").read("scores")["human"]) == [ann(i) for i in range(COUNT)]
    take("people.jsonl", "dimensions=[ann,ben]", "out=taken")
    assert read_rows("taken/data.jsonl")[0]["human"] == {"ann": 1, "ben": 1}
    write("rated.jsonl", lambda i: {"human": {"tone": ann(i), "clarity": ben(i)}, "judge_score": judged(i)})
    take("rated.jsonl", "human=[human.tone,human.clarity]", "out=raters")
    assert read_rows("raters/data.jsonl")[0]["human"] == {"quality": {"human.tone": 1, "human.clarity": 1}}


def test_what_objects_of_labels_hold():
    dimensions = [
        [{"tone": 5, "clarity": 4}, {"tone": 3, "clarity": 2}],
        [{"quality": {"ann": 5}}],
        [{"ann": [4, 5]}],
        [{"Ton": 4}],
        [{"x": 0.2, "y": 4}, {"x": 0.9, "y": 5}],
        [{"x": "pass", "y": 4}],
    ]
    for labels in dimensions:
        assert (inside(labels).dimensions, inside(labels).raters) == ([*labels[0]], ())
    assert inside([{"ann": 5, "ben": 4}, {"cora": 3}]).raters == ["ann", "ben", "cora"]
    assert inside([{"ann": 5, "ben": 4}], ["ben"]).dimensions == ["ann", "ben"]
    assert not inside([3, [3, 4], "pass"]).raters
    assert not inside([3, [3, 4], "pass"]).dimensions


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", ["n/a", "N/A", "-", "?", "#N/A"])
@pytest.mark.parametrize("labels", [ann, word])
def test_what_stands_for_no_label_is_one_sentence_with_its_place(take, gap, labels):
    write("gaps.csv", lambda i: {"human_label": gap if i == 5 else labels(i), "judge_label": labels(i)})
    sentence = (
        f"judgebench: gaps.csv line 7: {gap!r} stands among people's labels in 'human_label'; leave the cell empty "
        "where there is no label."
    )
    _, _, err = take("gaps.csv", mistaken=True)
    assert err.strip() == sentence
    with pytest.raises(UserError) as error:
        written_out(["data.path=gaps.csv"])
    assert f"judgebench: {error.value}" == sentence


@pytest.mark.parametrize(("bad", "good"), [("❌", "✅"), ("👎🏽", "👍🏽")])
def test_signs_are_classes(measured, bad, good):
    write("signs.csv", lambda i: {"human_label": [bad, good][i % 2], "judge_label": [bad, good][i % 3 > 0]})
    taken, out = measured("signs.csv")
    ends = "[bad,good]" if bad[0] == "👎" else "[no,yes]"
    assert f"people's labels: 'human_label' of quality, on {ends}" in taken
    assert f"judge: judge_label, range {ends}" in out
    assert "decide " in out


# --- what else a table holds --------------------------------------------------------------------


def tickets(i):
    return {
        "ticket": f"T-{i:03}",
        "customer": f"c{i // 2}",
        "human_label": word(i),
        "judge_label": said(i),
        "judge_reason": f"Because <b>{i}</b>.",
        "policy": f"Rule {i % 3}.",
        "target": f"It is {i}, as the handbook says.",
        "remark": "x" * 60 + str(i % 4),
    }


def test_every_column_is_accounted_for(take):
    write("desk.csv", tickets)
    _, out, _ = take("desk.csv", "out=taken")
    assert "id none ('ticket' is unique: id=ticket)" in out
    assert "context policy, target, reason judge_reason (context=COLUMN, reason=)" in out
    assert "not used: 'ticket', 'customer', 'remark'\n" in out
    text = read_rows("taken/data.jsonl")[4]
    assert text["context"] == "Rule 1.\n\nIt is 4, as the handbook says."
    assert text["reason"] == "Because <b>4</b>."
    _, out, _ = take("desk.csv", "id=ticket", "context=policy", "reason=none", "out=named")
    text = read_rows("named/data.jsonl")[4]
    assert (text["example_id"], text["context"], "reason" in text) == ("T-004", "Rule 1.", False)
    assert "unique" not in out


def test_a_judges_reason_stands_beside_the_texts_to_look_at(measured):
    write("desk.csv", tickets)
    measured("desk.csv")
    for folder in ("first", "second"):
        results = Results.load(folder)
        shown = looks(results)
        reasons = dict(zip(results.examples["example_id"], results.examples["reason"], strict=True))
        assert {row["reason"] for row in shown} == {reasons[row["example"]] for row in shown}
        assert all(row["reason"].startswith("Because <b>") for row in shown)


def test_the_page_escapes_reasons(judgebench):
    write("desk.csv", tickets)
    judgebench("data.path=desk.csv", *QUICK[:2], "run_dir=run")
    page = Path("run/report.html").read_text()
    assert "The judge&#39;s reason" in page or "The judge's reason: Because &lt;b&gt;" in page
    assert "Because <b>" not in page.partition("<script")[0]


def test_a_run_without_reasons_has_no_column_of_them(judgebench):
    write("plain.csv", lambda i: {"human_label": word(i), "judge_label": said(i)})
    judgebench("data.path=plain.csv", *QUICK, "run_dir=run")
    assert "reason" not in RunFolder.open("run").read("examples")
    assert {row["reason"] for row in looks(Results.load("run"))} == {""}


def test_a_group_that_is_named_may_have_several_sources(measured, judgebench):
    write("desk.csv", tickets)
    _, out = measured("desk.csv", "group=customer")
    assert f"{COUNT} texts of {COUNT // 2} groups" in out
    assert "Groups answer to several sources (12 groups, 24 sources)" in " ".join(out.split())
    # each text stands on the page with its own source
    _, out, _ = judgebench("data.path=desk.csv", "group=customer", *QUICK[:2], "run_dir=page")
    texts = [unpack(chunk) for chunk in browse(Results.load("page")).texts]
    sources = {chunk["groups"][group]["source"] for chunk in texts for group in chunk["group"]}
    assert len(sources) == COUNT


# --- dialogues ----------------------------------------------------------------------------------


def openai(i):
    return [
        {"role": "user", "content": f"Which bolt, {i}?"},
        {"role": "assistant", "content": "Which size?"},
        {"role": "user", "content": [{"type": "text", "text": "8 mm"}]},
        {"role": "assistant", "content": f"The M8 one, {i}."},
    ]


def sharegpt(i):
    called = {"user": "human", "assistant": "gpt"}
    return [
        {"from": called[turn["role"]], "value": turn["content"] if isinstance(turn["content"], str) else "8 mm"}
        for turn in openai(i)
    ]


def write_chats(name, turns, **more):
    rows = [
        {"messages": json.dumps(turns(i)) if name.endswith(".csv") else turns(i)}
        | {"human_score": ann(i), "judge_score": judged(i)}
        for i in range(COUNT)
    ]
    (write_table if name.endswith(".csv") else write_rows)(name, rows)


@pytest.mark.parametrize(
    ("name", "turns", "words"),
    [("chat.jsonl", openai, ["output=messages"]), ("chat.csv", openai, []), ("gpt.jsonl", sharegpt, [])],
)
def test_of_a_dialogue_the_last_reply_is_judged(measured, name, turns, words):
    write_chats(name, turns)
    taken, out = measured(name, *words)
    assert "texts: messages.reply, the last reply of each dialogue (output=COLUMN; output=messages.whole" in taken
    assert "what they answer to: messages.before (source=COLUMN)" in out
    text = read_rows("taken/data.jsonl")[3]
    assert text["output"] == "The M8 one, 3."
    assert text["source"] == "User: Which bolt, 3?\n\nAssistant: Which size?\n\nUser: 8 mm"


def test_of_a_dialogue_all_is_judged_where_that_is_asked(measured):
    write_chats("chat.jsonl", openai)
    taken, _ = measured("chat.jsonl", "output=messages.whole")
    assert "what they answer to: none, so that the texts alone count" in taken
    text = read_rows("taken/data.jsonl")[3]
    assert text["output"] == text["source"]
    assert text["output"].endswith("User: 8 mm\n\nAssistant: The M8 one, 3.")


def test_an_answer_beside_a_dialogue_answers_to_all_of_it(take):
    write_rows(
        "calls.jsonl",
        [{"input": openai(i)[:3], "response": f"The M8 one, {i}.", "judge_score": judged(i)} for i in range(COUNT)],
    )
    _, out, _ = take("calls.jsonl", "out=taken")
    assert "what they answer to: input.whole (source=COLUMN)" in out
    assert read_rows("taken/data.jsonl")[3]["source"].startswith("User: Which bolt, 3?")


# --- pairs --------------------------------------------------------------------------------------


PAIRS = {
    "letters": ("answer_a answer_b winner judge_preference", "AB", None),
    "Arena's words": (
        "response_a response_b human_preference gpt4_preference",
        ["model_a", "model_b"],
        "tie (bothbad)",
    ),
    "numbers": ("Response 1,Response 2,human choice,judge choice", [1, 2], "tie"),
    "names of columns": ("answer_a answer_b better llm_better", ["answer_a", "answer_b"], "both"),
    "a judge's brackets": ("output_1 output_2 human_verdict llm_verdict", ["[[A]]", "[[B]]"], "[[C]]"),
}


def write_pairs(form):
    names, sides, tie = PAIRS[form]
    first, second, people, judge = names.split(",") if "," in names else names.split()
    rows = []
    for i in range(COUNT):
        texts = {"prompt": f"Which is it, {i}?", first: f"The first, {i}.", second: f"The second, {i}."}
        humans = tie if tie and i % 5 == 0 else sides[i % 2]
        rows.append(texts | {people: humans, judge: sides[i % 3 > 0]})
    write_rows("pairs.jsonl", rows)
    return people, judge


@pytest.mark.parametrize("form", PAIRS)
def test_a_judges_preferences_are_measured_by_peoples(take, judgebench, form):
    people, judge = write_pairs(form)
    _, out, _ = take("pairs.jsonl", f"human={people}", f"judge={judge}", "out=taken")
    ties = PAIRS[form][2] is not None
    classes = "[B,tie,A]" if ties else "[B,A]"
    assert "a pair passes where people prefer A" in out
    text = read_rows("taken/data.jsonl")[1]
    assert text["output"] == "[A]\nThe first, 1.\n\n[B]\nThe second, 1."
    preferred = ["tie" if ties else "A", "B", "A"]
    assert [row["human"]["preference"] for row in read_rows("taken/data.jsonl")[:3]] == preferred
    assert [row["text"] for row in read_rows("taken/answers.jsonl")[:4]] == ["A", "B", "B", "A"]
    (ready,) = Path("taken/command.sh").read_text().splitlines()
    assert f"data.classes={classes}" in shlex.split(ready)
    _, answer, _ = judgebench(*shlex.split(ready)[3:], *QUICK, "run_dir=run")
    assert f"{judge} on pairs: {COUNT} texts" in answer
    agreed = sum(
        a["text"] == t["human"]["preference"]
        for a, t in zip(read_rows("taken/answers.jsonl"), read_rows("taken/data.jsonl"), strict=True)
    )
    if ties:
        assert f"its class is that of {agreed / COUNT:.0%}".replace("%", " %") in " ".join(answer.split())
    else:
        assert "right on 33 %" in answer


def test_by_their_names_people_and_judge_are_told_apart(take):
    write_pairs("letters")
    _, out, _ = take("pairs.jsonl", "out=taken")
    assert "people's labels: 'winner' of preference" in out
    assert "judge: judge_preference, range [B,A]" in out


def test_a_run_on_pairs_names_the_command_that_measures_them(take, judgebench):
    write_pairs("Arena's words")
    _, _, err = judgebench("data.path=pairs.jsonl", *QUICK, mistaken=True)
    (command,) = re.findall(r"judgebench from .* out=pairs", err)
    take(*shlex.split(command)[2:])
    (ready,) = Path("pairs/command.sh").read_text().splitlines()
    _, answer, _ = judgebench(*shlex.split(ready)[3:], *QUICK, "run_dir=run")
    assert "gpt4_preference on pairs" in answer


def test_a_run_on_pairs_without_a_judge_names_the_comparison(judgebench, tiny_pair):
    rows = [{"prompt": f"Q{i}?", "answer_a": f"A{i}.", "answer_b": f"B{i}.", "winner": "AB"[i % 2]} for i in range(4)]
    write_rows("pairs.jsonl", rows)
    _, _, err = judgebench("data.path=pairs.jsonl", *QUICK, mistaken=True)
    (command,) = re.findall(r"compared by (python -m judgebench .*)\. Of one text", err)
    words = shlex.split(command)[3:]
    assert "preference: winner" in command
    models = ("judge=local", f"judge.path={tiny_pair[0]}", "assistant=none", "decoding=[expectation]")
    judgebench(*words, *models, "dry_run=true", *QUICK)


def test_scores_of_two_texts_are_no_preferences():
    values = {"answer_a": ["A."], "answer_b": ["B."], "rating": [1, 2, 3], "model_a": ["x"], "model_b": ["y"]}
    assert preference_columns(values) == []


# --- workbooks ----------------------------------------------------------------------------------


@pytest.fixture
def book(judgebench):
    """A workbook with notes, ratings below a title, and another sheet of words."""
    ratings = [["Question", "Answer", "Human score", "Judge score"]]
    ratings += [[f"Which, {i}?", f"It is {i}.", ann(i), judged(i)] for i in range(COUNT)]
    words = [["Question", "Answer", "human", "judge"]]
    words += [[f"Which, {i}?", f"It is {i}.", word(i), said(i)] for i in range(COUNT)]
    return save("book.xlsx", Notes=[["Read me"]], Ratings=[["Survey"], [], *ratings], Words=words)


def test_a_workbook_is_taken_like_a_table(measured, book):
    taken, out = measured(book)
    assert "sheet: the first that holds something, of Notes, Ratings, Words (sheet=NAME)" in taken
    assert "sheet: the first that holds something, of Notes, Ratings, Words (sheet=NAME)" in out
    assert list(RunFolder.open("second").read("scores")["score"]) == [judged(i) for i in range(COUNT)]


def test_another_sheet_is_named(measured, book):
    taken, out = measured(book, "sheet=Words", "judge=judge")
    assert "sheet:" not in taken
    assert "data.sheet=Words judge.sheet=Words" in out
    assert "decide " in out


def test_a_workbook_is_calibrated_on_scored_and_labelled(called, judgebench, book):
    called(calibrate, "data.path=book.xlsx", *QUICK[:-1], "run_dir=run")
    assert Path("run/judge_card.yaml").is_file()
    fields = "data.fields={source: Question, output: Answer}"
    answers = [["example_id", "Judge score"], *[[f"line-{i + 4}", judged(i)] for i in range(COUNT)]]
    write_rows("answers.jsonl", [dict(zip(answers[0], row, strict=True)) for row in answers[1:]])
    words = ("card=run/judge_card.yaml", "data.path=book.xlsx", fields, "out=scores.csv", "+judge.path=answers.jsonl")
    called(score, *words, "data.sheet=Ratings")
    with open("scores.csv", encoding="utf-8") as file:
        assert [float(row["score"]) for row in csv.DictReader(file)] == [judged(i) for i in range(COUNT)]
    called(label, "book.xlsx", "data.sheet=Ratings", fields, "out=label.html", "n=5")
    assert "It is " in Path("label.html").read_text()
