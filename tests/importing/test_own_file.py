"""`python -m judgebench data.path=FILE` at the first try: what a file's columns hold, the scale and the range are told
from it, and the run says which command that is."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import judgebench as package
from judgebench.cards.card import JudgeCard
from judgebench.command.calibrate import main as calibrate
from judgebench.command.gate import main as gate
from judgebench.command.label import main as label
from judgebench.command.score import main as score
from judgebench.data.rows import FileRow
from judgebench.importing.columns import dimension_of, label_range, table_columns
from judgebench.importing.own import file_words, written_out
from judgebench.report.views.first import WORST, looks
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.words.errors import UserError
from tests.conftest import read_rows, write_rows, write_table

QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")


def settings(out):
    """The overrides of the command that a run says it stands for."""
    (command,) = re.findall(r"^This stands for: python -m judgebench (.*)$", out, re.MULTILINE)
    return shlex.split(command)


@pytest.fixture
def graded(judgebench):
    """40 texts of 20 articles with grades from 1 to 5, and a judge's words and scores, of which one is missing."""
    rows = []
    for i in range(40):
        grade = 1 + (3 * i + i // 10) % 5
        row = {"question": f"Article {i // 2}.", "answer": f"Text {i}, of it.", "rating": grade}
        rows.append(row | {"llm score": max(1, grade - i % 2), "word": "Pass" if grade > 2 else "Fail"})
    rows[7]["llm score"] = None
    write_table("graded.csv", rows)
    write_rows("graded.jsonl", rows)
    write_table("passed.csv", [row | {"rating": "pass" if row["rating"] > 3 else "fail"} for row in rows])
    write_rows("alone.jsonl", [{"text": row["answer"], "stars": row["rating"]} for row in rows])
    write_rows("shares.jsonl", [row | {"rating": row["rating"] / 7, "llm score": row["rating"] / 8} for row in rows])
    write_rows("plain.jsonl", [{"source": "A", "output": "B", "human": {"tone": row["rating"]}} for row in rows])
    return rows


def test_people_and_judge_in_one_file_end_in_a_verdict(judgebench, graded):
    _, out, _ = judgebench("data.path=graded.csv", "human=rating", "judge=llm score", *QUICK)
    assert "judge=replay" in settings(out)
    assert "ranges=[[1,5]]" in settings(out)
    assert "people's labels: 'rating' of quality, on [1,5] (human=COLUMN, data.scale=[WORST,BEST])" in out
    assert "order texts      " in out
    assert re.search(r"Examples without a row, left out: 1 \(line-[89]\)", out)
    scores = RunFolder.open("run").read("scores")
    expected = [row["llm score"] for row in graded if row["llm score"] is not None]
    assert list(scores["score"]) == expected
    # the command that it stands for is the same run
    _, again, _ = judgebench(*settings(out), "run_dir=again")
    assert "This stands for" not in again
    assert RunFolder.open("again").read("scores").equals(scores)


def test_words_of_the_judge_meet_those_of_people_and_scores_between_are_on_the_narrowest_usual_scale(
    judgebench, graded
):
    _, out, _ = judgebench("data.path=passed.csv", "human=rating", "judge=word", *QUICK)
    assert "ranges=[[Fail,Pass]]" in settings(out)
    assert "decide           " in out
    more = ("dry_run=true", *QUICK)
    _, out, _ = judgebench("data.path=shares.jsonl", "human=rating", "judge='llm score'", *more)
    assert "ranges=[[0,1]]" in settings(out)
    assert "range [0,1], the narrowest usual one that holds its scores (" in out
    assert not [override for override in settings(out) if override.startswith("data.scale")]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("graded.csv human=rating", ["data.scale=[1,5]", "ranges=[[1,5]]", "prompt.variants={quality: overall}"]),
        ("passed.csv human=rating", ["ranges=[[fail,pass]]", "data.fields.human={quality: rating}"]),
        ("alone.jsonl", ["data.fields.source=text", "data.rubrics=text", "data.fields.human={quality: stars}"]),
        ("plain.jsonl", ["data.scale=[1,5]", "prompt.variants={tone: overall}"]),
        ("shares.jsonl human=rating dimensions=[tone]", ["data.fields.human={tone: rating}"]),
    ],
)
def test_a_file_alone_is_a_command(judgebench, graded, tiny_pair, command, expected):
    asked = ("judge=local", f"judge.path={tiny_pair[0]}", "dry_run=true")
    _, out, _ = judgebench(*f"data.path={command}".split(), *asked, *QUICK)
    assert set(expected) <= set(settings(out))
    assert ("range [1,5], as labels have no plain scale (" in out) == command.startswith("shares")


def test_a_rubric_is_a_few_words(judgebench, graded, tiny_pair):
    asked = ("judge=local", f"judge.path={tiny_pair[0]}", "dry_run=true")
    _, out, _ = judgebench("data.path=alone.jsonl", "rubric=Is it funny, or not?", *asked, *QUICK)
    assert "Is it funny, or not?\n\nText 0, of it.\n\nAnswer from 1 (the worst) to 5 (the best)." in out
    assert "variants" not in out
    whole = "rubric=Rate {{Summary}} by {{Document}} from {min_range} to {max_range}."
    _, out, _ = judgebench("data.path=graded.csv", "human=rating", whole, *asked, *QUICK)
    assert "Rate Text 0, of it. by Article 0. from 1 to 5." in out


def test_in_python_it_is_the_same(judgebench, graded):
    results = package.run(["data.path=graded.jsonl", "human=rating", "judge=llm score", *QUICK])
    assert len(results.frame("scores")) == 39


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("data.path=graded.csv human=grade", "human=grade: graded.csv has no column 'grade'"),
        ("data.path=graded.csv human=rating judge=gemma", "judge=gemma: graded.csv has no column 'gemma'"),
        ("data.path=graded.csv judge=gemma", "has no column 'gemma'"),
        ("human=rating", "human=rating: a column of your own file; name the file with data.path=FILE"),
        ("data=mini data.path=graded.csv human=rating", "human=rating: a column of your own file"),
        (
            "data.path=twice.jsonl",
            "give human=rating judge=label, or human=label judge=rating, or 'human=[rating,label]' where each",
        ),
        ("data.path=raters.jsonl judge=judge", "each row is what one rater gave (column 'annotator')"),
        ("data.path=none.jsonl", "no column looks like people's labels; name it with human=COLUMN"),
        ("data.path=none.jsonl human=x output=none", "looks like the judged texts"),
        ("data.path=far.jsonl judge=judge", "the judge's answers, as '0', '20', '40', are on no usual scale"),
    ],
)
def test_what_cannot_be_told_is_asked_for_by_name(judgebench, graded, command, sentence):
    write_rows("twice.jsonl", [row | {"label": 3} for row in graded])
    write_rows("raters.jsonl", [row | {"annotator": "ab"[i % 2], "judge": 3} for i, row in enumerate(graded)])
    write_rows("none.jsonl", [{"output": "A text.", "x": "One sentence that is longer than any label may be."}])
    write_rows("far.jsonl", [row | {"judge": 20 * i} for i, row in enumerate(graded)])
    code, _, err = judgebench(*command.split(), *QUICK, mistaken=True)
    assert (code, "Traceback" in err) == (2, False)
    assert sentence in err


def test_an_explicit_command_stays_as_it_is(graded):
    for command in (
        ["data=jsonl", "data.path=graded.csv", "judge=replay", "judge.path=answers.jsonl"],
        ["+exp=tables/cd", "data.path=graded.csv"],
        ["-m", "+exp=demo", "metrics.seed=1,2"],
    ):
        assert written_out(command) == (command, [])


def test_a_dimension_is_the_name_of_its_column_where_that_says_one():
    names = ["label", "Human's label", "human_score", "humanRating", "human_1", "rating_a", "quality"]
    assert {dimension_of([name]) for name in names} == {dimension_of(["ann", "ben"])} == {"quality"}
    assert dimension_of(["human_coherence"]) == dimension_of(["Coherence score"]) == "coherence"


def test_ranges_of_labels():
    known = {
        ("[1,5]", True): [1, "2", 3.0, [4, 5]],
        ("[0,1]", False): [0.2, 0.7],
        ("[0,1]", True): ["0", "1"],
        ("[1,10]", False): [1, 2, 8],
        ("[no,Yes]", True): ["Yes", "no", {"ann": "no"}],
        ("['False','True']", True): [True, False],
    }
    for (text, whole), labels in known.items():
        found = label_range(labels)
        assert (str(found), found.whole) == (text, whole)
    assert label_range(["good", "fair"]) is label_range([1, 1000]) is None


def test_a_name_that_fits_no_text_is_not_taken(graded):
    from judgebench.data.rows import FileRow

    rows = [FileRow({"input": {"a": 1}, "prompt": "P", "output": "O", "id": "same"}, "", i) for i in range(2)]
    found = table_columns("f", rows, {})
    assert (found.source, found.output, found.id) == ("prompt", "output", None)
    with pytest.raises(UserError, match="no row"):
        table_columns("f", [], {})


def test_grades_of_which_1_is_the_best_end_in_the_figures_of_those_turned_round(judgebench, graded):
    """Of a table as Excel writes it in Germany, with columns in German."""
    head = "Eingabe;Ausgabe;Note;Urteil\n"
    for name, turned in (("noten.csv", 6), ("upwards.csv", 0)):
        lines = []
        for row in graded:
            grade, said = row["rating"], row["llm score"] or 3
            values = (abs(turned - grade), abs(turned - said))
            lines.append(f"{row['question']};{row['answer']};{values[0]};{values[1]},0")
        Path(name).write_text("\ufeff" + head + "\n".join(lines), encoding="utf-8")
    judgebench("data.path=upwards.csv", *QUICK[:-1], "run_dir=up")
    _, out, _ = judgebench("data.path=noten.csv", "data.scale=[5,1]", *QUICK)
    assert "ranges=[[5,1]]" in settings(out)
    assert "Of people's scores of quality 1 is the best" in " ".join(out.split())
    one, two = (RunFolder.open(folder).read("metrics") for folder in ("up", "run"))
    for up, down in zip(one, two, strict=True):
        assert (up["spearman"], up["kendall"]) == (down["spearman"], down["kendall"])
    assert RunFolder.open("run").read("about")["reversed"] == ["quality"]
    # only the judge's turned round: the run names the settings that mend it
    _, out, _ = judgebench("data.path=noten.csv", "ranges=[[5,1]]", *QUICK[:-1], "run_dir=against")
    said = " ".join(out.split())
    assert "against the humans' order. If 1 is people's best score, give data.scale=[5,1]" in said
    assert "; if 5 is the judge's, ranges=[[1,5]]" in said
    # people's labels are words, and the judge's scores have a step
    rows = [row | {"word": row["word"].lower(), "llm score": 60 - 10 * row["rating"]} for row in graded]
    write_rows("words.jsonl", rows)
    known = ("human=word", "judge=llm score", "ranges=[[10,50,10]]", *QUICK[:-1])
    _, out, _ = judgebench("data.path=words.jsonl", *known, "run_dir=words")
    said = " ".join(out.split())
    assert (
        "If fail is people's best score, give data.classes=[pass,fail]; if 10 is the judge's, ranges=[[50,10,10]]"
        in said
    )


def test_a_page_shows_texts_on_the_scale_as_people_know_it(judgebench, graded):
    """Where not all are rated, too."""
    rows = [row | {"rating": None if i < 4 else 6 - row["rating"], "llm": i % 6} for i, row in enumerate(graded)]
    write_rows("falling.jsonl", rows)
    known = ("human=rating", "judge=llm", "data.scale=[5,1]", "ranges=[[0,5]]")
    judgebench("data.path=falling.jsonl", *known, *QUICK)
    shown = looks(Results.load("run"))
    people = {f"line-{i}": row["rating"] for i, row in enumerate(rows, start=1)}
    for one in shown[:WORST]:
        assert float(one["human"]) == people[one["example"]]
        assert one["why"] == f"judge {'higher' if float(one['judge']) > float(one['human']) else 'lower'}"


def test_estimates_of_a_card_are_on_the_scale_as_people_know_it(judgebench, graded, called):
    rows = [row | {"rating": 6 - row["rating"]} for row in graded]
    write_rows("falling.jsonl", rows)
    known = ("judge=llm score", "human=rating", "ranges=[[1,5]]", *QUICK[:-1])
    paths = []
    for name, ends in (("graded", "[1,5]"), ("falling", "[5,1]")):
        called(calibrate, f"data.path={name}.jsonl", *known, f"data.scale={ends}", f"run_dir={name}")
        card = JudgeCard.read(f"{name}/judge_card.yaml")
        assert (card.scale, card.reversed) == ((1, 5), name == "falling")
        assert f"scale: [{'5.0, 1.0' if card.reversed else '1.0, 5.0'}]" in Path(name, "judge_card.yaml").read_text()
        fields = "data.fields={source: question, output: answer}"
        to = f"out={name}.csv"
        words = (f"card={name}/judge_card.yaml", f"data.path={name}.jsonl", fields, to)
        called(score, *words, f"+judge.path={name}.jsonl")
        paths.append(Path(f"{name}.csv"))
    up, down = (list(csv.DictReader(path.open())) for path in paths)
    for one, other in zip(up, down, strict=True):
        for end, turned in (("estimate", "estimate"), ("low", "high"), ("high", "low")):
            assert one[end] == other[turned] == "" or float(one[end]) == pytest.approx(6 - float(other[turned]))
        assert not other["low"] or float(other["low"]) <= float(other["high"])


def test_answers_without_names_are_never_given_to_other_texts_because_they_are_as_many(judgebench, graded, called):
    known = ("judge=llm score", "human=rating", "ranges=[[1,5]]", "data.scale=[1,5]", *QUICK)
    _, out, _ = called(calibrate, "data.path=graded.csv", *known)
    assert "judgebench score card=run/judge_card.yaml data.path=graded.csv source=question" in out
    others = [{"question": f"Another {i}?", "answer": f"A new text {i}."} for i in range(len(graded))]
    write_table("others.csv", others)
    words = ("card=run/judge_card.yaml", "data.path=others.csv", "out=scores.csv")
    code, _, err = called(score, *words, "data.fields={source: question, output: answer}", mistaken=True)
    assert (code, Path("scores.csv").exists()) == (2, False)
    assert "the answers in graded.csv name no texts" in err
    assert "as +judge.path=FILE" in err
    # its columns are found
    write_rows("answers.jsonl", [{"llm score": 1 + i % 5} for i in range(len(others))])
    called(score, *words, "+judge.path=answers.jsonl")
    scores = [float(row["score"]) for row in csv.DictReader(Path("scores.csv").read_text().splitlines())]
    assert scores == [1 + i % 5 for i in range(len(others))]


def test_a_column_that_looks_as_if_it_were_the_judges_is_named_where_nothing_is_taken_from_it():
    rows = [{"Frage": f"F{i}?", "Antwort": f"A{i}.", "Modell": "abc"[i % 3]} for i in range(30)]
    write = [FileRow(row | {"judge_score": f"{i}.5 %", "note": 1 + i % 6}, "", i) for i, row in enumerate(rows)]
    columns = table_columns("x.csv", write, {}, "human")
    assert (columns.system, columns.judge, columns.unused) == ("Modell", None, ["judge_score"])


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        (
            [{"answer": "A.", "score": 3}],
            ["whether people or a judge gave 'score'", "x.jsonl human=score. Where a judge"],
        ),
        ([{"answer": "A.", "human": 1, "label": 3}], ["gave 'label'", "x.jsonl human=human judge=label"]),
        ([{"messages": [{"content": "A."}], "liked": True}], ["output=messages.-1.content source=messages.-2.content"]),
        (
            [{"prompt": "Q", "response_a": "A.", "response_b": "B.", "winner": "A"}],
            ["+exp=pairwise data=jsonl_pairs", "{source: prompt, first: response_a, second: response_b, preference: "],
        ),
        (
            [{"answer": "A.", "rating": "3,5", "llm": 3}],
            ["x.jsonl line 1: field 'rating' must be a number with a decimal point (commas are read in tables"],
        ),
        ([{"answer": "A.", "rater1": 3, "rater_2": 4}], ["'human=[rater1,rater_2]' where each is what one person"]),
    ],
)
def test_what_a_newcomer_has_is_asked_for_with_the_words_to_give(judgebench, rows, sentences):
    write_rows("x.jsonl", rows)
    code, _, err = judgebench("data.path=x.jsonl", *QUICK, mistaken=True)
    assert code == 2
    for sentence in sentences:
        assert sentence in err


def test_who_names_no_card_is_told_how_to_get_one_and_which_lies_here(judgebench, called):
    write_rows("x.jsonl", [{"source": "Q", "output": "A."}])
    _, _, err = called(score, "data.path=x.jsonl", mistaken=True)
    assert "python -m judgebench calibrate, with the words of the run" in err
    assert "latest" not in err
    for day in ("2026-01-02", "2026-01-03"):
        Path("outputs/calibrate", day).mkdir(parents=True)
        Path("outputs/calibrate", day, "judge_card.yaml").write_text("")
    _, _, err = called(gate, "data=jsonl", mistaken=True)
    assert "the latest here is card=outputs/calibrate/2026-01-03/judge_card.yaml" in err


PRINTED = r"(?m)(?:, as|stands for:) (python -m judgebench\S* .*)$"


@pytest.mark.parametrize("judge", ['it\'s; "güt" $5', "judge_${model}"])
def test_calibrate_gate_and_score_are_three_commands_each_as_the_one_before_printed_it(graded, called, judge):
    """Without a refusal; the long form of each is the same."""
    rows = [{name.replace("llm score", judge): value for name, value in row.items()} for row in graded]
    write_table("my file.csv", [row | {"ticket": f"t{i}"} for i, row in enumerate(rows)])
    _, out, _ = called(calibrate, "data.path=my file.csv", "human=rating", f"judge={judge}", "id=ticket", *QUICK)
    to_score, to_gate = (shlex.split(line) for line in re.findall(r", as (python -m .*)$", out, re.MULTILINE))
    assert (to_gate[3], to_score[3]) == ("gate", "score")
    _, out, _ = called(gate, *to_gate[4:], "report=false", "run_dir=gated")
    long = shlex.split(re.search(PRINTED, out)[1])
    assert "Gate: passed." in out
    _, again, _ = called(gate, *long[4:], "run_dir=again")
    assert "This stands for" not in again
    assert "Gate: passed." in again
    assert shlex.split(re.findall(r", as (python -m .*)$", out, re.MULTILINE)[0]) == to_score
    _, out, _ = called(score, *to_score[4:])
    scores = read_rows("scores.jsonl")
    expected = [(f"t{i}", row["llm score"]) for i, row in enumerate(graded) if row["llm score"] is not None]
    assert [(row["example_id"], row["score"]) for row in scores] == expected


def test_a_page_for_labels_finds_the_same_columns(graded, called):
    _, out, _ = called(label, "graded.csv", "out=label.html")
    assert "Text 3, of it." in Path("label.html").read_text()
    assert "data.fields.output=answer" in out
    called(label, "graded.csv", "output=question", "out=other.html")
    assert "Text 3, of it." not in Path("other.html").read_text()


def test_a_gate_names_the_column_that_is_not_there(graded, called):
    called(calibrate, "data.path=graded.csv", "human=rating", "judge=llm score", *QUICK)
    code, _, err = called(gate, "card=run/judge_card.yaml", "data.path=graded.csv", "human=grade", mistaken=True)
    assert (code, "human=grade: graded.csv has no column 'grade'" in err) == (2, True)


def test_a_dry_run_counts_what_is_stored(judgebench, graded, tiny_pair):
    asked = ("data.path=graded.csv", "human=rating", "judge=local", f"judge.path={tiny_pair[0]}", "decoding=[greedy]")
    _, out, _ = judgebench(*asked, "data.limit_groups=5", "dry_run=true", *QUICK)
    assert not Path("outputs").exists(), "a dry run makes no store"
    judgebench(*asked, "data.limit_groups=5", *QUICK)
    _, out, _ = judgebench(*asked, "dry_run=true", *QUICK)
    assert "Readings: 40; stored: 10; to be read: 30." in out


def test_the_gates_words_say_what_labels_are_and_the_scores_do_not():
    fields = {"source": "source", "output": "output", "human": "human"}
    data = {"path": "d.jsonl", "labels": None, "fields": fields, "classes": ["B", "tie", "A"], "pass_from": "A"}
    config = OmegaConf.create({"data": data})
    assert file_words(config) == ["data.path=d.jsonl", "data.classes=[B,tie,A]", "data.pass_from=A"]
    assert file_words(config, labelled=False) == ["data.path=d.jsonl"]
