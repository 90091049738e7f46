"""Published data sets: each is read in the layout of its original file, of which these are invented excerpts."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from judgebench.settings.components import build_component
from judgebench.words.errors import UserError

CONF = Path(__file__).resolve().parents[2] / "conf"
NAN = np.nan


def opened(name, path, *overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(f"data/{name}", [f"data.path='{path}'", *overrides]).data
    data = build_component(config)
    data.setup()
    return data


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def lines(*rows):
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def grade(system, text, scores):
    return {"DialogModel": system, "Context": "Hi .|||Hello !", "Response": text, "HumanScores": scores}


def panda(votes, **more):
    row = {"cmp_key": "bloom-7b_llama-7b", "instruction": "Add.", "input": "1 1", "response1": "2", "response2": "11"}
    return row | {f"annotator{i}": vote for i, vote in enumerate(votes, start=1)} | more


def voted(**votes):
    return {"group": "g", "source": "Add.", "outputs": {"a-7.5B": "2", "b": "11"}, "votes": votes}


CONALA = {
    "intent": "reverse list `x`", "snippet": ["x[::-1]", "list(reversed(x))"], "baseline": "x.flip()",
    "tranx-annot": "x", "best-tranx": " ", "best-tranx-rerank": "x[0]", "codex": "x[::-1]",
    "grade-snippet": {"ann": 4, "ben": 4}, "grade-baseline": {"carl": 0, "ann": 1}, "grade-tranx-annot": {"ben": 0},
    "grade-best-tranx": {"ann": 2}, "grade-codex": {"ben": 3, "carl": 4},
}  # fmt: skip
GHOSTS = [
    {"prompt": "Define 0.", "output": "Nothing.", "rating": "5"},
    [{"prompt": "", "output": "An answer.", "rating": "2"}],
    {"prompt": "Define 1.", "output": "One.", "rating": "not rated"},
]
STORIES = {"fusion": {"text": "It rained .", "score": {"human": 2.2, "meteor": 0.1}},
           "s2s": {"text": "It .", "score": {"human": 1.0}}}  # fmt: skip
LENS = "WorkerId,Input.id,Input.original,Input.simplified,Input.system,Answer.adequacy,Answer.fluency,Answer.simplicity"
FRUIT = {"input": "Name a fruit.", "output_1": "Apple.", "output_2": "Fruits are sweet.", "label": 1}
BENCH = {"id": "N_0", "instance": {"input": "Name a fruit.", "output_a": "Apple.", "output_b": "Pear pear pear."},
         "annotations": {"quality_single_turn": {"majority_human": "model_b"}}}  # fmt: skip
PAIR = {"question": "1 + 1?", "response_A": "2", "response_B": "3"}
MLQE = "index\toriginal\ttranslation\tscores\tmean"

# data set -> files; system, text and scores of each example; raters; dimension, ratings; rows that are left out
EXCERPTS = {
    "a column a system and grades by name": (
        "conala", {"conala-human-grades.json": [CONALA]},
        [("baseline", "x.flip()", [0.5]), ("tranx-annot", "x", [0]), ("codex", "x[::-1]", [3.5]),
         ("snippet", "x[::-1]", [4])],
        ("carl", "ann", "ben"), [[0, 1, NAN], [NAN, NAN, 0], [4, NAN, 3], [NAN, 4, 4]],
        "2 rows are left out, the first because of this: conala-human-grades.json entry 1: the judged text is empty.",
    ),
    "a column a grader, students are counted within a question": (
        "mohler",
        {"mohler_dataset_edited.csv": lines(
            "id,question,desired_answer,student_answer,score_me,score_other,score_avg",
            '1.1,What is a stack?,"Last in, first out.",A pile.,2,3.5,2.75',
            '1.1,What is a stack?,"Last in, first out.","A list.\nFirst in, last out.",5,5,5',
            "1.2,What is a queue?,First in first out.,A line.,,4,4", "1.2,What is a queue?,First in first out.,,4,4,4",
        )},
        [("student1", "A pile.", [2.75]), ("student2", "A list.\nFirst in, last out.", [5]),
         ("student1", "A line.", [4])],
        ("score_me", "score_other"), [[2, 3.5], [5, 5], [NAN, 4]], "1 row is left out",
    ),
    "a folder a model; prompts that are not printed are left out": (
        "ghosts",
        {"dataset_9jan/Defs.json": GHOSTS,
         "miniGHOSTS_gpt4/Defs.json": [{"prompt": "Define 0.", "output": "The unit.", "rating": "4"}]},
        [("dataset_9jan", "Nothing.", [5]), ("miniGHOSTS_gpt4", "The unit.", [4])], (), None, "2 rows are left out",
    ),
    "a folder a language pair, unquoted tabs and scores as text": (
        "mlqe",
        {"et-en/test20.eten.df.short.tsv": lines(MLQE, '0\t"Tere\t"Hello there\t[90, 95, 100]\t95.0'),
         "en-de/test20.ende.df.short.tsv": lines(MLQE, "0\tA cat.\tEine Katze.\t[0, 50]\t25.0"),
         "en-de/test20.doc_ids": "a list of something else\n"},
        [("en-de", "Eine Katze.", [25]), ("et-en", '"Hello there', [95])],
        ("1", "2", "3"), [[0, 50, NAN], [90, 95, 100]], None,
    ),
    "two ratings of one reply are kept apart": (
        "grade",
        {"human_judgement.json": [grade("ranker", "How are you ?", "[3, 5]"),
                                  grade("ranker", "How are you ?", "[1, 2, 3]"), grade("generator", "Fine .", "[4]")]},
        [("ranker", "How are you ?", [4]), ("ranker", "How are you ?", [2]), ("generator", "Fine .", [4])],
        ("1", "2", "3"), [[3, 5, NAN], [1, 2, 3], [4, NAN, NAN]], None,
    ),
    "scores inside a field": (
        "openmeva",
        {"openmeva.json": [{"doc_id": "125", "prompt": "It was late .", "reference": "It was.", "gen": STORIES}]},
        [("fusion", "It rained .", [2.2]), ("s2s", "It .", [1.0])], (), None, None,
    ),
    "a row a rater and two scales of the same texts": (
        "lens",
        {"simplikert_2022.csv": lines(LENS, "0,40,A long one.,Short.,T5,5,4,-2", "3,40,A long one.,Short.,T5,4,4,1",
                                      "0,41,Other.,Its text.,T5,1,1,1"),
         "simpDA_2022.csv": lines(LENS, "7,40,A long one.,Short.,T5,100,90,80", "0,40,A long one.,Short.,T5,50,70,60")},
        [("T5", "Short.", [75, 80, 70, 4.5, 4, -0.5])],
        ("7", "0", "3"), [[100, 50, NAN]],
        "1 row is left out, the first because of this: simplikert_2022.csv line 4: no row has a score for "
        "'adequacy_100', 'fluency_100', 'simplicity_100' of this text.",
    ),
    "both models in one field and three annotators": (
        "pandalm",
        {"testset-v1.json": [panda([1, 1, 0]), panda([2, 0, 2], input="", response1="Three."),
                             panda([1, 1, 1], response2="")]},
        [("bloom-7b", "2", [2 / 3]), ("bloom-7b", "Three.", [-2 / 3])],
        ("annotator1", "annotator2", "annotator3"), [[1, 1, 0], [-1, 0, -1]], "1 row is left out",
    ),
    "votes for systems": (
        "pandalm",
        {"pairs_pandalm.jsonl": lines(
            voted(ann="a-7.5B", ben="tie", carl="b"), voted(ann="b", ben="b"), voted(ann="c"))},
        [("a-7.5B", "2", [0]), ("a-7.5B", "2", [-1])],
        ("ann", "ben", "carl"), [[1, 0, -1], [-1, -1, NAN]],
        "1 row is left out, the first because of this: pairs_pandalm.jsonl line 3: field 'votes.ann' must be one of",
    ),
    "two layouts and several files": (
        "llmbar",
        {"Natural/dataset.json": [FRUIT], "Adversarial/Manual/dataset.json": [FRUIT],
         "data-natural.json": {"annotations": [], "instances": [BENCH]}},
        [("first", "Apple.", [1]), ("first", "Apple.", [1]), ("first", "Apple.", [-1])], (), None, None,
    ),
    "labels with a sign": (
        "judgebench_pairs",
        {"dataset=judgebench,response_model=gpt.jsonl": lines(
            PAIR | {"pair_id": 0, "label": "A>B"}, PAIR | {"pair_id": 1, "label": "B>A"})},
        [("first", "2", [1]), ("first", "2", [-1])], (), None, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("excerpt", EXCERPTS)
def test_a_published_layout_gives_systems_texts_scores_raters_and_what_is_left_out(tmp_path, excerpt):
    name, files, texts, raters, ratings, left = EXCERPTS[excerpt]
    data = opened(name, write(tmp_path, files))
    assert [(e.system_id, e.output) for e in data.examples] == [(system, text) for system, text, _ in texts]
    np.testing.assert_allclose([list(e.human.values()) for e in data.examples], [scores for *_, scores in texts])
    assert data.raters == raters
    if ratings is not None:
        np.testing.assert_array_equal(data.ratings[data.dimensions[0]], ratings)
    assert (data.note or "").startswith(left or "")
    assert (data.note is None) == (left is None)


def test_sources_names_and_scales_are_those_of_the_files(tmp_path):
    def read(excerpt):
        name, files, *_ = EXCERPTS[excerpt]
        data = opened(name, write(tmp_path / excerpt[:9], files))
        return data, [example.example_id for example in data.examples]

    data, _ = read("a column a system and grades by name")
    assert data.scale == {"quality": (0, 4)}
    data, names = read("a column a grader, students are counted within a question")
    assert names == ["1.1/student1", "1.1/student2", "1.2/student1"]
    assert data.examples[0].context == "Last in, first out."
    data, names = read("two ratings of one reply are kept apart")
    group = data.examples[0].group_id
    assert names == [f"{group}/ranker", f"{group}/ranker#2", f"{group}/generator"]
    assert data.examples[0].source == "Hi .\nHello !"
    data, _ = read("both models in one field and three annotators")
    assert [(e.source, e.rival_system_id) for e in data.examples] == [("Add.\n\n1 1", "llama-7b"), ("Add.", "llama-7b")]
    data, names = read("two layouts and several files")
    assert names == ["Adversarial/Manual/dataset/line-1", "Natural/dataset/line-1", "data-natural/line-1"]
    read("a row a rater and two scales of the same texts")
    one = opened("lens", tmp_path / "a row a r" / "simplikert_2022.csv")
    assert (one.dimensions, one.scale["simplicity"]) == (("adequacy", "fluency", "simplicity"), (-2, 2))


def test_a_file_of_another_name_is_read_in_the_layout_that_its_rows_fit(tmp_path):
    own = {"group": "g", "system": "s", "source": "Do it.", "output": "done()", "ratings": {"quality": {"ann": 3}}}
    data = opened("conala", write(tmp_path, {"mine.jsonl": json.dumps(own)}) / "mine.jsonl")
    assert [(e.system_id, e.output, e.human) for e in data.examples] == [("s", "done()", {"quality": 3})]
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
