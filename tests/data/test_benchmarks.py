"""Data sets in the layouts in which the field shares them, in invented excerpts; and the real files where they are."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hydra import compose, initialize_config_dir

from judgebench.config.choices import FOLDER
from judgebench.data.dataset import group_hash
from judgebench.data.judge_bench import JudgeBench
from judgebench.settings.components import build_component
from judgebench.types import Classes
from judgebench.words.errors import UserError

DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
EXPERTS = [dict(zip(DIMENSIONS, scores, strict=True)) for scores in ((1, 2, 3, 4), (2, 2, 3, 5), (4, 2, 3, 5))]
MEANS = {"coherence": 7 / 3, "consistency": 2.0, "fluency": 3.0, "relevance": 14 / 3}


def ready(kind, path, **arguments):
    """A data set of conf/data by its name, or of a class."""
    if isinstance(kind, str):
        with initialize_config_dir(str(FOLDER), version_base=None):
            data = build_component(compose(f"data/{kind}", [f"data.path='{path}'"]).data)
    else:
        data = kind(path, **arguments)
    data.setup()
    return data


def changed(rows, at, **values):
    return [{**row, **values} if i == at else row for i, row in enumerate(rows)]


# --- SummEval ---------------------------------------------------------------------------------------------------------


def release_rows():
    return [
        {"id": f"art{a}", "model_id": f"M{m}", "text": f"Article {a}.", "decoded": f"Sum {a} {m}.",
         "expert_annotations": EXPERTS, "turker_annotations": [dict.fromkeys(DIMENSIONS, 5)]}
        for a in range(3) for m in (0, 8)
    ]  # fmt: skip


def geval_rows():
    return [
        {"doc_id": f"art{a}", "system_id": f"M{m}", "source": f"Article {a}.", "reference": "Ref.",
         "system_output": f"Sum {a} {m}.", "scores": {**MEANS, "overall": sum(MEANS.values()) / 4}}
        for a in range(3) for m in (0, 8)
    ]  # fmt: skip


def mteb_rows():
    return [
        {"id": f"art{a}", "text": f"Article {a}.", "machine_summaries": [f"Sum {a} 0.", f"Sum {a} 8."],
         "human_summaries": ["Ref."], **{d: [MEANS[d]] * 2 for d in DIMENSIONS}}
        for a in range(3)
    ]  # fmt: skip


def test_all_three_layouts_of_summeval_say_the_same(write_jsonl, write_json, tmp_path):
    (tmp_path / "data").mkdir()
    for i, row in reversed(list(enumerate(mteb_rows()))):  # read by file name
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "data" / f"part-{i}.parquet")
    pq.write_table(pa.Table.from_pylist(mteb_rows()), tmp_path / "summeval")  # known by its content
    release, geval = ready("summeval", write_jsonl(release_rows())), ready("summeval", write_json(geval_rows()))
    mteb, whole = ready("summeval", str(tmp_path / "data")), ready("summeval", str(tmp_path / "summeval"))
    texts = [[(e.group_id, e.source, e.output) for e in data.examples] for data in (release, geval, mteb, whole)]
    assert texts == [texts[0]] * 4
    assert len(texts[0]) == 6
    for data in (release, geval, mteb):
        for example in data.examples:
            assert {d: example.human[d] for d in DIMENSIONS} == pytest.approx(MEANS)
    assert release.dimensions == mteb.dimensions == (*DIMENSIONS, "joint")
    assert geval.dimensions == (*DIMENSIONS, "overall", "joint")
    assert geval.scale == dict.fromkeys((*DIMENSIONS, "overall", "joint"), (1.0, 5.0))
    ids = [[(e.example_id, e.system_id) for e in data.examples[:2]] for data in (release, geval, mteb)]
    assert ids == [[("art0/M0", "M0"), ("art0/M8", "M8")]] * 2 + [[("art0/0", "0"), ("art0/1", "1")]]
    # single experts are in the release alone
    assert {d: r.shape for d, r in release.ratings.items()} == dict.fromkeys((*DIMENSIONS, "joint"), (6, 3))
    for dimension, ratings in release.ratings.items():
        human = [example.human[dimension] for example in release.examples]
        np.testing.assert_allclose(ratings.mean(axis=1), human, rtol=0, atol=1e-12)
    assert geval.ratings == mteb.ratings == {}


def test_gevals_layout_may_lack_doc_id_and_overall(write_json):
    rows = geval_rows()
    for row in rows:
        del row["doc_id"], row["scores"]["overall"]
    data = ready("summeval", write_json(rows))
    assert data.dimensions == (*DIMENSIONS, "joint")
    assert list(data.split) == [group_hash(f"Article {a}.", "") for a in range(3)]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "the data holds no example"),
        ([{"id": 1, "text": "a"}], "mine.jsonl line 1: field 'expert_annotations' is missing or null; the fields here"),
        (
            changed(release_rows(), 1, expert_annotations=[EXPERTS[0], EXPERTS[1], {**EXPERTS[2], "fluency": 0}]),
            "line 2, example 'art0/M8': the score 0 of rater 3 for 'fluency' lies outside the data's own scale",
        ),
        (changed(mteb_rows(), 1, fluency=[1.0, np.nan]), "line 2, example 'art1/1': the human score nan for 'flu"),
    ],
)
def test_mistakes_are_named_with_their_place(write_jsonl, rows, sentence):
    with pytest.raises(UserError, match=sentence):
        ready("summeval", write_jsonl(rows))


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        (changed(release_rows(), 1, expert_annotations=[{"fluency": 1}] * 3), ["art0/M8"]),
        (changed(release_rows(), 1, text=None), ["art0/M8"]),
        (changed(geval_rows(), 1, scores={"fluency": 1}), ["art0/M8"]),
        (changed(mteb_rows(), 0, coherence=None), ["art0/0", "art0/1"]),
        (changed(mteb_rows(), 0, coherence=[1, None]), ["art0/1"]),
    ],
)
def test_what_is_unrated_is_left_out_in_every_layout_and_said(write_jsonl, rows, left):
    data = ready("summeval", write_jsonl(rows))
    system = "01" if "machine_summaries" in rows[0] else ["M0", "M8"]
    names = [f"art{a}/{m}" for a in range(3) for m in system]
    assert [example.example_id for example in data.examples] == [name for name in names if name not in left]
    assert data.note.startswith(f"{len(left)} row{'s are' if len(left) > 1 else ' is'} left out")


@pytest.mark.parametrize("path", ["./mteb/summeval", "nowhere.jsonl", "nowhere.parquet"])
def test_a_missing_local_file_is_not_sought_on_the_hub(path):
    with pytest.raises(UserError, match=r"there is no such file; data.path must be an existing file"):
        ready("summeval", path)


def test_the_real_summeval(shared_file):
    path = shared_file("summeval_paired.jsonl")
    data = ready("summeval", path)
    assert (len(data.examples), len({e.system_id for e in data.examples})) == (720, 12)
    assert len(data.split) == 60
    first = json.loads(Path(path).read_text(encoding="utf-8").split("\n")[0])
    assert data.examples[0].example_id == f"{first['id']}/M10"
    assert data.examples[0].human["coherence"] == pytest.approx(4 / 3)  # the experts gave 2, 1 and 1
    assert data.ratings["relevance"].shape == (720, 3)
    with pytest.raises(UserError, match=r"entry 1: field 'expert_annotations' is missing or null; the fields"):
        ready("summeval", shared_file("topical_chat.json"))


# --- TopicalChat ------------------------------------------------------------------------------------------------------

CHAT = {"understandability": 1.0, "naturalness": 3.0, "coherence": 2.0, "engagingness": 1.0, "groundedness": 0.0,
        "overall": 5.0}  # fmt: skip


def chat_rows():
    return [
        {"source": "hi \n\n", "context": context, "system_id": system, "system_output": "hello . ", "scores": CHAT}
        for context in ("cats purr .\n", "_nofact\n")
        for system in ("Argmax Decoding", "New Human Generated")
    ]


def test_a_group_is_a_dialogue_with_its_fact_and_no_fact_is_no_context(write_json):
    data = ready("topicalchat", write_json(chat_rows()))
    assert list(data.split) == [group_hash("hi \n\n", "cats purr .\n"), group_hash("hi \n\n", "")]
    assert [e.context for e in data.examples] == ["cats purr .\n"] * 2 + [""] * 2
    assert [e.output for e in data.examples] == ["hello . "] * 4
    assert data.examples[0].human == CHAT
    assert data.examples[0].example_id == f"{data.examples[0].group_id}/Argmax Decoding"
    assert data.ratings == {}
    rows = changed(chat_rows(), 2, scores={**CHAT, "naturalness": 0.5})
    with pytest.raises(UserError, match=r"entry 3, .*the human score 0.5 for 'naturalness' lies outside .*1 to 3"):
        ready("topicalchat", write_json(rows))


def test_the_real_topicalchat_uses_the_whole_of_each_scale(shared_file):
    data = ready("topicalchat", shared_file("topical_chat.json"))
    assert (len(data.examples), sum(not example.context for example in data.examples)) == (240, 42)
    for dimension, scale in data.scale.items():
        scores = [example.human[dimension] for example in data.examples]
        assert (min(scores), max(scores)) == scale


# --- JUDGE-BENCH ------------------------------------------------------------------------------------------------------

QUALITY = {"metric": "quality", "category": "continuous", "worst": 0.0, "best": 100.0}


def opened(tmp_path, annotations, instances, name="set.json"):
    head = {"dataset": "Invented (2024)", "annotations": annotations, "instances": instances}
    (tmp_path / name).write_text(json.dumps(head))
    return ready(JudgeBench, str(tmp_path / name))


def scored(name, instance, **metrics):
    annotations = {
        metric: {"mean_human": sum(given) / len(given), "individual_human_scores": given}
        for metric, given in metrics.items()
    }
    return {"id": name, "instance": instance, "annotations": annotations}


def test_a_translation_has_a_source_and_a_reference(tmp_path):
    texts = {"source_lang": "English", "source": "A cat.", "reference": "Eine Katze.", "translation": "Katze."}
    first, second = scored(0, texts, quality=[80.5]), scored(1, {**texts, "translation": "Kater."}, quality=[60, 70])
    data = opened(tmp_path, [QUALITY], [first, second])
    one, other = data.examples
    assert (one.source, one.context, one.output, one.human) == ("A cat.", "Eine Katze.", "Katze.", {"quality": 80.5})
    assert one.group_id == other.group_id
    assert data.scale == {"quality": (0, 100)}
    np.testing.assert_array_equal(data.ratings["quality"], [[80.5, np.nan], [60, 70]])
    assert data.name == "set"


def test_a_text_is_judged_whole_and_labels_of_categories_are_classes(tmp_path):
    graded = {"metric": "fluency", "worst": 1, "best": 6}
    label = {"metric": "safe", "category": "categorical", "labels_list": ["yes", "no"]}
    instance = scored("stew", "Stir. Serve.", fluency=[2, 4])
    instance["annotations"]["safe"] = {"majority_human": "yes", "individual_human_scores": []}
    toxic = {"metric": "toxic", "category": "categorical", "labels_list": ["0", "1"], "worst": "1", "best": "0"}
    kind = {"metric": "kind", "category": "categorical", "labels_list": ["Stew", "Soup", "None"]}
    for metric, words in (("toxic", ["0", "1"]), ("kind", ["Soup", "Stew"])):
        instance["annotations"][metric] = {"individual_human_scores": words}
    metrics = [graded, label, toxic, kind]
    data = opened(tmp_path, metrics, [instance, scored("soup", "Boil.", fluency=[1, 6, 5])], "data.json")
    texts = [(e.group_id, e.source, e.output) for e in data.examples]
    assert texts == [("stew", "Invented (2024)", "Stir. Serve."), ("soup", "Invented (2024)", "Boil.")]
    assert (data.dimensions, data.name) == (("fluency", "safe", "toxic", "kind"), tmp_path.name)
    assert data.classes == {
        "safe": Classes(("no", "yes"), 1.0),
        "toxic": Classes(("1", "0"), 1.0),
        "kind": Classes(("Stew", "Soup", "None"), None, False),
    }
    assert data.examples[0].human == {"fluency": 3, "safe": 1, "toxic": 0.5, "kind": 0}
    assert np.isnan(data.examples[1].human["safe"])
    ordered = ready(
        JudgeBench, str(tmp_path / "data.json"), classes={"kind": ["None", "Stew", "Soup"]}, pass_from={"kind": "soup"}
    )
    assert ordered.classes["kind"] == Classes(("None", "Stew", "Soup"), 2.0)


def test_means_of_more_raters_than_are_listed_count_and_scales_are_turned_round(tmp_path):
    instance = {"id": 1, "instance": "A summary.", "source": "An article.", "summary": "A summary.",
                "annotations": {"quality": {"mean_human": 33.3, "individual_human_scores": [33]}}}  # fmt: skip
    (example,) = opened(tmp_path, [QUALITY], [instance]).examples
    assert (example.source, example.output, example.human) == ("An article.", "A summary.", {"quality": 33.3})
    errors = {"metric": "errors", "category": "graded", "worst": 5, "best": 1}
    data = opened(tmp_path, [errors], [scored(1, "Good.", errors=[1, 2]), scored(2, "Bad.", errors=[5, 5])])
    assert [example.human["errors"] for example in data.examples] == [4.5, 1]
    assert data.scale == {"errors": (1, 5)}
    unscored = {"id": 2, "instance": "B.", "annotations": {}}
    data = opened(tmp_path, [QUALITY], [scored(1, "A.", quality=[3]), unscored])
    assert len(data.examples) == 1
    note = "1 row is left out, the first because of this: set.json entry 2: field 'annotations.q"
    assert str(data.note).startswith(note)


@pytest.mark.parametrize(
    ("annotations", "instances", "sentence"),
    [
        ([{"metric": "safe", "category": "categorical"}], [], r"set.json: no metric is graded, .* \(safe\)"),
        ([], [], "set.json: field 'annotations' must be a list with at least one entry"),
        ([QUALITY], {}, "set.json, field 'instances': holds a dict"),
        ([QUALITY], [{"id": 1, "instance": "A."}], "set.json entry 1: field 'annotations.quality.individual_human_sc"),
    ],
)
def test_another_content_is_refused(tmp_path, annotations, instances, sentence):
    with pytest.raises(UserError, match=sentence):
        opened(tmp_path, annotations, instances)
