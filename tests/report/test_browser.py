"""report.html in a real browser: it opens, sorts, filters, opens an example, and complains of nothing."""

import os
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from judgebench.report.comparison import render_comparison
from judgebench.report.figures.charts import Chart, ChartMark
from judgebench.report.html import asset, render_report
from judgebench.report.layout import draw_all
from judgebench.report.render import TEMPLATES
from judgebench.results.results import Results
from judgebench.studies.rules import RULES
from judgebench.words.errors import escape_control
from judgebench.words.formats import percent
from tests.report.browsed import ATTACK, HOSTILE, output_of, source_of, with_attack, write_run

CHROMIUM = shutil.which("chromium")
PHONE = {"width": 390, "height": 844}
TABLE = "#examples-table .tabulator-row"
SETTLED = """async () => {
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')")
    if CHROMIUM is None:
        pytest.skip("there is no chromium (apt-get install chromium)")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses to work for root
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(builder, tmp_path_factory):
    """Name -> path of a page: a run with attacks, one without texts, both runs compared."""
    folder = tmp_path_factory.mktemp("pages")
    one = with_attack(builder(articles=8, systems=5))
    first = Results.load(write_run(one, folder / "first").path)
    second = Results.load(write_run(builder(articles=8, systems=5, seed=1), folder / "second", seed=1).path)
    bare = Results.load(write_run(one, folder / "bare", texts=False).path)
    written = {
        "report": render_report(first, draw_all(first)),
        "bare": render_report(bare, {}),
        "comparison": render_comparison([first, second], resamples=50),
    }
    for name, text in written.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in written}


@pytest.fixture
def opened(chromium, pages):
    """Opens a page and waits until its examples are there; at the end nothing must have gone wrong or out."""

    @contextmanager
    def opened(name="report", hash_="", **context):
        tab = chromium.new_context(**context).new_page()
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("dialog", lambda dialog: said.append(dialog.message))
        tab.goto(f"{pages[name].as_uri()}{hash_}")
        if context.get("java_script_enabled", True):
            tab.wait_for_selector("html[data-ready=examples]")
            tab.evaluate("document.getElementById('examples').open = true")
            tab.wait_for_selector(TABLE)
            tab.evaluate(SETTLED)  # or what is clicked may move away under the pointer
        yield tab
        assert said == []
        assert {url.split(":")[0] for url in asked} <= {"file", "data", "blob"}
        tab.context.close()

    return opened


def column(tab, field):
    return tab.eval_on_selector_all(
        f'{TABLE} [tabulator-field="{field}"]', "cells => cells.map(cell => cell.textContent)"
    )


def names(tab):
    """Ids of the examples, which stand behind the beginnings of their texts."""
    return tab.eval_on_selector_all(f"{TABLE} a", "links => links.map(link => link.title)")


def head(tab, field):
    return tab.locator(f'.tabulator-col[tabulator-field="{field}"] .tabulator-col-title')


def waited(tab, selector, text):
    """Until an element says just this; the page's policy forbids Playwright's own waiting for an expression."""
    tab.locator(selector, has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def count(tab):
    return tab.inner_text("#examples-count").split(" rows")[0]


def open_first(tab):
    """Opens the first row's example; several clicks are tried, for one is lost where the table is drawn again."""
    from playwright.sync_api import TimeoutError

    for _ in range(6):
        tab.locator(f'{TABLE} [tabulator-field="human"]').first.click()
        with suppress(TimeoutError):
            tab.wait_for_selector("#example[open] .inside", timeout=10_000)
            return
    raise AssertionError("no example opened")


def test_rows_sort_filter_and_are_searched_and_nothing_is_wider_than_a_phone(opened):
    with opened(color_scheme="light") as tab:
        # the worst disagreement stands first, and any column sorts
        gaps = [float(gap) for gap in column(tab, "gap")]
        assert gaps == sorted(gaps, reverse=True)
        assert gaps[0] > gaps[-1]
        head(tab, "score").click()
        scores = [float(score) for score in column(tab, "score")]
        assert scores == sorted(scores, reverse=True)
        head(tab, "score").click()
        assert column(tab, "score") == sorted(column(tab, "score"), key=float)
        assert float(column(tab, "score")[0]) < scores[0]
        # filters and search leave what they say; the test split and the advised setting are shown first
        advised = tab.eval_on_selector("[data-filter=range]", "select => select.value")
        assert set(column(tab, "range")) == {advised}
        assert tab.inner_text("#judged option:checked").endswith("(advised)")
        assert count(tab) == "30 of 320"
        tab.select_option("[data-filter=range]", "")
        tab.select_option("[data-filter=attack]", "")
        assert count(tab) == "240 of 320"
        tab.select_option("[data-filter=split]", "")
        assert count(tab) == "320 of 320"
        tab.select_option("[data-filter=attack]", "dsi")
        tab.select_option("[data-filter=range]", "2-6")
        assert count(tab) == "40 of 320"
        assert set(column(tab, "range")) == {"2-6"}
        tab.fill("#search", "ARTICLE-3: THE COUNCIL")  # of the source alone
        waited(tab, "#examples-count", "5 of 320 rows")
        assert {name.split("/")[0] for name in names(tab)} == {"article-3"}
        assert all(text.startswith("A summary called article-3/") for text in column(tab, "text"))
        tab.get_by_role("button", name="Show all").click()
        assert count(tab) == "320 of 320"
        tab.select_option("[data-filter=flags]", "failed")
        assert all("failed" in flags for flags in column(tab, "flags"))
        tab.fill("#search", "no text says this")
        waited(tab, "#examples-count", "0 of 320 rows")
        assert "No example passes" in tab.inner_text("#examples-table")
        # light and dark are the reader's choice
        paper = "getComputedStyle(document.body).backgroundColor"
        light = tab.evaluate(paper)
        tab.click("#theme")
        dark = tab.evaluate(paper)
        tab.reload()
        assert tab.evaluate(paper) == dark != light
    with opened(viewport=PHONE, color_scheme="dark") as tab:
        assert tab.evaluate(paper) == dark
        assert tab.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        tab.locator(f"{TABLE} a").first.click()
        tab.wait_for_selector("#example[open]")
        assert tab.evaluate("document.getElementById('example').scrollWidth") <= PHONE["width"]


def test_an_example_opens_with_all_that_is_known_of_it_and_its_text_is_text(opened):
    with opened() as tab:
        assert tab.locator("script", has_text="got you").count() == 0
        tab.select_option("[data-filter=attack]", "dsi")
        name = names(tab)[0]
        open_first(tab)
        shown = tab.inner_text("#example")
        assert f"A summary called {name}. {escape_control(HOSTILE)}" in shown
        assert source_of(name.split("/")[0]) in shown
        assert tab.locator("#changed-text ins").all_inner_texts() == [f" {ATTACK}"]
        assert tab.locator("#changed-text del").count() == 0
        assert tab.locator("#example .likely thead th").all_inner_texts()[0] == "score"
        shares = tab.locator("#example .share .value").all_inner_texts()
        assert len(shares) == 5 * 3  # candidates of main, assistant and the pair
        sums = sum(float(share.removesuffix(" %").replace("<", "")) for share in shares[::3])
        assert sums == pytest.approx(100, abs=0.5)
        tab.get_by_text("Prompt as read").click()
        prompt = tab.wait_for_selector("#example .prompt:not(:empty)").inner_text()  # it is filled once it is open
        assert prompt.startswith("Rate coherence from ")
        assert f"{escape_control(output_of(name))} {ATTACK}" in prompt
        marked = tab.eval_on_selector_all("#example .text .unseen", "all => all.map(sign => sign.textContent)")
        assert marked[:3] == [r"\u202e", r"\u200b", r"\x1b"]
        assert tab.locator("#example img, #example script").count() == 0


def test_links_the_browser_s_back_and_steps_go_through_examples(opened):
    with opened() as tab:
        ids = names(tab)
        tab.locator(f"{TABLE} a").first.click()
        tab.wait_for_selector("#example[open] h2")
        link = tab.url
        assert "#example=" in link
        assert tab.inner_text("#example h2") == ids[0]
        tab.go_back()
        tab.wait_for_selector("#example:not([open])", state="attached")
        tab.go_forward()
        tab.wait_for_selector("#example[open]")
        assert tab.get_by_role("button", name="previous").is_disabled()
        tab.get_by_role("button", name="next").click()
        waited(tab, "#example-title", ids[1])
        tab.keyboard.press("ArrowLeft")
        waited(tab, "#example-title", ids[0])
        tab.locator("#example .choose select").first.select_option("3-7")
        waited(tab, "#example .facts span:last-of-type b", "3-7")
        assert "range=3-7" in tab.url
        assert tab.inner_text("#example h2") == ids[0]
        assert tab.locator("#example .likely tbody th").first.inner_text().startswith("3")
        tab.keyboard.press("Escape")
        tab.wait_for_selector("#example:not([open])", state="attached")
        assert "#example=" not in tab.url
    with opened(hash_=f"#{link.split('#')[1]}") as tab:
        tab.wait_for_selector("#example[open]")
        assert tab.inner_text("#example h2") == ids[0]


def test_without_scripts_all_but_the_examples_can_be_read(opened):
    with opened(java_script_enabled=False) as tab:
        assert tab.locator("figure img").count() >= 1
        tab.click("#examples > summary")
        assert "How far from a human is it?" in tab.inner_text("main")
        assert "needs JavaScript" in tab.inner_text("#examples")
        assert not tab.is_visible("#examples-app")


def test_texts_to_look_at_open_in_place_and_one_switch_opens_every_table(opened):
    with opened() as tab:
        looks = tab.locator("details.look")
        assert looks.count() == 9
        looks.first.locator("summary").click()
        looks.first.locator(".inside .text").first.wait_for()
        assert "A summary called" in looks.first.inner_text()
        # what its line says of the advised setting stands inside, too
        line = looks.first.locator("summary .gap").inner_text()
        said = re.fullmatch(r"judge (\S+) calibrated, raw (\S+) in \S+ · humans (\S+)", line).groups()
        inside = looks.first.locator(".facts").inner_text()
        for name, value in zip(("calibrated", "raw", "humans"), said, strict=True):
            assert f"{name} {value}" in inside
        assert looks.first.locator("table").count() == 1
        closed = "document.querySelectorAll('main section details:not([open]):has(table[data-view])').length"
        assert tab.evaluate(closed) > 1
        tab.click("#all")
        assert tab.evaluate(closed) == 0


def test_a_run_that_keeps_no_texts_still_shows_scores_and_bars(opened):
    with opened("bare") as tab:
        assert "has kept no texts" in tab.inner_text("#examples")
        assert tab.locator("details.look").count() == 0
        tab.locator(f"{TABLE} a").first.click()
        tab.wait_for_selector("#example[open]")
        shown = tab.inner_text("#example")
        assert "What the judge found likely" in shown
        assert "Judged text" not in shown
        assert "Prompt as read" not in shown


@pytest.mark.parametrize("name", ["report", "comparison"])
def test_nothing_is_cut_off_and_on_a_phone_no_table_moves_sideways(chromium, pages, name):
    wider = """[...document.querySelectorAll('.scroll:has(table), .likely, .tabulator-tableholder')]
        .filter((one) => one.getClientRects().length && one.scrollWidth > one.clientWidth + 1)
        .map((one) => [one.querySelector('table')?.dataset.view, one.scrollWidth, one.clientWidth])"""
    for viewport in ({"width": 1280, "height": 900}, PHONE):
        tab = chromium.new_context(viewport=viewport).new_page()
        tab.goto(pages[name].as_uri())
        if name == "report":
            tab.wait_for_selector("html[data-ready=examples]")
        tab.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        if name == "report":
            tab.locator("details.look .likely").last.wait_for()
        tab.evaluate(SETTLED)
        assert tab.evaluate(wider) == []
        assert tab.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        tab.context.close()


LONG = (
    "WWWW-GPT-4O-MINI-2024-07-18-PREVIEW-OF-A-LARGE-MODEL",
    "請幫我評價這個系統的回答是否正確而且完整",
    "people: pass",
    "0-100",
)
MEASURE = """() => [...document.querySelectorAll('figure.chart > svg text')].filter((text) => {
  const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
  return inner.left < outer.left - 0.5 || inner.right > outer.right + 0.5;
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("width", [390, 1280])
def test_labels_of_charts_are_whole_or_shortened_and_named_below(chromium, tmp_path, width):
    chart = TEMPLATES.get_template("charts.html.j2").module.chart
    bars = [(name, [ChartMark(0, 1.0, start=0.0)]) for name in LONG]
    first, small = (Chart("x", bars, {}, percent, ends=(0.0, 1.0), stacked=True, width=units) for units in (440, 300))
    page = tmp_path / "charts.html"
    page.write_text(
        f"<meta charset=utf-8><meta name=viewport content='width=device-width'><style>{asset('page.css')}</style><main>"
        f"<div class='charts first'>{chart(first)}</div><section>{chart(small)}</section></main>"
    )
    tab = chromium.new_context(viewport={"width": width, "height": 800}).new_page()
    tab.goto(page.as_uri())
    assert tab.evaluate(MEASURE) == []
    for figure in tab.query_selector_all("figure.chart"):
        shown = [text.text_content() for text in figure.query_selector_all("text.label")]
        assert shown[2:] == list(LONG[2:])
        assert shown[0] != LONG[0]
        assert LONG[0] in figure.query_selector("details").text_content()
    tab.context.close()


@pytest.fixture(scope="module")
def judged_page(builder, tmp_path_factory):
    """The page of a run with a verdict on each use."""
    folder = tmp_path_factory.mktemp("judged")
    results = Results.load(write_run(builder(articles=8, systems=5), folder / "run").path)
    record = results.shown[0]
    numbers = dict.fromkeys(("value", "value_low", "value_high", "rater"), 0.7)
    clause = "right on 97 % [82, 100] of texts that people pass (a rater 95 %) and 93 % of those that they fail"
    uses = [{**record, "use": use, "verdict": "with care", "clause": clause, "scores": None} | numbers for use in RULES]
    page = folder / "report.html"
    page.write_text(render_report(replace(results, verdict=uses), {}), encoding="utf-8")
    return page


def test_all_verdicts_stand_in_one_row_and_what_may_be_done_above_them(chromium, judged_page):
    tab = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
    tab.goto(judged_page.as_uri())
    tiles = [tile.bounding_box() for tile in tab.query_selector_all(".tile")]
    assert len(tiles) == len(RULES)
    assert len({tile["y"] for tile in tiles}) == 1
    assert tab.query_selector(".may").bounding_box()["y"] < tiles[0]["y"]
    assert not tab.query_selector("details.heads").is_visible()  # a pointer shows them
    tab.context.close()


def test_a_phone_tells_what_the_columns_mean(chromium, judged_page):
    tab = chromium.new_context(viewport=PHONE, has_touch=True, is_mobile=True).new_page()
    tab.goto(judged_page.as_uri())
    heads = tab.query_selector("#use details.heads")
    meaning = heads.query_selector("dd")
    assert not meaning.is_visible()
    heads.query_selector("summary").tap()
    assert meaning.is_visible()
    assert meaning.text_content().startswith("with its 95 % interval, articles resampled")
    tab.context.close()
