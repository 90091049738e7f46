"""Records of few labels: what prediction-powered inference says, and reasons."""

import numpy as np
import pytest

from judgebench.stats.few_labels import FewLabels, few_labels_records, predicted_means, predicted_spearman
from tests.stats.recorded import needs_recorded, recorded
from tests.stats.sides import cell, side


def unrated(ratings, keep):
    """The ratings without those of the texts that are not to be kept."""
    return np.where(np.asarray(keep)[:, None], ratings, np.nan)


def partly(articles=6, **more):
    """The judge of `side` beside raters of the first so many of its twelve articles."""
    whole = side()
    keep = [int(group[1:]) < articles for group in whole.groups.tolist()]
    return side(ratings=unrated(whole.ratings, keep), **more)


def test_there_is_nothing_to_predict_where_all_or_none_are_rated():
    assert few_labels_records([side(), partly(0)]) == []
    assert few_labels_records([side()]) == []


def test_a_record_is_what_prediction_powered_inference_says():
    one = partly()
    (record,) = few_labels_records([one])
    assert {name: record[name] for name in one.head} == one.head
    counts = ("texts", "articles", "labelled_texts", "labelled_articles")
    assert [record[name] for name in counts] == [60, 12, 30, 6]
    expected = predicted_means(FewLabels(one.human, one.scores, one.groups, one.systems, (1.0, 5.0)))
    assert [{name: system[name] for name in expected[0]} for system in record["systems"]] == expected
    assert record["narrower"] == pytest.approx(np.mean([system["narrower"] for system in expected]))
    halves = [(system["labels_high"] - system["labels_low"]) / 2 for system in expected]
    assert record["labels_within"] == pytest.approx(np.mean(halves))
    assert record["predicted_within"] <= record["labels_within"]
    first = max(expected, key=lambda system: system["predicted"])["system"]
    assert len(record["differences"]) == 10
    assert record["differences"][0]["first"] == first
    assert (record["spearman"], record["reason"]) == (None, None)


def test_the_judges_own_interval_misses_where_the_judge_is_biased():
    one = partly()
    shifted = partly(scores=one.scores - 1.5)
    (fair,), (biased,) = few_labels_records([one]), few_labels_records([shifted])
    assert biased["counted"] == fair["counted"] == 5
    assert biased["misses"] == 5
    assert fair["misses"] < 5
    assert all(system["judge_misses"] for system in biased["systems"])
    # the bias is no part of what labels and judge say together
    assert [one["predicted"] for one in biased["systems"]] == pytest.approx(
        [one["predicted"] for one in fair["systems"]]
    )


def test_scores_are_mapped_to_the_humans_scale():
    wide = partly(scores=(partly().scores - 1) * 2 + 1, cell=cell(ends=(1.0, 9.0)))
    np.testing.assert_allclose(FewLabels.of(wide).judge, partly().scores)
    assert FewLabels.of(partly(scale=None)).scale is None


def test_few_articles_have_no_interval_but_a_reason():
    (record,) = few_labels_records([partly(3)])
    assert record["reason"] == "No interval: 3 groups have ratings, and it takes 5."
    assert (record["narrower"], record["misses"], record["counted"]) == (None, None, 0)
    assert record["systems"][0]["labels"] is not None


def test_another_model_stands_in_for_humans_in_spearman():
    main = partly()
    assistant = partly(scores=main.scores[::-1].copy(), cell=cell("assistant"))
    elsewhere = partly(cell=cell("assistant", ends=(1.0, 9.0)))
    first, second, third = few_labels_records([main, assistant, elsewhere])
    expected = predicted_spearman(main.scores, main.human, assistant.scores, main.groups)
    assert first["spearman"] == {"stand_in": "assistant, expectation", **expected}
    assert second["spearman"]["stand_in"] == "main, expectation"
    assert third["spearman"] is None


@needs_recorded
def test_twenty_articles_of_summeval_hold_the_truth_of_sixty_and_the_judge_alone_does_not():
    held, misses, narrower = [], [], []
    for dimension in ("coherence", "relevance"):
        data = recorded(dimension, "gpt-4o")
        truth = {name: data.human[data.systems == name].mean() for name in np.unique(data.systems).tolist()}
        for seed in range(5):
            kept = np.random.default_rng(seed).choice(np.unique(data.groups), 20, replace=False)
            ratings = unrated(data.raters, np.isin(data.groups, kept))
            names = np.arange(len(data.groups)).astype(str)
            given = {"groups": 1, "names": names, "systems": data.systems, "texts": (), "logprobs": {}}
            one = side(**given, scores=data.judge, ratings=ratings)
            object.__setattr__(one, "groups", data.groups)
            (record,) = few_labels_records([one])
            narrower.append(record["narrower"])
            misses.append(record["misses"] / record["counted"])
            held += [s["predicted_low"] <= truth[s["system"]] <= s["predicted_high"] for s in record["systems"]]
    assert np.mean(held) > 0.9
    assert 0 < np.mean(narrower) < 0.2
    assert np.mean(misses) > 0.5
