"""JUDGE-BENCH's schema, in invented excerpts: objects, texts, categories, and a reversed scale."""

from __future__ import annotations

import json

import numpy as np
import pytest

from judgebench.data.judge_bench import JudgeBench
from judgebench.runtime.errors import UserError

QUALITY = {"metric": "quality", "category": "continuous", "worst": 0.0, "best": 100.0}


def opened(tmp_path, annotations, instances, name="set.json"):
    head = {"dataset": "Invented (2024)", "annotations": annotations, "instances": instances}
    (tmp_path / name).write_text(json.dumps(head))
    data = JudgeBench(str(tmp_path / name))
    data.setup()
    return data


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


def test_a_text_is_judged_whole_and_categories_are_left_alone(tmp_path):
    graded = {"metric": "fluency", "worst": 1, "best": 6}
    label = {"metric": "safe", "category": "categorical", "labels_list": ["yes", "no"]}
    instance = scored("stew", "Stir. Serve.", fluency=[2, 4])
    instance["annotations"]["safe"] = {"majority_human": "yes", "individual_human_scores": ["yes"]}
    data = opened(tmp_path, [graded, label], [instance, scored("soup", "Boil.", fluency=[1, 6, 5])], "data.json")
    assert [(e.group_id, e.source, e.output) for e in data.examples] == [
        ("stew", "Invented (2024)", "Stir. Serve."), ("soup", "Invented (2024)", "Boil.")
    ]  # fmt: skip
    assert data.dimensions == ("fluency",)
    assert data.name == tmp_path.name


def test_a_mean_of_more_raters_than_are_listed_counts(tmp_path):
    instance = {"id": 1, "instance": "A summary.", "source": "An article.", "summary": "A summary.",
                "annotations": {"quality": {"mean_human": 33.3, "individual_human_scores": [33]}}}  # fmt: skip
    (example,) = opened(tmp_path, [QUALITY], [instance]).examples
    assert (example.source, example.output, example.human) == ("An article.", "A summary.", {"quality": 33.3})


def test_a_metric_whose_best_is_the_lowest_is_turned_round(tmp_path):
    errors = {"metric": "errors", "category": "graded", "worst": 5, "best": 1}
    data = opened(tmp_path, [errors], [scored(1, "Good.", errors=[1, 2]), scored(2, "Bad.", errors=[5, 5])])
    assert [example.human["errors"] for example in data.examples] == [4.5, 1]
    assert data.scale == {"errors": (1, 5)}


def test_an_instance_without_scores_is_left_out_and_noted(tmp_path):
    data = opened(tmp_path, [QUALITY], [scored(1, "A.", quality=[3]), {"id": 2, "instance": "B.", "annotations": {}}])
    assert len(data.examples) == 1
    assert str(data.note).startswith(
        "1 row is left out, the first because of this: set.json entry 2: field 'annotations.q"
    )


@pytest.mark.parametrize(
    ("annotations", "instances", "sentence"),
    [
        ([{"metric": "safe", "category": "categorical"}], [], r"set.json: no metric is graded or continuous \(safe\)"),
        ([], [], "set.json: field 'annotations' must be a list with at least one entry"),
        ([QUALITY], {}, "set.json, field 'instances': holds a dict"),
        ([QUALITY], [{"id": 1, "instance": "A."}], "set.json entry 1: field 'annotations.quality.individual_human_sc"),
    ],
)
def test_another_content_is_told(tmp_path, annotations, instances, sentence):
    with pytest.raises(UserError, match=sentence):
        opened(tmp_path, annotations, instances)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(UserError, match=r"list.json: it must be an object"):
        JudgeBench(str(tmp_path / "list.json")).setup()
