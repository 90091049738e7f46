from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markupsafe import escape

from judgebench.metrics import evaluate
from judgebench.report.answers import change_sentences, changes
from judgebench.report.figures import draw_all
from judgebench.report.html import render_report
from judgebench.types import ScoreRange
from tests.report.conftest import MIXED, columns

ENVIRONMENT = {
    "packages": {"torch": "2.13.0", "optuna": None},
    "python": "3.11.7",
    "platform": "Linux",
    "git_commit": "abc123",
    "git_changed": True,
    "device": "cpu",
    "model_fingerprints": {"main": "sha256:abc"},
    "seconds": {"load": 1.25, "read": 300.0},
    "tokens": {"total": 123456, "unique": 23456},
}


def page(run, titles=None, config=None, figures=None, **more):
    return render_report(
        config=config or {"seed": 1},
        environment=ENVIRONMENT,
        scores=run.scores,
        records=run.records,
        figures=figures or {},
        scale=run.scale,
        titles=titles or run.titles,
        **more,
    )


@pytest.fixture(scope="module")
def whole(run):
    figures = draw_all(run.readings, run.scores, run.records, run.scale, run.titles)
    return page(run, figures=figures, agreement={"coherence": {"alpha": 0.451, "spearman": 0.55}})


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_needs_nothing_else(whole):
    tags = Tags()
    tags.feed(whole)
    assert tags.open == []
    assert tags.seen.count("img") == 3
    assert "script" not in tags.seen
    assert "link" not in tags.seen
    assert all(link.startswith("data:image/svg+xml;base64,") for link in tags.links)
    assert not re.findall(r"url\(", whole)


def test_numbers_are_those_of_the_records(run, whole):
    for record in run.records:
        if record["split"] == "test":
            assert f"{record['spearman']:.3f}" in whole


def test_answers_cost_and_origin_are_there(whole):
    for text in ("says", "of the texts in range", "Spearman", "300.0 s", "123,456", "abc123", "with local changes"):
        assert text in whole
    for text in ("alpha 0.451", "sha256:abc", "early exit at layer 20", "prefers-color-scheme: dark"):
        assert text in whole


def test_flags_that_occur_are_explained(run, builder):
    constant = [{**run.records[0], "split": "test", "flags": ["constant"]}]
    text = render_report(
        config={}, environment=ENVIRONMENT, scores=run.scores, records=constant, figures={}, scale=run.scale,
        titles=run.titles,
    )  # fmt: skip
    assert "every text got the same score" in text
    assert "against the humans" not in text.split("<h2>Flags</h2>")[1].split("<h2>")[0]


def test_no_name_becomes_markup(builder):
    evil = "<script>alert('x')</script>"
    run = builder(dimensions=(evil,), articles=4)
    records = [{**record, "dataset": evil, "flags": [evil]} for record in run.records]
    titles = {"main": evil, "assistant": evil, "groups": evil}
    run.records[:] = records
    figures = draw_all(run.readings, run.scores, run.records, run.scale, titles)
    text = page(run, titles, {"note": evil}, figures, agreement={evil: {"alpha": 0.1, "spearman": 0.1}})
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_without_assistant_and_with_one_range(builder):
    run = builder(assistant=False, ranges=[ScoreRange(1, 5)], articles=4)
    text = page(run)
    assert "Assistant:" not in text
    assert "average" not in text.split("<h2>Agreement")[1].split("</table>")[0]
    assert "score range 1-5" in text


@pytest.mark.parametrize("ranges", MIXED)
def test_ranges_with_different_numbers_of_candidates(builder, ranges):
    run = builder(ranges=ranges, articles=4)
    text = page(run, figures=draw_all(run.readings, run.scores, run.records, run.scale, run.titles))
    for score_range in ranges:
        assert f'<th scope="row">{score_range}</th>' in text


def test_clamped_answers_show_where_there_are_any(run):
    assert "clamped" not in page(run)
    clamped = replace(run, records=[{**record, "clamped_share": 0.125} for record in run.records])
    assert ">clamped</th>" in page(clamped)
    assert "12.5 %" in page(clamped)
    Tags().feed(page(clamped))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_constant_humans_are_flagged_explained_and_not_divided_by(run):
    scores = run.scores.assign(human=3.0)
    records = evaluate(columns(scores), "mini", levels=["dataset"], resamples=20)
    text = page(replace(run, scores=scores, records=records, scale={"coherence": (3.0, 3.0)}))
    assert '<span class="flag">constant humans</span> the humans gave every text the same score' in text
    assert "coherence: Humans are left out" in text
    assert "<th>humans</th>" not in text
    assert "the humans&#39; most frequent score there" not in text


@pytest.mark.parametrize("level", ["document", "system"])
def test_a_run_without_the_dataset_level_shows_the_level_that_it_has(run, level):
    records = evaluate(columns(run.scores), "mini", levels=[level], resamples=20)
    text = page(replace(run, records=records))
    assert f"<h3>coherence, {level} level" in text
    assert f"coherence, {level} level: pair, contrastive, against main, greedy" in text
    assert "over all texts" not in text
    for record in records:
        if record["split"] == "test":
            assert f"{round(record['spearman'], 3) + 0:.3f}" in text


def test_changes_are_resampled_as_the_metrics_are(run):
    def answers(**metrics):
        text = page(run, config={"metrics": {"levels": ["dataset"], **metrics}})
        return text.split('<ul class="answers">')[1].split("</ul>")[0]

    assert answers(resamples=1000, seed=0) == answers() != answers(resamples=50, seed=7)
    expected = change_sentences(changes(run.scores, resamples=50, seed=7))
    assert all(escape(sentence) in answers(resamples=50, seed=7) for sentence in expected)


def test_without_resamples_nothing_is_called_clear(run):
    records = evaluate(columns(run.scores), "mini", resamples=0)
    text = page(replace(run, records=records), config={"metrics": {"resamples": 0, "seed": 0}})
    assert "without an interval" in text
    for word in ("clear", "95 %"):
        assert word not in text.split("<body>")[1]
