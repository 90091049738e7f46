from types import SimpleNamespace

import pytest

from judgebench.report.views.few_labels import DIFFERENCES, LABELS_AND_JUDGES, MEANS, few_labels_sentences
from judgebench.stats.few_labels import few_labels_records
from tests.stats.sides import cell, partly


def results(*sides):
    return SimpleNamespace(few_labels=few_labels_records(sides), examples_word="texts", groups="articles")


def rows(table):
    return [[str(cell) for cell in row] for section in table.sections for row in section.rows]


def test_nothing_is_said_where_humans_rated_all():
    whole = results()
    assert few_labels_sentences(whole) == []
    assert [view(whole) for view in (LABELS_AND_JUDGES, MEANS, DIFFERENCES)] == [[], [], []]


def test_tables_show_labels_judge_and_both_side_by_side():
    given = results(partly(), partly(scores=partly().scores[::-1].copy(), cell=cell(decoding="greedy")))
    (widths,) = LABELS_AND_JUDGES.tables(given)
    assert widths.size == "30 of 60 texts are rated, of 6 of 12 articles"
    assert widths.heads == [
        "judge, decoding",
        "range",
        "labels ±",
        "both ±",
        "like these ±",
        "narrower",
        "judge misses",
    ]
    (means,) = MEANS.tables(given)
    assert means.heads[2:5] == ["labels", "judge", "both"]
    assert len(rows(means)) == 5
    assert means.size == "main, expectation, range 1-5"
    (differences,) = DIFFERENCES.tables(given)
    assert len(rows(differences)) == 10
    assert {row[-1] for row in rows(differences)} <= {"yes", "no"}


def test_the_sentence_says_what_the_judge_adds():
    record = few_labels_records([partly()])[0]
    (sentence,) = few_labels_sentences(results(partly()))
    assert sentence == (
        f"coherence: humans rated 30 of 60 texts; these labels alone give a system's mean on these 12 articles to ± "
        f"{record['labels_these_within']:.2f} (95 %, mean over systems), with the judge's scores of all (main, "
        f"expectation, range 1-5) to ± {record['predicted_these_within']:.2f}, intervals "
        f"{100 * record['narrower_these']:.0f} % narrower; on articles like these to ± "
        f"{record['predicted_within']:.2f}; the "
        f"judge's own interval, without labels, misses that mean for {record['misses']} of 5 systems."
    )


def test_the_judge_that_saves_most_of_several_is_told_so():
    (sentence,) = few_labels_sentences(results(partly(), partly()))
    assert " % narrower (the most of 2); on articles like these to ± " in sentence


def test_records_of_earlier_versions_speak_of_articles_like_these():
    def earlier(value):
        if isinstance(value, dict):
            return {key: earlier(part) for key, part in value.items() if "_these" not in key}
        return [earlier(part) for part in value] if isinstance(value, list) else value

    given = results(partly())
    given.few_labels = earlier(given.few_labels)
    (sentence,) = few_labels_sentences(given)
    assert f"a system's mean to ± {given.few_labels[0]['labels_within']:.2f} (95 %" in sentence
    assert "like these" not in sentence
    (widths,) = LABELS_AND_JUDGES.tables(given)
    assert "like these ±" not in widths.heads


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda one: partly(3), "humans rated 15 of 60 texts. No interval: 3 groups have ratings, and it takes 5."),
        (lambda one: partly(scores=one.scores * 0 + 3), "and no judge makes that narrower (main, expectation, range"),
    ],
)
def test_a_sentence_is_true_in_odd_cases(given, words):
    one = partly()
    (sentence,) = few_labels_sentences(results(given(one)))
    assert words in sentence


def test_spearman_stands_beside_where_another_model_read_the_texts():
    one = partly()
    given = results(one, partly(scores=one.scores[::-1].copy(), cell=cell("assistant")))
    (widths,) = LABELS_AND_JUDGES.tables(given)
    assert [column.group for column in widths.columns][-2:] == ["Spearman"] * 2
    assert "with the other model's scores" in widths.note
