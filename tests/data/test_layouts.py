"""Published data sets: each is read in the layout of its original file, of which these are invented excerpts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from judgebench.components import build_component
from judgebench.runtime.errors import UserError

CONF = Path(__file__).resolve().parents[2] / "conf"
NAN = np.nan


def opened(name, path, *overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(f"data/{name}", [f"data.path='{path}'", *overrides]).data
    data = build_component(config)
    data.setup()
    return data


def texts(data):
    return [(example.system_id, example.output, dict(example.human)) for example in data.examples]


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def test_conala_has_a_column_a_system_and_grades_by_name(tmp_path):
    row = {
        "intent": "reverse list `x`", "snippet": ["x[::-1]", "list(reversed(x))"], "baseline": "x.flip()",
        "tranx-annot": "x", "best-tranx": " ", "best-tranx-rerank": "x[0]", "codex": "x[::-1]",
        "grade-snippet": {"ann": 4, "ben": 4}, "grade-baseline": {"carl": 0, "ann": 1}, "grade-tranx-annot": {"ben": 0},
        "grade-best-tranx": {"ann": 2}, "grade-codex": {"ben": 3, "carl": 4},
    }  # fmt: skip
    data = opened("conala", write(tmp_path, {"conala-human-grades.json": [row]}))
    assert texts(data) == [
        ("baseline", "x.flip()", {"quality": 0.5}),
        ("tranx-annot", "x", {"quality": 0}),
        ("codex", "x[::-1]", {"quality": 3.5}),
        ("snippet", "x[::-1]", {"quality": 4}),
    ]
    assert data.raters == ("carl", "ann", "ben")
    np.testing.assert_array_equal(data.ratings["quality"], [[0, 1, NAN], [NAN, NAN, 0], [4, NAN, 3], [NAN, 4, 4]])
    assert data.note == (
        "2 rows are left out, the first because of this: conala-human-grades.json entry 1: the judged text is empty."
    )
    assert data.scale == {"quality": (0, 4)}
    assert {example.example_id.split("/")[1] for example in data.examples} == {e.system_id for e in data.examples}


def test_mohler_has_a_column_a_grader_and_counts_students_within_a_question(tmp_path):
    table = (
        "id,question,desired_answer,student_answer,score_me,score_other,score_avg\n"
        '1.1,What is a stack?,"Last in, first out.",A pile.,2,3.5,2.75\n'
        '1.1,What is a stack?,"Last in, first out.","A list.\nFirst in, last out.",5,5,5\n'
        "1.2,What is a queue?,First in first out.,A line.,,4,4\n"
        "1.2,What is a queue?,First in first out.,,4,4,4\n"
    )
    data = opened("mohler", write(tmp_path, {"mohler_dataset_edited.csv": table}))
    assert [example.example_id for example in data.examples] == ["1.1/student1", "1.1/student2", "1.2/student1"]
    assert data.examples[1].output == "A list.\nFirst in, last out."
    assert data.examples[0].context == "Last in, first out."
    assert data.raters == ("score_me", "score_other")
    np.testing.assert_array_equal(data.ratings["correctness"], [[2, 3.5], [5, 5], [NAN, 4]])


def test_ghosts_has_a_folder_a_model_and_leaves_out_prompts_that_are_not_printed(tmp_path):
    first = [
        {"prompt": "Define 0.", "output": "Nothing.", "rating": "5"},
        [{"prompt": "", "output": "An answer.", "rating": "2"}],
        {"prompt": "Define 1.", "output": "One.", "rating": "not rated"},
    ]
    second = [{"prompt": "Define 0.", "output": "The unit of addition.", "rating": "4"}]
    data = opened("ghosts", write(tmp_path, {"dataset_9jan/Defs.json": first, "miniGHOSTS_gpt4/Defs.json": second}))
    assert texts(data) == [
        ("dataset_9jan", "Nothing.", {"correctness": 5}),
        ("miniGHOSTS_gpt4", "The unit of addition.", {"correctness": 4}),
    ]
    assert len({example.group_id for example in data.examples}) == 1
    assert data.ratings == {}
    assert data.note is not None
    assert data.note.startswith("2 rows are left out")


def test_mlqe_has_a_folder_a_language_pair_unquoted_tabs_and_scores_as_text(tmp_path):
    head = "index\toriginal\ttranslation\tscores\tmean\n"
    files = {
        "et-en/test20.eten.df.short.tsv": f'{head}0\t"Tere\t"Hello there\t[90, 95, 100]\t95.0\n',
        "en-de/test20.ende.df.short.tsv": f"{head}0\tA cat.\tEine Katze.\t[0, 50]\t25.0\n",
        "en-de/test20.doc_ids": "a list of something else\n",
    }
    data = opened("mlqe", write(tmp_path, files))
    assert texts(data) == [("en-de", "Eine Katze.", {"quality": 25}), ("et-en", '"Hello there', {"quality": 95})]
    np.testing.assert_array_equal(data.ratings["quality"], [[0, 50, NAN], [90, 95, 100]])
    assert data.raters == ("1", "2", "3")


def test_grade_has_turns_that_become_lines_and_keeps_two_ratings_of_one_reply_apart(tmp_path):
    row = {"DialogModel": "ranker", "Context": "Hi .|||Hello !", "Response": "How are you ?", "HumanScores": "[3, 5]"}
    rows = [row, {**row, "HumanScores": "[1, 2, 3]"}, {**row, "DialogModel": "generator", "Response": "Fine ."}]
    data = opened("grade", write(tmp_path, {"human_judgement.json": rows}))
    assert {example.source for example in data.examples} == {"Hi .\nHello !"}
    group = data.examples[0].group_id
    assert [example.example_id for example in data.examples] == [
        f"{group}/ranker", f"{group}/ranker#2", f"{group}/generator"
    ]  # fmt: skip
    assert [example.human["coherence"] for example in data.examples] == [4, 2, 4]


def test_openmeva_has_stories_and_scores_inside_a_field(tmp_path):
    made = {"fusion": {"text": "It rained .", "score": {"human": 2.2, "meteor": 0.1}},
            "s2s": {"text": "It .", "score": {"human": 1.0}}}  # fmt: skip
    rows = [{"doc_id": "125", "prompt": "It was late .", "reference": "It was.", "gen": made}]
    data = opened("openmeva", write(tmp_path, {"openmeva.json": rows}))
    assert texts(data) == [("fusion", "It rained .", {"overall": 2.2}), ("s2s", "It .", {"overall": 1.0})]
    assert [example.example_id for example in data.examples] == ["125/fusion", "125/s2s"]


LENS = (
    "WorkerId,Input.id,Input.original,Input.simplified,Input.system,Answer.adequacy,Answer.fluency,Answer.simplicity\n"
)


def test_lens_has_a_row_a_rater_and_two_scales_of_the_same_texts(tmp_path):
    short = (
        f"{LENS}0,40,A long one.,Short.,T5,5,4,-2\n3,40,A long one.,Short.,T5,4,4,1\n0,41,Other.,Its text.,T5,1,1,1\n"
    )
    long = f"{LENS}7,40,A long one.,Short.,T5,100,90,80\n0,40,A long one.,Short.,T5,50,70,60\n"
    data = opened("lens", write(tmp_path, {"simplikert_2022.csv": short, "simpDA_2022.csv": long}))
    (text,) = texts(data)
    assert text[2] == {
        "adequacy_100": 75, "fluency_100": 80, "simplicity_100": 70, "adequacy": 4.5, "fluency": 4, "simplicity": -0.5
    }  # fmt: skip
    assert data.raters == ("7", "0", "3")
    np.testing.assert_array_equal(data.ratings["adequacy"], [[NAN, 5, 4]])
    np.testing.assert_array_equal(data.ratings["simplicity_100"], [[80, 60, NAN]])
    assert data.note is not None
    assert "no row has a score for 'adequacy_100', 'fluency_100', 'simplicity_100' of this text" in data.note
    one = opened("lens", tmp_path / "simplikert_2022.csv")
    assert one.dimensions == ("adequacy", "fluency", "simplicity")
    assert one.scale["simplicity"] == (-2, 2)


def test_pandalm_names_both_models_in_one_field_and_has_three_annotators(tmp_path):
    row = {"cmp_key": "bloom-7b_llama-7b", "instruction": "Add.", "input": "1 1", "response1": "2", "response2": "11"}
    rows = [
        {**row, "annotator1": 1, "annotator2": 1, "annotator3": 0},
        {**row, "input": "", "response1": "Three.", "annotator1": 2, "annotator2": 0, "annotator3": 2},
        {**row, "response2": "", "annotator1": 1, "annotator2": 1, "annotator3": 1},
    ]
    data = opened("pandalm", write(tmp_path, {"testset-v1.json": rows}))
    assert [example.source for example in data.examples] == ["Add.\n\n1 1", "Add."]
    assert [(e.system_id, e.rival_system_id) for e in data.examples] == [("bloom-7b", "llama-7b")] * 2
    assert [example.human["overall"] for example in data.examples] == pytest.approx([2 / 3, -2 / 3])
    assert data.raters == ("annotator1", "annotator2", "annotator3")
    np.testing.assert_array_equal(data.ratings["overall"], [[1, 1, 0], [-1, 0, -1]])


def test_pairs_of_our_own_layout_have_votes_for_systems(tmp_path):
    row = {"group": "g", "source": "Add.", "outputs": {"a-7.5B": "2", "b": "11"}}
    votes = {"ann": "a-7.5B", "ben": "tie", "carl": "b"}, {"ann": "b", "ben": "b"}, {"ann": "c"}
    lines = "".join(json.dumps({**row, "votes": vote}) + "\n" for vote in votes)
    data = opened("pandalm", write(tmp_path, {"pairs_pandalm.jsonl": lines}))
    assert [example.human["overall"] for example in data.examples] == [0, -1]
    np.testing.assert_array_equal(data.ratings["overall"], [[1, 0, -1], [-1, -1, NAN]])
    assert "field 'votes.ann' must be one of" in str(data.note)


def test_llmbar_goes_round_in_two_layouts_and_several_files(tmp_path):
    own = [{"input": "Name a fruit.", "output_1": "Apple.", "output_2": "Fruits are sweet.", "label": 1}]
    inner = {"input": "Name a fruit.", "output_a": "Apple.", "output_b": "Pear pear pear."}
    schema = {"annotations": [], "instances": [
        {"id": "N_0", "instance": inner, "annotations": {"quality_single_turn": {"majority_human": "model_b"}}}
    ]}  # fmt: skip
    files = {"Natural/dataset.json": own, "Adversarial/Manual/dataset.json": own, "data-natural.json": schema}
    data = opened("llmbar", write(tmp_path, files))
    assert [(example.example_id, example.human["overall"]) for example in data.examples] == [
        ("Adversarial/Manual/dataset/line-1", 1), ("Natural/dataset/line-1", 1), ("data-natural/line-1", -1)
    ]  # fmt: skip


def test_judgebench_pairs_have_labels_with_a_sign(tmp_path):
    row = {"question": "1 + 1?", "response_A": "2", "response_B": "3"}
    lines = "".join(json.dumps({**row, "pair_id": i, "label": label}) + "\n" for i, label in enumerate(["A>B", "B>A"]))
    data = opened("judgebench_pairs", write(tmp_path, {"dataset=judgebench,response_model=gpt.jsonl": lines}))
    assert [(example.example_id, example.human["overall"]) for example in data.examples] == [("0", 1), ("1", -1)]


def test_a_file_of_another_name_is_read_in_the_layout_that_its_rows_fit(tmp_path):
    own = {"group": "g", "system": "s", "source": "Do it.", "output": "done()", "ratings": {"quality": {"ann": 3}}}
    data = opened("conala", write(tmp_path, {"mine.jsonl": json.dumps(own)}) / "mine.jsonl")
    assert texts(data) == [("s", "done()", {"quality": 3})]
    with pytest.raises(
        UserError, match=r"other.json entry 1: field 'grade-baseline' is missing|field 'intent' is miss"
    ):
        opened("conala", write(tmp_path, {"other.json": [{"code": "x"}]}) / "other.json")


def test_missing_data_is_told_with_its_public_source(tmp_path):
    source = (
        r"data/to-grade/conala/conala-human-grades.json of https://github.com/JetBrains-Research/codegen-metrics \(lic"
    )
    for path, sentence in (
        ("", "data.path is not given; it must be "),
        (tmp_path / "none.json", "there is no such file; data.path must be "),
        (tmp_path, "this folder has no file conala-human-grades.json or code_conala.jsonl; data.path must be "),
    ):
        with pytest.raises(UserError, match=f"{sentence}{source}"):
            opened("conala", path)


SHARED = {  # file -> data set, rows that are read, groups, raters
    "code_conala": ("conala", 1698 - 2, 283, 16),
    "translation_mlqe": ("mlqe", 4200, 4200, 6),
    "grading_mohler": ("mohler", 1379, 49, 2),
    "dialogue_grade": ("grade", 724, 332, 11),
    "maths_ghosts": ("ghosts", 635, 288, 0),  # 7 of its 281 names of groups, cut short, stand for two prompts
    "story_openmeva": ("openmeva", 600, 120, 0),
    "simplification_lens": ("lens", 216, 36, 13),
    "pairs_pandalm": ("pandalm", 600 - 48, 98, 3),  # where an answer is empty or no text, there is nothing to compare
}


@pytest.mark.parametrize("file", SHARED)
def test_the_whole_file(file, shared_file):
    name, rows, groups, raters = SHARED[file]
    data = opened(name, shared_file(f"tasks/{file}.jsonl"))
    assert len(data.examples) == rows
    assert len({example.group_id for example in data.examples}) == groups
    assert len(data.raters) == raters
    assert set(data.asked["dimensions"]) <= set(data.dimensions)
    of_folder = opened(name, Path(shared_file(f"tasks/{file}.jsonl")).parent)
    assert Counter(e.example_id for e in of_folder.examples) == Counter(e.example_id for e in data.examples)
