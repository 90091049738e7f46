"""Judges that say pass, fail or how good, on 60 replies of a library's help desk whose labels are classes."""

import re
from pathlib import Path

import pytest

from judgebench.report.views.first import look_note, looks
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results

DESK = Path(__file__).parents[1] / "data" / "help_desk.jsonl"
"""12 questions with 5 replies each. Labels of ann, of half of the replies ben's, of a quarter cem's: words (`human`,
`fit`), 0 or 1 (`right`), `grades` of 1 to 5, and the class `kind`, which has no order. Answers of a lenient judge:
`answer` of 0 to 100, `answer_word` and `answer_kind`."""

GRADED = ("judge.fields.text=answer", "ranges=[[0,100]]")


@pytest.fixture
def decided(judgebench):
    """Runs the judge on labels of a field -> what it prints, in one line, and the folder."""

    def run(labels, *more):
        data = ("data=jsonl", f"data.path={DESK}", f"data.fields.human={{quality: {labels}}}")
        judge = ("judge=replay", f"judge.path={DESK}")
        quick = ("logger=none", "metrics.resamples=50", "run_dir=run", "report=false")
        _, out, _ = judgebench(*data, *judge, *quick, *more)
        return " ".join(out.split()), RunFolder.open("run")

    return run


def marks(folder):
    return {record["mark"]: record for record in folder.read("decisions")}


def test_a_run_says_what_the_judge_decides_from_which_score_and_what_people_see(decided):
    out, folder = decided("human.quality", *GRADED, "ask.error=0.1", "report=true")
    assert re.search(
        r"decide with care right on 97 % \[\d+, 100\] of texts that people pass \(a rater 95 %\) and 93 %", out
    )
    assert "pass from 68.5 on; " in out
    assert re.search(r"ask a person sees 12 % of the texts; of the others 1.9 % are wrong, at most \d.\d %", out)
    assert "99 % [98, 100] of pairs with different labels in order" in out  # two labels: not Spearman
    said, chosen = (marks(folder)[mark] for mark in ("as said", "chosen mark"))
    assert (said["pass_mark"], chosen["pass_mark"]) == (50, 68.5)
    assert said["tnr"] < chosen["tnr_low"] < chosen["tnr"] < chosen["tpr"] < said["tpr"] == 1
    assert chosen["fail_to"] < chosen["pass_from"]
    assert chosen["ask_error"] < chosen["ask_error_high"] <= 0.1
    verdicts = {record["use"]: record for record in folder.read("verdict")}
    assert next(iter(verdicts)) == "decide"
    assert verdicts["decide"]["value"] == pytest.approx(chosen["tpr"])  # farther below its bar than the TNR
    assert "Pass, fail, or ask a human?" in Path("run/report.html").read_text()


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        ("human.quality", ()),
        ("right", ()),
        ("fit", ()),
        ("fit", ("data.classes=[no,yes]",)),
        ("grades", ("data.pass_from=4",)),
    ],
)
def test_words_numbers_and_grades_with_a_mark_are_the_same_labels(decided, labels, more):
    chosen = marks(decided(labels, *GRADED, "costs.threshold=68.5", *more)[1])["chosen mark"]
    # a text counts once, and in parts where its raters differ
    assert chosen["matrix"] == [pytest.approx([25, 11 / 6]), pytest.approx([1, 193 / 6])]
    assert chosen["tpr"] == pytest.approx(193 / 199)
    assert chosen["tnr"] == pytest.approx(150 / 161)


def test_dear_mistakes_move_the_mark(decided):
    assert marks(decided("human.quality", *GRADED, "costs.false_pass=20")[1])["chosen mark"]["pass_mark"] == 74.5


def test_a_judge_that_says_pass_or_fail_has_its_own_mark(decided):
    out, folder = decided("human.quality", "judge.fields.text=answer_word", "ranges=[[fail,pass]]")
    said, chosen = marks(folder).values()
    assert said["pass_mark"] == chosen["pass_mark"]
    assert " 75 % [53, 88] of those that they fail (a rater 94 %)" in out


@pytest.mark.parametrize(
    ("judge", "mark", "at", "passes"),
    [
        (("judge.fields.text=answer_word", "ranges=[[fail,pass]]"), "pass", 2, True),
        (GRADED, "70", 70, True),
        (("judge.fields.text=answer", "ranges=[[100,0]]"), "30", 70, False),  # 30 or lower passes: the judge is turned
    ],
)
def test_a_mark_is_a_score_or_a_word_as_the_judge_says_it(decided, judge, mark, at, passes):
    out, folder = decided("human.quality", *judge, f"costs.threshold={mark}")
    chosen = marks(folder)["chosen mark"]
    assert (chosen["pass_mark"], chosen["tpr"] > 0.9) == (at, passes)
    assert re.search(rf"pass from {mark}( on|;| or lower)", out)


@pytest.mark.parametrize(
    ("judge", "mark", "right"),
    [
        (("judge.fields.text=answer_word", "ranges=[[fail,pass]]"), "70", "70 is no mark in range fail-pass"),
        (("judge.fields.text=answer_word", "ranges=[[fail,pass]]"), "fail", "which a text passes; give pass."),
        (GRADED, "700", "give a number above 0, up to 100."),
        (GRADED, "pass", "give a number above 0, up to 100."),
        (("judge.fields.text=answer", "ranges=[[100,0]]"), "100", "give a number below 100, down to 0."),
    ],
)
def test_a_mark_off_the_scale_is_refused(judgebench, judge, mark, right):
    data = ("data=jsonl", f"data.path={DESK}", "data.fields.human={quality: human.quality}")
    code, _, err = judgebench(
        *data, "judge=replay", f"judge.path={DESK}", *judge, f"costs.threshold={mark}", mistaken=True
    )
    assert code == 2
    assert right in err


@pytest.mark.parametrize(("costs", "first"), [((), "false pass"), (("costs.false_fail=5",), "false fail")])
def test_the_texts_to_look_at_are_mistakes_of_both_kinds_in_words_the_dearer_first(decided, costs, first):
    decided("human.quality", *GRADED, "costs.threshold=71", *costs)
    results = Results.load("run")
    rows = looks(results)
    wrong = [row for row in rows if row["wrong"]]
    assert [row["why"] for row in wrong] == sorted((row["why"] for row in wrong), reverse=first == "false pass")
    assert {row["why"]: (row["judge"], row["human"]) for row in wrong} == {
        "false pass": ("pass", "fail"),
        "false fail": ("fail", "pass"),
    }
    assert all(row["judge"] == row["human"] for row in rows if not row["wrong"])
    matrix = marks(RunFolder.open("run"))["chosen mark"]["matrix"]
    passes, fails = wrong[0]["counts"]["false pass"], wrong[0]["counts"]["false fail"]
    assert (abs(passes - matrix[0][1]) < 1, abs(fails - matrix[1][0]) < 1) == (True, True)
    assert f"makes {passes} false pass and {fails} false fails." in look_note(results)


def test_a_judge_of_words_has_no_number_among_the_texts_to_look_at(decided):
    out, _ = decided("human.quality", "judge.fields.text=answer_word", "ranges=[[fail,pass]]")
    assert "Let it decide with care: it passes 25 % [12, 47] of the texts that people fail. Mistakes stay" in out
    rows = looks(Results.load("run"))
    assert {row["why"] for row in rows} == {"false pass", "at random"}  # it makes no other mistake
    assert {(row["judge"], row["raw"]) for row in rows} <= {("pass", ""), ("fail", "")}


def test_a_judge_that_may_not_decide_is_said_so_first_and_people_see_all(decided):
    words = ("judge.fields.text=answer_word", "ranges=[[fail,pass]]")
    out, _ = decided("human.quality", *words, "verdict.half_way=1")
    assert "Do not let it decide: it passes 25 % [12, 47] of the texts that people fail. A person must see all" in out
    assert "; with care from 92 and 91 " in out  # that of a rater, within the margin


def test_classes_without_order_have_a_matrix_and_no_ranks(decided):
    out, folder = decided(
        *("kind", "judge.fields.text=answer_kind", "ranges=[[answers,errs,evades]]", "data.nominal=true")
    )
    (record,) = folder.read("decisions")
    assert record["classes"] == ["answers", "errs", "evades"]
    assert sum(map(sum, record["matrix"])) == pytest.approx(60)
    assert record["kappa_low"] < record["kappa"] < record["kappa_high"]
    assert "its class is that of 92 % " in out
    assert not re.search("Spearman|order texts|pass from|decide ", out)
    assert not [row for row in folder.read("metrics") if row.get("spearman") is not None]
    assert not Path("run/verdict.json").exists()


@pytest.mark.parametrize(
    ("labels", "given", "right"),
    [
        ("human.quality", ("judge.fields.text=answer_word", "ranges=[[pass,fail]]"), "ranges=[[fail,pass]]"),
        (
            "kind",
            ("judge.fields.text=answer_kind", "ranges=[[evades,errs,answers]]", "data.nominal=true"),
            "answers,errs",
        ),
    ],
)
def test_words_in_another_order_than_the_classes_are_refused(judgebench, labels, given, right):
    data = ("data=jsonl", f"data.path={DESK}", f"data.fields.human={{quality: {labels}}}")
    code, _, err = judgebench(*data, "judge=replay", f"judge.path={DESK}", *given, mistaken=True)
    assert code == 2
    assert "ranges: the labels of 'quality' are " in err
    assert right in err
