from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from judgebench.report.figures import draw_all
from judgebench.report.html import render_report
from judgebench.types import ScoreRange

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
