from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from judgebench.report.answers import change_sentences
from markupsafe import escape

from judgebench.metrics.evaluation import evaluate
from judgebench.report.differences import arrange_comparisons
from judgebench.report.figures.draw import draw_all
from judgebench.report.html import render_report
from judgebench.types import ScoreRange
from tests.report.conftest import MIXED, columns, comparisons_of, similarity_of, tuning_of

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
def figures(run):
    return draw_all(run.readings, run.scores, run.records, run.scale, run.titles)


@pytest.fixture(scope="module")
def whole(run, figures):
    return page(run, figures=figures, agreement={"coherence": {"alpha": 0.451, "spearman": 0.55}})


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links, self.scripts, self.styles, self.policy = [], [], [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        self.policy = dict(attrs)["content"] if ("http-equiv", "Content-Security-Policy") in attrs else self.policy
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_data(self, data):
        kept = {"script": self.scripts, "style": self.styles}.get(self.open[-1] if self.open else "")
        if kept is not None:
            kept.append(data)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_needs_nothing_else(whole):
    tags = Tags()
    tags.feed(whole)
    assert tags.open == []
    assert tags.seen.count("img") == 3
    assert "link" not in tags.seen
    assert all(link.startswith(("data:image/svg+xml;base64,", "#")) for link in tags.links)
    assert not re.findall(r"url\(", whole)


def scripts_of(text):
    """The scripts of a page, which must be those of the package and no other."""
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags.scripts


def test_the_policy_names_every_style_and_script_and_nothing_else(whole):
    tags = Tags()
    tags.feed(whole)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in tags.scripts + tags.styles]
    assert re.findall(r"sha256-([^']+)'", tags.policy) == digests[len(tags.scripts) :] + digests[: len(tags.scripts)]
    assert tags.policy.startswith("default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src ")
    assert "unsafe" not in tags.policy
    assert "http" not in tags.policy


def test_sections_that_have_nothing_to_show_are_not_named(run, whole):
    text = page(run)
    for name in ("answers", "bias", "diagnostics", "cost", "repeat"):
        assert f'<a href="#{name}">' in whole
        assert f'<section id="{name}"' in whole
    for name in ("contrast", "attacks", "pairs", "examples"):
        assert f'href="#{name}"' not in text
        assert f'id="{name}"' not in text


def test_every_figure_stands_in_one_section(run, figures):
    figures = figures | {"of_another_kind": figures["spearman_by_range"]}
    text = page(run, figures=figures)
    at = {
        name: re.findall(rf'<section id="(\w+)"(?:(?!<section).)*id="figure-{name}"', text, re.DOTALL)
        for name in figures
    }
    known = {"spearman_by_range": ["answers"], "scores_coherence": ["bias"], "logprobs_coherence": ["bias"]}
    assert at == known | {"of_another_kind": ["statistics"]}


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
    assert "against the humans" not in text.split('id="diagnostics"')[1].split("</section>")[0]


def test_no_name_becomes_markup(builder):
    evil = "<script>alert('x')</script>"
    run = builder(dimensions=(evil,), articles=4)
    records = [{**record, "dataset": evil, "flags": [evil]} for record in run.records]
    titles = {"main": evil, "assistant": evil, "groups": evil}
    run.records[:] = records
    figures = draw_all(run.readings, run.scores, run.records, run.scale, titles)
    text = page(run, titles, {"note": evil}, figures, agreement={evil: {"alpha": 0.1, "spearman": 0.1}})
    assert scripts_of(text) == scripts_of(page(run))
    assert "&lt;script&gt;" in text


def test_without_assistant_and_with_one_range(builder):
    run = builder(assistant=False, ranges=[ScoreRange(1, 5)], articles=4)
    text = page(run)
    assert "Assistant:" not in text
    assert "average" not in text.split("<h3>Agreement")[1].split("</table>")[0]
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
    text = page(replace(run, records=records), comparisons=comparisons_of(run, levels=[level]))
    assert f"<h4>coherence, {level} level" in text
    assert f"coherence, {level} level: pair, contrastive, against main, greedy" in text
    assert "over all texts" not in text
    for record in records:
        if record["split"] == "test":
            assert f"{round(record['spearman'], 3) + 0:.3f}" in text


def test_changes_are_those_of_the_comparisons(run):
    def answers(**settings):
        text = page(run, comparisons=comparisons_of(run, **settings))
        return text.split('<dl class="answers">')[1].split("</dl>")[0]

    assert answers(seed=0) != answers(seed=7)
    expected = change_sentences(arrange_comparisons(comparisons_of(run, seed=7)))
    assert expected
    assert all(escape(sentence) in answers(seed=7) for sentence in expected)


def test_without_resamples_nothing_is_called_clear(run):
    records = evaluate(columns(run.scores), "mini", resamples=0)
    text = page(replace(run, records=records), comparisons=comparisons_of(run, resamples=0))
    assert "without an interval" in text
    for word in ("clear", "95 %"):
        assert word not in text.split("<body")[1].split("<script>")[0]


@pytest.fixture(scope="module")
def full(run):
    tuning, comparisons = tuning_of(run), comparisons_of(run)
    records = evaluate(columns(run.scores), "summeval", ["dataset"], resamples=100)
    known = {"bias_wasserstein": 0.123, "bias_kl": 0.456, "modal_score": 3.0, "modal_share": 0.625}
    known |= {"stability": 0.0789, "self_agreement": 0.654, "flags": ["edge", "unstable"]}
    whole = replace(run, records=[record | known for record in records])
    more = {"comparisons": comparisons, "tuning": tuning, "similarity": similarity_of(run)}
    return whole, more


def test_the_page_shows_comparisons_tuning_and_diagnostics(full):
    run, more = full
    text = page(run, **more)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    for heading in ("Is it better?", "Tuning", "Bias and stability"):
        assert f"<h3>{heading}</h3>" in text
    shown = {"split": "test", "level": "dataset"}
    for record in (r for r in more["comparisons"] if all(r[name] == value for name, value in shown.items())):
        assert f"{record['difference']:+.3f}" in text or round(record["difference"], 3) == 0
    for record in more["tuning"]:
        assert f"λ {record['lambda']:.4g}, t {record['temperature']:.4g}" in text
        assert f"{record['exact']['dev']:.3f}" in text
    for number in ("0.123", "0.456", "0.079", "0.654"):
        assert number in text
    assert "the best may lie beyond" in text
    assert "by more than sampling noise explains" in text
    assert "The same in Kendall" in text


def test_parts_without_records_are_left_out(run):
    text = page(run)
    for heading in ("Is it better?", "Tuning", "Which is easier to fool?"):
        assert heading not in text


HOSTILE = "<script>alert(1)</script>&amp;"


def test_nothing_that_others_named_becomes_markup(full):
    run, more = full
    names = ("dimension", "decoding", "first_decoding", "second_decoding", "main_mode", "says", "tune")

    def hostile(records):
        return [record | {name: HOSTILE for name in names if name in record} for record in records]

    records = [record | {"decoding": HOSTILE, "flags": [HOSTILE]} for record in run.records]
    text = page(replace(run, records=records), **{name: hostile(given) for name, given in more.items()})
    assert scripts_of(text) == scripts_of(page(run))
    assert str(escape(HOSTILE)) in text
