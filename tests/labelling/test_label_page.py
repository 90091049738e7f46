"""The label page: its command, and in a real browser its keys, what it keeps, and texts that are meant to run."""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
from itertools import cycle, islice
from pathlib import Path

import psutil
import pytest

from judgebench.command.label import main
from judgebench.data.labels import read_labels
from tests.conftest import write_rows

CHROMIUM = shutil.which("chromium")
HOSTILE = [
    "</script><script>window.got = 1; alert(1)</script>",
    "<!--<script>window.got = 1</script>-->",
    "]]><svg onload=alert(1)>",
    "<img src=x onerror='window.got = 1'>",
    "<iframe srcdoc='<script>parent.got = 1</script>'></iframe>",
    "<a href='javascript:alert(1)' autofocus onfocus=alert(1)>x</a>",
    "<style>* { display: none }</style><meta http-equiv=refresh content='0;url=http://example.com'>",
    "<base href='http://example.com/'><link rel=stylesheet href=http://example.com/a.css>",
    "\u202e\u2066 turned around \u2069 \u200b\ufeff",
    "null \x00 bell \x07 escape \x1b[2J \u2028 \u2029",
    "{{ 7 * 7 }} {% raw %} ${oc.env:HOME} `${window.got = 1}`",
    "__proto__ constructor \\u003cscript\\u003e &lt;b&gt; &amp;",
    "wide " + "x" * 20_000,
    "line\n" * 3_000,
    "\U0001f600" * 500 + "\u0301" * 500,
]


def hostile_rows(count=60):
    rows = []
    for i, text in enumerate(islice(cycle(HOSTILE), count)):
        row = {"example_id": f"{i} {text[:40]}", "group_id": f"g{i}", "system_id": text[:40]}
        rows.append(row | {"source": f"Article {i}. {text}", "output": f"{i} {text}", "asked": text, "told": text})
    return rows


@pytest.fixture
def label(tmp_path, monkeypatch, called):
    """`judgebench label` in an empty folder: arguments -> (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    texts = [
        {"example_id": f"t{i}", "group_id": f"g{i // 2}", "source": f"Article {i // 2}.", "output": f"Text {i}."}
        for i in range(50)
    ]
    write_rows("texts.jsonl", [{**text, "system_id": "gpt-secret", "human": None} for text in texts])
    return lambda *arguments, **options: called(main, *arguments, **options)


def content_of(path="label.html"):
    """The data of a page."""
    text = Path(path).read_text("utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_page_holds_everything_and_its_policy_lets_nothing_else_in(label):
    _, out, _ = label("texts.jsonl", "n=20", "rubric=Right, or not?", "rater=ann")
    assert "20 texts of 10 groups, drawn from 50 texts of 25 groups with seed=0" in out
    assert "with 10, ±0." in out
    text = Path("label.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1].replace("&#39;", "'")
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?://", text)
    assert "innerHTML" not in text
    assert "gpt-secret" not in text  # who wrote a text is hidden
    assert script.count("\n") <= 360
    content = content_of()
    assert (content["rubric"], content["rater"]) == ("Right, or not?", "ann")
    assert len(content["texts"]) == 20
    assert len(content["order"]) == 22
    assert {each["probability"] for each in content["texts"]} == {10 / 25}


@pytest.mark.parametrize("rubric", ["50% {x} ${y} \\${z} 'q', \"r\"?\n[a]=b\\", HOSTILE[0], HOSTILE[8], "null"])
def test_a_rubric_is_taken_as_it_is_written(label, rubric):
    label("texts.jsonl", f"rubric={rubric}", "rater=O'Neil, Ann")
    content = content_of()
    assert (content["rubric"], content["rater"]) == (rubric, "O'Neil, Ann")


def test_the_same_texts_have_one_page_for_all_raters(label):
    pages = []
    for more in (["rater=ann"], ["rater=ben"], ["seed=1"]):
        Path("label.html").unlink(missing_ok=True)
        label("texts.jsonl", *more)
        pages.append(content_of()["page"])
    assert pages[0] == pages[1] != pages[2]
    label("texts.jsonl", "seed=1")  # the same page again
    code, _, err = label("texts.jsonl", "seed=2", mistaken=True)
    assert (code, "there is another page" in err) == (2, True)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ((), {"fail": "f", "pass": "p"}),
        (("scale=[1,5]",), {1: "1", 2: "2", 3: "3", 4: "4", 5: "5"}),
        (("scale=[0,2]",), {0: "0", 1: "1", 2: "2"}),
        (("scale=[0,1,0.5]",), {0: "1", 0.5: "2", 1: "3"}),
        (("scale=[1,10]",), {i: str(i % 10) for i in range(1, 11)}),
        (("classes=[poor,fair,good]",), {"poor": "p", "fair": "f", "good": "g"}),
        (("classes=[fail,fair]",), {"fail": "1", "fair": "2"}),
        (("classes=[unsafe,safe]",), {"unsafe": "1", "safe": "2"}),  # u is unclear, s saves
    ],
)
def test_every_label_has_a_key(label, given, keys):
    label("texts.jsonl", *given)
    assert {choice["label"]: choice["key"] for choice in content_of()["choices"]} == keys


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
        (["texts.jsonl", "n=0"], "n: 0 should be"),
        (["texts.jsonl", "scale=[0,100]"], "scale: 101 labels, from 0 on; give 2 to 10"),
        (["texts.jsonl", "classes=[pass]"], "the worst first"),
        (["texts.jsonl", "classes=[a,A]"], "each once"),
        (["texts.jsonl", "classes=[fail,Unclear]"], "is what the page calls a text that a rater cannot label"),
        (["nowhere.jsonl", "out=gone/page.html"], "out=gone/page.html: there is no folder for it"),
        (["texts.jsonl", "out=texts.jsonl"], "it would overwrite data.path=texts.jsonl"),
        (["texts.jsonl", "out=page.txt"], "ends in .html"),
        (["texts.jsonl", "data.fields.output=answer"], "no field 'answer'"),
        (["texts.jsonl", "rubrik=x"], "did you mean rubric?"),
        (["texts.jsonl", "data=summeval"], "a page is made of your own texts"),
    ],
)
def test_mistakes_write_no_page(label, given, sentence, tmp_path):
    code, _, err = label(*given, mistaken=True)
    assert code == 2
    assert sentence in err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


@pytest.fixture
def browser(tmp_path):
    """Opens a page, in a profile that stays: path -> a tab; at the end nothing must have gone wrong or out."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')")
    if CHROMIUM is None:
        pytest.skip("there is no chromium (apt-get install chromium)")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    profile = tmp_path / "profile"
    said = []
    asked = []
    with api.sync_playwright() as playwright:

        def opened(path="label.html", **more):
            for file in profile.glob("Singleton*"):  # of a browser that was killed
                file.unlink()
            context = playwright.chromium.launch_persistent_context(
                profile, executable_path=CHROMIUM, args=options, **more
            )
            # which shows a dialog of the system's
            context.add_init_script("window.showSaveFilePicker = undefined;")
            tab = context.pages[0]
            tab.on("console", lambda message: said.append(message.text))
            tab.on("pageerror", lambda error: said.append(str(error)))
            tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
            tab.on("request", lambda request: asked.append(request.url))
            tab.goto((tmp_path / path).as_uri())
            return tab

        yield opened
    assert said == []
    assert {url.split(":")[0] for url in asked} <= {"file", "blob"}


def begin(tab, name):
    tab.keyboard.type(name)
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#work:not([hidden])")


def saved(tab):
    """The lines of the file that the page saves."""
    with tab.expect_download() as download:
        tab.keyboard.press("s")
    path = download.value.path()
    return download.value.suggested_filename, [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def kill(profile):
    """Ends the browser of a profile as a power cut would."""
    for process in psutil.process_iter(["pid", "cmdline"]):
        if f"--user-data-dir={profile}" in (process.info["cmdline"] or []):
            process.send_signal(signal.SIGKILL)


def test_fifty_texts_by_keys_survive_a_kill_and_a_second_rater_sees_nothing_of_them(label, browser, tmp_path):
    label("texts.jsonl", "n=50")
    tab = browser()
    begin(tab, "ann")
    for i in range(30):
        if i == 4:
            tab.keyboard.press("r")
            tab.keyboard.type("puff: invents a mayor")
            tab.keyboard.press("Escape")
        tab.keyboard.press("u" if i == 9 else "pf"[i % 3 == 0])
    assert tab.inner_text("#count") == "30 of 55 labelled, 1 unclear"
    assert tab.inner_text("#said") == "pass. Text 31 of 55."
    assert tab.evaluate("document.activeElement.id") == "place"
    tab.wait_for_selector("#kept[aria-busy=false]")  # within milliseconds, which these keys leave it no time for
    kill(tmp_path / "profile")
    tab = browser()
    begin(tab, "ann")
    assert tab.inner_text("#count") == "30 of 55 labelled, 1 unclear"
    tab.keyboard.press("Control+z")
    assert tab.inner_text("#place") == "Text 30 of 55"
    while tab.locator("#done").is_hidden():
        tab.keyboard.press("p")
    name, lines = saved(tab)
    assert name == "labels_ann.jsonl"
    assert len(lines) == 55
    assert sum(line["repeat"] for line in lines) == 5
    assert (lines[9]["label"], lines[9]["unclear"]) == (None, True)
    assert lines[4]["reason"] == "puff: invents a mayor"
    assert {line["rater"] for line in lines} == {"ann"}
    # a second rater, in the same browser
    tab.reload()
    begin(tab, "ben")
    assert tab.inner_text("#count") == "0 of 55 labelled"
    assert tab.locator("#choices [aria-pressed=true]").count() == 0
    tab.context.close()


def until(tab, expression):
    """Waits for what is true in a tab; the page's policy lets nothing wait within it."""
    for _ in range(200):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(50)
    pytest.fail(f"{expression} has not come true: {tab.inner_text('#count')}")


def test_labellers_see_a_policy_and_the_judges_reason_where_that_is_asked(label):
    rows = [f"How {i}?,So {i}.,Be kind {i}.,It is fine {i}.,{1 + i % 5}" for i in range(24)]
    Path("judged.csv").write_text("\n".join(["question,answer,policy,judge_reason,judge_score", *rows]))
    label("judged.csv")
    text = Path("label.html").read_text()
    assert "Be kind" not in text
    assert "It is fine" not in text
    label("judged.csv", "context=policy", "reason=judge_reason", "out=asked.html")
    content = content_of("asked.html")
    assert all(group["context"].startswith("Be kind") for group in content["groups"])
    assert all(text["shown"][0][1].startswith("It is fine") for text in content["texts"])


def settled(*tabs):
    for tab in tabs:
        tab.wait_for_selector("#kept[aria-busy=false]")


def test_two_windows_of_one_rater_lose_nothing_and_show_each_others_labels(label, browser, tmp_path):
    label("texts.jsonl", "n=50")
    tab = browser()
    other = tab.context.new_page()
    other.add_init_script("window.showSaveFilePicker = undefined;")
    other.goto((tmp_path / "label.html").as_uri())
    for each in (tab, other):
        begin(each, "ann")
    for _ in range(30):
        other.keyboard.press("ArrowRight")
    for i in range(12):  # without a pause
        tab.keyboard.press("p")
        other.keyboard.press("fu"[i % 4 == 3])
    settled(tab, other)
    for each in (tab, other):
        until(each, "document.getElementById('count').textContent == '24 of 55 labelled, 3 unclear'")
    # a label in one window is seen in the other, and what is typed there stays
    other.keyboard.press("r")
    other.keyboard.type("half a rea")
    tab.keyboard.press("p")
    until(other, "document.getElementById('count').textContent == '25 of 55 labelled, 3 unclear'")
    other.keyboard.type("son")
    assert other.input_value("#reason") == "half a reason"
    other.keyboard.press("Escape")
    settled(tab, other)
    files = [saved(each)[1] for each in (tab, other)]
    assert files[0] == files[1]
    given = [(line["label"], line["unclear"]) for line in files[0]]
    assert given[:13] == [("pass", False)] * 13
    assert given[13:25] == [("fail", False), ("fail", False), ("fail", False), (None, True)] * 3
    # a reason without a label is in the file, and is no label
    assert (given[25], files[0][25]["reason"]) == ((None, False), "half a reason")
    kill(tmp_path / "profile")
    tab = browser()
    begin(tab, "ann")
    assert tab.inner_text("#count") == "25 of 55 labelled, 3 unclear"
    assert {len(row["check"]) for row in files[0]} == {8}
    write_rows("labels_ann.jsonl", files[0])
    labels = list(read_labels(Path("labels_ann.jsonl")))
    assert [label.name for label in labels].count("unclear") == 3
    assert len(labels) == 25
    tab.context.close()


def test_an_undone_label_of_another_window_stays(label, browser, tmp_path):
    label("texts.jsonl", "n=20", "rater=ann")
    tab = browser()
    tab.wait_for_selector("#work:not([hidden])")
    tab.keyboard.press("p")
    other = tab.context.new_page()
    other.goto((tmp_path / "label.html").as_uri())
    other.wait_for_selector("#work:not([hidden])")
    other.keyboard.press("ArrowLeft")
    other.keyboard.press("f")
    settled(tab, other)
    until(tab, "state.answers[0].label === 'fail'")
    tab.keyboard.press("z")
    assert tab.inner_text("#said") == "Text 1 was labelled in another window since."
    assert tab.evaluate("state.answers[0].label") == "fail"
    tab.context.close()


def test_each_page_has_a_database_of_its_own(label, browser):
    label("texts.jsonl", "rater=ann")
    label("texts.jsonl", "rater=ann", "seed=1", "out=other.html")
    tab = browser("other.html")
    tab.wait_for_selector("#work:not([hidden])")
    # as a later version of that page may do
    tab.evaluate(
        "new Promise((done, not) => { database.close();"
        " const opening = indexedDB.open(database.name, 9); opening.onsuccess = done; opening.onerror = not; })"
    )
    tab.context.close()
    tab = browser()
    tab.wait_for_selector("#work:not([hidden])")
    tab.keyboard.press("p")
    settled(tab)
    assert "Kept in this browser" in tab.inner_text("#kept")
    tab.context.close()


SLOW_FILE = """
const slow = { name: "labels.jsonl", content: "", writes: 0 };
slow.createWritable = async () => {
  const first = slow.writes++ === 0;
  let text = "";
  return {
    write: async (more) => { text += more; },
    close: async () => { await new Promise((done) => setTimeout(done, first ? 400 : 1)); slow.content = text; },
  };
};
window.slow = slow;
window.showSaveFilePicker = async () => slow;
"""


def test_a_slow_first_save_leaves_no_stale_file(label, browser):
    label("texts.jsonl", "rater=ann")
    tab = browser()
    tab.wait_for_selector("#work:not([hidden])")
    tab.evaluate(SLOW_FILE)
    tab.keyboard.press("p")
    tab.keyboard.press("s")  # which takes long
    until(tab, "slow.writes >= 1")
    for _ in range(3):
        tab.keyboard.press("f")
    until(tab, "slow.writes >= 4")
    tab.evaluate("writing")
    assert tab.evaluate("slow.content.trim().split('\\n').length") == 4
    tab.context.close()


def test_hostile_texts_stay_texts(label, browser):
    rows = hostile_rows()
    write_rows("texts.jsonl", rows)
    fields = ("data.fields.question=asked", "data.fields.context=told")
    label("texts.jsonl", "n=60", f"rubric={HOSTILE[0]}", "rater=</script>", *fields)
    tab = browser(viewport={"width": 390, "height": 844})
    tab.wait_for_selector("#work:not([hidden])")
    seen = set()
    for _ in range(66):
        seen.add(tab.text_content(".judged"))
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.locator("#text *").evaluate_all("(all) => all.every((each) => ['H2', 'P'].includes(each.tagName))")
        tab.keyboard.press("f")
    assert seen == {row["output"] for row in rows}
    assert tab.evaluate("window.got") is None
    _, lines = saved(tab)
    assert {line["example_id"] for line in lines} == {row["example_id"] for row in rows}
    tab.context.close()


def test_a_page_is_named_for_who_hears_it(label, browser):
    label("texts.jsonl", "rater=ann", "scale=[1,3]")
    tab = browser(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    tab.wait_for_selector("#work:not([hidden])")
    assert tab.locator("#choices button").all_inner_texts() == ["1", "2", "3", "unclear"]
    heard = tab.locator("body").aria_snapshot()
    for part in (
        'progressbar "Labelled"',
        'complementary "Rubric"',
        'main "Text 1 of 55"',
        'heading "Text 1 of 55" [level=1]',
        'group "Your label"',
        'button "3"',
        'textbox "Reason, if you like',
        "status",
    ):
        assert part in heard
    tab.context.close()
