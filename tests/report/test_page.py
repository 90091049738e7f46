"""The page of a run, and what a run prints: parts, and that nothing of others steers a browser or a terminal."""

import base64
import hashlib
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape

from judgebench.report.html import _BROWSER_SCRIPTS, _BROWSER_STYLES, _SCRIPTS, _STYLES, _names, asset
from judgebench.report.layout import PAGE, draw_all, terminal_blocks
from judgebench.report.render import to_terminal
from judgebench.studies.evaluate import evaluate
from judgebench.types import ScoreRange
from judgebench.words.console import Terminal
from tests.report.conftest import MIXED, columns, comparisons_of, in_terminal, on_page, results_of, tuning_of, words_of


@pytest.fixture(scope="module")
def figures(run):
    return draw_all(results_of(run))


@pytest.fixture(scope="module")
def whole(run, figures):
    agreement = {"coherence": {"alpha": 0.451, "spearman": 0.55}}
    return on_page(results_of(run, about={"titles": run.titles, "scale": run.scale, "agreement": agreement}), figures)


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
    assert tags.seen.count("img") == 1
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
    text = on_page(results_of(run))
    for name in ("distance", "shift", "certainty", "legend"):
        assert f'<a href="#{name}"' in whole
        assert f'<section id="{name}"' in whole
    for name in ("use", "errors", "pairs", "look"):
        assert f'href="#{name}"' not in text
        assert f'id="{name}"' not in text


def test_every_figure_stands_in_one_section(run, figures):
    figures = figures | {"of_another_kind": figures["logprobs_coherence"]}
    text = on_page(results_of(run), figures)
    at = {
        name: re.findall(rf'<section id="(\w+)"(?:(?!<section).)*id="figure-{name}"', text, re.DOTALL)
        for name in figures
    }
    known = {"logprobs_coherence": ["shift"]}
    assert at == known | {"of_another_kind": ["certainty"]}


def test_figures_of_both_papers_have_their_places():
    starts = [start for start in _names(part for section in PAGE for part in section.parts) if start]
    of_texts = ("logprobs_coherence", "suffix_adv_suffix_coherence_0-4")
    of_defenses = ("candidates_joint", "embeddings_joint", "separability_joint", "strengths_joint", "detectors")
    for name in (*of_texts, *of_defenses):
        assert any(map(name.startswith, starts)), name


@pytest.mark.parametrize("ranges", MIXED)
def test_ranges_with_different_numbers_of_candidates(builder, ranges):
    results = results_of(builder(ranges=ranges, articles=4))
    text = on_page(results, draw_all(results))
    for score_range in ranges:
        assert f'<th scope="row"><span>{score_range}</span></th>' in text


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_constant_humans_are_flagged_explained_and_not_divided_by(run):
    scores = run.scores.assign(human=3.0)
    records = evaluate(columns(scores), "mini", levels=["dataset"], resamples=20)
    text = on_page(results_of(replace(run, scores=scores, records=records, scale={"coherence": (3.0, 3.0)})))
    assert '<span class="flag">constant humans</span> the humans gave every text the same score' in text
    assert "<th>humans</th>" not in text


@pytest.mark.parametrize("level", ["document", "system"])
def test_a_run_without_the_dataset_level_shows_the_level_that_it_has(run, level):
    records = evaluate(columns(run.scores), "mini", levels=[level], resamples=20)
    text = on_page(results_of(run, metrics=records, comparisons=comparisons_of(run, levels=[level])))
    assert f"{level} level: pair, contrastive against main, greedy" in text
    assert "over all texts" not in text
    for record in records:
        if record["split"] == "test":
            assert f"{round(record['spearman'], 3) + 0:.3f}" in text


def test_without_resamples_nothing_is_called_clear(run):
    records = evaluate(columns(run.scores), "mini", resamples=0)
    results = results_of(run, metrics=records, comparisons=comparisons_of(run, resamples=0))
    page = on_page(results).split("<body")[1].split("<script")[0]
    for text in (words_of(page), words_of(in_terminal(results))):
        assert "without an interval" in text or "no interval" in text
        for word in ("clear", "95 %"):
            assert word not in text


# --- all parts --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full(run):
    """The results of a run that compared, tuned and diagnosed."""
    known = {"bias_wasserstein": 0.123, "bias_kl": 0.456, "modal_score": 3.0, "modal_share": 0.625}
    known |= {"stability": 0.0789, "self_agreement": 0.654, "flags": ["edge", "unstable"]}
    records = evaluate(columns(run.scores), "summeval", ["dataset"], resamples=100)
    metrics = [record | known for record in records]
    return results_of(run, metrics=metrics, comparisons=comparisons_of(run), tuning=tuning_of(run))


def test_a_wide_terminal_and_wide_ranges_fit(builder, run):
    assert in_terminal(results_of(run), 140)
    wide = builder(ranges=[ScoreRange(1, 5, 0.1), ScoreRange(0, 100)], articles=4, systems=4)
    assert in_terminal(results_of(wide, comparisons=comparisons_of(wide), tuning=tuning_of(wide)))


# --- names of others --------------------------------------------------------------------------------------------------

HOSTILE = "<script>alert('x')</script>&amp; [bold]\x1b[2J"


def hostile(results):
    """The results with names from somebody who wishes ill."""
    names = ("dataset", "decoding", "first_decoding", "second_decoding", "main_mode", "says", "tune")

    def renamed(records):
        return [record | {name: HOSTILE for name in names if name in record} for record in records or ()]

    metrics = [record | {"flags": [HOSTILE]} for record in renamed(results.metrics)]
    titles = dict.fromkeys(("main", "assistant", "groups", "note"), HOSTILE)
    about = results.about | {"titles": titles, "agreement": {HOSTILE: {"alpha": 0.1, "spearman": 0.1}}}
    more = {"comparisons": renamed(results.comparisons), "tuning": renamed(results.tuning)}
    return replace(results, metrics=metrics, about=about, config={HOSTILE: HOSTILE}, **more)


def test_nothing_that_others_named_becomes_markup(full, run):
    results = hostile(full)
    text = on_page(results, draw_all(replace(results, tuning=None)))
    assert scripts_of(text) == scripts_of(on_page(results_of(run)))
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_a_dimensions_name_is_no_markup(builder):
    results = results_of(builder(dimensions=(HOSTILE,), articles=4))
    text = on_page(results, draw_all(results))
    assert scripts_of(text) == scripts_of(on_page(results_of(builder(articles=3))))
    assert str(escape("<script>alert('x')</script>")) in text


def test_nothing_that_others_named_steers_a_terminal(full):
    file = io.StringIO()
    Terminal(file=file, width=100).print(to_terminal(terminal_blocks(hostile(full))))
    assert "\x1b" not in file.getvalue()
    assert "[bold]" in file.getvalue()


VENDORED = {
    "tabulator": "d7e715672ddf4b10fc63668e3aeaa92c3b471dac2a95eda37010e3898613df29",
    "diff": "315fa6fa042fa08a8b5ae4ec84763bec1dfb9ca73a5779f1ad79c28f03cee9a4",
}
"""SHA-256 of the bundles that were checked."""


@pytest.mark.parametrize("name", VENDORED)
def test_the_libraries_are_those_that_were_checked(name):
    vendor = Path(__file__).parents[2] / "judgebench" / "report" / "assets" / "vendor"
    assert hashlib.sha256((vendor / f"{name}.js").read_bytes()).hexdigest() == VENDORED[name]
    assert "Copyright (c)" in (vendor / f"{name}.LICENSE").read_text("utf-8")


def test_what_every_page_carries_is_small_and_stays_within_its_elements():
    names = (*_STYLES, *_SCRIPTS, *_BROWSER_STYLES, *_BROWSER_SCRIPTS)
    assert sum(len(asset(name).encode()) for name in names) < 300_000
    for name in names:
        text = asset(name).lower()
        for ending in ("</script", "</style", "<!--", "eval(", "new function("):
            assert ending not in text, name
        assert "innerhtml" not in text or name.startswith("vendor/"), "what a text says is put in as text alone"
