"""Figures of a run, by day and by night."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from judgebench.report.figures import style
from judgebench.report.figures.scores import logprob_figure
from judgebench.report.figures.style import (
    _DEFENSES,
    _FIXED,
    _FREE,
    HUMANS,
    INK,
    MUTED,
    NIGHT,
    marks,
    save_figures,
    svg_without_caption,
    with_night,
)
from judgebench.report.layout import draw_all
from judgebench.report.views.bias import human_scores, most_frequent, shares, to_range
from judgebench.results.results import Series, ranges_of
from judgebench.types import ScoreRange
from tests.report.conftest import results_of

SCALE = (1.0, 5.0)


def drawn(run, dimension="coherence"):
    return logprob_figure(results_of(run), dimension)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("least", [None, -np.inf], ids=["as read", "with a probability of 0"])
def test_log_probabilities_are_the_means_over_texts(run, least):
    readings = run.readings
    if least is not None:
        readings = readings.assign(main_logprobs=[[least, *read[1:]] for read in readings["main_logprobs"]])
    figure = logprob_figure(results_of(replace(run, readings=readings)), "coherence")
    test = readings[readings["split"] == "test"]
    for axis, (score_range, part) in zip(figure.axes, ranges_of(test), strict=True):
        for line, model in zip(axis.lines[::3], ("main", "assistant"), strict=True):  # then both caps of its whiskers
            means = np.mean(part[f"{model}_logprobs"].tolist(), axis=0)
            assert line.get_ydata() == pytest.approx(np.maximum(means, np.log(np.finfo(np.float32).tiny)))
        humans = human_scores(run.scores[run.scores["split"] == "test"])
        most = most_frequent(shares(to_range(humans, SCALE, score_range), score_range))
        assert [band.get_x() + 0.5 for band in axis.patches] == most
    models = ["main (SmolLM2-135M-Instruct)", "assistant (early exit at layer 20)"]
    assert legend(figure) == [*models, "humans' most frequent score"]


def test_free_generation_has_no_log_probabilities_to_draw(builder):
    run = builder(generated=True, articles=4, ranges=[ScoreRange(1, 5)])
    assert logprob_figure(results_of(run), "coherence") is None


def test_all_figures_save_as_png_at_200_dpi_and_svg(run, tmp_path):
    figures = draw_all(results_of(run))
    paths = save_figures(figures, tmp_path)
    names = ["logprobs_coherence"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{n}.{k}" for n in names for k in ("png", "svg"))
    assert sorted(paths) == sorted(tmp_path.iterdir())
    with Image.open(tmp_path / "logprobs_coherence.png") as image:
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert image.width == 1600
    assert (tmp_path / "logprobs_coherence.svg").read_text().startswith("<?xml")


def test_nothing_is_clipped_or_overlaps(builder):
    titles = {"main": "a-very-long-organisation-name/and-a-long-model-name-Instruct-v2-dpo", "assistant": "x" * 60}
    run = builder(articles=4)
    for figure in draw_all(results_of(replace(run, titles=titles))).values():
        figure.draw_without_rendering()
        page = figure.bbox
        texts = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text()]
        for text in texts:
            box = text.get_window_extent()
            assert box.x0 >= page.x0 - 1, text.get_text()
            assert box.x1 <= page.x1 + 1, text.get_text()
            assert box.y0 >= page.y0 - 1, text.get_text()
            assert box.y1 <= page.y1 + 1, text.get_text()
        caption = next(text for text in texts if text.get_gid() == "caption").get_window_extent()
        key = figure.legends[0].get_window_extent()
        for axis in figure.axes:
            box = axis.get_tightbbox()
            assert caption.y1 <= box.y0
            assert box.y1 <= key.y0 + 1


def test_settings_of_the_caller_stay_and_equal_data_give_equal_bytes(run):
    before = dict(mpl.rcParams)
    assert style.figure_files({"a": drawn(run)}) == style.figure_files({"a": drawn(run)})
    assert dict(mpl.rcParams) == before


def test_the_pair_looks_contrastive_whatever_its_decoding_is_called():
    usual, own, main = Series("pair", "contrastive"), Series("pair", "b"), Series("main", "greedy")
    assert marks([main, own])[own] == marks([main, usual])[usual]
    assert marks([main, own, usual])[usual] == marks([main, usual])[usual]
    colors = {look.color for look in marks([main, own, usual]).values()}
    assert len(colors) == 3
    assert HUMANS not in colors


@pytest.mark.filterwarnings("error:Glyph")
def test_a_name_with_control_characters_leaves_an_image(builder, tmp_path):
    titles = {"main": "Judge \x1b[31m \x00 <b>", "assistant": None}
    run = replace(builder(articles=4), titles=titles)
    figure = drawn(run)
    (tmp_path / "whole.svg").write_bytes(svg_without_caption(figure))
    save_figures({"saved": figure}, tmp_path)
    for name in ("whole", "saved"):
        ElementTree.parse(tmp_path / f"{name}.svg")
        assert r"\x1b[31m" in (tmp_path / f"{name}.svg").read_text()


PAPER = NIGHT["#ffffff"]


def luminance(color):
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    """WCAG 2's ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_ink_can_be_read_and_lines_be_seen_by_day_and_by_night():
    for color, least in ((INK, 7.0), (MUTED, 4.5)):
        assert contrast(color, "#ffffff") >= least
        assert contrast(NIGHT[color], PAPER) >= least
    for mark in (*_FIXED.values(), *_FREE, *_DEFENSES):
        color = mark.color.lower()
        assert contrast(NIGHT.get(color, color), PAPER) >= 3.0, color


def test_what_is_nearly_paper_by_day_is_nearly_paper_by_night():
    sources = Path(style.__file__).parent.glob("*.py")
    used = {color for source in sources for color in re.findall(r'"(#[0-9a-f]{6})"', source.read_text("utf-8"))}
    light = {color for color in used if contrast(color, "#ffffff") < 1.5} - {"#fefefe", *NIGHT.values()}
    assert {"#ffffff", "#e9e9e9"} <= light  # the ink of dark cells is left alone
    assert light <= NIGHT.keys()
    assert all(contrast(NIGHT[color], PAPER) < 1.5 for color in light)


def test_the_drawing_stays_as_it_was(run):
    figure = drawn(run)
    svg = svg_without_caption(figure)
    # the view ends above the caption
    assert float(ElementTree.fromstring(svg).get("viewBox").split()[3]) < 72 * figure.get_size_inches()[1] - 20
    night = with_night(svg)
    assert re.sub(rb"<style>@media \(prefers-color-scheme:dark\).*?</style>", b"", night) == svg
    assert ElementTree.fromstring(night).tag.endswith("svg")
    for kind, color in (("stroke", "#222222"), ("fill", "#ffffff")):
        assert f'[style*="{kind}: {color}"]{{{kind}:{NIGHT[color]}!important}}' in night.decode()
