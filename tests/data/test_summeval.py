from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from judgebench.data.benchmarks import SummEval
from judgebench.data.dataset import group_hash
from judgebench.runtime.errors import UserError

DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
EXPERTS = [dict(zip(DIMENSIONS, scores, strict=True)) for scores in ((1, 2, 3, 4), (2, 2, 3, 5), (4, 2, 3, 5))]
MEANS = {"coherence": 7 / 3, "consistency": 2.0, "fluency": 3.0, "relevance": 14 / 3}


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


def ready(path, **arguments):
    data = SummEval(path, **arguments)
    data.setup()
    return data


def test_all_three_layouts_tell_the_same_story(write_jsonl, write_json, tmp_path):
    parquet = tmp_path / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(mteb_rows()), parquet)
    release = ready(write_jsonl(release_rows()))
    geval = ready(write_json(geval_rows()))
    mteb = ready(str(parquet))
    told = [[(e.group_id, e.source, e.output) for e in data.examples] for data in (release, geval, mteb)]
    assert told[0] == told[1] == told[2]
    assert len(told[0]) == 6
    for data in (release, geval, mteb):
        for example in data.examples:
            assert {d: example.human[d] for d in DIMENSIONS} == pytest.approx(MEANS)
    assert release.dimensions == mteb.dimensions == (*DIMENSIONS, "joint")
    assert geval.dimensions == (*DIMENSIONS, "overall", "joint")
    assert geval.scale == dict.fromkeys((*DIMENSIONS, "overall", "joint"), (1.0, 5.0))
    assert [e.example_id for e in release.examples[:2]] == [e.example_id for e in geval.examples[:2]]
    assert [e.example_id for e in release.examples[:2]] == ["art0/M0", "art0/M8"]
    assert [(e.example_id, e.system_id) for e in mteb.examples[:2]] == [("art0/0", "0"), ("art0/1", "1")]


def test_the_release_keeps_each_experts_scores_and_no_other_layout_has_them(write_jsonl, write_json):
    release = ready(write_jsonl(release_rows()), limit_groups=2)
    assert {d: r.shape for d, r in release.ratings.items()} == dict.fromkeys((*DIMENSIONS, "joint"), (4, 3))
    assert release.ratings["coherence"][0].tolist() == [1.0, 2.0, 4.0]
    for dimension in (*DIMENSIONS, "joint"):
        human = [example.human[dimension] for example in release.examples]
        np.testing.assert_allclose(release.ratings[dimension].mean(axis=1), human, rtol=0, atol=1e-12)
    assert ready(write_json(geval_rows())).ratings == {}


def test_gevals_layout_may_lack_doc_id_and_overall(write_json):
    rows = geval_rows()
    for row in rows:
        del row["doc_id"], row["scores"]["overall"]
    data = ready(write_json(rows))
    assert data.dimensions == (*DIMENSIONS, "joint")
    assert list(data.split) == [group_hash(f"Article {a}.") for a in range(3)]
    assert [e.group_id for e in data.examples[:2]] == [group_hash("Article 0.")] * 2


def test_a_folder_of_parquet_files_is_read_by_file_name(tmp_path):
    (tmp_path / "data").mkdir()
    for i, row in reversed(list(enumerate(mteb_rows()))):
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "data" / f"part-{i}.parquet")
    data = ready(str(tmp_path))
    assert list(data.split) == ["art0", "art1", "art2"]


def test_parquet_is_known_by_its_content_too(tmp_path):
    pq.write_table(pa.Table.from_pylist(mteb_rows()), tmp_path / "summeval")
    assert len(ready(str(tmp_path / "summeval")).examples) == 6


def test_the_unpaired_release_is_told_what_it_lacks(write_jsonl):
    rows = release_rows()
    del rows[0]["text"]
    with pytest.raises(UserError, match=r"mine.jsonl line 1: the article .*missing.* give the paired file"):
        ready(write_jsonl(rows))


def changed(rows, at, **values):
    return [{**row, **values} if i == at else row for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "mine.jsonl: the file holds no row"),
        ([{"id": 1, "text": "a"}], "mine.jsonl line 1: not a known layout of SummEval.*'expert_annotations'.*'scores'"),
        (changed(release_rows(), 1, expert_annotations=EXPERTS[:2]), "line 2: .*has 2 experts and the first row 3"),
        (
            changed(release_rows(), 1, expert_annotations=[EXPERTS[0], EXPERTS[1], {**EXPERTS[2], "fluency": 0}]),
            "line 2, example 'art0/M8': the score 0 of rater 3 for 'fluency' lies outside the data's own scale",
        ),
        (changed(mteb_rows(), 1, fluency=[1.0]), "line 2: field 'fluency' has 1 scores for 2 machine_summaries"),
        (
            changed(mteb_rows(), 1, fluency=[1.0, float("nan")]),
            "line 2, example 'art1/1': the human score nan for 'flu",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(write_jsonl, rows, sentence):
    with pytest.raises(UserError, match=sentence):
        ready(write_jsonl(rows))


@pytest.mark.parametrize(
    ("rows", "unrated"),
    [
        (changed(release_rows(), 0, expert_annotations=None), [0]),
        (changed(release_rows(), 1, expert_annotations=[{"fluency": 1}] * 3), [1]),
        (changed(geval_rows(), 0, scores=None), [0]),
        (changed(geval_rows(), 1, scores={"fluency": 1}), [1]),
        (changed(mteb_rows(), 0, coherence=None), [0, 1]),
        (changed(mteb_rows(), 0, coherence=[1, None]), [1]),
    ],
)
def test_a_summary_may_be_unrated_in_every_layout(write_jsonl, rows, unrated):
    examples = ready(write_jsonl(rows)).examples
    for dimension in ("coherence", "joint"):
        assert [i for i, one in enumerate(examples) if np.isnan(one.human[dimension])] == unrated


@pytest.mark.parametrize("path", ["./mteb/summeval", "nowhere.jsonl", "nowhere.parquet"])
def test_a_missing_local_file_is_told_and_not_sought_on_the_hub(path):
    with pytest.raises(UserError, match=r"there is no such file; data.path must be an existing file"):
        SummEval(path).setup()


def test_topicalchat_is_not_taken_for_summeval(shared_file):
    with pytest.raises(UserError, match=r"nobody rated 'consistency': none of the 240 examples"):
        ready(shared_file("topical_chat.json"))


def test_the_real_data(shared_file):
    path = shared_file("summeval_paired.jsonl")
    data = ready(path)
    assert len(data.examples) == 720
    assert len({e.system_id for e in data.examples}) == 12
    assert sorted(data.split.values()) == ["dev"] * 6 + ["test"] * 54
    first = json.loads(Path(path).read_text(encoding="utf-8").split("\n")[0])
    assert data.examples[0].example_id == f"{first['id']}/M10"
    assert data.examples[0].human["coherence"] == pytest.approx(4 / 3)  # the experts gave 2, 1 and 1
    assert data.ratings["relevance"].shape == (720, 3)
    assert len(ready(path, limit_groups=4).examples) == 48
