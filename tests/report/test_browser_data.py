"""The data of the examples' pages, without a browser."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.decoding import Contrastive
from judgebench.report.browser import data
from judgebench.report.browser.data import (
    bounds,
    browse,
    pack,
    plausibility,
    reading_chunks,
    text_chunks,
    unpack,
)
from judgebench.report.browser.index import CONTROL, CUT, index_of, rows_of
from judgebench.report.render import macros
from judgebench.report.views.correlations import advised_rows
from judgebench.report.views.first import looks
from judgebench.results.results import Results
from judgebench.words.errors import UserError
from judgebench.words.formats import two
from tests.report.browsed import output_of, source_of, with_attack, write_run

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_packed_comes_back_and_is_nothing_that_html_could_read(content):
    packed = pack(content)
    assert re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", packed)
    assert unpack(packed) == content
    assert pack(content) == packed


@pytest.fixture(scope="module")
def content(run, tmp_path_factory):
    return Results.load(write_run(with_attack(run), tmp_path_factory.mktemp("run")).path)


@pytest.fixture(scope="module")
def index(content):
    return index_of(content)


def test_every_score_stands_in_its_row_and_column(content, index):
    assert len(index.example) == 160 * 4 * 2
    labels = list(map(str, index.series))
    assert labels[:2] == ["main, greedy", "main, expectation"]
    at = {(index.examples[e], p): row for row, (e, p) in enumerate(zip(index.example, index.place, strict=True))}
    places = {(one.range.minimum, one.attack): i for i, one in enumerate(index.places)}
    seen = 0
    for row in content.scores.itertuples():
        where = at[row.example_id, places[row.range_min, row.attack]]
        series = labels.index(f"{row.judge}, {row.decoding}")
        assert index.scores[series, where] == row.score
        assert ("parsed", "failed", "clamped")[index.status[series, where]] == row.status
        assert index.human[where] == row.human
        seen += 1
    assert seen == np.isfinite(index.scores).sum()


def test_flags_are_those_of_scores_readings_and_records(run, tmp_path):
    readings = run.readings.copy()
    readings["source_tokens_cut"] = [7 if i == 3 else 0 for i in range(len(readings))]
    readings["control_tokens"] = [1 if i == 5 else 0 for i in range(len(readings))]
    records = [dict(one) | {"flags": []} for one in run.records]
    marked = next(one for one in records if one["split"] == "test" and one["range_min"] == 2)
    marked["flags"] = ["constant"]
    judged = Results.load(write_run(run, tmp_path).path)
    judged = dataclasses.replace(judged, readings=readings, metrics=records)
    found = index_of(judged)
    rows = rows_of(found, judged, readings)
    assert found.flags[CUT].tolist() == [rows[3]]
    assert found.flags[CONTROL].tolist() == [rows[5]]
    split = np.array(found.split)[found.example]
    minimum = np.array([one.range.minimum for one in found.places])[found.place]
    assert [who for (flag, *_), who in found.raised.items() if flag == "constant"] == [
        [f"{marked['judge']}, {marked['decoding']}"]
    ]
    assert set(found.flags["constant"]) == set(np.flatnonzero((split == "test") & (minimum == 2)))
    failed = judged.scores[judged.scores["status"] == "failed"]
    wanted = {(row.example_id, row.range_min) for row in failed.itertuples()}
    assert {(found.examples[found.example[row]], minimum[row]) for row in found.flags["failed"]} == wanted


def test_the_pair_s_probabilities_are_the_law_s_and_its_scores_their_best(content, index):
    judged = content
    cuts = bounds(index, judged)
    held = [row for chunk in reading_chunks(index, judged, cuts) for row in chunk["rows"].items()]
    pair = list(map(str, index.series)).index("pair, contrastive")
    seen = 0
    for row, (reading,) in held:
        place, values = index.places[index.place[int(row)]], np.array(reading["p"][str(pair)])
        assert values.sum() == pytest.approx(1, abs=1e-3)
        if place.attack == "none" and index.status[pair, int(row)] == 0:
            score = np.array(place.range.values)[values.argmax()]
            assert score == index.scores[pair, int(row)] or np.ptp(np.sort(values)[-2:]) < 2e-4
            seen += 1
    assert seen > 500


def test_plausibility_is_the_config_s(run, tmp_path):
    entry = {"contrastive": {"alpha": 0.5}}
    judged = Results.load(write_run(run, tmp_path, decoding=entry).path)
    assert plausibility(judged.config, "contrastive") == plausibility(judged.config, "contrastive_per_range") == 0.5
    assert plausibility(judged.config, "greedy") == 0.0
    found = index_of(judged)
    chunks = reading_chunks(found, judged, bounds(found, judged))
    pair = str(list(map(str, found.series)).index("pair, contrastive"))
    for chunk in chunks:
        for row, (reading,) in chunk["rows"].items():
            main = np.exp(np.array(reading["m"], dtype=float))
            dropped = main < 0.499 * main.max()
            assert (np.array(reading["p"][pair])[dropped] == 0).all(), row
    kept = Contrastive(0.5, alpha=0.5).scores(np.log([[0.2, 0.6, 0.2]]), np.log([[0.01, 0.9, 0.09]]), np.arange(3.0))
    assert kept.tolist() == [1.0]


def test_pieces_keep_groups_whole_and_articles_once(content, index, monkeypatch):
    judged = content
    monkeypatch.setattr("judgebench.report.browser.data.CHARACTERS", 3000)
    cuts = bounds(index, judged)
    assert (cuts[0], cuts[-1]) == (0, len(index.examples))
    assert len(cuts) > 3
    for at in cuts[1:-1]:
        assert index.group[at] != index.group[at - 1]
    chunks = text_chunks(index, judged, cuts)
    sources = [group["source"] for chunk in chunks for group in chunk["groups"]]
    assert sorted(sources) == sorted(source_of(group) for group in set(index.group))
    for (first, last), chunk in zip(itertools.pairwise(cuts), chunks, strict=True):
        assert chunk["output"] == [output_of(name) for name in index.examples[first:last]]
        assert chunk["human"][0][1] == ["fluency", 3]


def test_prompts_are_put_together_again_to_the_letter(content, index):
    judged = content
    cuts = bounds(index, judged)
    prompts = {}
    for first, chunk in zip(cuts, reading_chunks(index, judged, cuts), strict=False):
        for row, (reading,) in chunk["rows"].items():
            name = index.examples[index.example[int(row)]]
            texts = {
                "s": source_of(index.group[index.example[int(row)]]),
                "o": output_of(name),
                "x": reading.get("x", ""),
            }
            parts = [chunk["literals"][one] if isinstance(one, int) else texts[one] for one in reading["prompt"]]
            place = index.places[index.place[int(row)]]
            prompts[name, place.range.minimum, place.attack] = "".join(parts)
            assert ("x" in reading["prompt"]) == (place.attack == "dsi")
            assert "s" in reading["prompt"]
        assert len(chunk["literals"]) < 20, first
    wanted = {(row.example_id, row.range_min, row.attack): row.prompt for row in content.readings.itertuples()}
    assert prompts == wanted


def test_of_the_setting_that_is_taken_the_index_has_the_calibrated_scores(content):
    shown = unpack(browse(content).index)
    (lead,) = advised_rows(content)
    ((series, place),) = shown["advised"]
    assert shown["series"][series]["label"] == lead["who"]
    assert (shown["places"][place]["range"], shown["places"][place]["attack"]) == (lead["range"], "none")
    # what the page says of a text to look at is what its index has
    for row in looks(content):
        at = [i for i, name in enumerate(shown["example"]) if shown["ids"][name] == row["example"]]
        (here,) = (i for i in at if shown["place"][i] == place)
        assert row["judge"] == two(shown["calibrated"][here])
        assert row["raw"] == f"{two(shown['scores'][series][here])} in {lead['range']}"
    # clean texts of the reported split are calibrated in every range, and no others
    for place, example, score in zip(shown["place"], shown["example"], shown["calibrated"], strict=True):
        split = shown["splits"][shown["split"][example]]
        assert (score is not None) == (shown["places"][place]["attack"] == "none" and split == "test")


def test_the_examples_of_several_runs_are_refused_in_a_sentence(content):
    with pytest.raises(UserError, match="a page shows those of one run"):
        browse({"A": content, "B": content})


def test_without_texts_no_text_and_no_prompt_is_in_the_page(run, tmp_path):
    read = Results.load(write_run(run, tmp_path, texts=False).path)
    assert read.examples is None
    found = browse(read)
    assert found.texts == []
    whole = json.dumps([unpack(found.index), *(unpack(piece) for piece in found.readings)])
    assert unpack(found.index)["starts"] == []
    for said in ("council", "alert", "Rate coherence"):
        assert said not in whole


def test_of_very_many_examples_whole_groups_are_drawn_and_the_page_says_so(content, monkeypatch):
    whole = browse(content)
    monkeypatch.setattr(data, "SHOWN", whole.examples // 3)
    few = browse(content)
    assert whole.of is None
    assert (few.of, 0 < few.examples <= whole.examples // 3) == (whole.examples, True)
    assert browse(content) == few, "with a seed"
    sizes = content.scores.drop_duplicates("example_id")["group_id"].value_counts()
    shown = unpack(few.index)
    assert [shown["group"].count(i) for i in range(len(shown["groups"]))] == [sizes[name] for name in shown["groups"]]
    assert f"are of all {whole.examples:,}. {few.examples:,} texts in" in macros().examples(few, "texts")


def test_free_answers_and_their_decodings_are_kept(builder, tmp_path):
    run = builder(articles=3, generated=True, assistant=False)
    judged = Results.load(write_run(run, tmp_path).path)
    found = index_of(judged)
    chunks = reading_chunks(found, judged, bounds(found, judged))
    said = [reading["said"] for chunk in chunks for (reading,) in chunk["rows"].values()]
    assert sorted(text for _, _, text in said) == sorted(run.readings["text"])
    assert {(judge, decoding) for judge, decoding, _ in said} == {("main", "greedy")}
