"""What a real run's report holds, and that its files are enough to make it anew."""

import numpy as np

from judgebench.command.report import main
from judgebench.report.browser.data import bounds, reading_chunks
from judgebench.report.browser.index import index_of
from judgebench.report.html import render_report
from judgebench.results.results import Results
from tests.conftest import QUICK, pair

ASKED = (*QUICK, "report=true", "decoding=[greedy,contrastive]", "attacks=[none,dsi]", "ranges=[[1,5]]")


def test_the_report_of_a_run_is_made_anew_to_the_letter(judgebench, tiny_pair):
    judgebench(*pair(tiny_pair), *ASKED, "defenses=[none,delimiters]")
    run = Results.load("run")
    page = (run.folder / "report.html").read_bytes()
    assert main(["run"]) == 0
    assert (run.folder / "report.html").read_bytes() == page

    # what stands in the prompts is what texts.parquet says that the judge read, and no clean text is there twice
    changed = run.texts.set_index(["example_id", "attack", "defense"])["text"]
    assert set(changed.index.get_level_values("attack")) == {"dsi"}
    outputs = run.examples.set_index("example_id")["output"]
    for row in run.readings.itertuples():
        text = outputs[row.example_id] if row.attack == "none" else changed[row.example_id, row.attack, row.defense]
        assert text in row.prompt
    assert len(changed) == (run.readings["attack"] == "dsi").sum()

    # the bars of the pair are the law's: the highest is the score that the run itself wrote
    judged = run
    index = index_of(judged)
    series = next(i for i, one in enumerate(index.series) if one.judge == "pair")
    seen = 0
    for chunk in reading_chunks(index, judged, bounds(index, judged)):
        for name, (reading,) in chunk["rows"].items():
            likely = np.array(reading["p"][str(series)])
            values = np.array(index.places[index.place[int(name)]].range.values)
            if np.ptp(np.sort(likely)[-2:]) > 2e-4:  # as far as four decimals tell
                assert values[likely.argmax()] == index.scores[series, int(name)]
                seen += 1
    assert seen > 20


def test_texts_are_left_out_where_that_is_asked(judgebench, tiny_pair):
    judgebench(*pair(tiny_pair), *ASKED, "report=false", "examples=false", "attacks=[none]")
    run = Results.load("run")
    assert run.examples is None
    assert not (run.folder / "examples.parquet").exists()
    # the page alone is left out with report=false: not the verdict, nor what it rests on
    assert {row["use"] for row in run.verdict} >= {"order_texts", "report_scores"}
    assert (run.folder / "worth" / "beside_humans.json").is_file()
    assert not (run.folder / "report.html").exists()
    page = render_report(run, {})
    assert "This run has kept no texts" in page
    assert 'id="data-texts-0"' not in page
    _, _, err = judgebench(*pair(tiny_pair), *ASKED, "examples=perhaps", mistaken=True)
    assert "examples: 'perhaps' should " in err
